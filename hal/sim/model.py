"""Models described in a few lines, and the list of operators that one pass over them runs.

A model file is YAML with a `kind`: `transformer` (one layer, prefill or decode, tensor parallel),
`convolutions` (a list of layers as implicit products), `dlrm` (embeddings, two MLPs, their
interaction) or `operators` (the operators themselves). `expand` gives the operators.

Sources: transformer layer and its tensor parallelism: Shoeybi et al. 2019 (Megatron-LM);
convolution as a product: Chetlur et al. 2014 (cuDNN); DLRM: Naumov et al. 2019.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hal.errors import UsageError

_REQUIRED = object()


@dataclass(frozen=True)
class Step:
    """One operator of a model.

    Attributes:
        name: Its name in the model.
        op: Operator, as in a table.
        m, n, k, batch: Lengths of a product, or rows and columns of a vector operator.
        bytes: Message of a collective.
        devices: Chips of a collective.
        distinct: Share of the m x k elements of A that are different (convolutions reuse theirs).
        count: Times that it runs.
    """

    name: str
    op: str
    m: float = 0
    n: float = 0
    k: float = 0
    batch: float = 1
    bytes: float = 0
    devices: int = 1
    distinct: float = 1.0
    count: int = 1


@dataclass(frozen=True)
class Model:
    """A model ready to be timed: its name, element type and operators in order."""

    name: str
    dtype: str
    steps: tuple[Step, ...]


class _Fields:
    """Reads the keys of a model file; every wrong or unknown key is one clear error."""

    def __init__(self, data: Mapping[str, Any], call: str) -> None:
        self.data, self.call, self.known = data, call, {"kind", "name", "dtype", "description"}

    def integer(self, key: str, default: Any = _REQUIRED) -> int:
        """A positive integer."""
        self.known.add(key)
        value = self.data.get(key, default)
        if value is _REQUIRED:
            raise UsageError(f"the key {key!r} is missing", call=self.call)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"{key} is {value!r}; it must be an integer from 1", call=self.call)
        return value

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """One of some words; the first is the default."""
        self.known.add(key)
        value = self.data.get(key, allowed[0])
        if value not in allowed:
            known = ", ".join(allowed)
            raise UsageError(f"{key} is {value!r}; it must be one of {known}", call=self.call)
        return str(value)

    def rows(self, key: str, length: int) -> list[list[int]]:
        """A list of lists of integers, each of one length."""
        self.known.add(key)
        value = self.data.get(key)
        good = isinstance(value, list) and all(
            isinstance(row, list) and len(row) == length and all(isinstance(x, int) for x in row)
            for row in value
        )
        if not good:
            raise UsageError(f"{key} must be a list of lists of {length} integers", call=self.call)
        return [list(row) for row in value or []]

    def numbers(self, key: str) -> list[int]:
        """A list of positive integers, at least two."""
        self.known.add(key)
        value = self.data.get(key)
        if (
            not isinstance(value, list)
            or len(value) < 2
            or not all(isinstance(x, int) and x > 0 for x in value)
        ):
            raise UsageError(
                f"{key} must be a list of at least two integers from 1", call=self.call
            )
        return value

    def finish(self) -> None:
        """Refuse keys that nothing read."""
        odd = sorted(set(self.data) - self.known)
        if odd:
            raise UsageError(
                f"unknown keys {', '.join(odd)}; known are {', '.join(sorted(self.known))}",
                call=self.call,
            )


def shipped() -> dict[str, Path]:
    """Name and file of each model that comes with the SDK."""
    from hal import _paths

    return {path.stem: path for path in sorted(_paths.models_dir().glob("*.yaml"))}


def load(name: str, *, changes: Mapping[str, int] | None = None) -> Model:
    """Read a model file, or a shipped model by name.

    Args:
        name: A path, or a key of `shipped()`.
        changes: Keys of the file to replace, such as batch or tensor_parallel.

    Raises:
        UsageError: there is no such model, or its file is wrong; the message names the key.
    """
    import yaml

    path = shipped().get(name) or Path(name)
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        known = ", ".join(shipped())
        raise UsageError(
            f"cannot be read: {error.strerror}", call=name, next_step=f"Shipped models: {known}."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        text = str(error).splitlines()[0]
        raise UsageError(f"is not YAML: {text}", call=name) from None
    if not isinstance(data, dict):
        raise UsageError("holds no mapping", call=name)
    return expand({**data, **(changes or {})}, name)


def expand(data: Mapping[str, Any], call: str) -> Model:
    """Turn the keys of a model file into its operators."""
    kinds: dict[str, Callable[[_Fields], list[Step]]] = {
        "transformer": _transformer,
        "convolutions": _convolutions,
        "dlrm": _dlrm,
        "operators": _operators,
    }
    fields = _Fields(data, call)
    kind = data.get("kind")
    if kind not in kinds:
        raise UsageError(f"kind is {kind!r}; it must be one of {', '.join(kinds)}", call=call)
    steps = kinds[kind](fields)
    fields.finish()
    return Model(str(data.get("name", call)), str(data.get("dtype", "f16")), tuple(steps))


def _transformer(f: _Fields) -> list[Step]:
    """One layer, sharded over `tensor_parallel` chips: the operators of one of them."""
    hidden, heads = f.integer("hidden"), f.integer("heads")
    kv_heads = f.integer("kv_heads", heads)
    inner = f.integer("intermediate", 4 * hidden)
    batch, sequence = f.integer("batch", 1), f.integer("sequence", 2048)
    chips, layers = f.integer("tensor_parallel", 1), f.integer("layers", 1)
    phase = f.choice("phase", ("prefill", "decode"))
    activation = f.choice("activation", ("gelu", "silu_mul", "relu"))
    norm = f.choice("norm", ("layernorm", "rmsnorm"))
    if heads % chips or inner % chips or hidden % heads:
        raise UsageError(
            f"heads {heads} and intermediate {inner} must be multiples of tensor_parallel {chips}, "
            f"and hidden {hidden} of heads",
            call=f.call,
        )
    width = hidden // heads
    own, own_kv = heads // chips, max(1, kv_heads // chips)
    queries = sequence if phase == "prefill" else 1
    rows = batch * queries
    gates = 2 if activation == "silu_mul" else 1
    message = rows * hidden * 2
    steps = [
        Step("LayerNorm_MHA", norm, rows, hidden),
        Step("Q_K_V", "matmul", rows, width * (own + 2 * own_kv), hidden),
        *_attention(phase, batch, sequence, queries, own, own_kv, width),
        Step("Wo_proj", "matmul", rows, hidden, width * own),
        Step("AllReduce_MHA", "all_reduce", bytes=message, devices=chips),
        Step("LayerNorm_FFN", norm, rows, hidden),
        Step("W1_proj", "matmul", rows, gates * inner // chips, hidden),
        Step("Activation", activation, rows, inner // chips),
        Step("W2_proj", "matmul", rows, hidden, inner // chips),
        Step("AllReduce_FFN", "all_reduce", bytes=message, devices=chips),
    ]
    kept = [step for step in steps if step.op != "all_reduce" or chips > 1]
    return [replace(step, count=layers) for step in kept]


def _attention(
    phase: str, batch: int, sequence: int, queries: int, heads: int, kv_heads: int, width: int
) -> list[Step]:
    """Attention as three operators; query heads that share keys are rows of one product."""
    group = heads // kv_heads
    many, rows = (batch * heads, queries) if phase == "prefill" else (batch * kv_heads, group)
    return [
        Step("Q_mul_K", "bmm", rows, sequence, width, batch=many),
        Step("Softmax", "softmax", batch * heads * queries, sequence),
        Step("A_mul_V", "bmm", rows, width, sequence, batch=many),
    ]


def _convolutions(f: _Fields) -> list[Step]:
    """Rows of [input size, channels in, channels out, kernel, stride, times] and a last product."""
    batch = f.integer("batch", 1)
    steps = []
    for index, row in enumerate(f.rows("layers", 6)):
        size, before, after, kernel, stride, times = row
        out = -(-size // stride)
        distinct = min(1.0, stride * stride / (kernel * kernel))
        name = f"conv{index + 1}_{kernel}x{kernel}_{after}"
        rows = batch * out * out
        steps.append(
            Step(
                name,
                "matmul",
                rows,
                after,
                before * kernel * kernel,
                distinct=distinct,
                count=times,
            )
        )
        steps.append(Step(f"{name}_relu", "relu", rows, after, count=times))
    classes, features = f.integer("classes", 1000), f.integer("features")
    steps.append(Step("classifier", "matmul", batch, classes, features))
    return steps


def _dlrm(f: _Fields) -> list[Step]:
    """Embedding gathers beside a bottom MLP, pairwise interaction, a top MLP."""
    batch, tables, width = f.integer("batch"), f.integer("tables"), f.integer("width")
    pooled, chips = f.integer("lookups", 1), f.integer("devices", 1)
    bottom, top = f.numbers("bottom"), f.numbers("top")
    steps = _mlp("bottom", batch, bottom)
    own = -(-tables // chips)
    steps.append(Step("embedding", "gather", batch * chips * own * pooled, width))
    if chips > 1:
        size = batch * chips * own * width * 2
        steps.append(Step("exchange", "all_to_all", bytes=size, devices=chips))
    steps.append(Step("interaction", "bmm", tables + 1, tables + 1, width, batch=batch))
    pairs = (tables + 1) * tables // 2
    return steps + _mlp("top", batch, [bottom[-1] + pairs, *top])


def _mlp(name: str, batch: int, widths: list[int]) -> list[Step]:
    steps = []
    for index, (before, after) in enumerate(itertools.pairwise(widths)):
        steps.append(Step(f"{name}{index + 1}", "matmul", batch, after, before))
        steps.append(Step(f"{name}{index + 1}_relu", "relu", batch, after))
    return steps


def _operators(f: _Fields) -> list[Step]:
    """Operators written out: a list of mappings with the attributes of Step."""
    f.known.add("operators")
    rows = f.data.get("operators")
    allowed = set(Step.__dataclass_fields__)
    if not isinstance(rows, list) or not rows:
        raise UsageError("operators must be a list of mappings", call=f.call)
    steps = []
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or not set(row) <= allowed or "op" not in row:
            known = ", ".join(sorted(allowed))
            raise UsageError(f"operators[{index}] needs op, and may have {known}", call=f.call)
        for key, value in row.items():
            number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            if key not in ("op", "name") and not number:
                raise UsageError(
                    f"operators[{index}].{key} is {value!r}, not a positive number", call=f.call
                )
        steps.append(Step(**{"name": str(row["op"]), **row}))
    return steps
