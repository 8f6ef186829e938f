"""report.html and kill_matrix.html: one file each, nothing from outside, the verdict first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hal.certify import results as outcome
from hal.certify.causes import group
from hal.certify.preflight import missing_functions
from hal.certify.suite import rule_tier
from hal.wording import counted

if TYPE_CHECKING:
    from hal.certify.run import Run

__all__ = ["write_kill_matrix", "write_report"]

RUN_TIME_KEYS = (
    "memory_bytes",
    "offset_alignment_bytes",
    "argument_limit",
    "stream_limit",
)


def write_report(
    certificate: Mapping[str, Any], results: list[dict[str, Any]], run: Run, path: Path
) -> None:
    """Write the report of a run."""
    page = _render(
        "report.html.j2",
        cert=certificate["predicate"],
        file=Path(run.target.file).name,
        causes=group(results),
        skips=skip_rows(results),
        missing=missing_functions(run.preflight, run.options.tier),
        problem=run.preflight.problem,
        heat=heat_map(results),
        claims=claim_rows(run),
        interfaces=interface_rows(run, results),
        groups=group_rows(results),
        rules=rule_rows(run, results),
        negative=_share(r["negative"] for r in results if r["tier"] == 1),
        subjects=Counter(r["subject"] for r in results),
        warnings=warning_rows(run, results),
        statuses=outcome.STATUSES,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def write_kill_matrix(matrix: Mapping[str, Any], path: Path) -> None:
    """Write the kill matrix of a self-test."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for row in matrix["mutants"]:
        kinds.setdefault(row["kind"], []).append(row)
    path.write_text(_render("kill_matrix.html.j2", matrix=matrix, kinds=kinds), encoding="utf-8")


def _render(name: str, **values: Any) -> str:
    import jinja2

    folder = Path(__file__).with_name("templates")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["counted"] = counted
    environment.filters["share"] = lambda value: f"{100 * value:.0f} %"
    return environment.get_template(name).render(**values)


def _share(flags: Iterable[bool]) -> float:
    listed = list(flags)
    return sum(listed) / len(listed) if listed else 0.0


def skip_rows(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the skips by HCD key, with what each witness says."""
    rows: dict[str, dict[str, Any]] = {}
    for result in results:
        if result["status"] == outcome.SKIP:
            key = result.get("capability", "no capability")
            row = rows.setdefault(
                key, {"key": key, "ids": [], "witnesses": result.get("witnesses", {})}
            )
            row["ids"].append(result["id"])
    return list(rows.values())


def heat_map(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the largest error/bound per operator and dtype."""
    from hal.testing.abi import Dtype

    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for result in results:
        operator, dtype = result.get("operator"), result.get("dtype")
        if not operator or not dtype:
            continue
        cell = cells.setdefault((operator, dtype), {"ratio": None, "bad": 0, "count": 0})
        cell["count"] += 1
        cell["bad"] += result["status"] in outcome.BAD
        ratio = result.get("error_over_bound")
        if ratio is not None:
            cell["ratio"] = max(cell["ratio"] or 0.0, float(ratio))
    for cell in cells.values():
        cell["tone"], cell["text"] = _tone(cell)
    order = [dtype.name.lower() for dtype in Dtype]
    columns = sorted({dtype for _, dtype in cells}, key=lambda d: ([*order, d]).index(d))
    return {"cells": cells, "rows": sorted({op for op, _ in cells}), "columns": columns}


def _tone(cell: Mapping[str, Any]) -> tuple[str, str]:
    """Return the colour class and the text of a cell."""
    ratio = cell["ratio"]
    if cell["bad"] or (ratio is not None and ratio > 1):
        text = "wrong" if ratio is None or ratio > 1e6 or ratio <= 1 else f"{ratio:.3g}"
        return "over", text
    if ratio is None:
        return "none", "·"
    if ratio == 0:
        return "exact", "exact"
    tone = "low" if ratio < 0.25 else "middle" if ratio < 0.5 else "high"
    return tone, f"{ratio:.2f}"


def claim_rows(run: Run) -> list[dict[str, str]]:
    """Return what the HCD claims beside what the port answers at run time."""
    reported = run.preflight.facts.get("reported", {})
    rows = []
    for key, value in reported.items():
        claimed = run.flat.get(key, "")
        shown = "" if value is None else str(value)
        rows.append(
            {"key": key, "claimed": claimed, "reported": shown} | _agree(key, claimed, value)
        )
    return [row for row in rows if row["claimed"] or row["reported"] not in ("", "0")]


def _agree(key: str, claimed: str, value: int | None) -> dict[str, str]:
    """Judge one row: agrees, differs, claims too little, or run-time only."""
    if key.startswith("device."):
        return {"verdict": "reported" if value is not None else "not answered"}
    says = claimed not in ("", "false", "none", "0")
    if value is None:
        return {"verdict": "not answered" if says else "agrees"}
    if says == bool(value):
        return {"verdict": "agrees"}
    return {"verdict": "differs" if says else "claims too little"}


def interface_rows(run: Run, results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each interface's functions: the port's own, the loader's, or absent."""
    from hal.testing.abi import FUNCTIONS, INTERFACES

    rows = []
    for interface in INTERFACES:
        functions = []
        for function in (f for f in FUNCTIONS if f.interface == interface):
            answer = run.preflight.answers.get(function.call, "unknown")
            kind = "native"
            if answer != "present":
                has_fallback = function.fallback not in ("", "none")
                kind = "emulated" if has_fallback else "absent"
            if answer == "unknown":
                kind = "unknown"
            functions.append({"verb": function.verb, "tier": function.tier, "kind": kind})
        rows.append({"name": interface, "functions": functions})
    return rows


def group_rows(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the counts per group."""
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    for result in results:
        key = (result["tier"], result["group"])
        row = rows.setdefault(
            key,
            {"tier": key[0], "name": key[1], "counts": Counter(), "negative": 0, "seconds": 0.0},
        )
        row["counts"][result["status"]] += 1
        row["negative"] += bool(result["negative"])
        row["seconds"] += float(result["duration_s"])
    return [rows[key] for key in sorted(rows)]


def rule_rows(run: Run, results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return for each rule of the tier whether cases cite it and whether they passed."""
    from hal.testing.abi import RULES

    cited: dict[str, Counter[str]] = {}
    for result in results:
        for rule in result["rules"]:
            cited.setdefault(rule, Counter())[result["status"]] += 1
    rows = []
    for rule in RULES:
        wanted = 0 < rule_tier(rule) <= run.options.tier
        found = cited.get(rule.id, Counter())
        if not wanted and not found:
            continue
        state = "uncovered"
        if found:
            state = "passed" if not sum(found[status] for status in outcome.BAD) else "failed"
            state = "not run" if set(found) == {outcome.NOT_RUN} else state
        rows.append(
            {
                "id": rule.id,
                "text": rule.text,
                "state": state,
                "count": sum(found.values()),
                "checked_by": rule.checked_by,
            }
        )
    counts = Counter(row["state"] for row in rows)
    return {"rows": rows, "counts": counts}


def warning_rows(run: Run, results: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return each warning once."""
    found = list(run.preflight.warnings)
    for result in results:
        found += result.get("warnings", [])
    return list(dict.fromkeys(found))
