"""A traced function bound to a device and to lengths: what a second call looks up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hal.array.array import Array
from hal.dsl.trace import Path, Trace, leaves, lengths
from hal.errors import UsageError

if TYPE_CHECKING:
    from hal.device import Device
    from hal.stream import Stream

__all__ = ["Bound", "ready"]


class Bound:
    """A compiled kernel with the lengths of one call.

    `run` takes the arguments of a call as they are; places, shapes and params were worked out when
    this was made.
    """

    __slots__ = (
        *("_arrays", "_device", "_launch", "_name", "_outputs", "_params", "_scalars"),
        *("_single", "_spots"),
    )

    def __init__(
        self,
        device: Device,
        launch: Callable[..., None],
        trace: Trace,
        params: Mapping[str, int],
        name: str,
    ) -> None:
        self._device, self._launch, self._name = device, launch, name
        self._spots: list[list[Any]] = [
            [path[0] for path in part] for part in (trace.arrays, trace.scalars)
        ]
        self._arrays, self._scalars, self._single = trace.arrays, trace.scalars, trace.single
        shapes = trace.output_shapes(params)
        self._outputs = tuple(zip(shapes, trace.dtypes, strict=True))
        self._params = trace.params(params)

    def run(self, arguments: Sequence[Any], out: Any, stream: Stream | None) -> Any:
        """Launches with plain positional arguments."""
        arrays = [arguments[spot] for spot in self._spots[0]]
        scalars = [arguments[spot] for spot in self._spots[1]]
        return self._run(arrays, scalars, out, stream)

    def run_call(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any], out: Any, stream: Stream | None
    ) -> Any:
        """Launches with arguments that may be nested or named."""
        found = dict(leaves(arguments, keywords))
        arrays = [found[path] for path in self._arrays]
        scalars = [_number(found[path]) for path in self._scalars]
        return self._run(arrays, scalars, out, stream)

    def _run(
        self, arrays: list[Array], scalars: list[float], out: Any, stream: Stream | None
    ) -> Any:
        device = self._device
        if out is None:
            results = [device.empty(shape, dtype) for shape, dtype in self._outputs]
        else:
            results = self._given(out)
        queue = device.default_stream if stream is None else stream
        self._launch(queue, *arrays, *results, *scalars, *self._params)
        return results[0] if self._single else tuple(results)

    def _given(self, out: Any) -> list[Array]:
        results = list(out) if isinstance(out, tuple | list) else [out]
        for position, (shape, dtype) in enumerate(self._outputs):
            item = results[position] if position < len(results) else None
            if not isinstance(item, Array) or item.shape != shape or item.dtype != dtype:
                raise UsageError(
                    f"result {position} is {dtype}{list(shape)}; {_shown(item)} was given for it",
                    call=self._name,
                    next_step="Give an array of that dtype and shape.",
                )
        if len(results) != len(self._outputs):
            raise UsageError(
                f"{len(results)} arrays for {len(self._outputs)} results", call=self._name
            )
        return results


def _number(item: Any) -> Any:
    return item if type(item) in (int, float) else item.item()


def _shown(item: Any) -> str:
    if isinstance(item, Array):
        return f"{item.dtype}{list(item.shape)}"
    return "nothing" if item is None else type(item).__name__


def _device_of(name: str, places: Sequence[tuple[Path, Any]]) -> Device:
    """The device of all arrays."""
    device: Any = None
    for path, item in places:
        if not isinstance(item, Array):
            if hasattr(item, "__array_interface__") and getattr(item, "shape", ()) != ():
                raise UsageError(
                    f"argument {path[0]} is a {type(item).__name__}, which lies on no device",
                    call=name,
                    next_step="Put it there with device.array(x), or use .reference(…).",
                )
            continue
        if device is None:
            device = item.device
        elif item.device is not device:
            raise UsageError(
                f"argument {path[0]} lies on {item.device.name}, others on {device.name}",
                call=name,
                next_step="Copy it there first.",
            )
    if device is None:
        raise UsageError(
            "none of the arguments is an array of a device",
            call=name,
            next_step="Make one with device.array(values).",
        )
    found: Device = device
    return found


def ready(
    name: str,
    tracer: Callable[..., Trace],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Bound:
    """The function traced, compiled, loaded and bound for these arguments."""
    from hal.codegen.execute import loaded

    places = list(leaves(arguments, keywords))
    device = _device_of(name, places)
    trace = tracer(*arguments, **keywords)
    params, _ = lengths(arguments, keywords)
    sizes = {name: params[name] for name in trace.kernel.params}
    kernel = loaded(device, trace.kernel, sizes=sizes)
    return Bound(device, kernel.launch, trace, params, name)
