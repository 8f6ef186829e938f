"""`hal port build --toolchain`: a port for another machine, without a compiler for one.

The toolchain here names a processor that nobody has and uses this machine's compiler, so that the
library can be run as well.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hal import _paths
from hal.errors import UsageError
from hal.portkit.build import build, checked, toolchain_file
from hal.portkit.pack import pack

TOOLCHAIN = """
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR nowhere)
set(CMAKE_C_COMPILER cc)
"""


@pytest.fixture
def toolchain(tmp_path: Path) -> str:
    """A toolchain file that is none of ours."""
    path = tmp_path / "nowhere.cmake"
    path.write_text(TOOLCHAIN, encoding="utf-8")
    return str(path)


def test_the_shipped_toolchains_are_known_by_name() -> None:
    names = {path.stem for path in _paths.toolchains_dir().glob("*.cmake")}
    assert names == {"aarch64", "aarch64-zig", "riscv64", "riscv64-zig"}
    assert {toolchain_file(name).stem for name in names} == names


def test_an_unknown_toolchain_is_refused_with_the_known_ones(run, kit_port: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no toolchain 'm68k'.*aarch64, aarch64-zig"):
        toolchain_file("m68k")
    done = run("hal.cli", "port", "build", kit_port, "--toolchain", "m68k")
    assert (done.returncode, "there is no toolchain 'm68k'" in done.stderr) == (2, True)


@pytest.mark.slow
def test_a_port_for_another_machine_compiles_the_kit_and_stays_in_its_build_folder(
    built: Path, toolchain: str
) -> None:
    own = (built / "hal_port_acme.so").read_bytes()
    made = build(built, toolchain=toolchain)
    assert made.is_good, made.messages
    assert made.library == built / "build-nowhere" / "hal_port_acme.so"
    assert (built / "build-nowhere" / "libhal_kit_of_port.a").is_file()
    assert (built / "hal_port_acme.so").read_bytes() == own
    found = checked(made)
    assert found.is_sound, found.findings
    assert Path(found.hcd) == built / "acme.hcd.yaml"
    wheel = pack(built, into=built / "dist-nowhere", toolchain=toolchain)
    assert wheel.parent == built / "dist-nowhere"


@pytest.mark.slow
def test_a_library_for_another_machine_is_told_and_is_no_fault_when_it_was_asked_for(
    built: Path, toolchain: str
) -> None:
    made = build(built, toolchain=toolchain)
    assert made.library is not None
    data = bytearray(made.library.read_bytes())
    data[18:20] = (243).to_bytes(2, "little")
    made.library.write_bytes(data)
    found = checked(made)
    told = next(finding for finding in found.findings if finding.subject == "file")
    assert (found.is_sound, told.state) == (True, "later")
    assert "It is built for riscv64" in told.text
    made.library.unlink()
