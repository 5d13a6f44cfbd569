"""The record of a check, schema `vx-diagnostics-v1`: what was found, and the proof behind it, for tools.

Enters: diagnostics and the texts they point into; where the check came so far, the program and the Plans of its roles.
Leaves: JSON, two-space indent at top level, one record a line. `docs/reference/records.md` describes every field.
One file has all roles: records of a role name it, so that a program with one role reads like its check alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vx.admission.itemise import itemise
from vx.admission.jsontext import Number, document
from vx.admission.plan import Arena, Bank, Frame, Kind, Often, Plan, Prediction, Slot, Unknown, Verdict
from vx.admission.predict import predicted, steps_of
from vx.diagnostics.report import Diagnostic, Level
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import Span
from vx.machine.machine import Machine
from vx.machine.route import route_along
from vx.sema import tree

Row = Mapping[str, object]

_PICOSECONDS = 10**12


@dataclass(frozen=True, slots=True)
class Check:
    """One check of `file` against the machine file `machine_file` (None: the generic machine), as far as it came.

    `program` and `machine` are None, and `plans` empty, if the program was refused before it had them. `plans` are
    those of `program.roles`, in any number; the roles that a build leaves out are in `program.refused`. `bare`: files
    are named without their folders, for a record that leaves this machine.
    """

    file: str
    machine_file: str | None
    diagnostics: Sequence[Diagnostic]
    sources: SourceMap
    machine: Machine | None = None
    program: tree.Program | None = None
    plans: tuple[Plan, ...] = ()
    bare: bool = False


def admission_record(check: Check) -> str:
    """The record of a check as JSON text. An admitted role has the same detail as a rejected one."""
    errors = sum(diagnostic.level is Level.ERROR for diagnostic in check.diagnostics)
    roles = [_Role(check, plan) for plan in check.plans]
    fields: dict[str, object] = {
        "schema": "vx-diagnostics-v1",
        "file": check.file,
        "machine": check.machine_file,
        "verdict": verdict_of(check).value,
        "error_count": errors,
        "warning_count": len(check.diagnostics) - errors,
        "diagnostics": [_diagnostic(diagnostic, check) for diagnostic in check.diagnostics],
        "routes": _unique(row for role in roles for row in role.routes()),
        "resident_sets": [row for role in roles for row in role.resident_sets()],
        "spawn_regions": [row for role in roles for row in role.spawn_regions()],
        "role": check.plans[0].role if len(check.plans) == 1 else None,
        "roles": [*(_summary(plan) for plan in check.plans), *_refused(check.program)],
        "instances": [row for role in roles for row in role.instances()] or list(_spaces(check.machine)),
        "margins": margins(arena for plan in check.plans for arena in plan.arenas),
        "items": [row for role in roles for row in role.items()],
        "predictions": [row for role in roles for row in role.predictions()],
        "plan": [row for role in roles for row in role.arenas()],
        "frames": [row for role in roles for row in role.frames()],
        "unverified": [{"role": plan.role, "what": what} for plan in check.plans for what in plan.unverified],
    }
    return document(_bare(fields, check) if check.bare else fields)


def _bare(value: Any, check: Check) -> Any:
    """The same with every file that was read named without its folders."""
    read = {
        check.file,
        *(check.program.files if check.program else ()),
        *(check.machine.files if check.machine else ()),
    }
    known = sorted((file for file in read if "/" in file), key=len, reverse=True)

    def stripped(item: Any) -> Any:
        if isinstance(item, str):
            for file in known:
                item = item.replace(file, os.path.basename(file))
            return item
        if isinstance(item, Mapping):
            return {name: stripped(inner) for name, inner in item.items()}
        return [stripped(inner) for inner in item] if isinstance(item, list | tuple) else item

    return stripped(value)


def summary(check: Check) -> dict[str, object]:
    """The verdict and margins of a check and of each of its roles: what a SARIF log has as properties."""
    return {
        "file": check.file,
        "machine": check.machine_file,
        "verdict": verdict_of(check).value,
        "margins": margins(arena for plan in check.plans for arena in plan.arenas),
        "roles": [*(_summary(plan) for plan in check.plans), *_refused(check.program)],
    }


def verdict_of(check: Check) -> Verdict:
    """Admitted only if every role that is compiled is, and there is one: what was not looked at is unverified."""
    verdicts = {plan.verdict for plan in check.plans}
    if Verdict.REJECTED in verdicts or any(found.level is Level.ERROR for found in check.diagnostics):
        return Verdict.REJECTED
    return Verdict.ADMITTED if verdicts == {Verdict.ADMITTED} else Verdict.UNVERIFIED


def margins(arenas: Iterable[Arena]) -> dict[str, int | None]:
    """The least bytes that are left in any bank, of the device and of a deployment. None: nothing limits, or what is
    needed is not known."""
    known = list(arenas)
    if any(arena.bytes is None and arena.capacity is not None for arena in known):
        return {"device": None, "deployment": None}
    device = (arena.device_margin for arena in known)
    deployment = (arena.deployment_margin for arena in known)
    return {
        "device": min((margin for margin in device if margin is not None), default=None),
        "deployment": min((margin for margin in deployment if margin is not None), default=None),
    }


# ---- what needs no Plan ------------------------------------------------------------------------
def _diagnostic(diagnostic: Diagnostic, check: Check) -> Row:
    line, column = check.sources.line_col(diagnostic.span)
    row: dict[str, object] = {
        "level": diagnostic.level.value,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "line": line,
        "column": column,
    }
    for plan in check.plans:
        for misfit in plan.misfits:
            if (misfit.code, misfit.span) == (diagnostic.code, diagnostic.span) and "capacity" not in row:
                row["capacity"] = {
                    "space": misfit.bank.space,
                    "required_bytes": misfit.required,
                    "available_bytes": misfit.available,
                    "margin_bytes": misfit.margin,
                    "tiles": misfit.tiles,
                    "instance": misfit.bank.instance,
                }
    helps = [help_.text for help_ in diagnostic.helps]
    return {**row, "file": diagnostic.span.file, "notes": list(diagnostic.notes), "helps": helps}


def _summary(plan: Plan) -> Row:
    return {
        "role": plan.role,
        "verdict": plan.verdict.value,
        "why": "; ".join(plan.unverified) or None,
        "margins": margins(plan.arenas),
    }


def _refused(program: tree.Program | None) -> Iterator[Row]:
    """The roles that are not compiled."""
    for refusal in (program.refused if program is not None else {}).values():
        verdict = "not applicable" if refusal.lacking else "not asked for"
        yield {"role": refusal.role, "verdict": verdict, "why": refusal.why, "margins": margins(())}


def _spaces(machine: Machine | None) -> Iterator[Row]:
    """The banks with a capacity, for a check that did not come to what a role needs."""
    for space in machine.spaces.values() if machine is not None else ():
        owner = machine.space_owner(space.name) if machine is not None else None
        if space.capacity is not None:
            for instance in range(owner.instances if owner is not None else 1):
                bank = Bank(space.name, instance)
                yield _instance(None, Arena(bank, None, space.capacity, 0, 0, ()), owner.name if owner else None)


def _instance(role: str | None, arena: Arena, topology: str | None) -> Row:
    return {
        "role": role,
        "topology": topology,
        "instance": arena.bank.instance,
        "space": arena.bank.space,
        "required_bytes": arena.bytes,
        "capacity_bytes": arena.capacity,
        "reserve_bytes": arena.reserve,
        "workspace_bytes": arena.workspace,
        "margins": {"device": arena.device_margin, "deployment": arena.deployment_margin},
    }


def _unique(rows: Iterable[Row]) -> list[Row]:
    return list({str(row): row for row in rows}.values())


# ---- one role ----------------------------------------------------------------------------------
class _Role:
    """The rows of one role. The check has its program and machine."""

    def __init__(self, check: Check, plan: Plan) -> None:
        assert check.program is not None and check.machine is not None
        self.program, self.machine, self.plan = check.program, check.machine, plan
        self.sources = check.sources
        self.steps = steps_of(self.program, plan)
        self.predicted = predicted(self.program, self.machine, plan, self.steps)

    def _line(self, span: Span) -> int:
        return self.sources.line_col(span)[0]

    def routes(self) -> Iterator[Row]:
        """One for each path and number of bytes that a transfer of several spaces has."""
        for found in self.predicted:
            if len(found.route) > 1:
                yield self._route(found)

    def _route(self, found: Prediction) -> Row:
        hops = found.hops or route_along(self.machine, found.route, 0).hops
        costs = [hop.cost for hop in found.hops if hop.cost is not None]
        units = {cost.unit for cost in costs}
        priced = len(costs) == len(hops) and len(units) == 1
        sources = sorted({cost.basis for cost in costs}, key=lambda basis: basis == "containment")
        return {
            "path": list(found.route),
            "edges": [{"from": hop.source, "to": hop.target, "cost": hop.weight} for hop in hops],
            "total_cost": sum(hop.weight for hop in hops),
            "bytes": found.bytes,
            "derived_cost": sum(cost.amount for cost in costs) if priced else None,
            "derived_unit": units.pop() if priced else None,
            "cost_source": sources[0] if priced else None,
        }

    def resident_sets(self) -> Iterator[Row]:
        for arena in self.plan.arenas:
            space = self.machine.space(arena.bank.space)
            yield {
                "space": arena.bank.space,
                "total_bytes": arena.bytes,
                "capacity_bytes": arena.capacity,
                "utilization": _utilization(arena),
                "tiles": len(arena.peak),
                "overcommit": space is not None and space.overcommit,
                "instance": arena.bank.instance,
                "role": self.plan.role,
            }

    def spawn_regions(self) -> Iterator[Row]:
        for found in self.steps:
            if isinstance(found.node, tree.Spawn):
                place = found.node.place
                yield {
                    "function": found.function,
                    "topology": place.topology,
                    "instance": place.instance,
                    "space": place.space,
                    "line": self._line(found.node.span),
                    "times": _times(found.often),
                    "often": self._often(found.often),
                    "role": self.plan.role,
                }

    def instances(self) -> Iterator[Row]:
        for arena in self.plan.arenas:
            owner = self.machine.space_owner(arena.bank.space)
            yield _instance(self.plan.role, arena, owner.name if owner is not None else None)

    def items(self) -> Iterator[Row]:
        for item in itemise(self.plan, self.program):
            yield {
                "role": self.plan.role,
                "space": item.bank.space,
                "instance": item.bank.instance,
                "name": item.name,
                "kind": item.kind,
                "bytes": item.bytes,
                "tiles": item.tiles,
            }

    # ---- predictions ----
    def predictions(self) -> Iterator[Row]:
        for found in self.predicted:
            yield {
                "what": found.what,
                "bytes": found.bytes,
                "seconds": None if found.ps is None else _seconds(found.ps),
                "basis": found.basis,
                "formula": found.formula or None,
                "times": _times(found.often),
                "often": self._often(found.often),
                "route": list(found.route),
                "hops": [
                    {
                        "from": hop.source,
                        "to": hop.target,
                        "cost": None if hop.cost is None else hop.cost.amount,
                        "unit": None if hop.cost is None else hop.cost.unit,
                        "cost_source": None if hop.cost is None else hop.cost.basis,
                    }
                    for hop in found.hops
                ],
                "note": found.note or None,
                "function": found.function,
                "file": found.span.file,
                "line": self._line(found.span),
                "role": self.plan.role,
            }

    def _often(self, often: Often) -> str | None:
        """How often something happens, for people: `32 for each iteration of line 12 (n)`."""
        terms = []
        for around, times in often.items():
            what = " and each ".join(self._unknown(item) for item in around)
            terms.append(f"{times} for each {what}" if what else str(times))
        return " + ".join(terms) or None

    def _unknown(self, item: Unknown) -> str:
        kind = "call of line" if item.is_call else "iteration of line"
        count = f" ({item.count} times)" if item.count != "?" else ""
        return f"{kind} {self._line(item.span)}{count}"

    # ---- where everything lies ----
    def arenas(self) -> Iterator[Row]:
        """The tiles at the peak of each arena, at their offsets in it."""
        for arena in self.plan.arenas:
            workspace = {"name": "library workspace", "offset": 0, "bytes": arena.workspace, "line": None}
            below = [{**workspace, "kind": Kind.WORKSPACE.value, "function": None}] if arena.workspace else []
            tiles = [*below, *({**self._tile(slot), "function": slot.function} for slot in arena.peak)]
            yield {
                "space": arena.bank.space,
                "instance": arena.bank.instance,
                "tiles": tiles,
                "role": self.plan.role,
            }

    def _tile(self, slot: Slot) -> dict[str, object]:
        line = self._line(slot.span)
        return {
            "name": slot.name,
            "offset": slot.offset,
            "bytes": slot.bytes,
            "line": line,
            "kind": slot.kind.value,
        }

    def frames(self) -> Iterator[Row]:
        """Every function that holds tiles or calls one that does: with the calls, all addresses follow from these."""
        for frame in self.plan.frames:
            if frame.slots or frame.calls:
                yield self._frame(frame)

    def _frame(self, frame: Frame) -> Row:
        calls = (
            {"function": call.callee, "line": self._line(call.span), "base": _by_bank("offset", call.base)}
            for call in frame.calls
        )
        tiles = ({**self._tile(slot), "space": slot.bank.space, "instance": slot.bank.instance} for slot in frame.slots)
        return {
            "function": frame.function,
            "file": self.program.functions[frame.function].span.file,
            "tiles": list(tiles),
            "calls": list(calls),
            "own": _by_bank("bytes", frame.own),
            "total": _by_bank("bytes", frame.total),
            "role": self.plan.role,
        }


def _by_bank(name: str, figures: Mapping[Bank, int]) -> list[Row]:
    return [{"space": bank.space, "instance": bank.instance, name: figure} for bank, figure in sorted(figures.items())]


def _times(often: Often) -> int | None:
    """The number of times, if it is known."""
    return sum(often.values()) if often and not any(often) else None


def _seconds(ps: int) -> Number:
    """Picoseconds as seconds, exactly."""
    return Number(f"{ps // _PICOSECONDS}.{ps % _PICOSECONDS:012d}")


def _utilization(arena: Arena) -> Number | None:
    """The share of the capacity that is needed, rounded to 4 decimals."""
    if arena.bytes is None or not arena.capacity:
        return None
    parts = (2 * arena.bytes * 10**4 + arena.capacity) // (2 * arena.capacity)
    return Number(f"{parts // 10**4}.{parts % 10**4:04d}")
