"""The exceptions of the SDK: one small family, each with a call, a problem and a next step.

Every message reads `call: what is wrong. What to do.` so that one line in a log is enough.
`exit_code` is what a command ends with when the exception reaches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "DeviceLost",
    "ExecutionFailed",
    "HalError",
    "HcdError",
    "Internal",
    "InvalidHandle",
    "InvalidModule",
    "InvalidState",
    "InvalidValue",
    "NotFound",
    "NotReady",
    "OutOfMemory",
    "OutOfRange",
    "PeerFailed",
    "PortLoadError",
    "StatusError",
    "Timeout",
    "Unsupported",
    "UsageError",
    "VersionMismatch",
    "from_status",
]


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

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        head = f"{self.call}: {self.problem}" if self.call else self.problem
        if not self.next_step:
            return head
        return f"{head.rstrip('.')}. {self.next_step}"


def _rebuild(kind: type[HalError], args: tuple[Any, ...], state: dict[str, Any]) -> HalError:
    """Make an exception again that came from another process."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


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


class PortLoadError(HalError):
    """A port could not be loaded.

    `reasons` holds one line for each file that was tried. `status` is what opening the file
    answered, 0 when none was opened; the file is there, so NOT_FOUND is the answer of port.init:
    the port works, and its driver or device is not on this machine.
    """

    def __init__(
        self,
        problem: str,
        *,
        call: str = "",
        next_step: str = "",
        reasons: Sequence[str] = (),
        status: int = 0,
    ) -> None:
        super().__init__(problem, call=call, next_step=next_step)
        self.reasons: tuple[str, ...] = tuple(reasons)
        self.status = status


class StatusError(HalError):
    """A call of the HAL did not succeed; each status of the ABI has a subclass.

    Attributes:
        status: The number that the call returned.
        operation_id: The 1-based operation that failed first on its stream; 0 when the call
            itself failed.
        device: The device that was meant, as `acme:0`; empty when there is none.
    """

    status = 0
    advice = "See the call's page in docs/interfaces."
    """The next step when the caller knows no better one."""

    def __init__(
        self,
        problem: str,
        *,
        call: str = "",
        next_step: str = "",
        status: int | None = None,
        operation_id: int = 0,
        device: str = "",
    ) -> None:
        super().__init__(problem, call=call, next_step=next_step or self.advice)
        self.status = self.status if status is None else status
        self.operation_id = operation_id
        self.device = device

    def __str__(self) -> str:
        head = f"{self.call}: {self.problem}" if self.call else self.problem
        head = head.rstrip(".")
        if self.operation_id:
            head += f", first at operation {self.operation_id} of its stream"
        if self.device:
            head += f" ({self.device})"
        return f"{head}. {self.next_step}"


class NotReady(StatusError):
    """The answer needs work that is still running."""

    status = 1
    advice = "Synchronise the stream or the event first."


class InvalidValue(StatusError, ValueError):
    """An argument has a value that is never allowed."""

    status = -1
    advice = "Correct the argument."


class InvalidHandle(StatusError):
    """An object was freed or closed, or belongs to another device."""

    status = -2
    advice = "Use an object that is alive and made on this device."


class InvalidState(StatusError):
    """The object cannot do this now."""

    status = -3
    advice = "Finish what the object is doing first."


class OutOfRange(StatusError, IndexError):
    """An index or a byte range lies outside its object."""

    status = -4
    advice = "Keep the index or the range inside the object."


class OutOfMemory(StatusError, MemoryError):
    """The device or the host has no room for the request."""

    status = -5
    advice = "Free buffers, or call device.pool.trim()."


class Unsupported(StatusError):
    """The port does not offer this."""

    status = -6
    advice = "'hal info DEVICE' lists what the device offers."


class VersionMismatch(StatusError):
    """The two sides speak different major versions of the ABI."""

    status = -7
    advice = "Install a release of the port that was built for this HAL."


class Timeout(StatusError):
    """The time given ran out; everything stays usable."""

    status = -8
    advice = "Wait longer, or look for work that never ends."


class InvalidModule(StatusError):
    """A program image is malformed, does not compile, or is not for this chip."""

    status = -9
    advice = "Check the program with 'hal vil check'."


class ExecutionFailed(StatusError):
    """Work failed while the device ran it; its stream takes no more work."""

    status = -10
    advice = "Destroy the stream and make a new one; other streams go on."


class DeviceLost(StatusError):
    """The device is gone; each of its handles is dead."""

    status = -11
    advice = "Close the device and open it again."


class PeerFailed(StatusError):
    """Another rank failed or the communicator was aborted."""

    status = -12
    advice = "Close the communicators of all ranks and join again."


class NotFound(StatusError, LookupError):
    """No object or key of that name exists."""

    status = -13
    advice = "Check the name."


class Internal(StatusError):
    """The port broke one of its own rules."""

    status = -14
    advice = "Report it to the port's vendor; 'hal-certify' shows which rule."


_BY_STATUS: dict[int, type[StatusError]] = {
    kind.status: kind
    for kind in (
        *(NotReady, InvalidValue, InvalidHandle, InvalidState, OutOfRange, OutOfMemory),
        *(Unsupported, VersionMismatch, Timeout, InvalidModule, ExecutionFailed, DeviceLost),
        *(PeerFailed, NotFound, Internal),
    )
}


def from_status(
    status: int,
    problem: str = "",
    *,
    call: str = "",
    next_step: str = "",
    operation_id: int = 0,
    device: str = "",
) -> StatusError:
    """Make the exception that stands for a status; a number that the ABI lacks gives Internal."""
    kind = _BY_STATUS.get(status)
    if kind is None:
        kind = Internal
        problem = f"returned the status {status}, which the ABI does not know" + (
            f": {problem}" if problem else ""
        )
    if not problem:
        summary = (kind.__doc__ or "").splitlines()[0].rstrip(".")
        problem = summary[:1].lower() + summary[1:]
    return kind(
        problem,
        call=call,
        next_step=next_step,
        status=status,
        operation_id=operation_id,
        device=device,
    )
