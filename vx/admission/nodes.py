"""Walking nodes of the typed program without knowing each kind.

Enters: a node. Leaves: what stands in it. Every node is a dataclass with slots, so a class's own `__slots__` are
its fields without `type` and `span`.
"""

from __future__ import annotations

from collections.abc import Iterator

from vx.sema import tree


def root_of(place: tree.PlaceNode) -> tuple[tree.PlaceNode, tuple[int, ...]]:
    """The place that fields are taken of, and which."""
    path: list[int] = []
    while isinstance(place, tree.Field):
        path.append(place.index)
        place = place.base
    return place, tuple(reversed(path))


def behind_pointer(place: tree.PlaceNode) -> bool:
    """Whether a place that is no local is reached through a raw pointer (and not a reference)."""
    while isinstance(place, tree.Field | tree.Index):
        place = place.base
    return isinstance(place, tree.Deref) and isinstance(place.ref.type, tree.Ptr)


def is_raw(place: tree.PlaceNode) -> bool:
    """`*p` or `p[i]` of a raw pointer: storage for a value, as opposed to a part of what lies there."""
    base = place.base if isinstance(place, tree.Index) and place.type == place.base.type else place
    return isinstance(base, tree.Deref) and isinstance(base.ref.type, tree.Ptr)


def parts_of(node: tree.Expr | tree.Stmt | tree.At | tree.Slice) -> Iterator[tree.Value | tree.PlaceNode]:
    """The values and places directly inside a node, in order; blocks are not entered."""
    for name in _fields(node):
        item = getattr(node, name)
        if isinstance(item, tree.Expr | tree.At | tree.Slice | tuple):  # most fields are names and numbers
            yield from _flat(item)


def locals_read(body: tree.Block) -> Iterator[tree.LocalId]:
    """Every local that is mentioned, other than by its own `let`. Not recursive."""
    pending: list[object] = [body]
    while pending:
        here = pending.pop()
        if isinstance(here, tree.Local):
            yield here.id
        elif isinstance(here, tuple):
            pending.extend(here)
        elif isinstance(here, tree.Expr | tree.Stmt | tree.Block | tree.At | tree.Slice | tree.Arm):
            pending.extend(getattr(here, name) for name in _fields(here))


def _fields(node: object) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(type(node), "__slots__", ())
    return names


def _flat(item: object) -> Iterator[tree.Value | tree.PlaceNode]:
    if isinstance(item, tree.Expr):
        assert isinstance(item, tree.Value | tree.PlaceNode)
        yield item
    elif isinstance(item, tree.At | tree.Slice):
        yield from parts_of(item)
    elif isinstance(item, tuple):
        for inner in item:
            yield from _flat(inner)
