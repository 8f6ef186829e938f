"""`python -m hal._generate [--check|--freeze]`: write the generated files, or tell which differ.

A registry that moves something of a released ABI is refused.
"""

import argparse
import difflib
import json
import sys
from pathlib import Path

from hal._generate.registry import RegistryError, load
from hal._generate.release import check_releases, freeze
from hal._generate.render import LAYOUT, render

DIFF_LINES = 12


def read(path: Path) -> str:
    """The file's text, empty when there is no file."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def difference(name: str, old: str, new: str) -> str:
    """The file's name and a short diff."""
    lines = list(difflib.unified_diff(old.split("\n"), new.split("\n"), n=1, lineterm=""))[2:]
    more = [f"… {len(lines) - DIFF_LINES} more lines"] if len(lines) > DIFF_LINES else []
    return "\n".join([f"{name} differs:", *lines[:DIFF_LINES], *more])


def main(arguments: list[str] | None = None) -> int:
    """Run the generator; 0 done or no difference, 1 a difference, 2 a wrong registry."""
    parser = argparse.ArgumentParser(prog="python -m hal._generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 on a difference")
    parser.add_argument(
        "--freeze", action="store_true", help="keep this ABI as a release, to be tested for ever"
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="the checkout")
    options = parser.parse_args(arguments)
    try:
        files = render(load(options.root / "include" / "registry"))
        layout = json.loads(files[LAYOUT])
        if broken := check_releases(options.root, layout):
            raise RegistryError("\n".join(broken))
    except RegistryError as error:
        print(error, file=sys.stderr)
        return 2
    changed = [name for name, text in files.items() if read(options.root / name) != text]
    if options.check and changed:
        for name in changed:
            print(difference(name, read(options.root / name), files[name]), file=sys.stderr)
        print("Run python -m hal._generate.", file=sys.stderr)
    elif not options.check:
        for name in changed:
            (options.root / name).parent.mkdir(parents=True, exist_ok=True)
            (options.root / name).write_text(files[name], encoding="utf-8")
        print("\n".join(changed) or "Nothing changed.")
    if options.freeze and not options.check:
        try:
            print(f"Kept {freeze(options.root, layout['abi'])}.")
        except RegistryError as error:
            print(error, file=sys.stderr)
            return 2
    return int(options.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
