"""The texts that spans point into.

Enters: paths or generated texts. Leaves: their text, and line and column of a span. Every file that a
compilation reads as text goes through `SourceMap.load`, so that a missing or unreadable file is a coded
error and never an exception of the operating system.
"""

from __future__ import annotations

import os
from bisect import bisect_right

from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import Span

MAX_SOURCE_BYTES = 4 * 1024 * 1024
"""Largest source text accepted; a program is a thing people read."""


class SourceMap:
    """Texts by name. The name is the path the user gave, or `<name>` for a generated text."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._line_starts: dict[str, list[int]] = {}

    def load(self, path: str | os.PathLike[str]) -> str:
        """Read a UTF-8 source file and remember it under `path`.

        Raises `CompileError`: E9001 missing, E9002 not a regular file, E9003 not readable, E9004 not
        UTF-8 text, E9005 larger than `MAX_SOURCE_BYTES`.
        """
        name = os.fspath(path)
        if name not in self._texts:
            self.add(name, _decode(name, _read(name)))
        return self._texts[name]

    def add(self, name: str, text: str) -> None:
        """Remember a text that comes from somewhere else under `name`."""
        self._texts[name] = text
        self._line_starts.pop(name, None)

    def text(self, name: str) -> str:
        """The text of `name`; empty when it is unknown (a span of generated code)."""
        return self._texts.get(name, "")

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def line_col(self, span: Span) -> tuple[int, int]:
        """Line and column of the first character of `span`, both 1-based."""
        return self.position(span.file, span.start)

    def position(self, name: str, offset: int) -> tuple[int, int]:
        """Line and column, both 1-based, of the character at `offset` of `name`."""
        starts = self._starts(name)
        line = bisect_right(starts, offset) - 1
        return line + 1, offset - starts[line] + 1

    def line_text(self, name: str, line: int) -> str:
        """The 1-based `line` of `name` without its line break; empty past the end."""
        starts = self._starts(name)
        if not 1 <= line <= len(starts):
            return ""
        end = starts[line] if line < len(starts) else len(self.text(name))
        return self.text(name)[starts[line - 1] : end].rstrip("\r\n")

    def _starts(self, name: str) -> list[int]:
        starts = self._line_starts.get(name)
        if starts is None:
            starts = [0]
            text = self.text(name)
            at = text.find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = text.find("\n", at + 1)
            self._line_starts[name] = starts
        return starts


def _refuse(code: str, message: str, path: str, help_text: str) -> CompileError:
    diagnostic = Diagnostic(code, Level.ERROR, message, Span(path, 0, 0), helps=(Help(help_text),))
    return CompileError([diagnostic])


def _read(path: str) -> bytes:
    try:
        if not os.path.exists(path):
            raise _refuse("E9001", f"no such file: {path}", path, _near_names(path))
        if not os.path.isfile(path):
            what = "a directory" if os.path.isdir(path) else "not a regular file"
            raise _refuse("E9002", f"{path} is {what}", path, "name a Vx source file, such as main.vx")
        with open(path, "rb") as stream:
            data = stream.read(MAX_SOURCE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _refuse("E9003", f"cannot read {path!r}: {reason}", path, "check the path and its permissions") from error
    if len(data) > MAX_SOURCE_BYTES:
        limit = f"{MAX_SOURCE_BYTES // (1024 * 1024)} MiB"
        raise _refuse(
            "E9005", f"{path} is larger than {limit}", path, "data belongs in a model directory or a data file"
        )
    return data


def _decode(path: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{path} is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}"
        raise _refuse("E9004", message, path, "Vx source files are UTF-8; is this the right file?") from error
    if "\0" in text:
        message = f"{path} is not text: it contains a zero byte at offset {data.index(0)}"
        raise _refuse("E9004", message, path, "Vx source files are UTF-8; is this the right file?")
    return text.removeprefix("\ufeff")


def _near_names(path: str) -> str:
    """Help for a missing file: the closest name in its folder, or where the name was looked for."""
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    try:
        present = sorted(os.listdir(folder or "."))
    except OSError:
        return f"the folder {folder!r} cannot be read; relative paths start from {os.getcwd()}"
    stems = {os.path.splitext(entry)[0]: entry for entry in present}  # endings are alike in any case
    near = get_close_matches(os.path.splitext(name)[0], stems, n=1)
    if near:
        return f"did you mean {os.path.join(folder, stems[near[0]])}?"
    return f"relative paths start from {os.getcwd()}"
