"""Loading ports: every place that offers one is tried; every attempt is kept with its reason."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hal.device import Device, Port
from hal.errors import HalError, HcdError, PortLoadError, StatusError, UsageError
from hal.port import description
from hal.port.callbacks import port_user
from hal.port.discovery import (
    BY_PATH,
    Candidate,
    Spec,
    all_candidates,
    candidates,
    next_step_here,
    parse_spec,
)
from hal.port.libraries import installed_libraries
from hal.port.loaded import LOCK
from hal.port.native import CData, ffi, lib, open_port, timeout_ns

if TYPE_CHECKING:
    from hal.hcd import Hcd

__all__ = ["PortRecord", "load_port", "open_device", "ports", "try_all"]

LAYERS = {"trace": 1, "validate": 2, "emulate": 4, "mutate": 8}
"""Layers by name and their bits; they always stand in this order above the port."""

DEFAULT_LAYERS = ("validate", "emulate")

_EXIT_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class PortRecord:
    """One attempt to load a port, or one port that could be tried.

    Attributes:
        name: The port's name.
        source: Who names it: `package NAME`, `HAL_PORT_PATH` or `path`.
        path: The shared object; None when there is none.
        hcd: The description that it was loaded with; None when the port names its own.
        status: `loaded`, `failed` or `not tried`.
        reason: Why it failed; empty otherwise.
    """

    name: str
    source: str
    path: Path | None
    hcd: str | None
    status: str
    reason: str = ""


_loaded: dict[tuple[object, ...], Port] = {}
"""Ports by what they were loaded with; the last part of a key is the process."""

_attempts: list[PortRecord] = []


def ports() -> list[PortRecord]:
    """Every attempt to load a port so far, then the ports that were not tried yet."""
    with LOCK:
        tried = {(record.name, record.path) for record in _attempts}
        waiting = [
            PortRecord(
                found.name,
                found.source,
                found.path,
                str(found.hcd) if found.hcd else None,
                "failed" if found.problem else "not tried",
                found.problem,
            )
            for found in all_candidates()
            if (found.name, found.path) not in tried or found.problem
        ]
        return [*_attempts, *waiting]


def try_all() -> list[PortRecord]:
    """Load every port that was not tried yet, and return what `ports()` then says. Never raises."""
    with LOCK:
        tried = {record.path for record in _attempts}
        for candidate in all_candidates():
            if candidate.path is None or candidate.path in tried:
                continue
            try:
                _open_candidate(candidate, None, _Settings())
            except (StatusError, PortLoadError, HcdError) as error:
                _keep(candidate, None, "failed", _why(error))
    return ports()


def open_device(spec: str = "") -> Device:
    """Open a device by `NAME`, `NAME:INDEX` or `NAME:HCD:INDEX`; NAME may also be a path.

    Without a name the only port that is installed is meant; with several the choice is yours.
    """
    if not spec:
        names = sorted({found.name for found in all_candidates()})
        raise UsageError(
            "no device was named",
            call="hal.open",
            next_step=f"Name one of {', '.join(f'{n}:0' for n in names) or '(no port installed)'}.",
        )
    wish = parse_spec(spec)
    return _load(wish, _Settings()).device(wish.index)


def load_port(
    spec: str | os.PathLike[str],
    *,
    hcd: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
    layers: Iterable[str] = DEFAULT_LAYERS,
    break_rule: str = "",
) -> Port:
    """Load a port, or return it when it is loaded already with the same settings.

    Args:
        spec: A name, `NAME:HCD`, the path of a .so file, or of a folder that holds one.
        hcd: Description to load it with: a file or a shipped name.
        options: Settings for the port, by key.
        layers: Layers above it, out of trace, validate, emulate, mutate. Trace lines go to the
            logger `hal.trace.NAME`, the port's own log lines to `hal.port.NAME`.
        break_rule: Id of the rule that the mutate layer breaks; for tests of tests.

    Raises:
        PortLoadError: every place that offers the port was tried; each with its reason.
        HcdError: the description is wrong.
    """
    wish = parse_spec(str(spec) if isinstance(spec, os.PathLike) else spec)
    if wish.has_index:
        raise UsageError(
            f"'{spec}' names a device, not a port",
            call="hal.load_port",
            next_step="Leave the number out, or use hal.open.",
        )
    if hcd is not None:
        wish = replace(wish, hcd=os.fspath(hcd))
    settings = _Settings(_check_layers(layers), _option_lines(options), break_rule.encode())
    return _load(wish, settings)


@dataclass(frozen=True)
class _Settings:
    """How a port is loaded; two loads with equal settings share the port."""

    layers: tuple[str, ...] = DEFAULT_LAYERS
    options: bytes = b""
    break_rule: bytes = b""


def _load(wish: Spec, settings: _Settings) -> Port:
    given = description.load_description(wish.hcd) if wish.hcd else None
    with LOCK:
        found = candidates(wish)
        _refuse_two_of_one_name(wish, found)
        reasons = []
        for candidate in found:
            if candidate.problem or candidate.path is None:
                reasons.append(_keep(candidate, None, "failed", candidate.problem))
                continue
            try:
                return _open_candidate(candidate, given, settings)
            except (StatusError, PortLoadError, HcdError) as error:
                shown = given.file if given is not None else None
                reasons.append(_keep(candidate, shown, "failed", _why(error)))
                if len(found) == 1:
                    raise
        raise _not_loaded(wish, reasons)


def _check_layers(layers: Iterable[str]) -> tuple[str, ...]:
    names = (layers,) if isinstance(layers, str) else tuple(layers)
    unknown = [name for name in names if name not in LAYERS]
    if unknown:
        raise UsageError(
            f"there is no layer '{unknown[0]}'",
            call="hal.load_port",
            next_step=f"Layers are {', '.join(LAYERS)}.",
        )
    return tuple(name for name in LAYERS if name in names)


def _option_lines(options: Mapping[str, str] | None) -> bytes:
    for key, value in (options or {}).items():
        if "=" in key or "\n" in f"{key}{value}":
            raise UsageError(
                f"the option {key!r}={value!r} does not fit a line KEY=VALUE", call="hal.load_port"
            )
    return "".join(f"{key}={value}\n" for key, value in (options or {}).items()).encode()


def _refuse_two_of_one_name(wish: Spec, found: list[Candidate]) -> None:
    """Two different files that claim one name are a trap: the caller chooses by path."""
    files = {candidate.path for candidate in found if candidate.path is not None}
    if len(files) < 2:
        return
    lines = [f"{c.path} ({c.source})" for c in found if c.path is not None]
    raise PortLoadError(
        f"two ports are called '{wish.port}': {' and '.join(lines)}",
        call="hal.load_port",
        next_step="Load one by its path, or uninstall the other.",
        reasons=lines,
    )


_WHY = "'hal ports --why' lists every attempt."


def _not_loaded(wish: Spec, reasons: list[str]) -> PortLoadError:
    here = next_step_here(wish)
    if reasons:
        is_place = wish.is_path or wish.is_python
        return PortLoadError(
            f"no port '{wish.port}' could be loaded: {'; '.join(reasons)}",
            call="hal.load_port",
            next_step=here or ("" if is_place else _WHY),
            reasons=reasons,
        )
    import difflib

    names = sorted({found.name for found in all_candidates()})
    near = difflib.get_close_matches(wish.port, names, n=1, cutoff=0.7)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    return PortLoadError(
        f"there is no port '{wish.port}'{hint}; there are {', '.join(names) or 'none'}",
        call="hal.load_port",
        next_step=here or "Install its package, or give the path of its .so file.",
    )


def _why(error: HalError) -> str:
    """The reason alone: a record names the port and the file already."""
    if isinstance(error, PortLoadError) and len(error.reasons) == 1:
        return error.reasons[0]
    return str(error)


def _keep(candidate: Candidate, hcd: str | None, status: str, reason: str = "") -> str:
    record = PortRecord(candidate.name, candidate.source, candidate.path, hcd, status, reason)
    if record not in _attempts:
        _attempts.append(record)
    return f"{candidate.path or candidate.source}: {reason}"


def _open_candidate(candidate: Candidate, given: Hcd | None, settings: _Settings) -> Port:
    assert candidate.path is not None
    if given is None and candidate.hcd is not None:
        given = description.load_description(candidate.hcd)
    text = description.flat_text(given) if given is not None else b""
    key = (candidate.path, candidate.python_class, text, settings, os.getpid())
    known = _loaded.get(key)
    if known is not None and not known.is_closed:
        return known
    user = port_user(candidate.name)
    native = _open_native(candidate, text, settings, user)
    port = Port(candidate, given, native, settings.layers)
    port._user = user
    try:
        _check_port(port)
    except HalError:
        lib.hal_port_close(native, timeout_ns(_EXIT_TIMEOUT_S))
        raise
    for closed in [old for old, other in _loaded.items() if other.is_closed]:
        del _loaded[closed]
    _loaded[key] = port
    _keep(candidate, given.file if given is not None else None, "loaded")
    return port


def _open_native(candidate: Candidate, hcd_text: bytes, settings: _Settings, user: CData) -> CData:
    """Open the library through libhal; its reason becomes the exception's text."""
    assert candidate.path is not None
    text = ffi.new("char[]", hcd_text)
    lines = ffi.new("char[]", settings.options + installed_libraries() + _class_lines(candidate))
    rule = ffi.new("char[]", settings.break_rule)
    desc = ffi.new("hal_open_desc *")
    desc.size = ffi.sizeof("hal_open_desc")
    desc.layers = sum(LAYERS[name] for name in settings.layers)
    desc.hcd_text = text if hcd_text else ffi.NULL
    desc.hcd_bytes = len(hcd_text)
    desc.options = lines
    desc.break_rule = rule if settings.break_rule else ffi.NULL
    desc.log, desc.log_user = lib.hal_python_log, user
    desc.trace, desc.trace_user = lib.hal_python_trace, user
    status, opened, why = open_port(candidate.path, desc)
    if status:
        why = why or "it gave no reason"
        if why.startswith(f"{candidate.path} is "):  # The message names the file already.
            why = f"it {why.removeprefix(f'{candidate.path} ')}"
        raise PortLoadError(
            f"{candidate.python_class or candidate.path} does not load: {why}",
            call="hal.load_port",
            next_step=_look(candidate),
            reasons=[why],
            status=status,
        )
    return opened


def _look(candidate: Candidate) -> str:
    """The command that says more of a library that does not load."""
    if candidate.source == BY_PATH and not candidate.python_class:
        return f"'hal port check {candidate.path}' looks at it from all sides."
    return f"{_WHY} 'hal doctor' looks at the machine."


def _class_lines(candidate: Candidate) -> bytes:
    """The options with which a class in Python is found; its mistakes are told before it loads."""
    if not candidate.python_class:
        return b""
    from hal.port.python_hooks import option_lines

    return option_lines(candidate.python_class).encode()


def _check_port(port: Port) -> None:
    """Hold the descriptions of the port's devices against its functions."""
    if port.hcd is None:
        if port.device_count:
            port.device(0).close()
        return
    for chip in {hcd.sha256: hcd for hcd in description.chips_of(port.hcd)}.values():
        description.check_claims(chip, port.has, port=port.name)


@atexit.register
def _close_all() -> None:
    """Stop the ports in order before the interpreter goes; never waits long and never raises."""
    for (*_, process), port in list(_loaded.items()):
        if process == os.getpid() and not port.is_closed:
            lib.hal_port_close(port.native, timeout_ns(_EXIT_TIMEOUT_S))
            port.native = ffi.NULL
