"""Every check of `vx report` fails on a trace that was doctored for it, and holds on the good one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from evidence.runs import DEVICES, STEPS, Change, Line, dispatch, drop, good, last, sealed, written

from vx.evidence.checks import CHECKS, check, decode_steps, switches, tier
from vx.evidence.ledger import ledger
from vx.evidence.trace import TraceError, read_trace


def set_(kind: str, **fields: object) -> Change:
    """Alters the last event of a kind."""
    return lambda lines: last(lines, kind).update(fields)


def add(line: Line) -> Change:
    return lambda lines: lines.insert(-1, line)


def remove(kind: str, **fields: object) -> Change:
    return lambda lines: drop(lines, kind, **fields)


def undecoded(lines: list[Line]) -> None:
    """The dispatches stand outside the phase."""
    lines[:] = [line for line in lines if line.get("name") != "decode"]
    at = next(i for i, line in enumerate(lines) if line["event"] == "counter")
    lines[at:at] = [{"event": "phase", "name": "decode", "edge": edge} for edge in ("begin", "end")]


DOCTORED: list[tuple[str, Change]] = [
    ("ended well", add({"event": "error", "status": 9, "message": "the driver says no"})),
    ("roles left in order", remove("close")),
    ("roles left in order", set_("close", status=9)),
    ("every device worked", remove("dispatch", device="Device[0]")),
    ("every device worked", remove("dispatch")),
    ("nothing ran elsewhere", set_("dispatch", uuid="GPU-0")),
    ("nothing ran elsewhere", set_("dispatch", ordinal=0)),
    ("nothing ran elsewhere", set_("dispatch", device="Device[2]")),
    ("nothing ran elsewhere", set_("peer", to="Device[7]")),
    ("nothing ran elsewhere", lambda lines: [line.update(uuid="GPU-0") for line in lines if "uuid" in line]),
    ("decode steps", undecoded),
    ("device counters", set_("counter", count=STEPS - 1)),
    ("device counters", set_("counter", region="another")),
    ("graph launches", set_("traffic", graph_launches=STEPS + 1)),
    ("graph launches", set_("traffic", graphs=2)),
    ("graph launches", remove("traffic")),
    ("tokens", remove("token", position=3)),
    ("tokens", add({"event": "dropped", **DEVICES[1], "tokens": 1})),
    ("tokens", remove("counter")),
    ("token positions", set_("token", position=12)),
    ("weights once", set_("stage", offset=0)),
    ("weights once", set_("traffic", loaded_bytes=3 * 4096)),
    ("weights once", remove("traffic", device="Device[1]")),
    ("arena is the only drop", set_("memory", free_after=700)),
    ("arena is the only drop", remove("memory", device="Device[0]")),
    ("one allocation an arena", set_("memory", allocations=2)),
    ("one allocation an arena", remove("arena", device="Device[1]")),
    ("memory is flat", set_("memory", free_end=700)),
    ("memory is flat", set_("memory", free_warm=-1)),
    ("driver fits the reserve", set_("memory", driver_bytes=151)),
    ("no fallback", set_("dispatch", host=1)),
    ("no fallback", set_("dispatch", emitted=0, vendor=0)),
    ("handoff bytes", set_("handoff", bytes=4095)),
    ("handoff bytes", set_("handoff", digest="")),
]


@pytest.mark.parametrize(("name", "change"), DOCTORED)
def test_doctored_trace_fails(tmp_path: Path, name: str, change: Change) -> None:
    results = {result.name: result for result in check(read_trace(written(tmp_path / "trace", change)))}
    assert results[name].ok is False, results[name]


def test_good_trace_holds_throughout(tmp_path: Path) -> None:
    results = list(check(read_trace(written(tmp_path / "trace"))))
    assert [(result.name, result.ok) for result in results] == [(name, True) for name, _ in CHECKS]


def test_every_check_has_a_doctored_trace() -> None:
    assert {name for name, _ in DOCTORED} == {name for name, _ in CHECKS}


def test_bad_status_fails(tmp_path: Path) -> None:
    results = {result.name: result.ok for result in check(read_trace(written(tmp_path / "trace", status=101)))}
    assert results["ended well"] is False


def test_a_run_without_devices_proves_nothing_about_them(tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(sealed(good()[:1]))
    results = {result.name: result.ok for result in check(read_trace(tmp_path / "trace"))}
    assert results.pop("ended well") is True
    assert set(results.values()) == {None}


def test_stand_ins_and_figures(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path / "trace"))
    assert (tier(trace), decode_steps(trace), switches(trace)) == ("T2", STEPS, 1)
    stand_in = read_trace(written(tmp_path / "other", set_("open", tier="T1")))
    assert tier(stand_in) == "T1"
    assert {r.name: r.ok for r in check(stand_in)}["no fallback"] is None


def test_ledger(tmp_path: Path) -> None:
    trace = read_trace(
        written(tmp_path / "trace", add({"event": "copy", "from": "host", "to": "Device[0]", "bytes": 8}))
    )
    rows = ledger([trace, trace])
    assert [(row.source, row.target, row.how, row.bytes, row.count) for row in rows] == [
        ("Device[0]", "Device[1]", "direct", 4096, 2),
        ("host", "Device[0]", "copy", 8, 2),
        ("prefill", "decode", "handoff", 4096, 2),
    ]
    assert rows[2].error == pytest.approx(0.1) and rows[0].error is None


# ---- traces that are not whole -----------------------------------------------------------------------
def cut(data: bytes) -> bytes:
    return data[: data.rindex(b"\n", 0, -1) + 1]


DAMAGED = {
    "empty": lambda data: b"",
    "unfinished": cut,
    "not JSON": lambda data: data[:-20],
    "was altered": lambda data: data.replace(b'"position": 4', b'"position": 9'),
    "a line is missing": lambda data: b"".join(data.splitlines(keepends=True)[:3] + data.splitlines(keepends=True)[4:]),
    "begins with": lambda data: b"".join(data.splitlines(keepends=True)[1:]),
    "unknown event": lambda data: data.replace(b'"event": "peer"', b'"event": "pear"'),
    "too much or not at all": lambda data: data.replace(b'"by": "direct"', b'"via": "direct"'),
    "is 'x'": lambda data: data.replace(b'"position": 4', b'"position": "x"'),
    "is True": lambda data: data.replace(b'"position": 4', b'"position": true'),
    "schema": lambda data: data.replace(b'"version": 1', b'"version": 2'),
    "earlier": lambda data: data.replace(b'"ns": 100,', b'"ns": 1,'),
    "is not an event": lambda data: b"[]\n" + data,
    "more than one run": lambda data: sealed([*good(), good()[0]]),
    "counts": lambda data: data.replace(b'"events": ', b'"events": 1'),
}


@pytest.mark.parametrize("words", DAMAGED)
def test_damaged_trace_is_refused(tmp_path: Path, words: str) -> None:
    path = written(tmp_path / "trace")
    data = path.read_bytes()
    path.write_bytes(DAMAGED[words](data))
    assert path.read_bytes() != data
    with pytest.raises(TraceError, match=words):
        read_trace(path)


# ---- the command ---------------------------------------------------------------------------------------
def vx_report(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vx", "report", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_command(tmp_path: Path) -> None:
    path = written(tmp_path / "trace")
    done = vx_report(path)
    assert done.returncode == 0 and done.stdout.rstrip().endswith("tier T2"), done
    record = json.loads(vx_report(path, "--json").stdout)
    assert record["tier"] == "T2" and record["runs"][0]["decode_steps"] == STEPS and len(record["ledger"]) == 2
    failed = vx_report(written(tmp_path / "bad", set_("counter", count=1)))
    assert failed.returncode == 1 and "FAILED  device counters" in failed.stdout


def test_command_refuses(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    done = vx_report(tmp_path / "empty")
    assert (done.returncode, done.stdout) == (1, "") and "is refused: it is empty" in done.stderr
    assert vx_report(tmp_path / "none").returncode == 1
    assert vx_report().returncode == 2


def test_unused_devices_are_named(tmp_path: Path) -> None:
    """The decorative second device."""
    path = written(tmp_path / "trace", lambda lines: [line.update(**dispatch(DEVICES[0], line["region"], line["recorded"]))
                                                      for line in lines if line["event"] == "dispatch"])  # fmt: skip
    done = vx_report(path)
    assert done.returncode == 1 and "unused: Device[1]" in done.stdout
