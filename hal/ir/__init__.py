"""The tensor IR: kernels as index expressions over arrays. docs/ir.md is its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hal.ir.binding import bind
from hal.ir.errors import IrError, IrTextError, IrValueError
from hal.ir.nodes import (
    Access,
    Array,
    Assign,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Kernel,
    Let,
    LetRef,
    NamedCall,
    ParamRef,
    Scalar,
    ScalarRef,
    Schedule,
    Span,
)
from hal.ir.parse import parse
from hal.ir.program import Program
from hal.ir.show import show
from hal.ir.verify import Problem, check, verify

if TYPE_CHECKING:
    from hal.ir.evaluator import evaluate

__all__ = [
    "Access",
    "Array",
    "Assign",
    "Call",
    "Cast",
    "Const",
    "Expr",
    "Extent",
    "Index",
    "IrError",
    "IrTextError",
    "IrValueError",
    "Kernel",
    "Let",
    "LetRef",
    "NamedCall",
    "ParamRef",
    "Problem",
    "Program",
    "Scalar",
    "ScalarRef",
    "Schedule",
    "Span",
    "bind",
    "check",
    "evaluate",
    "parse",
    "show",
    "verify",
]


def __getattr__(name: str) -> Any:
    """The evaluator is imported when it is asked for: NumPy stays out until then."""
    if name == "evaluate":
        import importlib

        return importlib.import_module("hal.ir.evaluator").evaluate
    raise AttributeError(f"module 'hal.ir' has no attribute {name!r}")
