"""The exceptions of the SDK: one small family, each with a call, a problem and a next step.

Every message reads `call: what is wrong. What to do.` so that one line in a log is enough.
`exit_code` is what a command ends with when the exception reaches it.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["HalError", "HcdError", "UsageError"]


class HalError(Exception):
    """Root of every exception that the SDK raises on purpose.

    Args:
        problem: What is wrong, with both values (the one given and the one allowed).
        call: The call or file that failed, for example `memory.alloc`; empty for none.
        next_step: What the reader can do about it; empty for none.
    """

    exit_code = 1

    def __init__(self, problem: str, *, call: str = "", next_step: str = "") -> None:
        self.problem = problem
        self.call = call
        self.next_step = next_step
        super().__init__(problem, call, next_step)

    def __str__(self) -> str:
        head = f"{self.call}: {self.problem}" if self.call else self.problem
        if not self.next_step:
            return head
        return f"{head.rstrip('.')}. {self.next_step}"


class UsageError(HalError):
    """A command or a call was used in a way that can never work."""

    exit_code = 2


class HcdError(HalError):
    """A capability description is wrong or cannot be read.

    `problems` holds every mistake that was found, each as `file:line:col: path: text`;
    the message is all of them, one a line.
    """

    exit_code = 2

    def __init__(
        self,
        problem: str,
        *,
        call: str = "",
        next_step: str = "",
        problems: Sequence[str] = (),
    ) -> None:
        super().__init__(problem, call=call, next_step=next_step)
        self.problems: tuple[str, ...] = tuple(problems) or (str(self),)
