"""Kernels beside the peers' own: an elementwise chain, softmax, layernorm and attention."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from bench.iree_peer import iree_call
from bench.limits import limits
from bench.measure import Contender, Figure, per_call, settled
from bench.peers import module

SIDE = 4096
HEADS, LENGTH, WIDTH = 8, 1024, 64
ROUNDS = 7
Calls = dict[str, Callable[[], object]]


def figures() -> Iterator[Figure]:
    """Each kernel with one thread and with two."""
    for threads in (1, 2):
        for name, goal in (
            ("relu(2x+1)", "at most 1.15 x the C loop"),
            ("softmax", "at least as fast as the best peer"),
            ("layernorm", "at least as fast as the best peer"),
            ("attention", "at least as fast as torch"),
        ):
            yield figure(name, threads, goal)


def figure(name: str, threads: int, goal: str) -> Figure:
    """One kernel: ours, the peers that are here, and the C loop where there is one."""
    arrays = inputs(name)
    peers, absent = peer_calls(name, threads, arrays)
    limit = chain_limit(arrays[0]) if name.startswith("relu") and threads == 1 else None
    shape = f"{HEADS} x {LENGTH} x {WIDTH}" if name == "attention" else f"{SIDE}²"
    return Figure(
        f"{name} {shape} f32, {threads} thread{'s' if threads > 1 else ''}",
        "ms",
        contender("hal", ours(name, threads, arrays)),
        [contender(peer, call) for peer, call in peers.items()],
        limit,
        absent,
        goal=goal,
        rounds=ROUNDS,
    )


def contender(name: str, call: Callable[[], object]) -> Contender:
    """Something that runs the kernel once a call."""
    return Contender(name, settled(call, per_call(call, "ms", count=1)))


@cache
def inputs(name: str) -> tuple[np.ndarray[Any, Any], ...]:
    """The arguments of a kernel."""
    rng = np.random.default_rng(0)
    if name == "attention":
        shape = (1, HEADS, LENGTH, WIDTH)
        return tuple(rng.standard_normal(shape, dtype=np.float32) for _ in range(3))
    return (rng.standard_normal((SIDE, SIDE), dtype=np.float32),)


@cache
def device(threads: int) -> Any:
    """The device under test with this many threads."""
    import hal

    name = os.environ.get("HAL_BENCH_DEVICE", "cpu:0").partition(":")[0]
    return hal.load_port(name, options={"threads": str(threads)}).device(0)


def ours(name: str, threads: int, arrays: tuple[np.ndarray[Any, Any], ...]) -> Callable[[], object]:
    """Our kernel, written as a user writes it, launched and waited for."""
    import hal

    bodies: dict[str, Callable[..., Any]] = {
        "relu(2x+1)": lambda x: hal.relu(x * 2.0 + 1.0),
        "softmax": lambda x: hal.softmax(x),
        "layernorm": lambda x: hal.layer_norm(x),
        "attention": lambda q, k, v: hal.attention(q, k, v),
    }
    function = hal.kernel(name="kernel")(bodies[name])
    chip = device(threads)
    given = [chip.array(array) for array in arrays]
    out = chip.empty(arrays[0].shape, "f32")
    stream = chip.stream()

    def call() -> None:
        function(*given, out=out, stream=stream)
        stream.synchronize()

    call()
    check(name, "hal", out.numpy(stream=stream), arrays)
    return call


def check(name: str, who: str, result: Any, arrays: tuple[np.ndarray[Any, Any], ...]) -> None:
    """Refuse a result that is not NumPy's."""
    wanted = references(arrays)[name]()
    if result.shape != wanted.shape or not np.abs(result - wanted).max() < 1e-4:
        raise RuntimeError(f"{name} by {who} is wrong")


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """By NumPy."""
    e = np.exp(x - x.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


def layernorm(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """By NumPy."""
    centred = x - x.mean(-1, keepdims=True)
    spread = (centred * centred).mean(-1, keepdims=True)
    result: np.ndarray[Any, Any] = centred / np.sqrt(spread + np.float32(1e-5))
    return result


def references(arrays: tuple[np.ndarray[Any, Any], ...]) -> dict[str, Callable[[], Any]]:
    """Each kernel by NumPy."""
    x, rest = arrays[0], arrays[1:]

    def attention() -> Any:
        k, v = rest
        return softmax(x @ k.swapaxes(-1, -2) / np.float32(WIDTH**0.5)) @ v

    def chain() -> Any:
        out = np.multiply(x, 2)
        np.add(out, 1, out=out)
        return np.maximum(out, 0, out=out)

    return {
        "relu(2x+1)": chain,
        "softmax": lambda: softmax(x),
        "layernorm": lambda: layernorm(x),
        "attention": attention,
    }


def peer_calls(
    name: str, threads: int, arrays: tuple[np.ndarray[Any, Any], ...]
) -> tuple[Calls, list[str]]:
    """Each installed peer's call by name, and the peers that are absent."""
    calls: Calls = {}
    absent = []
    if threads == 1:
        calls[f"numpy {np.__version__}"] = references(arrays)[name]
    torch, runtime = module("torch"), module("onnxruntime")
    if torch is None:
        absent.append("torch")
    else:
        calls[f"torch {torch.__version__}"] = torch_call(torch, name, threads, arrays)
    if runtime is None or module("onnx") is None:
        absent.append("onnxruntime")
    else:
        calls[f"onnxruntime {runtime.__version__}"] = onnx_call(runtime, name, threads, arrays)
    if module("iree.runtime") is None or module("iree.compiler") is None:
        absent.append("iree")
    else:
        peer = f"iree {version('iree-base-runtime')}"
        calls[peer] = call = iree_call(name, threads, arrays)
        check(name, peer, call().to_host(), arrays)
    return calls, absent


def torch_call(
    torch: Any, name: str, threads: int, arrays: tuple[np.ndarray[Any, Any], ...]
) -> Callable[[], object]:
    """PyTorch's fastest eager form, into a warm buffer where it takes one."""
    given = [torch.from_numpy(array) for array in arrays]
    out = torch.zeros_like(given[0])
    functional = torch.nn.functional

    def chain() -> None:
        torch.mul(given[0], 2, out=out)
        out.add_(1)
        out.relu_()

    bodies: dict[str, Callable[[], object]] = {
        "relu(2x+1)": chain,
        "softmax": lambda: torch._softmax(given[0], -1, False, out=out),
        "layernorm": lambda: functional.layer_norm(given[0], (SIDE,)),
        "attention": lambda: functional.scaled_dot_product_attention(*given),
    }

    def call() -> object:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            return bodies[name]()

    return call


def onnx_nodes(name: str) -> tuple[Any, list[Any], list[Any]]:
    """The module onnx.helper, and a kernel as nodes and constants of ONNX."""
    import importlib

    make: Any = importlib.import_module("onnx.helper")

    def constant(label: str, value: Any) -> Any:
        flat = np.asarray(value, np.float32)
        return make.make_tensor(label, 1, flat.shape, flat.ravel().tolist())

    node = make.make_node
    nodes, constants = {
        "relu(2x+1)": (
            [
                node("Mul", ["x0", "two"], ["a"]),
                node("Add", ["a", "one"], ["b"]),
                node("Relu", ["b"], ["y"]),
            ],
            [constant("two", 2), constant("one", 1)],
        ),
        "softmax": ([node("Softmax", ["x0"], ["y"], axis=-1)], []),
        "layernorm": (
            [node("LayerNormalization", ["x0", "s", "b"], ["y"], axis=-1)],
            [constant("s", np.ones(SIDE)), constant("b", np.zeros(SIDE))],
        ),
        "attention": (
            [
                node("Transpose", ["x1"], ["t"], perm=[0, 1, 3, 2]),
                node("MatMul", ["x0", "t"], ["a"]),
                node("Div", ["a", "c"], ["b"]),
                node("Softmax", ["b"], ["p"], axis=-1),
                node("MatMul", ["p", "x2"], ["y"]),
            ],
            [constant("c", WIDTH**0.5)],
        ),
    }[name]
    return make, nodes, constants


def onnx_call(
    runtime: Any, name: str, threads: int, arrays: tuple[np.ndarray[Any, Any], ...]
) -> Callable[[], object]:
    """ONNX Runtime with bound inputs and output."""
    make, nodes, constants = onnx_nodes(name)
    value = make.make_tensor_value_info
    names = [f"x{number}" for number in range(len(arrays))]
    graph = make.make_graph(
        nodes,
        "g",
        [value(label, 1, array.shape) for label, array in zip(names, arrays, strict=True)],
        [value("y", 1, arrays[0].shape)],
        constants,
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding, out = session.io_binding(), np.empty_like(arrays[0])
    for label, array in zip(names, arrays, strict=True):
        binding.bind_cpu_input(label, array)
    binding.bind_output("y", "cpu", 0, np.float32, out.shape, out.ctypes.data)

    def call(_kept: Any = out) -> None:
        session.run_with_iobinding(binding)

    return call


def chain_limit(x: np.ndarray[Any, Any]) -> Contender:
    """One pass in C with non-temporal stores."""
    floor = limits()
    raw = np.empty(x.size + 16, np.float32)
    out = raw[(-raw.ctypes.data // 4) % 16 :][: x.size]
    source, target = (floor.ffi.from_buffer("float[]", each.reshape(-1)) for each in (x, out))
    chain = floor.lib.limit_chain
    return contender("C loop", lambda: chain(target, source, x.size))
