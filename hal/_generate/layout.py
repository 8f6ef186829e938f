"""Sizes and offsets as a 64-bit C compiler lays them out; a test compares them with real ones."""

from typing import Any

from hal._generate.model import Member, Registry, Struct
from hal._generate.registry import SCALARS

POINTER_BYTES = 8


def _base_layout(registry: Registry, member: Member) -> tuple[int, int]:
    """Size and alignment of one element of a member."""
    if member.stars:
        return POINTER_BYTES, POINTER_BYTES
    if member.base in SCALARS:
        return SCALARS[member.base], SCALARS[member.base]
    if struct := registry.struct(member.base):
        layout = struct_layout(registry, struct)
        return layout["size"], layout["align"]
    return POINTER_BYTES, POINTER_BYTES  # handles and callbacks


def struct_layout(registry: Registry, struct: Struct) -> dict[str, Any]:
    """Size, alignment, and offset and size of each field."""
    offset, align, fields = 0, 1, {}
    for member in struct.fields:
        size, own = _base_layout(registry, member)
        offset = -(-offset // own) * own
        fields[member.name] = {"offset": offset, "size": size * (member.array or 1)}
        offset += size * (member.array or 1)
        align = max(align, own)
    return {"size": -(-offset // align) * align, "align": align, "fields": fields}


def minimum(registry: Registry, struct: Struct) -> int:
    """Bytes that a caller's size must cover: up to the end of the field `minimum`."""
    last = struct_layout(registry, struct)["fields"][struct.minimum]
    return int(last["offset"] + last["size"])


def tables(registry: Registry) -> dict[str, list[str]]:
    """Members of each function table and of the root, after their size, in order."""
    result = {f"{i.name}_table": [f.verb for f in i.functions] for i in registry.interfaces}
    head = ["abi_major", "abi_minor", "name", "vendor", "version", "build_id"]
    return result | {"port_root": head + [i.member for i in registry.interfaces]}


def golden(registry: Registry, constants: dict[str, int]) -> dict[str, Any]:
    """The layout file's content: ABI version, constants, structs, tables."""
    structs = {}
    for struct in registry.all_structs:
        layout = struct_layout(registry, struct)
        structs[f"hal_{struct.name}"] = {"size": layout["size"], "fields": layout["fields"]}
    for name, members in tables(registry).items():
        offsets = {"size": {"offset": 0, "size": 8}}
        at = 8
        for member in members:
            width = 4 if member.startswith("abi_") else POINTER_BYTES
            offsets[member] = {"offset": at, "size": width}
            at += width
        structs[f"hal_{name}"] = {"size": at, "fields": offsets}
    abi = {"major": registry.major, "minor": registry.minor}
    return {"abi": abi, "constants": constants, "structs": structs}
