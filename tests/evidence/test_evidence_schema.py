"""The reference page names every event, field and check."""

from __future__ import annotations

from pathlib import Path

from vx.evidence.checks import CHECKS
from vx.evidence.schema import EVENTS, MEMORY, TRAFFIC
from vx.runtime import device_abi
from vx.runtime.abi import TRACE_VERSION

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "evidence.md").read_text(encoding="utf-8")


def test_page_has_every_event_and_check() -> None:
    rows = {line.split("|")[1].strip().strip("`"): line for line in PAGE.splitlines() if line.startswith("| ")}
    for event, fields in EVENTS.items():
        for field in fields.keys() - {"device", "ordinal", "uuid"}:
            assert f"`{field}`" in rows[event] or any(
                f"`{field[: i + 1]}…`" in rows[event] for i in range(len(field))
            ), (event, field)
    assert [name for name, _ in CHECKS if name not in rows] == []


def test_figures_are_those_of_the_plugins() -> None:
    for name, fields in (("vx_traffic", TRAFFIC), ("vx_memory", MEMORY)):
        assert {field for field, _, _ in device_abi.STRUCTS[name]} == set(fields)
    assert f"version {TRACE_VERSION}" in PAGE
