"""The operator matmul of the cpu port, by a BLAS that the tests bring."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hal
import hal.hcd
import hal.loading
from hal.errors import HalError
from hal.testing import raw
from hal.testing.abi import Status
from hal.testing.rig import Rig
from hal.testing.target import find

SOURCE = Path(__file__).with_name("plain_blas.c")
NUMBERS = {"f32": 1, "f64": 4}


@pytest.fixture(scope="module", autouse=True)
def _fresh() -> None:
    """Options count when a port starts: one that an earlier file started is stopped."""
    for port in list(hal.loading._loaded.values()):
        port.close()


def build(path: Path, *flags: str) -> Path:
    """Compile the library of the tests."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
    subprocess.run([*compiler, "-O1", *flags, "-shared", "-fPIC", "-o", path, SOURCE], check=True)
    return path


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled BLAS of the tests."""
    return build(tmp_path_factory.mktemp("blas") / "libplain_blas.so")


@pytest.fixture(scope="module")
def onednn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with oneDNN's interface."""
    return build(tmp_path_factory.mktemp("onednn") / "libplain_onednn.so", "-DONEDNN")


@pytest.mark.parametrize("shape", [(2, 1, 1), (5, 7, 3), (33, 18, 65)])
def test_a_library_with_onednns_interface_serves_f32(
    onednn: Path, shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (m, k)).astype(np.float32)
    b = rng.integers(-4, 5, (n, k)).astype(np.float32)  # read transposed
    from hal.dtypes import f32
    from hal.library import Operand

    with hal.load_port("cpu", options={"blas": str(onednn)}).device(0) as device:
        assert device.library.operators == {"matmul": frozenset({f32})}
        left, right, out = device.array(a), device.array(b), device.empty((m, n), "f32")
        stream = device.stream()
        operands = [Operand(left, f32, (m, k), (k, 1)), Operand(right, f32, (k, n), (1, k))]
        target = Operand(out, f32, (m, n), (n, 1))
        assert device.library.supports("matmul", operands, [target])
        assert not device.library.supports("matmul", operands[:1], [target])
        assert not device.library.supports("softmax", operands, [target])
        device.library.run(stream, "matmul", operands, [target])
        np.testing.assert_array_equal(out.numpy(stream=stream), a @ b.T)


def open_rig(monkeypatch: pytest.MonkeyPatch, blas: str) -> Rig:
    """A device of the port without layers, with this library."""
    monkeypatch.setenv("HAL_CPU_BLAS", blas)
    port = raw.open(find("cpu"))
    out = port.out("hal_device")
    port.ok("device.open", 0, out)
    return Rig(port, int(out[0]))


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch, library: Path) -> Iterator[Rig]:
    """A device that offers matmul."""
    rig = open_rig(monkeypatch, str(library))
    yield rig
    rig.raw.close()


@pytest.fixture
def onednn_rig(monkeypatch: pytest.MonkeyPatch, onednn: Path) -> Iterator[Rig]:
    """A device that offers matmul by oneDNN alone."""
    rig = open_rig(monkeypatch, str(onednn))
    yield rig
    rig.raw.close()


def test_onednn_without_depth_leaves_beta_times_c(onednn_rig: Rig) -> None:
    a, b, c = np.ones((3, 0), "f4"), np.ones((0, 4), "f4"), numbers((3, 4), "float32", 8)
    for beta in (0.0, 2.0):
        tensors = [empty(onednn_rig, a), empty(onednn_rig, b), tensor(onednn_rig, c)]
        stream = onednn_rig.stream()
        desc = desc_of(onednn_rig, tensors, beta=beta)
        onednn_rig.raw.ok("operator.run", stream, desc, onednn_rig.raw.NULL)
        onednn_rig.wait(stream)
        got = onednn_rig.download(tensors[2]["ref"]["memory"], c.nbytes)
        assert np.array_equal(np.frombuffer(got, "f4").reshape(c.shape), beta * c)


def test_a_product_that_onednn_refuses_fails_with_its_status(onednn: Path) -> None:
    """The library of the tests refuses 13 rows."""
    from hal.dtypes import f32
    from hal.library import Operand

    with hal.load_port("cpu", options={"blas": str(onednn)}).device(0) as device:
        arrays = [device.array(np.ones(shape, "f4")) for shape in ((13, 2), (2, 3), (13, 3))]
        operands = [Operand(x, f32, x.shape, (x.shape[1], 1)) for x in arrays]
        stream = device.stream()
        device.library.run(stream, "matmul", operands[:2], operands[2:])
        with pytest.raises(HalError, match="dnnl_sgemm gave status 2 for 13 x 3 x 2"):
            stream.synchronize()


@pytest.mark.parametrize("threads", [1, 3])
def test_onednn_has_the_ports_threads_and_the_caller_keeps_its_own(
    onednn: Path, threads: int
) -> None:
    """A product of single numbers gives the count of threads that it had."""
    from hal.dtypes import f32
    from hal.library import Operand

    options = {"blas": str(onednn), "threads": str(threads)}
    with hal.load_port("cpu", options=options).device(0) as device:
        arrays = [device.array(np.zeros((1, 1), "f4")) for _ in range(3)]
        operands = [Operand(x, f32, (1, 1), (1, 1)) for x in arrays]
        stream = device.stream()
        device.library.run(stream, "matmul", operands[:2], operands[2:])
        assert arrays[2].numpy(stream=stream) == [[threads]]
    assert ctypes.CDLL(str(onednn)).omp_get_max_threads() == 7


TEAMS = """
import ctypes, sys
import numpy as np
import hal
from hal.dtypes import f32
from hal.library import Operand

asked = ctypes.CDLL(sys.argv[1]).plain_blas_pauses
with hal.load_port("cpu", options={"blas": sys.argv[1]}).device(0) as device:
    arrays = [device.array(np.zeros((1, 1), "f4")) for _ in range(3)]
    operands = [Operand(x, f32, (1, 1), (1, 1)) for x in arrays]
    one, other = device.stream(), device.stream()
    for stream, count in ((one, 8), (other, 1), (one, 1), (other, 40), (other, 1), (one, 1)):
        before = asked()
        for _ in range(count):
            device.library.run(stream, "matmul", operands[:2], operands[2:])
            stream.synchronize(timeout_s=60)  # With an end in time: the stream's thread works.
        print(asked() - before, end=" ")
"""


def test_openmp_keeps_the_team_of_one_thread(onednn: Path) -> None:
    """Single products beside its own give their team back; the team passes on after 16 in a row."""
    done = subprocess.run(
        [sys.executable, "-c", TEAMS, str(onednn)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "1", "0", "16", "0", "1"]


WHO_SERVES = """
import numpy as np
import hal
from hal.dtypes import f32
from hal.library import Operand

with hal.load_port("cpu").device(0) as device:
    arrays = [device.array(np.zeros((1, 1), "f4")) for _ in range(3)]
    operands = [Operand(x, f32, (1, 1), (1, 1)) for x in arrays]
    stream = device.stream()
    device.library.run(stream, "matmul", operands[:2], operands[2:])
    by_onednn = arrays[2].numpy(stream=stream)[0, 0] > 0
    print(sorted(t.name for t in device.library.operators["matmul"]), by_onednn)
"""


def test_of_two_installed_libraries_onednn_serves_f32_where_it_is_the_faster(
    tmp_path: Path,
) -> None:
    """Only oneDNN's double gives more than zero for zeros: its count of threads."""
    build(tmp_path / "libopenblas.so.0")
    build(tmp_path / "libdnnl.so.3", "-DONEDNN")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    environment.pop("HAL_CPU_BLAS", None)
    done = subprocess.run(
        [sys.executable, "-c", WHO_SERVES],
        env=environment, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    assert done.stdout == f"['f32', 'f64'] {is_x86}\n"


def tensor(rig: Rig, array: NDArray[Any]) -> dict[str, Any]:
    """A tensor of a new buffer that holds the array with its own strides."""
    base = array if array.base is None else array.base
    memory = rig.memory(base.nbytes)
    rig.upload(memory, np.ascontiguousarray(base))
    return {
        "ref": {"memory": memory, "offset_bytes": 0, "bytes": base.nbytes},
        "dtype": {"float32": 1, "float64": 4, "int32": 7}[str(array.dtype)],
        "rank": array.ndim,
        "shape": [*array.shape, *[0] * (5 - array.ndim)],
        "strides": [*(s // array.itemsize for s in array.strides), *[0] * (5 - array.ndim)],
    }


def desc_of(
    rig: Rig, tensors: list[dict[str, Any]], *, name: str = "matmul", **attributes: float
) -> Any:
    """A descriptor; the last tensor is the output."""
    ffi, keep = rig.raw.ffi, rig.raw.keep
    inputs = keep(ffi.new("hal_tensor[]", tensors[:-1]))
    outputs = keep(ffi.new("hal_tensor[]", tensors[-1:]))
    settings = keep(ffi.new("hal_attribute[]", len(attributes) or 1))
    for setting, (key, value) in zip(settings, attributes.items(), strict=False):
        setting.name = keep(ffi.new("char[]", key.encode()))
        setting.kind, setting.bits = 2, int(np.float64(value).view(np.uint64))
    desc = rig.raw.new(
        "operator_desc",
        input_count=len(tensors) - 1,
        output_count=1,
        inputs=inputs,
        outputs=outputs,
        attribute_count=len(attributes),
        attributes=settings,
    )
    desc.name = keep(ffi.new("char[]", name.encode()))
    return desc


def run(rig: Rig, arrays: list[NDArray[Any]], **attributes: float) -> NDArray[Any]:
    """The output after the operator has run."""
    tensors, stream = [tensor(rig, array) for array in arrays], rig.stream()
    out = arrays[-1]
    rig.raw.ok("operator.run", stream, desc_of(rig, tensors, **attributes), rig.raw.NULL)
    rig.wait(stream)
    data = rig.download(tensors[-1]["ref"]["memory"], out.nbytes)
    return np.frombuffer(data, out.dtype).reshape(out.shape)


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> NDArray[Any]:
    """Whole numbers, so that sums are exact."""
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


def test_the_port_names_one_operator_and_its_types(rig: Rig) -> None:
    info = rig.raw.new("operator_info")
    rig.raw.ok("operator.enumerate", rig.device, 0, info)
    assert rig.raw.ffi.string(info.name) == b"matmul"
    assert info.dtype_mask == 1 << NUMBERS["f32"] | 1 << NUMBERS["f64"]
    status = rig.raw.call("operator.enumerate", rig.device, 1, rig.raw.new("operator_info"))
    assert status == Status.OUT_OF_RANGE


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_matrices_and_their_transposes(
    rig: Rig, dtype: str, turned: tuple[bool, bool]
) -> None:
    a = numbers((7, 5), dtype, 1) if turned[0] else numbers((5, 7), dtype, 1)
    b = numbers((9, 7), dtype, 2) if turned[1] else numbers((7, 9), dtype, 2)
    a, b = a.T if turned[0] else a, b.T if turned[1] else b
    got = run(rig, [a, b, np.zeros((5, 9), dtype)])
    assert np.array_equal(got, a @ b)


def test_batches_alpha_and_beta(rig: Rig) -> None:
    a, b, c = (numbers(shape, "float32", 3) for shape in ((4, 5, 6), (4, 6, 3), (4, 5, 3)))
    assert np.array_equal(run(rig, [a, b, c], alpha=2.0, beta=-1.0), 2 * (a @ b) - c)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (1, 5, 1)], ids=str)
def test_empty_and_thin_products(rig: Rig, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b, out = np.ones((m, k), "f4"), np.ones((k, n), "f4"), np.full((m, n), 5, "f4")
    tensors = [tensor(rig, x) if x.size else empty(rig, x) for x in (a, b, out)]
    stream = rig.stream()
    rig.raw.ok("operator.run", stream, desc_of(rig, tensors), rig.raw.NULL)
    rig.wait(stream)
    got = rig.download(tensors[2]["ref"]["memory"], out.nbytes)
    assert np.array_equal(np.frombuffer(got, "f4").reshape(m, n), a @ b)


def empty(rig: Rig, array: NDArray[Any]) -> dict[str, Any]:
    """A tensor without elements in a buffer of some bytes."""
    found = tensor(rig, np.zeros(1, array.dtype))
    shape = [*array.shape, *[0] * (5 - array.ndim)]
    return found | {
        "rank": array.ndim,
        "shape": shape,
        "strides": [array.shape[1] or 1, 1, 0, 0, 0],
    }


@pytest.mark.parametrize("wrong", ["name", "types", "shapes", "strides", "attribute", "count"])
def test_what_the_library_lacks_is_unsupported(rig: Rig, wrong: str) -> None:
    a, b, c = numbers((4, 5), "float32", 4), numbers((5, 6), "float32", 5), np.zeros((4, 6), "f4")
    tensors = [tensor(rig, x) for x in (a, b, c)]
    attributes, name = ({"gamma": 1.0} if wrong == "attribute" else {}), "matmul"
    if wrong == "name":
        name = "softmax"
    elif wrong == "types":
        tensors[0]["dtype"] = 7
    elif wrong == "shapes":
        tensors[2]["shape"][1] = 5
    elif wrong == "strides":
        tensors[0]["strides"][:2] = [2, 2]
    elif wrong == "count":
        tensors = tensors[1:]
    desc, out = desc_of(rig, tensors, name=name, **attributes), rig.raw.out("uint64_t")
    assert rig.raw.call("operator.supports", rig.device, desc, out) == Status.UNSUPPORTED
    status = rig.raw.call("operator.run", rig.stream(), desc, rig.raw.NULL)
    assert status == Status.UNSUPPORTED


def test_a_tensor_beyond_its_range_is_refused(rig: Rig) -> None:
    arrays = numbers((4, 5), "float32", 6), numbers((5, 6), "float32", 7), np.zeros((4, 6), "f4")
    tensors = [tensor(rig, array) for array in arrays]
    tensors[1]["ref"]["bytes"] -= 4
    status = rig.raw.call("operator.run", rig.stream(), desc_of(rig, tensors), rig.raw.NULL)
    assert status == Status.OUT_OF_RANGE


def test_without_a_library_there_is_no_operator_and_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = open_rig(monkeypatch, "none")
    try:
        status = rig.raw.call("operator.enumerate", rig.device, 0, rig.raw.new("operator_info"))
        assert status == Status.OUT_OF_RANGE
        tensors = [tensor(rig, np.ones((2, 2), "f4")) for _ in range(3)]
        desc, out = desc_of(rig, tensors), rig.raw.out("uint64_t")
        assert rig.raw.call("operator.supports", rig.device, desc, out) == Status.UNSUPPORTED
        assert "scipy-openblas32" in rig.raw.error()[2]
    finally:
        rig.raw.close()


def test_the_description_says_whether_there_is_a_library(
    monkeypatch: pytest.MonkeyPatch, library: Path
) -> None:
    found = []
    for path in (str(library), "none"):
        with hal.load_port("cpu", options={"blas": path}).device(0) as device:
            found.append(device.hcd.get("features.library"))
    assert found == [True, False]


def test_the_librarys_rate_is_measured_written_and_believed(library: Path, tmp_path: Path) -> None:
    """The forecast of a large product stands on the number that was measured."""
    from hal.codegen.library import forecast
    from hal.codegen.target import Target
    from hal.ir import parse
    from hal.measure import description
    from hal.measure.computing import library as rates
    from hal.measure.stopwatch import Stopwatch

    words = {"extends": "hal/cpu", "device": "x", "command": "x", "date": "2026-12-01"}
    path = tmp_path / "measured.hcd.yaml"
    with hal.load_port("cpu", options={"blas": str(library)}).device(0) as device:
        figures = list(rates(Stopwatch(device, rounds=3, sample_ns=100_000), (32,)))
        path.write_text(description(figures, device.hcd, **words), encoding="utf-8")
    assert {figure.what[:11] for figure in figures} == {"product f32", "product f64"}
    hcd = hal.hcd.load(path)
    rate = hcd["library.matmul.rates.f32.flops_per_s"]
    text = """kernel p {
      param N : int
      input: f32[N, N] a, f32[N, N] b
      output: f32[N, N] c
      operation: c[i, j] += a[i, k] * b[k, j]
    }"""
    theirs, _ = forecast(parse(text).kernels[0], Target.of(hcd), {"N": 4096})
    assert theirs == pytest.approx(2 * 4096**3 / rate, rel=0.01)
