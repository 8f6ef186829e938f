"""hal.tune: the ranking, the measurements, what is kept, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import hal
import hal.tune
from hal import codegen, errors, hcd, ir
from hal.cli.tune import command
from hal.codegen import choice_store, tuned

TEXT = """kernel product {
  param M, N, K : int
  input: f32[M,K] A, f32[K,N] B
  output: f32[M,N] C
  operation: C[i,j] += A[i,k] * B[k,j]
}
"""
SIZES = {"M": 64, "N": 64, "K": 48}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HAL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def small() -> hcd.Hcd:
    return hcd.load("sim/npu-small")


def test_without_a_device_the_least_forecast_is_best() -> None:
    found = hal.tune(TEXT, hcd=small(), sizes=SIZES, budget_s=20)
    forecasts = [item.forecast_s for item in found.candidates]
    assert None not in forecasts
    assert forecasts == sorted(forecasts)  # type: ignore[type-var]
    assert found.best == (found.candidates[0].choice,)
    assert not found.measured and found.best_s <= found.default_s


def test_compile_takes_the_choice_that_was_kept() -> None:
    kernel = ir.parse(TEXT).kernels[0]
    before = codegen.compile(kernel, small(), sizes=SIZES).choices[0].choice
    found = hal.tune(kernel, hcd=small(), sizes=SIZES, budget_s=20, keep=False)
    other = next(item for item in found.candidates if item.choice != before).choice
    kept = [tuned.plain("product", other)]
    choice_store.keep(kernel, small().sha256, SIZES, kept)
    assert codegen.compile(kernel, small(), sizes=SIZES).choices[0].choice == other
    assert codegen.compile(kernel, small(), sizes=SIZES | {"K": 33}).choices[0].choice != other


def test_a_damaged_file_of_choices_counts_as_none() -> None:
    kernel = ir.parse(TEXT).kernels[0]
    before = codegen.compile(kernel, small(), sizes=SIZES).choices
    path = choice_store.keep(kernel, small().sha256, SIZES, [{"strategy": "product"}])
    for text in ("", "{", "[]", '{"version": 1}', '{"version": 1, "choices": [3]}'):
        path.write_text(text, encoding="utf-8")
        assert codegen.compile(kernel, small(), sizes=SIZES).choices == before


def test_on_a_device_the_first_choices_are_measured() -> None:
    with hal.open("cpu") as device:
        sizes = {"M": 64, "N": 64, "K": 128}
        found = hal.tune(TEXT, device, sizes=sizes, budget_s=20, measured=3)
    times = [item.measured_s for item in found.candidates]
    assert [time is not None for time in times[:4]] == [True, True, True, False]
    assert found.best == (found.candidates[0].choice,)
    assert found.measured and found.path is not None and found.path.is_file()


def test_a_device_that_takes_only_source_is_measured_by_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As compiling does it: the device refuses VIL, so every candidate goes through its dialect."""
    from hal.codegen.dialect import route

    loaded = []

    def load(module: object, device: hal.Device) -> object:
        loaded.append(module)
        return device.load(module)  # type: ignore[arg-type]

    monkeypatch.setattr(route, "formats", lambda hcd: ["source.x"])
    monkeypatch.setattr(route, "load", load)
    with hal.open("cpu") as device:
        found = hal.tune(TEXT, device, sizes=SIZES, budget_s=20, measured=2, keep=False)
    assert found.measured
    assert len(loaded) == 2


def test_every_group_of_statements_gets_a_choice() -> None:
    text = TEXT.replace("C[i,j] += A[i,k] * B[k,j]", "C[i,j] += A[i,k] * B[k,j]\n D[j] += C[i,j]")
    text = text.replace("f32[M,N] C", "f32[M,N] C, f32[N] D")
    found = hal.tune(text, hcd=small(), sizes=SIZES, budget_s=20)
    assert len(found.best) == 2
    assert {item.group for item in found.candidates} == {0, 1}


def test_a_param_without_a_size_is_named() -> None:
    with pytest.raises(errors.UsageError, match="no size for N, K"):
        hal.tune(TEXT, hcd=small(), sizes={"M": 3})


def test_a_chip_is_needed() -> None:
    with pytest.raises(errors.UsageError, match="needs a chip"):
        hal.tune(TEXT, sizes=SIZES)


def test_command_prints_json(tmp_path: Path) -> None:
    path = tmp_path / "k.hal"
    path.write_text(TEXT, encoding="utf-8")
    options = ["--size", "M=64,N=64", "--size", "K=48", "--chip", "sim/npu-small", "--json"]
    result = CliRunner().invoke(command, [str(path), *options, "--budget", "20s"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["best"] == [data["candidates"][0]["choice"]]
    assert Path(data["path"]).is_file()


def test_command_prints_a_table_of_the_best(tmp_path: Path) -> None:
    path = tmp_path / "k.hal"
    path.write_text(TEXT, encoding="utf-8")
    options = ["--size", "M=64,N=64,K=48", "--chip", "sim/npu-small", "--no-keep"]
    result = CliRunner().invoke(command, [str(path), *options])
    assert result.exit_code == 0, result.output
    assert "group 1 of 1: product: rows" in result.stdout
    assert "kept" not in result.stdout


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--size", "M"], "write NAME=LENGTH"),
        (["--size", "M=-1"], "write NAME=LENGTH"),
        (["--budget", "soon"], "is no time"),
        (["--budget", "0s"], "is no time"),
    ],
)
def test_command_refuses_what_it_cannot_read(options: list[str], part: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(tmp_path / "k.hal"), *options])
    assert result.exit_code == 2
    assert part in result.output


def test_command_names_the_kernels_of_a_file_with_several(tmp_path: Path) -> None:
    path = tmp_path / "k.hal"
    path.write_text(TEXT + TEXT.replace("kernel product", "kernel other"), encoding="utf-8")
    result = CliRunner().invoke(command, [str(path), "--chip", "sim/npu-small"])
    assert isinstance(result.exception, errors.UsageError)
    assert "product, other" in str(result.exception)
