"""Turns the registry into the text of each generated file, through templates."""

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import jinja2

from hal._generate import layout
from hal._generate.registry import Node, RegistryError

WIDTH = 100
OUTPUTS = {
    "hal.h.j2": "include/hal/hal.h",
    "calls_public.h.j2": "include/hal/calls.h",
    "calls_native.h.j2": "hal/native/calls.h",
    "names.c.j2": "hal/native/layers/names.c",
    "direct.c.j2": "hal/native/layers/direct.c",
    "forward.c.j2": "hal/native/layers/forward.c",
    "wrappers.c.j2": "hal/native/layers/wrappers.c",
    "validate.c.j2": "hal/native/layers/validate.c",
    "mutate.c.j2": "hal/native/layers/mutate.c",
    "trace.c.j2": "hal/native/layers/trace.c",
    "cdef.h.j2": "hal/_generated/cdef.h",
    "init.py.j2": "hal/_generated/__init__.py",
    "constants.py.j2": "hal/_generated/constants.py",
    "functions.py.j2": "hal/_generated/functions.py",
    "rules.py.j2": "hal/_generated/rules.py",
    "port.c.j2": "vendors/template/tables.c",
    "layout.c.j2": "tests/golden/layout.c",
    "interfaces.md.j2": "docs/interfaces/README.md",
}
PAGE, PAGES = "interface.md.j2", "docs/interfaces"
LAYOUT = "tests/golden/layout.json"


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Break text at spaces, never inside a word; a no-break space holds words together."""
    wrapper = textwrap.TextWrapper(width, first, rest)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return [row.replace("\xa0", " ") for row in wrapper.wrap(text)]


def comment(text: str, indent: int = 0, hang: int = 0, mark: str = "// ") -> str:
    """Wrap text as comment lines; `hang` indents the lines after the first."""
    head = " " * indent + mark
    parts = text.strip().split("\n\n")
    return "\n".join(row for part in parts for row in wrap(part, WIDTH, head, head + " " * hang))


def fit(head: str, parts: list[str], tail: str) -> str:
    """Lay out `head(part, part)tail` in at most 100 columns, as clang-format does."""
    line = head + ", ".join(parts) + tail
    if len(line) <= WIDTH:
        return line
    column = head.rindex("(") + 1
    if any(column + len(p) + len(tail) + 1 > WIDTH for p in parts):
        column = len(head) - len(head.lstrip()) + 4
        head = head + "\n" + " " * column
    text = ", ".join(part.replace(" ", "\xa0") for part in parts) + tail.replace(" ", "\xa0")
    return head + ("\n" + " " * column).join(wrap(text, WIDTH - column))


def fold(text: str, indent: int) -> str:
    """Break C code at spaces so that it fits, continuation lines indented by `indent`."""
    return "\n".join(wrap(text.replace(") {", ")\xa0{"), WIDTH, "", " " * indent))


def quote(text: str, column: int = 4) -> str:
    """A C or Python string literal, in pieces where it is long."""
    rows = textwrap.wrap(text, WIDTH - column - 6, drop_whitespace=False) or [""]
    return ("\n" + " " * column).join(json.dumps(row, ensure_ascii=False) for row in rows)


def remark(code: str, text: str) -> str:
    """A line of code with its comment behind it, or above it where both do not fit."""
    line = f"{code}  // {text}"
    return line if len(line) <= WIDTH else f"{comment(text)}\n{code}"


def pydoc(text: str, indent: int) -> str:
    """A Python docstring of one sentence."""
    body = wrap(text.replace("\\", "\\\\"), WIDTH - indent - 6)
    return " " * indent + '"""' + ("\n" + " " * indent).join(body) + '"""'


def tuple_text(items: list[str], indent: int) -> str:
    """A Python tuple of code pieces, laid out as ruff does."""
    line = "(" + ", ".join(items) + ("," * (len(items) == 1)) + ")"
    if indent + len(line) + 1 <= WIDTH:
        return line
    margin = " " * indent
    return "(\n" + "".join(f"{margin}    {item},\n" for item in items) + f"{margin})"


def number(value: int, kind: str = "value") -> str:
    """A C integer constant; flags are unsigned."""
    suffix = "u" if kind == "flag" or value > 2**31 - 1 else ""
    wide = "ll" if suffix and value >= 2**32 else ""
    return f"{hex(value) if value > 2**31 - 1 else value}{suffix}{wide}"


class Facts:
    """Questions that templates ask about the registry."""

    def __init__(self, registry: Node) -> None:
        self.registry = registry
        self.constants = {self.status(s.name): s.value for s in registry.statuses}
        for group in registry.groups:
            for value in group["values"]:
                self.constants[f"HAL_{group.group}_{value.name}".upper()] = value.value
        for struct in filter(lambda s: s.minimum, registry.all_structs):
            minimum = layout.minimum(registry, struct)
            self.constants[f"HAL_{struct.name}_MINIMUM".upper()] = minimum

    @staticmethod
    def status(name: str) -> str:
        """The C constant of a status: only errors carry ERROR in their name."""
        return f"HAL_{name}" if name in ("OK", "NOT_READY") else f"HAL_ERROR_{name}"

    def struct(self, type_name: str) -> Any:
        """The struct with C type name `type_name`, if there is one."""
        return next((s for s in self.registry.all_structs if f"hal_{s.name}" == type_name), None)

    def length(self, function: Node, member: Node) -> str:
        """The parameter that holds the length of parameter `member`, or an empty text."""
        return next((str(p.name) for p in function.params if p.length_of == member.name), "")

    def sized(self, member: Node) -> bool:
        """Whether a parameter points to one struct that starts with its size."""
        struct = self.struct(member.base)
        return bool(struct and not struct.plain and member.stars == 1)

    def kind(self, member: Node) -> str:
        """How a value is shown: text, pointer, real, signed, handle, unsigned, array, struct."""
        if member.array:
            return "array"
        if member.stars:
            return "text" if member.type == "const char *" else "pointer"
        if self.struct(member.base):
            return "struct"
        if member.base in ("float", "double"):
            return "real"
        for kind, nodes in (("handle", "handles"), ("pointer", "callbacks")):
            if member.base in {f"hal_{node.name}" for node in self.registry[nodes]}:
                return kind
        return "unsigned" if member.base.startswith("uint") else "signed"

    def outs(self, function: Node) -> list[Node]:
        """The parameters that a call writes."""
        return [p for p in function.params if p.dir != "in"]

    def extent(self, function: Node, member: Node) -> str:
        """C expression for the bytes behind an out parameter; 0 for a sized struct."""
        length = self.length(function, member)
        if not length:
            whole = self.sized(member) or member.type == "void *"
            return "0" if whole else f"sizeof(*{member.name})"
        return length if member.base in ("void", "char") else f"{length} * sizeof(*{member.name})"

    def scalar_behind(self, member: Node) -> Node | None:
        """What an out parameter points to, when that is one number or handle."""
        target = Node(member, stars=0, type=member.base)
        plain = member.stars == 1 and member.base not in ("void", "char")
        return target if plain and self.kind(target) != "struct" else None

    def broken(self, function: Node) -> list[Node]:
        """The port rules that the mutate layer breaks."""
        return [r for r in function.rules if r.checked_by == "port" and r.breaking]

    def condition(self, function: Node, rule: Node) -> str:
        """The C condition of a host rule, with the bytes that host and port both know of a struct.

        A struct that grew in a later minor is known to an older port only as far as its minor goes.
        """
        when = str(rule.when)
        tail = re.search(r"is_dirty\((\w+), sizeof\(\*\w+\)\)", when)
        if tail is None:
            return when
        base = next(p.base for p in function.params if p.name == tail[1])
        known = f"sizeof(*{tail[1]})"
        fields = self.struct(base).fields
        for minor in sorted({f.since for f in fields if f.since}, reverse=True):
            first = next(f.name for f in fields if f.since == minor)
            known = f"hal_layer_minor(self) < {minor} ? offsetof({base}, {first}) : {known}"
        return when.replace(f"sizeof(*{tail[1]})", known)

    def shown(self, function: Node, rule: Node) -> list[tuple[str, str, str]]:
        """Values that explain a refusal: label, printf format, C expression."""
        when, params = rule.when, {p.name: p for p in function.params}
        if tail := re.search(r"is_dirty\((\w+), (.*)\)", self.condition(function, rule)):
            size = f"(unsigned long long)hal_struct_size({tail[1]})"
            known = tail[2] if tail[2].startswith("sizeof") else f"({tail[2]})"
            return [
                ("size", "%llu", size),
                ("known size", "%llu", f"(unsigned long long){known}"),
            ]
        shape = {"unsigned": ("%llu", "unsigned long long"), "signed": ("%lld", "long long"),
                 "handle": ("0x%llx", "unsigned long long")}  # fmt: skip
        result = []
        for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w*(?:->[\w.]+)?", when)):
            name, _, path = word.partition("->")
            if word.endswith("_MINIMUM"):
                result.append((word, "%llu", f"(unsigned long long){word}"))
            hidden = rf"\b{name} == 0" if path else rf"\b{name}(->|\))"
            if name not in params or re.search(hidden, when):
                continue
            member: Any = params[name]
            for leaf in path.split(".") if path else ():
                fields = {f.name: f for f in getattr(self.struct(member.base), "fields", ())}
                if leaf not in fields:
                    raise RegistryError(f"{rule.where}: {word} names no field")
                member = fields[leaf]
            has = f"HAL_HAS({name}, {path})"
            value = f"({has} ? {word} : 0)" if has in when else word
            if (kind := self.kind(member)) in shape:
                result.append((word, shape[kind][0], f"({shape[kind][1]}){value}"))
            elif kind in ("pointer", "text"):
                result.append((word, "%s", f'{value} == 0 ? "NULL" : "given"'))
        return result

    def printed_structs(self) -> list[Node]:
        """The structs that the trace layer shows, those inside others first."""
        params = [p for f in self.registry.functions for p in f.params]
        used = {p.base for p in params if p.dir == "in" and p.stars == 1}
        for struct in reversed(self.registry.all_structs):
            if f"hal_{struct.name}" in used:
                used |= {m.base for m in struct.fields if not m.stars}
        return [s for s in self.registry.all_structs if f"hal_{s.name}" in used]

    def in_order_of_work(self) -> list[Node]:
        """Functions as a port author fills them in: tier by tier, optional ones last."""
        return sorted(self.registry.functions, key=lambda f: (f.tier or 9, f.number))


def environment(registry: Node) -> jinja2.Environment:
    """The template engine with our filters and the registry in it."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    env.filters |= {f.__name__: f for f in (comment, quote, number, fold, remark, pydoc)}
    env.filters["camel"] = lambda text: text.title().replace("_", "")
    env.filters |= {"json": lambda v: json.dumps(v, ensure_ascii=False), "tuple": tuple_text}
    env.globals |= {"r": registry, "facts": Facts(registry), "fit": fit, "layout": layout}
    return env


def render(registry: Node) -> dict[str, str]:
    """Every generated file: path from the repository's root → text."""
    env = environment(registry)
    files = {path: env.get_template(template).render() for template, path in OUTPUTS.items()}
    for interface in registry.interfaces:
        page = env.get_template(PAGE).render(i=interface)
        files[f"{PAGES}/{interface.interface}.md"] = page
    golden = layout.golden(registry, Facts(registry).constants)
    return files | {LAYOUT: json.dumps(golden, indent=1) + "\n"}
