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
        (("--chip", "nowhere"), "nowhere"),
    ],
)
def test_a_mistake_is_one_clear_error(file: str, arguments: tuple[str, ...], text: str) -> None:
    result = ask(file, *arguments)
    assert isinstance(result.exception, HalError)
    assert text in str(result.exception)


def test_the_function_gives_the_same(file: str) -> None:
    (kernel,) = parse(TEXT).kernels
    found = hal.explain(kernel, "cpu", sizes={"M": 64, "N": 100})
    assert str(found) == ask(file, "--chip", "cpu", "--size", "M=64,N=100").output
