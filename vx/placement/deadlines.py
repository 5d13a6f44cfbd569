"""Deadlines: `transfer(x, M) within 5 ms` is a claim, proven here from the machine's declared figures.

Enters: the transfers that have one, the machine. Leaves: an error E6033 for each that is not met, or cannot be shown
to be met. What counts is the time of the whole route for the most bytes that may move; exactly the deadline is met.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from vx.diagnostics.report import Reporter
from vx.machine.cost import Cost, edge_time_ps, hop_cost, peer_cost, price_text
from vx.machine.machine import Edge, Machine
from vx.sema import tree, types

Timed = tree.Transfer | tree.Land

_BASES = {"link_rate": "rate of the link", "table": "times of the link", "containment": "bandwidths on the way"}


@dataclass(frozen=True, slots=True)
class _Leg:
    """One hop and its cost in picoseconds; None: unpriced."""

    text: str
    cost: Cost | None


def check_deadlines(transfers: Iterable[Timed], machine: Machine, reporter: Reporter) -> None:
    """Report E6033 for every deadline that the declared route does not meet for the most bytes that it may move."""
    for transfer in transfers:
        if transfer.within_ns is not None:
            _check(transfer, transfer.within_ns * 1000, machine, reporter)


def _check(transfer: Timed, deadline_ps: int, machine: Machine, reporter: Reporter) -> None:
    wanted = price_text(Cost(deadline_ps, "ps", "link_rate"))
    route = " -> ".join(transfer.route)
    size = most_bytes(transfer)
    if size is None:
        reporter.error(
            "E6033",
            f"whether this takes at most {wanted} cannot be known: nothing bounds how many bytes move",
            transfer.span,
            notes=[f"the route is {route}"],
            helps=["move a slice of a tensor whose extent is known: it has at most that extent"],
        )
        return
    legs = _legs(transfer, machine, size)
    priced = [leg.cost for leg in legs if leg.cost is not None]
    total = sum(cost.amount for cost in priced)
    notes = [f"at most {size} bytes move, on the route {route}"]
    notes += [f"{leg.text}: {price_text(leg.cost)}{_basis(leg.cost)}" for leg in legs]
    if len(priced) < len(legs):
        unknown = ", ".join(leg.text for leg in legs if leg.cost is None)
        message = f"that this takes at most {wanted} cannot be proven: the machine gives no price for {unknown}"
        helps = ["declare the link's rate, such as `transfer Memory::A -> Memory::B : 63 GB/s`, or leave out `within`"]
        reporter.error("E6033", message, transfer.span, notes=notes, helps=helps)
    elif total > deadline_ps:
        took = price_text(Cost(total, "ps", "link_rate"))
        message = f"this takes {took} by the machine's declared figures, and its deadline is {wanted}"
        notes.append(f"that is {total} ps, and the deadline is {deadline_ps} ps")
        helps = ["move less at a time, state a later deadline, or run it on a machine with a faster link"]
        reporter.error("E6033", message, transfer.span, notes=notes, helps=helps)


def most_bytes(transfer: Timed) -> int | None:
    """The most bytes that a transfer may move: its tensor's extents at their bounds, else those of its target."""
    ref = transfer.ref.type
    assert isinstance(ref, tree.Ref) and isinstance(ref.to, tree.Tensor)
    size = types.most_bytes(ref.to)
    return types.most_bytes(_target(transfer)) if size is None else size


def _target(transfer: Timed) -> tree.Tensor:
    type_ = transfer.type if isinstance(transfer, tree.Transfer) else transfer.target.type
    assert isinstance(type_, tree.Tensor)
    return type_


def _legs(transfer: Timed, machine: Machine, size: int) -> list[_Leg]:
    route = transfer.route
    if len(route) == 1:
        return [_Leg(f"a copy within {route[0]}", None)]
    place = _target(transfer).place
    if len(route) == 2 and route[0] == route[1]:
        topology = None if place is None else machine.topology(place.topology)
        cost = None if topology is None else peer_cost(topology, size)
        return [_Leg(f"{route[0]} to its peer", cost if cost is not None and cost.unit == "ps" else None)]
    return [_Leg(f"{near} -> {far}", _hop_time(machine, near, far, size)) for near, far in pairwise(route)]


def _hop_time(machine: Machine, source: str, target: str, size: int) -> Cost | None:
    """What a hop costs in time; None also where no clock converts cycles."""
    cost = hop_cost(machine, source, target, size)
    if cost is None or cost.unit == "ps":
        return cost
    time = edge_time_ps(machine, Edge(source, target), size) if cost.basis == "containment" else None
    return None if time is None else Cost(time, "ps", "containment")


def _basis(cost: Cost | None) -> str:
    if cost is None:
        return ""
    return f", by the {'measured' if cost.measured else 'declared'} {_BASES[cost.basis]}"
