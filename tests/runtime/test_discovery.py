"""Finding ports, and saying why one was not found or did not load."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import hal
from hal import _paths, errors
from hal.port.discovery import Spec, candidates, parse_spec, port_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acme", Spec("acme")),
        ("acme:0", Spec("acme", "", 0, True)),
        ("acme:12", Spec("acme", "", 12, True)),
        ("acme:vendor/chip", Spec("acme", "vendor/chip")),
        ("acme:chip.hcd.yaml:3", Spec("acme", "chip.hcd.yaml", 3, True)),
        ("/x/hal_port_acme.so", Spec("/x/hal_port_acme.so")),
        ("/x/hal_port_acme.so:1", Spec("/x/hal_port_acme.so", "", 1, True)),
    ],
)
def test_a_device_is_named_by_port_description_and_number(text: str, expected: Spec) -> None:
    assert parse_spec(text) == expected


@pytest.mark.parametrize("text", ["", ":", ":0", "acme:", "acme::", "acme:99999999999"])
def test_a_name_that_says_nothing_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(errors.UsageError, match="NAME:INDEX"):
        parse_spec(text)


@pytest.mark.parametrize("what", [3, b"cpu", ["cpu"]], ids=str)
def test_what_is_no_name_is_refused(what: object) -> None:
    for use in (hal.open, hal.load_port):
        with pytest.raises(errors.UsageError, match="is no name of a device"):
            use(what)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["hal_port_acme.so", "acme.so", "acme"])
def test_a_file_is_called_after_its_port(name: str) -> None:
    assert port_name(Path("/x") / name) == "acme"


def test_a_folder_that_does_not_exist_says_so() -> None:
    with pytest.raises(errors.PortLoadError, match="there is no such file or folder"):
        hal.load_port("/no/such/place")


def test_a_folder_without_a_library_says_what_it_found(tmp_path: Path) -> None:
    with pytest.raises(errors.PortLoadError, match=r"holds one \.so file; found none"):
        hal.load_port(tmp_path)


def test_a_folder_with_two_libraries_says_which(tmp_path: Path) -> None:
    for name in ("a.so", "b.so"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(errors.PortLoadError, match=r"found a\.so, b\.so"):
        hal.load_port(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"not a library", b"\x7fELF" + bytes(60)], ids=["empty", "text", "bad elf"]
)
def test_a_file_that_is_no_library_gives_one_clear_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "hal_port_acme.so"
    file.write_bytes(content)
    with pytest.raises(errors.PortLoadError, match="does not load: ") as caught:
        hal.load_port(file)
    assert str(file) in str(caught.value)


def test_a_library_that_is_no_port_gives_one_clear_error() -> None:
    with pytest.raises(errors.PortLoadError, match="hal_port_entry"):
        hal.load_port(_paths.lib_dir() / "libhal.so")


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(errors.PortLoadError, match="did you mean 'cpu'"):
        hal.open("cpux:0")


def test_an_unknown_name_never_opens_another_port() -> None:
    with pytest.raises(errors.PortLoadError, match="there is no port 'zebra'"):
        hal.open("zebra")


def test_opening_without_a_name_lists_the_names() -> None:
    with pytest.raises(errors.UsageError, match="cpu:0"):
        hal.open()


def test_the_environment_offers_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "acme"
    folder.mkdir()
    (folder / "hal_port_acme.so").write_bytes(b"x")
    monkeypatch.setenv("HAL_PORT_PATH", os.pathsep.join([str(folder), str(tmp_path / "gone")]))
    found = candidates(parse_spec("acme"))
    assert [(c.source, c.path) for c in found] == [("HAL_PORT_PATH", folder / "hal_port_acme.so")]
    gone = [record for record in hal.ports() if record.name == "gone"]
    assert [(r.status, r.source) for r in gone] == [("failed", "HAL_PORT_PATH")]


def test_two_ports_of_one_name_are_refused_with_both_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "hal_port_cpu.so"
    shutil.copy(_paths.lib_dir() / "hal_port_cpu.so", copy)
    monkeypatch.setenv("HAL_PORT_PATH", str(copy))
    with pytest.raises(errors.PortLoadError, match="two ports are called 'cpu'") as caught:
        hal.open("cpu")
    assert str(copy) in str(caught.value)
    assert "by its path" in str(caught.value)


def test_every_attempt_is_kept_with_its_reason(tmp_path: Path) -> None:
    file = tmp_path / "hal_port_broken.so"
    file.write_bytes(b"nothing")
    with pytest.raises(errors.PortLoadError):
        hal.load_port(file)
    kept = [record for record in hal.ports() if record.path == file]
    assert [record.status for record in kept] == ["failed"]
    assert kept[0].reason == "it is not a shared object: it does not start with an ELF header"


def test_loading_a_port_twice_gives_the_same_port() -> None:
    assert hal.load_port("cpu") is hal.load_port("cpu")


def test_a_port_with_other_layers_is_another_port() -> None:
    plain = hal.load_port("cpu", layers=())
    assert plain is not hal.load_port("cpu")
    assert plain.layers == ()
    plain.close()


def test_an_unknown_layer_is_refused() -> None:
    with pytest.raises(errors.UsageError, match="there is no layer 'turbo'"):
        hal.load_port("cpu", layers=("turbo",))


def test_a_description_that_claims_what_the_port_lacks_refuses_the_port(tmp_path: Path) -> None:
    wrong = tmp_path / "boast.hcd.yaml"
    wrong.write_text('hcd_version: "1.0"\nextends: hal/cpu\nfeatures: {module_serialize: true}\n')
    with pytest.raises(errors.PortLoadError, match=r"features\.module_serialize") as caught:
        hal.load_port("cpu", hcd=wrong)
    assert "module.serialize" in str(caught.value)


def test_a_wrong_description_gives_the_places_of_its_mistakes(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.hcd.yaml"
    wrong.write_text("hcd_version: '1.0'\nidentity: {vendor: 3}\n")
    with pytest.raises(errors.HcdError, match=r"wrong\.hcd\.yaml:2:"):
        hal.load_port("cpu", hcd=wrong)


def test_a_profile_is_no_description_of_a_chip() -> None:
    profile = next((_paths.hcd_dir() / "profiles").glob("*.yaml"))
    with pytest.raises(errors.HcdError, match="a port needs a chip or a system"):
        hal.load_port("cpu", hcd=profile)
