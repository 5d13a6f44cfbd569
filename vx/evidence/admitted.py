"""What ran beside what was admitted.

Enters: the trace of a run, and the record of admission that its executable came with. Leaves: further `Result`s, each able
to fail, and what crossed the edges: bytes that the record predicts beside bytes that the driver was given.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from vx.evidence.checks import Result
from vx.evidence.trace import Event, Trace

SCHEMA = "vx-diagnostics-v1"
TO_DEVICES, TO_HOST, BETWEEN = "host to devices", "devices to host", "between devices"

Bank = tuple[str, str, str]
"""A role, a device as traces name it (`Device[1]`), a space."""


class AdmissionError(Exception):
    """The file is no record of an admission."""


@dataclass(frozen=True, slots=True)
class Move:
    """A transfer of a role, over the spaces of `route`. `bytes` and `times` are the most that can be; None: not known."""

    role: str
    route: tuple[str, ...]
    bytes: int | None
    times: int | None


@dataclass(frozen=True, slots=True)
class Admission:
    """What a record says of a run: bytes of each bank, devices of each role's regions, transfers."""

    plan: str
    banks: Mapping[Bank, int | None]
    regions: frozenset[tuple[str, str]]
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """Bytes that crossed in one direction. `predicted` is the most that can, None if it is not known."""

    name: str
    measured: int
    predicted: int | None


def read_admission(path: Path) -> Admission:
    """The record in a file. Raises `AdmissionError` if it is none, OSError if it cannot be read."""
    data = path.read_bytes()
    try:
        record = json.loads(data)
        if record["schema"] != SCHEMA or record["verdict"] != "admitted":
            raise AdmissionError(f"{path} is no record of an admission")
        return Admission(
            sha256(data).hexdigest(),
            {(row["role"], _device(row), row["space"]): row["required_bytes"] for row in record["instances"]},
            frozenset((row["role"], _device(row)) for row in record["spawn_regions"]),
            tuple(_move(row) for row in record["predictions"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AdmissionError(f"{path} is no record of an admission") from error


def _device(row: Mapping[str, Any]) -> str:
    return f"{row['topology']}[{row['instance']}]"


def _move(row: Mapping[str, Any]) -> Move:
    return Move(row["role"], tuple(row["route"]), row["bytes"], row["times"])


# ---- the checks ----------------------------------------------------------------------------------
def check_admitted(trace: Trace, admission: Admission) -> Iterator[Result]:
    """What must hold of a run of the program that the record admits."""
    yield Result("the admitted plan", *_plan(trace, admission))
    yield Result("arenas as admitted", *_arenas(trace, admission))
    yield Result("regions as admitted", *_regions(trace, admission))
    yield Result("bytes as predicted", *_bytes(trace, admission))


def _plan(trace: Trace, admission: Admission) -> tuple[bool | None, str]:
    plans = list(dict.fromkeys(event.text("plan") for event in trace.of("open")))
    others = [plan or "none" for plan in plans if plan != admission.plan]
    if not plans:
        return None, "no devices were opened"
    return not others, f"the run has plan {others[0]}, the record is {admission.plan}" if others else admission.plan


def _arenas(trace: Trace, admission: Admission) -> tuple[bool | None, str]:
    """The banks of every role that was entered, on the devices that it opened, in the size of the record."""
    taken: dict[Bank, int] = {}
    opened = set()
    for role, event in _in_roles(trace, "arena", "device"):
        opened.add((role, event.text("device")))
        if event.kind == "arena":
            taken[role, event.text("device"), event.text("space")] = event.number("bytes")
    if not opened:
        return None, "no devices were opened"
    expected = {bank: size for bank, size in admission.banks.items() if bank[:2] in opened}
    for bank in sorted(expected.keys() | taken.keys()):
        if expected.get(bank) != taken.get(bank):
            return False, f"{bank[2]} of {bank[1]}: took {taken.get(bank)} bytes, admitted {expected.get(bank)}"
    return True, ", ".join(f"{device} {space} {size}" for (_, device, space), size in sorted(taken.items()))


def _regions(trace: Trace, admission: Admission) -> tuple[bool | None, str]:
    """Regions ran where the record places some, and nowhere else."""
    used = {(role, event.text("device")) for role, event in _in_roles(trace, "dispatch")}
    entered = {event.text("role") for event in trace.of("open")}
    if not entered:
        return None, "no devices were opened"
    stray = used - admission.regions
    if stray:
        return False, f"not placed there: {', '.join(sorted(device for _, device in stray))}"
    return True, ", ".join(sorted(device for _, device in used)) or "none"


def _bytes(trace: Trace, admission: Admission) -> tuple[bool | None, str]:
    rows = edges(trace, admission)
    for row in rows:
        if row.predicted is not None and row.measured > row.predicted:
            return False, f"{row.name}: {row.measured} bytes, predicted at most {row.predicted}"
    known = [row for row in rows if row.predicted is not None]
    return True if known else None, ", ".join(f"{row.name} {row.measured} of {row.predicted}" for row in known) or (
        "how often the program moves something is not known" if rows else "nothing moves"
    )


def _in_roles(trace: Trace, *kinds: str) -> Iterator[tuple[str, Event]]:
    """Events with the role that was open when they happened."""
    role = ""
    for event in trace.of("open", *kinds):
        if event.kind == "open":
            role = event.text("role")
        else:
            yield role, event


# ---- bytes of each direction -----------------------------------------------------------------------
def edges(trace: Trace, admission: Admission) -> list[Edge]:
    """What crossed between the host and devices, and between devices: predicted for the roles that were entered."""
    measured: Counter[str] = Counter()
    for event in trace.of("copy", "peer", "stage"):
        ends = ("host", "a device") if event.kind == "stage" else (event.text("from"), event.text("to"))
        if name := _direction(ends[0] != "host", ends[1] != "host", ends[0] == ends[1]):
            measured[name] += event.number("bytes")
    spaces = {event.text("space") for event in trace.of("arena")}
    entered = [event.text("role") for event in trace.of("open")]
    moves: dict[str, list[Move]] = {}
    for move in admission.moves:
        for source, target in pairwise(move.route):
            name = _direction(source in spaces, target in spaces, False)
            if name and move.role in entered:
                moves.setdefault(name, []).extend([move] * entered.count(move.role))
    return [_edge(name, measured[name], moves.get(name, [])) for name in sorted(measured.keys() | moves.keys())]


def _direction(from_device: bool, to_device: bool, same: bool) -> str | None:
    """None: within the host, or within one device."""
    if same or not (from_device or to_device):
        return None
    if from_device and to_device:
        return BETWEEN
    return TO_HOST if from_device else TO_DEVICES


def _edge(name: str, measured: int, moves: list[Move]) -> Edge:
    sizes = [move.bytes * move.times for move in moves if move.bytes is not None and move.times is not None]
    return Edge(name, measured, sum(sizes) if len(sizes) == len(moves) else None)
