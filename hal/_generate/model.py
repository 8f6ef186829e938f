"""What the registry says, as plain frozen records. `registry` makes them, templates read them."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Member:
    """A field of a struct, or a parameter when `dir` is set. Types are C types."""

    name: str
    type: str
    brief: str
    unit: str = ""
    array: int = 0
    dir: str = ""
    nullable: str = ""
    length_of: str = ""
    owner: str = ""

    @property
    def base(self) -> str:
        """The type without const and stars."""
        return self.type.replace("*", " ").replace("const ", "").strip()

    @property
    def stars(self) -> int:
        """How many pointers lead to the base type."""
        return self.type.count("*")

    @property
    def decl(self) -> str:
        """The C declarator: `const hal_host *host`, `uint8_t data[64]`."""
        gap = "" if self.type.endswith("*") else " "
        return f"{self.type}{gap}{self.name}" + (f"[{self.array}]" if self.array else "")

    @property
    def notes(self) -> str:
        """Direction, unit and owner in brackets, for contracts: `(out, bytes, owner: caller)`."""
        unit = self.unit if self.unit and not self.name.endswith(f"_{self.unit}") else ""
        owner = f"owner: {self.owner}" if self.owner else ""
        null = f"NULL allowed when {self.nullable}" if self.nullable else ""
        return ", ".join(part for part in (self.dir, unit, owner, null) if part)


@dataclass(frozen=True)
class Struct:
    """A C struct. `minimum` names the last field that a caller's size must cover."""

    name: str
    brief: str
    fields: tuple[Member, ...]
    minimum: str = ""
    out: bool = False
    plain: bool = False
    origin: str = ""


@dataclass(frozen=True)
class Value:
    """A named integer."""

    name: str
    value: int
    brief: str


@dataclass(frozen=True)
class Group:
    """Constants that belong together; `kind` is value or flag."""

    group: str
    brief: str
    kind: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Callback:
    """A C function pointer type."""

    name: str
    brief: str
    returns: str
    params: tuple[Member, ...]


@dataclass(frozen=True)
class Rule:
    """One law with an id: who checks it, the status it gives, how it is broken on purpose."""

    id: str
    checked_by: str
    status: str
    text: str
    breaking: str
    mutant: str
    when: str
    function: str
    number: int


@dataclass(frozen=True)
class Function:
    """One entry of an interface's table. `tier` is 0 when the function is optional."""

    interface: str
    verb: str
    brief: str
    guide: str
    tier: int
    fallback: str
    thread: str
    params: tuple[Member, ...]
    returns: tuple[str, ...]
    rules: tuple[Rule, ...]
    number: int

    @property
    def call(self) -> str:
        """The name in messages: `interface.verb`."""
        return f"{self.interface}.{self.verb}"

    @property
    def c(self) -> str:
        """The name in C, without prefix: `interface_verb`."""
        return f"{self.interface}_{self.verb}"

    @property
    def decls(self) -> list[str]:
        """The C parameter declarations."""
        return [p.decl for p in self.params]

    @property
    def names(self) -> list[str]:
        """The parameters' names."""
        return [p.name for p in self.params]

    def length_of(self, name: str) -> str:
        """The parameter that holds the length of parameter `name`, or an empty text."""
        return next((p.name for p in self.params if p.length_of == name), "")


@dataclass(frozen=True)
class Interface:
    """One table of the ABI. `member` is its name in the root, where C++ forbids the plain one."""

    name: str
    number: int
    code: str
    brief: str
    guide: str
    member: str
    constants: tuple[Group, ...]
    structs: tuple[Struct, ...]
    functions: tuple[Function, ...]


@dataclass(frozen=True)
class Registry:
    """The whole ABI."""

    major: int
    minor: int
    handles: tuple[Value, ...]
    statuses: tuple[Value, ...]
    constants: tuple[Group, ...]
    callbacks: tuple[Callback, ...]
    structs: tuple[Struct, ...]
    laws: tuple[Rule, ...]
    interfaces: tuple[Interface, ...]
    files: tuple[str, ...] = field(default=())

    @property
    def groups(self) -> list[Group]:
        """Every group of constants, shared ones first."""
        return [*self.constants, *(g for i in self.interfaces for g in i.constants)]

    @property
    def all_structs(self) -> list[Struct]:
        """Every struct, shared ones first."""
        return [*self.structs, *(s for i in self.interfaces for s in i.structs)]

    @property
    def functions(self) -> list[Function]:
        """Every function in table order."""
        return [f for i in self.interfaces for f in i.functions]

    @property
    def rules(self) -> list[Rule]:
        """Every rule, the shared laws first; a rule's number is its place here."""
        return [*self.laws, *(r for f in self.functions for r in f.rules)]

    def struct(self, type_name: str) -> Struct | None:
        """The struct with C type name `type_name`, if there is one."""
        return next((s for s in self.all_structs if f"hal_{s.name}" == type_name), None)
