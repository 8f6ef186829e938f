"""Modules: kernels, and the programs that they launch, as one image."""

from __future__ import annotations

from dataclasses import dataclass

from hal.vil.binary_writer import encode
from hal.vil.model import Kernel, Program, next_named

__all__ = ["Module"]


@dataclass(frozen=True, slots=True)
class Module:
    """Kernels and the programs that they launch."""

    kernels: tuple[Kernel, ...] = ()
    programs: tuple[Program, ...] = ()

    def __bytes__(self) -> bytes:
        """The binary form, as `device.load(module)` takes it."""
        return encode(self)

    def kernel(self, name: str) -> Kernel:
        """The kernel called `name`; raises KeyError."""
        return next_named(self.kernels, name)

    def program(self, name: str) -> Program:
        """The program called `name`; raises KeyError."""
        return next_named(self.programs, name)
