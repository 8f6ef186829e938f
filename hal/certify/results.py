"""The results of a run: one line of JSON per case, chained by hashes, flushed at once.

A line holds the SHA-256 of the line before it (`chain`), so that a line that was cut, removed or
changed shows. Readers trust nothing: a file with a broken line or chain says where.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["BAD", "CRASH", "FAIL", "HANG", "NOT_RUN", "PASS", "SKIP", "STATUSES", "UNSUPPORTED"]

PASS = "PASS"
FAIL = "FAIL"
CRASH = "CRASH"
HANG = "HANG"
SKIP = "SKIP_CAPABILITY"
UNSUPPORTED = "UNSUPPORTED_REQUIRED"
NOT_RUN = "NOT_RUN"
STATUSES = (PASS, FAIL, CRASH, HANG, UNSUPPORTED, SKIP, NOT_RUN)
BAD = (FAIL, CRASH, HANG, UNSUPPORTED)

FIRST_CHAIN = "0" * 64


def chain_of(line: bytes) -> str:
    """Return what the next line holds as `chain`."""
    return hashlib.sha256(line).hexdigest()


class Writer:
    """Appends results to `results.jsonl`; each is on disk before `add` returns.

    Args:
        path: The file; it continues when it exists.
        chain: The hash of the last line that is there.
    """

    def __init__(self, path: Path, chain: str = FIRST_CHAIN) -> None:
        self._file = path.open("ab", buffering=0)
        self.chain = chain
        self.count = 0

    def add(self, result: dict[str, Any]) -> dict[str, Any]:
        """Write one result and return it with its chain."""
        whole = {**result, "chain": self.chain}
        line = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
        self._file.write(line + b"\n")
        self.chain = chain_of(line)
        self.count += 1
        return whole

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(frozen=True)
class Reading:
    """What a results file holds.

    Attributes:
        results: The good lines in order.
        problems: What is wrong with the file; empty when it is whole.
        good_bytes: Length of the good part.
        chain: Hash of the last good line.
    """

    results: list[dict[str, Any]]
    problems: list[str]
    good_bytes: int
    chain: str


def read(path: Path) -> Reading:
    """Read a results file up to the first line that is broken."""
    results: list[dict[str, Any]] = []
    problems: list[str] = []
    chain, good = FIRST_CHAIN, 0
    data = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        where = f"{path.name}:{number}"
        if not line.endswith(b"\n"):
            problems.append(f"{where}: the last line is cut")
            break
        try:
            found = json.loads(line)
        except ValueError:
            problems.append(f"{where}: not a line of JSON")
            break
        if not isinstance(found, dict) or not {"id", "status", "rules"} <= found.keys():
            problems.append(f"{where}: not a result")
            break
        if found.get("chain") != chain:
            problems.append(f"{where}: does not follow the line before it (hash chain)")
            break
        chain = chain_of(line[:-1])
        good += len(line)
        results.append(found)
    return Reading(results, problems, good, chain)


def latest(results: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return results by id; of a case that was run again because it had not run, the last one."""
    found: dict[str, dict[str, Any]] = {}
    for result in results:
        before = found.get(result["id"])
        if before is None or before["status"] == NOT_RUN:
            found[result["id"]] = result
    return found
