"""`python -m hal._generate [--check]`: write the generated files, or tell which ones differ."""

import argparse
import difflib
import sys
from pathlib import Path

from hal._generate.registry import RegistryError, load
from hal._generate.render import render

DIFF_LINES = 12


def differences(root: Path, files: dict[str, str]) -> list[str]:
    """One text per file that is not what the registry says: its name and a short diff."""
    found = []
    for name, text in files.items():
        path = root / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old == text:
            continue
        lines = list(difflib.unified_diff(old.split("\n"), text.split("\n"), n=1, lineterm=""))
        more = [f"… {len(lines) - DIFF_LINES} more lines"] if len(lines) > DIFF_LINES else []
        found.append("\n".join([f"{name} differs:", *lines[2:DIFF_LINES], *more]))
    return found


def write(root: Path, files: dict[str, str]) -> list[str]:
    """Write what changed and return its names."""
    changed = []
    for name, text in files.items():
        path = root / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        changed.append(name)
    return changed


def main(arguments: list[str] | None = None) -> int:
    """Run the generator; 0 done or no difference, 1 a difference, 2 a wrong registry."""
    parser = argparse.ArgumentParser(prog="python -m hal._generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 on a difference")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="the checkout")
    options = parser.parse_args(arguments)
    try:
        files = render(load(options.root / "include" / "registry"))
    except RegistryError as error:
        print(error, file=sys.stderr)
        return 2
    if not options.check:
        print("\n".join(write(options.root, files)) or "Nothing changed.")
        return 0
    if found := differences(options.root, files):
        print("\n".join(found), "Run python -m hal._generate.", sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
