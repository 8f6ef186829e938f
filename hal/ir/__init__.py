"""The tensor IR: kernels as index expressions over arrays. docs/ir.md is its page."""

from __future__ import annotations

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
    "Kernel",
    "Let",
    "LetRef",
    "NamedCall",
    "ParamRef",
    "Scalar",
    "ScalarRef",
    "Schedule",
    "Span",
]
