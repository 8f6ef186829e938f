"""`hal explain`: every stage is there, the text is plain in a pipe, mistakes are one clear line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hal
from hal.cli.explain import command
from hal.errors import HalError
from hal.ir import parse

TEXT = """
kernel Softmax {
  param M, N : int
  input: f32[M,N] X
  output: f32[M,N] Y
  temp: f32[M] m, f32[M,N] e, f32[M] s, f32[M,N] z
  operation: z[i,j] = X[i,j] * 1
  operation: m[i] max= z[i,j]
  operation: e[i,j] = exp(z[i,j] - m[i])
  operation: s[i] += e[i,j]
  operation: Y[i,j] = e[i,j] / s[i]
}
"""

PRODUCT = """kernel product {
  param M, N, K : int
  input: f32[M,K] A, f32[K,N] B
  output: f32[M,N] C
  operation: C[i,j] += A[i,k] * B[k,j]
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "softmax.hal"
    path.write_text(TEXT)
    return str(path)


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["--chip", "cpu", *arguments])


def plain(*arguments: str) -> dict:
    result = ask(*arguments, "--json")
    assert result.exception is None, result.output
    return json.loads(result.output)


def test_titles_stand_in_the_order_of_the_stages(file: str) -> None:
    result = ask(file, "--chip", "cpu", "--size", "M=64,N=100")
    titles = [line[3:] for line in result.output.splitlines() if line.startswith("== ")]
    assert titles[:3] == [
        "Softmax for hal/cpu, M=64, N=100",
        "as written",
        "after canonicalise: lets in place, exact constants, one order of operands",
    ]
    assert [title for title in titles if title.startswith("group")] == ["group 1: rows"]
    assert titles[-2:] == ["route", "predicted time"]
    assert "\x1b" not in result.output


def test_json_has_the_numbers(file: str) -> None:
    found = plain(file, "--chip", "cpu", "--size", "M=64", "--size", "N=100")
    (group,) = found["groups"]
    assert (group["strategy"], len(group["statements"])) == ("rows", 4)
    assert [seconds for _, seconds in group["alternatives"]] == sorted(
        seconds for _, seconds in group["alternatives"]
    )
    assert found["forecast"]["seconds"] > 0
    assert found["vil"].startswith("vil 1.0")


def test_a_pass_and_a_strategy_can_be_left_out(file: str) -> None:
    found = plain(file, "--without", "canonicalise,layout", "--without", "rows")
    assert {"canonicalise", "layout"} & {stage["name"] for stage in found["stages"]} == set()
    assert {group["strategy"] for group in found["groups"]} == {"pointwise"}


def test_a_chip_with_engines_shows_its_barriers(file: str) -> None:
    found = plain(file, "--chip", "sim/npu-small", "--size", "M=64,N=100")
    assert "Softmax_rows: dma_in -> vector, credits 0" in found["barriers"]


def test_a_dialect_shows_its_source(file: str) -> None:
    assert "softmax" in plain(file, "--chip", "cpu")["source"].lower()
    assert plain(file, "--chip", "sim/npu-small")["source"] == ""


def test_a_forecast_without_sizes_says_what_is_missing(file: str) -> None:
    assert plain(file, "--size", "M=64")["forecast"] == {
        "seconds": None,
        "bound": "the size of N is not known",
    }


@pytest.mark.parametrize(("asked", "route"), [("", "interpreter"), ("source", "source")])
def test_the_route_follows_the_order_of_formats(
    file: str, monkeypatch: pytest.MonkeyPatch, asked: str, route: str
) -> None:
    monkeypatch.setenv("HAL_ROUTE", asked)
    assert plain(file, "--chip", "cpu")["route"][0] == route


def test_storage_in_16_bits_is_a_stage(file: str) -> None:
    found = plain(file, "--dtype", "bf16")
    assert found["stages"][1]["name"] == "adapt"
    assert "bf16[M, N] X" in found["stages"][1]["text"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--size", "K=3"), "Softmax has no param K; it has M, N"),
        (("--size", "M=x"), "Write NAME=LENGTH"),
        (("--kernel", "Other"), "has no kernel Other. It has Softmax"),
        (("--dtype", "i8"), "Choose one of f16, bf16"),
        (("--without", "magic"), "there is no pass 'magic'"),
        (("--chip", "nowhere"), "no shipped description 'nowhere'"),
        (("--chip", "cpu:0"), "no shipped description 'cpu:0'. Shipped are"),
        (("--device", "cpu:0"), "wants one of --chip and --device"),
    ],
)
def test_a_mistake_is_one_clear_error(file: str, arguments: tuple[str, ...], text: str) -> None:
    result = ask(file, *arguments)
    assert isinstance(result.exception, HalError)
    assert text in str(result.exception)


def test_a_device_is_explained_by_what_it_says_of_itself(file: str) -> None:
    result = CliRunner().invoke(command, [file, "--device", "cpu:0", "--json"])
    assert result.exception is None, result.output
    with hal.open("cpu:0") as device:
        wanted = hal.explain(parse(TEXT).kernels[0], device.hcd).plain()
    assert json.loads(result.output) == json.loads(json.dumps(wanted))


def test_neither_a_chip_nor_a_device_is_asked_for(file: str) -> None:
    result = CliRunner().invoke(command, [file])
    assert isinstance(result.exception, HalError)
    assert "Give --chip HCD, as hal/cpu, or --device DEVICE, as cpu:0." in str(result.exception)


def test_the_function_gives_the_same(file: str) -> None:
    (kernel,) = parse(TEXT).kernels
    found = hal.explain(kernel, "cpu", sizes={"M": 64, "N": 100})
    assert str(found) == ask(file, "--chip", "cpu", "--size", "M=64,N=100").output


@pytest.mark.parametrize(
    ("advice", "clause", "part"),
    [
        (
            "tile i 4096, j 4096, k 4096",
            "schedule",
            "What fits, and is taken without a schedule, is product",
        ),
        (
            "tile i 8, j 8, k 8; space A vec",
            "A vec",
            "puts A into vec, which hal/cpu lacks; it has global",
        ),
    ],
)
def test_a_schedule_that_does_not_fit_is_shown_in_the_file(
    tmp_path: Path, advice: str, clause: str, part: str
) -> None:
    line = f'schedule product for "hal/cpu" {{ {advice} }}'
    path = tmp_path / "product.hal"
    path.write_text(PRODUCT + line + "\n", encoding="utf-8")
    result = ask(str(path), "--chip", "hal/cpu", "--size", "M=64,N=64,K=64")
    text = str(result.exception)
    assert isinstance(result.exception, HalError)
    assert text.startswith(f"{path}:7:{line.index(clause) + 1}: ")
    assert (part in text, line in text) == (True, True)


def test_a_file_without_a_kernel_says_how_one_begins(tmp_path: Path) -> None:
    path = tmp_path / "empty.hal"
    path.write_text("", encoding="utf-8")
    assert "holds no kernel. A kernel begins with: kernel NAME" in str(ask(str(path)).exception)


def test_a_schedule_without_its_chip_is_shown_how_to_name_one(tmp_path: Path) -> None:
    path = tmp_path / "product.hal"
    path.write_text(PRODUCT + "schedule product { tile i 8 }\n", encoding="utf-8")
    assert 'as schedule product for "sim/npu-small"' in str(ask(str(path)).exception)
