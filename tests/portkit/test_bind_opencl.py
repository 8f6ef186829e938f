"""`hal port bind` on the headers of OpenCL, and the port in Python that stands on that binding."""

from __future__ import annotations

from pathlib import Path

import pytest

from hal.portkit.bind import bind

ROOT = Path(__file__).resolve().parents[2]
OPENCL = Path("/usr/include/CL/cl.h")
EXAMPLE = ROOT / "docs/examples/python/opencl_port.py"


@pytest.fixture(scope="session")
def opencl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example over OpenCL, beside a binding of the header that is installed."""
    folder = tmp_path_factory.mktemp("opencl")
    made = bind(OPENCL, into=folder / "opencl_binding.py", library="OpenCL")
    assert len(made.bound) >= 90
    assert {"clCreateBuffer", "clEnqueueReadBuffer", "clFinish"} <= set(made.bound)
    target = folder / EXAMPLE.name
    target.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    return target


def test_the_header_of_opencl_gives_a_worksheet(opencl: Path) -> None:
    functions = bind(OPENCL, into=opencl.with_name("again.py"), library="OpenCL").rows
    rows = {row.what: row.functions for row in functions}
    assert "clCreateBuffer" in rows["alloc"]
    assert "clReleaseMemObject" in rows["free"]
    assert "clEnqueueFillBuffer" in rows["fill"]
    assert "clFinish" in rows["stream"]
    assert "clEnqueueNDRangeKernel" in rows["launch"]


@pytest.mark.slow
def test_the_port_over_opencl_is_certified_at_tier_1(opencl: Path, tmp_path: Path, run) -> None:
    words = ["--tier", "1", "-q", "--isolation", "group:40", "--out", tmp_path / "out"]
    done = run("hal.certify.cli", f"{opencl}:OpenclPort", *words, timeout=600)
    last = f"CERTIFIED  tier 1  {opencl}:OpenclPort"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, last), done.stdout


def test_opencl_without_a_driver_says_so(opencl: Path, tmp_path: Path, run) -> None:
    words = [f"{opencl}:OpenclPort:0"]
    done = run("hal.cli", "info", *words, env={"OCL_ICD_VENDORS": str(tmp_path)})
    assert done.returncode == 1, done.stdout
    assert "OpenCL has no platform here; install a driver" in done.stderr
