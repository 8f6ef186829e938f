"""Cost against work: one unit of work costs as much among many as among few.

Each figure is the cost of one unit at a size, beside the cost at the smallest size of the same
curve, taken in turns. A ratio to the limit well above 1 means that the curve bends upward.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from bench.measure import SCALE, Contender, Figure
from bench.programs import DEVICE, add_kernel, device

Work = Callable[[int], None]

LAUNCHES = (100, 1_000, 10_000, 100_000)
ALLOCATIONS = (10, 100, 1_000, 10_000)
STREAMS = (1, 4, 16, 64)
GRAPH_NODES = (10, 100, 1_000, 10_000)


def figures() -> Iterator[Figure]:
    """Four curves, each from its smallest size on."""
    yield from curve("launches on a stream, one", LAUNCHES, launches())
    yield from curve("live allocations, one", ALLOCATIONS, allocations())
    yield from curve("streams with a launch each, one", STREAMS, streams())
    yield from curve("nodes of a replayed graph, one", GRAPH_NODES, graph_nodes())


def curve(name: str, sizes: tuple[int, ...], work: Work) -> Iterator[Figure]:
    """Figures of one curve; the smallest size is the limit of the others."""

    def cost(size: int) -> Callable[[], float]:
        repeats = max(1, sizes[1] // size)

        def sample() -> float:
            begin = time.perf_counter()
            for _ in range(repeats):
                work(size)
            return (time.perf_counter() - begin) / repeats / size * SCALE["us"]

        return sample

    first = Contender(f"among {sizes[0]}", cost(sizes[0]))
    for size in sizes[1:]:
        yield Figure(
            f"{name} of {size:,}, {DEVICE}",
            "us",
            Contender(f"among {size}", cost(size)),
            limit=first,
            goal="the curve does not bend upward",
            rounds=7,
        )


def launches() -> Work:
    """Enqueue a number of kernels on one stream and wait for the last."""
    import numpy as np

    dev, kernel = device(), add_kernel()
    a, b, out = (dev.array(np.ones(64, np.float32)) for _ in range(3))
    stream = dev.stream()

    def work(count: int) -> None:
        for _ in range(count):
            kernel.launch(stream, a, b, out)
        stream.synchronize()

    return work


def allocations() -> Work:
    """Hold a number of small arrays at a time, then give all back."""
    dev = device()
    stream = dev.stream()

    def work(count: int) -> None:
        held = [dev.empty(64, "f32", stream=stream) for _ in range(count)]
        held.clear()

    return work


def streams() -> Work:
    """Launch on each of a number of streams, then wait for all."""
    import numpy as np

    dev, kernel = device(), add_kernel()
    a, b, out = (dev.array(np.ones(64, np.float32)) for _ in range(3))
    all_streams = [dev.stream() for _ in range(max(STREAMS))]

    def work(count: int) -> None:
        for stream in all_streams[:count]:
            kernel.launch(stream, a, b, out)
        for stream in all_streams[:count]:
            stream.synchronize()

    return work


def graph_nodes() -> Work:
    """Replay a recorded graph of a number of kernels."""
    import numpy as np

    dev, kernel = device(), add_kernel()
    a, b, out = (dev.array(np.ones(64, np.float32)) for _ in range(3))
    stream = dev.stream()
    graphs = {}
    for count in GRAPH_NODES:
        with stream.capture() as graph:
            for _ in range(count):
                kernel.launch(stream, a, b, out)
        graphs[count] = graph

    def work(count: int) -> None:
        graphs[count].launch(stream)
        stream.synchronize()

    return work
