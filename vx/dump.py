"""Any of the compiler's structures as indented text, for `vx emit` and for tests.

Enters: dataclasses, tuples and mappings of plain values. Leaves: one line per node, children indented
below it; spans are left out, small nodes stand on one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from vx.diagnostics.span import Span

_WIDTH = 100


def dump(value: object) -> str:
    """The text of `value`, ending in a line break."""
    return "\n".join(_lines(value, "", "")) + "\n"


def _lines(value: object, indent: str, label: str) -> Iterator[str]:
    flat = _flat(value, _WIDTH - len(indent) - len(label))
    parts = None if flat is not None else _parts(value)
    if parts is None:
        yield f"{indent}{label}{flat if flat is not None else repr(value)}"
        return
    if is_dataclass(value):
        yield f"{indent}{label}{type(value).__name__}"
    elif label:
        yield f"{indent}{label.rstrip()}"
    for name, part in parts:
        yield from _lines(part, indent + "  ", f"{name}: " if name else "")


def _parts(value: object) -> list[tuple[str, object]] | None:
    """The named parts of a node, the unnamed ones of a sequence; None for a plain value."""
    if is_dataclass(value) and not isinstance(value, type):
        named = [(field.name, getattr(value, field.name)) for field in fields(value)]
        return [(name, part) for name, part in named if not isinstance(part, Span) and part is not None and part != ()]
    if isinstance(value, Mapping):
        return [(str(name), part) for name, part in value.items()]
    if isinstance(value, tuple | list):
        return [("", part) for part in value]
    return None


def _flat(value: object, room: int) -> str | None:
    """The value on one line, or None if that takes more than `room` characters."""
    parts = _parts(value)
    if parts is None:
        text = repr(value)
        return text if len(text) <= room else None
    opening = f"{type(value).__name__}(" if is_dataclass(value) else "["
    words: list[str] = []
    left = room - len(opening) - 1
    for name, part in parts:
        label = f"{name}=" if name else ""
        word = _flat(part, left - len(label))
        if word is None:
            return None
        words.append(label + word)
        left -= len(words[-1]) + 2
    text = opening + ", ".join(words) + (")" if is_dataclass(value) else "]")
    return text if len(text) <= room else None
