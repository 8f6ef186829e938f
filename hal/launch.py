"""Kernels and launches.

A launch from Python is one C call: each kernel gets a function made for its signature (see
hal.signature), which packs the arguments in one step. Whatever goes wrong there is found out by
`_launch_carefully`, which takes its time and names the argument.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from hal.chip.queue import Queue
from hal.errors import InvalidHandle, InvalidValue, OutOfRange, UsageError, from_status
from hal.memory.region import Region
from hal.port.native import CData, fail, ffi, lib, read_i64
from hal.signature import SCALARS, Parameter, compile_launch, pack_grid
from hal.wording import counted

if TYPE_CHECKING:
    from hal.chip.opened import Chip
    from hal.chip.owned import Owned

__all__ = ["BoundLaunch", "Kernel"]

CALL = "launch.launch"

_REASON_BYTES = 512
_INFO = {"argument_count": 1, "scratch_bytes": 2, "runs_on_host": 3}


class Kernel:
    """A kernel of a loaded module. Made by `module["name"]`; it lives as long as its module.

    Attributes:
        name: Its name.
        module, device: Where it was loaded.
        signature: Its parameters in order.
        takes_grid: Whether a launch gives the grid; other kernels compute it.
        has_workspace: Whether a launch takes device memory beside its arguments, from the pool.
        launch: `launch(stream, *arguments, grid=None)` enqueues it. Arguments stand in the
            signature's order: Array, Buffer or View for a buffer, numbers for the others. They
            are read during the call. Count, types and sizes are checked at each launch.
    """

    __slots__ = (
        *("__weakref__", "_image", "_index", "_pack", "_plan", "device", "handle", "launch"),
        *("has_workspace", "module", "name", "signature", "takes_grid"),
    )

    def __init__(
        self,
        module: Owned,
        name: str,
        handle: int,
        plan: CData,
        signature: tuple[Parameter, ...],
        image: CData,
        facts: CData,
        index: int,
    ) -> None:
        self.module = module
        self.device: Chip = module.device
        self.name = name
        self.handle = handle
        self.signature = signature
        self.takes_grid = bool(facts.takes_grid)
        self.has_workspace = bool(facts.workspace_count)
        self._image, self._index = image, index
        self._plan: CData | None = plan
        shape = tuple((p.kind == "buffer", p.dtype.name) for p in signature)
        self._pack, make = compile_launch(shape, self.takes_grid)
        self.launch: Callable[..., None] = make(self, lib, _launch_carefully, _refused)

    def __repr__(self) -> str:
        return f"<Kernel {self.name}({', '.join(map(str, self.signature))}) on {self.device.name}>"

    def bind(self, *arguments: Any, grid: Sequence[int] | None = None) -> BoundLaunch:
        """Check and pack arguments once, for a launch that is repeated: `bound.launch(stream)`."""
        return BoundLaunch(self, arguments, self._grid(grid))

    def info(self, key: str) -> int:
        """A number about the kernel: argument_count, scratch_bytes or runs_on_host.

        Raises:
            Unsupported: the port does not say.
        """
        if key not in _INFO:
            raise UsageError(f"there is no key '{key}'", call="module.kernel_info")
        self._require_live()
        status, value = read_i64(
            lambda out: lib.hal_module_kernel_info(self.device.native, self.handle, _INFO[key], out)
        )
        if status:
            fail(self.device.native, status, "module.kernel_info", device=self.device.name)
        return value

    def pack(self, arguments: Sequence[Any], *, call: str = CALL) -> bytes:
        """The arguments as an array of `hal_argument`. Raises for the first that does not fit."""
        if len(arguments) != len(self.signature):
            given = len(arguments)
            expected = ", ".join(p.name for p in self.signature)
            raise InvalidValue(
                f"{self.name} takes {counted(len(self.signature), 'argument')} ({expected}); "
                f"{given} {'was' if given == 1 else 'were'} given",
                call=call,
                device=self.device.name,
                next_step="Give one for each parameter, in this order.",
            )
        values = []
        for parameter, value in zip(self.signature, arguments, strict=True):
            values += self._check(parameter, value, call)
        try:
            return self._pack(*values)
        except (struct.error, OverflowError, TypeError, ValueError) as error:
            raise InvalidValue(
                f"the arguments of {self.name} cannot be packed: {error}",
                call=call,
                device=self.device.name,
            ) from None

    def check(self, packed: bytes, *, call: str = CALL) -> int:
        """Judge packed arguments as a launch does: sizes, alignment, overlap.

        Returns:
            Bytes of workspace that a launch with them takes.
        """
        needed, reason = ffi.new("uint64_t *"), ffi.new("char[]", _REASON_BYTES)
        arguments = ffi.from_buffer("hal_argument[]", packed)
        status = lib.hal_image_check(
            *(self._image, self._index, arguments, len(self.signature), ffi.NULL, needed),
            *(reason, _REASON_BYTES),
        )
        if status:
            text = ffi.string(reason).decode("utf-8", "replace")
            raise from_status(status, text, call=call, device=self.device.name)
        return int(needed[0])

    def _check(self, parameter: Parameter, value: Any, call: str) -> list[Any]:
        """What the packer takes for one argument."""
        if parameter.kind == "buffer":
            return [self._check_buffer(parameter, value, call)]
        kind, form = SCALARS[parameter.dtype.name]
        try:
            struct.pack(f"<{form}", value)
        except (struct.error, OverflowError, TypeError, ValueError):
            wanted = "a whole number" if form in {"q", "i4x"} else "a number"
            raise InvalidValue(
                f"argument {parameter.name} of {self.name} is {parameter.kind} "
                f"{parameter.dtype}: {wanted} in its range is needed, "
                f"{_short(value)} was given",
                call=call,
                device=self.device.name,
            ) from None
        return [kind, 0, value]

    def _check_buffer(self, parameter: Parameter, value: Any, call: str) -> bytes:
        where = f"argument {parameter.name} of {self.name}"
        if not isinstance(value, Region):
            is_host = hasattr(value, "__array_interface__")
            raise InvalidValue(
                f"{where} is a buffer of {parameter.dtype}; {_short(value)} was given",
                call=call,
                device=self.device.name,
                next_step="Put it on the device first: device.array(…)."
                if is_host
                else "Give an Array, Buffer or View.",
            )
        if value.is_closed:
            value._refuse_dead(call)
        if value.device is not self.device:
            same = value.device.name == self.device.name
            whose = f"another opening of {value.device.name}" if same else value.device.name
            raise InvalidHandle(
                f"{where} is memory of {whose}; the kernel is on {self.device.name}",
                call=call,
                device=self.device.name,
            )
        dtype = getattr(value, "dtype", None)
        if dtype is not None and dtype is not parameter.dtype:
            raise InvalidValue(
                f"{where} is a buffer of {parameter.dtype}; an array of {dtype} was given",
                call=call,
                device=self.device.name,
                next_step=f"Convert the array, or load a kernel for {dtype}.",
            )
        packed = value._argument
        assert packed is not None
        return packed

    def _grid(self, grid: Sequence[int] | None) -> bytes | None:
        """The grid packed, after a check that the kernel takes one."""
        if grid is None and not self.takes_grid:
            return None
        if grid is None or not self.takes_grid:
            needs = "needs grid=" if self.takes_grid else "computes its own grid and takes no grid="
            raise InvalidValue(
                f"{self.name} {needs}",
                call=CALL,
                device=self.device.name,
                next_step="Give grid=(x, y, z)." if self.takes_grid else "Leave grid= out.",
            )
        lengths = (grid,) if isinstance(grid, int) else tuple(grid)
        if not 1 <= len(lengths) <= 3 or any(
            not isinstance(n, int) or not 0 <= n < 2**32 for n in lengths
        ):
            raise OutOfRange(
                f"the grid {grid!r} is not one to three lengths below 2³²",
                call=CALL,
                device=self.device.name,
            )
        return pack_grid(*lengths, *(1,) * (3 - len(lengths)))

    def _require_live(self) -> CData:
        if self._plan is None or not self.device.is_open:
            raise InvalidHandle(
                f"the kernel {self.name} went with its module, which was closed",
                call=CALL,
                device=self.device.name,
                next_step="Keep the module open while its kernels are in use.",
            )
        return self._plan

    def _end(self) -> None:
        """The module goes."""
        plan, self._plan = self._plan, None
        if plan is not None:
            lib.hal_plan_free(plan)


class BoundLaunch:
    """A kernel with its arguments, ready to be launched many times. Made by `kernel.bind()`.

    It keeps the memory of its arguments alive; when that is freed all the same, launching raises.
    """

    __slots__ = ("__weakref__", "_arguments", "_count", "_grid", "_kernel", "_packed")

    def __init__(self, kernel: Kernel, arguments: tuple[Any, ...], grid: bytes | None) -> None:
        self._kernel = kernel
        self._arguments = arguments
        self._grid = grid
        packed = kernel.pack(arguments)
        kernel.check(packed)
        self._packed: bytes | None = packed
        self._count = len(arguments)
        for argument in arguments:
            if isinstance(argument, Region):
                argument._depend(self)

    def launch(self, stream: Queue) -> None:
        """Enqueue it on a stream of the kernel's device."""
        kernel = self._kernel
        if self._grid is None and stream.device is kernel.device:
            try:
                status = lib.hal_python_launch(
                    kernel._plan, stream._fast, self._packed, self._count
                )
            except TypeError:
                pass  # The stream captures or is closed, or something was freed.
            else:
                if status:
                    _refused(kernel, stream, status)
                return
        grid = None if self._grid is None else struct.unpack("<III", self._grid)
        _launch_carefully(self._kernel, stream, self._arguments, grid)

    def _base_died(self) -> None:
        self._packed = None

    def __repr__(self) -> str:
        return f"<BoundLaunch {self._kernel.name} on {self._kernel.device.name}>"


def _launch_carefully(
    kernel: Kernel, stream: Any, arguments: tuple[Any, ...], grid: Sequence[int] | None
) -> None:
    """Check everything and launch: for captures, grids, and whatever the fast way refused."""
    if not isinstance(stream, Queue):
        raise InvalidValue(
            f"the first argument of launch is the stream; {_short(stream)} was given",
            call=CALL,
            device=kernel.device.name,
            next_step="Make one with device.stream().",
        )
    plan = kernel._require_live()
    if stream.device is not kernel.device:
        _refuse_foreign_stream(kernel, stream)
    handle = stream._live(CALL)
    packed, count = kernel.pack(arguments), len(arguments)
    extent = kernel._grid(grid)
    if extent is None:
        status = lib.hal_python_launch(plan, handle, packed, count)
    else:
        status = lib.hal_python_launch_grid(plan, handle, packed, count, extent)
    if status:
        _refused(kernel, stream, status)
    if stream._graph is not None:
        stream._graph._note(kernel, *arguments)


def _refused(kernel: Kernel, stream: Queue, status: int) -> NoReturn:
    """Raise what the status of a launch stands for."""
    if stream.device is not kernel.device:
        _refuse_foreign_stream(kernel, stream)
    if stream.is_closed:
        stream._refuse_dead(CALL)
    fail(kernel.device.native, status, CALL, device=kernel.device.name)


def _refuse_foreign_stream(kernel: Kernel, stream: Queue) -> NoReturn:
    raise InvalidHandle(
        f"{kernel.name} is on {kernel.device.name}, the stream on {stream.device.name}",
        call=CALL,
        device=kernel.device.name,
        next_step="Load the module on the stream's device.",
    )


def _short(value: Any) -> str:
    """A value in a message: short, with its type."""
    text = repr(value)
    kind = type(value).__name__
    return f"{kind} {text}" if len(text) <= 40 and "\n" not in text else f"a {kind}"
