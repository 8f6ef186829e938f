"""What every check of a resolved tree needs: ways into it, and a list for its problems."""

from __future__ import annotations

from typing import Any

from hal.hcd.scan import Node, Problem, one_line
from hal.hcd.schema import nearest

__all__ = ["Checker", "at", "items", "text", "value", "words"]


def at(node: Node | None, *keys: str) -> Node | None:
    """The node below by keys; None when something on the way is missing or no mapping."""
    for key in keys:
        if node is None or not isinstance(node.value, dict):
            return None
        node = node.value.get(key)
    return node


def value(node: Node | None, *keys: str) -> Any:
    """The scalar below by keys, or None."""
    found = at(node, *keys)
    return found.value if found is not None else None


def text(node: Node | None, *keys: str) -> str:
    """The text below by keys, or an empty one."""
    found = value(node, *keys)
    return found if isinstance(found, str) else ""


def items(root: Node | None, *keys: str) -> list[tuple[str, Node]]:
    """The objects of a list with their ids; what is no object or has no id is left out."""
    found = at(root, *keys)
    if found is None or not isinstance(found.value, list):
        return []
    return [(text(item, "id"), item) for item in found.value if text(item, "id")]


def words(node: Node | None, *keys: str) -> list[Node]:
    """The items of a list of scalars that are texts."""
    found = at(node, *keys)
    if found is None or not isinstance(found.value, list):
        return []
    return [item for item in found.value if isinstance(item.value, str)]


class Checker:
    """Collects the problems of one tree."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.problems: list[Problem] = []

    def refuse(self, node: Node, path: str, what: str) -> None:
        """Adds a problem at a node."""
        self.problems.append(Problem(node.mark, one_line(path, 200), what))

    def reference(self, owner: Node, path: str, key: str, choices: list[str], what: str) -> None:
        """Refuses a text that is not the id of one of the choices."""
        node = at(owner, key)
        if node is None or not isinstance(node.value, str) or node.value in choices:
            return
        some = ", ".join(choices) or "there is none"
        hint = nearest(node.value, list(choices))
        self.refuse(node, f"{path}.{key}", f"'{one_line(node.value)}' is no {what}; {some}{hint}")
