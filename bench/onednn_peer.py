"""oneDNN as a peer: its primitive `matmul` by the C interface of an installed library.

Both interfaces are served: oneDNN 2 (Debian 12's libdnnl2), whose descriptors are structures that
the caller has, and oneDNN 3, whose descriptors are handles. All three matrices lie plainly, row by
row, as ours and torch's do; a format of the library's own would leave its packing out of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

NAMES = ("libdnnl.so.3", "libdnnl.so.2")
NOTE = "oneDNN (libdnnl.so.3 or libdnnl.so.2; in Debian 12 the package libdnnl2)"
"""What is looked for, and what to install where there is none."""

INTERFACE = """
typedef struct { int major, minor, patch; } dnnl_version_t;
typedef struct { int argument; void *memory; } dnnl_exec_arg_t;
const dnnl_version_t *dnnl_version(void);
int dnnl_engine_create(void **out, int kind, size_t index);
int dnnl_stream_create(void **out, void *engine, unsigned flags);
int dnnl_stream_wait(void *stream);
int dnnl_memory_create(void **out, const void *desc, void *engine, void *data);
int dnnl_primitive_create(void **out, const void *desc);
int dnnl_primitive_execute(
    const void *primitive, void *stream, int count, const dnnl_exec_arg_t *arguments);
int dnnl_memory_desc_init_by_strides(
    void *desc, int rank, const int64_t *lengths, int type, const int64_t *strides);
int dnnl_matmul_desc_init(
    void *desc, const void *a, const void *b, const void *bias, const void *c);
int dnnl_primitive_desc_create(
    void **out, const void *desc, const void *attributes, void *engine, const void *hint);
int dnnl_memory_desc_create_with_strides(
    void **out, int rank, const int64_t *lengths, int type, const int64_t *strides);
int dnnl_matmul_primitive_desc_create(
    void **out, void *engine, const void *a, const void *b, const void *bias, const void *c,
    const void *attributes);
void omp_set_num_threads(int count);
"""
CPU, IN_ORDER = 1, 1  # dnnl_cpu, dnnl_stream_in_order.
TYPES = {"bf16": 2, "f32": 3}  # dnnl_bf16, dnnl_f32.
SOURCE, WEIGHTS, TARGET = 1, 33, 17  # DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST.
STRUCTURE_BYTES = 8192
"""More than the largest descriptor of oneDNN 2.6 takes: 2,800 bytes."""


class OneDnn:
    """An opened library with one engine and one stream.

    Attributes:
        version: As the library tells it.
    """

    def __init__(self, name: str) -> None:
        """Open the library of this name.

        Raises:
            OSError: there is none, or it does not share its work by OpenMP, so that its threads
                cannot be set.
        """
        from cffi import FFI

        self.ffi: Any = FFI()
        self.ffi.cdef(INTERFACE)
        self.lib: Any = self.ffi.dlopen(name)
        try:
            self._set_threads = self.lib.omp_set_num_threads  # By its own dependencies.
        except AttributeError:
            raise OSError(f"{name} has no omp_set_num_threads") from None
        version = self.lib.dnnl_version()
        self._has_handles = version.major >= 3
        self.version = f"{version.major}.{version.minor}.{version.patch}"
        self.engine = self._made(self.lib.dnnl_engine_create, CPU, 0)
        self.stream = self._made(self.lib.dnnl_stream_create, self.engine, IN_ORDER)

    def _ok(self, status: int, what: str) -> None:
        if status:
            raise RuntimeError(f"oneDNN {self.version}: {what} gave status {status}")

    def _made(self, make: Callable[..., int], *arguments: Any) -> Any:
        out = self.ffi.new("void **")
        self._ok(make(out, *arguments), "a call of its interface")
        return out[0]

    def _matrix(self, rows: int, columns: int, dtype: str) -> Any:
        """Descriptor of a matrix that lies row by row."""
        lengths = self.ffi.new("int64_t[]", [rows, columns])
        strides = self.ffi.new("int64_t[]", [columns, 1])
        if self._has_handles:
            make = self.lib.dnnl_memory_desc_create_with_strides
            return self._made(make, 2, lengths, TYPES[dtype], strides)
        desc = self.ffi.new("char[]", STRUCTURE_BYTES)
        init = self.lib.dnnl_memory_desc_init_by_strides
        self._ok(init(desc, 2, lengths, TYPES[dtype], strides), "a matrix's descriptor")
        return desc

    def _product(self, a: Any, b: Any, c: Any) -> Any:
        """The descriptor of the primitive."""
        null = self.ffi.NULL
        if self._has_handles:
            make = self.lib.dnnl_matmul_primitive_desc_create
            return self._made(make, self.engine, a, b, null, c, null)
        desc = self.ffi.new("char[]", STRUCTURE_BYTES)
        self._ok(self.lib.dnnl_matmul_desc_init(desc, a, b, null, c), "a product's descriptor")
        return self._made(self.lib.dnnl_primitive_desc_create, desc, null, self.engine, null)

    def matmul(self, dtype: str, threads: int, a: Any, b: Any, c: Any) -> Callable[[], object]:
        """A call that sets c to the product of a and b with so many threads, and waits for it.

        Args:
            dtype: Of all three.
            a, b, c: Arrays of NumPy that lie row by row.
        """
        self._set_threads(threads)
        descs = [self._matrix(*array.shape, dtype) for array in (a, b, c)]
        primitive = self._made(self.lib.dnnl_primitive_create, self._product(*descs))
        arguments = self.ffi.new("dnnl_exec_arg_t[]", 3)
        roles = (SOURCE, WEIGHTS, TARGET)
        for slot, role, desc, array in zip(arguments, roles, descs, (a, b, c), strict=True):
            data = self.ffi.cast("void *", array.ctypes.data)
            slot.argument = role
            slot.memory = self._made(self.lib.dnnl_memory_create, desc, self.engine, data)
        run, wait, stream = self.lib.dnnl_primitive_execute, self.lib.dnnl_stream_wait, self.stream

        def product(_kept: Any = (descs, a, b, c)) -> None:
            self._set_threads(threads)
            self._ok(run(primitive, stream, 3, arguments), "a product")
            self._ok(wait(stream), "a wait")

        return product


@cache
def onednn() -> OneDnn | None:
    """The installed library, or None."""
    for name in NAMES:
        try:
            return OneDnn(name)
        except OSError:
            continue
    return None
