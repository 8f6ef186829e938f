"""Ports in Python: what they can do, and what each mistake of an author answers."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import hal
from hal.errors import ExecutionFailed, HalError, Internal, OutOfMemory, OutOfRange, PortLoadError
from hal.port.discovery import candidates, parse_spec

HERE = Path(__file__).parent
PORTS = HERE / "ports.py"
EXAMPLE = Path(__file__).resolve().parents[2] / "docs/examples/python/numpy_port.py"


def port(name: str) -> hal.Port:
    return hal.load_port(f"{PORTS}:{name}")


@pytest.mark.parametrize("name", ["Plain", "Seen"])
def test_bytes_go_in_and_out(name: str) -> None:
    given = np.arange(1000, dtype=np.int32)
    with port(name).device() as device:
        assert np.array_equal(device.array(given).numpy(), given)


@pytest.mark.parametrize("name", ["Plain", "Seen"])
def test_kernels_run_on_its_buffers(name: str) -> None:
    @hal.kernel
    def double(x):
        return x + x

    given = np.arange(1000, dtype=np.float32)
    with port(name).device() as device:
        assert np.array_equal(double(device.array(given)).numpy(), given * 2)


@pytest.mark.parametrize("name", ["Plain", "Seen"])
def test_copies_may_overlap(name: str) -> None:
    with port(name).device() as device:
        buffer, stream = device.alloc(8), device.stream()
        stream.copy(buffer, bytes(range(8)))
        stream.copy(buffer[2:8], buffer[0:6])
        out = bytearray(8)
        stream.copy(out, buffer)
        stream.synchronize()
        assert bytes(out) == bytes([0, 1, 0, 1, 2, 3, 4, 5])


def test_a_port_with_two_devices_names_both_and_their_memory() -> None:
    loaded = port("Two")
    found = []
    for index in range(loaded.device_count):
        with loaded.device(index) as device:
            found.append((device.text("device.name"), device.memory_bytes, device.name))
    assert found == [("first", 1 << 20, "Two:0"), ("second", 2 << 20, "Two:1")]


def test_no_two_methods_run_at_once() -> None:
    wrong = []

    def work(device: hal.Device) -> None:
        try:
            buffer, stream = device.alloc(64), device.stream()
            for _ in range(50):
                stream.copy(buffer, bytes(64))
            stream.synchronize()
        except HalError as error:
            wrong.append(str(error))

    with port("Threads").device() as device:
        threads = [threading.Thread(target=work, args=(device,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("Status", Internal, "Status.write: write returned -30, where None is due"),
        ("Short", Internal, "Short.read: read returned 0 bytes, where 40 are due"),
        ("Number", Internal, "Number.read: read returned 5, where 40 bytes are due"),
        ("Nothing", Internal, "Nothing.alloc: alloc returned None"),
        ("Raises", ExecutionFailed, r"Raises.write: ValueError: the link is down \(ports.py:"),
        ("Exits", ExecutionFailed, "Exits.write: SystemExit: 0"),
        ("Full", OutOfMemory, "no room for 40 bytes"),
        ("Host", OutOfMemory, "the pool holds 0 bytes"),
        ("Narrow", OutOfRange, "Narrow.write: the chip takes 4 bytes"),
        ("Small", Internal, r"Small.alloc: view shows 1 bytes of a buffer of \d+"),
        ("Crooked", Internal, "no multiple of 16"),
        ("Locked", Internal, "Locked.alloc: .*writable"),
    ],
)
def test_a_wrong_method_is_a_clear_error(name: str, kind: type[HalError], text: str) -> None:
    with port(name).device() as device, pytest.raises(kind, match=text):
        device.array(np.arange(5.0)).numpy()


def test_missing_methods_are_listed_in_the_order_to_write_them() -> None:
    with pytest.raises(PortLoadError) as caught:
        port("Unfinished")
    lacking, wrong = caught.value.reasons
    heads = "write(self, memory, offset, data), read(self, memory, offset, length)"
    assert lacking == f"it lacks 2 methods; write, in this order: {heads}"
    assert wrong.endswith("cannot be called as alloc(self, device, length, alignment)")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Stranger", "Stranger is no subclass of hal.testing.PythonPort"),
        ("Nobody", "there is no class Nobody; ports are Plain, Seen, Two"),
        ("Absent", r"Absent.start: OSError: libacme.so is not there \(ports.py:"),
        ("Words", "Words.start: device_count returned 'two'"),
    ],
)
def test_a_class_that_cannot_start_says_why(name: str, text: str) -> None:
    with pytest.raises(PortLoadError, match=text):
        port(name)


def test_a_file_that_does_not_import_says_where(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import hal\nx = = 1\n", encoding="utf-8")
    with pytest.raises(PortLoadError, match=r"SyntaxError: invalid syntax \(broken.py:2\)"):
        hal.load_port(f"{tmp_path}/broken.py:Port")


def test_the_library_alone_asks_for_a_class() -> None:
    library = candidates(parse_spec(f"{PORTS}:Plain"))[0].path
    assert library is not None
    with pytest.raises(PortLoadError, match=r"name one as FILE\.py:CLASS"):
        hal.load_port(library)


@pytest.mark.parametrize(
    ("text", "port", "hcd", "index", "name"),
    [
        ("a/b.py:Port", "a/b.py", "", 0, "Port"),
        ("b.py:Port:2", "b.py", "", 2, "Port"),
        ("python:b.py:Port:x.hcd.yaml:1", "b.py", "x.hcd.yaml", 1, "Port"),
        ("python:acme.hal:Port", "acme.hal", "", 0, "Port"),
        ("json:JSONDecoder", "json", "", 0, "JSONDecoder"),
    ],
)
def test_a_class_is_named_by_file_or_module(
    text: str, port: str, hcd: str, index: int, name: str
) -> None:
    found = parse_spec(text)
    assert (found.port, found.hcd, found.index, found.class_name) == (port, hcd, index, name)


@pytest.mark.parametrize("text", ["cpu", "sim:hcd/chips/h100.hcd.yaml", "./hal_port_x.so", "sim:0"])
def test_other_ports_are_no_classes(text: str) -> None:
    assert parse_spec(text).class_name == ""


def test_a_file_without_a_class_asks_for_one() -> None:
    assert candidates(parse_spec(str(PORTS)))[0].problem.endswith(f"as {PORTS}:CLASS")


def test_a_description_beside_the_file_is_the_chips(tmp_path: Path) -> None:
    (tmp_path / "chip.py").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    text = 'hcd_version: "1.0"\nextends: hal/python\nidentity: {vendor: acme, product: one}\n'
    (tmp_path / "chip.hcd.yaml").write_text(text, encoding="utf-8")
    with hal.open(f"{tmp_path}/chip.py:NumpyPort") as device:
        assert device.hcd.name == "acme/one"


@pytest.mark.slow
def test_the_example_is_certified_at_tier_1(tmp_path: Path, run) -> None:
    words = ["--tier", "1", "-q", "--isolation", "group:40", "--out", tmp_path / "out"]
    done = run("hal.certify.cli", f"{EXAMPLE}:NumpyPort", *words, timeout=600)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0,
        f"CERTIFIED  tier 1  {EXAMPLE}:NumpyPort",
    )


def test_a_class_that_is_no_port_yet_is_not_certified(tmp_path: Path, run) -> None:
    done = run("hal.certify.cli", f"{PORTS}:Unfinished", "-q", "--out", tmp_path / "out")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "write(self, memory, offset, data), read(self, memory, offset, length)" in done.stdout
