"""Reads and checks include/registry/*.yaml. Every mistake is named with file and line."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from hal._generate.model import (
    Callback,
    Function,
    Group,
    Interface,
    Member,
    Registry,
    Rule,
    Struct,
    Value,
)

COMMON, RETIRED, SCHEMA = "common.yaml", "retired.yaml", "registry.schema.json"
SCALARS = {f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)} | {
    "char": 1,
    "float": 4,
    "double": 8,
}


class RegistryError(Exception):
    """The registry breaks its own rules; the text has one `file:line: reason` a line."""


class Node(dict[str, Any]):
    """A YAML mapping that remembers where it stands."""

    where = ""


class _Loader(yaml.SafeLoader):
    """SafeLoader whose mappings are Nodes."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Iterator[Node]:
    result = Node()
    result.where = f"{Path(loader.name).name}:{node.start_mark.line + 1}"
    yield result
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in result:
            line = key_node.start_mark.line + 1
            raise RegistryError(f"{Path(loader.name).name}:{line}: the key {key!r} stands twice")
        result[key] = loader.construct_object(value_node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read_yaml(path: Path) -> Node:
    """Read one YAML file into Nodes."""
    try:
        with path.open(encoding="utf-8") as stream:
            document = yaml.load(stream, _Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise RegistryError(f"{path.name}:{line}: {error.problem}") from error
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
        self.statuses = {s["name"] for s in common["statuses"]}
        self.structs = {
            f"hal_{s['name']}": s for d in [common, *interfaces] for s in d.get("structs", ())
        }
        self.types = {"void", *SCALARS, *self.structs}
        self.types |= {f"hal_{n['name']}" for k in ("handles", "callbacks") for n in common[k]}
        self.seen: dict[str, str] = {}

    def refuse(self, node: Node, reason: str) -> None:
        self.errors.append(f"{node.where}: {reason}")

    def once(self, node: Node, kind: str, name: str) -> None:
        """Refuse a second thing of the same kind and name."""
        if (key := f"{kind} {name}") in self.seen:
            self.refuse(node, f"{key} exists already, at {self.seen[key]}")
        self.seen.setdefault(key, node.where)

    def run(self) -> list[str]:
        for group in ("handles", "callbacks"):
            for node in self.common[group]:
                self.once(node, "C name", f"hal_{node['name']}")
        for rule in self.common["laws"]:
            self.rule(rule, "ABI", None)
        for document in [self.common, *self.interfaces]:
            self.shared(document)
        for interface in self.interfaces:
            for key in ("interface", "number", "code"):
                self.once(interface, f"interface {key}", str(interface[key]))
            for function in interface["functions"]:
                self.function(interface, function)
        numbers = [i["number"] for i in self.interfaces]
        if numbers != list(range(1, len(numbers) + 1)) and not self.errors:
            self.refuse(self.interfaces[-1], f"interface numbers have gaps: {numbers}")
        return self.errors

    def shared(self, document: Node) -> None:
        """Constants and structs of one file."""
        for status in document.get("statuses", ()):
            self.once(status, "status", status["name"])
            self.once(status, "status value", str(status["value"]))
        for group in document.get("constants", ()):
            for value in group["values"]:
                self.once(value, "constant", f"{group['group']}_{value['name']}".upper())
        for struct in document.get("structs", ()):
            self.once(struct, "C name", f"hal_{struct['name']}")
            names = [f["name"] for f in struct["fields"]]
            sized = names[0] == "size" and struct["fields"][0]["type"] == "uint64_t"
            if sized == bool(struct.get("plain")):
                self.refuse(struct, "a struct starts with `uint64_t size`, or it is plain: true")
            if sized and struct.get("minimum") not in names:
                self.refuse(struct, f"minimum names no field: {struct.get('minimum')!r}")
            self.members(struct["fields"], f"field of {struct['name']}")

    def members(self, nodes: list[Node], kind: str) -> None:
        for node in nodes:
            self.once(node, kind, node["name"])
            base = node["type"].replace("*", " ").replace("const ", "").strip()
            if base not in self.types or node["type"] == "void":
                self.refuse(node, f"unknown type {node['type']!r}")

    def function(self, interface: Node, node: Node) -> None:
        call = f"{interface['interface']}.{node['name']}"
        self.once(node, "function", call)
        self.once(node, "C name", f"hal_{call.replace('.', '_')}")
        self.members(node["params"], f"parameter of {call}")
        names = {p["name"] for p in node["params"]}
        for param in node["params"]:
            if param.get("length_of", param["name"]) not in names:
                self.refuse(param, f"length_of names no parameter: {param['length_of']!r}")
            if param["dir"] != "in" and "*" not in param["type"]:
                self.refuse(param, "an out parameter is a pointer")
        for status in node["returns"]:
            if status not in self.statuses:
                self.refuse(node, f"unknown status {status!r}")
        for rule in node["rules"]:
            self.rule(rule, interface["code"], node)

    def rule(self, rule: Node, code: str, function: Node | None) -> None:
        self.once(rule, "rule id", rule["id"])
        if rule["id"] in self.retired:
            self.refuse(rule, f"{rule['id']} is retired and is not used again")
        if not rule["id"].startswith(f"HAL-{code}-"):
            self.refuse(rule, f"{rule['id']} is not of the form HAL-{code}-NNN")
        status, way = rule["status"], rule.get("break")
        if status not in self.statuses:
            self.refuse(rule, f"unknown status {status!r}")
        elif function and status not in ("OK", *function["returns"]):
            self.refuse(rule, f"{function['name']} never returns {status}")
        if (way is None) == ("mutant" not in rule):
            self.refuse(rule, f"{rule['id']}: say how it is broken: either `break` or `mutant`")
        if way == "skip_check" and status == "OK":
            self.refuse(rule, f"{rule['id']}: a rule with status OK has no check to skip")
        if rule["checked_by"] == "host" and (function is None or way != "skip_check"):
            self.refuse(rule, f"{rule['id']}: a host rule is broken by skip_check")


def _members(nodes: list[Node]) -> tuple[Member, ...]:
    return tuple(Member(**node) for node in nodes)


def _groups(document: Node) -> tuple[Group, ...]:
    return tuple(
        Group(g["group"], g["brief"], g["kind"], tuple(Value(**v) for v in g["values"]))
        for g in document.get("constants", ())
    )


def _structs(document: Node) -> tuple[Struct, ...]:
    return tuple(
        Struct(**{**s, "fields": _members(s["fields"]), "origin": document.get("interface", "")})
        for s in document.get("structs", ())
    )


def _build(common: Node, interfaces: list[Node], files: tuple[str, ...]) -> Registry:
    count = {"rules": 0, "functions": 0}

    def next_number(kind: str) -> int:
        count[kind] += 1
        return count[kind] - 1

    def rule(node: Node, call: str) -> Rule:
        keys = ("checked_by", "status", "text", "mutant", "when")
        texts = {key: node.get(key, "") for key in keys}
        number = next_number("rules")
        return Rule(
            id=node["id"], breaking=node.get("break", ""), function=call, number=number, **texts
        )

    def function(node: Node, interface: str) -> Function:
        tier = node["tier"] if node["tier"] != "optional" else 0
        return Function(
            interface=interface, verb=node["name"], brief=node["brief"], tier=tier,
            guide=node.get("guide", ""), fallback=node.get("fallback", ""), thread=node["thread"],
            params=_members(node["params"]), returns=tuple(node["returns"]),
            rules=tuple(rule(r, f"{interface}.{node['name']}") for r in node["rules"]),
            number=next_number("functions"),
        )  # fmt: skip

    def interface(node: Node) -> Interface:
        name = node["interface"]
        return Interface(
            name=name, number=node["number"], code=node["code"], brief=node["brief"],
            guide=node.get("guide", ""), member=node.get("member", name),
            constants=_groups(node), structs=_structs(node),
            functions=tuple(function(f, name) for f in node["functions"]),
        )  # fmt: skip

    named: Callable[[str], tuple[Value, ...]] = lambda key: tuple(  # noqa: E731
        Value(v["name"], v.get("value", 0), v["brief"]) for v in common[key]
    )
    laws = tuple(rule(law, "") for law in common["laws"])
    callbacks = tuple(
        Callback(c["name"], c["brief"], c["returns"], _members(c["params"]))
        for c in common["callbacks"]
    )
    return Registry(
        major=common["abi"]["major"], minor=common["abi"]["minor"], handles=named("handles"),
        statuses=named("statuses"), constants=_groups(common), callbacks=callbacks,
        structs=_structs(common), laws=laws, files=files,
        interfaces=tuple(interface(node) for node in interfaces),
    )  # fmt: skip


def load(folder: Path) -> Registry:
    """Read the registry in `folder`; raise RegistryError with every mistake at once."""
    schema = json.loads((folder / SCHEMA).read_text(encoding="utf-8"))
    paths = sorted(p for p in folder.glob("*.yaml") if p.name != RETIRED)
    documents = {path.name: read_yaml(path) for path in paths}
    errors = [e for name, d in documents.items() for e in _schema_errors(d, name, schema)]
    if errors:
        raise RegistryError("\n".join(errors))
    common = documents.pop(COMMON)
    interfaces = sorted(documents.values(), key=lambda d: int(d["number"]))
    for name, document in documents.items():
        if name != f"{document['interface']}.yaml":
            raise RegistryError(f"{name}:1: it describes {document['interface']!r}")
    retired = read_yaml(folder / RETIRED)["retired"]
    if errors := _Checker(common, interfaces, retired).run():
        raise RegistryError("\n".join(errors))
    return _build(common, interfaces, tuple(path.name for path in paths))


def words(condition: str) -> list[str]:
    """The identifiers of a C condition, `a->b` kept whole, in order, each once."""
    return list(dict.fromkeys(re.findall(r"[A-Za-z_]\w*(?:->\w+)?", condition)))
