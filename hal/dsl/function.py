"""Functions that are traced: `@hal.kernel` and `@hal.operator`.

Called with arrays of a device, a function is traced to the tensor IR, compiled for the device and
launched; called inside of another trace it becomes a part of that. The second call with the same
shapes is a dictionary look-up and a launch; other shapes of the same class (hal.dsl.dim) compile
nothing either.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from hal.array.array import Array
from hal.dsl.call import Bound, ready
from hal.dsl.tensor import METHODS
from hal.dsl.trace import Trace, is_tracing, trace
from hal.errors import UsageError

if TYPE_CHECKING:
    from hal.ir.nodes import Kernel
    from hal.stream import Stream

__all__ = ["OPERATORS", "Function", "kernel", "operator"]

Body = Callable[..., Any]
OPERATORS: dict[str, Function] = {}
"""Name -> operator: the library that `hal.operator` adds to."""


class Function:
    """A Python function that runs on devices.

    Attributes:
        name: Of the kernel: the function's, without what the tensor IR does not take.
        body: The Python function.
        domain: Of an operator, as `linear_algebra`; empty for a kernel.
    """

    def __init__(self, body: Callable[..., Any], name: str, domain: str = "") -> None:
        self.body, self.domain = body, domain
        self.name = re.sub(r"\W", "", name, flags=re.ASCII).lstrip("0123456789")[:63] or "kernel"
        self._bound: dict[tuple[Any, ...], Bound] = {}
        self._traces: dict[tuple[Any, ...], list[Trace]] = {}
        functools.update_wrapper(self, body)

    def __repr__(self) -> str:
        return f"<hal function {self.name}>"

    def __call__(
        self, *arguments: Any, out: Any = None, stream: Stream | None = None, **keywords: Any
    ) -> Any:
        """Run it, or become part of the function that is being traced.

        Args:
            arguments, keywords: Arrays; floats and NumPy scalars, which are read at each launch;
                anything else is a part of the kernel.
            out: An array, or a tuple of them, for the results; new ones by default.
            stream: Where to enqueue; the device's default stream by default.

        Returns:
            What the function returns, with arrays for its tensors. It may not be computed yet.

        Raises:
            UsageError: a use that can never work, with the line of the function.
        """
        if is_tracing():
            return self.body(*arguments, **keywords)
        key: list[Any] = []
        for item in arguments:
            if type(item) is Array:
                key += (item.shape, item.dtype.number, item.device)
            elif type(item) is float:
                key.append(float)
            else:
                key.append(item)
        try:
            bound = self._bound.get(tuple(key)) if not keywords else None
        except TypeError:  # a list, or a NumPy array
            return self._slowly(None, arguments, keywords, out, stream)
        if bound is None:
            return self._slowly(tuple(key), arguments, keywords, out, stream)
        return bound.run(arguments, out, stream)

    def _slowly(
        self,
        key: tuple[Any, ...] | None,
        arguments: tuple[Any, ...],
        keywords: Mapping[str, Any],
        out: Any,
        stream: Stream | None,
    ) -> Any:
        bound = ready(self.name, self.trace, arguments, keywords)
        simple = key is not None and not keywords
        if simple and all(isinstance(a, Array | float) or _is_static(a) for a in arguments):
            self._bound[key] = bound  # type: ignore[index]
        return bound.run_call(arguments, keywords, out, stream)

    def trace(self, *arguments: Any, **keywords: Any) -> Trace:
        """The trace that serves these arguments; arrays of devices, of NumPy, or `hal.spec`."""
        return trace(self.name, self.body, self._traces, arguments, keywords)

    def ir(self, *arguments: Any, **keywords: Any) -> Kernel:
        """The kernel of the tensor IR for these arguments."""
        return self.trace(*arguments, **keywords).kernel

    def reference(self, *arguments: Any, **keywords: Any) -> Any:
        """The result by the NumPy evaluator of the tensor IR, from NumPy arrays: the definition."""
        return self.trace(*arguments, **keywords).evaluate(arguments, keywords)

    def clear(self) -> None:
        """Forget all traces and compiled kernels."""
        self._bound.clear()
        self._traces.clear()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _is_static(item: Any) -> bool:
    return item is None or type(item) in (int, bool, str, tuple)


@overload
def kernel(body: Body) -> Function: ...
@overload
def kernel(*, name: str) -> Callable[[Body], Function]: ...
def kernel(body: Body | None = None, *, name: str = "") -> Function | Callable[[Body], Function]:
    """Makes a function of arrays a kernel: `@hal.kernel`.

    The body uses NumPy's operators and the functions of `hal` on tensors. Python's `if` and `for`
    run while it is traced; they see shapes and keywords, never elements.
    """
    if body is None:
        return lambda real: Function(real, name or real.__name__)
    return Function(body, body.__name__)


def operator(
    body: None = None, /, *, name: str = "", domain: str = ""
) -> Callable[[Body], Function]:
    """As `kernel`, and adds it to the operator library: `@hal.operator(domain="activation")`.

    Raises:
        UsageError: the library has an operator of that name, or the name is no name of Python.
    """
    if body is not None or not domain:
        raise UsageError(
            "an operator needs the domain in which it is listed",
            call="hal.operator",
            next_step='Write @hal.operator(domain="activation") above the function.',
        )

    def add(body: Body) -> Function:
        function = Function(body, name or body.__name__, domain)
        if name and not name.isidentifier():
            raise UsageError(
                f"{name!r} cannot name an operator",
                call="hal.operator",
                next_step="Give a name of Python: letters, digits and underscores.",
            )
        if function.name in OPERATORS:
            raise UsageError(
                f"there is an operator '{function.name}' of the domain "
                f"{OPERATORS[function.name].domain}",
                call="hal.operator",
                next_step="Choose another name.",
            )
        OPERATORS[function.name] = METHODS[function.name] = function
        return function

    return add
