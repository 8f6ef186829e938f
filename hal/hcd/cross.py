"""Checks that a JSON Schema cannot say: names that must exist, trees, graphs, coverage.

Every check tolerates a tree that the schema already refused, so that all mistakes of a file are
shown at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from hal.errors import HcdError
from hal.hcd import vil_rules
from hal.hcd.checker import Checker, at, items, text, value, words
from hal.hcd.scan import Node, Problem, one_line
from hal.hcd.schema import (
    Schema,
    child,
    is_object,
    is_object_list,
    leaf_at,
    nearest,
    schema,
)

OVERLAY = "<overlay>"  # The file of a value that was laid over a description at run time.
MAX_INSTANCES = 100_000_000  # Of one unit on the whole chip; the largest today has 10^6.


def cross_check(root: Node, kind: str) -> list[Problem]:
    """All problems of a resolved tree beyond its schema. A part is not complete: ids only."""
    checker = Checker(root)
    _ids(checker, root, schema(kind), "")
    if kind == "system":
        _system(checker)
    elif kind == "profile":
        _profile(checker)
    elif kind == "chip" and value(root, "kind") != "part":
        _units(checker)
        _memory(checker)
        _compute(checker)
        _execution(checker)
        vil_rules.check(checker)
        _references(checker)
    if kind != "profile" and value(root, "kind") != "part":
        _provenance(checker, kind)
    return checker.problems


def _ids(checker: Checker, node: Node, language: Schema, path: str) -> None:
    """No id stands twice in any list of objects."""
    if is_object_list(language) and isinstance(node.value, list):
        seen: dict[str, int] = {}
        for index, item in enumerate(node.value):
            name = text(item, "id")
            if name and name in seen:
                line = seen[name]
                found = at(item, "id") or item
                checker.refuse(
                    found, f"{path}.{name}", f"the id is there twice; first at line {line}"
                )
            elif name:
                seen[name] = item.mark.line
            _ids(checker, item, language["items"], f"{path}.{name or index}")
    elif is_object(language) and isinstance(node.value, dict):
        for key, sub in node.value.items():
            _ids(checker, sub, child(language, key) or {}, f"{path}.{key}".lstrip("."))


def _names(checker: Checker, *keys: str) -> list[str]:
    return [name for name, _ in items(checker.root, *keys)]


def _units(checker: Checker) -> None:
    units = items(checker.root, "units")
    names, clocks = [name for name, _ in units], _names(checker, "clocks")
    roots = 0
    for name, unit in units:
        path = f"units.{name}"
        checker.reference(unit, path, "parent", names, "entry of units")
        checker.reference(unit, path, "clock", clocks, "entry of clocks")
        is_chip = text(unit, "kind") == "chip"
        roots += is_chip
        if is_chip and at(unit, "parent") is not None:
            checker.refuse(unit, path, "is the chip, which has no parent; delete the key parent")
        elif not is_chip and at(unit, "parent") is None:
            checker.refuse(unit, path, "the key parent is missing; only the chip has none")
    if units and roots != 1:
        node = at(checker.root, "units") or checker.root
        checker.refuse(node, "units", f"has {roots} units of kind chip; exactly one is needed")
    _tree(checker, units)
    for name, clock in items(checker.root, "clocks"):
        low, high = value(clock, "sustained_hz"), value(clock, "boost_hz")
        if isinstance(low, int) and isinstance(high, int) and high < low:
            what = f"is {high:,}, below sustained_hz {low:,}; the boost clock is the higher one"
            checker.refuse(at(clock, "boost_hz") or clock, f"clocks.{name}.boost_hz", what)


def _tree(checker: Checker, units: list[tuple[str, Node]]) -> None:
    """Parents make no circle, and the product of counts stays believable."""
    parents = {name: text(unit, "parent") for name, unit in units}
    counts = {name: value(unit, "count") for name, unit in units}
    for name, unit in units:
        totals, step, walked = [1], name, []
        while step in parents and step not in walked:
            walked.append(step)
            totals.append(counts[step] if isinstance(counts[step], int) else 1)
            step = parents[step]
        if step in walked:
            chain = " -> ".join([*walked, step])
            node = at(unit, "parent") or unit
            checker.refuse(node, f"units.{name}.parent", f"is a circle: {chain}")
            continue
        total, own = math.prod(totals), totals[1]
        if total > MAX_INSTANCES >= max(own, total // max(own, 1)):
            what = (
                f"makes {total:,} instances on the chip; at most {MAX_INSTANCES:,} are believable"
            )
            checker.refuse(at(unit, "count") or unit, f"units.{name}.count", what)


def _memory(checker: Checker) -> None:
    units, memories = _names(checker, "units"), _names(checker, "memory")
    for name, memory in items(checker.root, "memory"):
        checker.reference(memory, f"memory.{name}", "scope", units, "entry of units")
    for name, path in items(checker.root, "paths"):
        where = f"paths.{name}"
        checker.reference(path, where, "from", memories, "entry of memory")
        checker.reference(path, where, "to", memories, "entry of memory")
        checker.reference(path, where, "engine", units, "entry of units")


def _compute(checker: Checker) -> None:
    units = _names(checker, "units")
    dtypes = {name: text(node, "compute") for name, node in items(checker.root, "dtypes")}
    for name, part in items(checker.root, "compute"):
        checker.reference(part, f"compute.{name}", "unit", units, "entry of units")
        for row, operation in items(part, "operations"):
            path = f"compute.{name}.operations.{row}"
            for key in ("dtype", "a", "b", "acc", "out"):
                name_of_type = text(operation, key)
                if name_of_type and name_of_type not in dtypes and name_of_type != "tf32":
                    what = f"computes in {one_line(name_of_type)}, which is no entry of dtypes"
                    node = at(operation, key) or operation
                    checker.refuse(node, f"{path}.{key}", f"{what}; add it there")


def _execution(checker: Checker) -> None:
    root = checker.root
    cores = [n for n, u in items(root, "units") if text(u, "kind") in ("core", "subcore", "chip")]
    globals_ = [n for n, m in items(root, "memory") if text(m, "kind") == "global"]
    execution = at(root, "execution")
    if execution is None:
        return
    checker.reference(execution, "execution", "core", cores, "unit of kind core or subcore")
    checker.reference(execution, "execution", "buffers", globals_, "memory of kind global")
    memory = dict(items(root, "memory")).get(text(execution, "buffers"))
    most = at(execution, "limits", "allocation_bytes_max")
    capacity = at(memory, "capacity_bytes")
    size, limit = value(capacity), value(most)
    if capacity is not None and capacity.mark.file == OVERLAY:
        return  # Read at run time, on a machine that may be smaller than the description.
    if most is not None and isinstance(limit, int) and isinstance(size, int) and limit > size:
        what = f"is {limit:,}, above the {size:,} bytes of {text(execution, 'buffers')}"
        checker.refuse(most, "execution.limits.allocation_bytes_max", what)


def _references(checker: Checker) -> None:
    root = checker.root
    memories, computes = _names(checker, "memory"), _names(checker, "compute")
    for name, claim in items(root, "claims", "bandwidth"):
        checker.reference(claim, f"claims.bandwidth.{name}", "memory", memories, "entry of memory")
    for name, row in items(root, "energy", "memories"):
        checker.reference(row, f"energy.memories.{name}", "memory", memories, "entry of memory")
    for name, row in items(root, "energy", "operations"):
        path = f"energy.operations.{name}"
        checker.reference(row, path, "compute", computes, "entry of compute")
        part = dict(items(root, "compute")).get(text(row, "compute"))
        rows = [n for n, _ in items(part, "operations")]
        checker.reference(row, path, "operation", rows, "operation of that entry of compute")


def _system(checker: Checker) -> None:
    """Ends exist, chips can be found and read, and all devices are joined."""
    from hal.hcd.resolve import find

    root = checker.root
    devices, switches = _names(checker, "devices"), _names(checker, "switches")
    nodes = devices + switches
    for name in sorted(set(devices) & set(switches)):
        checker.refuse(root, f"switches.{name}", "is also the id of a device; ids are shared")
    for name, device in items(root, "devices"):
        chip = at(device, "chip")
        if chip is None or not isinstance(chip.value, str):
            continue
        try:
            find(chip.value, beside=_folder(chip))
        except HcdError as error:
            checker.refuse(chip, f"devices.{name}.chip", str(error))
    joined: dict[str, set[str]] = {name: set() for name in nodes}
    for name, link in items(root, "links"):
        ends = words(link, "ends")
        for end in ends:
            if end.value not in nodes:
                some = f"{', '.join(nodes)}{nearest(end.value, list(nodes))}"
                what = f"'{one_line(end.value)}' is no device and no switch; {some}"
                checker.refuse(end, f"links.{name}.ends", what)
        if len(ends) == 2 and all(end.value in joined for end in ends):
            joined[ends[0].value].add(ends[1].value)
            joined[ends[1].value].add(ends[0].value)
    reached, todo = set(devices[:1]), devices[:1]
    while todo:
        for other in joined.get(todo.pop(), ()):
            if other not in reached:
                reached.add(other)
                todo.append(other)
    for name, device in items(root, "devices"):
        if name not in reached:
            what = f"no chain of links joins it to {devices[0]}; every device must be reachable"
            checker.refuse(device, f"devices.{name}", what)


def _profile(checker: Checker) -> None:
    """A profile asks for paths that the language has."""
    wishes = at(checker.root, "requires")
    for path, node in wishes.value.items() if wishes and isinstance(wishes.value, dict) else ():
        try:
            leaf_at("chip", path)
        except HcdError as error:
            node = Node(node.value, node.key_mark or node.mark)
            checker.refuse(node, f"requires.{path}", error.problem)


def _folder(node: Node) -> Any:
    from pathlib import Path

    return Path(node.mark.file).parent


def measured(node: Node, language: Schema, path: str = "") -> Iterator[tuple[str, Node]]:
    """Paths of the numbers whose origin must be told, with their nodes."""
    if is_object_list(language) and isinstance(node.value, list):
        for item in node.value:
            if text(item, "id"):
                yield from measured(item, language["items"], f"{path}.{text(item, 'id')}")
    elif is_object(language) and isinstance(node.value, dict):
        for key, sub in node.value.items():
            yield from measured(sub, child(language, key) or {}, f"{path}.{key}".lstrip("."))
    elif language.get("x-measured"):
        yield path, node


def pattern(glob: str) -> re.Pattern[str]:
    """A `covers` pattern as an expression: * stands for any text, also across dots."""
    return re.compile(".*".join(map(re.escape, glob.split("*"))) + r"\Z")


def _provenance(checker: Checker, kind: str) -> None:
    root = checker.root
    section = at(root, "provenance")
    if section is None:
        return
    globs = [
        (f"provenance.{name}.covers", glob)
        for name, entry in items(root, "provenance")
        for glob in words(entry, "covers")
        if len(glob.value) <= 200
    ]
    expressions = [pattern(glob.value) for _, glob in globs]
    paths = [path for path, _ in measured(root, schema(kind))]
    bare = [path for path in paths if not any(e.match(path) for e in expressions)]
    if bare:
        more = f" and {len(bare) - 3} more" if len(bare) > 3 else ""
        what = f"no entry covers {', '.join(bare[:3])}{more}; say where these numbers come from"
        checker.refuse(section, "provenance", what)
    for (where, glob), expression in zip(globs, expressions, strict=True):
        own = glob.mark.file == root.mark.file
        if own and not any(expression.match(path) for path in paths):
            what = f"'{one_line(glob.value)}' matches no number of this file"
            checker.refuse(glob, where, f"{what}{nearest(glob.value, paths)}")
