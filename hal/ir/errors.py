"""The exceptions of the tensor IR; all carry a place where there is a text."""

from __future__ import annotations

from hal.errors import HalError
from hal.ir.nodes import Span

__all__ = ["IrError", "IrTextError", "IrValueError", "pointed"]


class IrError(HalError):
    """A kernel is wrong."""

    exit_code = 2


class IrTextError(IrError):
    """A text is no kernel: a word stands where it may not, or a rule is broken.

    Attributes:
        file: Name of the text.
        line, column: Place of the first wrong character, both from 1.
    """

    def __init__(
        self, problem: str, *, file: str, span: Span, source: str, next_step: str = ""
    ) -> None:
        self.file = file
        self.line = span.line
        self.column = span.column
        text = f"{problem.rstrip('.')}. {next_step}" if next_step else problem
        shown = pointed(source, span)
        super().__init__(f"{text}\n{shown}", call=f"{file}:{span.line}:{span.column}")


class IrValueError(IrError, ValueError):
    """A kernel cannot run with these arrays, params or scalars."""


def pointed(source: str, span: Span) -> str:
    """The line of a place, with carets below it."""
    lines = source.split("\n")
    line = lines[span.line - 1] if 0 < span.line <= len(lines) else ""
    start = max(span.column - 61, 0)  # a very long line is cut to a window around the place
    shown = "".join(c if c.isprintable() else " " for c in line[start : start + 100])
    at = span.column - 1 - start
    width = max(1, min(span.end - span.column, len(shown) - at))
    return f"  {shown}\n  {' ' * at}{'^' * width}"
