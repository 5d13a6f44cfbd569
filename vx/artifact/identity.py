"""What an executable says of itself: its own hash, its machine file's, and that of the record of its admission.

Enters: a linked ELF file with the section `.vx.identity` (`runtime/identity.c`), still zero. Leaves: the same file with
the section filled in, so that the executable can be checked alone and can name itself in evidence.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

SECTION = b".vx.identity"
WIDTH = 65
"""Bytes of one field: 64 hexadecimal digits and a NUL, or all zero."""
MAGIC = b"\x7fELF\x02\x01"
"""How every executable of ours begins: ELF, 64 bits, little-endian."""
_ARCHES = {62: "x86_64", 183: "aarch64"}
_HEADER_BYTES, _SECTION_HEADER_BYTES = 64, 64


@dataclass(frozen=True, slots=True)
class Identity:
    """`artifact` is SHA-256 of the file with that field zero; `plan` that of the admission record, empty if the program
    places nothing; `machine` that of `machine_digest`, empty if no machine file was read."""

    arch: str
    artifact: str
    machine: str
    plan: str


class IdentityError(ValueError):
    """The file is not an executable that Vx made."""


def plan_digest(record: bytes) -> str:
    """SHA-256 of an admission record; empty if it is that of a program that places nothing.

    Raises `ValueError` (and its subclasses), `KeyError` or `TypeError` if it is no record.
    """
    return sha256(record).hexdigest() if json.loads(record)["resident_sets"] else ""


def seal(executable: Path, machine: str, plan: str) -> None:
    """Write the identity into a linked executable. `machine` and `plan` are SHA-256 in hexadecimal, or empty."""
    data = bytearray(executable.read_bytes())
    at = _section(data)
    for number, text in enumerate(("", machine, plan)):
        _put(data, at + number * WIDTH, text)
    _put(data, at, sha256(data).hexdigest())
    executable.write_bytes(data)


def identity_of(data: bytes) -> Identity:
    """The identity in an executable. Raises `IdentityError` if it has none, or is not what it says it is."""
    at = _section(data)
    (machine,) = struct.unpack_from("<H", data, 18)
    fields = [_text(data[at + number * WIDTH : at + (number + 1) * WIDTH]) for number in range(3)]
    blank = bytearray(data)
    blank[at : at + WIDTH] = bytes(WIDTH)
    if sha256(blank).hexdigest() != fields[0]:
        raise IdentityError("it was altered: its SHA-256 is not the one that it carries")
    return Identity(_ARCHES.get(machine, "unknown"), *fields)


def _put(data: bytearray, at: int, text: str) -> None:
    data[at : at + WIDTH] = text.encode().ljust(WIDTH, b"\0")


def _text(field: bytes) -> str:
    text = field.rstrip(b"\0")
    if text and (len(text) != WIDTH - 1 or text.strip(b"0123456789abcdef")):
        raise IdentityError("its identity is no SHA-256")
    return text.decode()


def _section(data: bytes | bytearray) -> int:
    """Where the section begins in the file."""
    if not data.startswith(MAGIC) or len(data) < _HEADER_BYTES:
        raise IdentityError("it is no executable for 64-bit Linux")
    for name, offset, size in _sections(data):
        if name == SECTION and size == 3 * WIDTH and offset + size <= len(data):
            return offset
    raise IdentityError("it was not made by this version of Vx: it has no identity")


def _sections(data: bytes | bytearray) -> Iterator[tuple[bytes, int, int]]:
    """Name, offset and size of every section. Raises `IdentityError` if the table lies outside the file."""
    (table,) = struct.unpack_from("<Q", data, 40)
    width, count, names = struct.unpack_from("<HHH", data, 58)
    if width != _SECTION_HEADER_BYTES or names >= count or table + width * count > len(data):
        raise IdentityError("its section table is damaged")
    (strings,) = struct.unpack_from("<Q", data, table + width * names + 24)
    for number in range(count):
        header = table + width * number
        (name,) = struct.unpack_from("<I", data, header)
        offset, size = struct.unpack_from("<QQ", data, header + 24)
        start = strings + name
        yield bytes(data[start : start + len(SECTION) + 1]).split(b"\0")[0], offset, size
