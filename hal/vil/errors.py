"""The exceptions of VIL: text with line and caret, binary with offset and field."""

from __future__ import annotations

from hal.errors import HalError

__all__ = ["VilBinaryError", "VilError", "VilFault", "VilRefused", "VilTextError"]


class VilError(HalError):
    """A VIL module is wrong."""

    exit_code = 2


class VilTextError(VilError):
    """A `.vil` text does not parse.

    Attributes:
        line, column: Place of the first wrong character, both from 1.
        allowed: What could stand there.
    """

    def __init__(
        self, problem: str, *, file: str, line: int, column: int, source: str, allowed: str = ""
    ) -> None:
        self.line = line
        self.column = column
        self.allowed = allowed
        text = f"{problem}; allowed: {allowed}" if allowed else problem
        shown = "".join(character if character.isprintable() else " " for character in source)
        caret = " " * (column - 1) + "^"
        super().__init__(f"{text}\n  {shown}\n  {caret}", call=f"{file}:{line}:{column}")


class VilBinaryError(VilError):
    """A binary image does not decode.

    Attributes:
        offset: Byte offset in the image of the wrong field.
        field: Name of the field, as on the specification page.
    """

    def __init__(self, problem: str, *, offset: int, field: str) -> None:
        self.offset = offset
        self.field = field
        super().__init__(problem, call=f"VIL image, offset {offset}, {field}")


class VilRefused(VilError):
    """A launch is refused before anything runs (a port answers INVALID_VALUE or OUT_OF_RANGE)."""


class VilFault(VilError):
    """A program failed while it ran (a port answers EXECUTION_FAILED)."""
