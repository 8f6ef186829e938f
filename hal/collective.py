"""Collectives between devices of one process.

`join([dev0, dev1])` gives a communicator for each device. One thread that speaks for several ranks
wraps its calls in `with group():`, because a collective returns only when all ranks have called it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hal import dtypes
from hal.chip.owned import Owned
from hal.errors import InvalidHandle, InvalidValue, UsageError
from hal.memory.element import as_dtype
from hal.memory.region import Region
from hal.port.native import CData, fail, ffi, lib, timeout_ns

if TYPE_CHECKING:
    from types import TracebackType

    from hal.chip.opened import Chip
    from hal.port.loaded import LoadedPort
    from hal.stream import Stream

__all__ = ["Communicator", "group", "join"]

_REDUCE = {"sum": 1, "product": 2, "max": 3, "min": 4}


class Communicator(Owned):
    """One rank. Made by `join()`.

    The methods enqueue on a stream of the rank's device. `source` and `target` are Array, Buffer
    or View; the element type comes from an Array or from `dtype=`, and the count from the sizes.

    Attributes:
        rank: This rank's number.
        rank_count: Ranks in all.
    """

    __slots__ = ("rank", "rank_count")

    NOUN = "communicator"
    END = "collective.comm_destroy"

    def __init__(self, device: Chip, handle: int, rank: int, rank_count: int) -> None:
        super().__init__(device, handle)
        self.rank = rank
        self.rank_count = rank_count

    def all_reduce(
        self, stream: Stream, source: Region, target: Region, *, op: str = "sum", dtype: Any = None
    ) -> None:
        """Reduce element by element over all ranks; each gets the whole result.

        Args:
            stream: A stream of the rank's device.
            source, target: Of one length; the same range is allowed.
            op: sum, product, max or min.
            dtype: Element type, when neither range is an Array.
        """
        desc = self._desc("all_reduce", source, target, dtype, source, op=op)
        self._enqueue("all_reduce", stream, desc, source, target)

    def all_gather(
        self, stream: Stream, source: Region, target: Region, *, dtype: Any = None
    ) -> None:
        """Give each rank the parts of all, in rank order; target holds all parts."""
        desc = self._desc("all_gather", source, target, dtype, source)
        self._enqueue("all_gather", stream, desc, source, target)

    def reduce_scatter(
        self, stream: Stream, source: Region, target: Region, *, op: str = "sum", dtype: Any = None
    ) -> None:
        """Reduce over all ranks and give each its part; source holds all parts."""
        desc = self._desc("reduce_scatter", source, target, dtype, target, op=op)
        self._enqueue("reduce_scatter", stream, desc, source, target)

    def broadcast(
        self, stream: Stream, source: Region, target: Region, *, root: int, dtype: Any = None
    ) -> None:
        """Give every rank the root's source."""
        desc = self._desc("broadcast", source, target, dtype, target, peer=root)
        self._enqueue("broadcast", stream, desc, source, target)

    def send(self, stream: Stream, source: Region, *, peer: int, dtype: Any = None) -> None:
        """Give a range to a rank, which calls `recv`."""
        desc = self._desc("send", source, None, dtype, source, peer=peer)
        self._enqueue("send", stream, desc, source)

    def recv(self, stream: Stream, target: Region, *, peer: int, dtype: Any = None) -> None:
        """Take a range from a rank, which calls `send`."""
        desc = self._desc("recv", None, target, dtype, target, peer=peer)
        self._enqueue("recv", stream, desc, target)

    def all_to_all(
        self, stream: Stream, source: Region, target: Region, *, dtype: Any = None
    ) -> None:
        """Give part r of each rank to rank r; both ranges hold a part for each rank."""
        desc = self._desc("all_to_all", source, target, dtype, source)
        desc.count //= self.rank_count
        self._enqueue("all_to_all", stream, desc, source, target)

    def abort(self) -> None:
        """End all work of the communicator with PeerFailed, on every rank. It never waits."""
        status = lib.hal_collective_abort(self.device.native, self.handle)
        if status:
            self._fail(status, "collective.abort")

    def async_error(self) -> int:
        """Status of the communicator's first failure; 0 while all is well."""
        out = ffi.new("int32_t *")
        status = lib.hal_collective_async_error(self.device.native, self.handle, out)
        if status:
            self._fail(status, "collective.async_error")
        return int(out[0])

    def _desc(
        self,
        verb: str,
        source: Region | None,
        target: Region | None,
        dtype: Any,
        part: Region | None,
        *,
        op: str = "",
        peer: int = 0,
    ) -> CData:
        """The descriptor; `part` is the range that holds one rank's part and gives the count."""
        call = f"collective.{verb}"
        for name, region in (("source", source), ("target", target)):
            if region is not None:
                self._check_region(call, name, region)
        assert part is not None
        typed = [getattr(region, "dtype", None) for region in (source, target)]
        wanted = dtype if dtype is not None else next((d for d in typed if d is not None), None)
        if wanted is None:
            raise UsageError(
                "neither range has an element type",
                call=call,
                next_step=f"Pass dtype=, one of {', '.join(d.name for d in dtypes.ALL)}.",
            )
        kind = as_dtype(wanted, call)
        if any(d is not None and d is not kind for d in typed) or part.bytes % kind.bytes:
            raise InvalidValue(f"the ranges do not hold whole elements of {kind}", call=call)
        if op and op not in _REDUCE:
            raise UsageError(
                f"there is no reduction '{op}'",
                call=call,
                next_step=f"Use one of {', '.join(_REDUCE)}.",
            )
        if not 0 <= peer < self.rank_count:
            raise InvalidValue(
                f"there is no rank {peer} of {self.rank_count}",
                call=call,
                next_step="Count from 0.",
            )
        desc = ffi.new("hal_collective_desc *")
        desc.size = ffi.sizeof("hal_collective_desc")
        desc.dtype, desc.reduce = kind.number, _REDUCE.get(op, 0)
        desc.count, desc.peer = part.bytes // kind.bytes, peer
        if source is not None:
            source.fill_ref(desc.source)
        if target is not None:
            target.fill_ref(desc.target)
        return desc

    def _check_region(self, call: str, name: str, region: Any) -> None:
        if not isinstance(region, Region):
            raise UsageError(
                f"the {name} is {type(region).__name__}, no device memory",
                call=call,
                next_step="Give an Array, Buffer or View.",
            )
        if region.is_closed:
            region._refuse_dead(call)
        if region.device is not self.device:
            raise InvalidHandle(
                f"the {name} is of {region.device.name}, rank {self.rank} of {self.device.name}",
                call=call,
                device=self.device.name,
                next_step="Give each rank memory of its own device.",
            )

    def _enqueue(self, verb: str, stream: Stream, desc: CData, *uses: Region) -> None:
        call = f"collective.{verb}"
        if stream.device is not self.device:
            raise InvalidHandle(
                f"the stream is of {stream.device.name}, rank {self.rank} of {self.device.name}",
                call=call,
                device=self.device.name,
                next_step="Give each rank a stream of its own device.",
            )
        _begin_in_group(self.device.port)
        if _groups.uses is not None:
            _groups.uses += [self, stream, *uses]
        enqueue = getattr(lib, f"hal_collective_{verb}")
        status = enqueue(self.device.native, self.handle, stream._live(call), desc)
        if status:
            self._fail(status, call)

    def _destroy(self, handle: int) -> int:
        return int(lib.hal_collective_comm_destroy(self.device.native, handle))

    def _describe(self) -> str:
        return f"communicator, rank {self.rank} of {self.rank_count}"


class _Groups(threading.local):
    """This thread's group.

    Attributes:
        ports: The ports in which it has begun; None outside a group.
        uses: What its calls use. They start at the end, and all that must live until then.
    """

    ports: list[LoadedPort] | None = None
    uses: list[object] | None = None


_groups = _Groups()


class group:  # noqa: N801 - reads as a word of the language: with collective.group():
    """Calls of one thread for several ranks: they start together at the end of the statement."""

    def __enter__(self) -> None:
        if _groups.ports is not None:
            raise UsageError(
                "this thread is in a group already",
                call="collective.group_begin",
                next_step="Put all calls into one group.",
            )
        _groups.ports, _groups.uses = [], []

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ports, _groups.ports = _groups.ports or [], None
        uses, _groups.uses = _groups.uses, None
        for port in ports:
            status = lib.hal_collective_group_end(port.native)
            if status and error is None:
                fail(port.native, status, "collective.group_end", device=port.name)
        del uses


def _begin_in_group(port: LoadedPort) -> None:
    """Inside a group, begin it in this port at its first call."""
    begun = _groups.ports
    if begun is None or port in begun:
        return
    status = lib.hal_collective_group_begin(port.native)
    if status:
        fail(port.native, status, "collective.group_begin", device=port.name)
    begun.append(port)


def join(devices: Sequence[Chip], *, timeout_s: float = 30.0) -> list[Communicator]:
    """Make a communicator of devices of one port; rank r is the r-th device.

    Args:
        devices: One for each rank.
        timeout_s: How long a rank waits for the others, here and in each collective.

    Raises:
        UsageError: there is no device, or they are of two ports.
    """
    if not devices:
        raise UsageError("a communicator needs a device at least", call="collective.comm_create")
    port = devices[0].port
    foreign = [device.name for device in devices if device.port is not port]
    if foreign:
        raise UsageError(
            f"{devices[0].name} and {foreign[0]} are of two ports",
            call="collective.comm_create",
            next_step="Join devices of one port.",
        )
    name = ffi.new("hal_unique_id *")
    status = lib.hal_collective_unique_id(port.native, name)
    if status:
        fail(port.native, status, "collective.unique_id", device=port.name)
    handles = ffi.new("hal_comm[]", len(devices))
    with group():
        _begin_in_group(port)
        for rank, device in enumerate(devices):
            desc = ffi.new("hal_comm_desc *")
            desc.size = ffi.sizeof("hal_comm_desc")
            desc.rank_count, desc.rank, desc.id = len(devices), rank, name[0]
            desc.timeout_ns = timeout_ns(timeout_s)
            status = lib.hal_collective_comm_create(
                port.native, device.handle, desc, ffi.addressof(handles, rank)
            )
            if status:
                device._fail(status, "collective.comm_create")
    ranks = []
    for rank, device in enumerate(devices):
        ranks.append(Communicator(device, int(handles[rank]), rank, len(devices)))
        device._adopt(ranks[-1])
    return ranks
