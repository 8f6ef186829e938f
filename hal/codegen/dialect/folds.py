"""Folding the elements of a row: RED over columns inside a loop of a group."""

from __future__ import annotations

from hal.codegen.dialect.elements import constant, integer, narrow, widen
from hal.codegen.dialect.language import Dialect
from hal.dtypes import DType, f32, f64

__all__ = ["Fold", "identity"]

_MARKS = {"add": "+", "mul": "*", "and": "&", "or": "|", "max": "max", "min": "min"}


def identity(function: str, source: DType, kind: DType) -> str:
    """What a fold over nothing gives, as a value of the accumulator's type."""
    if function == "add" or function == "or":
        return "0"
    if function == "mul":
        return "1"
    if function == "and":
        return "1" if source.kind == "bool" else f"({source.name})-1"
    if kind.is_float:
        return constant(float("-inf") if function == "max" else float("inf"), kind)
    return integer(int(source.minimum if function == "max" else source.maximum))


class Fold:
    """One RED: an accumulator, the step of an element, and the result.

    Attributes:
        clauses: `reduction(op:name)` for languages that have a line for such loops.
    """

    def __init__(
        self, language: Dialect, function: str, source: DType, target: DType, name: str
    ) -> None:
        self.language = language
        self.function = function
        self.source = source
        self.target = target
        self.name = name
        self.kind = target if not source.is_float else (f64 if source is f64 else f32)
        if source.kind == "bool":
            self.kind = target
        self._type = self._accumulator()
        self.clauses = [f"reduction({_MARKS[function]}:{name})"]
        self._watches_nan = source.is_float and function in ("max", "min")
        if self._watches_nan:
            self.clauses.append(f"reduction(|:{name}_nan)")

    def _accumulator(self) -> str:
        if self.source.is_float:
            return self.kind.name
        if self.function in ("add", "mul"):
            return "u64" if self.target.bytes == 8 else "u32"
        return "i64" if self.source.bytes == 8 else "i32"

    def begin(self) -> list[str]:
        """Declarations before the loop."""
        start = identity(self.function, self.source, self.kind)
        lines = [f"{self._type} {self.name} = {start};"]
        if self._watches_nan:
            lines.append(f"i32 {self.name}_nan = 0;")
        return lines

    def step(self, element: str) -> list[str]:
        """Statements for one element."""
        name = self.name
        value = f"{name}_x"
        if self.source.is_float:
            lines = [f"const {self._type} {value} = {widen(element, self.source)};"]
        elif self.function in ("add", "mul"):
            kind = "i64" if self.target.bytes == 8 else "i32"
            lines = [f"const {self._type} {value} = ({self._type})({kind}){element};"]
        else:
            lines = [f"const {self._type} {value} = {element};"]
        if self.function in ("max", "min"):
            sign = ">" if self.function == "max" else "<"
            lines.append(f"{name} = {value} {sign} {name} ? {value} : {name};")
            if self._watches_nan:
                lines.append(f"{name}_nan |= {value} != {value};")
        else:
            lines.append(f"{name} = {name} {_MARKS[self.function]} {value};")
        return lines

    def end(self) -> str:
        """The element of the result."""
        text = self.name
        if self._watches_nan:
            nan = constant(float("nan"), self.kind)
            text = f"({self.name}_nan ? {nan} : {self.name})"
        if not self.source.is_float:
            return f"({self.language.stored(self.target)}){text}"
        if self.target in (f32, f64):
            return text
        return narrow(text, self.target)
