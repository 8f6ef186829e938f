"""Virtual time: what operations share, in the order of the host's calls."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hal
from hal import dtypes
from hal.forecast import Forecaster
from hal.vil.recipes import elementwise

MIB = 1 << 20
ROWS = 64  # Rows of a tile; one tile is one program.


class Bench:
    """A device of the simulated chip with streams whose work is timed."""

    def __init__(self, device: hal.Device) -> None:
        self.device = device
        self.kernel = device.load(
            elementwise("un", "exp", [dtypes.f32], dtypes.f32, tile=(ROWS, 64))
        )["main"]
        self.kept: list[hal.Array] = []  # A pool that takes buffers back asks how far work is.
        self.start = device.event(timing=True)
        device.stream().record(self.start)

    def launch(self, stream: hal.Stream, programs: int) -> None:
        """Launch so many equal programs."""
        x, y = (self.device.empty((ROWS * programs, 64), np.float32) for _ in range(2))
        self.kept += [x, y]
        stream.copy(x, np.zeros(x.shape, np.float32))
        self.kernel.launch(stream, ROWS * programs, 64, x, y)

    def end_of(self, stream: hal.Stream) -> int:
        """Virtual time of a stream's end since the start."""
        event = self.device.event(timing=True)
        stream.record(event)
        stream.synchronize()
        return self.start.elapsed_ns(event)


def spans(programs: tuple[int, ...]) -> list[int]:
    """Durations from the records of launches on a stream each, as begin and end."""
    with hal.open("sim:sim/npu-small") as device:
        bench = Bench(device)
        streams = [device.stream() for _ in programs]
        inputs = [
            (device.empty((ROWS * n, 64), np.float32), device.empty((ROWS * n, 64), np.float32))
            for n in programs
        ]
        ends = [device.event(timing=True) for _ in programs]
        for stream, n, (x, y), end in zip(streams, programs, inputs, ends, strict=True):
            bench.kernel.launch(stream, ROWS * n, 64, x, y)
            stream.record(end)
        for stream in streams:
            stream.synchronize()
        return [bench.start.elapsed_ns(end) for end in ends]


def test_two_launches_that_fill_the_chip_take_turns() -> None:
    """Four cores: the second launch of four programs begins when the first has ended."""
    first, second = spans((4, 4))
    alone = first - 2000  # Without the overhead, which the two share in time.
    assert second == pytest.approx(first + alone, abs=2)


def test_launches_that_fit_beside_each_other_run_at_once() -> None:
    first, second = spans((2, 2))
    assert second == first


def test_a_copy_goes_on_beside_a_launch() -> None:
    with hal.open("sim:sim/npu-small") as device:
        bench = Bench(device)
        one, other = device.stream(), device.stream()
        buffer = device.alloc(MIB)
        bench.launch(one, 4)
        other.copy(buffer, np.zeros(MIB, np.uint8))
        ends = bench.end_of(one), bench.end_of(other)
    # 1 MiB at 16 GB/s and the setup; the short copy of the other stream came first.
    assert ends[1] == pytest.approx(1500 + 65536 + 65536 / 16, abs=2000)
    assert ends[0] < ends[1]


def test_copies_of_one_direction_share_their_engine() -> None:
    with hal.open("sim:sim/npu-small") as device:
        bench = Bench(device)
        streams = [device.stream() for _ in range(3)]
        buffers = [device.alloc(MIB) for _ in streams]
        for stream, buffer in zip(streams, buffers, strict=True):
            stream.copy(buffer, np.zeros(MIB, np.uint8))
        ends = [bench.end_of(stream) for stream in streams]
    assert ends == [1500 + 65536, 1500 + 2 * 65536, 1500 + 3 * 65536]


def peer_ends(pairs: list[tuple[int, int]], options: dict[str, str] | None = None) -> list[int]:
    """Ends of copies of 1 MiB between devices of a ring of four, all enqueued at once."""
    port = hal.load_port("sim:sim/npu-small-x4", options=options or {})
    devices = [port.device(index) for index in range(4)]
    ends = []
    work = []
    for source, target in pairs:
        stream = devices[source].stream()
        start, end = (devices[source].event(timing=True) for _ in range(2))
        stream.record(start)
        stream.copy_peer(devices[target].alloc(MIB), devices[source].alloc(MIB))
        stream.record(end)
        work.append((stream, start, end))
    for stream, start, end in work:
        stream.synchronize()
        ends.append(start.elapsed_ns(end))
    for device in devices:
        device.close()
    port.close()
    return ends


def test_copies_over_one_link_take_turns() -> None:
    first, second = peer_ends([(0, 1), (0, 1)])
    alone = MIB / (25e9 * 256 / 272) * 1e9
    assert second - first == pytest.approx(alone, abs=2)


def test_copies_over_different_links_run_at_once() -> None:
    first, second = peer_ends([(0, 1), (2, 3)])
    assert second == first


def test_the_two_directions_of_a_link_are_two_ways() -> None:
    first, second = peer_ends([(0, 1), (1, 0)])
    assert second == first


def test_a_slow_link_takes_the_bytes_longer() -> None:
    (fast,), (slow,) = peer_ends([(0, 1)]), peer_ends([(0, 1)], {"fault_slow_link": "4"})
    assert slow - fast == pytest.approx(3 * MIB / (25e9 * 256 / 272) * 1e9, abs=4)


def test_virtual_time_follows_the_calls_and_not_the_threads() -> None:
    assert len({tuple(spans((4, 1, 3, 4, 2))) for _ in range(5)}) == 1


@pytest.mark.parametrize("ranks", [4, 1024])
def test_a_ring_all_reduce_takes_its_closed_form(ranks: int) -> None:
    """2 (n − 1) steps of latency and bytes / n over each link."""
    with Forecaster() as chip:
        time_ns, messages = chip.all_reduce(ranks, 1e9, link_bytes_per_s=1e11, link_latency_ns=1000)
    steps = 2 * (ranks - 1)
    assert messages == steps * ranks
    assert time_ns == pytest.approx(steps * (1000 + 1e9 / ranks / 1e11 * 1e9), rel=1e-9)


def test_an_all_reduce_of_a_system_uses_its_links() -> None:
    with Forecaster("nvidia/h100-x8") as system:
        ring, _ = system.all_reduce(8, 1e9)
        doubling, _ = system.all_reduce(8, 1e9, algorithm="doubling")
    rate = 18 * 25e9 * 256 / 272
    assert ring == pytest.approx(14 * (1e9 / 8 / rate * 1e9 + 2 * 418.125 + 100), rel=1e-5)
    assert doubling == pytest.approx(3 * (1e9 / rate * 1e9 + 2 * 418.125 + 100), rel=1e-5)


def test_timing_alone_takes_a_memory_that_no_host_has() -> None:
    """Four buffers of 16 GiB and a launch over them: nothing is touched."""
    size = 1 << 32
    port = hal.load_port("sim:nvidia/h100-sxm", options={"functional": "off"})
    with port.device(0) as device:
        x, y = device.alloc(4 * size), device.alloc(4 * size)
        kernel = device.load(elementwise("un", "exp", [dtypes.f32], dtypes.f32, tile=(64, 256)))[
            "main"
        ]
        stream = device.stream()
        start, end = device.event(timing=True), device.event(timing=True)
        stream.record(start)
        kernel.launch(stream, size // 65536, 65536, x, y)
        stream.record(end)
        stream.synchronize()
        elapsed = start.elapsed_ns(end)
    assert elapsed > 8 * size / 3.35e12 * 1e9


def test_a_trace_that_cannot_be_written_is_refused_at_load(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "trace.json"
    with pytest.raises(hal.errors.HalError, match=r"option trace=.* cannot be written: No such"):
        hal.load_port("sim", options={"trace": str(path)})


def test_a_trace_has_streams_engines_and_links_as_tracks(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    peer_ends([(0, 1), (0, 1)], {"trace": str(path)})
    links = [e for e in json.loads(path.read_text())["traceEvents"] if e["name"] == "thread_name"]
    assert "link l01" in {e["args"]["name"] for e in links}
    port = hal.load_port("sim:sim/npu-small", options={"trace": str(path)})
    with port.device(0) as device:
        bench = Bench(device)
        stream = device.stream()
        bench.launch(stream, 4)
        stream.synchronize()
    port.close()
    trace = json.loads(path.read_text())
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {"cores", "engine dma_in", "engine vector", "copy to device"} <= names
    assert any(name.startswith("stream ") for name in names)
    kernels = [e for e in spans if e["cat"] == "kernel" and e["name"] == "main"]
    assert {"programs": 4, "cores": 4}.items() <= kernels[0]["args"].items()
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans)
