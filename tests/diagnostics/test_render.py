"""Diagnostics as text and JSON."""

from __future__ import annotations

import json
from textwrap import dedent

from diagnostic_cases import MISMATCH, TEXT, WARNING, at, sources

from vx.diagnostics.render import render_json, render_text
from vx.diagnostics.report import Diagnostic, Label, Level
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import Span


def text(*diagnostics: Diagnostic, colour: bool = False) -> str:
    return render_text(diagnostics, sources(), colour)


def expected(block: str) -> str:
    return dedent(block).lstrip("\n") + "\n"


def test_text() -> None:
    assert text(MISMATCH) == expected(
        """
        Error[E0104] at 2:16: expected `i32`, found `f32`
         --> dir/a.vx:2:16
          |
        2 |  let x : i32 = 1.5;
          |                ^^^
        2 |  let x : i32 = 1.5;
          |          ----- because of this type
          = note: numbers are never converted silently
          = help: convert it
        2 |  let x : i32 = 1.5 as i32;
          |                ++++++++++
          = help: or change the type
        """
    )


def test_several_lines_are_underlined_to_the_end_of_the_first() -> None:
    assert text(WARNING) == expected(
        """
        Warning[W9999] at 1:18: unused
         --> dir/a.vx:1:18
          |
        1 | fn main() -> i32 {
          |                  ^
        """
    )


def test_places_without_a_text() -> None:
    nowhere = Diagnostic("E9001", Level.ERROR, "no such file: b.vx", Span("b.vx", 0, 0))
    assert text(nowhere) == "Error[E9001]: no such file: b.vx\n --> b.vx\n\n"
    builtin = Diagnostic(
        "E1000", Level.ERROR, "m", Span("<builtin>", 0, 0), (Label(at("x :"), "here"), Label(Span("b", 0, 0), "there"))
    )
    assert text(builtin) == expected(
        """
        Error[E1000]: m
         ::: dir/a.vx:2:6
          |
        2 |  let x : i32 = 1.5;
          |      --- here
          = there
        """
    )


def test_end_of_file_and_empty_spans() -> None:
    end = Diagnostic("E0112", Level.ERROR, "m", Span("dir/a.vx", len(TEXT), len(TEXT)))
    assert text(end) == expected(
        """
        Error[E0112] at 5:1: m
         --> dir/a.vx:5:1
          |
        5 |
          | ^
        """
    )


def test_long_lines_are_cut_around_the_span() -> None:
    result = SourceMap()
    result.add("t", "a" * 5000 + "bad" + "c" * 5000)
    lines = render_text([Diagnostic("E1", Level.ERROR, "m", Span("t", 5000, 5003))], result).splitlines()
    assert len(lines[3]) < 220
    assert lines[3][lines[4].index("^") : lines[4].rindex("^") + 1] == "bad"
    assert lines[3].startswith("1 | …a") and lines[3].endswith("c…")


def test_control_characters_do_not_reach_the_terminal() -> None:
    result = SourceMap()
    result.add("t", "\x1b[2J\rx\x07")
    rendered = render_text([Diagnostic("E1", Level.ERROR, "m", Span("t", 5, 6))], result)
    assert not any(char in rendered for char in "\x1b\r\x07")


def test_colour_only_when_asked_for() -> None:
    assert "\x1b" not in text(MISMATCH)
    coloured = text(MISMATCH, colour=True)
    assert "\x1b[1;31mError[E0104]\x1b[0m at 2:16" in coloured
    for sequence in ("\x1b[1;31m", "\x1b[1;32m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"):
        coloured = coloured.replace(sequence, "")
    assert coloured == text(MISMATCH)


def test_json() -> None:
    document = json.loads(render_json([MISMATCH, WARNING], sources()))
    place = {"file": "dir/a.vx", "line": 2, "column": 16, "end_line": 2, "end_column": 19}
    assert document["diagnostics"][0] == {
        "level": "error",
        "code": "E0104",
        "message": "expected `i32`, found `f32`",
        **place,
        "labels": [
            {
                "text": "because of this type",
                "file": "dir/a.vx",
                "line": 2,
                "column": 10,
                "end_line": 2,
                "end_column": 15,
            }
        ],
        "notes": ["numbers are never converted silently"],
        "helps": [
            {"text": "convert it", "replacement": "1.5 as i32", **place},
            {"text": "or change the type", "replacement": None},
        ],
    }
    assert document["diagnostics"][1]["level"] == "warning"
    assert document["diagnostics"][1]["end_line"] == 4
    assert json.loads(render_json([], sources())) == {"diagnostics": []}


def test_json_of_a_path_that_is_not_utf8() -> None:
    found = Diagnostic("E1", Level.ERROR, "m", Span("\udcff.vx", 0, 0))
    (shown,) = json.loads(render_json([found], SourceMap()).encode("utf-8"))["diagnostics"]
    assert shown["file"] == "\udcff.vx"
