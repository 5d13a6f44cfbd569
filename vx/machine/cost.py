"""What it costs to move bytes between two spaces, from declared figures alone.

Enters: a `Machine`, two of its spaces or one of its edges, a number of bytes. Leaves: a `Cost` in whole
picoseconds or cycles, rounded up, or None: *unpriced*, which is never the same as 0.

A link's rate or measured table decides. Without one the cost follows from the containment tree: the walk from each
endpoint up to the nearest space that contains both, which counts only if it is itself an endpoint. Every
space on the walk is one leg and needs a bandwidth.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from vx.machine.machine import Edge, Machine, Peer, Rate, Space, Table, Topology

PICOSECONDS = 10**12

Basis = Literal["link_rate", "table", "containment"]


@dataclass(frozen=True, slots=True)
class Cost:
    """`amount` picoseconds ("ps") or clock cycles ("cyc"). `basis` is the kind of figure it follows from; `measured`
    says that all these figures are from measured machine files, otherwise some are declared."""

    amount: int
    unit: Literal["ps", "cyc"]
    basis: Basis
    measured: bool = False


def hop_cost(machine: Machine, source: str, target: str, size: int) -> Cost | None:
    """Cost of moving `size` bytes straight from `source` to `target`: over the cheapest edge between them, or,
    if none is declared, along the containment tree. None: unpriced."""
    edges = [edge for edge in machine.edges if (edge.source, edge.target) == (source, target)]
    if not edges:
        return containment_cost(machine, source, target, size)
    costs = [cost for edge in counted(edges) if (cost := edge_cost(machine, edge, size)) is not None]
    return min(costs, key=lambda cost: (cost.unit != "ps", cost.amount), default=None)


def price_text(cost: Cost | None) -> str:
    """A cost for people; `unpriced` if there is none."""
    if cost is None:
        return "unpriced"
    if cost.unit == "cyc":
        return f"{cost.amount:,} cycles"
    for unit, scale in (("s", 10**12), ("ms", 10**9), ("us", 10**6), ("ns", 10**3)):
        if cost.amount >= scale:
            return f"{cost.amount / scale:.4g} {unit}"
    return f"{cost.amount} ps"


def edge_cost(machine: Machine, edge: Edge, size: int) -> Cost | None:
    """Cost of moving `size` bytes over one edge, its latency included."""
    if edge.table is not None or edge.rate is not None:
        return _link_cost(edge, edge.measured, size)
    return containment_cost(machine, edge.source, edge.target, size)


def peer_cost(topology: Topology, size: int) -> Cost | None:
    """Cost of moving `size` bytes from one instance of `topology` to another."""
    return None if topology.peer is None else _link_cost(topology.peer, topology.measured, size)


def counted(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """The edges that count: where a transfer has a measured figure, declared ones for it do not."""
    edges = tuple(edges)
    measured = {(edge.source, edge.target) for edge in edges if _is_measured(edge)}
    return tuple(edge for edge in edges if _is_measured(edge) or (edge.source, edge.target) not in measured)


def _is_measured(edge: Edge) -> bool:
    return edge.measured and (edge.table is not None or edge.rate is not None)


def containment_cost(machine: Machine, source: str, target: str, size: int) -> Cost | None:
    """Cost of moving `size` bytes between two spaces of one containment tree.

    Legs that all count in cycles of one clock stay in cycles; otherwise each becomes picoseconds by the clock
    of its space, and a missing clock leaves the move unpriced.
    """
    walk = containment_walk(machine, source, target)
    rates = _shared_rates(walk)
    if not walk or rates is None:
        return None
    clocks = {space.clock_hz for space in walk} - {None}
    measured = all(space.measured for space in walk)
    if all(rate.per == "cyc" for rate in rates) and len(clocks) <= 1:
        return Cost(_combined(walk, [_ceil(size, rate.bytes) for rate in rates]), "cyc", "containment", measured)
    time = _walk_time(walk, rates, size)
    return None if time is None else Cost(time, "ps", "containment", measured)


def edge_time_ps(machine: Machine, edge: Edge, size: int) -> int | None:
    """Like `edge_cost`, always in picoseconds: what routes are compared by. None if no clock converts it."""
    if edge.table is not None or edge.rate is not None:
        cost = _link_cost(edge, edge.measured, size)
        return cost.amount if cost is not None and cost.unit == "ps" else None
    walk = containment_walk(machine, edge.source, edge.target)
    rates = _shared_rates(walk)
    return None if not walk or rates is None else _walk_time(walk, rates, size)


def containment_walk(machine: Machine, source: str, target: str) -> tuple[Space, ...]:
    """The spaces that a move from `source` to `target` reads or fills; empty if no space contains both."""
    up, down = ancestry(machine, source), ancestry(machine, target)
    below = {space.name: place for place, space in enumerate(down)}
    for place, space in enumerate(up):
        if space.name in below:
            meets = (space,) if space.name in (source, target) else ()
            return (*up[:place], *meets, *reversed(down[: below[space.name]]))
    return ()


def ancestry(machine: Machine, name: str) -> tuple[Space, ...]:
    """The space `name`, then what it lies within, outermost last."""
    found: dict[str, Space] = {}
    at: str | None = name
    while at is not None and at not in found and at in machine.spaces:
        found[at] = machine.spaces[at]
        at = found[at].within
    return tuple(found.values())


def _link_cost(link: Edge | Peer, measured: bool, size: int) -> Cost | None:
    if link.table is not None:
        return Cost(table_time_ps(link.table, size), "ps", "table", measured)
    if link.rate is None:
        return None
    if link.rate.per == "s":
        time = _ceil(size * PICOSECONDS, link.rate.bytes) + (link.latency_ps or 0)
        return Cost(time, "ps", "link_rate", measured)
    if link.latency_ps is not None:  # cycles and time do not add: a link has no clock
        return None
    return Cost(_ceil(size, link.rate.bytes), "cyc", "link_rate", measured)


def table_time_ps(table: Table, size: int) -> int:
    """Picoseconds of `size` bytes by a measured table: linear between its points and rounded up, the last slope
    above them, and the first time below them."""
    points = table.points
    if size <= points[0][0]:
        return points[0][1]
    above = min(bisect_left(points, (size, 0)), len(points) - 1)
    (before, elapsed), (after, until) = points[above - 1 : above + 1]
    return elapsed + _ceil((size - before) * (until - elapsed), after - before)


def _shared_rates(walk: Sequence[Space]) -> list[Rate] | None:
    """What each leg delivers to one of the replicas on the walk; None if some leg says nothing.

    A space without `replicas` serves all the replicas of the most replicated one, so each gets a part of it.
    """
    sharers = max((space.replicas or 1 for space in walk), default=1)
    rates = []
    for space in walk:
        if space.bandwidth is None:
            return None
        share = space.bandwidth.bytes if space.replicas is not None else space.bandwidth.bytes // sharers
        if share == 0:
            return None
        rates.append(Rate(share, space.bandwidth.per))
    return rates


def _walk_time(walk: Sequence[Space], rates: Iterable[Rate], size: int) -> int | None:
    legs = []
    for space, rate in zip(walk, rates, strict=True):
        if rate.per == "s":
            legs.append(_ceil(size * PICOSECONDS, rate.bytes))
        elif space.clock_hz is None:
            return None
        else:
            legs.append(_ceil(_ceil(size, rate.bytes) * PICOSECONDS, space.clock_hz))
    return _combined(walk, legs)


def _combined(walk: Sequence[Space], legs: Sequence[int]) -> int:
    """Legs one after another; at once if the target is streamed into and no thread carries data in between."""
    streamed = walk[-1].crossing == "streamed" and all(space.scope != "thread" for space in walk[1:-1])
    return max(legs) if streamed else sum(legs)


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
