"""HAL: one interface to every accelerator, and a certificate that says what works.

import hal

device = hal.open("acme:0")              # or hal.load_port(path).device(0)
stream = device.stream()
x = device.array(values)                 # NumPy in
module = device.load(hal.vil.parse(text))
module["relu"].launch(stream, x, y, x.size)
print(y.numpy())                         # waits, and NumPy out

Nothing is loaded before it is used: `import hal` alone costs a millisecond.
"""

from __future__ import annotations

TYPE_CHECKING = False  # The module typing would cost more than all the rest of `import hal`.

__version__ = "0.1.0"

_HOME = {
    "Array": "hal.array.array",
    "Buffer": "hal.memory.region",
    "Device": "hal.device",
    "Event": "hal.event",
    "Graph": "hal.graph",
    "Kernel": "hal.launch",
    "Module": "hal.module",
    "PinnedMemory": "hal.memory.pinned",
    "Port": "hal.device",
    "PortRecord": "hal.loading",
    "Stream": "hal.stream",
    "View": "hal.memory.region",
    "explain": "hal.codegen.explain",
    "kernel": "hal.dsl",
    "load_port": "hal.loading",
    "open": "hal.loading:open_device",
    "operator": "hal.dsl",
    "ports": "hal.loading",
    "spec": "hal.dsl",
}
"""Name and the module that has it, perhaps under another name."""

_MODULES = frozenset({"codegen", "collective", "dsl", "dtypes", "errors", "hcd", "ir", "testing"})
_MODULES |= {"tune", "vil"}

_OPERATORS = frozenset(
    """
    abs adamw add all any argmax argmin argsort astype attention avg_pool2d batch_norm
    bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    broadcast_to causal_mask ceil clip concat conv1d conv2d cos cross_entropy cumulative_prod
    cumulative_sum divide dropout elu embedding equal erf exp exp2 expand_dims flip floor
    floor_divide fmod full_like gelu getitem greater greater_equal isinf isnan layer_norm
    leaky_relu less less_equal linear log log2 log_softmax logical_and logical_not logical_or
    logical_xor matmul matrix_transpose max max_pool2d maximum mean min minimum multiply
    negative not_equal one_hot ones_like pad permute_dims pow prod random_uniform reciprocal
    relu remainder reshape rms_norm round rsqrt scatter_add sigmoid sign silu sin softmax sort
    split sqrt square squeeze stack std subtract sum take take_along_axis tanh topk tril triu
    trunc var where zeros_like
    """.split()
)
"""Operators of hal.dsl, which are attributes here too: `hal.matmul(a, b)`."""

__all__ = ["__version__", *sorted(_MODULES), *sorted(_HOME)]


def __getattr__(name: str) -> object:
    """Import what a name stands for when it is first used."""
    import importlib

    if name in _HOME:
        module, _, attribute = _HOME[name].partition(":")
        value: object = getattr(importlib.import_module(module), attribute or name)
    elif name in _MODULES:
        value = importlib.import_module(f"hal.{name}")
    elif name in _OPERATORS:
        value = importlib.import_module("hal.dsl").OPERATORS[name]
    else:
        import difflib

        near = difflib.get_close_matches(name, sorted({*__all__, *_OPERATORS}), n=1)
        hint = f"; did you mean hal.{near[0]}?" if near and not name.startswith("_") else ""
        raise AttributeError(f"module 'hal' has no attribute '{name}'{hint}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_OPERATORS})


if TYPE_CHECKING:  # "X as X" is how a facade says that X is its own.
    from hal import collective as collective
    from hal import dtypes as dtypes
    from hal import errors as errors
    from hal import hcd as hcd
    from hal import vil as vil
    from hal.array.array import Array as Array
    from hal.device import Device as Device
    from hal.device import Port as Port
    from hal.event import Event as Event
    from hal.graph import Graph as Graph
    from hal.launch import Kernel as Kernel
    from hal.loading import PortRecord as PortRecord
    from hal.loading import load_port as load_port
    from hal.loading import open_device
    from hal.loading import ports as ports
    from hal.memory.pinned import PinnedMemory as PinnedMemory
    from hal.memory.region import Buffer as Buffer
    from hal.memory.region import View as View
    from hal.module import Module as Module
    from hal.stream import Stream as Stream

    open = open_device  # noqa: A001
