"""Reading a trace: nothing is believed that is not whole.

Enters: the file that VX_TRACE named. Leaves: a `Trace`. Refused are empty and unfinished traces, lines that are not
events of the schema, numbers that are out of order, and a file that is not what its last line says it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vx.evidence.schema import COMMON, EVENTS, SCHEMA, VERSION

Value = str | int | float


class TraceError(Exception):
    """A trace that proves nothing; the message says why, and where."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line. `fields` are those of its kind, checked."""

    seq: int
    ns: int
    kind: str
    fields: dict[str, Value]

    def text(self, name: str) -> str:
        value = self.fields[name]
        assert isinstance(value, str)
        return value

    def number(self, name: str) -> int:
        value = self.fields[name]
        assert isinstance(value, int)
        return value

    def seconds(self, name: str) -> float:
        return float(self.fields[name])


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole trace: `events` from `run` to `end`."""

    path: Path
    events: tuple[Event, ...]
    sha256: str

    def of(self, *kinds: str) -> Iterator[Event]:
        """The events of these kinds, in order."""
        return (event for event in self.events if event.kind in kinds)

    @property
    def status(self) -> int:
        """With which the process ended."""
        return self.events[-1].number("status")


def read_trace(path: Path) -> Trace:
    """The trace in a file. Raises TraceError if it is not whole, OSError if it cannot be read."""
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    if not lines:
        raise TraceError("it is empty: no data proves nothing")
    events = tuple(_event(number, line) for number, line in enumerate(lines))
    _check_frame(events)
    _check_order(events)
    digest = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    last = events[-1]
    if last.number("events") != len(lines) - 1:
        raise TraceError(
            f"its last line counts {last.number('events')} events, but there are {len(lines) - 1} before it"
        )
    if last.text("sha256") != digest:
        raise TraceError("it was altered: the SHA-256 in its last line is not that of the lines before it")
    return Trace(path, events, hashlib.sha256(data).hexdigest())


def _event(number: int, line: bytes) -> Event:
    where = f"line {number + 1}"
    try:
        found = json.loads(line)
    except ValueError:
        raise TraceError(f"{where} is not JSON: the run was cut short, or something else wrote there") from None
    if not isinstance(found, dict) or not isinstance(found.get("event"), str):
        raise TraceError(f"{where} is not an event")
    kind = found["event"]
    if kind not in EVENTS:
        raise TraceError(f"{where}: unknown event `{kind}`; this vx reads version {VERSION} of {SCHEMA}")
    expected = {**COMMON, **EVENTS[kind]}
    if wrong := sorted(found.keys() ^ expected.keys()):
        raise TraceError(f"{where}: `{kind}` has {', '.join(f'`{name}`' for name in wrong)} too much or not at all")
    for name, type_ in expected.items():
        if not _is(found[name], type_):
            raise TraceError(f"{where}: `{name}` of `{kind}` is {found[name]!r}")
    fields = {name: found[name] for name in EVENTS[kind]}
    return Event(found["seq"], found["ns"], kind, fields)


def _is(value: object, type_: type) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if type_ is float else type_)


def _check_frame(events: tuple[Event, ...]) -> None:
    first, last = events[0], events[-1]
    if first.kind != "run":
        raise TraceError(f"it begins with `{first.kind}`, not with `run`")
    if (first.text("schema"), first.number("version")) != (SCHEMA, VERSION):
        raise TraceError(
            f"it has schema {first.text('schema')} version {first.number('version')}, not {SCHEMA} {VERSION}"
        )
    if last.kind != "end":
        raise TraceError("it is unfinished: its last line is not `end`")
    if any(event.kind in ("run", "end") for event in events[1:-1]):
        raise TraceError("it holds more than one run")


def _check_order(events: tuple[Event, ...]) -> None:
    for number, event in enumerate(events):
        if event.seq != number:
            raise TraceError(f"line {number + 1} has number {event.seq}: a line is missing or stands twice")
        if number and event.ns < events[number - 1].ns:
            raise TraceError(f"line {number + 1} is earlier than the line before it")
