"""Host buffers between pages that nobody may touch.

    with GuardedBuffer(1000) as host:
        raw.call("transfer.copy", …)        # a port that writes one byte too many crashes here
        assert host.intact()

The last byte of the buffer lies right before an inaccessible page, so a read or write past the end
is a crash of the case and not silent luck. The bytes before the start hold 0xB7 and are compared.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import mmap
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["GuardedBuffer"]

CANARY = 0xB7
PAGE = mmap.PAGESIZE


class GuardedBuffer:
    """Host memory of `bytes` bytes that ends at an inaccessible page; starts full of 0xB7.

    Attributes:
        bytes: Length.
        address: Address of the first byte.
    """

    def __init__(self, bytes: int) -> None:  # noqa: A002 - the unit is the name, as everywhere
        body = max(1, -(-bytes // PAGE)) * PAGE
        self._map = mmap.mmap(-1, body + 2 * PAGE)
        self._map.write(b"\xb7" * (body + 2 * PAGE))
        self._store = (ctypes.c_char * (body + 2 * PAGE)).from_buffer(self._map)
        self._base = ctypes.addressof(self._store)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._end = self._base + PAGE + body
        self.bytes = bytes
        self.address = self._end - bytes
        self._protect(self._base, 0)
        self._protect(self._end, 0)

    def _protect(self, address: int, rights: int) -> None:
        size, place = ctypes.c_size_t(PAGE), ctypes.c_void_p(address)
        if self._libc.mprotect(place, size, rights) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def array(self) -> NDArray[np.uint8]:
        """Return the bytes as a NumPy array; it must not outlive the buffer."""
        import numpy as np

        offset = self.address - self._base
        return np.frombuffer(self._map, np.uint8, self.bytes, offset)

    def intact(self) -> bool:
        """Tell whether the bytes before the start still hold 0xB7."""
        start = self.address - self._base
        return bytes(self._map[PAGE:start]) == b"\xb7" * (start - PAGE)

    def close(self) -> None:
        """Make the pages accessible again; the memory goes when the last array is gone."""
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        self._protect(self._base, rights)
        self._protect(self._end, rights)

    def __enter__(self) -> GuardedBuffer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
