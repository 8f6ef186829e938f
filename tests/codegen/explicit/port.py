"""Runs modules on a simulated chip that checks for races."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

import hal
from hal.errors import ExecutionFailed
from hal.hcd import load
from hal.vil.model import Program
from hal.vil.module import Module

CHIPS = ("sim/npu-small", "sim/npu-systolic")

Arrays = dict[str, "np.ndarray[Any, Any]"]


class Chip:
    """One simulated chip, with the race check on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hcd = load(name)
        self._port = hal.load_port(f"sim:{name}", options={"checks": "race"})
        self._device: Any = self._port.device(0)
        self._device.__enter__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._device.__exit__(None, None, None)

    def run(self, module: Module, arguments: Mapping[str, Any]) -> Arrays:
        """The written buffers of the kernel `main`; raises ExecutionFailed with the race."""
        kernel = module.kernel("main")
        given: list[Any] = []
        kept: dict[str, Any] = {}
        stream = self._device.stream()
        for item in kernel.arguments:
            value = arguments[item.name]
            if item.kind == "buffer":
                array = np.asarray(value)
                flat = array.reshape(-1) if array.size else np.zeros(1, array.dtype)
                value = kept[item.name] = self._device.array(flat)
            given.append(value)
        self._device.load(module)["main"].launch(stream, *given)
        stream.synchronize()
        return {
            item.name: kept[item.name]
            .numpy()[: np.asarray(arguments[item.name]).size]
            .reshape(np.asarray(arguments[item.name]).shape)
            for item in kernel.arguments
            if item.kind == "buffer" and item.access != "read"
        }

    def races(self, module: Module, arguments: Mapping[str, Any]) -> bool:
        """True when the run reports a race, and not some other fault."""
        try:
            self.run(module, arguments)
        except ExecutionFailed as error:
            return "race: engine" in str(error)
        return False


def without_token(module: Module, name: str, token: int) -> Module:
    """The module with every SIGNAL and WAIT of one token of a program gone."""
    program = module.program(name)
    kept = []
    for item in program.instructions:
        if item.op in ("signal", "wait") and item.x is not None:
            if item.x == token:
                continue
            item = replace(item, x=item.x - (item.x > token))
        kept.append(item)
    tokens = program.tokens[:token] + program.tokens[token + 1 :]
    return with_program(module, replace(program, tokens=tokens, instructions=tuple(kept)))


def with_credits(module: Module, name: str, token: int, more: int) -> Module:
    """The module with more credits on one token of a program."""
    program = module.program(name)
    tokens = list(program.tokens)
    tokens[token] = replace(tokens[token], credits=tokens[token].credits + more)
    return with_program(module, replace(program, tokens=tuple(tokens)))


def with_program(module: Module, program: Program) -> Module:
    """The module with another program of the same name."""
    programs = tuple(program if each.name == program.name else each for each in module.programs)
    return replace(module, programs=programs)
