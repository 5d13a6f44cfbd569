"""`std::trace` writes JSON lines when asked, and nothing else anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import vx

PROGRAM = Path(__file__).parent / "programs" / "trace.vx"


def test_events(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    result = vx.compile(PROGRAM).run(env={"VX_TRACE": str(path)}, timeout=30)
    assert (result.status, result.output, result.errors) == (0, b"", b"")
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [e["event"] for e in events] == ["run", "phase", "phase", "value", "end"]
    assert [(e["name"], e.get("edge"), e.get("value")) for e in events[1:-1]] == [
        ("prefill", "begin", None),
        ("prefill", "end", None),
        ("bytes", None, 884736),
    ]
    assert [e["ns"] for e in events] == sorted(e["ns"] for e in events)


def test_no_trace_without_asking() -> None:
    assert vx.compile(PROGRAM).run(env={"VX_TRACE": ""}, timeout=30).status == 0
