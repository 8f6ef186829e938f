"""Writes conformance/required/tier*/*.txt: the ids that a port must pass, one file per group.

usage: python -m hal.certify.required [--check]
"""

from __future__ import annotations

import sys

from hal.certify.suite import CONTROLS, required_lists, suite_folder
from hal.certify.supervisor import Supervisor
from hal.errors import HalError


def main() -> int:
    """Collect the suite and write the lists; with --check only compare."""
    suite = suite_folder()
    folders = sorted(folder for folder in suite.glob("tier*") if folder.is_dir())
    try:
        with Supervisor(suite, [CONTROLS, *folders]) as supervisor:
            wanted = required_lists(suite, supervisor.collect())
    except HalError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    there = {path: path.read_text("utf-8") for path in suite.glob("required/tier*/*.txt")}
    changed = [path for path in {**there, **wanted} if there.get(path) != wanted.get(path)]
    for path in changed:
        print(f"{path.relative_to(suite.parent)} differs")
        if "--check" in sys.argv[1:]:
            continue
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], "utf-8")
        else:
            path.unlink()
    return 1 if changed and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
