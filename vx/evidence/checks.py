"""What must hold of a run, each computed from the events of its trace and able to fail.

Enters: a `Trace`. Leaves: `Result`s in the order of `CHECKS`. A check that has nothing to look at says so: it
neither holds nor fails (`ok` None), and a report in which nothing holds is no proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from vx.evidence.trace import Event, Trace


@dataclass(frozen=True, slots=True)
class Result:
    """`ok`: it holds, fails, or (None) the run has nothing that it is about."""

    name: str
    ok: bool | None
    detail: str


class Named(NamedTuple):
    """A device by what the program calls it and what the driver says it is."""

    device: str
    ordinal: int
    uuid: str


Verdict = tuple[bool | None, str]


def tier(trace: Trace) -> str:
    """T2: everything ran on the devices where it was placed; T1: some of it on a stand-in, or there was no device."""
    opened = [event.text("tier") for event in trace.of("open")]
    return "T2" if opened and all(found == "T2" for found in opened) else "T1"


def named(event: Event) -> Named:
    return Named(event.text("device"), event.number("ordinal"), event.text("uuid"))


def devices(trace: Trace) -> list[Named]:
    """Those that were opened, once each."""
    return list(dict.fromkeys(named(event) for event in trace.of("device")))


def decode_steps(trace: Trace) -> int:
    """Dispatches inside `decode` phases."""
    inside = steps = 0
    for event in trace.of("phase", "dispatch"):
        if event.kind == "dispatch":
            steps += inside > 0
        elif event.text("name") == "decode":
            inside += 1 if event.text("edge") == "begin" else -1
    return steps


def switches(trace: Trace) -> int:
    """How often the next dispatch is on another device than the one before; nothing else counts."""
    order = [named(event) for event in trace.of("dispatch")]
    return sum(a != b for a, b in pairwise(order))


# ---- the checks ----------------------------------------------------------------------------------
def _ended_well(trace: Trace) -> Verdict:
    errors = [event.text("message") for event in trace.of("error")]
    if errors:
        return False, f"error: {errors[0]}"
    return trace.status == 0, f"status {trace.status}"


def _closed(trace: Trace) -> Verdict:
    opened = [event.text("role") for event in trace.of("open")]
    closed = [event.text("role") for event in trace.of("close") if event.number("status") == 0]
    if not opened:
        return None, "no devices were opened"
    return Counter(opened) == Counter(closed), f"{len(closed)} of {len(opened)} roles were left in order"


def _every_device_worked(trace: Trace) -> Verdict:
    used = Counter(named(event) for event in trace.of("dispatch"))
    opened = devices(trace)
    if not opened:
        return None, "no devices"
    idle = [found.device for found in opened if not used[found]]
    counts = ", ".join(f"{found.device} {used[found]}" for found in opened)
    return not idle, f"unused: {', '.join(idle)}" if idle else f"dispatches: {counts}"


def _nothing_elsewhere(trace: Trace) -> Verdict:
    """Every event's device is one that was opened, under the same number and UUID."""
    opened = set(devices(trace))
    kinds = ("arena", "stage", "dispatch", "token", "dropped", "counter", "traffic", "memory")
    seen = list(dict.fromkeys(named(event) for event in trace.of(*kinds)))
    names = {found.device for found in opened} | {"host"}
    stray = [f"{found.device} ({found.uuid})" for found in seen if found not in opened]
    stray += [
        end
        for e in trace.of("copy", "peer", "handoff")
        for end in (e.text("from"), e.text("to"))
        if end not in names and e.kind != "handoff"
    ]
    if not opened and not seen:
        return None, "no devices"
    twice = len({found.uuid for found in opened}) != len(opened)
    if twice:
        return False, "two devices of the program are one and the same"
    return not stray, f"not opened: {', '.join(sorted(set(stray)))}" if stray else f"{len(opened)} devices"


def _decoded(trace: Trace) -> Verdict:
    if not any(event.text("name") == "decode" for event in trace.of("phase")):
        return None, "no phase `decode`"
    if not list(trace.of("open")):
        return None, "decoded by the host alone"
    steps = decode_steps(trace)
    return steps > 0, f"{steps} dispatches while decoding"


def _counted(trace: Trace) -> Verdict:
    """What the devices counted themselves is what the host issued."""
    issued = Counter((named(event), event.text("region")) for event in trace.of("dispatch"))
    counts = list(trace.of("counter"))
    if not counts:
        return None, "no region counts on its device"
    for event in counts:
        mine = issued[(named(event), event.text("region"))]
        if mine != event.number("count"):
            return (
                False,
                f"{event.text('region')} on {event.text('device')}: {event.number('count')} on the device, {mine} issued",
            )
    return True, ", ".join(f"{e.text('region')} {e.number('count')}" for e in counts)


def _graphs(trace: Trace) -> Verdict:
    """The driver was asked to launch as many graphs as were dispatched."""
    issued = Counter(named(event) for event in trace.of("dispatch") if event.text("by") == "graph")
    made = Counter(named(event) for event in trace.of("dispatch") if event.number("recorded"))
    if not issued:
        return None, "no graphs"
    for event in trace.of("traffic"):
        found = named(event)
        launched, graphs = event.number("graph_launches"), event.number("graphs")
        if (launched, graphs) != (issued[found], made[found]):
            return (
                False,
                f"{found.device}: {launched} launches of {graphs} graphs, {issued[found]} of {made[found]} dispatched",
            )
    measured = {named(event) for event in trace.of("traffic")}
    return set(issued) <= measured, f"{issued.total()} launches of {made.total()} graphs"


def _tokens(trace: Trace) -> Verdict:
    """Steps counted on a device = tokens that came from it, dropped ones included."""
    given = Counter(named(event) for event in trace.of("token"))
    if not given:
        return None, "no tokens from a ring"
    for event in trace.of("dropped"):
        given[named(event)] += event.number("tokens")
    for found, count in given.items():
        steps = [event.number("count") for event in trace.of("counter") if named(event) == found]
        if count not in steps:
            return False, f"{found.device}: {count} tokens, steps counted there: {', '.join(map(str, steps)) or 'none'}"
    return True, f"{given.total()} tokens"


def _positions(trace: Trace) -> Verdict:
    """One after the other; a new sequence may begin anywhere not beyond where the last one was."""
    last: dict[Named, int] = {}
    for event in trace.of("token"):
        found, position = named(event), event.number("position")
        if found in last and position > last[found] + 1:
            return False, f"{found.device}: position {position} follows {last[found]}"
        last[found] = position
    return (True if last else None), "consecutive" if last else "no tokens from a ring"


def _weights_once(trace: Trace) -> Verdict:
    """No byte of an arena was loaded twice, and what the driver moved is what was to be loaded."""
    spans: dict[tuple[Named, str], list[tuple[int, int]]] = {}
    for event in trace.of("stage"):
        start = event.number("offset")
        spans.setdefault((named(event), event.text("space")), []).append((start, start + event.number("bytes")))
    if not spans:
        return None, "no weights"
    for (found, space), ranges in spans.items():
        ranges.sort()
        if any(a[1] > b[0] for a, b in pairwise(ranges)):
            return False, f"{space} of {found.device}: some bytes were loaded twice"
    total = sum(end - start for ranges in spans.values() for start, end in ranges)
    moved = sum(event.number("loaded_bytes") for event in trace.of("traffic"))
    return total == moved, f"{total} bytes, {moved} moved by the driver"


def _arena_drop(trace: Trace) -> Verdict:
    return _each_memory(trace, lambda m: (m.number("free_before") - m.number("free_after") == m.number("arena_rounded"),
                                          f"{m.number('free_before') - m.number('free_after')} bytes for {m.number('arena_rounded')}"))  # fmt: skip


def _allocations(trace: Trace) -> Verdict:
    arenas = Counter(named(event) for event in trace.of("arena"))
    return _each_memory(trace, lambda m: (m.number("allocations") == m.number("arenas") == arenas[named(m)],
                                          f"{m.number('allocations')} for {arenas[named(m)]} arenas"))  # fmt: skip


def _flat(trace: Trace) -> Verdict:
    if tier(trace) == "T1" and all(m.number("free_warm") < 0 for m in trace.of("memory")):
        return None, "not measured on a stand-in"
    return _each_memory(trace, lambda m: (m.number("free_warm") == m.number("free_end"),
                                          f"{m.number('free_warm')} free when warm, {m.number('free_end')} at the end"))  # fmt: skip


def _reserve(trace: Trace) -> Verdict:
    if tier(trace) == "T1":
        return None, "a stand-in has no driver"
    if all(m.number("reserve") == 0 for m in trace.of("memory")):
        taken = ", ".join(f"{m.number('driver_bytes')} bytes" for m in trace.of("memory"))
        return None, f"no reserve was stated; the driver took {taken}"
    return _each_memory(trace, lambda m: (m.number("driver_bytes") <= m.number("reserve"),
                                          f"driver_bytes {m.number('driver_bytes')}, reserve {m.number('reserve')}"))  # fmt: skip


def _each_memory(trace: Trace, holds: Callable[[Event], Verdict]) -> Verdict:
    measured = {named(event): holds(event) for event in trace.of("memory")}
    if not devices(trace):
        return None, "no devices"
    if missing := [found.device for found in devices(trace) if found not in measured]:
        return False, f"not measured: {', '.join(missing)}"
    details = "; ".join(f"{found.device}: {detail}" for found, (_, detail) in measured.items())
    return all(ok for ok, _ in measured.values()), details


def _no_fallback(trace: Trace) -> Verdict:
    if tier(trace) == "T1":
        return None, "on a stand-in"
    host = sum(event.number("host") for event in trace.of("dispatch"))
    idle = [e.text("region") for e in trace.of("dispatch") if not e.number("emitted") + e.number("vendor")]
    if host or idle:
        return False, f"{host} kernels ran on the host; regions without a kernel: {len(idle)}"
    return True, "every kernel is emitted or a vendor's"


def _handed_over(trace: Trace) -> Verdict:
    found = list(trace.of("handoff"))
    wrong = [
        event for event in found if event.number("bytes") != event.number("predicted_bytes") or not event.text("digest")
    ]
    if wrong:
        return False, f"{wrong[0].number('bytes')} bytes moved, {wrong[0].number('predicted_bytes')} predicted"
    return (True if found else None), f"{len(found)} handoffs of the predicted size" if found else "no handoff"


CHECKS: tuple[tuple[str, Callable[[Trace], Verdict]], ...] = (
    ("ended well", _ended_well),
    ("roles left in order", _closed),
    ("every device worked", _every_device_worked),
    ("nothing ran elsewhere", _nothing_elsewhere),
    ("decode steps", _decoded),
    ("device counters", _counted),
    ("graph launches", _graphs),
    ("tokens", _tokens),
    ("token positions", _positions),
    ("weights once", _weights_once),
    ("arena is the only drop", _arena_drop),
    ("one allocation an arena", _allocations),
    ("memory is flat", _flat),
    ("driver fits the reserve", _reserve),
    ("no fallback", _no_fallback),
    ("handoff bytes", _handed_over),
)


def check(trace: Trace) -> Iterator[Result]:
    """Every check on one trace."""
    for name, test in CHECKS:
        ok, detail = test(trace)
        yield Result(name, ok, detail)
