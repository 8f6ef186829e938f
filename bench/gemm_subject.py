"""Matrix products: the generated kernel beside the libraries that are installed here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.measure import Contender, Figure, rate, settled
from bench.onednn_peer import NOTE as ONEDNN_NOTE
from bench.onednn_peer import onednn
from bench.peers import module

SIZES = {"f32": (256, 512, 1024, 2048, 4096), "bf16": (1024, 2048, 4096)}
"""Rows, columns and depth of the square products of each type."""
THREADS = (1, 2)
SAMPLE_FLOPS = 2.5e8
"""A sample repeats small products until it does so much work."""

GOALS = {
    "f32": "rate at least 0.85 x torch's (geometric mean), none under 0.6",
    "bf16": "rate at least 1.5 x the best of torch and oneDNN",
}
LIBRARY_GOALS = {"f32": "rate at least 0.97 x torch's"}

TEXT = """kernel product {{
  param M, N, K : int
  input: {dtype}[M,K] A, {dtype}[K,N] B
  output: {dtype}[M,N] C
  operation: C[i,j] += A[i,k] * B[k,j]
}}
"""


@dataclass(frozen=True)
class Case:
    """One product: its type, its length on all three axes, and the threads."""

    dtype: str
    length: int
    threads: int

    @property
    def flops(self) -> float:
        """Multiplications and additions."""
        return 2.0 * self.length**3

    @property
    def count(self) -> int:
        """Products in a sample."""
        return max(1, int(SAMPLE_FLOPS / self.flops))

    @property
    def rounds(self) -> int:
        """Fewer where a sample takes seconds."""
        return 11 if self.length <= 2048 else 7

    @property
    def name(self) -> str:
        """As the rows have it."""
        plural = "s" * (self.threads > 1)
        return f"{self.dtype} {self.length}³, {self.threads} thread{plural}"

    def is_offered_by(self, device: Any) -> bool:
        """Whether the device's own library has such a product."""
        return self.dtype in {t.name for t in device.library.operators.get("matmul", ())}

    def contender(self, name: str, call: Callable[[], object]) -> Contender:
        """Something that makes the product once a call."""
        return Contender(name, settled(call, rate(call, self.flops / 1e9, count=self.count)))


Maker = Callable[[Case, Any], Callable[[], object]]


def figures() -> Iterator[Figure]:
    """Every type and size by both routes, one thread after the other."""
    for threads in THREADS:
        with _device(threads) as device:
            for dtype, lengths in SIZES.items():
                for length in lengths:
                    case = Case(dtype, length, threads)
                    yield figure(case, device)
                    if case.is_offered_by(device):
                        yield library_figure(case, device)


@contextmanager
def _device(threads: int) -> Iterator[Any]:
    """The processor's own port with so many threads."""
    import hal
    from bench.programs import DEVICE

    port = hal.load_port(DEVICE.partition(":")[0], options={"threads": str(threads)})
    device = port.device(0)
    yield device
    device.close()


def figure(case: Case, device: Any) -> Figure:
    """One size by the generated kernel, and every peer that can do it."""
    ours, result = _ours(case, device)
    peers, absent = _peers(case)
    ours()
    _check(case, result(), "generated")
    return Figure(
        case.name,
        "GFLOP/s",
        case.contender("generated", ours),
        [case.contender(name, call) for name, call in peers],
        absent=absent,
        goal=GOALS[case.dtype],
        rounds=case.rounds,
    )


def library_figure(case: Case, device: Any) -> Figure:
    """One size by the device's own library, beside torch and the installed libraries alone.

    Where the port's library is one of the peers, what it does alone is in the row's `peers`.
    """
    ours, result = _library(case, device)
    peers, absent = _peers(case)
    ours()
    _check(case, result(), "the library route")
    return Figure(
        f"library {case.name}",
        "GFLOP/s",
        case.contender("library route", ours),
        [case.contender(name, call) for name, call in peers],
        absent=absent,
        goal=LIBRARY_GOALS.get(case.dtype, ""),
        rounds=case.rounds,
    )


def operands(case: Case) -> tuple[Any, Any]:
    """Small whole numbers, so that every order of the sums gives the same result."""
    import numpy as np

    from hal import dtypes

    rng = np.random.default_rng(0)
    shape = (case.length, case.length)
    dtype = dtypes.by_name(case.dtype).numpy
    return rng.integers(-2, 3, shape).astype(dtype), rng.integers(-2, 3, shape).astype(dtype)


def _ours(case: Case, device: Any) -> tuple[Callable[[], object], Callable[[], Any]]:
    """A launch of the generated kernel with the wait for it, and what reads its result."""
    from hal import codegen, ir

    kernel = ir.parse(TEXT.format(dtype=case.dtype)).kernels[0]
    made = codegen.compile(kernel, device.hcd, sizes=dict.fromkeys("MNK", case.length))
    return _launched(case, device, device.load(made.module)[made.kernel_name])


def _library(case: Case, device: Any) -> tuple[Callable[[], object], Callable[[], Any]]:
    """The same by the route that the compiler takes where it prefers the device's library."""
    from hal import ir
    from hal.codegen.library import preferred

    kernel = ir.parse(TEXT.format(dtype=case.dtype)).kernels[0]
    made, why = preferred(device, kernel, dict.fromkeys("MNK", case.length), asked=True)
    if made is None:
        raise RuntimeError(f"the library route does not take {case}: {why}")
    return _launched(case, device, made)


def _launched(
    case: Case, device: Any, kernel: Any
) -> tuple[Callable[[], object], Callable[[], Any]]:
    a, b = (device.array(values) for values in operands(case))
    c = device.empty(a.shape, a.dtype)
    stream = device.stream()
    lengths = [case.length] * 3

    def call() -> None:
        kernel.launch(stream, a, b, c, *lengths)
        stream.synchronize()

    return call, c.numpy


def _check(case: Case, result: Any, what: str) -> None:
    """A row and a column of the result, which are exact for these operands up to a rounding."""
    import numpy as np

    a, b = (values.astype(np.float64) for values in operands(case))
    for got, want in ((result[7], a[7] @ b), (result[:, 11], a @ b[:, 11])):
        if not np.allclose(got.astype(np.float64), want, rtol=2**-8, atol=0):
            raise RuntimeError(f"the product of {case} by {what} is wrong")


# ---- Peers ----


def _peers(case: Case) -> tuple[list[tuple[str, Callable[[], object]]], list[str]]:
    makers: Sequence[tuple[str, str, Maker]] = (
        ("torch", "torch", _torch),
        ("OpenBLAS (scipy-openblas32)", "scipy_openblas32", _openblas),
    )
    peers, absent = [], []
    for name, package, make in makers:
        found = module(package)
        if found is None:
            absent.append(name)
        elif name == "torch" or case.dtype == "f32":
            peers.append((f"{name} {getattr(found, '__version__', '')}".strip(), make(case, found)))
    library = onednn()
    if library is None:
        absent.append(ONEDNN_NOTE)
    else:
        peers.append((f"oneDNN {library.version}", _onednn(case, library)))
    return peers, absent


def _torch(case: Case, torch: Any) -> Callable[[], object]:
    torch.set_num_threads(case.threads)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[case.dtype]
    shape = (case.length, case.length)
    a, b = (torch.randint(-2, 3, shape).to(dtype) for _ in range(2))
    out = torch.empty(shape, dtype=dtype)
    return lambda: torch.mm(a, b, out=out)


def _openblas(case: Case, package: Any) -> Callable[[], object]:
    """cblas_sgemm of the library in the wheel, called with its own thread count."""
    import ctypes

    import numpy as np

    folder = importlib.import_module(package.__name__).get_lib_dir()
    name = importlib.import_module(package.__name__).get_library()
    library = ctypes.CDLL(f"{folder}/lib{name}.so")
    library.scipy_openblas_set_num_threads(case.threads)
    call = library.scipy_cblas_sgemm
    a, b = operands(case)
    c = np.empty_like(a)
    n, one, zero = case.length, ctypes.c_float(1), ctypes.c_float(0)
    row_major, plain = 101, 111
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]

    def product(_kept: Any = (a, b, c)) -> None:
        call(
            row_major, plain, plain, n, n, n, one, pointers[0], n, pointers[1], n, zero,
            pointers[2], n,
        )  # fmt: skip

    return product


def _onednn(case: Case, library: Any) -> Callable[[], object]:
    """The primitive matmul of an installed oneDNN; all three matrices lie plainly."""
    import numpy as np

    a, b = operands(case)
    c = np.empty_like(a)
    product: Callable[[], object] = library.matmul(case.dtype, case.threads, a, b, c)
    product()
    _check(case, c, "oneDNN")
    return product
