"""Which form of a module a device gets: the formats of its HCD, the preferred one first."""

from __future__ import annotations

import logging
import os
import struct
from functools import cache
from typing import TYPE_CHECKING

from hal.codegen.dialect.image import image
from hal.codegen.dialect.language import Dialect
from hal.errors import HcdError, Unsupported
from hal.hcd import Hcd
from hal.vil.module import Module

if TYPE_CHECKING:
    from hal.device import Device
    from hal.module import Module as LoadedModule

__all__ = ["ROUTES", "format_of", "formats", "lacks_product", "load"]

ROUTES = ("auto", "flat", "vil", "source", "library")
_LOG = logging.getLogger("hal.codegen")


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


def load(module: Module, device: Device, route: str = "auto") -> LoadedModule:
    """The module on a device, in the first format that works.

    A module with products that the dialect has no template for is better interpreted, so VIL goes
    first there. A format drops out when the port has no means for it (no compiler), or the dialect
    no words for a program; that is logged once. What a compiler refuses is an error, not a reason
    to go on.

    Raises:
        StatusError: the port refuses the module.
    """
    wanted = formats(device.hcd, route)
    if len(wanted) > 1 and lacks_product(module, device.hcd):
        wanted.sort(key=lambda name: name != "vil.v1")
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
