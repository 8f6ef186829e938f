"""The command `hal run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hal.cli.run import command
from hal.errors import HalError

PRODUCT = """kernel Product {
  param M, N, K : int
  input: float[M,K] A, float[K,N] B
  output: float[M,N] C
  operation: C[i,j] += A[i,k] * B[k,j]
}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "product.hal"
    path.write_text(PRODUCT)
    return path


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(command, ["--device", "cpu", *(str(word) for word in words)])


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("size", ["M=9,N=20,K=5", "M=0,N=3,K=2", "M=1,N=1,K=1"])
def test_a_kernel_is_checked_on_a_device(file: Path, device: str, size: str) -> None:
    done = call(file, "--device", device, "--size", size, "--check")
    assert done.exit_code == 0, done.output
    assert "C: f32[" in done.output
    assert ": ok" in done.output


def test_json_has_error_bound_and_time(file: Path) -> None:
    done = call(
        file,
        "--device",
        "cpu",
        "--size",
        "M=9,N=20",
        "--size",
        "K=5",
        "--check",
        "--time",
        "--json",
    )
    report = json.loads(done.output)
    assert report["ok"] is True
    assert report["arrays"][0]["name"] == "C"
    assert report["arrays"][0]["error"] <= report["arrays"][0]["bound"]
    assert report["time_ms"]["min"] <= report["time_ms"]["median"]


def test_a_result_over_its_bound_is_exit_code_1(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hal.testing import kernels

    right = kernels.expected

    def moved(*arguments: object) -> object:
        found = right(*arguments)  # type: ignore[arg-type]
        found["C"].values[0, 0] += 1
        return found

    monkeypatch.setattr(kernels, "expected", moved)
    done = call(file, "--size", "M=9,N=20,K=5", "--check")
    assert done.exit_code == 1
    assert "1 elements are over the bound" in done.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--size", "M=3"], "Product needs a value for N, K"),
        (["--size", "M=3,N=4,K=x"], "K=x: it must be a whole number"),
        (["--size", "M=3,N=4,K=-1"], "a size is 0 or more"),
        (["--size", "M=3,N=4,K=1,Q=2"], "it has M, N, K"),
        (["--size", "M=3,N=4,K=1", "--without", "magic"], "there is no such pass"),
        (["--size", "M=3,N=4,K=1", "--kernel", "Other"], "has no kernel Other"),
        (["--size", "M=3,N=4,K=1", "--scalar", "lr=1"], "it has none"),
        (["--size", "M=3,N=4,K=1", "--dtype", "f8"], "one of f16, bf16"),
        (["--size", "M=99999999999,N=99999,K=1"], "elements; at most"),
    ],
)
def test_wrong_words_are_one_clear_error(file: Path, words: list[str], text: str) -> None:
    done = call(file, *words)
    assert isinstance(done.exception, HalError)
    assert text in str(done.exception)
    assert done.exception.exit_code == 2


def test_a_mistake_in_the_text_is_shown_in_its_place(file: Path) -> None:
    file.write_text(PRODUCT.replace("A[i,k]", "A[i,k,i]"))
    done = call(file, "--size", "M=3,N=4,K=1")
    assert isinstance(done.exception, HalError)
    assert str(done.exception).startswith(f"{file}:5:")
    assert "^" in str(done.exception)
    assert done.exception.exit_code == 2


def test_storage_in_16_bits_and_passes_left_out(file: Path) -> None:
    done = call(
        file,
        "--device",
        "cpu",
        "--size",
        "M=9,N=20,K=5",
        "--check",
        "--dtype",
        "bf16",
        "--without",
        "fuse",
    )
    assert done.exit_code == 0, done.output
    assert "C: bf16[9,20]" in done.output
