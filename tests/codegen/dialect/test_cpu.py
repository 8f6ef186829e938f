"""The cpu port loads source.c: compiled once, kept, refused in words."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hal
import hal.hcd
from hal import dtypes
from hal.codegen.dialect import image, route
from hal.codegen.dialect.image import payload
from hal.device import Device
from hal.errors import HalError, InvalidModule, Unsupported
from hal.vil import recipes
from hal.vil.binary_writer import encode_envelope

MODULE = recipes.multiply_add(dtypes.f32)


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """The cpu with an empty cache of its own."""
    monkeypatch.setenv("HAL_CACHE_DIR", str(tmp_path))
    with hal.open("cpu") as opened:
        yield opened


def kept(folder: Path) -> list[str]:
    """Names of the files in the cache, without their content's hash."""
    return sorted(path.suffix for path in (folder / "sources").iterdir())


def run(device: Device, loaded: bytes) -> bool:
    """Launches multiply_add and compares it with NumPy."""
    rows, columns = 37, 91
    source = np.random.default_rng(4)
    a, b, c = (source.standard_normal((rows, columns)).astype(np.float32) for _ in range(3))
    module, stream = device.load(loaded, "source.c"), device.stream()
    given = [device.array(each) for each in (a, b, c)]
    out = device.array(np.zeros((rows, columns), np.float32))
    module["main"].launch(stream, rows, columns, *given, out)
    stream.synchronize()
    return bool((out.numpy() == a * b + c).all())


def test_a_source_runs_as_its_vil_says(device: Device, cpu: hal.hcd.Hcd) -> None:
    assert run(device, image(MODULE, cpu))


def test_a_source_is_compiled_once(
    device: Device, cpu: hal.hcd.Hcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = image(MODULE, cpu)
    device.load(loaded, "source.c")
    library = next((tmp_path / "sources").glob("*.so"))
    before = library.stat().st_ino
    assert run(device, loaded)
    assert (kept(tmp_path), library.stat().st_ino) == ([".c", ".so"], before)


def test_a_kept_library_whose_origin_differs_is_made_again(
    device: Device, cpu: hal.hcd.Hcd, tmp_path: Path
) -> None:
    loaded = image(MODULE, cpu)
    device.load(loaded, "source.c").close()
    origin = next((tmp_path / "sources").glob("*.c"))
    text = origin.read_bytes()
    origin.write_bytes(b"something else")
    assert run(device, loaded)
    assert (origin.read_bytes(), kept(tmp_path)) == (text, [".c", ".so"])


def broken(text: str, cpu: hal.hcd.Hcd) -> bytes:
    """An image whose source has a line that no compiler takes, below an instruction."""
    from hal.codegen.dialect import render

    source = render(MODULE, cpu).replace("for (i64 n = 0;", f"{text}; for (i64 n = 0;")
    return encode_envelope(MODULE.kernels, "source.c", payload(MODULE, source))


def test_a_source_that_does_not_compile_names_the_instruction(
    device: Device, cpu: hal.hcd.Hcd, tmp_path: Path
) -> None:
    with pytest.raises(InvalidModule, match=r"from VIL `store .*`: error: .*undeclared_thing"):
        device.load(broken("undeclared_thing = 1", cpu), "source.c")
    assert kept(tmp_path) == []


def test_without_a_compiler_the_format_is_unsupported(
    device: Device, cpu: hal.hcd.Hcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(Unsupported, match="needs a C compiler, and no-such-compiler is not found"):
        device.load(image(MODULE, cpu), "source.c")


def test_an_executable_without_a_compiler_is_interpreted_and_says_so_once(
    device: Device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HAL_ROUTE", "")
    monkeypatch.setenv("CC", "no-such-compiler-either")
    monkeypatch.setattr(route, "formats", lambda *_: ["source.c", "vil.v1"])
    loaded = [route.load(MODULE, device).format for _ in range(2)]
    said = [record.getMessage() for record in caplog.records if record.name == "hal.codegen"]
    assert (loaded, len(said)) == (["vil.v1", "vil.v1"], 1)
    assert "source.c is left out for the next format" in said[0]


def test_products_without_a_template_are_left_to_the_interpreter(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "formats", lambda *_: ["source.c", "vil.v1"])
    half = recipes.matmul(dtypes.bf16, dtypes.bf16, dtypes.f32)
    full = recipes.matmul(dtypes.f32, dtypes.f32, dtypes.f32)
    assert [route.load(m, device).format for m in (half, full)] == ["vil.v1", "source.c"]


def test_a_route_of_one_kind_is_asked_for(
    cpu: hal.hcd.Hcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAL_ROUTE", "source")
    by_variable = route.formats(cpu)
    monkeypatch.delenv("HAL_ROUTE")
    by_name = [route.formats(cpu, name) for name in ("source", "vil")]
    assert [by_variable, *by_name] == [["source.c"], ["source.c"], ["vil.v1"]]


def test_damaged_payloads_are_refused(device: Device, cpu: hal.hcd.Hcd) -> None:
    good = payload(MODULE, "int x;")
    plan_bytes = struct.unpack_from("<I", good, 12)[0]
    changes = [(0, b"HSRX"), (4, b"\2\0\0\0"), (8, b"\xff\xff\xff\xff"), (20, b"\xff\xff\xff\x7f")]
    changes.append((32 + plan_bytes // 2, b"\xff" * 8))
    verdicts = []
    for place, data in changes:
        bad = good[:place] + data + good[place + len(data) :]
        try:
            device.load(encode_envelope(MODULE.kernels, "source.c", bad), "source.c")
        except HalError as error:
            verdicts.append(type(error))
    assert verdicts == [InvalidModule] * len(changes)


def test_a_source_without_a_program_is_refused(device: Device, cpu: hal.hcd.Hcd) -> None:
    lacking = encode_envelope(MODULE.kernels, "source.c", payload(MODULE, "int x;"))
    with pytest.raises(InvalidModule, match="the source has no hal_program_main"):
        device.load(lacking, "source.c")
