"""Sizes of types in memory on the host: what `sizeof<T>()` says."""

from __future__ import annotations

from vx.sema import tree
from vx.sema.context import Session

_POINTER = 8


def size_of(session: Session, type_: tree.Type) -> int:
    """Bytes that a value of the type takes, padding included."""
    return _layout(session, type_)[0]


def _layout(session: Session, type_: tree.Type) -> tuple[int, int]:
    """Size and alignment in bytes."""
    match type_:
        case tree.Void() | tree.Never():
            return 0, 1
        case tree.Scalar(name=name):
            size = max(1, tree.BITS[name] // 8)
            return size, size
        case tree.Ptr():
            return _POINTER, _POINTER
        case tree.Ref(to=to):
            return _layout(session, to) if isinstance(to, tree.Tensor) else (_POINTER, _POINTER)
        case tree.Tensor(dims=dims):
            return _POINTER + 16 * len(dims), _POINTER
        case tree.Struct(key=key):
            return _sequence(session, [t for _, t in session.structs[key].fields])
        case tree.Enum(key=key):
            return _enum(session, key)


def _sequence(session: Session, types: list[tree.Type]) -> tuple[int, int]:
    size, alignment = 0, 1
    for type_ in types:
        inner, align = _layout(session, type_)
        size = -(-size // align) * align + inner
        alignment = max(alignment, align)
    return -(-size // alignment) * alignment, alignment


def _enum(session: Session, key: str) -> tuple[int, int]:
    payloads = [_sequence(session, list(items)) for _, items in session.enums[key].variants]
    size = max((s for s, _ in payloads), default=0)
    align = max((a for _, a in payloads), default=1)
    alignment = max(4, align)
    start = -(-4 // align) * align
    return -(-(start + size) // alignment) * alignment, alignment
