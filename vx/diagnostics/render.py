"""Diagnostics for people and for tools.

Enters: `Diagnostic`s and the `SourceMap` they point into. Leaves: text with source excerpts, a JSON
document, or a SARIF 2.1.0 log. All three say the same things.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from vx.diagnostics.explain import title
from vx.diagnostics.report import Diagnostic, Help, Level
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import Span

_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_MAX_SHOWN_LINE = 200
"""Longest excerpt of a source line, in characters; a longer line is cut around the span."""


# ---- text --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Style:
    """ANSI sequences; all empty without colour."""

    error: str = ""
    warning: str = ""
    help: str = ""
    frame: str = ""
    bold: str = ""
    reset: str = ""

    def level(self, level: Level) -> str:
        return self.error if level is Level.ERROR else self.warning


_PLAIN = _Style()
_COLOUR = _Style("\x1b[1;31m", "\x1b[1;33m", "\x1b[1;32m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m")


def render_text(diagnostics: Iterable[Diagnostic], sources: SourceMap, colour: bool = False) -> str:
    """All diagnostics as text, each followed by an empty line; empty when there are none."""
    style = _COLOUR if colour else _PLAIN
    return "".join(_text(diagnostic, sources, style) + "\n\n" for diagnostic in diagnostics)


def _text(diagnostic: Diagnostic, sources: SourceMap, style: _Style) -> str:
    span = diagnostic.span
    known = span.file in sources
    line, column = sources.line_col(span)
    colour = style.level(diagnostic.level)
    word = "Error" if diagnostic.level is Level.ERROR else "Warning"
    where = f" at {line}:{column}" if known else ""
    lines = [f"{colour}{word}[{diagnostic.code}]{style.reset}{where}: {style.bold}{diagnostic.message}{style.reset}"]
    width = _gutter(diagnostic, sources)
    if known:
        lines.append(f"{' ' * width}{style.frame}-->{style.reset} {_location(span, sources)}")
        lines += _excerpt(span, "", "^", sources, width, colour, style)
    elif not span.file.startswith("<"):
        lines.append(f"{' ' * width}{style.frame}-->{style.reset} {span.file}")
    for label in diagnostic.labels:
        if label.span.file not in sources:
            lines.append(f"{' ' * width} {style.frame}={style.reset} {label.text}")
            continue
        if label.span.file != span.file:
            lines.append(f"{' ' * width}{style.frame}:::{style.reset} {_location(label.span, sources)}")
        lines += _excerpt(label.span, label.text, "-", sources, width, style.frame, style)[bool(known) :]
    lines += [f"{' ' * width} {style.frame}={style.reset} {style.bold}note:{style.reset} {n}" for n in diagnostic.notes]
    for item in diagnostic.helps:
        lines += _help_lines(item, sources, width, style)
    return "\n".join(lines)


def _location(span: Span, sources: SourceMap) -> str:
    line, column = sources.line_col(span)
    return f"{span.file}:{line}:{column}"


def _gutter(diagnostic: Diagnostic, sources: SourceMap) -> int:
    """Width of the widest line number shown."""
    spans = [diagnostic.span, *(label.span for label in diagnostic.labels)]
    spans += [item.span for item in diagnostic.helps if item.span is not None]
    return max(len(str(sources.position(span.file, span.end)[0])) for span in spans)


def _excerpt(span: Span, text: str, mark: str, sources: SourceMap, width: int, colour: str, style: _Style) -> list[str]:
    """An empty gutter line, the source line, and a line that underlines the span and says `text`."""
    line, column = sources.line_col(span)
    last_line, last_column = sources.position(span.file, span.end)
    source = sources.line_text(span.file, line)
    length = last_column - column if last_line == line else len(source) - column + 1
    shown, column = _cut(source, column)
    length = max(1, min(length, len(shown) - column + 1))
    bar = f"{style.frame}|{style.reset}"
    number = f"{style.frame}{line:>{width}}{style.reset}"
    underline = f"{_blank(shown[: column - 1])}{colour}{mark * length}{' ' + text if text else ''}{style.reset}"
    return [f"{' ' * width} {bar}", f"{number} {bar} {_visible(shown)}".rstrip(), f"{' ' * width} {bar} {underline}"]


def _cut(source: str, column: int) -> tuple[str, int]:
    """A long line cut to the part around `column`, and the column in it."""
    if len(source) <= _MAX_SHOWN_LINE:
        return source, column
    start = max(0, min(column - 1 - _MAX_SHOWN_LINE // 4, len(source) - _MAX_SHOWN_LINE))
    end = start + _MAX_SHOWN_LINE
    before, after = "…" if start else "", "…" if end < len(source) else ""
    return before + source[start:end] + after, column - start + len(before)


def _visible(text: str) -> str:
    """Control characters would move the cursor or worse: show a placeholder, and a tab as it counts, one column."""
    return "".join(" " if char == "\t" else char if char.isprintable() else "\ufffd" for char in text)


def _blank(text: str) -> str:
    return " " * len(text)


def _help_lines(item: Help, sources: SourceMap, width: int, style: _Style) -> list[str]:
    lines = [f"{' ' * width} {style.frame}={style.reset} {style.help}help:{style.reset} {item.text}"]
    if item.span is None or item.replacement is None or item.span.file not in sources or "\n" in item.replacement:
        return lines
    line, column = sources.line_col(item.span)
    if sources.position(item.span.file, item.span.end)[0] != line:
        return lines
    source = sources.line_text(item.span.file, line)
    end = column - 1 + item.span.end - item.span.start
    edited = source[: column - 1] + item.replacement + source[end:]
    shown, column = _cut(edited, column)
    bar = f"{style.frame}|{style.reset}"
    marks = "+" * max(1, min(len(item.replacement), len(shown) - column + 1))
    lines.append(f"{style.frame}{line:>{width}}{style.reset} {bar} {_visible(shown)}")
    lines.append(f"{' ' * width} {bar} {_blank(shown[: column - 1])}{style.help}{marks}{style.reset}")
    return lines


# ---- JSON --------------------------------------------------------------------------------------
def render_json(diagnostics: Iterable[Diagnostic], sources: SourceMap) -> str:
    """A JSON document `{"diagnostics": [...]}`; lines and columns are 1-based, `end_column` is exclusive."""
    found = [_json(diagnostic, sources) for diagnostic in diagnostics]
    return encodable(json.dumps({"diagnostics": found}, indent=2, ensure_ascii=False)) + "\n"


def encodable(text: str) -> str:
    """JSON text in which what UTF-8 cannot hold (bytes of a path that were no UTF-8) is escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _json(diagnostic: Diagnostic, sources: SourceMap) -> dict[str, object]:
    return {
        "level": diagnostic.level.value,
        "code": diagnostic.code,
        "message": diagnostic.message,
        **_json_span(diagnostic.span, sources),
        "labels": [{"text": label.text, **_json_span(label.span, sources)} for label in diagnostic.labels],
        "notes": list(diagnostic.notes),
        "helps": [_json_help(item, sources) for item in diagnostic.helps],
    }


def _json_span(span: Span, sources: SourceMap) -> dict[str, object]:
    line, column = sources.line_col(span)
    end_line, end_column = sources.position(span.file, span.end)
    return {"file": span.file, "line": line, "column": column, "end_line": end_line, "end_column": end_column}


def _json_help(item: Help, sources: SourceMap) -> dict[str, object]:
    edit = _json_span(item.span, sources) if item.span is not None else {}
    return {"text": item.text, "replacement": item.replacement, **edit}


# ---- SARIF -------------------------------------------------------------------------------------
def render_sarif(
    diagnostics: Iterable[Diagnostic], sources: SourceMap, version: str, properties: Mapping[str, object] | None = None
) -> str:
    """A SARIF 2.1.0 log with one run of the tool `vx`; `version` is the compiler's.

    `properties` are what a check found out beside its diagnostics, as plain data: they become the run's property bag.
    """
    found = list(diagnostics)
    codes = sorted({diagnostic.code for diagnostic in found})
    index = {code: position for position, code in enumerate(codes)}
    driver = {"name": "vx", "version": version, "rules": [_sarif_rule(code) for code in codes]}
    run: dict[str, object] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(diagnostic, sources, index) for diagnostic in found],
    }
    if properties is not None:
        run["properties"] = properties
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_rule(code: str) -> dict[str, object]:
    rule: dict[str, object] = {"id": code}
    text = title(code)
    if text:
        rule["shortDescription"] = {"text": text}
    return rule


def _sarif_result(diagnostic: Diagnostic, sources: SourceMap, index: Mapping[str, int]) -> dict[str, object]:
    extra = [f"note: {note}" for note in diagnostic.notes] + [f"help: {item.text}" for item in diagnostic.helps]
    result: dict[str, object] = {
        "ruleId": diagnostic.code,
        "ruleIndex": index[diagnostic.code],
        "level": diagnostic.level.value,
        "message": {"text": "\n".join([diagnostic.message, *extra])},
        "locations": [_sarif_location(diagnostic.span, sources)],
    }
    if diagnostic.labels:
        result["relatedLocations"] = [
            {"id": position, **_sarif_location(label.span, sources), "message": {"text": label.text}}
            for position, label in enumerate(diagnostic.labels)
        ]
    fixes = [_sarif_fix(item, sources) for item in diagnostic.helps if item.replacement is not None and item.span]
    if fixes:
        result["fixes"] = fixes
    return result


def _sarif_location(span: Span, sources: SourceMap) -> dict[str, object]:
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(span.file)}, "region": _sarif_region(span, sources)}}


def _sarif_region(span: Span, sources: SourceMap) -> dict[str, object]:
    line, column = sources.line_col(span)
    end_line, end_column = sources.position(span.file, span.end)
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


def _sarif_fix(item: Help, sources: SourceMap) -> dict[str, object]:
    assert item.span is not None
    replacement = {"deletedRegion": _sarif_region(item.span, sources), "insertedContent": {"text": item.replacement}}
    change = {"artifactLocation": {"uri": _uri(item.span.file)}, "replacements": [replacement]}
    return {"description": {"text": item.text}, "artifactChanges": [change]}


def _uri(file: str) -> str:
    """A path as a URI reference: absolute paths get a scheme, `<name>` and odd characters are escaped."""

    path = quote(os.fsencode(file.replace("\\", "/")))
    return f"file://{path}" if path.startswith("/") else path
