"""Forecasts of modules by the list schedule: one launch in virtual time, nothing runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from hal.errors import HalError
from hal.forecast import Forecast, Forecaster
from hal.hcd import Hcd
from hal.vil import Module
from hal.vil.expressions import evaluate

__all__ = ["Forecasts"]

WORKSPACE_GAP = 4096


class Forecasts:
    """The list schedule of one chip."""

    def __init__(self, hcd: Hcd) -> None:
        """Opens the forecaster.

        Raises:
            PortLoadError: the chip's description lacks what timing needs.
        """
        self._chip = Forecaster(hcd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._chip.close()

    def of(self, module: Module, sizes: Mapping[str, int]) -> Forecast | None:
        """A launch of the module's kernel in virtual time; None where it is refused."""
        kernel = module.kernels[0]
        arguments: list[float] = []
        try:
            for argument in kernel.arguments:
                if argument.kind == "buffer" and argument.required_bytes is not None:
                    arguments.append(evaluate(argument.required_bytes, sizes))
                elif argument.kind == "symbol":
                    arguments.append(sizes[argument.name])
                else:
                    arguments.append(1)
            if kernel.workspaces:
                parts = [evaluate(space.bytes, sizes) for space in kernel.workspaces]
                arguments.append(sum(parts) + WORKSPACE_GAP * len(parts))
            loaded = self._chip.kernel(bytes(module), kernel.name, known=module)
            return loaded.forecast(arguments)
        except HalError:
            return None
