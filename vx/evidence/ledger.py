"""The ledger: what crossed each edge, predicted and measured, by size.

Enters: traces. Leaves: rows. Bytes are those that the driver or the socket was given; times are in `handoff` events
only, since an asynchronous copy has none of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from vx.evidence.trace import Event, Trace


@dataclass(frozen=True, slots=True)
class Row:
    """One edge and size. `seconds` is the median; `predicted_seconds` None: not predicted."""

    source: str
    target: str
    how: str
    bytes: int
    count: int
    seconds: float | None
    predicted_seconds: float | None

    @property
    def error(self) -> float | None:
        """Of the prediction, as a share of what was measured."""
        if not self.seconds or self.predicted_seconds is None:
            return None
        return self.predicted_seconds / self.seconds - 1


def ledger(traces: Iterable[Trace]) -> list[Row]:
    """A row for each edge, way and size, in this order."""
    found: dict[tuple[str, str, str, int], list[Event]] = {}
    for trace in traces:
        for event in trace.of("copy", "peer", "handoff"):
            how = event.text("by") if event.kind == "peer" else event.kind
            key = event.text("from"), event.text("to"), how, event.number("bytes")
            found.setdefault(key, []).append(event)
    return [_row(*key, events) for key, events in sorted(found.items())]


def _row(source: str, target: str, how: str, size: int, events: list[Event]) -> Row:
    timed = [event for event in events if event.kind == "handoff"]
    seconds = statistics.median(event.seconds("seconds") for event in timed) if timed else None
    predicted = statistics.median(event.seconds("predicted_seconds") for event in timed) if timed else None
    return Row(source, target, how, size, len(events), seconds, predicted if predicted and predicted > 0 else None)
