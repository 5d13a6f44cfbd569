"""What a function does with its locals, found before it is written.

Enters: a function of the typed tree. Leaves: `Usage`: which locals need an address, and which paths
(`x`, `x.field`) are moved out of somewhere, so that their drop depends on a flag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from vx.sema import tree
from vx.sema.tree import LocalId, PlaceNode

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """`in_memory`: assigned after their `let`, or borrowed. `moved`: field paths moved out, by local."""

    in_memory: frozenset[LocalId]
    moved: dict[LocalId, frozenset[Path]]


_LEAVES = (tree.Const, tree.Str, tree.FnAddr, tree.Local, tree.ModelTensor)
_NODES = (tree.Expr, tree.Stmt, tree.Block, tree.At, tree.Slice, tree.Arm)


@cache
def _child_fields(kind: type[Any]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.name not in ("type", "span"))


def walk(root: Any) -> Iterator[Any]:
    """Every node under `root`, itself included, in no particular order."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack.extend(node)
        elif isinstance(node, _NODES):
            yield node
            if not isinstance(node, _LEAVES):
                kind: Any = type(node)
                stack.extend(getattr(node, name) for name in _child_fields(kind))


def field_path(place: PlaceNode) -> tuple[LocalId, Path] | None:
    """`x.a.b` as a local and field numbers; None for a place that is not inside a local itself."""
    path: list[int] = []
    while isinstance(place, tree.Field):
        path.append(place.index)
        place = place.base
    return (place.id, tuple(reversed(path))) if isinstance(place, tree.Local) else None


def _is_window(node: tree.AddrOf) -> bool:
    """Whether a borrow yields a descriptor of its own, or the elements' address, and not the place's address."""
    pointed = node.type.to if isinstance(node.type, tree.Ptr) else None
    return isinstance(node.place.type, tree.Tensor) and pointed != node.place.type


def scan(function: tree.Function) -> Usage:
    """Go through a function once."""
    in_memory: set[LocalId] = set()
    moved: dict[LocalId, set[Path]] = {}
    for node in walk(function.body):
        if isinstance(node, tree.Assign | tree.OpAssign | tree.AddrOf):
            place = node.place if isinstance(node, tree.AddrOf) else node.target
            found = field_path(place)
            if found and not (isinstance(node, tree.AddrOf) and _is_window(node)):
                in_memory.add(found[0])
        elif isinstance(node, tree.Read) and node.move:
            found = field_path(node.place)
            if found:
                moved.setdefault(found[0], set()).add(found[1])
    return Usage(frozenset(in_memory), {local: frozenset(paths) for local, paths in moved.items()})
