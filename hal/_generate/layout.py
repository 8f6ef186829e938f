"""Sizes and offsets as a 64-bit C compiler lays them out; a test compares them with real ones."""

from typing import Any

from hal._generate.registry import SCALARS, Node

POINTER_BYTES = 8
ROOT = {"size": 8, "abi_major": 4, "abi_minor": 4}
ROOT |= dict.fromkeys(("name", "vendor", "version", "build_id"), POINTER_BYTES)


def _lay_out(members: list[tuple[str, int, int, int]]) -> dict[str, Any]:
    """Place members (name, element size, alignment, count) one after the other."""
    offset, align, fields = 0, 1, {}
    for name, size, own, count in members:
        offset = -(-offset // own) * own
        fields[name] = {"offset": offset, "size": size * count}
        offset += size * count
        align = max(align, own)
    return {"size": -(-offset // align) * align, "align": align, "fields": fields}


def struct_layout(registry: Node, struct: Node) -> dict[str, Any]:
    """Size, alignment, and offset and size of each field."""
    members = []
    inner = {f"hal_{s.name}": s for s in registry.all_structs}
    for member in struct.fields:
        size = align = (
            SCALARS.get(member.base, POINTER_BYTES) if not member.stars else POINTER_BYTES
        )
        if not member.stars and member.base in inner:
            nested = struct_layout(registry, inner[member.base])
            size, align = nested["size"], nested["align"]
        members.append((member.name, size, align, member.array or 1))
    return _lay_out(members)


def minimum(registry: Node, struct: Node) -> int:
    """Bytes that a caller's size must cover: up to the end of the field `minimum`."""
    last = struct_layout(registry, struct)["fields"][struct.minimum]
    return int(last["offset"] + last["size"])


def golden(registry: Node, constants: dict[str, int]) -> dict[str, Any]:
    """The layout file's content: ABI version, constants, structs, tables and root."""
    found = {f"hal_{s.name}": struct_layout(registry, s) for s in registry.all_structs}
    for interface in registry.interfaces:
        names = ["size", *(f.name for f in interface.functions)]
        found[f"hal_{interface.interface}_table"] = _lay_out([(n, 8, 8, 1) for n in names])
    root = ROOT | {interface.member: POINTER_BYTES for interface in registry.interfaces}
    found["hal_port_root"] = _lay_out([(n, w, w, 1) for n, w in root.items()])
    structs = {n: {"size": s["size"], "fields": s["fields"]} for n, s in found.items()}
    return {"abi": registry.abi, "constants": constants, "structs": structs}
