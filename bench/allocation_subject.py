"""Allocate and free: from the caching allocator, and from the port itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.limits import limits
from bench.measure import Contender, Figure, per_call
from bench.peers import module
from bench.programs import DEVICE, device

SIZES = {"4 KiB": 1 << 12, "1 MiB": 1 << 20}
COUNT = 500
PEERS = ("torch", "pyopencl")


def figures() -> Iterator[Figure]:
    """Each size: a range of the caching allocator, a whole array from it, the port's own memory."""
    dev = device()
    stream, pool = dev.stream(), dev.pool

    for name, size in SIZES.items():
        ways: dict[str, Callable[[], object]] = {
            "pool": lambda size=size: pool.free(pool.alloc(size, stream), stream),
            "array": lambda size=size: dev.empty(size, "u8", stream=stream),
            "buffer, not cached": lambda size=size: dev.alloc(size).free(),
        }
        for way, call in ways.items():
            yield figure(f"allocate and free {name}, {way}, {DEVICE}", size, call)


def figure(name: str, size: int, ours: Callable[[], object]) -> Figure:
    """One size, taken and given back again and again."""
    peers, absent = alloc_peers(size)
    floor = limits()
    out = floor.ffi.new("uint64_t *")
    take, give = floor.lib.limit_alloc, floor.lib.limit_free

    def shim() -> None:
        take(size, out)
        give(out[0])

    return Figure(
        name,
        "us",
        Contender("ours", per_call(ours, "us", count=COUNT)),
        [Contender(peer, per_call(call, "us", count=COUNT)) for peer, call in peers.items()],
        Contender("free-list pop and push by cffi", per_call(shim, "us", count=COUNT)),
        absent,
        goal="at most 0.4 us, cached",
    )


def alloc_peers(size: int) -> tuple[dict[str, Callable[[], object]], list[str]]:
    """Return each peer's allocate-and-free by name, and the peers that are absent."""
    import numpy as np

    calls: dict[str, Callable[[], object]] = {"numpy empty": lambda: np.empty(size, np.uint8)}
    torch, cl = module("torch"), module("pyopencl")
    if torch is not None:
        calls["torch empty"] = lambda: torch.empty(size, dtype=torch.uint8)
    if cl is not None:
        calls |= opencl_allocs(cl, size)
    found = {"torch": torch, "pyopencl": cl}
    return calls, [peer for peer in PEERS if found[peer] is None]


def opencl_allocs(cl: Any, size: int) -> dict[str, Callable[[], object]]:
    """OpenCL's own buffers, and PyOpenCL's pool, which caches like ours."""
    tools = module("pyopencl.tools")
    assert tools is not None
    context = cl.create_some_context(interactive=False)
    pool = tools.MemoryPool(tools.ImmediateAllocator(cl.CommandQueue(context)))
    return {
        "OpenCL buffer": lambda: cl.Buffer(context, cl.mem_flags.READ_WRITE, size).release(),
        "PyOpenCL MemoryPool": lambda: pool.allocate(size).release(),
    }
