"""Statements that follow a product and can be computed on its sums before they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hal.codegen import symbolic
from hal.codegen.product_match import Product
from hal.ir.analysis import index_extents, indices_of
from hal.ir.nodes import Access, Assign, Call, Expr, Index, Kernel, NamedCall, transform, walk

__all__ = ["Epilogue", "find", "operations_of"]

MAX_STATEMENTS = 8
FREE = frozenset({"where"})


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What is done with the sums before they leave the program.

    Attributes:
        statements: In order, over the product's own indices.
        stores: The product's result itself is needed in memory.
    """

    statements: tuple[Assign, ...] = ()
    stores: bool = True


def find(kernel: Kernel, product: Product, following: Sequence[Assign]) -> Epilogue:
    """The longest run of `following` that can join the product (lets inlined).

    A statement joins when it sets one element of its target for each element of the result, and
    reads the result, and what earlier joined statements set, at that element alone.
    """
    target = product.target
    if not _is_whole(kernel, product):
        return Epilogue()
    names = tuple(part.name for part in target.indices if isinstance(part, Index))
    sources = _arrays(product.left, product.right, *product.factors, *product.divisors)
    made = {target.array: target}
    joined: list[Assign] = []
    for statement in following[:MAX_STATEMENTS]:
        renamed = _renamed(kernel, product, statement, names)
        if renamed is None or not _may_join(renamed, made, sources, joined):
            break
        joined.append(renamed)
        made[renamed.target.array] = renamed.target
    return Epilogue(tuple(joined), _is_needed(kernel, target.array, following[len(joined) :]))


def operations_of(epilogue: Epilogue, product: Product) -> int:
    """Elementwise functions for each element."""
    values = [statement.value for statement in epilogue.statements]
    calls = sum(isinstance(item, Call) for value in values for item in walk(value))
    return calls + len(product.factors) + len(product.divisors)


def _is_whole(kernel: Kernel, product: Product) -> bool:
    """The product's target names each element of its array by plain indices."""
    target = product.target
    shape = kernel.array(target.array).shape
    return all(
        isinstance(part, Index) and _same(product.extents[part.name], size)
        for part, size in zip(target.indices, shape, strict=True)
    )


def _same(left: Expr, right: Expr) -> bool:
    return symbolic.equal(symbolic.from_ir(left), symbolic.from_ir(right))


def _arrays(*values: Expr) -> set[str]:
    return {item.array for value in values for item in walk(value) if isinstance(item, Access)}


def _renamed(
    kernel: Kernel, product: Product, statement: Assign, names: tuple[str, ...]
) -> Assign | None:
    """The statement over the product's indices; None where its shape is another."""
    if statement.assignment != "=" or len(statement.targets) != 1:
        return None
    if isinstance(statement.value, NamedCall):
        return None
    reads = [item for item in walk(statement.value) if isinstance(item, Access)]
    own = next((item for item in reads if item.array == product.target.array), None)
    target = statement.target
    pattern = own or target
    if len(pattern.indices) != len(names):
        return None
    changes: dict[str, str] = {}
    for part, name in zip(pattern.indices, names, strict=True):
        if not isinstance(part, Index) or part.name in changes:
            return None
        changes[part.name] = name
    extents = index_extents(kernel, statement)
    if set(extents) != set(changes):
        return None
    if not all(_same(extents[old], product.extents[new]) for old, new in changes.items()):
        return None
    return _with_names(statement, changes)


def _with_names(statement: Assign, changes: Mapping[str, str]) -> Assign:
    def change(expr: Expr) -> Expr:
        if isinstance(expr, Index) and expr.name in changes:
            return replace(expr, name=changes[expr.name])
        return expr

    target = transform(statement.target, change)
    assert isinstance(target, Access)
    return replace(statement, targets=(target,), value=transform(statement.value, change))


def _may_join(
    statement: Assign, made: Mapping[str, Access], sources: set[str], joined: Sequence[Assign]
) -> bool:
    target = statement.target
    plain = [part.name for part in target.indices if isinstance(part, Index)]
    names = {
        name for access in made.values() for part in access.indices for name in indices_of(part)
    }
    if len(plain) != len(target.indices) or set(plain) != names or target.array in made:
        return False
    reads = [item for item in walk(statement.value) if isinstance(item, Access)]
    if not any(item.array in made for item in reads):
        return False
    for item in reads:
        if item.array in made and item.indices != made[item.array].indices:
            return False
        if item.array == target.array and item.indices != target.indices:
            return False
    others = _arrays(*(part.value for part in joined))
    return target.array not in sources and target.array not in others


def _is_needed(kernel: Kernel, array: str, later: Sequence[Assign]) -> bool:
    """Somebody outside of the program sees the array."""
    if kernel.array(array).role != "temp":
        return True
    return any(array in _arrays(*part.targets, part.value) for part in later)
