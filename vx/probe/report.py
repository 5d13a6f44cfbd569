"""What a measurement found, for people.

Enters: an `Outcome`'s results. Leaves: lines: for each link what was predicted beside what was measured then and what
had been measured earlier, the median error, and how far the two repeats lie apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from vx.machine.units import size_text
from vx.probe.calibrate import Result
from vx.probe.write import time_text


def note_of(result: Result) -> str:
    """One line about a link, for its machine file."""
    if result.refusal is not None:
        return f"refused: {result.refusal}"
    repeats = f"two repeats differ by {_percent(result.difference)}"
    if result.state == "not calibrated":
        typical = sorted(result.checks, key=lambda check: check.difference)[len(result.checks) // 2]
        pair = f"{size_text(typical.size)} took {_time(typical.earlier)} and {_time(typical.measured)}"
        return f"not calibrated: {repeats}, {pair}"
    return f"held out: median error {_percent(result.error)}, {repeats}"


def report(result: Result) -> Iterator[str]:
    """The lines about one link."""
    attempts = f", attempt {result.attempt}" if result.attempt > 1 else ""
    yield f"{result.link.title}: {result.state}{attempts}"
    if result.refusal is not None:
        yield f"  {result.refusal}"
        return
    yield f"  {'held out':>8}  {'predicted':>12}  {'measured':>12}  {'error':>8}  {'earlier':>12}"
    for check in result.checks:
        row = f"  {size_text(check.size):>8}  {_time(check.predicted):>12}  {_time(check.measured):>12}"
        yield f"{row}  {check.error * 100:>+6.1f} %  {_time(check.earlier):>12}"
    yield f"  median error {_percent(result.error)}, two repeats differ by {_percent(result.difference)}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _time(nanoseconds: float | None) -> str:
    return "" if nanoseconds is None else time_text(round(nanoseconds))
