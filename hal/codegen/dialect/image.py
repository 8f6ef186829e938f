"""Images of source formats: the plan as VIL, and the source of its programs."""

from __future__ import annotations

import struct

from hal.codegen.dialect.language import Dialect
from hal.codegen.dialect.source import written
from hal.hcd import Hcd
from hal.vil.binary_writer import encode_envelope
from hal.vil.module import Module

__all__ = ["image", "payload"]

_HEAD = "<4sIIIIIQ"
_VERSION = 1


def image(module: Module, hcd: Hcd) -> bytes:
    """The image that `device.load(image, "source.ID")` takes, ID being the dialect's.

    Raises:
        HcdError: the chip has no dialect, or its dialect cannot say a program.
    """
    name = f"source.{Dialect.of(hcd).id}"
    plan, text = written(module, hcd)
    return encode_envelope(plan.kernels, name, payload(plan, text))


def payload(module: Module | bytes, source: str) -> bytes:
    """Plan, as a module or its bytes, and source as one block (docs/vil.md, section 4.5)."""
    plan, text = bytes(module), source.encode()
    start = struct.calcsize(_HEAD)
    behind = start + len(plan) + -len(plan) % 8
    head = struct.pack(_HEAD, b"HSRC", _VERSION, start, len(plan), behind, len(text), 0)
    return head + plan + bytes(-len(plan) % 8) + text
