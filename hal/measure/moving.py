"""Copies, launches, events: what the runtime of a device takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from hal.measure.chip import host_memory, memory_bytes_per_s
from hal.measure.figures import Figure, Spread
from hal.measure.programs import program
from hal.measure.stopwatch import Stopwatch

if TYPE_CHECKING:
    from hal.stream import Stream

__all__ = ["copies", "costs", "streaming"]

KIB, MIB = 1 << 10, 1 << 20

COPY = """kernel copy {
  param N : int
  input: f32[N] A
  output: f32[N] C
  operation: C[i] = A[i]
}
"""
NEXT_TO_NOTHING = """kernel nothing {
  param N : int
  output: f32[N] C
  operation: C[i] = 1.0
}
"""
SMALL = 64
"""The share of the work whose time is taken off, for what each piece of work costs by itself. It is
so small that caches, which may hold it, hardly count."""
EMPTY_BYTES = 4 * KIB
"""A copy of so many bytes takes its setup and next to nothing more."""


def copies(watch: Stopwatch, large: int) -> Iterator[Figure]:
    """Copies of `large` bytes and of few, each way; the rate is that of the difference."""
    device, small = watch.device, large // SMALL
    ends = [device.alloc(large) for _ in range(2)]
    pinned = device.pinned(large)
    host: Any = pinned.array("u8", large)
    host[:] = 1
    ways: dict[str, Callable[[int], tuple[Any, Any]]] = {
        "host to device": lambda n: (ends[0][0:n], host[0:n]),
        "device to host": lambda n: (host[0:n], ends[0][0:n]),
        "device to device": lambda n: (ends[1][0:n], ends[0][0:n]),
    }
    found: dict[str, Spread] = {}
    for way, of in ways.items():

        def copy(stream: Stream, count: int, of: Any = of, way: str = way) -> None:
            stream.copy(*of(count), borrow=way == "host to device")

        less, more = partial(copy, count=small), partial(copy, count=large)
        found[way] = watch.growth(less, more, large - small)
    yield from _rates(watch, found)
    each = watch.rounds_of(
        [lambda s: s.copy(ends[0][0:EMPTY_BYTES], host[0:EMPTY_BYTES], borrow=True)]
    )
    rate = found["host to device"]
    moved = EMPTY_BYTES * 1e9 / rate.middle if rate.is_sound else 0.0
    path = "overheads.copy_setup_ns"
    yield Figure(
        "setup of a copy",
        "ns",
        watch.spread([times[0] - moved for times in each]),
        (path,),
        declared=watch.device.hcd.get(path),
        note=f"copies of {EMPTY_BYTES:,} bytes in a full queue, without the bytes' own time",
    )
    for buffer in ends:
        buffer.free()
    pinned.free()


def _rates(watch: Stopwatch, found: dict[str, Spread]) -> Iterator[Figure]:
    """Rates of copies; the slower way to or from the host is what the host's memory gives."""
    hcd = watch.device.hcd
    host = host_memory(hcd)
    declared = None if host is None else memory_bytes_per_s(hcd, host)
    ways = ("host to device", "device to host")
    sound = [way for way in ways if found[way].is_sound]
    slower = min(sound, key=lambda way: found[way].middle, default="")
    for way in ways:
        leaf = (f"memory.{host}.bandwidth_bytes_per_s",) if host and way == slower else ()
        note = "pinned memory" + ("; the slower way is the leaf" if leaf else "")
        note += "" if host else "; the description has no host memory to hold it"
        yield Figure(f"copy, {way}", "bytes/s", found[way], leaf, declared=declared, note=note)
    spread = found["device to device"]
    both = Spread(tuple(2 * value for value in spread.values), spread.rounds)
    buffers = str(hcd.get("execution.buffers"))
    yield Figure(
        "copy, device to device, bytes read and written",
        "bytes/s",
        both,
        (f"memory.{buffers}.bandwidth_bytes_per_s",),
        declared=memory_bytes_per_s(hcd, buffers),
        note="copies on the device",
    )


def streaming(watch: Stopwatch, count: int) -> Iterator[Figure]:
    """A generated copy of `count` f32 elements and of few: the rate of the memory."""
    device = watch.device
    small = count // SMALL
    run = program(device, COPY, {"N": count})
    x, y = (device.array(_ones(count)) for _ in range(2))
    spread = watch.growth(
        lambda s: run(s, x, y, N=small), lambda s: run(s, x, y, N=count), 8.0 * (count - small)
    )
    buffers = str(device.hcd.get("execution.buffers"))
    path = f"memory.{buffers}.bandwidth_bytes_per_s"
    yield Figure(
        "memory, by a streaming kernel",
        "bytes/s",
        spread,
        (path,),
        declared=memory_bytes_per_s(device.hcd, buffers),
        note=f"C[i] = A[i], {count:,} f32 elements beyond {small:,}, read and written",
    )


def _ones(count: int) -> Any:
    import numpy as np

    return np.ones(count, np.float32)


def costs(watch: Stopwatch) -> Iterator[Figure]:
    """Launch, event and synchronize."""
    device, hcd = watch.device, watch.device.hcd
    run = program(device, NEXT_TO_NOTHING, {"N": 1})
    one = device.array(_ones(1))
    path = "overheads.launch_ns"
    yield Figure(
        "launch of one element",
        "ns",
        watch.time_ns(lambda stream: run(stream, one, N=1)),
        (path,),
        declared=hcd.get(path),
        note="launches of one program that writes one element, in a full queue",
    )
    if watch.is_virtual:
        note = "the virtual clock does not count it"
        yield Figure("record of an event", "ns", None, note=note)
        yield Figure("synchronize of an idle stream", "ns", None, note=note)
        return
    mark = device.event()
    path = "overheads.event_ns"
    yield Figure(
        "record of an event",
        "ns",
        watch.time_ns(lambda stream: stream.record(mark)),
        (path,),
        declared=hcd.get(path),
        note="records in a full queue",
    )
    path = "overheads.synchronize_ns"
    yield Figure(
        "synchronize of an idle stream",
        "ns",
        watch.host_ns(watch.stream.synchronize),
        (path,),
        declared=hcd.get(path),
        note="on the host's clock",
    )
