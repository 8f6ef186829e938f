"""The peers that are installed here, each ready to be measured; the others by name only."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

COUNT = 64


@dataclass(frozen=True)
class Peer:
    """A peer's own way to enqueue the sum of 64 floats and to wait for it."""

    name: str
    launch: Callable[[], object]
    synchronize: Callable[[], object]


def module(name: str) -> ModuleType | None:
    """Import a peer, or return None when it is not installed or does not start here."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError):
        return None


def nothing() -> None:
    """Wait for a peer that does its work at once."""


def launch_peers() -> tuple[list[Peer], list[str]]:
    """Return the peers that can launch the small sum, and the names of those that are absent."""
    makers: dict[str, Callable[[Any], list[Peer]]] = {
        "numpy": numpy_peers,
        "torch": torch_peers,
        "onnxruntime": onnxruntime_peers,
        "pyopencl": opencl_peers,
        "jax": jax_peers,
    }
    peers: list[Peer] = []
    absent = []
    for name, make in makers.items():
        found = module(name)
        made = make(found) if found is not None else []
        peers += made
        if not made:
            absent.append(name)
    return peers, absent


def numpy_peers(np: Any) -> list[Peer]:
    """NumPy: a call that does the work before it returns."""
    a, b, out = (np.ones(COUNT, np.float32) for _ in range(3))
    return [Peer(f"numpy {np.__version__} add", lambda: np.add(a, b, out), nothing)]


def torch_peers(torch: Any) -> list[Peer]:
    """PyTorch, eager, one thread, into a tensor that is there."""
    torch.set_num_threads(1)
    a, b, out = (torch.ones(COUNT) for _ in range(3))

    def launch() -> None:
        torch.add(a, b, out=out)

    return [Peer(f"torch {torch.__version__} add", launch, nothing)]


def onnxruntime_peers(ort: Any) -> list[Peer]:
    """ONNX Runtime: a model of one Add with bound inputs; needs onnx to make the model."""
    onnx = module("onnx")
    if onnx is None:
        return []
    import numpy as np

    helper: Any = importlib.import_module("onnx.helper")
    values = [helper.make_tensor_value_info(name, 1, [COUNT]) for name in "abc"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"])], "add", values[:2], values[2:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for name in "ab":
        binding.bind_cpu_input(name, np.ones(COUNT, np.float32))
    binding.bind_output("c")
    name = f"onnxruntime {ort.__version__} run_with_iobinding"
    return [Peer(name, lambda: session.run_with_iobinding(binding), nothing)]


def opencl_peers(cl: Any) -> list[Peer]:
    """Each OpenCL platform of this machine, with the arguments set beforehand."""
    import numpy as np

    peers = []
    source = (
        "__kernel void add(__global const float *a, __global const float *b, __global float *c)"
    )
    source += "{ int i = get_global_id(0); c[i] = a[i] + b[i]; }"
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return []
    for platform in platforms:
        context = cl.Context(platform.get_devices()[:1])
        queue = cl.CommandQueue(context)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(context, flags, hostbuf=np.ones(COUNT, np.float32)) for _ in range(3)]
        kernel = cl.Kernel(cl.Program(context, source).build(), "add")
        kernel.set_args(*buffers)

        def launch(queue: Any = queue, kernel: Any = kernel, _kept: Any = buffers) -> None:
            cl.enqueue_nd_range_kernel(queue, kernel, (COUNT,), (COUNT,))

        peers.append(Peer(f"OpenCL {platform.name}", launch, queue.finish))
    return peers


def jax_peers(jax: Any) -> list[Peer]:
    """JAX: a compiled sum."""
    numpy = importlib.import_module("jax.numpy")
    a, b = numpy.ones(COUNT), numpy.ones(COUNT)
    add = jax.jit(lambda x, y: x + y).lower(a, b).compile()
    last = [add(a, b)]

    def launch() -> None:
        last[0] = add(a, b)

    return [Peer(f"jax {jax.__version__} compiled", launch, lambda: last[0].block_until_ready())]
