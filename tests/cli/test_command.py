"""The command `hal` itself: help, mistyped names, exit codes, no traceback at a user."""

from __future__ import annotations

import importlib

import click
import pytest

import hal
from hal import cli
from hal.errors import HalError


def test_the_version_is_that_of_the_package(run) -> None:
    done = run("hal.cli", "--version")
    assert (done.returncode, done.stdout) == (0, f"hal, version {hal.__version__}\n")


def test_help_lists_every_command(run) -> None:
    done = run("hal.cli", "--help")
    listed = done.stdout.partition("Commands:\n")[2]
    assert [line.split()[0] for line in listed.splitlines()] == sorted(cli.COMMANDS)


def test_a_mistyped_command_is_answered_with_the_nearest(run) -> None:
    done = run("hal.cli", "docter")
    assert done.returncode == 2
    assert "There is no command 'docter'. Did you mean 'doctor'?" in done.stderr


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_of_the_table_exists_and_has_help(name: str) -> None:
    module, _, attribute = cli.COMMANDS[name][0].partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert command.help or isinstance(command, click.Group)


def raising(error: BaseException) -> click.Command:
    @click.command("raising")
    def command() -> None:
        raise error

    return command


def test_an_error_of_the_family_is_one_line_and_its_exit_code(capsys) -> None:
    error = HalError("no block of 4 bytes", call="memory.alloc", next_step="Free buffers.")
    error.exit_code = 6
    code = cli.run_group(raising(error), prog_name="hal", args=[])
    assert (code, capsys.readouterr().err) == (
        6,
        "hal: memory.alloc: no block of 4 bytes. Free buffers.\n",
    )


def test_an_error_that_names_its_command_is_not_named_twice(capsys) -> None:
    error = HalError("there is no port", call="hal-certify --resume")
    cli.run_group(raising(error), prog_name="hal-certify", args=[])
    assert capsys.readouterr().err == "hal-certify --resume: there is no port\n"


def test_an_interrupt_ends_with_130(capsys) -> None:
    assert cli.run_group(raising(KeyboardInterrupt()), prog_name="hal", args=[]) == 130
    assert capsys.readouterr().err == "\nhal: interrupted\n"


def test_a_fault_of_ours_is_one_line_with_the_next_step(capsys) -> None:
    code = cli.run_group(raising(ZeroDivisionError("division by zero")), prog_name="hal", args=[])
    stderr = capsys.readouterr().err
    assert code == 3
    assert stderr == (
        "hal: internal error: ZeroDivisionError: division by zero. "
        "Set HAL_TRACEBACK=1 to see where, and please report it.\n"
    )


def test_a_file_that_cannot_be_opened_is_named(capsys) -> None:
    error = FileNotFoundError(2, "No such file or directory", "chip.hcd.yaml")
    assert cli.run_group(raising(error), prog_name="hal", args=[]) == 2
    assert capsys.readouterr().err == "hal: chip.hcd.yaml: No such file or directory\n"


def test_the_traceback_is_there_for_who_asks(capsys, monkeypatch) -> None:
    monkeypatch.setenv("HAL_TRACEBACK", "1")
    cli.run_group(raising(ValueError("x")), prog_name="hal", args=[])
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_paths_prints_one_folder_for_a_build(run, root) -> None:
    done = run("hal.cli", "paths", "include")
    assert (done.returncode, done.stdout) == (0, f"{root}/include\n")
