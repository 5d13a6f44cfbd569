"""What lies in an artifact: its members one after the other, those of a folder here, those of an archive in `archive.py`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from vx.artifact.errors import UNREADABLE, ArtifactError
from vx.artifact.manifest import File

FILE, FOLDER = "a file", "a folder"
BLOCK = 1 << 20
"""Bytes that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Member:
    """`kind` is `FILE`, `FOLDER`, or in words what else it is. `blocks` gives the bytes of a file; it may raise
    `ArtifactError`."""

    name: str
    kind: str
    size: int
    blocks: Callable[[], Iterator[bytes]]


def folder_members(root: Path) -> Iterator[Member]:
    """Everything under a folder, links not followed, in the order of names. E9201 if a folder cannot be read."""
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError as error:
            raise unreadable(root / folder, error) from error
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            member = _member(root / name, name)
            yield member
            if member.kind == FOLDER:
                pending.append(name)


def _member(path: Path, name: str) -> Member:
    try:
        found = path.lstat()
    except OSError as error:
        raise unreadable(path, error) from error
    return Member(name, _kind(found.st_mode), found.st_size, partial(file_blocks, path))


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return FILE
    if stat.S_ISDIR(mode):
        return FOLDER
    return "a link" if stat.S_ISLNK(mode) else "a device or pipe"


def file_blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, block by block. E9201 if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            while block := stream.read(BLOCK):
                yield block
    except OSError as error:
        raise unreadable(path, error) from error


def file_of(path: Path) -> File:
    """Size and SHA-256 of a file. E9201 if it cannot be read."""
    size, digest = 0, sha256()
    for block in file_blocks(path):
        size += len(block)
        digest.update(block)
    return File(size, digest.hexdigest())


def unreadable(path: Path, error: OSError) -> ArtifactError:
    """The error E9201 for what the system says."""
    return ArtifactError(UNREADABLE, str(path), f"it cannot be read: {error.strerror or error}")
