"""The tools of cases: the raw port, guards, witnesses, and the commands repro and cert."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hal.testing import record, session
from hal.testing.abi import Status
from hal.testing.capability import capability
from hal.testing.case import case
from hal.testing.raw import Raw, open_target
from hal.testing.target import find

from .conftest import PORT


@pytest.fixture(scope="module")
def raw() -> Iterator[Raw]:
    port = open_target(find(PORT))
    yield port
    assert port.close() == Status.OK


@pytest.fixture
def device(raw: Raw) -> Iterator[int]:
    out = raw.out("hal_device")
    raw.ok("device.open", 0, out)
    yield int(out[0])
    raw.clean()


def test_an_untouched_output_is_told_from_a_written_one(raw: Raw, device: int) -> None:
    out = raw.out("hal_memory")
    desc = raw.new("memory_desc", bytes=64)
    before = raw.untouched(out)
    raw.ok("memory.alloc", device, desc, out)
    assert (before, raw.untouched(out), raw.guard_intact(out)) == (True, False, True)


def test_a_write_behind_an_output_is_seen(raw: Raw) -> None:
    out = raw.out("uint32_t")
    raw.ffi.cast("uint32_t *", out)[1] = 0
    assert raw.guard_intact(out) is False


def test_a_struct_for_output_has_its_size_and_counts_as_untouched(raw: Raw) -> None:
    out = raw.out("hal_memory_figures", size=8)
    assert (out.size, raw.untouched(out)) == (8, True)


def test_a_longer_struct_has_its_tail_behind_it(raw: Raw) -> None:
    desc = raw.longer("memory_desc", tail=b"\1\2", bytes=64)
    size = raw.ffi.sizeof("hal_memory_desc")
    tail = bytes(raw.ffi.buffer(raw.ffi.cast("uint8_t *", desc), size + 2))[size:]
    assert (desc.size, desc.bytes, tail) == (size + 2, 64, b"\1\2")


def test_the_port_has_functions_and_lacks_others(raw: Raw) -> None:
    assert (raw.has("memory.alloc"), raw.has("memory.export_handle")) == (True, False)


def test_clean_ends_what_was_made_and_forgets_what_was_ended(raw: Raw, device: int) -> None:
    out, desc = raw.out("hal_memory"), raw.new("memory_desc", bytes=64)
    for _ in range(2):
        raw.ok("memory.alloc", device, desc, out)
    raw.ok("memory.free", int(out[0]))
    assert raw.clean(keep=device) == []
    assert raw.owns("device.close", device)


def test_a_status_that_is_none_fails_the_case(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(raw._functions, "port.device_count", lambda *_: 254)
    with pytest.raises(AssertionError, match="answered 254, which is no status of the ABI"):
        raw.call("port.device_count", raw.NULL)


def test_a_host_buffer_ends_at_a_page_that_kills() -> None:
    code = (
        "import ctypes; from hal.testing.guard import GuardedBuffer\n"
        "b = GuardedBuffer(1000)\n"
        "b.array()[:] = 1\n"
        "print(b.intact(), flush=True)\n"
        "ctypes.memset(b.address - 1, 0, 1)\n"
        "print(b.intact(), flush=True)\n"
        "ctypes.memset(b.address + 1000, 0, 1)\n"
        "print('alive')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.returncode) == (["True", "False"], -11)


# ---- witnesses ----


def settings(**flat: str) -> session.Session:
    """A run's settings with an HCD of one's own."""
    named = {name.replace("__", "."): value for name, value in flat.items()}
    return session.Session(find(PORT), flat=named)


def test_a_claimed_capability_that_the_port_has_lets_the_case_run(raw: Raw, device: int) -> None:
    assert raw.i64(device, "features.host_signal_events") == 1
    assert capability(raw, device, settings(features__host_signal_events="true"),
                      "features.host_signal_events") is None  # fmt: skip


def test_three_witnesses_make_a_skip(raw: Raw, device: int) -> None:
    with pytest.raises(record.CapabilityAbsent) as absent:
        capability(raw, device, settings(), "features.ipc")
    assert set(absent.value.witnesses) == {"hcd", "query", "probe"}
    assert (
        absent.value.witnesses["probe"] == "memory.export_handle, memory.import_handle: UNSUPPORTED"
    )


def test_a_claim_that_the_port_denies_is_a_failure(raw: Raw, device: int) -> None:
    with pytest.raises(AssertionError, match="HAL-ABI-006"):
        capability(raw, device, settings(features__ipc="true"), "features.ipc")


def test_an_hcd_that_claims_too_little_runs_the_case_and_warns(raw: Raw, device: int) -> None:
    notes = record.begin(record.Record())
    capability(raw, device, settings(), "features.host_call")
    assert notes.warnings == [
        "the HCD does not claim features.host_call, the port seems to have it"
    ]


def test_a_case_cannot_swallow_a_skip_by_accident() -> None:
    assert not issubclass(record.CapabilityAbsent, Exception)


@pytest.mark.parametrize("rules", ["HAL-MEM-004", [], ()])
def test_a_case_cites_a_list_of_rules(rules: object) -> None:
    with pytest.raises(TypeError, match="give a list of rule ids"):
        case(rules=rules)


# ---- commands ----

CASE = "tier1/memory.py::test_alloc_refuses_size_zero"


def test_repro_runs_one_case_and_shows_its_calls(run: object) -> None:
    done = run("hal.cli", "repro", CASE, PORT, "--trace", timeout=120)
    assert (done.returncode, f"PASS {CASE}" in done.stdout) == (0, True)
    assert "memory.alloc(" in done.stdout
    assert "-> INVALID_VALUE" in done.stdout


@pytest.mark.parametrize(
    "case_id", ["nothing", "tier1/memory.py::test_nobody", "tier1/../../pyproject.toml::x"]
)
def test_repro_of_an_unknown_case_is_a_clear_line(run: object, case_id: str) -> None:
    done = run("hal.cli", "repro", case_id, PORT, timeout=120)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "no case" in done.stderr


def certificate(folder: Path, **changes: object) -> Path:
    """Write a certificate by hand."""
    from hal.certify.certificate import PREDICATE

    predicate: dict[str, object] = {
        "verdict": "CERTIFIED", "reasons": [], "tier": 1, "claim": "self-declared",
        "port": {"name": "acme", "vendor": "Acme", "version": "1", "abi": "1.0", "device": "A1",
                 "device_index": 0, "build_id": ""},
        "digests": {"port": "0" * 64}, "counts": {"PASS": 2}, "required": 2, "skips": [],
        "numerics": {}, "host_share": {"port": "device"}, "seed": 0, "nonce": "",
        "environment": {"started": "2026-01-01T00:00:00Z", "seconds": 1, "processor": "P",
                        "cores": 2, "system": "Linux"},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    statement = {"predicateType": PREDICATE, "predicate": predicate | changes}
    (folder / "cert.json").write_text(json.dumps(statement))
    return folder


def test_cert_show_prints_the_verdict_first(run: object, tmp_path: Path) -> None:
    folder = certificate(tmp_path, verdict="NOT CERTIFIED", numerics={"numerics.x": "tf32"})
    done = run("hal.cli", "cert", "show", folder)
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        1,
        "NOT CERTIFIED  tier 1  self-declared",
    )
    assert "numerics.x: tf32" in done.stdout


def test_cert_diff_tells_what_got_worse(run: object, tmp_path: Path) -> None:
    from hal.certify.results import Writer

    old = certificate(tmp_path / "old")
    new = certificate(tmp_path / "new", verdict="NOT CERTIFIED", counts={"PASS": 1, "FAIL": 1})
    for folder, status in ((old, "PASS"), (new, "FAIL")):
        writer = Writer(folder / "results.jsonl")
        writer.add({"id": "tier1/a.py::test_a", "status": status, "rules": []})
        writer.close()
    done = run("hal.cli", "cert", "diff", old, new)
    assert done.returncode == 1
    assert "worse     tier1/a.py::test_a: PASS -> FAIL" in done.stdout.splitlines()
    same = run("hal.cli", "cert", "diff", old, old)
    assert (same.returncode, same.stdout.strip()) == (0, "no difference")


@pytest.mark.parametrize("content", [None, "", "[]", "{}", "\0"])
def test_what_is_no_certificate_is_a_clear_line(
    run: object, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "cert.json"
    if content is not None:
        path.write_text(content)
    done = run("hal.cli", "cert", "show", path)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


@pytest.mark.parametrize("change", ["nothing", "the verdict", "a result", "the chip", "the port"])
def test_cert_verify_derives_the_verdict_again(run: object, tmp_path: Path, change: str) -> None:
    from hal.certify.run import Options, certify
    from hal.certify.summary import write_outputs

    out = tmp_path / "out"
    finished = certify(Options(port=PORT, out=out, quiet=True, select="HAL-MEM-004"))
    write_outputs(finished)
    words = ["cert", "verify", out]
    if change == "the verdict":
        text = (out / "cert.json").read_text()
        (out / "cert.json").write_text(text.replace('"VOID"', '"CERTIFIED"'))
    elif change == "a result":
        text = (out / "results.jsonl").read_text()
        (out / "results.jsonl").write_text(text.replace("PASS", "FAIL"))
    elif change == "the chip":
        (out / "chip.flat").write_text("")
    elif change == "the port":
        words += ["--port", Path(__file__)]
    done = run("hal.cli", *words, timeout=120)
    wrong = [line for line in done.stdout.splitlines() if line.startswith("wrong")]
    assert (done.returncode, bool(wrong)) == ((0, False) if change == "nothing" else (5, True))
