"""The command `hal fmt`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hal.cli.fmt import command
from hal.errors import UsageError
from hal.ir import IrTextError

UGLY = """# a relu
kernel   Relu {
  param M:int   # rows
    input:f16[M]X
  output: f16[M] Y
  # kept
  operation: Y[i]=max((X[i]),0)   # no NaN is lost
}
"""
NICE = """# a relu
kernel Relu {
  param M : int  # rows
  input: f16[M] X
  output: f16[M] Y
  # kept
  operation: Y[i] = max(X[i], 0)  # no NaN is lost
}
"""


def run(*words: str, text: str = "") -> tuple[int, str, str]:
    """Exit code, output and errors of the command."""
    done = CliRunner().invoke(command, words, input=text, catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_the_form_is_printed_with_its_comments(tmp_path: Path) -> None:
    path = tmp_path / "k.hal"
    path.write_text(UGLY)
    assert run(str(path)) == (0, NICE, "")
    assert run("-", text=UGLY) == (0, NICE, "")
    assert path.read_text() == UGLY


def test_write_changes_the_file_once(tmp_path: Path) -> None:
    path = tmp_path / "k.hal"
    path.write_text(UGLY)
    assert run(str(path), "--write") == (0, "", f"{path}: rewritten\n")
    assert path.read_text() == NICE
    assert run(str(path), "--write") == (0, "", "")


def test_check_shows_the_difference_and_ends_with_1(tmp_path: Path) -> None:
    path = tmp_path / "k.hal"
    path.write_text(UGLY)
    code, shown, error = run(str(path), "--check")
    assert (code, error) == (1, "1 file would change; run hal fmt --write.\n")
    assert "+  operation: Y[i] = max(X[i], 0)  # no NaN is lost\n" in shown
    path.write_text(NICE)
    assert run(str(path), "--check") == (0, "", "")


def test_bad_input_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "k.hal"
    with pytest.raises(UsageError, match="cannot read it: No such file"):
        run(str(path))
    path.write_bytes(b"kernel \xff")
    with pytest.raises(UsageError, match=r"not UTF-8 text \(byte 7\)"):
        run(str(path))
    path.write_text("kernel K { inptu: f32[] X }")
    with pytest.raises(IrTextError, match="Did you mean `input`"):
        run(str(path))
    with pytest.raises(UsageError, match="exclude each other"):
        run(str(path), "--check", "--write")
    with pytest.raises(UsageError, match="cannot be written"):
        run("-", "--write")
