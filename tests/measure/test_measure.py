"""`hal hcd measure` on chips whose physics is known: what it finds is what was described."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

import hal
from hal.cli.hcd import command
from hal.errors import Unsupported
from hal.hcd import Hcd, load
from hal.measure import Figure, Spread, description, measure
from hal.measure.stopwatch import Stopwatch

CHIP = """hcd_version: "1.0"
extends: sim/npu-small
identity: {product: altered}
memory:
  dram: {bandwidth_bytes_per_s: 64000000000}
  host: {bandwidth_bytes_per_s: 8000000000}
overheads: {launch_ns: 4000, copy_setup_ns: 700}
"""


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A description that differs from every shipped one where it is measured."""
    path = tmp_path_factory.mktemp("chip") / "altered.hcd.yaml"
    path.write_text(CHIP, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def measured(chip: Path) -> Hcd:
    """What `hal hcd measure` writes of that chip."""
    target = chip.with_name("measured.hcd.yaml")
    done = call("measure", f"sim:{chip}", "--quick", "-o", target)
    assert done.exit_code == 0, done.output
    return load(target)


@pytest.fixture(scope="module")
def figures() -> Iterator[dict[str, Figure]]:
    """All figures of the small example chip, by what they are of."""
    with hal.open("sim:sim/npu-small") as device:
        yield {figure.what: figure for figure in measure(device)}


@pytest.mark.parametrize(
    ("path", "share"),
    [
        ("memory.dram.bandwidth_bytes_per_s", 0.01),
        ("memory.host.bandwidth_bytes_per_s", 0.01),
        ("overheads.copy_setup_ns", 0.01),
        ("overheads.launch_ns", 0.05),
    ],
)
def test_the_simulated_chips_own_figures_come_back(
    measured: Hcd, chip: Path, path: str, share: float
) -> None:
    assert measured[path] == pytest.approx(load(chip)[path], rel=share)


def test_each_number_of_the_file_says_that_it_was_measured(measured: Hcd) -> None:
    assert measured.provenance("memory.dram.bandwidth_bytes_per_s") == "measured"
    assert measured.provenance("memory.dram.latency_ns") == "estimated"
    entry = next(item for item in measured["provenance"] if item["id"] == "measured-1")
    assert entry["reference"].startswith("hal hcd measure sim:")
    assert "min 8e+09, median 8e+09, max 8e+09" in entry["conditions"]


def test_a_model_keeps_the_rate_that_a_generated_product_does_not_reach(
    measured: Hcd, chip: Path
) -> None:
    path = "compute.cube.operations.f32.macs_per_cycle"
    assert measured[path] == load(chip)[path]
    (claim,) = measured["claims.matmul"]
    assert claim["dtype"] == "f32"
    assert 0.5 < claim["flops_per_s"] / (2 * 1024 * 4e9) < 1


def test_the_file_is_a_device_again(measured: Hcd) -> None:
    with hal.open(f"sim:{measured.file}") as device:
        assert device.hcd["overheads.launch_ns"] == measured["overheads.launch_ns"]


@pytest.mark.parametrize(
    ("what", "per_cycle"), [("add f32", 64), ("add f64", 16), ("add i32", 64), ("div f32", 8)]
)
def test_rates_of_vector_work_come_back(
    figures: dict[str, Figure], what: str, per_cycle: int
) -> None:
    spread = figures[what].spread
    assert spread is not None
    assert spread.middle == pytest.approx(per_cycle, rel=0.06)


def test_what_a_virtual_clock_does_not_count_is_told(figures: dict[str, Figure]) -> None:
    assert figures["record of an event"].spread is None
    assert figures["record of an event"].note == "the virtual clock does not count it"


def test_a_spent_budget_leaves_the_rest_out_and_says_so() -> None:
    with hal.open("sim:sim/npu-small") as device:
        found = measure(device, quick=True, budget_s=0.0)
    assert {figure.note for figure in found} == {"left out: the budget is spent"}


def test_work_that_takes_no_time_gives_no_number() -> None:
    with hal.open("sim:sim/npu-small") as device:
        spread = Stopwatch(device, rounds=3).time_ns(lambda stream: None)
    assert (spread.values, spread.is_sound) == ((), False)


def test_more_work_in_less_time_gives_no_number() -> None:
    with hal.open("sim:sim/npu-small") as device:
        watch = Stopwatch(device, rounds=3)
        buffer = device.alloc(4096)
        spread = watch.growth(
            lambda stream: stream.fill(buffer, 0, "u8"), lambda stream: None, amount=1.0
        )
    assert not spread.is_sound


def test_a_device_without_timed_events_is_measured_by_the_hosts_clock() -> None:
    with hal.open("sim:sim/npu-small") as device:

        def refuse(**_: object) -> None:
            raise Unsupported("no timed events", call="event.create")

        bare = SimpleNamespace(hcd=device.hcd, stream=device.stream, event=refuse)
        watch = Stopwatch(bare, rounds=1)  # type: ignore[arg-type]
        assert not watch.uses_events
        assert watch.time_ns(lambda stream: None).is_sound


def figure(path: str, *values: float, is_floor: bool = False) -> Figure:
    return Figure("x", "x", Spread(values, len(values)), (path,), is_floor=is_floor, note="x")


def text_of(hcd: Hcd, *found: Figure) -> str:
    return description(
        found, hcd, extends="x/y", device="a device", command="hal", date="2026-12-01"
    )


def test_of_two_figures_of_one_leaf_the_greater_is_written() -> None:
    path = "memory.dram.bandwidth_bytes_per_s"
    text = text_of(load("sim/npu-small"), figure(path, 5e9), figure(path, 7e9))
    assert "bandwidth_bytes_per_s: 7000000000  # was 128000000000" in text
    assert "5000000000" not in text


def test_a_datasheets_larger_rate_stays() -> None:
    hcd = load("nvidia/a100-sxm-80gb")
    unit = next(item for item in hcd["compute"] if item["kind"] == "matrix")
    path = f"compute.{unit['id']}.operations.{unit['operations'][0]['id']}.macs_per_cycle"
    assert hcd.provenance(path) == "datasheet"
    assert "macs_per_cycle" not in text_of(hcd, figure(path, hcd[path] / 2, is_floor=True))
    assert "macs_per_cycle" in text_of(hcd, figure(path, hcd[path] * 2, is_floor=True))


def test_what_the_port_told_is_kept_and_not_measured_over() -> None:
    path = "memory.dram.bandwidth_bytes_per_s"
    hcd = load("sim/npu-small").overlay({path: 1000000000})
    text = text_of(hcd, figure(path, 7e9))
    assert "bandwidth_bytes_per_s: 1000000000  # told by the port" in text
    assert "7000000000" not in text


def test_the_command_prints_a_table_or_json_without_a_file() -> None:
    done = call("measure", "sim", "--quick", "--budget", "60s", "--json")
    assert done.exit_code == 0
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert rows["copy, host to device"]["median"] == pytest.approx(16e9, rel=0.01)
    assert rows["copy, host to device"]["paths"] == ["memory.host.bandwidth_bytes_per_s"]


def test_wrong_words_are_refused(tmp_path: Path) -> None:
    assert call("measure", "sim", "--budget", "soon").exit_code == 2
    assert call("measure", "sim", "-o", tmp_path).exit_code == 2
