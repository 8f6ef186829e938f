"""What code generation raises."""

from __future__ import annotations

from hal.errors import HalError
from hal.ir import Span

__all__ = ["CodegenError", "Unsuited"]


class CodegenError(HalError):
    """A kernel cannot be made for a chip.

    Attributes:
        span: Place in the text that the kernel came from; None when it did not come from one.
    """

    exit_code = 2

    def __init__(
        self, problem: str, *, call: str = "", next_step: str = "", span: Span | None = None
    ) -> None:
        super().__init__(problem, call=call, next_step=next_step)
        self.span = span


class Unsuited(Exception):
    """A choice of roles cannot express a kernel, or its programs do not fit the chip."""
