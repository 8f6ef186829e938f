"""cert.json: what was certified, by which suite, with what result.

The form is an in-toto Statement v1: the subject is the port's shared object, the predicate is ours.
It is written without a signature; a DSSE envelope around these bytes adds one and changes nothing
here. Who reads it derives the verdict again from results.jsonl (`hal.certify.verdict`).
"""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hal import __version__, _paths
from hal.certify import results as outcome

if TYPE_CHECKING:
    from hal.certify.run import Run

__all__ = ["PREDICATE", "STATEMENT", "read_certificate", "write_certificate"]

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://hal-sdk.dev/certificate/v1"


def write_certificate(run: Run, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Write cert.json and return its content."""
    statement = {
        "_type": STATEMENT,
        "subject": [
            {"name": Path(run.target.file).name, "digest": {"sha256": run.settings["port_sha256"]}}
        ],
        "predicateType": PREDICATE,
        "predicate": _predicate(run, results),
    }
    path = run.out / "cert.json"
    path.write_text(json.dumps(statement, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return statement


def _predicate(run: Run, results: list[dict[str, Any]]) -> dict[str, Any]:
    facts = run.preflight.facts
    return {
        "verdict": run.verdict.word,
        "reasons": run.verdict.reasons,
        "tier": run.options.tier,
        "budget_s": run.options.budget,
        "claim": "simulated" if run.flat.get("features.virtual_clock") == "true" else _CLAIM,
        "port": {
            "name": facts.get("name", run.target.name),
            "vendor": facts.get("vendor", ""),
            "version": facts.get("version", ""),
            "build_id": facts.get("build_id", ""),
            "abi": facts.get("abi", ""),
            "device": facts.get("device.name") or "",
            "device_index": run.options.device,
        },
        "digests": {
            "port": run.settings["port_sha256"],
            "hcd": run.hcd_hash,
            "header": _hash(_paths.include_dir() / "hal" / "hal.h"),
            "suite": run.settings["suite_sha256"],
            "required": run.settings["required_sha256"],
            "results": _hash(run.results_path),
            "kill_matrix": _hash(run.options.suite / "kill_matrix.json"),
        },
        "chain": outcome.read(run.results_path).chain,
        "counts": run.verdict.counts,
        "required": len(run.required),
        "skips": _skips(results),
        "waivers": [],
        "numerics": {
            path: value for path, value in run.flat.items() if path.startswith("numerics.")
        },
        "host_share": host_share(run),
        "flaky": [],
        "seed": run.settings["seed"],
        "nonce": run.settings["nonce"],
        "environment": _environment(run),
    }


_CLAIM = "self-declared"


def _skips(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the skips with their HCD key and witnesses."""
    return [
        {
            "id": result["id"],
            "capability": result.get("capability", ""),
            "witnesses": result.get("witnesses", {}),
        }
        for result in results
        if result["status"] == outcome.SKIP
    ]


def host_share(run: Run) -> dict[str, Any]:
    """Return where operations run: what the port says, and what the HCD says per module format."""
    formats = {}
    for path, value in run.flat.items():
        if path.startswith("kernels.formats.") and path.endswith(".runs_on"):
            formats[path.removeprefix("kernels.formats.").removesuffix(".runs_on")] = value
    said = run.preflight.facts.get("runs_on") or ""
    return {"port": said, "formats": formats, "share": {"host": 1.0, "device": 0.0}.get(said)}


def _environment(run: Run) -> dict[str, Any]:
    started = run.environment.get("started", time.time())
    return {
        "hal": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "jobs": run.options.workers,
        "isolation": run.options.isolation,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": run.environment.get("seconds", 0),
    }


def _processor() -> str:
    """Return the processor's name, as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _hash(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def read_certificate(place: Path) -> dict[str, Any]:
    """Return the statement in a file, or in a run's folder.

    Raises:
        UsageError: there is none, or it is not one of ours.
    """
    from hal.errors import UsageError

    path = place / "cert.json" if place.is_dir() else place
    if not path.is_file():
        raise UsageError(
            f"{path} is not there", call="hal cert", next_step="Name the --out folder of a run."
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not JSON: {error}", call="hal cert") from None
    if not isinstance(found, dict) or found.get("predicateType") != PREDICATE:
        raise UsageError(f"{path} is no certificate of HAL", call="hal cert")
    return found
