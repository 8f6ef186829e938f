"""Kinds of chips: what a new port's folder says differently for an NPU, a GPU and processors."""

from __future__ import annotations

__all__ = ["KINDS"]

KINDS = tuple("npu gpu cpu".split())
"""The kinds; the first is the default. vendors/template/kinds.yaml has their words."""
