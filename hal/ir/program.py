"""The content of one text."""

from __future__ import annotations

from dataclasses import dataclass, field

from hal.errors import NotFound
from hal.ir.lexer import Comment
from hal.ir.nodes import Kernel, Schedule

__all__ = ["Program"]


@dataclass(frozen=True, slots=True)
class Program:
    """What one text holds.

    Attributes:
        comments: `# …` lines, kept for the printer.
        places: Of each kernel: line of its first param (0 without one), line of its `}`.
    """

    kernels: tuple[Kernel, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    comments: tuple[Comment, ...] = field(default=(), compare=False, repr=False, kw_only=True)
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False, kw_only=True)

    def kernel(self, name: str | None = None) -> Kernel:
        """The kernel of that name; without a name the only one. Raises NotFound."""
        names = [kernel.name for kernel in self.kernels]
        if name is None and len(names) == 1:
            return self.kernels[0]
        if name is None or name not in names:
            what = f"no kernel is called {name}" if name else f"the text holds {len(names)} kernels"
            listed = ", ".join(names) or "none"
            raise NotFound(what, call="ir.kernel", next_step=f"Choose one of: {listed}.")
        return self.kernels[names.index(name)]
