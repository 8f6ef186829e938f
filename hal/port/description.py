"""A device's description: found, completed with what the device says, and held against the port.

The port names the file per device (`hcd.ref`) and adds values that it read at run time
(`hcd.overlay`). What the description claims and the port lacks makes the port unusable.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hal.errors import HcdError, PortLoadError
from hal.hcd import Hcd, load

__all__ = ["FEATURE_CALLS", "check_claims", "flat_text", "load_description", "resolve_reference"]

FEATURE_CALLS: dict[str, tuple[str, ...]] = {
    "collective": (
        *("collective.unique_id", "collective.comm_create", "collective.comm_destroy"),
        *("collective.all_reduce", "collective.all_gather", "collective.reduce_scatter"),
        *("collective.broadcast", "collective.send", "collective.recv"),
        *("collective.group_begin", "collective.group_end"),
    ),
    "copy_2d": ("transfer.copy_2d",),
    "counters": ("profile.counter",),
    "device_reset": ("device.reset",),
    "graph": ("graph.begin", "graph.end", "graph.launch", "graph.destroy"),
    "host_call": ("stream.host_call",),
    "host_register": ("memory.host_register", "memory.host_unregister"),
    "host_signal_events": ("event.signal",),
    "launch_suggest": ("launch.suggest",),
    "library": ("operator.enumerate", "operator.supports", "operator.run"),
    "memory_export": ("memory.export_handle", "memory.import_handle"),
    "module_serialize": ("module.serialize",),
    "native_handles": ("memory.native_handle", "memory.wrap"),
    "peer": ("transfer.copy_peer",),
    "pinned_host": ("memory.host_alloc", "memory.host_free"),
    "timing": ("event.elapsed_ns", "profile.clock"),
}
"""The functions that a port has when its description claims a feature."""


def load_description(name: str | Path) -> Hcd:
    """Read a description of a chip or a system.

    Raises:
        HcdError: it is wrong, cannot be read, or is a profile or a part.
    """
    hcd = load(name)
    if hcd.kind not in {"chip", "system"}:
        raise HcdError(
            f"is of the kind '{hcd.kind}'; a port needs a chip or a system",
            call=str(name),
            next_step="Give the description of a whole chip.",
        )
    return hcd


def resolve_reference(reference: str, overlay: str, folder: Path, given: Hcd | None) -> Hcd:
    """The description of one device.

    Args:
        reference: What the port answers for `hcd.ref`: a file beside it, or a shipped name.
        overlay: What it answers for `hcd.overlay`: flat lines, perhaps none.
        folder: Where the port's library lies.
        given: The description that the port was loaded with; used when the reference is its name.
    """
    beside = folder / reference
    known = given and next((c for c in chips_of(given) if reference in _names(c)), None)
    if known:
        hcd = known
    elif beside.is_file():
        hcd = load(beside)
    else:
        hcd = load(reference)
    return hcd.overlay(overlay) if overlay.strip() else hcd


def _names(hcd: Hcd) -> set[str]:
    revision = hcd.get("identity.revision", "")
    return {hcd.name, f"{hcd.name}@{revision}", hcd.file, Path(hcd.file).name, ""}


def check_claims(hcd: Hcd, is_native: Callable[[str], bool], *, port: str) -> None:
    """Refuse a port that lacks what its description claims.

    Args:
        hcd: The description of one of its devices.
        is_native: Whether the port itself has a function, as `transfer.copy_2d`.
        port: Name of the port, for the message.

    Raises:
        PortLoadError: names each feature and the functions that are missing.
    """
    missing = []
    for feature, calls in sorted(FEATURE_CALLS.items()):
        if hcd.get(f"features.{feature}", False) is True:
            absent = [call for call in calls if not is_native(call)]
            if absent:
                missing.append(f"features.{feature}: the port has no {', '.join(absent)}")
    if missing:
        raise PortLoadError(
            f"{hcd.name} claims what the port lacks: {'; '.join(missing)}",
            call=port,
            next_step="Take the claim out of the description, or add the functions to the port.",
            reasons=missing,
        )


def flat_text(hcd: Hcd) -> bytes:
    """The text that a port gets at init: the flat form; a system's chips come with it.

    A line of the chip of device ID is written as `devices.ID.hcd.PATH`. Errors are HcdErrors.
    """
    if hcd.kind != "system":
        return hcd.flat()
    lines = hcd.flat().splitlines(keepends=True)
    for device, chip in zip(hcd.ids("devices"), chips_of(hcd), strict=True):
        prefix = f"devices.{device}.hcd.".encode()
        lines += [prefix + line for line in chip.flat().splitlines(keepends=True)]
    return b"".join(sorted(lines))


def chips_of(hcd: Hcd) -> list[Hcd]:
    """The chip itself, or the chips of a system in the order of its devices."""
    if hcd.kind != "system":
        return [hcd]
    folder, loaded = Path(hcd.file).parent, dict[str, Hcd]()
    for device in hcd.get("devices", []):
        name = device["chip"]
        if name not in loaded:
            loaded[name] = load(folder / name if (folder / name).is_file() else name)
    return [loaded[device["chip"]] for device in hcd.get("devices", [])]
