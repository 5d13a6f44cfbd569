"""Admission of one role on one machine: `admit`.

Enters: a typed program whose borrows were checked, a machine, what is asked beside (`Limits`). Leaves: a `Plan`,
and diagnostics for everything that does not fit, cannot be followed or is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vx.admission.findings import Findings
from vx.admission.frames import Placed
from vx.admission.peaks import Peak, peaks
from vx.admission.plan import Arena, Bank, Call, Frame, Home, Kind, Limits, Plan, Slot, Verdict
from vx.admission.tiles import Types, multiple
from vx.diagnostics.report import Reporter
from vx.diagnostics.span import Span
from vx.machine.machine import Machine, Reserve
from vx.sema import tree
from vx.syntax.limits import recursion_room

_NO_LIMITS = Limits()


def roles(program: tree.Program) -> tuple[str, ...]:
    """The keys of what is admitted: the program's roles, or its `main` if it declares none."""
    return program.roles or (program.main,)


def admit(
    program: tree.Program,
    machine: Machine,
    reporter: Reporter,
    role: str | None = None,
    limits: Limits = _NO_LIMITS,
) -> Plan:
    """Whether one role of a program fits a machine, and where its tiles live.

    `role` is a key or name of `roles(program)`; it may be left out if there is only one. `program` must have
    passed the type and borrow checks. Errors and warnings go to the reporter: E6009, E6010, E6027, E6028,
    E6034 to E6037, W1028, W1029. Raises `ValueError` if there is no such role.
    """
    key = _role_key(program, role)
    with recursion_room():
        found = peaks(program, machine, limits, key)
        findings = Findings(program, machine, found)
        findings.ownership()
        findings.outside_roles(limits)
        findings.role_result(program.functions[key], Types(program))
        findings.unknown()
        findings.callbacks(limits)
        findings.single_tiles(Types(program))
        findings.frames()
    arenas = tuple(_arena(bank, found, key, machine, limits, findings.open) for bank in sorted(found[key].total))
    findings.arenas(arenas, program.functions[key])
    for diagnostic in findings.reporter.diagnostics:
        reporter.add(diagnostic)
    fits = all((arena.device_margin or 0) >= 0 or findings.overcommitted(arena.bank) for arena in arenas)
    return Plan(
        role=program.functions[key].name,
        verdict=_verdict(findings, fits),
        arenas=arenas,
        frames=tuple(_frame(key, found) for key in found),
        transfers=tuple(moved for peak in found.values() for moved in peak.slots.lowered.transfers),
        misfits=tuple(findings.misfits),
        unverified=tuple(findings.unverified),
    )


def _role_key(program: tree.Program, role: str | None) -> str:
    known = roles(program)
    if role is None:
        if len(known) == 1:
            return known[0]
        raise ValueError(f"which role? the program has {', '.join(known)}")
    for key in known:
        if role in (key, program.functions[key].name):
            return key
    raise ValueError(f"the program has no role `{role}`, only {', '.join(known)}")


def _verdict(findings: Findings, fits: bool) -> Verdict:
    if not fits or findings.reporter.has_errors:
        return Verdict.REJECTED
    return Verdict.UNVERIFIED if findings.unverified else Verdict.ADMITTED


# ---- the plan ----------------------------------------------------------------------------------
def _arena(
    bank: Bank, found: Mapping[str, Peak], role: str, machine: Machine, limits: Limits, open_: frozenset[Bank]
) -> Arena:
    space = machine.space(bank.space)
    capacity = space.capacity if space is not None else None
    workspace = multiple(limits.workspace.get(bank.space, 0), found[role].align[bank])
    needed = None if bank in open_ else found[role].total[bank] + workspace
    reserve = _reserve(bank, machine, limits, capacity)
    return Arena(bank, needed, capacity, reserve, workspace, peak_slots(found, role, bank, workspace))


def _reserve(bank: Bank, machine: Machine, limits: Limits, capacity: int | None) -> int:
    """Bytes that a deployment keeps. What is asked for concerns the memories of devices."""
    space = machine.space(bank.space)
    declared = space.reserve if space is not None else None
    is_device = any(topology.memory == bank.space for topology in machine.topologies.values())
    asked = limits.reserve if is_device else None
    return _reserved_bytes(asked or declared, capacity)


def _reserved_bytes(reserve: Reserve | None, capacity: int | None) -> int:
    if reserve is None:
        return 0
    if reserve.bytes is not None:
        return reserve.bytes
    return -(-(capacity or 0) * (reserve.ppm or 0) // 1_000_000)


def peak_slots(found: Mapping[str, Peak], role: str, bank: Bank, start: int) -> tuple[Slot, ...]:
    """The slots that coexist where a bank is fullest, at their offsets in the arena, with the calls that lead there."""
    slots: list[Slot] = []
    key, base, path = role, start, ()  # type: str, int, tuple[Span, ...]
    while True:
        peak = found[key]
        site = peak.through.get(bank)
        if site is None:
            if bank in peak.layout.own:
                present = peak.layout.present(bank, peak.layout.peak_at(bank))
                slots.extend(_slot(placed, key, base, path) for placed in present)
            return tuple(slots)
        slots.extend(_slot(placed, key, base, path) for placed in peak.layout.present(bank, site.at))
        base += peak.layout.top(bank, site.at, found[site.callee].align[bank])
        key, path = site.callee, (*path, site.span)


def _slot(placed: Placed, function: str, base: int, path: tuple[Span, ...]) -> Slot:
    slot = placed.slot
    return Slot(slot.bank, base + placed.offset, placed.bytes, slot.name, slot.kind, function, slot.span, path)


def _frame(key: str, found: Mapping[str, Peak]) -> Frame:
    peak = found[key]
    slots = tuple(_slot(placed, key, 0, ()) for placed in peak.layout.placed)
    return Frame(key, slots, tuple(_homes(peak)), tuple(_calls(peak, found)), peak.layout.own, peak.total)


def _calls(peak: Peak, found: Mapping[str, Peak]) -> Iterator[Call]:
    """The calls in a frame. Drops that run one function share a base, above whatever is held at any of them."""
    drops: dict[str, Call] = {}
    for site in peak.slots.lowered.sites:
        callee = found.get(site.callee)
        if callee is None or not callee.total:
            continue
        base = {bank: peak.layout.top(bank, site.at, callee.align[bank]) for bank in callee.total}
        if site.node is not None:
            yield Call(site.callee, site.node, site.span, base)
            continue
        first = drops.setdefault(site.callee, Call(site.callee, None, site.span, base))
        highest = {bank: max(at, first.base[bank]) for bank, at in base.items()}
        drops[site.callee] = Call(site.callee, None, first.span, highest)
    yield from drops.values()


def _homes(peak: Peak) -> Iterator[Home]:
    for number, placed in enumerate(peak.layout.placed):
        for maker in placed.slot.makers:
            yield Home(maker.node, placed.slot.kind, maker.number, number)
    for maker, result in peak.slots.returned:
        yield Home(maker.node, Kind.TILE, maker.number, None, result)
