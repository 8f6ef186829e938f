"""Reads and checks include/registry/*.yaml. Every mistake is named with file and line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

COMMON, RETIRED, SCHEMA = "common.yaml", "retired.yaml", "registry.schema.json"
SCALARS = {f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)} | {
    "char": 1,
    "float": 4,
    "double": 8,
}
OPTIONAL = {"when", "mutant", "guide", "fallback", "minimum", "out", "plain", "unit", "owner"}
OPTIONAL |= {"nullable", "length_of", "array", "since"}


class RegistryError(Exception):
    """The registry breaks its own rules; the text has one `file:line: reason` a line."""


class Node(dict[str, Any]):
    """A mapping of the registry that remembers where it stands; its keys read as attributes."""

    where = ""

    def __getattr__(self, key: str) -> Any:
        if key in self:
            return self[key]
        if key in OPTIONAL:
            return ""
        raise AttributeError(f"{self.where}: nothing is called {key!r}")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """SafeLoader whose mappings are Nodes."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Iterator[Node]:
    result, file = Node(), Path(node.start_mark.name).name
    result.where = f"{file}:{node.start_mark.line + 1}"
    yield result
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str) or key in result:
            reason = "stands twice" if isinstance(key, str) else "is no text, and a key is"
            raise RegistryError(f"{file}:{key_node.start_mark.line + 1}: {key!r} {reason}")
        result[key] = loader.construct_object(value_node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read_yaml(path: Path) -> Node:
    """Read one YAML file into Nodes."""
    try:
        with path.open(encoding="utf-8") as stream:
            document = yaml.load(stream, _Loader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        reason = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise RegistryError(f"{path.name}:{line}: {reason}") from error
    if not isinstance(document, Node):
        raise RegistryError(f"{path.name}:1: a mapping is wanted")
    return document


def _schema_errors(document: Node, name: str, schema: dict[str, Any]) -> Iterator[str]:
    for error in jsonschema.Draft202012Validator(schema).iter_errors(document):
        here: Any = document
        where = f"{name}:1"
        for step in error.absolute_path:
            here = here[step]
            where = here.where if isinstance(here, Node) else where
        path = ".".join(str(step) for step in error.absolute_path)
        yield f"{where}: {path or 'file'}: {error.message}"


class _Checker:
    """What a schema cannot say: names that exist, ids that are new, ways to break a rule."""

    def __init__(self, common: Node, interfaces: list[Node], retired: list[str]) -> None:
        self.errors: list[str] = []
        self.common, self.interfaces, self.retired = common, interfaces, retired
        self.statuses = {s.name for s in common.statuses}
        self.seen: dict[str, str] = {}
        named = [n for d in [common, *interfaces] for n in d.get("structs", ())]
        self.types = {"void", *SCALARS}
        for node in [*common.handles, *common.callbacks, *named]:
            self.types.add(f"hal_{node.name}")
            self.once(node, "C name", f"hal_{node.name}")

    def refuse(self, node: Node, reason: str) -> None:
        self.errors.append(f"{node.where}: {reason}")

    def once(self, node: Node, kind: str, name: str) -> None:
        """Refuse a second thing of the same kind and name."""
        if (key := f"{kind} {name}") in self.seen:
            self.refuse(node, f"{key} exists already, at {self.seen[key]}")
        self.seen.setdefault(key, node.where)

    def run(self) -> list[str]:
        for status in self.common.statuses:
            self.once(status, "status", status.name)
            self.once(status, "status value", str(status.value))
        for rule in self.common.laws:
            self.rule(rule, rule.id[4:7], None)
        for document in [self.common, *self.interfaces]:
            self.shared(document)
        for number, interface in enumerate(self.interfaces, 1):
            self.once(interface, "interface code", interface.code)
            if interface.number != number:
                self.refuse(interface, f"interface number {interface.number}, {number} is next")
            for function in interface.functions:
                self.function(interface, function)
        return self.errors

    def shared(self, document: Node) -> None:
        """Constants and structs of one file."""
        for group in document.get("constants", ()):
            for value in group["values"]:
                self.once(value, "constant", f"{group.group}_{value.name}".upper())
        for struct in document.get("structs", ()):
            names = [f.name for f in struct.fields]
            sized = names[0] == "size" and struct.fields[0].type == "uint64_t"
            if sized == bool(struct.plain):
                self.refuse(struct, "a struct starts with `uint64_t size`, or it is plain: true")
            if sized and struct.minimum not in names:
                self.refuse(struct, f"minimum names no field: {struct.minimum!r}")
            self.members(struct.fields, f"field of {struct.name}")
            self.growth(struct)

    def growth(self, struct: Node) -> None:
        """Fields of later minors stand last, in the order of the minors that brought them."""
        before = 0
        for field in struct.fields:
            since = field.since or 0
            if since < before:
                self.refuse(field, f"{field.name} stands after a field of minor {before}")
            if since > self.common.abi.minor:
                self.refuse(field, f"since {since} is newer than the ABI's minor")
            if since and struct.plain:
                self.refuse(field, f"{struct.name} has no size, so it cannot grow")
            before = max(before, since)

    def members(self, nodes: list[Node], kind: str) -> None:
        for node in nodes:
            self.once(node, kind, node.name)
            if base_type(node.type) not in self.types or node.type == "void":
                self.refuse(node, f"unknown type {node.type!r}")

    def function(self, interface: Node, node: Node) -> None:
        call = f"{interface.interface}.{node.name}"
        self.once(node, "C name", f"hal_{call.replace('.', '_')}")
        self.members(node.params, f"parameter of {call}")
        names = {"", *(p.name for p in node.params)}
        for param in node.params:
            if param.length_of not in names:
                self.refuse(param, f"length_of names no parameter: {param.length_of!r}")
            if param.dir != "in" and "*" not in param.type:
                self.refuse(param, "an out parameter is a pointer")
        for status in set(node.returns) - self.statuses:
            self.refuse(node, f"unknown status {status!r}")
        for rule in node.rules:
            self.rule(rule, interface.code, node)

    def rule(self, rule: Node, code: str, function: Node | None) -> None:
        self.once(rule, "rule id", rule.id)
        if rule.id in self.retired:
            self.refuse(rule, f"{rule.id} is retired and is not used again")
        if not rule.id.startswith(f"HAL-{code}-"):
            self.refuse(rule, f"{rule.id} is not of the form HAL-{code}-NNN")
        way = rule.get("break")
        if rule.status not in self.statuses:
            self.refuse(rule, f"unknown status {rule.status!r}")
        elif function and rule.status not in ("OK", *function.returns):
            self.refuse(rule, f"{function.name} never returns {rule.status}")
        if bool(way) == bool(rule.mutant):
            self.refuse(rule, f"{rule.id}: say how it is broken: either `break` or `mutant`")
        if way == "skip_check" and rule.status == "OK":
            self.refuse(rule, f"{rule.id}: a rule with status OK has no check to skip")
        if rule.checked_by == "host" and (function is None or way != "skip_check"):
            self.refuse(rule, f"{rule.id}: a host rule is broken by skip_check")


def base_type(text: str) -> str:
    """A C type without const and stars."""
    return text.replace("*", " ").replace("const ", "").strip()


def _finish_member(node: Node) -> None:
    """Add to a field or parameter: base type, count of stars, C declarator, notes."""
    node["base"], node["stars"] = base_type(node.type), node.type.count("*")
    gap = "" if node.stars else " "
    node["decl"] = f"{node.type}{gap}{node.name}" + (f"[{node.array}]" if node.array else "")
    unit = node.unit if node.name.split("_")[-1] != node.unit else ""
    owner = f"owner: {node.owner}" if node.owner else ""
    null = f"NULL allowed when {node.nullable}" if node.nullable else ""
    null = "NULL allowed" if node.nullable == "1" else null
    since = f"since minor {node.since}" if node.since else ""
    notes = (node.get("dir"), unit, owner, null, since)
    node["notes"] = ", ".join(part for part in notes if part)


def _finish_function(function: Node, interface: Node, number: int) -> None:
    """Add to a function: its names, its number, 0 for the tier of an optional one."""
    name = interface.interface
    function["call"], function["c"] = f"{name}.{function.name}", f"{name}_{function.name}"
    function["interface"], function["number"] = name, number
    function["tier"] = 0 if function.tier == "optional" else function.tier
    function["decls"] = [p.decl for p in function.params]
    function["names"] = [p.name for p in function.params]


def _finish(common: Node, interfaces: list[Node]) -> Node:
    """The whole registry in one Node: what the files say, joined, named and numbered."""
    registry = Node(common, **common.abi, interfaces=interfaces)
    parts = [common, *interfaces]
    registry["groups"] = [g for part in parts for g in part.get("constants", ())]
    registry["all_structs"] = [s for part in parts for s in part.get("structs", ())]
    registry["functions"] = [f for i in interfaces for f in i.functions]
    functions: list[Node] = registry.functions
    for owner in [*registry.all_structs, *common.callbacks, *functions]:
        for member in owner.get("fields", []) + owner.get("params", []):
            _finish_member(member)
    for interface in interfaces:
        for key, value in (("member", interface.interface), ("constants", []), ("structs", [])):
            interface.setdefault(key, value)
        for function in interface.functions:
            _finish_function(function, interface, functions.index(function))
    owned = [("", rule) for rule in common.laws]
    owned += [(function.call, rule) for function in functions for rule in function.rules]
    for number, (call, rule) in enumerate(owned):
        rule |= {"function": call, "number": number, "breaking": rule.get("break", "")}
    registry["rules"] = [rule for _, rule in owned]
    return registry


def load(folder: Path) -> Node:
    """Read the registry in `folder`; raise RegistryError with every mistake at once."""
    if not (folder / SCHEMA).is_file():
        raise RegistryError(f"{folder}: no registry is here; name the checkout with --root")
    schema = json.loads((folder / SCHEMA).read_text(encoding="utf-8"))
    others = {*folder.glob("*.yaml")} - {folder / COMMON, folder / RETIRED}
    paths = [folder / COMMON, *sorted(others)]
    documents = {path.name: read_yaml(path) for path in paths}
    errors = [e for name, d in documents.items() for e in _schema_errors(d, name, schema)]
    if errors:
        raise RegistryError("\n".join(errors))
    common = documents.pop(COMMON)
    for name in [name for name, document in documents.items() if "interface" not in document]:
        common.laws.extend(documents.pop(name).laws)
    interfaces = sorted(documents.values(), key=lambda d: int(d.number))
    for name, document in documents.items():
        if name != f"{document.interface}.yaml":
            raise RegistryError(f"{name}:1: it describes {document.interface!r}")
    retired = read_yaml(folder / RETIRED).get("retired")
    if not isinstance(retired, list):
        raise RegistryError(f"{RETIRED}:1: `retired` is a list of rule ids")
    if errors := _Checker(common, interfaces, retired).run():
        raise RegistryError("\n".join(errors))
    return _finish(common, interfaces)
