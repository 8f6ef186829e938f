"""Ports that are broken from the start: a clear verdict, never a hang or a traceback."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from hal.certify import preflight as looking
from hal.certify.preflight import missing_functions, preflight
from hal.testing.abi import FUNCTIONS
from hal.testing.session import Target

from .conftest import PORT, ROOT

BuildPort = Callable[[int], Path]
Run = Callable[..., "object"]

VERDICTS = {
    0: "the port's tables are empty: not one function of tier 1 is there",
    1: "the port's tables are empty: not one function of tier 1 is there",
    2: "port.device_count answered OK and wrote nothing",
    3: "the port crashes in port.init: SIGABRT",
    4: "the port hangs in stream.synchronize: no end after 5 s",
    5: "the port ended the process in port.init",
    6: "",
    8: "port.init answered UNSUPPORTED",
}


@pytest.mark.parametrize(("fault", "verdict"), VERDICTS.items())
def test_the_first_look_names_what_is_wrong(
    broken_port: BuildPort, fault: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "STEP_LIMIT_S", 5.0 if fault == 4 else 30.0)
    found = preflight(Target("broken", str(broken_port(fault))), 0)
    assert (found.problem, found.usable) == (verdict, True)


def test_what_is_missing_is_listed_in_the_order_to_write_it(broken_port: BuildPort) -> None:
    found = preflight(Target("broken", str(broken_port(0))), 0)
    required = [f.call for tier in (1, 2) for f in FUNCTIONS if f.tier == tier]
    assert [call for _, call, _ in missing_functions(found, 2)] == required


def test_functions_that_answer_unsupported_count_as_missing(broken_port: BuildPort) -> None:
    found = preflight(Target("broken", str(broken_port(8))), 0)
    answers = {call: answer for _, call, answer in missing_functions(found, 1)}
    assert (answers["port.init"], answers["memory.alloc"]) == ("unsupported", "unsupported")


def test_an_older_header_lacks_only_what_came_later(broken_port: BuildPort) -> None:
    found = preflight(Target("broken", str(broken_port(6))), 0)
    rows = [row for row in missing_functions(found, 2) if row[1].startswith("event.")]
    assert rows == [(2, "event.elapsed_ns", "missing")]


def foreign_elf() -> bytes:
    """Return the head of a shared object for a machine that nobody has: e_machine 0xFFFE."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", 3, 0xFFFE, 1, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0)
    return ident + head + bytes(512)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not a shared object"),
        (b"#!/bin/sh\n" + b"x" * 200, "not a shared object"),
        (foreign_elf(), "machine"),
        (foreign_elf()[:40], ""),
    ],
)
def test_a_file_that_is_no_port_is_the_callers_mistake(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "hal_port_odd.so"
    path.write_bytes(content)
    found = preflight(Target("odd", str(path)), 0)
    assert (found.usable, complaint in found.problem, found.problem != "") == (False, True, True)


def test_a_port_of_another_major_is_refused(broken_port: BuildPort) -> None:
    found = preflight(Target("broken", str(broken_port(7))), 0)
    assert found.usable is False
    assert "ABI 2.0" in found.problem


def test_a_device_that_is_not_there_is_named() -> None:
    from hal.testing.target import find

    found = preflight(find(PORT), 99)
    assert found.problem.startswith("there is no device 99: the port has ")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["a_port_that_nobody_has"], 2, "there is no port 'a_port_that_nobody_has'"),
        (["./no_such_folder"], 2, "there is no such file or folder"),
        ([str(ROOT / "docs")], 2, "a port's folder holds one .so file; found none"),
        ([PORT, "--hcd", "no_such.hcd.yaml"], 2, "no_such.hcd.yaml"),
        ([PORT, "--isolation", "none"], 2, "use case, or group:N"),
        ([PORT, "--nonce", "xyz"], 2, "is not hexadecimal"),
        ([PORT, "--device", "99"], 2, "--device 99: the port has "),
        ([PORT, "--select", "(memory"], 2, "unexpected 'end'"),
        ([PORT, "--resume", "no_such_run"], 2, "holds no run to resume. Name the --out folder"),
        ([PORT, "--out", "/proc/no_such"], 2, "cannot be written: No such file or directory. Name"),
    ],
)
def test_wrong_usage_is_one_clear_line(
    run: Run, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    if not {"--resume", "--out"} & {*arguments}:
        arguments = [*arguments, "--out", str(tmp_path)]
    done = run("hal.certify.cli", *arguments, timeout=120)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert not Path("no_such_run").exists()
    assert "Traceback" not in done.stderr


def test_a_broken_port_is_not_certified_and_told_why(
    run: Run, broken_port: BuildPort, tmp_path: Path
) -> None:
    words = [str(broken_port(8)), "--hcd", "sim/npu-small", "--out", str(tmp_path), "--quiet"]
    done = run("hal.certify.cli", *words, timeout=120)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1].split("  ")[0]) == (1, "NOT CERTIFIED")
    assert lines[1].split()[1] == "port.init"
    assert "No case could run: port.init answered UNSUPPORTED" in lines
