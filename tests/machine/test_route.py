"""Routes: one exists exactly if the target can be reached, and no other would be better."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from machine.declared import machine_of

from vx.machine.cost import ancestry, edge_time_ps
from vx.machine.machine import Edge, Machine, Rate, Space
from vx.machine.route import find_path, find_route, per_byte

NAMES = "ABCDE"


def machine(edges: tuple[Edge, ...], *spaces: Space) -> Machine:
    declared = {name: Space(name) for name in NAMES} | {space.name: space for space in spaces}
    return Machine(declared, machine_of("").topologies, edges, {}, {}, {})


def gigabytes(figure: int) -> Rate:
    return Rate(figure * 10**9, "s")


def test_a_known_time_goes_before_any_weight() -> None:
    edges = (
        Edge("A", "D", weight=1),
        Edge("A", "B", rate=gigabytes(1)),
        Edge("B", "D", rate=gigabytes(1)),
    )
    assert find_path(machine(edges), "A", "D") == ("A", "B", "D")
    assert find_path(machine(edges[:2]), "A", "D") == ("A", "D")


def test_the_passes_are_not_merged() -> None:
    """One unpriced edge on the only path: weights alone decide, over all edges."""
    edges = (
        Edge("A", "B", rate=gigabytes(1000)),
        Edge("B", "D", weight=9),
        Edge("A", "C", rate=gigabytes(1)),
        Edge("C", "D", weight=2),
    )
    assert find_path(machine(edges), "A", "D") == ("A", "C", "D")


def test_an_unweighted_edge_counts_one() -> None:
    edges = (Edge("A", "D", weight=3), Edge("A", "B"), Edge("B", "D"))
    assert find_path(machine(edges), "A", "D") == ("A", "B", "D")


def test_latency_makes_the_choice_depend_on_the_size() -> None:
    edges = (
        Edge("A", "D", rate=gigabytes(1)),
        Edge("A", "B", rate=gigabytes(100), latency_ps=10**7),
        Edge("B", "D", rate=gigabytes(100), latency_ps=10**7),
    )
    there = machine(edges)
    assert find_path(there, "A", "D", 1000) == ("A", "D")
    assert find_path(there, "A", "D", 10**6) == ("A", "B", "D")
    assert find_path(there, "A", "D") == ("A", "B", "D")


def test_of_two_equal_edges_the_cheapest_counts() -> None:
    edges = (Edge("A", "B", rate=gigabytes(1)), Edge("A", "B", rate=gigabytes(8)), Edge("B", "D", rate=gigabytes(8)))
    there = machine((*edges, Edge("A", "D", rate=gigabytes(2))))
    assert find_path(there, "A", "D", 10**9) == ("A", "B", "D")
    route = find_route(there, "A", "D", 10**9)
    assert route is not None and route.total_ps == 250_000_000_000


def test_ancestors_stand_in_nearest_first() -> None:
    tree = (Space("B", "A"), Space("C", "B"))
    assert find_path(machine((Edge("A", "D"),), *tree), "C", "D") == ("C", "A", "D")
    assert find_path(machine((Edge("A", "D"), Edge("B", "D")), *tree), "C", "D") == ("C", "B", "D")
    assert find_path(machine((Edge("D", "A"),), *tree), "D", "C") == ("D", "A", "C")
    assert find_path(machine((Edge("A", "D"), Edge("C", "E"), Edge("E", "D")), *tree), "C", "D") == ("C", "E", "D")


def test_cycles_without_a_clock_are_no_time() -> None:
    edges = (Edge("A", "D", rate=Rate(1, "cyc")), Edge("A", "B", rate=gigabytes(1)), Edge("B", "D", rate=gigabytes(1)))
    assert find_path(machine(edges), "A", "D") == ("A", "B", "D")


def test_a_containment_walk_is_compared_with_a_link() -> None:
    inner = Space("B", "A", bandwidth=gigabytes(2))
    outer = Space("A", bandwidth=gigabytes(2))
    edges = (Edge("A", "B"), Edge("A", "C", rate=gigabytes(4)), Edge("C", "B", rate=gigabytes(3)))
    assert find_path(machine(edges, outer, inner), "A", "B") == ("A", "C", "B")
    faster = Space("B", "A", bandwidth=gigabytes(20))
    assert find_path(machine(edges, outer, faster), "A", "B") == ("A", "B")


def test_a_route_lists_weights_and_costs() -> None:
    there = machine((Edge("A", "B", weight=120), Edge("B", "D", rate=gigabytes(1))))
    route = find_route(there, "A", "D", 1000)
    assert route is not None
    assert [(hop.weight, hop.cost is None) for hop in route.hops] == [(120, True), (1, False)]
    assert (route.total_weight, route.total_ps) == (121, None)


def test_what_does_not_move_is_not_free() -> None:
    route = find_route(machine(()), "A", "A", 1000)
    assert route is not None and route.path == ("A",) and route.total_ps is None


# ---- against trying everything -----------------------------------------------------------------
rates = st.one_of(
    st.none(), st.builds(gigabytes, st.integers(1, 9)), st.builds(Rate, st.integers(1, 9), st.just("cyc"))
)


@st.composite
def edges_between(draw: st.DrawFn) -> Edge:
    source, target = draw(st.permutations(NAMES))[:2]
    figure = draw(rates)
    weight = None if figure is not None else draw(st.one_of(st.none(), st.integers(1, 9)))
    latency = draw(st.integers(0, 3)) * 10**6 if figure is not None else None
    return Edge(source, target, weight, figure, latency)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Up to 9 edges between 5 spaces, of which each may lie within an earlier one."""
    spaces = []
    for place, name in enumerate(NAMES):
        within = draw(st.sampled_from([None, *NAMES[:place]]))
        bandwidth = draw(rates)
        spaces.append(Space(name, within, bandwidth=bandwidth, clock_hz=draw(st.sampled_from([None, 10**9]))))
    return machine(tuple(draw(st.lists(edges_between(), max_size=9))), *spaces)


def paths(there: Machine, start: str, end: str) -> Iterator[tuple[str, ...]]:
    """Every path without a repeated space."""
    open_paths = [(start,)]
    while open_paths:
        path = open_paths.pop()
        if path[-1] == end:
            yield path
            continue
        targets = {edge.target for edge in there.edges if edge.source == path[-1]}
        open_paths.extend((*path, target) for target in targets if target not in path)


def time_of(there: Machine, path: tuple[str, ...], size: int | None) -> Fraction | None:
    """The least time of a path; None if one of its hops has none."""
    total = Fraction(0)
    for near, far in pairwise(path):
        edges = [edge for edge in there.edges if (edge.source, edge.target) == (near, far)]
        times = [per_byte(there, edge) if size is None else edge_time_ps(there, edge, size) for edge in edges]
        known = [time for time in times if time is not None]
        if not known:
            return None
        total += min(known)
    return total


def weight_of(there: Machine, path: tuple[str, ...]) -> int:
    return sum(
        min(edge.weight or 1 for edge in there.edges if (edge.source, edge.target) == hop) for hop in pairwise(path)
    )


sizes = st.one_of(st.none(), st.integers(0, 10**7))


@settings(max_examples=150, deadline=None)
@given(machines(), st.sampled_from(NAMES), st.sampled_from(NAMES), sizes)
def test_a_route_exists_exactly_if_the_target_is_reachable(
    there: Machine, source: str, target: str, size: int | None
) -> None:
    pairs = [(a.name, b.name) for a in ancestry(there, source) for b in ancestry(there, target)]
    reachable = any(True for near, far in pairs for _ in paths(there, near, far))
    assert (find_path(there, source, target, size) is not None) == reachable


@settings(max_examples=150, deadline=None)
@given(machines(), st.sampled_from(NAMES), st.sampled_from(NAMES), sizes)
def test_no_path_is_better(there: Machine, source: str, target: str, size: int | None) -> None:
    every = list(paths(there, source, target))
    if not every:
        return
    chosen = find_path(there, source, target, size)
    assert chosen in every
    times = [time for path in every if (time := time_of(there, path, size)) is not None]
    if times:
        assert time_of(there, chosen, size) == min(times)
    else:
        assert weight_of(there, chosen) == min(weight_of(there, path) for path in every)


@settings(max_examples=50, deadline=None)
@given(machines(), st.sampled_from(NAMES), st.sampled_from(NAMES), st.randoms())
def test_the_order_of_declarations_is_nothing(there: Machine, source: str, target: str, random: object) -> None:
    shuffled = list(there.edges)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = Machine(there.spaces, there.topologies, tuple(shuffled), {}, {}, {})
    assert find_path(there, source, target) == find_path(other, source, target)


@settings(max_examples=100, deadline=None)
@given(machines(), st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(1, 10**9))
def test_unpriced_is_never_zero(there: Machine, source: str, target: str, size: int) -> None:
    route = find_route(there, source, target, size)
    if route is None:
        return
    assert all(hop.cost is None or hop.cost.amount > 0 for hop in route.hops)
    unpriced = any(hop.cost is None or hop.cost.unit != "ps" for hop in route.hops)
    assert (route.total_ps is None) == (unpriced or not route.hops)
