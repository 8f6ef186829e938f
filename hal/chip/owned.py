"""What every object of a device has: a handle, one owner, and an end that never surprises.

An object dies by `close()`, at the end of its with-statement, when Python collects it, or with its
device. Using it afterwards raises InvalidHandle, which says what it was and how it died.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, NoReturn, Self

from hal.errors import InvalidHandle
from hal.port.native import fail

if TYPE_CHECKING:
    from hal.chip.opened import Chip

__all__ = ["Owned"]


class Owned:
    """An object that lives on a device.

    Attributes:
        device: The hal.Device that made it.
    """

    __slots__ = ("__weakref__", "_handle", "device")

    NOUN: ClassVar[str] = "object"
    """What it is, in messages."""
    END: ClassVar[str] = "object.destroy"
    """The call that ends it."""
    GONE: ClassVar[str] = "closed"
    """What happened to it then, in messages."""

    def __init__(self, device: Chip, handle: int) -> None:
        self.device = device
        self._handle = handle

    @property
    def handle(self) -> int:
        """The handle of the ABI. Raises InvalidHandle when the object is dead."""
        if not self._handle or not self.device.is_open:
            self._refuse_dead("handle")
        return self._handle

    @property
    def is_closed(self) -> bool:
        """True once the object or its device was closed."""
        return not self._handle or not self.device.is_open

    def close(self) -> None:
        """End the object now. It never waits; closing twice is fine."""
        handle, self._handle = self._handle, 0
        if handle and self.device.is_open:
            status = self._destroy(handle)
            if status:
                self._fail(status, self.END)

    def _destroy(self, handle: int) -> int:
        """Give the handle back; returns the status."""
        raise AssertionError(f"{type(self).__name__} does not say how it ends")

    def _describe(self) -> str:
        """The object in a message, as `buffer of 64 bytes`."""
        return self.NOUN

    def _fail(self, status: int, call: str, **more: str) -> NoReturn:
        """Raise what a status of a call on this object stands for."""
        fail(self.device.native, status, call, device=self.device.name, **more)

    def _refuse_dead(self, call: str) -> NoReturn:
        gone = f"was {self.GONE}" if not self._handle else "went with its device, which was closed"
        raise InvalidHandle(
            f"this {self._describe()} {gone}",
            call=call if "." in call else self.END.partition(".")[0] + "." + call,
            device=self.device.name,
            next_step="Keep it open while you use it.",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", 0)
        if handle and not sys.is_finalizing() and self.device.is_open:
            self._handle = 0
            self._destroy(handle)

    def __repr__(self) -> str:
        state = " (closed)" if self.is_closed else ""
        return f"<{type(self).__name__}: {self._describe()} on {self.device.name}{state}>"
