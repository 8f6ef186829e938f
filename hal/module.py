"""Modules: program images on a device, and their kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, SupportsBytes

from hal import dtypes
from hal.chip.owned import Owned
from hal.errors import InvalidModule, NotFound, UsageError
from hal.launch import Kernel
from hal.port.native import CData, ffi, lib
from hal.signature import Parameter

if TYPE_CHECKING:
    from hal.chip.opened import Chip

__all__ = ["Module"]

_REASON_BYTES = 1024
_KINDS = {1: "buffer", 2: "scalar", 3: "symbol"}
_ACCESS = {0: "", 1: "read", 2: "write", 3: "inout"}


class Module(Owned):
    """A loaded program image. `module["name"]` is a kernel; `for name in module` lists them.

    Kernels are dead when the module is closed; launches enqueued before still run.
    """

    __slots__ = ("_indices", "_kernels", "format", "image")

    NOUN = "module"
    END = "module.unload"

    def __init__(self, device: Chip, image: bytes | SupportsBytes, format: str) -> None:  # noqa: A002
        self.device = device
        self._handle = 0
        self.format = format
        self.image = _image_bytes(image)
        signature = _read_image(self.image, device)
        self._indices = _kernel_names(signature)
        self._kernels: dict[str, Kernel] = {}
        desc, out = ffi.new("hal_module_desc *"), ffi.new("hal_module *")
        text, data = ffi.new("char[]", format.encode()), ffi.from_buffer(self.image)
        desc.size = ffi.sizeof("hal_module_desc")
        desc.format, desc.image, desc.image_bytes = text, data, len(self.image)
        status = lib.hal_module_load(device.native, device.handle, desc, out)
        if status:
            self._fail(status, "module.load")
        super().__init__(device, out[0])
        for name, index in self._indices.items():
            self._kernels[name] = self._kernel(name, index, signature)

    def __getitem__(self, name: str) -> Kernel:
        """The kernel of that name. Raises NotFound, with the names that there are."""
        if not self._handle or not self.device.is_open:
            self._refuse_dead("get_kernel")
        found = self._kernels.get(name)
        if found is None:
            import difflib

            near = difflib.get_close_matches(str(name), self._kernels, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "Use one of its names."
            raise NotFound(
                f"there is no kernel {name!r}; the module has {', '.join(self._kernels)}",
                call="module.get_kernel",
                device=self.device.name,
                next_step=hint,
            )
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def close(self) -> None:
        """Unload the module. It never waits; launches enqueued before still run."""
        for kernel in self._kernels.values():
            kernel._end()
        super().close()

    def _kernel(self, name: str, index: int, signature: CData) -> Kernel:
        out = ffi.new("hal_kernel *")
        device = self.device
        status = lib.hal_module_get_kernel(device.native, self._handle, name.encode(), out)
        if status:
            self._fail(status, "module.get_kernel")
        facts = _kernel_facts(signature, index)
        plan = ffi.new("hal_plan **")
        pool = device.pool.native if facts.workspace_count else ffi.NULL
        status = lib.hal_plan_create(device.native, out[0], signature, index, pool, plan)
        if status:
            self._fail(status, "plan.create")
        parameters = tuple(
            _parameter(signature, index, number) for number in range(facts.argument_count)
        )
        return Kernel(self, name, out[0], plan[0], parameters, signature, facts, index)

    def _destroy(self, handle: int) -> int:
        for kernel in self._kernels.values():
            kernel._end()
        return int(lib.hal_module_unload(self.device.native, handle))

    def _describe(self) -> str:
        return f"module of {len(self._kernels)} kernels in {self.format}"


def _image_bytes(image: Any) -> bytes:
    """The bytes of an image, or of an object that gives them by `bytes()`, as hal.vil.Module."""
    if isinstance(image, bytes):
        return image
    if isinstance(image, bytearray | memoryview) or hasattr(type(image), "__bytes__"):
        return bytes(image)
    raise UsageError(
        f"{type(image).__name__} is no module image",
        call="module.load",
        next_step="Give bytes or a hal.vil.Module; hal.vil.parse() makes one of text.",
    )


def _read_image(image: bytes, device: Chip) -> CData:
    """Read the signature of an image; it is freed with the value that this returns."""
    out, reason = ffi.new("hal_image **"), ffi.new("char[]", _REASON_BYTES)
    status = lib.hal_image_read(ffi.from_buffer(image), len(image), out, reason, _REASON_BYTES)
    if status:
        raise InvalidModule(
            ffi.string(reason).decode("utf-8", "replace") or "the image cannot be read",
            call="module.load",
            device=device.name,
        )
    return ffi.gc(out[0], lib.hal_image_free)


def _kernel_names(signature: CData) -> dict[str, int]:
    facts = ffi.new("hal_image_facts *")
    facts.size = ffi.sizeof("hal_image_facts")
    lib.hal_image_info(signature, facts)
    names = {}
    for index in range(facts.kernel_count):
        names[ffi.string(_kernel_facts(signature, index).name).decode()] = index
    return names


def _kernel_facts(signature: CData, index: int) -> CData:
    facts = ffi.new("hal_kernel_facts *")
    facts.size = ffi.sizeof("hal_kernel_facts")
    lib.hal_image_kernel(signature, index, facts)
    return facts


def _parameter(signature: CData, kernel: int, number: int) -> Parameter:
    facts = ffi.new("hal_parameter_facts *")
    facts.size = ffi.sizeof("hal_parameter_facts")
    lib.hal_image_parameter(signature, kernel, number, facts)
    return Parameter(
        name=ffi.string(facts.name).decode(),
        kind=_KINDS[facts.kind],
        dtype=dtypes.by_number(facts.dtype),
        access=_ACCESS[facts.access],
    )
