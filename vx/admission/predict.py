"""What every transfer of a role will cost on its machine: bytes, how often, and time (`predict`).

Enters: a program, its machine, the Plan of a role. Leaves: a `Prediction` for each transfer. The time is for the route
that the compiled program takes and the most bytes it may move; a hop without a price leaves the whole transfer
unpriced, which is never the same as 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vx.admission.formulas import bytes_text, place_text, view_text
from vx.admission.plan import Bank, Moved, Plan, Prediction
from vx.admission.repeats import Repeated, repeated
from vx.diagnostics.span import Span
from vx.machine.cost import containment_walk, counted, edge_cost, edge_time_ps, peer_cost
from vx.machine.machine import Edge, Machine, Space, Topology
from vx.machine.route import Hop, find_route, route_along
from vx.sema import tree
from vx.syntax.limits import recursion_room


def predict(program: tree.Program, machine: Machine, plan: Plan) -> tuple[Prediction, ...]:
    """The predictions for `plan.transfers`, function by function in the order of the Plan's frames."""
    return predicted(program, machine, plan, steps_of(program, plan))


def steps_of(program: tree.Program, plan: Plan) -> tuple[Repeated, ...]:
    """The transfers and regions of a role."""
    with recursion_room():
        return tuple(repeated(program, [frame.function for frame in plan.frames]))


def predicted(program: tree.Program, machine: Machine, plan: Plan, steps: Sequence[Repeated]) -> tuple[Prediction, ...]:
    """The same from `steps_of` the role."""
    prices = _Prices(machine)
    moved: dict[tuple[str, Span], list[Moved]] = defaultdict(list)
    for transfer in reversed(plan.transfers):
        moved[transfer.function, transfer.span].append(transfer)
    with recursion_room():
        return tuple(
            _prediction(program, prices, moved[found.function, found.node.span].pop(), found, found.node)
            for found in steps
            if not isinstance(found.node, tree.Spawn) and moved[found.function, found.node.span]
        )


def _prediction(
    program: tree.Program, prices: _Prices, moved: Moved, found: Repeated, node: tree.Transfer | tree.Land
) -> Prediction:
    function = program.functions[found.function]
    into = f"`{place_text(program, function, node.target)}` in " if isinstance(node, tree.Land) else ""
    price = prices.of(moved)
    return Prediction(
        what=f"`{view_text(program, function, node.ref)}` to {into}{moved.target}",
        function=found.function,
        span=moved.span,
        bytes=moved.bytes,
        formula="" if moved.exact else bytes_text(program, function, node.ref),
        often=found.often,
        route=moved.route,
        hops=price.hops,
        ps=price.ps,
        basis=price.basis,
        note=price.note,
    )


# ---- prices ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Price:
    hops: tuple[Hop, ...]
    ps: int | None
    basis: str
    note: str = ""


_Key = tuple[tuple[str, ...], Bank, Bank, int]


@dataclass(slots=True)
class _Prices:
    """Prices of routes; what was asked before is not computed again."""

    machine: Machine
    known: dict[_Key, _Price] = field(default_factory=dict)

    def of(self, moved: Moved) -> _Price:
        if moved.bytes is None:
            return _Price((), None, "not predicted: how many bytes it moves is not known")
        key = (moved.route, moved.source, moved.target, moved.bytes)
        if key not in self.known:
            self.known[key] = self._price(*key)
        return self.known[key]

    def _price(self, route: tuple[str, ...], source: Bank, target: Bank, size: int) -> _Price:
        if len(route) < 2:
            return _Price((), None, f"not predicted: a copy within {target} has no price")
        between = route == (source.space, source.space)
        hops = (self._peer(route[0], size),) if between else route_along(self.machine, route, size).hops
        times = [self._time(hop, size) for hop in hops]
        for hop, time in zip(hops, times, strict=True):
            if time is None:
                why = "has no price" if hop.cost is None else "counts in cycles of no declared clock"
                return _Price(hops, None, f"not predicted: the hop {hop.source} -> {hop.target} {why}")
        ps = sum(time for time in times if time is not None)
        return _Price(
            hops, ps, self._basis(hops, size), "" if source.space == target.space else self._note(route, size, ps)
        )

    def _peer(self, space: str, size: int) -> Hop:
        owner = self.machine.space_owner(space)
        return Hop(space, space, 1, None if owner is None else peer_cost(owner, size))

    def _time(self, hop: Hop, size: int) -> int | None:
        """Picoseconds of a hop; cycles are converted by the clocks of the spaces that they are counted in."""
        if hop.cost is None or hop.cost.unit == "ps":
            return None if hop.cost is None else hop.cost.amount
        edge = self._edge(hop, size)
        return None if edge is None else edge_time_ps(self.machine, edge, size)

    def _edge(self, hop: Hop, size: int) -> Edge | None:
        """The edge that gives a hop its price."""
        edges = [edge for edge in self.machine.edges if (edge.source, edge.target) == (hop.source, hop.target)]
        return next((edge for edge in counted(edges) if edge_cost(self.machine, edge, size) == hop.cost), None)

    def _note(self, route: tuple[str, ...], size: int, ps: int) -> str:
        """What another route would take, if that is less for so many bytes."""
        best = find_route(self.machine, route[0], route[-1], size)
        if best is None or best.path == route or best.total_ps is None or best.total_ps >= ps:
            return ""
        return f"{' -> '.join(best.path)} would take {best.total_ps} ps for {size} bytes"

    # ---- where figures come from ----
    def _basis(self, hops: Sequence[Hop], size: int) -> str:
        figures = (figure for hop in hops for figure in self._figures(hop, size))
        kinds = (f"{'measured' if figure.measured else 'declared'} {figure.span.file}" for figure in figures)
        return ", ".join(dict.fromkeys(kinds))

    def _figures(self, hop: Hop, size: int) -> Iterator[Space | Topology | Edge]:
        """The declarations that a hop's price follows from."""
        assert hop.cost is not None
        if hop.source == hop.target:
            owner = self.machine.space_owner(hop.source)
            assert owner is not None
            yield owner
        elif hop.cost.basis == "containment":
            yield from containment_walk(self.machine, hop.source, hop.target)
        else:
            edge = self._edge(hop, size)
            assert edge is not None
            yield edge
