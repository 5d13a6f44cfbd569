"""The artifact as one file: tar in gzip, the same bytes wherever and whenever it is made.

Enters: names and files, or an archive from anywhere. Leaves: the archive, or its members, one after the other, in bounded
memory. Reading takes only what writing makes, plain files and GNU's long names, and folders. What else tar knows (links,
devices, other extensions) no artifact has, and nothing is ever extracted.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO

from vx.artifact.errors import ARCHIVE, ArtifactError
from vx.artifact.manifest import File
from vx.artifact.member import BLOCK, FILE, FOLDER, Member, unreadable

SUFFIXES = (".tar.gz", ".tgz")
GZIP = b"\x1f\x8b"
"""How every archive begins."""
_UNIT = tarfile.BLOCKSIZE
_END = bytes(2 * _UNIT)
_MTIME = 315532800
"""1980-01-01: the time of every member. Tools warn of times before it."""
_STORED = 16 << 20
"""Bytes from which on a file is not compressed: it is weights, which hardly shrink and take long."""
_LARGEST_USTAR = 8**11
_LONGEST_NAME = 4096
_KINDS = {tarfile.REGTYPE: FILE, tarfile.AREGTYPE: FILE, tarfile.DIRTYPE: FOLDER}
_TRAILING = 1 << 20
"""Zero bytes after the end that are read: tar fills up its last record."""


class Changed(Exception):
    """A file is not what was listed: it was written to meanwhile."""


def write_archive(stream: IO[bytes], folder: str, files: Iterable[tuple[str, Path, File]]) -> None:
    """Write `files` (name, path, what it has to be) under `folder`. Raises `Changed`, and OSError of either side."""
    for name, path, expected in files:
        with open(path, "rb") as source, _packed(stream, 0 if expected.bytes >= _STORED else 9) as out:
            out.write(_header(f"{folder}/{name}", expected.bytes, bool(path.stat().st_mode & 0o100)))
            _copy(source, out, path, expected)
    with _packed(stream, 9) as out:
        out.write(_END)


def _packed(stream: IO[bytes], level: int) -> gzip.GzipFile:
    """One part of the archive: gzip reads parts one after the other as one."""
    return gzip.GzipFile(filename="", mode="wb", compresslevel=level, fileobj=stream, mtime=0)


def _header(name: str, size: int, executable: bool) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, _MTIME, 0o755 if executable else 0o644
    if size < _LARGEST_USTAR and len(name.encode()) < tarfile.LENGTH_NAME:
        return info.tobuf(tarfile.USTAR_FORMAT, "utf-8")
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8")


def _copy(source: IO[bytes], out: gzip.GzipFile, path: Path, expected: File) -> None:
    digest, left = sha256(), expected.bytes
    while left and (block := source.read(min(BLOCK, left))):
        digest.update(block)
        out.write(block)
        left -= len(block)
    if left or source.read(1) or digest.hexdigest() != expected.sha256:
        raise Changed(str(path))
    out.write(bytes(-expected.bytes % _UNIT))


# ---- reading -----------------------------------------------------------------------------------
def archive_members(path: Path) -> Iterator[Member]:
    """Every member, in order, with its name as it stands there. The bytes of one can be read until the next is asked
    for. Raises `ArtifactError`: E9201 it cannot be read, E9206 it is damaged or no archive of this form."""
    with _opened(path) as stream:
        long_name = None
        while (header := stream.exactly(_UNIT)) != bytes(_UNIT):
            info = _parsed(path, header)
            data = _Data(stream, info.size)
            if info.type == tarfile.GNUTYPE_LONGNAME and info.size <= _LONGEST_NAME:
                long_name = b"".join(data.blocks()).rstrip(b"\0").decode("utf-8", "surrogateescape")
            else:
                name, long_name = long_name or info.name, None
                yield Member(name.rstrip("/"), _KINDS.get(info.type) or _foreign(info), info.size, data.blocks)
            data.skip()
        _check_end(stream)


@contextmanager
def _opened(path: Path) -> Iterator[_Stream]:
    try:
        with gzip.open(path) as file:
            yield _Stream(path, file)
    except OSError as error:
        raise unreadable(path, error) from error


class _Stream:
    """What gzip holds. The ways in which a file can be damaged become `ArtifactError`s."""

    def __init__(self, path: Path, file: gzip.GzipFile) -> None:
        self._path, self._file = path, file

    def damaged(self, what: str) -> ArtifactError:
        return ArtifactError(ARCHIVE, str(self._path), what)

    def at_most(self, size: int) -> bytes:
        parts = []
        try:
            while size and (part := self._file.read(size)):
                parts.append(part)
                size -= len(part)
        except EOFError:
            raise self.damaged("it is cut short") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self.damaged(f"it is damaged, or no gzip: {error}") from None
        except OSError as error:
            raise unreadable(self._path, error) from error
        return b"".join(parts)

    def exactly(self, size: int) -> bytes:
        data = self.at_most(size)
        if len(data) < size:
            raise self.damaged("it is cut short")
        return data


def _parsed(path: Path, header: bytes) -> tarfile.TarInfo:
    try:
        info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise ArtifactError(ARCHIVE, str(path), f"a header in it is damaged: {error}") from None
    if info.size < 0 or (info.size and info.type == tarfile.DIRTYPE):
        raise ArtifactError(ARCHIVE, str(path), "a header in it is damaged: impossible size")
    return info


def _foreign(info: tarfile.TarInfo) -> str:
    if info.issym() or info.islnk():
        return "a link"
    return "a device or pipe" if info.isdev() else f"an entry of tar type {info.type.decode('latin-1')!r}"


class _Data:
    """The bytes of one member, and the filling after them."""

    def __init__(self, stream: _Stream, size: int) -> None:
        self._stream, self._left, self._fill = stream, size, -size % _UNIT

    def blocks(self) -> Iterator[bytes]:
        while self._left:
            block = self._stream.exactly(min(BLOCK, self._left))
            self._left -= len(block)
            yield block

    def skip(self) -> None:
        for _ in self.blocks():
            pass
        self._stream.exactly(self._fill)


def _check_end(stream: _Stream) -> None:
    """After the first empty block only zeros follow; reading to the end also checks gzip's own sum."""
    rest = stream.exactly(_UNIT) + stream.at_most(_TRAILING)
    if rest.strip(b"\0") or stream.at_most(1):
        raise stream.damaged("something follows its end")
