"""Two diagnostics of a small file, for what shows diagnostics."""

from __future__ import annotations

from vx.diagnostics.report import Diagnostic, Help, Label, Level
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import Span

TEXT = "fn main() -> i32 {\n\tlet x : i32 = 1.5;\n    x\n}\n"


def sources() -> SourceMap:
    result = SourceMap()
    result.add("dir/a.vx", TEXT)
    return result


def at(words: str, file: str = "dir/a.vx") -> Span:
    start = TEXT.index(words)
    return Span(file, start, start + len(words))


MISMATCH = Diagnostic(
    "E0104",
    Level.ERROR,
    "expected `i32`, found `f32`",
    at("1.5"),
    (Label(at("i32 ="), "because of this type"),),
    ("numbers are never converted silently",),
    (Help("convert it", at("1.5"), "1.5 as i32"), Help("or change the type")),
)
WARNING = Diagnostic("W9999", Level.WARNING, "unused", at("{\n\tlet x : i32 = 1.5;\n    x\n}"))
