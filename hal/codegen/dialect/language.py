"""The words of a chip's own language, as the section `kernels.dialect` of its HCD gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from hal.dtypes import DType
from hal.errors import HcdError
from hal.hcd import Hcd

__all__ = ["Dialect", "Instr", "filled", "near_bytes"]

GROUP_BYTES = 64
"""Near memory that the text of a group takes for itself: what its lanes tell each other."""

_STORED = {"f16": "u16", "bf16": "u16", "f8e4m3": "u8", "f8e5m2": "u8", "bool": "u8"}
_NEEDED = ("u8", "u16", "u32", "u64", "i32", "i64", "f32")
UNLIMITED = 2**62
_HOLES = re.compile(r"\{(\w+)\}")


def filled(template: str, **words: object) -> str:
    """A template of the dialect with its holes `{name}` filled; other braces stay."""
    return _HOLES.sub(lambda hole: str(words.get(hole[1], hole[0])), template)


@dataclass(frozen=True, slots=True)
class Instr:
    """One `instructions` entry: a template that replaces the plain rendering of an operation.

    Attributes:
        op: `mma`, `un`, `bin` or `red`.
        function: VIL function of un, bin and red.
        a, b, acc: Operand types (acc: of the result); None fits every type.
        shape: mma: the step [m, n, k] that one use of the template does; k of 0 is any number.
        template: Text with {a} {b} {acc} {out} {lda} {ldb} {ldacc} {k} {count} filled in.
        meaning: What it computes, in the tensor IR.
    """

    id: str
    op: str
    template: str
    meaning: str
    function: str = ""
    a: str | None = None
    b: str | None = None
    acc: str | None = None
    shape: tuple[int, int, int] = (0, 0, 0)

    def fits(self, op: str, function: str, a: DType, b: DType | None, acc: DType) -> bool:
        """True when the template does this operation on these types."""
        if (self.op, self.function) != (op, function):
            return False
        pairs = ((self.a, a), (self.b, b), (self.acc, acc))
        return all(mine is None or given is None or mine == given.name for mine, given in pairs)

    def fill(self, **words: object) -> str:
        """The text with its holes filled; other braces stay."""
        return filled(self.template, **words)


@dataclass(frozen=True)
class Dialect:
    """A language as the renderer sees it. Every word comes from the HCD.

    Attributes:
        entry: `range`: a function runs instances one after another on the calling thread.
            `group`: a launch of the language runs one group of lanes per instance.
        near_bytes: What the tiles of an instance may take of the chip's near memory.
    """

    id: str
    language: str
    kernel: str
    barrier: str
    entry: str
    prologue: str
    function: str
    no_alias: str
    spaces: Mapping[str, str]
    ids: Mapping[str, str]
    types: Mapping[str, str]
    math: Mapping[str, str]
    bits: Mapping[str, str]
    atomics: Mapping[str, str]
    reduction: str = ""
    independent: str = ""
    stream: str = ""
    stream_end: str = ""
    near_block: str = ""
    instructions: tuple[Instr, ...] = ()
    near_bytes: int = UNLIMITED
    source: str = field(default="", compare=False)

    @staticmethod
    def of(hcd: Hcd) -> Dialect:
        """The dialect of a chip.

        Raises:
            HcdError: the chip declares none, or one without a word that every source needs.
        """
        return _read(hcd)

    @property
    def is_group(self) -> bool:
        """True when an instance is a group of lanes."""
        return self.entry == "group"

    @property
    def has_f64(self) -> bool:
        """True when the language computes in f64."""
        return "f64" in self.types

    def stored(self, dtype: DType) -> str:
        """Name of the type that holds an element in memory and in variables."""
        return _STORED.get(dtype.name, dtype.name)

    def space(self, name: str) -> str:
        """Words before a variable or pointer of a memory, with a blank behind; often empty."""
        word = self.spaces.get(name, "")
        return word + " " if word else ""

    def call(self, name: str, *operands: str) -> str:
        """A call of a mathematical function; raises HcdError when the language has none."""
        word = self.math.get(name)
        if word is None:
            raise HcdError(
                f"kernels.dialect.math has no {name}, which a program uses",
                call=self.source,
                next_step="Name the language's function, or lower the program without it.",
            )
        return f"{word}({', '.join(operands)})"

    def instr(self, op: str, function: str, a: DType, b: DType | None, acc: DType) -> Instr | None:
        """The first template for an operation."""
        for item in self.instructions:
            if item.fits(op, function, a, b, acc):
                return item
        return None


@lru_cache(maxsize=16)
def _read(hcd: Hcd) -> Dialect:
    data: dict[str, Any] | None = hcd.get("kernels.dialect")
    if data is None:
        raise HcdError(
            "declares no kernels.dialect, so no source can be written for it",
            call=hcd.name,
            next_step="docs/dialect.md says how to add one.",
        )
    missing = [name for name in _NEEDED if name not in data["types"]]
    if missing:
        raise HcdError(
            f"kernels.dialect.types has no {', '.join(missing)}; every source needs them",
            call=hcd.name,
        )
    instructions = tuple(
        Instr(**{**item, "shape": tuple(item.get("shape", (0, 0, 0)))})
        for item in data.get("instructions", [])
    )
    return Dialect(
        id=data["id"],
        language=data["language"],
        kernel=data["kernel"],
        barrier=data["barrier"],
        entry=data.get("entry", "group"),
        prologue=data.get("prologue", ""),
        function=data.get("function", ""),
        no_alias=data.get("no_alias", ""),
        spaces=data["spaces"],
        ids=data["ids"],
        types=data["types"],
        math=data.get("math", {}),
        bits=data.get("bits", {}),
        atomics=data.get("atomics", {}),
        reduction=data.get("reduction", ""),
        independent=data.get("independent", ""),
        stream=data.get("stream", ""),
        stream_end=data.get("stream_end", ""),
        near_block=data.get("near_block", ""),
        instructions=instructions,
        near_bytes=near_bytes(hcd),
        source=hcd.name,
    )


def near_bytes(hcd: Hcd) -> int:
    """What the tiles of an instance may take of the chip's near memory, when it runs as source."""
    if hcd.get("kernels.dialect.entry", "group") != "group":
        return UNLIMITED
    memory = hcd.get("kernels.vil.spaces.near.memory", "")
    return max(0, int(hcd.get(f"memory.{memory}.capacity_bytes", UNLIMITED)) - GROUP_BYTES)
