"""Whether the chip has an optional capability: the witnesses, and what follows when they differ.

Three witnesses are heard: the HCD, the run-time query and a probe (a missing entry of the port's
table or the answer UNSUPPORTED). Only when all three say *absent* is the case skipped.

| HCD | query | probe | what follows |
|---|---|---|---|
| yes | yes | any | the case runs and must pass |
| yes | no | any | the case fails: HCD and port disagree (HAL-ABI-006) |
| no | no | absent | the case is skipped: SKIP_CAPABILITY |
| no | else | else | the case runs |

In the last row a case that passes makes the report warn that the HCD claims too little; one that
fails has found a function that succeeds without effect (HAL-ABI-007).
"""

from __future__ import annotations

from collections.abc import Callable

from hal.testing import record
from hal.testing.abi import FUNCTION_BY_CALL, Status
from hal.testing.raw import Raw
from hal.testing.session import Session

__all__ = ["PROBES", "capability", "is_claimed"]

PROBES: dict[str, tuple[str, ...]] = {
    "features.graph": ("graph.begin",),
    "features.peer": ("transfer.copy_peer",),
    "features.host_register": ("memory.host_register",),
    "features.host_call": ("stream.host_call",),
    "features.copy_2d": ("transfer.copy_2d",),
    "features.ipc": ("memory.export_handle", "memory.import_handle"),
    "features.memory_export": ("memory.export_handle", "memory.import_handle"),
    "features.native_handles": ("memory.native_handle", "memory.wrap"),
    "features.counters": ("profile.counter",),
    "features.module_serialize": ("module.serialize",),
    "features.library": ("operator.enumerate",),
    "features.collective": ("collective.comm_create",),
    "features.device_reset": ("device.reset",),
    "features.launch_suggest": ("launch.suggest",),
}
"""HCD path to the functions that only a port with the capability has."""


def is_claimed(session: Session, path: str) -> bool:
    """Tell whether the HCD claims a feature (`true`) or a compute type (not `none`)."""
    value = session.flat.get(path, "")
    return value not in ("", "false", "none", "0", "null")


def capability(raw: Raw, device: int, session: Session, path: str) -> None:
    """Let a case go on only when the chip has what it needs; see the module's text.

    Raises:
        CapabilityAbsent: all witnesses say that the chip lacks it.
        AssertionError: the HCD claims it and the port's query denies it.
    """
    claimed = is_claimed(session, path)
    answer = raw.i64(device, path)
    queried = bool(answer)
    if claimed:
        shown = session.flat[path]
        assert queried, f"the HCD says {path}: {shown}, device.get_i64 says {answer} (HAL-ABI-006)"
        return
    absent = [call for call in PROBES.get(path, ()) if _is_absent(raw, call)]
    probed = len(absent) == len(PROBES.get(path, ()))
    if not queried and probed:
        witnesses = {
            "hcd": session.flat.get(path, "absent"),
            "query": "NOT_FOUND" if answer is None else str(answer),
            "probe": f"{', '.join(absent)}: UNSUPPORTED" if absent else "declared, unchecked",
        }
        raise record.CapabilityAbsent(path, witnesses)
    record.current().warnings.append(f"the HCD does not claim {path}, the port seems to have it")


def _is_absent(raw: Raw, call: str) -> bool:
    """Tell whether a function is missing from the table or answers UNSUPPORTED to zeros."""
    entry = raw.entry(call)
    if entry is None:
        return True
    return int(harmless(raw, call)(entry)) == Status.UNSUPPORTED


def harmless(raw: Raw, call: str) -> Callable[..., int]:
    """Return a caller that gives a function zero handles, empty structs and real outputs.

    No honest port does anything with them, and none may crash: handles are checked first.
    """
    ffi = raw.ffi
    arguments = []
    for parameter in FUNCTION_BY_CALL[call].parameters:
        kind = parameter.type.replace("const ", "").strip()
        if not kind.endswith("*"):
            arguments.append(ffi.NULL if kind.startswith("hal_host_fn") else 0)
            continue
        base = kind[:-1].strip()
        if base == "void":
            arguments.append(
                ffi.cast("void *", ffi.new("uint8_t[64]"))
                if "out" in parameter.direction
                else ffi.NULL
            )
        elif base == "char":
            arguments.append(ffi.new("char[]", b"none".ljust(64, b"\0")))
        else:
            value = ffi.new(f"{base}[4]") if base == "uint32_t" else ffi.new(f"{base} *")
            if hasattr(ffi.typeof(value), "item") and ffi.typeof(value).item.kind == "struct":
                names = {name for name, _ in ffi.typeof(value).item.fields}
                if "size" in names:
                    value.size = ffi.sizeof(ffi.typeof(value).item)
            arguments.append(value)
    kept = list(arguments)

    def ask(entry: Callable[..., int]) -> int:
        return int(entry(*kept))

    return ask
