"""Calls through the table, launches of a tiny kernel, and replay of a graph."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.limits import limits
from bench.measure import SCALE, Contender, Figure, Sample, per_call
from bench.peers import Peer, launch_peers
from bench.programs import DEVICE, add_kernel, device

LAUNCHES = 500
REPLAYED = 100


def figures() -> Iterator[Figure]:
    """A bare call first, then more and more of a launch."""
    yield call_figure()
    peers, absent = launch_peers()
    yield enqueue_figure(peers, absent)
    yield latency_figure(peers, absent)
    yield graph_figure()


def call_figure() -> Figure:
    """One call with one number from Python into C and through a table of functions."""
    from hal import _native

    lib: Any = _native.lib
    stream = device().stream()
    port, handle = stream.device.native, stream.handle
    query, shim = lib.hal_stream_query, limits().lib.limit_query
    absolute = ctypes.CDLL(None).abs
    absolute.argtypes = [ctypes.c_int]
    return Figure(
        "a call through the table (stream query)",
        "ns",
        Contender("hal._native", per_call(lambda: query(port, handle), "ns", count=2000)),
        [Contender("abs of libc by ctypes", per_call(lambda: absolute(2), "ns", count=2000))],
        Contender("C shim by cffi", per_call(lambda: shim(2), "ns", count=2000)),
        goal="at most 1.2 x the shim, and what validate adds",
    )


def tiny_launch() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return (launch, synchronize) of a sum of 64 floats on a stream of its own."""
    import numpy as np

    kernel, dev = add_kernel(), device()
    ones = np.ones(64, np.float32)
    a, b, out = dev.array(ones), dev.array(ones), dev.empty(64, np.float32)
    stream = dev.stream()
    launch = kernel.launch
    return lambda: launch(stream, a, b, out), stream.synchronize


def enqueue(launch: Callable[[], object], synchronize: Callable[[], object]) -> Sample:
    """Make a sample: the time of one launch, many in a row, not waiting for their end."""

    def sample() -> float:
        begin = time.perf_counter()
        for _ in range(LAUNCHES):
            launch()
        seconds = time.perf_counter() - begin
        synchronize()
        return seconds / LAUNCHES * SCALE["us"]

    return sample


def enqueue_figure(peers: list[Peer], absent: list[str]) -> Figure:
    """The time until a launch returns; the peers' as they are, with or without a queue."""
    shim, ffi = limits().lib.limit_launch, limits().ffi
    packed, null = bytes(72), ffi.NULL
    floor = per_call(lambda: shim(1, 2, packed, 72, null, 0, 0), "us", count=LAUNCHES)
    return Figure(
        f"enqueue a tiny kernel, {DEVICE}",
        "us",
        Contender("launch", enqueue(*tiny_launch())),
        [Contender(peer.name, enqueue(peer.launch, peer.synchronize)) for peer in peers],
        Contender("7-argument C shim by cffi", floor),
        absent,
        goal="at most 1.0 us (2 us required)",
    )


def latency_figure(peers: list[Peer], absent: list[str]) -> Figure:
    """The time from a launch to the end of its work, one at a time."""

    def both(launch: Callable[[], object], synchronize: Callable[[], object]) -> Sample:
        def call() -> None:
            launch()
            synchronize()

        return per_call(call, "us", count=200)

    ffi, add = limits().ffi, limits().lib.limit_add64
    a, b, out = (ffi.new("float[64]") for _ in range(3))
    return Figure(
        f"launch a tiny kernel and wait for it, {DEVICE}",
        "us",
        Contender("launch + synchronize", both(*tiny_launch())),
        [Contender(peer.name, both(peer.launch, peer.synchronize)) for peer in peers],
        Contender(
            "the sum itself, called by cffi", per_call(lambda: add(1, a, b, out), "us", count=200)
        ),
        absent,
        goal="at most 3 us",
    )


def graph_figure() -> Figure:
    """The time to enqueue one recorded kernel of a graph of many."""
    import numpy as np

    kernel, dev = add_kernel(), device()
    a, b, out = (dev.array(np.ones(64, np.float32)) for _ in range(3))
    stream = dev.stream()
    with stream.capture() as graph:
        for _ in range(REPLAYED):
            kernel.launch(stream, a, b, out)

    def sample() -> float:
        begin = time.perf_counter()
        for _ in range(10):
            graph.launch(stream)
        seconds = time.perf_counter() - begin
        stream.synchronize()
        return seconds / 10 / REPLAYED * SCALE["us"]

    floor, packed = limits().lib.limit_replay, bytes(72)
    limit = per_call(lambda: floor(REPLAYED, packed, 72), "us", count=10)
    return Figure(
        f"replay a graph of {REPLAYED} kernels, a kernel",
        "us",
        Contender("graph.launch", sample),
        [],
        Contender("enqueues from a loop in C", lambda: limit() / REPLAYED),
        goal="at most 0.2 us",
    )
