"""Kernels of the tensor IR that are called with arrays: compiled once, then looked up."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from hal.array.array import Array
from hal.codegen import choice_store, image_store
from hal.codegen.compiling import compile_kernel
from hal.codegen.dialect.route import format_of, formats
from hal.codegen.dialect.route import load as route_load
from hal.codegen.errors import CodegenError
from hal.codegen.library import LibraryKernel, preferred
from hal.dtypes import DType
from hal.ir import bind
from hal.ir.nodes import Kernel, Schedule
from hal.ir.passes.adapt import adapt_dtype

if TYPE_CHECKING:
    from hal.device import Device
    from hal.launch import Kernel as LaunchedKernel
    from hal.module import Module
    from hal.stream import Stream

__all__ = ["Executable", "loaded"]

_LOADED: WeakKeyDictionary[Device, dict[str, Module | dict[str, LibraryKernel]]] = (
    WeakKeyDictionary()
)
"""Per device what has kernels by name: modules, or the one kernel of the library route."""
_LOCK = threading.Lock()


def loaded(
    device: Device,
    kernel: Kernel,
    *,
    sizes: Mapping[str, int] | None = None,
    without: AbstractSet[str] = frozenset(),
    schedule: Schedule | None = None,
    dtype: DType | None = None,
    route: str = "auto",
    source: str = "",
    name: str = "",
) -> LaunchedKernel | LibraryKernel:
    """The kernel on a device: out of this process, out of the folder of compiled images, or made.

    Arguments and errors are those of `compile_kernel`. Sizes count by their power of two, since
    they only steer tiles. Any thread may call it.
    """
    tuned = choice_store.state()
    steps = {item: size if tuned else size.bit_length() for item, size in (sizes or {}).items()}
    options: dict[str, object] = {
        "formats": formats(device.hcd, route),
        "without": sorted(without),
        "dtype": dtype and dtype.name,
        "route": route,
        "asked": os.environ.get("HAL_ROUTE", ""),
    }
    options |= {"schedule": repr(schedule), "tuned": tuned}
    hcd = device.hcd
    key = image_store.identity(kernel, hcd.sha256, steps, options)
    with _LOCK:
        known = _LOADED.setdefault(device, {})
        found = known.get(key)
    if found is not None:
        return found[kernel.name]
    own = _of_library(device, kernel, sizes or {}, dtype, schedule, route)
    if own is not None:
        with _LOCK:
            return known.setdefault(key, {kernel.name: own})[kernel.name]
    image = image_store.find(key)
    module = None if image is None else _load(device, image, kernel.name)
    if module is None:
        compiled = compile_kernel(
            kernel,
            hcd,
            sizes=sizes,
            without=without,
            schedule=schedule,
            dtype=dtype,
            route=route,
            source=source,
            name=name,
        )
        seconds = sum(choice.seconds for choice in compiled.choices)
        module = route_load(compiled.module, device, route, seconds=seconds)
        image_store.keep(key, module.image)
    with _LOCK:
        return known.setdefault(key, module)[kernel.name]


def _of_library(
    device: Device,
    kernel: Kernel,
    sizes: Mapping[str, int],
    dtype: DType | None,
    schedule: Schedule | None,
    route: str,
) -> LibraryKernel | None:
    """The kernel on the device's own library, where that is asked for or predicted to be faster."""
    asked = route == "library" or (route == "auto" and os.environ.get("HAL_ROUTE") == "library")
    free = route == "auto" and os.environ.get("HAL_ROUTE", "") == "" and schedule is None
    if not asked and not free:
        return None
    adapted = kernel if dtype is None else adapt_dtype(kernel, dtype)
    known = {name: sizes.get(name, 1024) for name in kernel.params}
    found, why = preferred(device, adapted, known, asked=asked)
    if found is None and route == "library":
        raise CodegenError(f"the library route does not do: {why}", span=None)
    return found


def _load(device: Device, image: bytes, name: str) -> Module | None:
    """A module of a stored image; None when the port or this kernel does not take it."""
    from hal.errors import HalError

    try:
        module = device.load(image, format_of(image))
    except HalError:
        return None
    return module if name in module else None


class Executable:
    """A kernel on a device, called with arrays: `run(stream, x, y, out, lr, N=3)`.

    The first call with new shapes compiles; later ones look the launch up and enqueue it.

    Attributes:
        device, kernel: What it was made of; `kernel` after the adaptation of its element type.
    """

    def __init__(
        self,
        device: Device,
        kernel: Kernel,
        *,
        without: AbstractSet[str] = frozenset(),
        schedules: Sequence[Schedule] = (),
        dtype: DType | None = None,
        route: str = "auto",
        source: str = "",
        name: str = "",
    ) -> None:
        self.device = device
        self.kernel = kernel if dtype is None else adapt_dtype(kernel, dtype)
        self._given = kernel
        chip = device.hcd.name
        advice = [s for s in schedules if s.kernel == kernel.name and s.chip in ("", chip)]
        self._options: dict[str, Any] = {
            "without": without,
            "schedule": advice[0] if advice else None,
            "dtype": dtype,
            "route": route,
            "source": source,
            "name": name,
        }
        self._arrays = self.kernel.arrays_of("input", "inout", "output")
        self._count = len(self._arrays)
        self._ready: dict[Any, tuple[Any, tuple[int, ...]]] = {}

    def __call__(self, stream: Stream, *arguments: Any, **params: int) -> None:
        """Enqueues the kernel.

        Args:
            arguments: Arrays but temps in the order of their declarations, then the scalars.
            params: Those that no shape tells.

        Raises:
            IrValueError: shapes that do not fit together.
            CodegenError: a wrong count, or another element type.
        """
        key: Any = tuple([item.shape for item in arguments[: self._count]])
        if params:
            key = (key, tuple(params.items()))
        entry = self._ready.get(key)
        if entry is None:
            entry = self._ready[key] = self._prepared(arguments, params)
        launch, values = entry
        launch(stream, *arguments, *values)

    def _prepared(
        self, arguments: Sequence[Any], params: Mapping[str, int]
    ) -> tuple[Any, tuple[int, ...]]:
        wanted = self._count + len(self.kernel.scalars)
        if len(arguments) != wanted:
            names = [item.name for item in self._arrays]
            names += [item.name for item in self.kernel.scalars]
            raise CodegenError(
                f"takes {wanted} arguments ({', '.join(names)}); {len(arguments)} were given",
                call=self.kernel.name,
            )
        for array, given in zip(self._arrays, arguments, strict=False):
            if not isinstance(given, Array) or given.dtype != array.dtype:
                shown = given.dtype if isinstance(given, Array) else type(given).__name__
                raise CodegenError(
                    f"{array.name} is an array of {array.dtype}; {shown} was given",
                    call=self.kernel.name,
                    next_step="Make it with device.array(values, dtype).",
                )
        shapes = {a.name: given.shape for a, given in zip(self._arrays, arguments, strict=False)}
        values = bind(self.kernel, shapes, params)
        missing = [name for name in self.kernel.params if name not in values]
        if missing:
            raise CodegenError(
                f"no shape tells {', '.join(missing)}",
                call=self.kernel.name,
                next_step=f"Give it by name: {missing[0]}=…",
            )
        kernel = loaded(self.device, self._given, sizes=values, **self._options)
        return kernel.launch, tuple(values[name] for name in self.kernel.params)
