"""Diagnostics as text, JSON and SARIF."""

from __future__ import annotations

import json
from textwrap import dedent

import jsonschema

from vx.diagnostics.render import render_json, render_sarif, render_text
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


def _object(required: dict[str, object], optional: dict[str, object] | None = None) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _array(items: dict[str, object], least: int = 0) -> dict[str, object]:
    return {"type": "array", "items": items, "minItems": least}


_STRING: dict[str, object] = {"type": "string"}
_POSITION: dict[str, object] = {"type": "integer", "minimum": 1}
_MESSAGE = _object({"text": _STRING})
_ARTIFACT = _object({"uri": {"type": "string", "pattern": "^[A-Za-z0-9%/._~:-]*$"}})
_REGION = _object(dict.fromkeys(("startLine", "startColumn", "endLine", "endColumn"), _POSITION))
_LOCATION = _object(
    {"physicalLocation": _object({"artifactLocation": _ARTIFACT, "region": _REGION})},
    {"id": {"type": "integer", "minimum": 0}, "message": _MESSAGE},
)
_FIX = _object(
    {
        "description": _MESSAGE,
        "artifactChanges": _array(
            _object(
                {
                    "artifactLocation": _ARTIFACT,
                    "replacements": _array(_object({"deletedRegion": _REGION, "insertedContent": _MESSAGE}), 1),
                }
            ),
            1,
        ),
    }
)
_RESULT = _object(
    {
        "ruleId": _STRING,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "message": _MESSAGE,
        "locations": _array(_LOCATION),
    },
    {"relatedLocations": _array(_LOCATION), "fixes": _array(_FIX)},
)
_RULE = _object({"id": _STRING}, {"shortDescription": _MESSAGE})
_DRIVER = _object({"name": _STRING, "version": _STRING, "rules": _array(_RULE)})
_RUN = _object(
    {
        "tool": _object({"driver": _DRIVER}),
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "results": _array(_RESULT),
    }
)
SARIF_SUBSET = _object({"$schema": _STRING, "version": {"const": "2.1.0"}, "runs": _array(_RUN)})
"""The part of the SARIF 2.1.0 schema that a log of this compiler may use."""


def test_json_of_a_path_that_is_not_utf8() -> None:
    found = Diagnostic("E1", Level.ERROR, "m", Span("\udcff.vx", 0, 0))
    (shown,) = json.loads(render_json([found], SourceMap()).encode("utf-8"))["diagnostics"]
    assert shown["file"] == "\udcff.vx"


def test_sarif() -> None:
    log = json.loads(render_sarif([MISMATCH, WARNING], sources(), "0.1.0"))
    jsonschema.validate(log, SARIF_SUBSET)
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["E0104", "W9999"]
    assert run["tool"]["driver"]["rules"][0]["shortDescription"]["text"] == "malformed number"
    first, second = run["results"]
    assert (first["ruleId"], first["ruleIndex"], first["level"]) == ("E0104", 0, "error")
    assert (second["ruleId"], second["ruleIndex"], second["level"]) == ("W9999", 1, "warning")
    location = first["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "dir/a.vx"
    assert location["region"] == {"startLine": 2, "startColumn": 16, "endLine": 2, "endColumn": 19}
    assert first["relatedLocations"][0]["message"]["text"] == "because of this type"
    assert first["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"] == {"text": "1.5 as i32"}
    assert "note: numbers" in first["message"]["text"]


def test_sarif_of_odd_places() -> None:
    places = ["/abs/a b.vx", "<builtin>", "a:b.vx", "é.vx", "\udcff.vx"]
    found = [Diagnostic("E1", Level.ERROR, "m", Span(place, 0, 0)) for place in places]
    log = json.loads(render_sarif(found, SourceMap(), "0"))
    jsonschema.validate(log, SARIF_SUBSET)
    uris = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in log["runs"][0]["results"]]
    assert uris == ["file:///abs/a%20b.vx", "%3Cbuiltin%3E", "a%3Ab.vx", "%C3%A9.vx", "%FF.vx"]
    jsonschema.validate(json.loads(render_sarif([], SourceMap(), "0")), SARIF_SUBSET)
