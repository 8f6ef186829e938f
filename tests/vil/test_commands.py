"""The command `hal vil`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hal.vil
from hal.cli.vil import command
from hal.errors import HalError


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


@pytest.fixture
def text_file(tmp_path: Path, matmul_text: str) -> Path:
    path = tmp_path / "matmul.vil"
    path.write_text(matmul_text)
    return path


def test_check_says_ok_for_text_and_image(text_file: Path) -> None:
    assert call("asm", text_file).exit_code == 0
    image = text_file.with_suffix(".hvil")
    done = call("check", text_file, image)
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        f"{text_file}: ok for vil-core (1 kernels, 1 programs)",
        f"{image}: ok for vil-core (1 kernels, 1 programs)",
    ]


def test_check_for_a_chip_names_line_and_limit(text_file: Path) -> None:
    text_file.write_text(
        text_file.read_text().replace("tile a: f32[64, 32]", "tile a: f32[60, 32]")
    )
    done = call("check", text_file, "--chip", "sim/npu-small", "--json")
    assert done.exit_code == 2
    (result,) = json.loads(done.stdout)
    assert any("60 x 32 times" in line and ":46: " in line for line in result["problems"])


def test_check_shows_the_caret(text_file: Path) -> None:
    text_file.write_text(text_file.read_text().replace("mma c, a, b", "mmo c, a, b"))
    done = call("check", text_file)
    assert done.exit_code == 2
    assert f"{text_file}:46:5: `mmo` is not an operation" in done.output
    assert "\n      ^" in done.output


def test_print_gives_the_canonical_text_of_an_image(text_file: Path, matmul_text: str) -> None:
    call("asm", text_file, "-o", text_file.parent / "x.hvil")
    done = call("print", text_file.parent / "x.hvil")
    assert done.exit_code == 0
    assert done.output == hal.vil.print_module(hal.vil.parse(matmul_text))


def test_print_shows_the_signature_of_an_envelope(tmp_path: Path, matmul_text: str) -> None:
    kernels = hal.vil.parse(matmul_text).kernels
    path = tmp_path / "x.himg"
    path.write_bytes(hal.vil.encode_envelope(kernels, "source.opencl", b"1234"))
    done = call("print", path)
    assert done.output.startswith("# envelope of source.opencl, 4 bytes of payload\nvil 1.0\n")


def test_run_computes_with_files_and_made_up_buffers(text_file: Path) -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(text_file.parent / "a.npy", a)
    out = text_file.parent / "out"
    done = call(
        "run", text_file, "M=2", "N=2", "K=3", f"A={text_file.parent / 'a.npy'}", "--out", out
    )
    assert done.exit_code == 0, done.output
    assert done.output.startswith("C: float32 × 4: ")
    again = call("run", text_file, "M=2", "N=2", "K=3", f"A={text_file.parent / 'a.npy'}")
    assert again.output == done.output
    assert np.load(out / "C.npy").shape == (4,)


def test_run_takes_what_no_chip_runs_but_refuses_what_is_wrong(text_file: Path) -> None:
    text = text_file.read_text()
    text_file.write_text(text.replace("program mm flat", "program mm explicit"))
    assert call("run", text_file, "M=2", "N=2", "K=3").exit_code == 0
    text_file.write_text(text.replace("mma c, a, b", "mma a, a, b"))
    done = call("run", text_file, "M=2", "N=2", "K=3")
    assert done.exit_code == 2
    assert "shapes 64 x 32 times" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "FILE", "M=2"], "N is missing"),
        (["run", "FILE", "M=2", "N=x", "K=3"], "it must be a whole number"),
        (["run", "FILE", "Q=2"], "matmul takes M, N, K, A, B, C"),
        (["run", "FILE", "--kernel", "other"], "has no kernel other"),
        (["run", "FILE", "M=2", "N=2", "K=3", "--grid", "1,x"], "one to three counts"),
        (["run", "FILE", "M=2", "N=2", "K=3", "A=nofile.npy"], "cannot load it"),
        (["asm", "nofile.vil"], "cannot read it"),
        (["check", "FILE", "--chip", "no/chip"], "no/chip"),
    ],
)
def test_wrong_use_is_one_clear_error(text_file: Path, words: list[str], message: str) -> None:
    done = call(*[str(text_file) if word == "FILE" else word for word in words])
    assert done.exit_code != 0
    shown = done.output + (str(done.exception) if isinstance(done.exception, HalError) else "")
    assert message in shown
    assert done.exception is None or isinstance(done.exception, HalError | SystemExit)


def test_a_damaged_image_names_file_offset_and_field(text_file: Path) -> None:
    call("asm", text_file)
    image = text_file.with_suffix(".hvil")
    data = bytearray(image.read_bytes())
    data[4] = 9
    image.write_bytes(bytes(data))
    done = call("check", image)
    assert done.exit_code == 2
    assert f"{image}: VIL image, offset 4, image.version_major: 9.0" in done.output
