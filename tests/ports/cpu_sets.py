"""The instruction sets of the cpu port that this processor has, and launches on one of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hal
from hal.device import Device
from hal.errors import PortLoadError
from hal.vil.module import Module

SETS = ("plain", "avx2", "avx512", "amx")


@cache
def has_set(name: str) -> bool:
    """Tell whether this processor has the instructions; every processor has `plain`."""
    try:
        hal.load_port("cpu", options={"isa": name})
    except PortLoadError:
        return False
    return True


def device_of(name: str) -> Device:
    """A device whose tiles run on one instruction set; `none` is the kit's interpreter alone."""
    return hal.load_port("cpu", options={"isa": name}).device(0)


def launch(device: Device, module: Module, *arguments: Any, out: NDArray[Any]) -> NDArray[Any]:
    """Run a kernel on arrays and integers; the last argument is the target, with `out` in it."""
    stream, target = device.stream(), device.array(out)
    given = [device.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    device.load(module)["main"].launch(stream, *given, target)
    stream.synchronize()
    result: NDArray[Any] = target.numpy()
    return result
