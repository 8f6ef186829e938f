"""Profiles: what a device did, and when, on its own clock and the host's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hal.errors import UsageError
from hal.port.native import ffi, lib

if TYPE_CHECKING:
    from hal.chip.opened import Chip

__all__ = ["Clock", "Profile", "Record", "read_clock"]

KINDS = {"launch": 1, "copy": 2, "fill": 3, "collective": 4}
_NAMES = {number: name for name, number in KINDS.items()}
_DOMAINS = {1: "real", 2: "virtual"}
_BATCH = 4096


@dataclass(frozen=True)
class Clock:
    """A device's clock and the host's monotonic one, read together.

    Attributes:
        device_ns, host_ns: The two clocks.
        uncertainty_ns: Bound on how far apart they were read.
        domain: `real`, or `virtual` for the time that a simulated chip predicts.
    """

    device_ns: int
    host_ns: int
    uncertainty_ns: int
    domain: str


@dataclass(frozen=True)
class Record:
    """One finished operation.

    Attributes:
        kind: launch, copy, fill or collective.
        stream: Handle of the stream: `stream.handle` compares.
        operation_id: Its 1-based number on that stream.
        begin_ns, end_ns: On the device's clock.
        host_begin_ns, host_end_ns: On the host's monotonic clock; None in virtual time.
    """

    kind: str
    stream: int
    operation_id: int
    begin_ns: int
    end_ns: int
    host_begin_ns: int | None
    host_end_ns: int | None

    @property
    def duration_ns(self) -> int:
        """How long it took on the device."""
        return self.end_ns - self.begin_ns


def read_clock(device: Chip) -> Clock:
    """Read a device's clock together with the host's."""
    found = ffi.new("hal_clock *")
    found.size = ffi.sizeof("hal_clock")
    status = lib.hal_profile_clock(device.native, device.handle, found)
    if status:
        device._fail(status, "profile.clock")
    domain = _DOMAINS.get(found.domain, "real")
    return Clock(found.device_ns, found.host_ns, found.uncertainty_ns, domain)


class Profile:
    """The with-statement of `device.profile()`. Its end waits for the device.

    Attributes:
        records: Finished operations in the order in which they finished; whole after the end.
        dropped: Records that the port lost.
        start, stop: The clocks at both ends.
    """

    def __init__(self, device: Chip, kinds: tuple[str, ...]) -> None:
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise UsageError(
                f"there is no kind '{unknown[0]}'",
                call="profile.start",
                next_step=f"Kinds are {', '.join(KINDS)}.",
            )
        self.device = device
        self.records: list[Record] = []
        self.dropped = 0
        self.start: Clock | None = None
        self.stop: Clock | None = None
        self._mask = sum(1 << (KINDS[kind] - 1) for kind in (kinds or KINDS))

    def __enter__(self) -> Profile:
        device = self.device
        status = lib.hal_profile_start(device.native, device.handle, self._mask)
        if status:
            device._fail(status, "profile.start")
        self.start = read_clock(device)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        device = self.device
        if not device.is_open:
            return
        if error is None:
            device.synchronize()
        self.stop = read_clock(device)
        status = lib.hal_profile_stop(device.native, device.handle)
        if status and error is None:
            device._fail(status, "profile.stop")
        self.drain()

    def drain(self) -> list[Record]:
        """Take the finished records now, for a long run; also appends them to `records`."""
        device = self.device
        batch = ffi.new("hal_profile_record[]", _BATCH)
        count, dropped = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        fresh: list[Record] = []
        while True:
            status = lib.hal_profile_drain(
                device.native, device.handle, _BATCH, batch, count, dropped
            )
            if status:
                device._fail(status, "profile.drain")
            self.dropped += int(dropped[0])
            fresh += [self._record(batch[index]) for index in range(count[0])]
            if count[0] < _BATCH:
                break
        self.records += fresh
        return fresh

    def _record(self, found: object) -> Record:
        begin, end = int(found.begin_ns), int(found.end_ns)  # type: ignore[attr-defined]
        return Record(
            kind=_NAMES.get(found.kind, "unknown"),  # type: ignore[attr-defined]
            stream=int(found.stream),  # type: ignore[attr-defined]
            operation_id=int(found.operation_id),  # type: ignore[attr-defined]
            begin_ns=begin,
            end_ns=end,
            host_begin_ns=self._on_host(begin),
            host_end_ns=self._on_host(end),
        )

    def _on_host(self, device_ns: int) -> int | None:
        """Device time as host time: a line through the two readings of both clocks."""
        first, last = self.start, self.stop or self.start
        if first is None or last is None or first.domain == "virtual":
            return None
        span = last.device_ns - first.device_ns
        rate = (last.host_ns - first.host_ns) / span if span > 0 else 1.0
        return first.host_ns + round((device_ns - first.device_ns) * rate)
