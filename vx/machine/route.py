"""Which spaces a transfer passes, and what each hop of it costs.

Enters: a `Machine`, two spaces and, if it is known, how many bytes move. Leaves: the path, or None if there
is none. Two passes, never mixed: first over edges whose time is known, by least total time; only if those do
not reach, over all edges by the least sum of declared weights. If neither reaches, the spaces that contain
the endpoints stand in for them, nearest first. With a number of bytes latencies count, so that the choice
depends on it; without one, time per byte decides.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from vx.machine.cost import Cost, ancestry, counted, edge_time_ps, hop_cost
from vx.machine.machine import Edge, Machine

REFERENCE_BYTES = 2**30
"""At which a containment walk is priced when only the time per byte matters."""

_ATTOSECONDS = 10**18

Path = tuple[str, ...]
Key = tuple[Fraction | int, int, int, Path]
"""What paths are compared by: time, declared weights, hops, then names, so that declaration order is nothing."""
Step = tuple[Fraction | int, int]
Steps = Mapping[str, Mapping[str, Step]]
"""From a space to its neighbours: the time and the declared weight of the best edge."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One move between two spaces. `weight` is the declared one (1 if none is); `cost` None: unpriced."""

    source: str
    target: str
    weight: int
    cost: Cost | None


@dataclass(frozen=True, slots=True)
class Route:
    """A path and its hops for a transfer of `bytes` bytes."""

    path: Path
    hops: tuple[Hop, ...]
    bytes: int

    @property
    def total_weight(self) -> int:
        """The sum of declared weights."""
        return sum(hop.weight for hop in self.hops)

    @property
    def total_ps(self) -> int | None:
        """Picoseconds of all hops; None if there is none, or one is unpriced or counts in cycles."""
        times = [hop.cost.amount for hop in self.hops if hop.cost is not None and hop.cost.unit == "ps"]
        return sum(times) if times and len(times) == len(self.hops) else None


def find_path(machine: Machine, source: str, target: str, size: int | None = None) -> Path | None:
    """The spaces from `source` to `target`, both included; None if there is no path or no such space."""
    start, end = machine.space(source), machine.space(target)
    if start is None or end is None:
        return None
    passes = (_timed(machine, size), _weighted(machine))
    for near, far in _stand_ins(machine, start.name, end.name):
        for steps in passes:
            path = _least(steps, near, far)
            if path is not None:
                return (*_unless(start.name, near), *path, *_unless(end.name, far))
    return None


def find_route(machine: Machine, source: str, target: str, size: int) -> Route | None:
    """The path for a transfer of `size` bytes, with the cost of each hop."""
    path = find_path(machine, source, target, size)
    return None if path is None else route_along(machine, path, size)


def route_along(machine: Machine, path: Path, size: int) -> Route:
    """The hops of a path that was chosen already."""
    steps = _weighted(machine)
    hops = (
        Hop(near, far, steps.get(near, {}).get(far, (1, 1))[1], hop_cost(machine, near, far, size))
        for near, far in pairwise(path)
    )
    return Route(path, tuple(hops), size)


def _unless(name: str, stand_in: str) -> Path:
    return () if name == stand_in else (name,)


def _stand_ins(machine: Machine, source: str, target: str) -> Iterator[tuple[str, str]]:
    """The endpoints, then the spaces around them: fewest levels up first, the target's before the source's."""
    up = [space.name for space in ancestry(machine, source)]
    down = [space.name for space in ancestry(machine, target)]
    pairs = [(i + j, i, j) for i in range(len(up)) for j in range(len(down))]
    return ((up[i], down[j]) for _, i, j in sorted(pairs))


def _timed(machine: Machine, size: int | None) -> Steps:
    """Edges whose time is known: picoseconds for `size` bytes, or attoseconds per byte."""
    steps: dict[str, dict[str, Step]] = {}
    for edge in counted(machine.edges):
        time = per_byte(machine, edge) if size is None else edge_time_ps(machine, edge, size)
        if time is not None:
            _keep(steps, edge, (time, _weight(edge)))
    return steps


def _weighted(machine: Machine) -> Steps:
    """All edges, by declared weight alone."""
    steps: dict[str, dict[str, Step]] = {}
    for edge in machine.edges:
        _keep(steps, edge, (0, _weight(edge)))
    return steps


def per_byte(machine: Machine, edge: Edge) -> Fraction | None:
    """Attoseconds that each byte takes over an edge, latency aside; None if that is not known."""
    if edge.table is not None:
        (before, elapsed), (after, until) = edge.table.points[-2:]
        return Fraction((until - elapsed) * 10**6, after - before)
    if edge.rate is not None:
        return Fraction(_ATTOSECONDS, edge.rate.bytes) if edge.rate.per == "s" else None
    time = edge_time_ps(machine, edge, REFERENCE_BYTES)
    return None if time is None else Fraction(time * 10**6, REFERENCE_BYTES)


def _weight(edge: Edge) -> int:
    return 1 if edge.weight is None else edge.weight


def _keep(steps: dict[str, dict[str, Step]], edge: Edge, found: Step) -> None:
    """Of several edges between the same spaces, the cheapest counts."""
    known = steps.setdefault(edge.source, {})
    known[edge.target] = min(found, known.get(edge.target, found))


def _least(steps: Steps, start: str, end: str) -> Path | None:
    """The path with the least key. Keys grow along a path and keep their order when extended, so the first
    time a space is reached is the best."""
    queue: list[Key] = [(0, 0, 0, (start,))]
    done: set[str] = set()
    while queue:
        time, weight, hops, path = heapq.heappop(queue)
        here = path[-1]
        if here == end:
            return path
        if here in done:
            continue
        done.add(here)
        for target, (more_time, more_weight) in steps.get(here, {}).items():
            if target not in done:
                heapq.heappush(queue, (time + more_time, weight + more_weight, hops + 1, (*path, target)))
    return None
