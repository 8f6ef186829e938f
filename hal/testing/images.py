"""VIL images in the form that the chip under test loads.

Cases write VIL. A chip whose formats (`kernels.order`) have no `vil.v1` gets the same module as a
source of its dialect, with the VIL beside the text (docs/vil.md, section 4.5). A damaged image
stays damaged: its bytes take the place of the VIL, so the port must refuse them all the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from hal.testing import session as sessions

if TYPE_CHECKING:
    from hal.hcd import Hcd

__all__ = ["as_loaded", "preferred_format"]

VIL = "vil.v1"


def preferred_format() -> str:
    """Return `vil.v1` where the chip loads it, else the first format of its description."""
    import json

    flat = sessions.current().flat
    order = json.loads(flat.get("kernels.order", "[]"))
    known = [flat.get(f"kernels.formats.{name}.format", "") for name in order]
    known = [name for name in known if name]
    return VIL if VIL in known or not known else known[0]


def as_loaded(image: bytes, like: bytes | None = None) -> tuple[str, bytes]:
    """Return format and bytes of what the port gets for a VIL image.

    Args:
        like: The image before it was damaged, whose text then stands beside the damaged VIL.
    """
    name = preferred_format()
    if name == VIL or image[:4] == b"HIMG":
        return name, image
    return name, _wrapped(bytes(image), bytes(like or b""))


@lru_cache(maxsize=256)
def _wrapped(image: bytes, like: bytes) -> bytes:
    from hal.codegen.dialect import image as source_image
    from hal.codegen.dialect.image import payload
    from hal.errors import HalError
    from hal.testing import programs
    from hal.vil import decode
    from hal.vil.binary_writer import encode_envelope

    if not like:
        try:
            return source_image(decode(image), _chip())
        except HalError:
            like = programs.add_one()
    whole = decode(like)
    try:
        text = _text(like)
    except HalError:
        text = ""
    return encode_envelope(whole.kernels, preferred_format(), payload(image, text))


@lru_cache(maxsize=8)
def _text(image: bytes) -> str:
    from hal.codegen.dialect import render
    from hal.vil import decode

    return render(decode(image), _chip())


@lru_cache(maxsize=1)
def _chip() -> Hcd:
    from hal.hcd import from_flat

    lines = sorted(f"{path}\t{text}\n" for path, text in sessions.current().flat.items())
    return from_flat("".join(lines))  # The texts are as the flat form writes them.
