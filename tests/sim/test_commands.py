"""The command `hal sim`: what it prints, and what it refuses in one clear message."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hal.cli import run_group as run
from hal.cli.sim import command
from hal.hcd import load
from hal.sim import calibration, gemm
from hal.sim.chip import Chip

Call = Callable[..., tuple[int, str, str]]
CHIP = "nvidia/h100-sxm"
ODD = "op,dtype,M,N,K\nmatmul,bf16,999,4097,333\nsoftmax,fp16,17,1000,\ngelu,fp16,65537,,\n"


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run `hal sim WORDS…` as a user does and return (exit code, stdout, stderr)."""

    def invoke(*words: str | Path) -> tuple[int, str, str]:
        code = run(command, prog_name="hal sim", args=[str(word) for word in words])
        out = capsys.readouterr()
        return code, out.out, out.err

    return invoke


def table(tmp_path: Path, text: str) -> Path:
    """Write a CSV file."""
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_predict_adds_a_column_and_keeps_the_others(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    code, _, err = call("predict", table(tmp_path, ODD), "--chip", CHIP, "--out", out)
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert code == 0
    assert [row["op"] for row in rows] == ["matmul", "softmax", "gelu"]
    assert all(1 < float(row["predicted_us"]) < 100 for row in rows)
    assert "inputs from nvidia/h100-sxm are estimated" in err


def test_predict_takes_collectives_and_products_without_op(call: Call, tmp_path: Path) -> None:
    both = "op,n_devices,bytes,M,N,K\nall_reduce,8,1048576,,,\n,,,64,64,64\n"
    code, out, _ = call("predict", table(tmp_path, both), "--chip", CHIP)
    times = [float(row["predicted_us"]) for row in csv.DictReader(io.StringIO(out))]
    assert code == 0
    assert times[0] > times[1] > 1


def test_the_harness_adds_host_time(call: Call, tmp_path: Path) -> None:
    path = table(tmp_path, "op,M,N\ngelu,1024,\n")
    bare = call("predict", path, "--chip", CHIP)[1].split(",")[-1]
    eager = call("predict", path, "--chip", CHIP, "--harness", "pytorch-eager")[1].split(",")[-1]
    assert float(eager) > float(bare) + 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("M,N\n1,2\n", "the columns op and K are missing"),
        ("op,M,N,K\nconv9,1,2,3\n", "line 2: the operator 'conv9' is unknown; known are matmul"),
        ("op,M,N,K\nmatmul,1,x,3\n", "line 2: n is 'x', not a number"),
        ("op,M,N,K\nmatmul,1,,3\n", "line 2: the column 'n' is empty or missing"),
        ("op,M,N,K\nmatmul,0,1,3\n", "line 2: m is 0; it must be at least 1"),
        ("op,M,N,K,dtype\nmatmul,1,1,3,f7\n", "line 2: dtype 'f7' is unknown"),
        ("op,M,N,K,dtype\nmatmul,1,1,3,int64\n", "line 2: dtype 'int64' is unknown"),
        ("op,bytes\nall_reduce,64\n", "line 2: the column 'n_devices' is empty or missing"),
        ("op,M,M\nmatmul,1,1\n", "two columns are named 'm'"),
        ("op,M,N,K\n", "has no rows below its head line"),
        ("", "has no head line"),
        ("op,M,N,K\nmatmul,1,2,3,4\n", "line 2 has 5 cells, the head 4"),
    ],
)
def test_a_wrong_table_is_one_clear_error(
    call: Call, tmp_path: Path, text: str, message: str
) -> None:
    code, _, err = call("predict", table(tmp_path, text), "--chip", CHIP)
    assert (code, message in err) == (2, True), err


def test_a_path_that_cannot_be_written_is_named(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "no" / "out.csv"
    code, _, err = call("predict", table(tmp_path, ODD), "--chip", CHIP, "--out", out)
    assert code == 2
    assert f"Invalid value for '--out': there is no folder {out.parent}; make it" in err
    missing = call("predict", tmp_path / "none.csv", "--chip", CHIP)
    assert (missing[0], "cannot be read: No such file" in missing[2]) == (2, True)


def test_a_chip_that_is_no_chip_is_refused(call: Call, tmp_path: Path) -> None:
    code, _, err = call("predict", table(tmp_path, ODD), "--chip", "nvidia/h100-x8")
    assert (code, "timing needs a chip, and this is a system" in err) == (2, True)


def test_a_description_without_what_timing_needs_names_keys_and_guesses(
    call: Call, tmp_path: Path
) -> None:
    path = tmp_path / "less.hcd.yaml"
    path.write_text("hcd_version: '1.0'\nextends: nvidia/h100-sxm\noverheads: null\n")
    rows = table(tmp_path, "op,M,N,K\nmatmul,64,64,64\n")
    code, _, err = call("predict", rows, "--chip", path)
    assert code == 2
    assert "overheads.launch_ns (guess 3000, all times under 20 us)" in err
    code, out, err = call("predict", rows, "--chip", path, "--guess")
    assert (code, "overheads.launch_ns is missing; guess 3000" in err) == (0, True)
    assert out.count("\n") == 2


def test_run_prints_operators_totals_and_what_they_rest_on(call: Call, tmp_path: Path) -> None:
    file, picture = tmp_path / "run.json", tmp_path / "roof.png"
    code, out, _ = call("run", "gpt3-layer", "--chip", CHIP, "--json", file, "--plot", picture)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert code == 0
    assert "utilisation: matrix" in out
    assert "inputs from nvidia/h100-sxm are estimated" in out
    assert found["seconds"] == pytest.approx(sum(row["seconds"] for row in found["rows"]))
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_a_chip_without_the_models_type_is_refused_and_another_type_runs(call: Call) -> None:
    code, _, err = call("run", "dlrm", "--chip", "nvidia/v100-sxm2", "--dtype", "bf16")
    said = "no matrix operation takes bf16; the description declares f16, f32, f64, i32"
    assert (code, said in err) == (2, True)
    assert call("run", "dlrm", "--chip", "nvidia/v100-sxm2", "--dtype", "fp32")[0] == 0
    assert "dtype 'f7' is unknown" in call("run", "dlrm", "--chip", CHIP, "--dtype", "f7")[2]


def test_a_trace_holds_every_operator_end_to_end_and_the_engines(
    call: Call, tmp_path: Path
) -> None:
    file, trace = tmp_path / "run.json", tmp_path / "trace.json"
    call("run", "gpt3-layer", "--chip", CHIP, "--json", file, "--trace", trace)
    seconds = json.loads(file.read_text(encoding="utf-8"))["seconds"]
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X" and event["cat"] == "kernel"]
    assert [event["name"] for event in spans][:2] == ["LayerNorm_MHA", "Q_K_V"]
    assert spans[-1]["ts"] + spans[-1]["dur"] == pytest.approx(seconds * 1e6)
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert tracks == {"stream 0", "matrix", "lanes", "memory", "links"}


def test_energy_is_the_sum_of_its_parts_where_there_are_figures(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    code, out, _ = call("run", "dlrm", "--chip", "sim/npu-small", "--json", file)
    found = json.loads(file.read_text(encoding="utf-8"))["energy_j"]
    assert (code, "energy: " in out) == (0, True)
    assert set(found) == {"idle", "matrix", "lanes", "memory"}
    assert all(value > 0 for value in found.values())
    assert "energy: " not in call("run", "dlrm", "--chip", CHIP)[1]


def test_decode_and_more_chips_change_a_layer_as_they_should(call: Call) -> None:
    total = {}
    for name, words in {
        "four": ("gpt3-layer",),
        "eight": ("gpt3-layer", "--model-set", "tensor_parallel=8"),
        "decode": ("gpt3-layer-decode",),
    }.items():
        out = call("run", *words, "--chip", CHIP)[1]
        line = next(text for text in out.splitlines() if text.startswith("total"))
        total[name] = float(line.split()[1].replace(",", ""))
    assert total["decode"] < 0.1 * total["four"]
    assert 0.5 * total["four"] < total["eight"] < 0.7 * total["four"]


@pytest.mark.parametrize("name", ["resnet50", "dlrm", "llama2-70b-layer"])
@pytest.mark.parametrize("chip", ["nvidia/a100-sxm-80gb", "amd/mi300x", "sim/npu-small"])
def test_every_shipped_model_runs_on_chips_that_nobody_measured(
    call: Call, name: str, chip: str
) -> None:
    code, out, err = call("run", name, "--chip", chip)
    assert (code, "total" in out) == (0, True), err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: transformer\nhidden: 64\n", "the key 'heads' is missing"),
        ("kind: transformer\nhidden: 64\nheads: 5\n", "must be multiples"),
        ("kind: transformer\nhidden: 64\nheads: 4\ncolour: 1\n", "unknown keys colour"),
        ("kind: soup\n", "kind is 'soup'; it must be one of transformer"),
        ("kind: operators\noperators: [{op: matmul, m: -1}]\n", "operators[0].m is -1"),
        ("kind: operators\noperators: [{op: dance, m: 1, n: 1}]\n", "operator 'dance' is unknown"),
        ("a: [\n", "is not YAML"),
    ],
)
def test_a_wrong_model_is_one_clear_error(
    call: Call, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(text, encoding="utf-8")
    code, _, err = call("run", path, "--chip", CHIP)
    assert (code, message in err) == (2, True), err


def test_sweep_shows_that_memory_helps_a_decode(call: Call, tmp_path: Path) -> None:
    out, picture = tmp_path / "sweep.csv", tmp_path / "sweep.svg"
    setting = "memory.hbm.bandwidth_bytes_per_s=1e12,2e12,4e12"
    words = ("gpt3-layer-decode", "--chip", CHIP, "--set", setting, "--out", out)
    code, _, err = call("sweep", *words, "--plot", picture)
    times = [float(row["ms"]) for row in csv.DictReader(io.StringIO(out.read_text()))]
    assert code == 0, err
    assert times[0] > 1.6 * times[1] > 1.6 * 1.4 * times[2]
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_sweep_refuses_absurd_values_and_unknown_paths(call: Call) -> None:
    zero = call("sweep", "dlrm", "--chip", CHIP, "--set", "memory.hbm.bandwidth_bytes_per_s=0")
    typo = call("sweep", "dlrm", "--chip", CHIP, "--set", "memory.hbm.bandwith=1")
    text = call("sweep", "dlrm", "--chip", CHIP, "--set", "memory.hbm.bandwidth_bytes_per_s=big")
    none = call("sweep", "dlrm", "--chip", CHIP, "--set", "memory.hbn.bandwidth_bytes_per_s=1e12")
    assert [code for code, _, _ in (zero, typo, text, none)] == [2, 2, 2, 2]
    assert "has nothing under 'memory.hbn' (did you mean memory.hbm." in none[2]
    assert "memory.hbm.bandwidth_bytes_per_s" in zero[2]


def test_calibrate_finds_the_constants_that_made_the_times(call: Call, tmp_path: Path) -> None:
    chip = Chip.of(load(CHIP))
    truth = calibration.find("gemm", chip)
    random = np.random.default_rng(3)
    m, n, k = (np.floor(2 ** random.uniform(3, 13, 120)) for _ in range(3))
    times = gemm.predict_s(chip, truth, m, n, k) * 1e3
    lines = [f"{a:.0f},{b:.0f},{c:.0f},bf16,{t}" for a, b, c, t in zip(m, n, k, times, strict=True)]
    path = table(tmp_path, "M,N,K,dtype,measured_ms\n" + "\n".join(lines) + "\n")
    out = tmp_path / "mine.yaml"
    code, text, err = call("calibrate", path, "--chip", CHIP, "--share", "0.5", "--out", out)
    assert code == 0, err
    block = calibration.read(out)[0]
    assert block.record["errors"]["unseen"]["mape"] < 0.03
    assert "unseen" in text
    done = call("predict", path, "--chip", CHIP, "--calibration", out)
    assert (done[0], "gemm: fitted to this chip" in done[2]) == (0, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("M,N,K\n1,1,1\n", "there is no column of measured times"),
        ("M,N,K,time\n1,1,1,5\n", "the column 'time' has no unit"),
        ("M,N,K,time_us\n1,1,1,5\n", "rows to fit are too few for 10 constants"),
        ("op,M,N,K,time_us\nmatmul,1,1,1,5\ngelu,1,1,,5\n", "more than one family"),
    ],
)
def test_calibrate_refuses_what_it_cannot_fit(
    call: Call, tmp_path: Path, text: str, message: str
) -> None:
    code, _, err = call("calibrate", table(tmp_path, text), "--chip", CHIP)
    assert (code, message in err) == (2, True), err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("calibration_version: 1", "calibration_version: 9"), "this SDK reads 1"),
        (("matrix:", "matricks:"), "constants of gemm are wrong or missing: matricks, matrix"),
        (("family: gemm", "family: soup"), "there is no family 'soup'"),
        (("droop: 0.", "droop: 7."), "outside 0 to 0.8"),
    ],
)
def test_a_wrong_calibration_is_one_clear_error(
    call: Call, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    shipped = Path(calibration.__file__).parents[2] / "sim/calibration/nvidia-h100-gemm.yaml"
    path = tmp_path / "odd.yaml"
    path.write_text(shipped.read_text("utf-8").replace(*change), encoding="utf-8")
    rows = table(tmp_path, ODD)
    code, _, err = call("predict", rows, "--chip", CHIP, "--calibration", path)
    assert (code, message in err) == (2, True), err
