"""The text of a group: the loops over its rows, their segments, and the elements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from hal.codegen.dialect.access import Access
from hal.codegen.dialect.elements import binary, cast, unary
from hal.codegen.dialect.group import Group, Member
from hal.codegen.dialect.language import Dialect, filled
from hal.dtypes import DType
from hal.vil.model import TileRef

__all__ = ["Loop", "stop_together"]

UNDEFINED = 1
STREAM_ELEMENTS = 256  # That one use of the dialect's `stream` copies, at most.


def stop_together(language: Dialect) -> str:
    """Ends an instance in which a lane met a fault: all lanes look before any goes on."""
    return f"{{ const i32 stop = hal_bad; {language.barrier}; if (stop) return; }}"


class Loop:
    """Writes the loop of a complete group."""

    def __init__(self, group: Group) -> None:
        self.scope = group.scope
        self.shape = group.shape
        self.region = group.region
        self.members = group.members
        self.folded = group.folded

    def write(self, live: frozenset[int]) -> None:
        """Writes the loop; `live` are the tiles that are read behind the group."""
        scope = self.scope
        kept = self._kept(live)
        rows, columns = self.region
        accesses = [member for member in self.members if member.access is not None]
        folds = [member for member in self.members if member.fold is not None]
        firsts: dict[tuple[object, ...], Access] = {}
        for member in accesses:
            assert member.access is not None
            member.access.share(firsts.setdefault(member.access.place, member.access))
        if scope.language.is_group:
            self._lanes(kept, accesses, folds)
            return
        if self._is_column(accesses, folds):
            with scope.block(""):
                scope.add(f"const i64 run = {rows} * {columns};")
                self._plain_loop("run", "0", "n", kept)
            return
        if self._lock:
            scope.add(f"hal_lock({self._lock});")
        with scope.block(f"for (i64 i = 0; i < {rows}; ++i)"):
            self._row("0", columns, kept, accesses, folds)
        if self._lock:
            scope.add(f"hal_unlock({self._lock});")

    @property
    def _lock(self) -> str:
        """The word that keeps rows of SCATTER set whole; empty where nothing can mix them."""
        if not any(m.item.op == "scatter" and m.item.function == "set" for m in self.members):
            return ""
        if not self.scope.language.is_group:
            return "&hal_word"
        return f"({self.scope.language.space('global')}volatile u32 *)(hal_state + 1)"

    def _kept(self, live: frozenset[int]) -> dict[int, int]:
        """Position in `members` of each last write to a tile that must reach memory."""
        last: dict[int, int] = {}
        for number, member in enumerate(self.members):
            if member.result and member.item.d is not None:
                last[member.item.d.tile] = number
        tiles = self.scope.program.tiles
        kept = {
            number: tile for tile, number in last.items() if tile in live or tiles[tile].stages > 1
        }
        for tile in kept.values():
            if tiles[tile].stages == 1:
                self.scope.pointer(TileRef(tile))
        return kept

    def _is_column(self, accesses: list[Member], folds: list[Member]) -> bool:
        """True for tiles of one column that are walked as one row."""
        plain = all(member.item.op not in ("iota", "rng") for member in self.members)
        return self.shape[1] == 1 and self.shape[0] > 1 and plain and not (accesses or folds)

    def _lanes(self, kept: dict[int, int], accesses: list[Member], folds: list[Member]) -> None:
        """Spreads rows, and parts of rows, over the lanes of an instance."""
        scope = self.scope
        rows, columns = self.region
        ids = scope.language.ids
        serial = any(member.item.op == "scatter" for member in self.members)
        parts = 1 if folds or serial else max(1, min(self.shape[1], 256 // self.shape[0]))
        width = -(-self.shape[1] // parts)
        first, step = ("0", "1") if serial else (ids["lane"], ids["lanes"])
        with ExitStack() as stack:
            if serial:
                stack.enter_context(scope.block(f"if ({ids['lane']} == 0)"))
            if self._lock:
                scope.add(f"hal_lock({self._lock});")
                stack.callback(scope.add, f"hal_unlock({self._lock});")
            head = f"for (i64 w = {first}; w < {rows} * {parts}; w += {step})"
            stack.enter_context(scope.block(head))
            if parts == 1:
                scope.add("const i64 i = w;")
                self._row("0", columns, kept, accesses, folds)
            else:
                scope.add(
                    f"const i64 i = w / {parts}, begin = w % {parts} * {width};",
                    f"const i64 end = begin + {width} < {columns} ? begin + {width} : {columns};",
                )
                self._row("begin", "end", kept, accesses, folds)
        scope.add(f"{scope.language.barrier};")
        if any(member.access.faults for member in accesses if member.access is not None):
            scope.add(stop_together(scope.language))

    def _row(
        self,
        begin: str,
        end: str,
        kept: dict[int, int],
        accesses: list[Member],
        folds: list[Member],
    ) -> None:
        scope = self.scope
        for member in accesses:
            assert member.access is not None
            if not member.access.is_shared:
                scope.add(*member.access.at_row("i", self._index(member)))
        for member in folds:
            assert member.fold is not None
            scope.add(*member.fold.begin())
        if not accesses:
            scope.add(f"const i64 run = {end} - {begin};")
            self._plain_loop("run", begin, "n", kept)
        else:
            with scope.block(f"for (i64 j = {begin}; j < {end};)"):
                self._segment(end, kept, accesses)
        for member in folds:
            assert member.fold is not None and member.item.d is not None
            scope.add(f"{member.pointers['d']}[i] = {member.fold.end()};")

    def _index(self, member: Member) -> str:
        """GATHER's and SCATTER's index of a row."""
        role = {"gather": "a", "scatter": "b"}.get(member.item.op)
        return "0" if role is None else f"(i64){member.pointers[role]}[i]"

    def _segment(self, end: str, kept: dict[int, int], accesses: list[Member]) -> None:
        scope = self.scope
        scope.add(f"i64 run = {end} - j;")
        checks: dict[int, list[str]] = {}
        if any(m.access is not None and m.access.big for m in accesses):
            scope.add("i32 bad = 0;")
        for member in accesses:
            assert member.access is not None
            if not member.access.is_shared:
                scope.add(*member.access.at_segment("j", "i"))
            if member.access.big and member.access.faults:
                scope.add(f"if (bad) {self._fault(member)}")
        for member in accesses:
            assert member.access is not None
            if member.access.faults:
                checks[member.position] = [f"if ({member.access.check()}) {self._fault(member)}"]
        for lines in checks.values():
            scope.add(*lines)
        flags = [f"{m.access.name}_on" for m in accesses if m.access is not None]
        near = any(member.near for member in accesses)
        if near:
            self._plain_loop("run", "j", "n", kept, select=True)
        else:
            with scope.block(f"if ({' & '.join(dict.fromkeys(flags))})", "} else {"):
                if any(self._streams(member) for member in self.members):
                    self._stream_loop(kept)
                else:
                    self._plain_loop("run", "j", "n", kept)
            scope.level += 1
            self._plain_loop("run", "j", "n", kept, select=True)
            scope.level -= 1
            scope.add("}")
        scope.add("j += run;")

    def _fault(self, member: Member) -> str:
        code = member.position * 256 + UNDEFINED
        assert member.access is not None
        if self.scope.language.is_group:
            return f"{{ hal_state[0] = {code} + 1; hal_bad = 1; break; }}"
        if self._lock:
            return f"{{ hal_unlock({self._lock}); return {code} + 1; }}"
        return f"return {code} + 1;"

    def _streams(self, member: Member) -> bool:
        """True for a STORE past the caches of elements that lie side by side."""
        return (
            bool(self.scope.language.stream)
            and not self.scope.language.is_group
            and member.item.op == "store"
            and "stream" in member.item.flags
            and member.near is None
            and member.access is not None
            and member.access.step == "1"
            and not self.folded
        )

    def _stream_loop(self, kept: dict[int, int]) -> None:
        """Walks a segment in parts that end where the memory of the first STORE has a boundary.

        A part of a STORE is made in a room and copied from there at once.
        """
        scope = self.scope
        scope.streams = True
        places: list[tuple[Member, str, int]] = []  # Where the part of a STORE begins; bytes each.
        for member in filter(self._streams, self.members):
            assert member.access is not None and member.item.a is not None
            place = f"&{member.data}[{member.access.element('part')}]"
            places.append((member, place, self._dtype(member.item.a).bytes))
        _, first, size = places[0]
        length = f"{STREAM_ELEMENTS} - (i64)((u64){first} / {size} % {STREAM_ELEMENTS})"
        with scope.block("for (i64 part = 0, end; part < run; part = end)"):
            for member, _, _ in places:
                member.room = scope.fresh("room")
                scope.add(f"{self._kind(member.item.a)} {member.room}[{STREAM_ELEMENTS}];")
            scope.add(f"end = hal_least(run, part + {length});")
            self._plain_loop("end", "j", "n", kept, start="part")
            for member, place, size in places:
                count = f"(u64)(end - part) * {size}"
                words = {"to": place, "from": member.room, "bytes": count}
                scope.add(filled(scope.language.stream, **words))
                member.room = ""

    def _kind(self, reference: TileRef | None) -> str:
        """The type that holds an element of a tile."""
        assert reference is not None
        return self.scope.language.stored(self._dtype(reference))

    def _plain_loop(
        self,
        run: str,
        begin: str,
        number: str,
        kept: dict[int, int],
        *,
        select: bool = False,
        start: str = "0",
    ) -> None:
        scope = self.scope
        folds = [member.fold for member in self.members if member.fold is not None]
        serial = any(member.item.op == "scatter" for member in self.members)
        hint = ""
        if folds and all(fold.clauses for fold in folds):
            clauses = " ".join(clause for fold in folds for clause in fold.clauses)
            hint = filled(scope.language.reduction, clauses=clauses)
        elif not folds and not serial:
            hint = scope.language.independent
        if hint:
            scope.lines.append(hint)
        with scope.block(f"for (i64 {number} = {start}; {number} < {run}; ++{number})"):
            column = number if begin == "0" else f"({begin} + {number})"
            for position, member in enumerate(self.members):
                for line in self._element(member, column, number, select):
                    scope.add(line)
                if position in kept:
                    at = self._at(member.item.d, column)
                    kind = self._kind(member.item.d)
                    scope.add(f"{member.pointers['d']}{at} = ({kind}){member.result};")

    def _dtype(self, reference: TileRef) -> DType:
        return self.scope.program.tiles[reference.tile].dtype

    def _at(self, reference: TileRef | None, column: str) -> str:
        """Subscript of a tile's element for row i of the loop."""
        assert reference is not None
        tile = self.scope.program.tiles[reference.tile]
        rows, columns = self.shape
        if columns == 1 and rows > 1 and "i" not in self._loops():
            return f"[{column}]" if tile.rows == rows else "[0]"
        parts = []
        if tile.rows == rows and rows > 1:
            parts.append("i" if tile.columns == 1 else f"i * {tile.columns}")
        if tile.columns == columns and columns > 1:
            parts.append(column)
        return f"[{' + '.join(parts) or '0'}]"

    def _loops(self) -> str:
        accesses = [member for member in self.members if member.access is not None]
        folds = [member for member in self.members if member.fold is not None]
        if not self.scope.language.is_group and self._is_column(accesses, folds):
            return "n"
        return "in"

    def _read(self, member: Member, role: str, column: str) -> str:
        """The element of an operand: a variable of the group, or memory."""
        reference: TileRef = getattr(member.item, role)
        text = member.pointers[role]
        if not text.startswith("="):
            return f"{text}{self._at(reference, column)}"
        return text[1:]

    # --- one element -----------------------------------------------------------------------------

    def _element(self, member: Member, column: str, number: str, select: bool) -> Iterator[str]:
        item = member.item
        if item.op in ("store", "scatter"):
            yield from self._write_out(member, column, number, select)
            return
        if member.fold is not None:
            assert item.a is not None
            yield from member.fold.step(self._read(member, "a", column))
            return
        assert item.d is not None
        dtype = self._dtype(item.d)
        kind = "i32" if dtype.kind == "bool" else self.scope.language.stored(dtype)
        yield f"const {kind} {member.result} = {self._value(member, column, number, select)};"

    def _value(self, member: Member, column: str, number: str, select: bool) -> str:
        item = member.item
        language = self.scope.language
        assert item.d is not None
        target = self._dtype(item.d)
        v = member.values
        if item.op in ("load", "gather"):
            return self._load(member, number, select)
        if item.op == "fill":
            return member.fill
        if item.op == "iota":
            moved = f"(u64){v[0]} + (u64){v[1]} * (u64)i + (u64){v[2]} * (u64){column}"
            return f"({target.name})({moved})"
        if item.op == "rng":
            element = f"(u64){v[0]} + (u64)i * (u64){v[1]} + (u64){column}"
            raw = f"hal_philox({element}, (u64){v[2]}, (u64){v[3]})"
            return f"(i32){raw}" if item.function == "raw" else f"(f32)({raw} >> 8) * 0x1p-24f"
        assert item.a is not None
        source = self._dtype(item.a)
        a = self._read(member, "a", column)
        if item.op == "copy":
            return a
        if item.op == "un":
            return unary(language, item.function, a, source)
        if item.op == "cast":
            return cast(language, a, source, target, "saturate" in item.flags)
        b = self._read(member, "b", column)
        if item.op == "bin":
            return binary(language, item.function, a, b, source)
        return f"{a} ? {b} : {self._read(member, 'c', column)}"

    def _load(self, member: Member, number: str, select: bool) -> str:
        access = member.access
        assert access is not None
        found = f"{member.data}[{access.element(number)}]"
        if not select:
            return found
        return f"{self._inside(member, number)} ? {found} : {member.fill}"

    def _inside(self, member: Member, number: str) -> str:
        access = member.access
        assert access is not None
        flag = f"{access.name}_on"
        if member.near is None:
            return flag
        rows, columns, width = member.near
        place = access.element(number)
        return f"({flag} && hal_is_valid({place}, {width}, {rows}, {columns}))"

    def _write_out(self, member: Member, column: str, number: str, select: bool) -> Iterator[str]:
        access, item = member.access, member.item
        assert access is not None and item.a is not None
        value = self._read(member, "a", column)
        target = f"{member.data}[{access.element(number)}]"
        if member.room:
            target = f"{member.room}[{number} - part]"
        lead = f"if ({self._inside(member, number)}) " if select else ""
        kind = self._kind(item.a)
        if item.op == "scatter" and item.function != "set":
            name = f"hal_scatter_{item.function}_{kind}"
            yield f"{lead}{name}(&{target}, {value});"
        else:
            yield f"{lead}{target} = ({kind}){value};"
