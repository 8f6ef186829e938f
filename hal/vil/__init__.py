"""VIL, the Virtual Instruction Layer: portable tile programs (docs/vil.md is the specification).

module = hal.vil.parse(text)             # or a hal.vil.Builder, or hal.vil.decode(image)
problems = hal.vil.validate(module)      # empty list: every port must run it
image = hal.vil.encode(module)           # what module.load("vil.v1", image) takes
outputs = hal.vil.evaluate(module, "matmul", {"A": a, "B": b, "C": c, "M": 64, …})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_HOME = {
    "Builder": "builder",
    "Const": "expressions",
    "Expr": "expressions",
    "Module": "module",
    "Kernel": "model",
    "Program": "model",
    "Problem": "problems",
    "Symbol": "expressions",
    "VilBinaryError": "errors",
    "VilError": "errors",
    "VilFault": "errors",
    "VilRefused": "errors",
    "VilTextError": "errors",
    "ceil_div": "expressions",
    "decode": "binary_reader",
    "decode_envelope": "binary_reader",
    "decode_signature": "binary_reader",
    "encode": "binary_writer",
    "encode_envelope": "binary_writer",
    "evaluate": "evaluator",
    "floor_div": "expressions",
    "maximum": "expressions",
    "minimum": "expressions",
    "parse": "text_module",
    "print_module": "text_writer",
    "required_features": "features",
    "validate": "validator",
}
__all__ = [
    "Builder",
    "Const",
    "Expr",
    "Kernel",
    "Module",
    "Problem",
    "Program",
    "Symbol",
    "VilBinaryError",
    "VilError",
    "VilFault",
    "VilRefused",
    "VilTextError",
    "ceil_div",
    "decode",
    "decode_envelope",
    "decode_signature",
    "encode",
    "encode_envelope",
    "evaluate",
    "floor_div",
    "maximum",
    "minimum",
    "parse",
    "print_module",
    "required_features",
    "validate",
]


def __getattr__(name: str) -> Any:
    """Loads the module behind a public name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"hal.vil has no {name}")
    from importlib import import_module

    return getattr(import_module(f"hal.vil.{_HOME[name]}"), name)


if TYPE_CHECKING:
    from hal.vil.binary_reader import decode, decode_envelope, decode_signature
    from hal.vil.binary_writer import encode, encode_envelope
    from hal.vil.builder import Builder
    from hal.vil.errors import VilBinaryError, VilError, VilFault, VilRefused, VilTextError
    from hal.vil.evaluator import evaluate
    from hal.vil.expressions import (
        Const,
        Expr,
        Symbol,
        ceil_div,
        floor_div,
        maximum,
        minimum,
    )
    from hal.vil.features import required_features
    from hal.vil.model import Kernel, Program
    from hal.vil.module import Module
    from hal.vil.problems import Problem
    from hal.vil.text_module import parse
    from hal.vil.text_writer import print_module
    from hal.vil.validator import validate
