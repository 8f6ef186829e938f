"""Passes over the tensor IR that know no chip: each a function Kernel -> Kernel in its own file.

A pass never changes what a kernel computes (docs/ir.md): every rounding of the text stays. Each
can be switched off by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from hal.dtypes import DType
from hal.errors import InvalidValue
from hal.ir.nodes import Kernel
from hal.ir.passes.adapt import adapt_dtype
from hal.ir.passes.canonicalise import canonicalise
from hal.ir.passes.dead import remove_dead_code
from hal.ir.passes.fuse import fuse
from hal.ir.passes.layout import align_layouts
from hal.ir.passes.reuse import reuse

__all__ = ["NAMES", "PASSES", "Pass", "run", "stages"]


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of the table.

    Attributes:
        name: The word that switches it off; a pass that runs twice has one name.
        function: What it does.
        summary: One line for people.
    """

    name: str
    function: Callable[[Kernel], Kernel]
    summary: str


PASSES: tuple[Pass, ...] = (
    Pass("canonicalise", canonicalise, "lets in place, exact constants, one order of operands"),
    Pass("dead-code", remove_dead_code, "what no output needs goes"),
    Pass("layout", align_layouts, "transposes and copies become subscripts"),
    Pass("fuse", fuse, "elementwise temps are computed where they are read"),
    Pass("canonicalise", canonicalise, "again, after fusion"),
    Pass("reuse", reuse, "equal temps and repeated parts are computed once"),
    Pass("dead-code", remove_dead_code, "again, after fusion"),
)
"""All passes in their order. `adapt` (the element type) runs before them, when it is asked for."""

NAMES: tuple[str, ...] = tuple(dict.fromkeys(item.name for item in PASSES))


def stages(
    kernel: Kernel, *, without: AbstractSet[str] = frozenset(), dtype: DType | None = None
) -> Iterator[tuple[str, Kernel]]:
    """(name of the pass, the kernel after it) for each pass that changed something.

    Args:
        without: Names of passes to leave out.
        dtype: Store f32 arrays as this type (f16 or bf16); sums stay f32.

    Raises:
        InvalidValue: `without` names no pass, or `dtype` is another type.
    """
    unknown = sorted(set(without) - set(NAMES))
    if unknown:
        raise InvalidValue(
            f"there is no pass {', '.join(map(repr, unknown))}",
            call="hal.ir.passes",
            next_step=f"The passes are {', '.join(NAMES)}.",
        )
    if dtype is not None:
        kernel = adapt_dtype(kernel, dtype)
        yield "adapt", kernel
    for item in PASSES:
        if item.name in without:
            continue
        after = item.function(kernel)
        if after != kernel:
            kernel = after
            yield item.name, kernel


def run(
    kernel: Kernel, *, without: AbstractSet[str] = frozenset(), dtype: DType | None = None
) -> Kernel:
    """The kernel after all passes; arguments and errors as for `stages`."""
    for _, after in stages(kernel, without=without, dtype=dtype):
        kernel = after
    return kernel
