"""`vx report`: the verdicts on runs, computed from their traces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vx.evidence.admitted import Admission, AdmissionError, check_admitted, edges, read_admission
from vx.evidence.checks import Result, check, decode_steps, devices, switches, tier
from vx.evidence.ledger import Row, ledger
from vx.evidence.trace import Trace, TraceError, read_trace

_MARKS = {True: ("ok    ", "green"), False: ("FAILED", "bold red"), None: ("–     ", "dim")}


def report(
    runs: Annotated[list[Path], typer.Argument(help="Traces that VX_TRACE made.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    record: Annotated[
        Path | None, typer.Option("--admission", metavar="FILE", help="`admission.json` of the artifact that ran.")
    ] = None,
) -> None:
    """Check the evidence of runs and set what was predicted beside what was measured.

    A trace that is empty, unfinished or altered is refused. The tier says what a run proves: T1, executed on a
    stand-in; T2, on the devices where it was placed; T2x, runs on devices of different architectures. With the
    record of admission, that what ran is what was admitted: the same plan, arenas, devices, and no more bytes.

    Examples:

        vx report run.jsonl

        vx report prefill.jsonl decode.jsonl --json

        vx report run.jsonl --admission story/admission.json

    Exit status 1 if a trace is refused or a check fails.
    """
    traces = [_read(path) for path in runs]
    admission = None if record is None else _read_admission(record)
    verdicts = [(trace, list(_results(trace, admission))) for trace in traces]
    if as_json:
        print(json.dumps(_record(verdicts, admission), indent=2))
    else:
        _show(verdicts)
    if any(result.ok is False for _, results in verdicts for result in results):
        raise typer.Exit(1)


def _read(path: Path) -> Trace:
    try:
        return read_trace(path)
    except TraceError as error:
        message = f"{path} is refused: {error}"
    except OSError as error:
        message = f"{path}: {error.strerror}"
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)


def _read_admission(path: Path) -> Admission:
    try:
        return read_admission(path)
    except AdmissionError as error:
        message = str(error)
    except OSError as error:
        message = f"{path}: {error.strerror}"
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)


def _results(trace: Trace, admission: Admission | None) -> Iterator[Result]:
    yield from check(trace)
    if admission is not None:
        yield from check_admitted(trace, admission)


def overall_tier(traces: Sequence[Trace]) -> str:
    """The least of all runs; T2x if all are T2 and their devices are of more than one architecture."""
    if any(tier(trace) == "T1" for trace in traces):
        return "T1"
    return "T2x" if len({event.text("isa") for trace in traces for event in trace.of("device")}) > 1 else "T2"


def _record(verdicts: Sequence[tuple[Trace, list[Result]]], admission: Admission | None) -> dict[str, object]:
    traces = [trace for trace, _ in verdicts]
    runs = [
        {
            "file": str(trace.path),
            "sha256": trace.sha256,
            "tier": tier(trace),
            "devices": [found._asdict() for found in devices(trace)],
            "decode_steps": decode_steps(trace),
            "switches": switches(trace),
            "checks": [asdict(result) for result in results],
            "edges": [] if admission is None else [asdict(edge) for edge in edges(trace, admission)],
        }
        for trace, results in verdicts
    ]
    rows = [asdict(row) | {"error": row.error} for row in ledger(traces)]
    return {"schema": "vx-report", "version": 1, "tier": overall_tier(traces), "runs": runs, "ledger": rows}


def _show(verdicts: Sequence[tuple[Trace, list[Result]]]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for trace, results in verdicts:
        console.print(Text(f"{trace.path}  {tier(trace)}, status {trace.status}", "bold"))
        for event in trace.of("device"):
            console.print(Text(f"        {event.text('device')}: {event.text('name')}, {event.text('uuid')}"))
        for result in results:
            mark, style = _MARKS[result.ok]
            console.print(Text.assemble((mark, style), f"  {result.name:<26}{result.detail}"))
    rows = ledger([trace for trace, _ in verdicts])
    if rows:
        console.print(_table(rows))
    console.print(f"tier {overall_tier([trace for trace, _ in verdicts])}")


def _table(rows: Sequence[Row]) -> Table:
    table = Table("from", "to", "how", box=None)
    for heading in ("bytes", "times", "seconds", "predicted", "error"):
        table.add_column(heading, justify="right")
    for row in rows:
        figures = [
            _figure(row.seconds, "{:.3g}"),
            _figure(row.predicted_seconds, "{:.3g}"),
            _figure(row.error, "{:+.1%}"),
        ]
        table.add_row(row.source, row.target, row.how, str(row.bytes), str(row.count), *figures)
    return table


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
