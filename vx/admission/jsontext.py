"""JSON as records have it: two-space indent at top level, one record a line, numbers as they are written.

Enters: the fields of a document. Leaves: text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from vx.diagnostics.render import encodable

_plain = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Number:
    """A decimal number that must keep its digits, such as `0.1200`; a field of a record."""

    text: str


def document(fields: Mapping[str, object]) -> str:
    """An object whose fields stand on lines of their own, and the elements of lists in it too."""
    lines = (f"  {_plain(name)}: {_field(value)}" for name, value in fields.items())
    return encodable("{\n" + ",\n".join(lines) + "\n}\n")


def _field(value: object) -> str:
    if not isinstance(value, list) or not value:
        return _plain(value)
    return "[\n" + ",\n".join(f"    {_record(item)}" for item in value) + "\n  ]"


def _record(item: object) -> str:
    if not isinstance(item, dict) or not any(isinstance(value, Number) for value in item.values()):
        return _plain(item)
    return "{" + ", ".join(f"{_plain(name)}: {_value(value)}" for name, value in item.items()) + "}"


def _value(value: object) -> str:
    return value.text if isinstance(value, Number) else _plain(value)
