"""A run beside the record of its admission: each check holds for the right pair and fails for a doctored one."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from evidence.runs import DEVICES, WEIGHTS, Change, Line, dispatch, last, written
from typer.testing import CliRunner

from vx.cli.app import app
from vx.evidence.admitted import (
    BETWEEN,
    TO_DEVICES,
    AdmissionError,
    Edge,
    check_admitted,
    edges,
    read_admission,
)
from vx.evidence.trace import read_trace

LOADS = 2 * WEIGHTS


def record() -> dict[str, Any]:
    """The admission of what the good trace did."""
    places = [{"role": "disagg", "topology": "Device", "instance": i, "space": "HBM"} for i in (0, 1)]
    loads = [move("CPU_DRAM", "HBM", WEIGHTS, times=4)]
    other = {"role": "other", "topology": "Device", "instance": 0, "space": "HBM", "required_bytes": 7}
    return {
        "schema": "vx-diagnostics-v1",
        "verdict": "admitted",
        "instances": [*({**place, "required_bytes": 90} for place in places), other],
        "spawn_regions": places,
        "predictions": [*loads, move("HBM", "HBM", 4096), {**move("HBM", "CPU_DRAM", 4), "role": "other"}],
    }


def move(source: str, target: str, size: int | None, times: int | None = 1) -> dict[str, Any]:
    return {"role": "disagg", "route": [source, target], "bytes": size, "times": times}


Doctor = Callable[[dict[str, Any]], object]


def pair(folder: Path, change: Change = lambda lines: None, doctor: Doctor = lambda fields: None) -> tuple[Path, Path]:
    """The trace and the record, both altered; the trace names the plan that the record had before."""
    fields = record()
    plan = sha256(json.dumps(fields).encode()).hexdigest()
    doctor(fields)
    (folder / "admission.json").write_text(json.dumps(fields))

    def changed(lines: list[Line]) -> None:
        last(lines, "open")["plan"] = plan
        change(lines)

    return written(folder / "trace", changed), folder / "admission.json"


def failed(trace: Path, admission: Path) -> set[str]:
    results = list(check_admitted(read_trace(trace), read_admission(admission)))
    assert all(result.detail for result in results)
    return {result.name for result in results if result.ok is False}


def test_the_right_pair_holds(tmp_path: Path) -> None:
    trace, admission = pair(tmp_path)
    assert all(result.ok for result in check_admitted(read_trace(trace), read_admission(admission)))
    assert edges(read_trace(trace), read_admission(admission)) == [
        Edge(BETWEEN, 4096, 4096),
        Edge(TO_DEVICES, 2 * LOADS, 2 * LOADS),
    ]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("the admitted plan", lambda lines: last(lines, "open").update(plan="0" * 64)),
        ("the admitted plan", lambda lines: last(lines, "open").update(plan="")),
        ("arenas as admitted", lambda lines: last(lines, "arena").update(bytes=91)),
        ("arenas as admitted", lambda lines: last(lines, "arena").update(space="L2")),
        ("arenas as admitted", lambda lines: lines.remove(last(lines, "arena"))),
        (
            "regions as admitted",
            lambda lines: lines.insert(-1, dispatch({**DEVICES[0], "device": "Device[2]"}, "x", 0)),
        ),
        ("bytes as predicted", lambda lines: last(lines, "peer").update(bytes=4097)),
        ("bytes as predicted", lambda lines: lines.append(last(lines, "stage"))),
        (
            "bytes as predicted",
            lambda lines: lines.insert(-1, {"event": "copy", "from": "Device[1]", "to": "host", "bytes": 4}),
        ),
    ],
)
def test_doctored_traces_fail(name: str, change: Change, tmp_path: Path) -> None:
    assert name in failed(*pair(tmp_path, change))


@pytest.mark.parametrize(
    ("names", "doctor"),
    [
        ({"the admitted plan"}, lambda fields: fields.update(more=1)),
        ({"the admitted plan", "arenas as admitted"}, lambda fields: fields["instances"][0].update(required_bytes=89)),
        ({"the admitted plan", "regions as admitted"}, lambda fields: fields["spawn_regions"].pop()),
        ({"the admitted plan", "bytes as predicted"}, lambda fields: fields["predictions"][0].update(times=3)),
    ],
)
def test_doctored_records_fail(names: set[str], doctor: Doctor, tmp_path: Path) -> None:
    assert failed(*pair(tmp_path, doctor=doctor)) == names


def test_what_is_not_known_is_not_predicted(tmp_path: Path) -> None:
    trace, admission = pair(
        tmp_path, doctor=lambda fields: fields["predictions"].append(move("HBM", "HBM", 4, times=None))
    )
    assert edges(read_trace(trace), read_admission(admission))[0] == Edge(BETWEEN, 4096, None)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "vx-diagnostics-v1", "verdict": "rejected"}', "[" * 10**5]
)
def test_what_is_no_record(text: str, tmp_path: Path) -> None:
    (tmp_path / "record").write_text(text)
    with pytest.raises(AdmissionError):
        read_admission(tmp_path / "record")


def test_the_command(tmp_path: Path) -> None:
    trace, admission = map(str, pair(tmp_path))
    done = CliRunner().invoke(app, ["report", trace, "--admission", admission])
    assert done.exit_code == 0 and "bytes as predicted" in done.stdout
    (run,) = json.loads(CliRunner().invoke(app, ["report", trace, "--admission", admission, "--json"]).stdout)["runs"]
    assert run["edges"][0] == {"name": BETWEEN, "measured": 4096, "predicted": 4096}
    Path(admission).write_text(json.dumps(record(), indent=1))
    assert CliRunner().invoke(app, ["report", trace, "--admission", admission]).exit_code == 1, "another plan"
    for wrong in (str(tmp_path / "none"), trace):
        assert CliRunner().invoke(app, ["report", trace, "--admission", wrong]).exit_code == 1
