"""The weights file: safetensors, with every tensor on a 64-byte boundary.

Enters: a file, or tensors to write. Leaves: checked `Entry`s, or a file. The format is an 8-byte
little-endian length, that many bytes of JSON, then the tensors' bytes without holes. The usual library
orders tensors by itself and does not align them, so writing is done here: the header is padded with
blanks and gaps are filled by u8 tensors named `pad.N`, which keeps the file valid for every reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from vx.model.architecture import parse_json
from vx.model.errors import ModelError, printable, reading

ALIGNMENT = 64
HEADER_LIMIT = 16 << 20
"""Bytes of the longest header read."""

DTYPES: Mapping[str, tuple[str, int]] = {
    "F64": ("f64", 8),
    "F32": ("f32", 4),
    "F16": ("f16", 2),
    "BF16": ("bf16", 2),
    "I64": ("i64", 8),
    "I32": ("i32", 4),
    "I16": ("i16", 2),
    "I8": ("i8", 1),
    "U8": ("u8", 1),
    "BOOL": ("bool", 1),
}
"""safetensors' name of an element type: ours, and its bytes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a weights file; `offset` in bytes from the start of the file."""

    elem: str
    dims: tuple[int, ...]
    offset: int
    bytes: int


# ---- reading -----------------------------------------------------------------------------------
def read_header(path: Path) -> dict[str, Entry]:
    """The checked header of a weights file. E9101 and E9111 no file, E9104 a header that is damaged or lies."""
    with reading(path, "weights file"), path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        text, data = _header_text(file, size, path)
    source = f"the header of `{printable(path)}`"
    header = parse_json(text, source, code="E9104")
    header.pop("__metadata__", None)
    entries = {name: _entry(name, fields, data, size, source) for name, fields in header.items()}
    _refuse_overlaps(entries, data, size, source)
    return entries


def _header_text(file: BinaryIO, size: int, path: Path) -> tuple[bytes, int]:
    """The JSON text and the offset at which tensors begin."""
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise ModelError("E9104", f"`{printable(path)}` is truncated or not a safetensors file ({size} bytes)")
    if length > HEADER_LIMIT:
        raise ModelError(
            "E9104", f"`{printable(path)}`: the header claims {length} bytes, more than {HEADER_LIMIT} allowed"
        )
    return file.read(length), 8 + length


def _entry(name: str, fields: Any, data: int, size: int, source: str) -> Entry:
    def refuse(message: str) -> ModelError:
        return ModelError("E9104", f"{source}: tensor `{printable(name)[:60]}` {message}")

    if not isinstance(fields, dict):
        raise refuse("is not described by an object")
    dtype, dims, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise refuse(f"has the unknown element type `{dtype!s:.20}`")
    if not _naturals(dims) or len(dims) > 8:
        raise refuse("has a shape that is not a short list of natural numbers")
    if not _naturals(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise refuse("has offsets that are not two ascending natural numbers")
    if offsets[1] > size - data:
        raise refuse(f"ends at byte {offsets[1]} of the data, which has only {size - data}")
    elem, elem_bytes = DTYPES[dtype]
    if prod(dims) * elem_bytes != offsets[1] - offsets[0]:
        raise refuse(f"has {offsets[1] - offsets[0]} bytes, but its shape needs {prod(dims) * elem_bytes}")
    return Entry(elem, tuple(dims), data + offsets[0], offsets[1] - offsets[0])


def _naturals(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 62 for value in values)


def _refuse_overlaps(entries: Mapping[str, Entry], data: int, size: int, source: str) -> None:
    """Tensors must cover the data without holes or overlap, as the format demands."""
    end = data
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].offset, item[1].bytes)):
        if entry.offset != end:
            what = "overlaps the one before it" if entry.offset < end else "leaves a hole before it"
            raise ModelError("E9104", f"{source}: tensor `{printable(name)[:60]}` {what}")
        end += entry.bytes
    if end != size:
        raise ModelError("E9104", f"{source}: {size - end} bytes after the last tensor belong to none")


# ---- writing -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Spec:
    """A tensor to be written: name, element type, dimensions."""

    name: str
    elem: str
    dims: tuple[int, ...]

    @property
    def bytes(self) -> int:
        sizes = dict(DTYPES.values())
        return prod(self.dims) * sizes[self.elem]


def layout(specs: Sequence[Spec]) -> tuple[bytes, tuple[Spec, ...]]:
    """The file's first bytes (length and header), and the specs in file order with the padding between them."""
    ordered: list[Spec] = []
    fields: dict[str, Any] = {"__metadata__": {"format": "vx"}}
    names = {elem: dtype for dtype, (elem, _) in DTYPES.items()}
    at = 0
    for spec in specs:
        gap = -at % ALIGNMENT
        padding = [Spec(f"pad.{len(ordered)}", "u8", (gap,))] if gap else []
        for item in (*padding, spec):
            fields[item.name] = {
                "dtype": names[item.elem],
                "shape": list(item.dims),
                "data_offsets": [at, at + item.bytes],
            }
            at += item.bytes
            ordered.append(item)
    text = json.dumps(fields, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text, tuple(ordered)


def write_container(file: BinaryIO, specs: Sequence[Spec], parts: Mapping[str, Iterable[bytes]]) -> None:
    """Write the tensors `specs`, the bytes of each taken in pieces from `parts`; bounded memory.

    Raises `ValueError` if the pieces of a tensor do not add up to its size, and what the file raises.
    """
    head, ordered = layout(specs)
    file.write(head)
    for spec in ordered:
        written = 0
        for piece in parts.get(spec.name, (bytes(spec.bytes),)):
            file.write(piece)
            written += memoryview(piece).nbytes
        if written != spec.bytes:
            raise ValueError(f"tensor {spec.name}: {written} bytes given for {spec.bytes}")
