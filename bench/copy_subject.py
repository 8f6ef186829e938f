"""Copies between host and device, and host to host for the peers, whose device is the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.limits import limits
from bench.measure import Contender, Figure, rate
from bench.peers import module
from bench.programs import DEVICE, device

SIZES = {"256 KiB": 1 << 18, "1 MiB": 1 << 20, "64 MiB": 1 << 26}
PEERS = ("numpy", "torch", "pyopencl")


def figures() -> Iterator[Figure]:
    """Each size in both directions, then into a buffer that was just allocated."""
    for name, size in SIZES.items():
        for direction in ("host to device", "device to host"):
            yield copy_figure(f"{direction}, {name}, {DEVICE}", size, direction == "host to device")
    yield fresh_figure(SIZES["1 MiB"])


def repeats(size: int) -> int:
    """How many copies make one sample: some 32 MiB, at most 64 copies."""
    return max(1, min(64, (32 << 20) // size))


def copy_figure(name: str, size: int, to_device: bool) -> Figure:
    """One size, one direction, buffers that were used before."""
    import numpy as np

    dev = device()
    stream, buffer = dev.stream(), dev.alloc(size)
    host = np.ones(size, np.uint8)
    ends = (buffer, host) if to_device else (host, buffer)

    def ours() -> None:
        stream.copy(*ends)
        stream.synchronize()

    peers, absent = copy_peers(size)
    count = repeats(size)
    return Figure(
        name,
        "GB/s",
        Contender("stream.copy", rate(ours, size / 1e9, count=count)),
        [Contender(peer, rate(call, size / 1e9, count=count)) for peer, call in peers.items()],
        memcpy_limit(size, count),
        absent,
        goal="at least 0.95 x memcpy",
    )


def memcpy_limit(size: int, count: int) -> Contender:
    """The C library's memcpy between two warm buffers."""
    import numpy as np

    floor = limits()
    arrays = [np.ones(size, np.uint8) for _ in range(2)]
    target, source = (floor.ffi.from_buffer(array) for array in arrays)
    copy = floor.lib.limit_copy
    return Contender("memcpy", rate(lambda: copy(target, source, size), size / 1e9, count=count))


def copy_peers(size: int) -> tuple[dict[str, Callable[[], object]], list[str]]:
    """Return each peer's copy of `size` bytes by name, and the peers that are absent."""
    import numpy as np

    a, b = np.ones(size, np.uint8), np.ones(size, np.uint8)
    calls: dict[str, Callable[[], object]] = {"numpy copyto": lambda: np.copyto(a, b)}
    torch, cl = module("torch"), module("pyopencl")
    if torch is not None:
        torch.set_num_threads(1)
        c, d = torch.ones(size, dtype=torch.uint8), torch.ones(size, dtype=torch.uint8)
        calls["torch copy_"] = lambda: c.copy_(d)
    if cl is not None:
        context = cl.create_some_context(interactive=False)
        queue = cl.CommandQueue(context)
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
        calls["OpenCL"] = lambda: cl.enqueue_copy(queue, buffer, b, is_blocking=True)
    found = {"numpy": np, "torch": torch, "pyopencl": cl}
    return calls, [name for name in PEERS if found[name] is None]


def fresh_figure(size: int) -> Figure:
    """Allocate, copy in, free: what a framework does with each new tensor."""
    import numpy as np

    dev = device()
    stream, host = dev.stream(), np.ones(size, np.uint8)

    def ours() -> None:
        buffer = dev.alloc(size)
        stream.copy(buffer, host)
        stream.synchronize()
        buffer.free()

    count = repeats(size)
    calls: dict[str, Callable[[], object]] = {"numpy copy": host.copy}
    torch = module("torch")
    if torch is not None:
        source = torch.ones(size, dtype=torch.uint8)
        calls["torch clone"] = source.clone
    return Figure(
        f"host to a fresh device buffer, 1 MiB, {DEVICE}",
        "GB/s",
        Contender("alloc, copy, free", rate(ours, size / 1e9, count=count)),
        [Contender(name, rate(call, size / 1e9, count=count)) for name, call in calls.items()],
        memcpy_limit(size, count),
        [] if torch is not None else ["torch"],
        goal="at least 0.95 x memcpy",
    )
