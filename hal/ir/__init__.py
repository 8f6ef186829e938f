"""The tensor IR: kernels as index expressions over arrays. docs/ir.md is its page."""

from __future__ import annotations

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
from hal.ir.parse import Program, parse
from hal.ir.show import show

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
    "Program",
    "Scalar",
    "ScalarRef",
    "Schedule",
    "Span",
    "parse",
    "show",
]
