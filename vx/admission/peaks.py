"""Frames added along calls: how much a function needs with everything it calls.

Enters: the functions reachable from a role. Leaves: their slots and layouts in the order callee before caller,
and for each bank the total: the larger of the own frame and, at each call, what is reserved there plus the
callee's total. A cycle of calls that holds nothing needs what the functions need that it calls; one that holds
tiles has no total (`findings.py` refuses it), and here its own tiles are counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vx.admission.frames import Layout, layout_of
from vx.admission.ops import Lowered, Site, Summary
from vx.admission.ownership import lower_function
from vx.admission.plan import Bank, Limits
from vx.admission.slots import Slots, slots_of
from vx.admission.tiles import Types
from vx.machine.machine import Machine
from vx.sema import tree


@dataclass(frozen=True, slots=True)
class Peak:
    """One function with its calls. `cycle` holds the functions of its cycle of calls, empty if there is none;
    `through` the call where a bank's total is reached, None if the own frame is as high."""

    layout: Layout
    cycle: frozenset[str]
    total: Mapping[Bank, int]
    through: Mapping[Bank, Site | None]
    align: Mapping[Bank, int]
    """Of what the start of its frame is a multiple."""

    @property
    def slots(self) -> Slots:
        return self.layout.slots

    @property
    def key(self) -> str:
        return self.slots.lowered.key


def peaks(
    program: tree.Program, machine: Machine, limits: Limits, start: str, closed: frozenset[str] = frozenset()
) -> dict[str, Peak]:
    """Every function reachable from `start` without entering `closed`, callees first; `start` is the last."""
    types = Types(program)
    summaries: dict[str, Summary] = {}
    lowered: dict[str, Lowered] = {}
    found: dict[str, Peak] = {}

    def callees(key: str) -> Iterator[str]:
        lowered[key] = lower_function(program.functions[key], types, machine, limits)
        return (site.callee for site in lowered[key].sites if site.callee not in closed)

    for group in _components(start, callees):
        settled = _settled([lowered[key] for key in group], summaries, machine, limits)
        cyclic = len(group) > 1 or _calls_itself(settled[group[0]])
        cycle = frozenset(group) if cyclic else frozenset()
        peaks_ = [_peak(layout_of(slots, machine), found, cycle) for slots in settled.values()]
        found.update((peak.key, peak) for peak in (_around(peaks_) if cyclic else peaks_))
    return found


def _settled(
    group: list[Lowered],
    summaries: dict[str, Summary],
    machine: Machine,
    limits: Limits,
) -> dict[str, Slots]:
    """The slots of functions that call one another, once their summaries no longer change."""
    while True:
        slots = {lowered.key: slots_of(lowered, machine, limits, summaries) for lowered in group}
        changed = [key for key in slots if summaries.get(key) != slots[key].summary]
        summaries.update({key: slots[key].summary for key in changed})
        if not changed or (len(group) == 1 and not _calls_itself(slots[group[0].key])):
            return slots


def _calls_itself(slots: Slots) -> bool:
    return any(site.callee == slots.lowered.key for site in slots.lowered.sites)


def _peak(layout: Layout, found: Mapping[str, Peak], cycle: frozenset[str]) -> Peak:
    """A function with the calls that lead out of its cycle."""
    total = dict(layout.own)
    align = dict(layout.align)
    through: dict[Bank, Site | None] = dict.fromkeys(total)
    for site in layout.slots.lowered.sites:
        callee = found.get(site.callee)
        if callee is None or site.callee in cycle:
            continue
        for bank, needs in callee.total.items():
            if bank == site.covered:
                continue
            height = layout.top(bank, site.at, callee.align[bank]) + needs
            align[bank] = max(align.get(bank, 1), callee.align[bank])
            if height > total.get(bank, -1):
                total[bank], through[bank] = height, site
    return Peak(layout, cycle, total, through, align)


def _around(members: Sequence[Peak]) -> list[Peak]:
    """The functions of a cycle: each reaches all others, so each needs what the largest of them does."""
    totals = [dict(peak.total) for peak in members]
    throughs = [dict(peak.through) for peak in members]
    align = {bank: max(peak.align.get(bank, 1) for peak in members) for peak in members for bank in peak.total}
    for bank in sorted(align):
        largest = max(members, key=lambda peak: peak.total.get(bank, -1))
        towards = _towards(largest, members)
        for peak, total, through in zip(members, totals, throughs, strict=True):
            if total.get(bank, -1) < largest.total[bank]:
                total[bank], through[bank] = largest.total[bank], towards[peak.key]
    found = zip(members, totals, throughs, strict=True)
    return [Peak(peak.layout, peak.cycle, total, through, align) for peak, total, through in found]


def _towards(goal: Peak, members: Sequence[Peak]) -> dict[str, Site]:
    """For each other function of the cycle, a call on a shortest way to `goal`."""
    next_: dict[str, Site] = {}
    reached = [goal.key]
    for key in reached:
        for peak in members:
            site = next((site for site in peak.slots.lowered.sites if site.callee == key), None)
            if site is not None and peak.key not in reached:
                next_[peak.key] = site
                reached.append(peak.key)
    return next_


def _components(start: str, callees: Callable[[str], Iterable[str]]) -> Iterator[list[str]]:
    """The cycles of calls, and the functions in none, as groups; each after what it calls. Not recursive."""
    order: dict[str, int] = {start: 0}
    lowest: dict[str, int] = {start: 0}
    open_: list[str] = [start]
    on_stack = {start}
    work: list[tuple[str, Iterator[str]]] = [(start, iter(list(callees(start))))]
    while work:
        key, rest = work[-1]
        for callee in rest:
            if callee not in order:
                order[callee] = lowest[callee] = len(order)
                open_.append(callee)
                on_stack.add(callee)
                work.append((callee, iter(list(callees(callee)))))
                break
            if callee in on_stack:
                lowest[key] = min(lowest[key], order[callee])
        else:
            work.pop()
            if work:
                lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[key])
            if lowest[key] == order[key]:
                group = open_[open_.index(key) :]
                del open_[len(open_) - len(group) :]
                on_stack.difference_update(group)
                yield group
