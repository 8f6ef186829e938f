"""Which form of a module a device gets: the formats of its HCD, the preferred one first."""

from __future__ import annotations

import logging
import os
import struct
from functools import cache
from typing import TYPE_CHECKING

from hal import dtypes
from hal.codegen.dialect.image import image
from hal.codegen.dialect.language import Dialect
from hal.errors import HcdError, Unsupported
from hal.hcd import Hcd
from hal.vil.module import Module
from hal.vil.tables import SREG_FORMS

if TYPE_CHECKING:
    from hal.device import Device
    from hal.module import Module as LoadedModule

__all__ = ["ROUTES", "format_of", "formats", "lacks_product", "load", "ordered"]

ROUTES = ("auto", "flat", "vil", "source", "library")
_LOG = logging.getLogger("hal.codegen")

WORTH_COMPILING_S = 1e-3
"""Predicted time of a run from which the C compiler's tenth of a second is worth waiting for."""

PLAIN_TYPES = frozenset({dtypes.f32, dtypes.f64, dtypes.i32, dtypes.i64, dtypes.bool_})
_BIN = frozenset("add sub mul div max min and or xor lt le eq ne".split())
_UN = frozenset("mov neg abs sqrt not isnan".split())
_ANY = frozenset({""})
PLAIN_OPS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("load", "store", "fill", "iota", "sel", "cast", "loop", "end", "if"), _ANY),
    "bin": _BIN,
    "un": _UN,
    "sreg": frozenset(SREG_FORMS) - {"tile"},
}
"""What compilers turn into vector code by themselves."""


def formats(hcd: Hcd, route: str = "auto") -> list[str]:
    """The formats to try in order; `vil.v1` is the last resort of every chip that loads it.

    Args:
        route: `vil` or `source` asks for formats of one kind; otherwise HAL_ROUTE may.
    """
    asked = route if route in ("vil", "source") else os.environ.get("HAL_ROUTE", "")
    by_id = {item["id"]: str(item["format"]) for item in hcd.get("kernels.formats", [])}
    known = [by_id[name] for name in hcd.get("kernels.order", []) if name in by_id]
    known = [name for name in known if not name.startswith("binary.")]
    if asked in ("vil", "source"):
        known = [name for name in known if name.startswith(asked)] or known
    return known or ["vil.v1"]


def ordered(
    module: Module, hcd: Hcd, route: str = "auto", seconds: float = 0.0
) -> tuple[list[str], str]:
    """The formats to try for a module, the preferred one first, and why.

    The order is the description's, unless a module speaks against it: one with products that the
    dialect has no template for is interpreted; one of plain arithmetic, which a compiler turns into
    one pass over the data, goes as source when it runs so long that compiling pays.

    Args:
        seconds: Predicted time of one run.
    """
    wanted = formats(hcd, route)
    sources = [name for name in wanted if name.startswith("source.")]
    order = f"formats by preference (kernels.order): {', '.join(wanted)}"
    if not sources or len(wanted) == 1:
        return wanted, order
    if lacks_product(module, hcd):
        rest = [name for name in wanted if name != "vil.v1"]
        return ["vil.v1", *rest], "the dialect has no template for a product of the kernel"
    if seconds >= WORTH_COMPILING_S and _is_plain(module):
        rest = [name for name in wanted if name not in sources]
        why = f"plain arithmetic of {seconds * 1e3:.1f} ms a run: compiling makes it one pass"
        return [*sources, *rest], why
    return wanted, order


def _is_plain(module: Module) -> bool:
    """True when every program only moves and computes what vector units do by themselves."""
    for program in module.programs:
        if any(tile.dtype not in PLAIN_TYPES for tile in program.tiles):
            return False
        for item in program.instructions:
            if item.op not in PLAIN_OPS or item.function not in PLAIN_OPS[item.op]:
                return False
    return True


def load(
    module: Module, device: Device, route: str = "auto", *, seconds: float = 0.0
) -> LoadedModule:
    """The module on a device, in the first format that works (see `ordered`).

    A format drops out when the port has no means for it (no compiler), or the dialect no words for
    a program; that is logged once. What a compiler refuses is an error, not a reason to go on.

    Raises:
        StatusError: the port refuses the module.
    """
    wanted, _ = ordered(module, device.hcd, route, seconds)
    for name in wanted[:-1]:
        try:
            return _load(module, device, name)
        except (Unsupported, HcdError) as error:
            _tell(device.hcd.name, name, str(error))
    return _load(module, device, wanted[-1])


def lacks_product(module: Module, hcd: Hcd) -> bool:
    """True when plain loops would do a product that the interpreter has kernels for."""
    language = Dialect.of(hcd)
    for program in module.programs:
        for item in program.instructions:
            if item.op != "mma":
                continue
            assert item.a is not None and item.b is not None and item.d is not None
            types = [program.tiles[each.tile].dtype for each in (item.a, item.b, item.d)]
            if language.instr("mma", "", types[0], types[1], types[2]) is None:
                return True
    return False


def _load(module: Module, device: Device, name: str) -> LoadedModule:
    if name == "vil.v1":
        return device.load(module)
    return device.load(image(module, device.hcd), name)


@cache
def _tell(chip: str, name: str, why: str) -> None:
    """Logs a format that drops out; once for each reason."""
    _LOG.warning("%s: %s is left out for the next format: %s", chip, name, why)


def format_of(data: bytes) -> str:
    """The format that an image is of."""
    if data[:4] != b"HIMG":
        return "vil.v1"
    offset, length = struct.unpack_from("<II", data, 24)
    return data[offset : offset + length].decode()
