"""A file with kernels in their text form (docs/ir.md), as several commands take one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hal.errors import UsageError

if TYPE_CHECKING:
    from hal.ir import Program
    from hal.ir.nodes import Kernel

__all__ = ["chosen", "read"]


def read(name: str) -> str:
    """The text of a file; `-` is the standard input.

    Raises:
        UsageError: it cannot be read, or is no text.
    """
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return data.decode()
    except OSError as error:
        raise UsageError(f"cannot read it: {error.strerror}", call=name) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"not UTF-8 text (byte {error.start})", call=name) from None


def chosen(program: Program, file: str, name: str | None) -> Kernel:
    """The kernel of that name; without a name the only one.

    Raises:
        UsageError: the file has none, several and no name was given, or none of that name.
    """
    names = [item.name for item in program.kernels]
    listed = ", ".join(names)
    if not names:
        raise UsageError(
            "holds no kernel",
            call=file,
            next_step="A kernel begins with: kernel NAME { … }; docs/ir.md has the text form.",
        )
    if name is None and len(names) > 1:
        raise UsageError(
            f"holds {len(names)} kernels", call=file, next_step=f"Choose with --kernel: {listed}."
        )
    if name is not None and name not in names:
        raise UsageError(f"has no kernel {name}", call=file, next_step=f"It has {listed}.")
    return program.kernels[names.index(name) if name else 0]
