"""results.jsonl as JUnit XML, for machines that read nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from hal.certify import results as outcome

if TYPE_CHECKING:
    from hal.certify.run import Run

__all__ = ["write_junit"]

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(run: Run, results: list[dict[str, Any]], path: Path) -> None:
    """Write one test suite per tier and group."""
    root = ElementTree.Element("testsuites", name=f"hal-certify {run.target.name}")
    groups: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault(f"tier{result['tier']}.{result['group']}", []).append(result)
    for name, members in groups.items():
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=name,
            tests=str(len(members)),
            failures=str(sum(r["status"] in (outcome.FAIL, outcome.UNSUPPORTED) for r in members)),
            errors=str(sum(r["status"] in _ERRORS for r in members)),
            skipped=str(sum(r["status"] == outcome.SKIP for r in members)),
            time=f"{sum(r['duration_s'] for r in members):.6f}",
        )
        for result in members:
            _case(suite, name, result)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


_ERRORS = (outcome.CRASH, outcome.HANG, outcome.NOT_RUN)


def _case(suite: ElementTree.Element, group: str, result: dict[str, Any]) -> None:
    element = ElementTree.SubElement(
        suite,
        "testcase",
        classname=group,
        name=result["id"].partition("::")[2],
        time=f"{result['duration_s']:.6f}",
    )
    status, message = result["status"], _NOT_XML.sub("?", result.get("message", ""))
    first = message.splitlines()[0] if message else status
    if status == outcome.SKIP:
        ElementTree.SubElement(element, "skipped", message=first)
    elif status != outcome.PASS:
        tag = "error" if status in _ERRORS else "failure"
        note = ElementTree.SubElement(element, tag, message=first, type=status)
        note.text = f"{message}\nrules: {', '.join(result['rules'])}\n{result['repro']}"
