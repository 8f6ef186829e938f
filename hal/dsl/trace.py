"""Traces a function once for a class of shapes."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hal import dtypes
from hal.dsl.build import kernel_of
from hal.dsl.dim import Dim, Length, Note, expr_of
from hal.dsl.tensor import Place, Scope, Tensor
from hal.dtypes import DType
from hal.errors import UsageError
from hal.ir.analysis import value_of
from hal.ir.nodes import Expr, Kernel

__all__ = ["Spec", "Trace", "is_tracing", "leaves", "spec", "trace"]

_STATE = threading.local()
NO_UFUNC = "__array_ufunc__"
"""What NumPy's refusal of a tensor names."""

RESERVED = re.compile(r"^(out\d*|[tirn]\d+)$")


def is_tracing() -> bool:
    """Whether this thread is tracing a function."""
    return getattr(_STATE, "depth", 0) > 0


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape and dtype of an array that need not exist."""

    shape: tuple[int, ...]
    dtype: DType


def spec(shape: Sequence[int], dtype: Any = "f32") -> Spec:
    """Stands for an array where only its shape and dtype matter: `f.ir(hal.spec((4, 8)))`."""
    from hal.dsl.tensor import named_dtype

    return Spec(tuple(shape), named_dtype("hal.spec", dtype))


def described(item: Any) -> Spec | None:
    """Shape and dtype of an array of a device or of NumPy; None for anything else."""
    if isinstance(item, Spec):
        return item
    shape, dtype = getattr(item, "shape", None), getattr(item, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        return None
    if isinstance(dtype, DType):
        return Spec(shape, dtype)
    try:
        return None if scalar_dtype(item) else Spec(shape, dtypes.from_numpy(dtype))
    except KeyError:
        raise UsageError(
            f"arrays of {dtype} have no dtype here", call="hal.kernel", next_step="Convert it."
        ) from None


def scalar_dtype(item: Any) -> DType | None:
    """Type of a scalar input: a float, or a NumPy scalar; None for anything else."""
    if type(item) is float:
        return dtypes.f32
    kind = getattr(getattr(item, "dtype", None), "kind", "")
    if getattr(item, "shape", None) != () or type(item).__module__ != "numpy":
        return None
    if type(item).__name__ == "ndarray":
        return None
    wide = item.dtype.itemsize > 4
    if kind == "f":
        return dtypes.f64 if wide else dtypes.f32
    return (dtypes.i64 if wide else dtypes.i32) if kind in "iu" else None


Path = tuple[str | int, ...]


def leaves(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Each argument with its place; lists and tuples are entered where they hold arrays."""

    def enter(path: Path, item: Any) -> Iterator[tuple[Path, Any]]:
        if isinstance(item, list | tuple) and not isinstance(item, Spec):
            for position, part in enumerate(item):
                yield from enter((*path, position), part)
        else:
            yield path, item

    for position, item in enumerate(arguments):
        yield from enter((position,), item)
    for name, item in keywords.items():
        yield from enter((name,), item)


def _key_of(item: Any) -> Any:
    try:
        hash(item)
    except TypeError:
        raise UsageError(
            f"a {type(item).__name__} cannot be an argument",
            call="hal.kernel",
            next_step="Give arrays, numbers, strings, or tuples of them.",
        ) from None
    return (type(item), item)


@dataclass(frozen=True, eq=False)
class Trace:
    """What a function became for a class of shapes.

    Attributes:
        kernel: The kernel of the tensor IR: inputs in the order of `arrays`, then the outputs,
            scalars in the order of `scalars`.
        arrays, scalars: Places of the arrays and scalars among the arguments.
        notes: What must be the same for the trace to serve other shapes.
        shapes: Extents of the outputs, as expressions over the params.
        dtypes: Of the outputs.
        single: Whether the function returns one tensor rather than a tuple.
    """

    kernel: Kernel
    arrays: tuple[Path, ...]
    scalars: tuple[Path, ...]
    notes: tuple[Note, ...]
    shapes: tuple[tuple[Expr, ...], ...]
    dtypes: tuple[DType, ...]
    single: bool

    def fits(self, params: Mapping[str, int]) -> bool:
        """Whether it serves these lengths."""
        return all(note.holds(params) for note in self.notes)

    def params(self, params: Mapping[str, int]) -> tuple[int, ...]:
        """Values of the kernel's params, in its order."""
        return tuple(params[name] for name in self.kernel.params)

    def output_shapes(self, params: Mapping[str, int]) -> list[tuple[int, ...]]:
        """Shapes of the outputs."""
        return [tuple(value_of(e, params) for e in shape) for shape in self.shapes]

    def bound(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, int], dict[str, float]]:
        """Inputs, params and scalars of the kernel by name, from NumPy arrays and numbers."""
        import numpy as np

        named = keywords or {}
        found = dict(leaves(arguments, named))
        inputs = [a.name for a in self.kernel.arrays_of("input")]
        arrays = {n: np.asarray(found[p]) for n, p in zip(inputs, self.arrays, strict=True)}
        scalars = {s.name: found[p] for s, p in zip(self.kernel.scalars, self.scalars, strict=True)}
        params, _ = lengths(arguments, named)
        return arrays, {name: params[name] for name in self.kernel.params}, scalars

    def evaluate(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The result by the evaluator of the tensor IR, from NumPy arrays."""
        from hal.ir import evaluate

        results = evaluate(self.kernel, *self.bound(arguments, keywords))
        outputs = tuple(results[a.name] for a in self.kernel.arrays_of("output"))
        return outputs[0] if self.single else outputs


def lengths(
    arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[dict[str, int], tuple[Any, ...]]:
    """The params of the arguments' shapes with their values, and the key of the class.

    Lengths 0 and 1 are constants, since broadcasting and bounds hang on them; equal lengths are one
    param.
    """
    params: dict[str, int] = {}
    names: dict[int, str] = {}
    key: list[Any] = []
    for path, item in leaves(arguments, keywords):
        array = described(item)
        if array is not None:
            axes = []
            for length in array.shape:
                if length > 1:
                    name = names.setdefault(length, f"n{len(names)}")
                    params[name] = length
                    axes.append(name)
                else:
                    axes.append(str(length))
            key += (path, array.dtype.name, *axes)
            continue
        scalar = scalar_dtype(item)
        key += (path, scalar.name if scalar else _key_of(item))
    return params, tuple(key)


def trace(
    name: str,
    body: Callable[..., Any],
    known: dict[tuple[Any, ...], list[Trace]],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Trace:
    """A trace that serves the arguments: one of `known`, or a new one, which is added."""
    params, key = lengths(arguments, keywords)
    for old in known.setdefault(key, []):
        if old.fits(params):
            return old
    new = _Tracer(name, body, params).run(arguments, keywords)
    known[key].append(new)
    return new


def _of_numpy(error: TypeError) -> UsageError:
    """What NumPy says of a tensor, with the line that called it and the way out."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    assert step is not None
    place = Place(step.tb_frame.f_code.co_filename, step.tb_lineno)
    return UsageError(
        f"a function of NumPy takes no tensor of a kernel ({place})",
        call="numpy",
        next_step="Use hal's of the same name, as hal.exp for numpy.exp.",
    )


class _Tracer:
    """One run of a function on tensors."""

    def __init__(self, name: str, body: Callable[..., Any], params: Mapping[str, int]) -> None:
        self.name, self.body = name, body
        self.scope = Scope()
        self.names = {value: key for key, value in params.items()}
        self.inputs: list[Tensor] = []
        self.arrays: list[Path] = []
        self.scalars: list[Path] = []

    def run(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Trace:
        """Traces the function and builds its kernel."""
        self._parameter_names = self._signature(arguments, keywords)
        positional = [self._wrap((n,), item) for n, item in enumerate(arguments)]
        named = {key: self._wrap((key,), item) for key, item in keywords.items()}
        _STATE.depth = getattr(_STATE, "depth", 0) + 1
        try:
            result = self.body(*positional, **named)
        except TypeError as error:
            if NO_UFUNC not in str(error):
                raise
            raise _of_numpy(error) from error
        finally:
            _STATE.depth -= 1
        outputs = result if isinstance(result, tuple | list) else (result,)
        for item in outputs:
            if not isinstance(item, Tensor):
                raise UsageError(
                    f"{self.name} returns {type(item).__name__}; a tensor or a tuple of them is "
                    "needed",
                    call="hal.kernel",
                )
        strong = [item + 0 if item.is_weak else item for item in outputs]
        return Trace(
            kernel_of(self.name, self.inputs, strong),
            tuple(self.arrays),
            tuple(self.scalars),
            tuple(self.scope.notes.all),
            tuple(tuple(map(expr_of, item.shape)) for item in strong),
            tuple(item.dtype for item in strong),
            not isinstance(result, tuple | list),
        )

    def _signature(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> dict[str | int, str]:
        """Names of the parameters, by position and by keyword."""
        try:
            bound = inspect.signature(self.body).bind(*arguments, **keywords)
        except TypeError as error:
            raise UsageError(f"{self.name}: {error}", call="hal.kernel") from None
        found: dict[str | int, str] = {key: key for key in keywords}
        position = 0
        for name, item in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                for number in range(len(item)):
                    found[position + number] = f"{name}_{number}"
                position += len(item)
            elif name not in keywords and position < len(arguments):
                found[position] = name
                position += 1
        return found

    def _wrap(self, path: Path, item: Any) -> Any:
        if isinstance(item, list | tuple):
            return type(item)(self._wrap((*path, n), part) for n, part in enumerate(item))
        name = "_".join([self._parameter_names[path[0]], *map(str, path[1:])])
        if RESERVED.match(name):
            name = f"{name}_"
        array = described(item)
        if array is not None:
            shape: list[Length] = [
                Dim.of_param(self.names[n], n, self.scope.notes) if n > 1 else n
                for n in array.shape
            ]
            self.arrays.append(path)
            return self._input(Tensor(self.scope, shape, array.dtype, name=name, is_view=True))
        scalar = scalar_dtype(item)
        if scalar is None:
            return item
        self.scalars.append(path)
        return self._input(Tensor(self.scope, (), scalar, name=name, is_view=True, is_weak=True))

    def _input(self, tensor: Tensor) -> Tensor:
        self.inputs.append(tensor)
        return tensor
