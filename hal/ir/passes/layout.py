"""Layout alignment: transposes and copies become other subscripts, temps the order they are read.

Three rules. A temp that only copies an array with its dimensions in another order is read from
that array. A temp whose only use is such a copy into an output is computed in the output. A temp
that most readers walk along a dimension that is not its last gets its dimensions reordered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hal.ir.analysis import indices_of, inline_lets, reduced_indices
from hal.ir.nodes import Access, Assign, Expr, Index, Kernel, NamedCall, transform
from hal.ir.passes.rewriting import accesses, is_elementwise, plain_indices, reads_of, writes_of

__all__ = ["align_layouts"]


def align_layouts(kernel: Kernel) -> Kernel:
    """The kernel with fewer copies, and temps in the order in which they are read."""
    kernel = inline_lets(kernel)
    for temp in [array.name for array in kernel.arrays_of("temp")]:
        changed = _read_from_source(kernel, temp) or _write_to_output(kernel, temp)
        kernel = changed or _reorder(kernel, temp) or kernel
    return kernel


def _copy_order(kernel: Kernel, item: Assign) -> tuple[int, ...] | None:
    """For `T[…] = X[…]` with the same bare indices: the dimension of X behind each one of T.

    None where it is no whole copy: other shapes, another type, an index twice.
    """
    value = item.value
    if not is_elementwise(item) or not isinstance(value, Access) or value.pad is not None:
        return None
    target, source = plain_indices(item.target), plain_indices(value)
    if target is None or source is None or set(target) != set(source):
        return None
    to, of = kernel.array(item.target.array), kernel.array(value.array)
    order = tuple(source.index(name) for name in target)
    shape = tuple(of.shape[place] for place in order)
    return order if to.dtype == of.dtype and to.shape == shape else None


def _users(kernel: Kernel, name: str) -> tuple[list[Assign], list[Assign]]:
    """The statements that write an array, and those that load it."""
    writers = [item for item in kernel.assigns if name in writes_of(item)]
    return writers, [item for item in kernel.assigns if name in reads_of(item)]


def _reindexed(item: Assign, old: str, new: str, places: tuple[int, ...]) -> Assign:
    """The statement with `new` in place of `old`; its dimension d takes subscript places[d]."""

    def put(part: Expr) -> Expr:
        if not isinstance(part, Access) or part.array != old:
            return part
        return replace(part, array=new, indices=tuple(part.indices[place] for place in places))

    targets = tuple(transform(target, put) for target in item.targets)
    kept = tuple(target for target in targets if isinstance(target, Access))
    return replace(item, targets=kept, value=transform(item.value, put))


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(place) for place in range(len(order)))


def _read_from_source(kernel: Kernel, temp: str) -> Kernel | None:
    """T[j, i] = X[i, j]: every load of T becomes one of X."""
    writers, readers = _users(kernel, temp)
    if len(writers) != 1 or not readers:
        return None
    order = _copy_order(kernel, writers[0])
    value = writers[0].value
    if order is None or not isinstance(value, Access):
        return None
    items = list(kernel.assigns)
    first, last = _place(items, writers[0]), _place(items, readers[-1])
    between = items[first + 1 : last + 1]
    if any(value.array in writes_of(item) for item in between) or _concatenates(readers):
        return None
    if _place(items, readers[0]) < first:
        return None
    places = _inverse(order)
    statements = tuple(
        _reindexed(item, temp, value.array, places) for item in items if item is not writers[0]
    )
    return _without(replace(kernel, statements=statements), temp)


def _place(items: list[Assign], wanted: Assign) -> int:
    """Position of a statement, by identity: two may be equal."""
    return next(place for place, item in enumerate(items) if item is wanted)


def _concatenates(items: list[Assign]) -> bool:
    values = [item.value for item in items]
    return any(isinstance(v, NamedCall) and v.function == "concat" for v in values)


def _write_to_output(kernel: Kernel, temp: str) -> Kernel | None:
    """…; Y[j, i] = T[i, j]: what writes T writes Y."""
    writers, readers = _users(kernel, temp)
    copies = [item for item in readers if _copy_order(kernel, item) is not None]
    if not writers or len(copies) != 1 or any(item not in writers for item in readers[:-1]):
        return None
    copy = copies[0]
    output, order = copy.target.array, _copy_order(kernel, copy)
    used = [item for item in kernel.assigns if output in reads_of(item) | writes_of(item)]
    if order is None or kernel.array(output).role != "output" or used != [copy]:
        return None
    items = list(kernel.assigns)
    if readers[-1] is not copy or _place(items, writers[-1]) > _place(items, copy):
        return None
    statements = tuple(_reindexed(item, temp, output, order) for item in items if item is not copy)
    return _without(replace(kernel, statements=statements), temp)


def _reorder(kernel: Kernel, temp: str) -> Kernel | None:
    """A temp that most readers walk along dimension d gets d as its last."""
    array = kernel.array(temp)
    writers, readers = _users(kernel, temp)
    rank = len(array.shape)
    if rank < 2 or not readers or any(isinstance(w.value, NamedCall) for w in writers):
        return None
    votes: Counter[int] = Counter()
    for reader in readers:
        inner = _inner_index(reader)
        for access in accesses(reader.value):
            if access.array == temp and inner is not None:
                votes.update(d for d, s in enumerate(access.indices) if inner in indices_of(s))
    if not votes:
        return None
    best, count = votes.most_common(1)[0]
    if best == rank - 1 or count <= votes[rank - 1] or 2 * count <= votes.total():
        return None
    places = (*(d for d in range(rank) if d != best), best)
    shape = tuple(array.shape[place] for place in places)
    arrays = tuple(replace(a, shape=shape) if a is array else a for a in kernel.arrays)
    statements = tuple(_reindexed(item, temp, temp, places) for item in kernel.assigns)
    return replace(kernel, arrays=arrays, statements=statements)


def _inner_index(item: Assign) -> str | None:
    """The index that the innermost loop of a statement runs over.

    A sum with a kept index in each factor (a product of matrices) has none: both orders serve it.
    """
    if isinstance(item.value, NamedCall):
        return item.value.axis
    reduced = reduced_indices(item)
    if reduced:
        loads = list(accesses(item.value))
        return reduced[-1] if len(loads) == 1 else None
    last = item.target.indices[-1] if item.target.indices else None
    return last.name if isinstance(last, Index) else None


def _without(kernel: Kernel, name: str) -> Kernel:
    return replace(kernel, arrays=tuple(a for a in kernel.arrays if a.name != name))
