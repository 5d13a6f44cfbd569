"""Rules that a machine's declarations keep together: containment, visibility, names, edges.

Enters: a `Machine` with everything declared so far. Leaves: errors in the reporter, at the declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from itertools import pairwise

from vx.diagnostics.report import Reporter
from vx.diagnostics.span import Span
from vx.machine.machine import BUILTIN_IDS, SCOPES, Machine, Space, Topology, topology_id


def check_machine(machine: Machine, reporter: Reporter) -> None:
    """Report every rule that the declarations of `machine` break."""
    for space in machine.spaces.values():
        _check_containment(space, machine, reporter)
    for topology in machine.topologies.values():
        _check_topology(topology, machine, reporter)
    for edge in machine.edges:
        _known(edge.source, edge.span, f"the transfer `{edge.source} -> {edge.target}`", machine, reporter)
        _known(edge.target, edge.span, f"the transfer `{edge.source} -> {edge.target}`", machine, reporter)
    _check_ids(machine, reporter)


def _check_containment(space: Space, machine: Machine, reporter: Reporter) -> None:
    if space.within is None:
        return
    if not _known(space.within, space.span, f"`within` of Memory {space.name}", machine, reporter):
        return
    if _in_cycle(space, machine.spaces):
        reporter.error(
            "E6006",
            f"Memory {space.name} lies within itself",
            space.span,
            notes=[f"the chain is {' within '.join(_chain(space, machine.spaces))}"],
            helps=["`within` names the larger space that contains this one; the outermost has none"],
        )
        return
    _check_parent(space, machine.spaces[space.within], reporter)


def _check_parent(space: Space, parent: Space, reporter: Reporter) -> None:
    if space.capacity is not None and parent.capacity is not None and space.capacity > parent.capacity:
        reporter.error(
            "E6007",
            f"Memory {space.name} of {space.capacity} bytes cannot lie within {parent.name} of {parent.capacity} bytes",
            space.span,
            labels=[(parent.span, f"{parent.name} is declared here")],
            helps=["correct the smaller figure, or `within`"],
        )
    if _breadth(space) > _breadth(parent) > 0:
        reporter.error(
            "E6011",
            f"Memory {space.name} has scope {space.scope}, broader than {parent.name}'s scope {parent.scope}",
            space.span,
            labels=[(parent.span, f"{parent.name} is declared here")],
            helps=[f"a space inside {parent.name} can be shared by at most one {parent.scope}"],
        )


def _breadth(space: Space) -> int:
    """How many threads share the space, as a rank; 0 if it does not say."""
    return 0 if space.scope is None else SCOPES.index(space.scope) + 1


def _chain(space: Space, spaces: Mapping[str, Space]) -> list[str]:
    names = [space.name]
    at = space.within
    while at is not None and at not in names and at in spaces:
        names.append(at)
        at = spaces[at].within
    return names if at is None else [*names, at]


def _in_cycle(space: Space, spaces: Mapping[str, Space]) -> bool:
    chain = _chain(space, spaces)
    return len(chain) > 1 and chain[-1] == space.name


def _check_topology(topology: Topology, machine: Machine, reporter: Reporter) -> None:
    what = f"Topology {topology.name}"
    _known(topology.memory, topology.span, f"`memory` of {what}", machine, reporter)
    for name in (name for name in topology.visible if name != topology.memory):
        _known(name, topology.span, f"`visible` of {what}", machine, reporter)
    if topology.memory not in topology.visible:
        reporter.error(
            "E6005",
            f"{what} cannot see its own memory {topology.memory}",
            topology.span,
            helps=[f"add Memory::{topology.memory} to `visible`"],
        )


def _known(name: str, span: Span, what: str, machine: Machine, reporter: Reporter) -> bool:
    if name in machine.spaces:
        return True
    near = get_close_matches(name, machine.spaces, n=1)
    hint = f"did you mean Memory::{near[0]}?" if near else f"declare it: `Memory {name} {{ … }}`"
    reporter.error("E6025", f"{what} names Memory::{name}, which is not declared", span, helps=[hint])
    return False


def _check_ids(machine: Machine, reporter: Reporter) -> None:
    """E6016: ids are hashes of names, so two declared topologies' instance ranges may overlap."""
    declared = [topology for topology in machine.topologies.values() if topology.layer != "builtin"]
    ranges = sorted((topology_id(t.name), topology_id(t.name, t.instances - 1), t.name, t) for t in declared)
    for first, second in pairwise(ranges):
        if second[0] <= first[1]:
            reporter.error(
                "E6016",
                f"Topology {second[2]} and Topology {first[2]} have the same dispatch id",
                second[3].span,
                labels=[(first[3].span, f"{first[2]} is declared here")],
                helps=["give one of them another name"],
            )


def shadows_builtin(name: str, machine: Machine) -> bool:
    """Whether a declaration of `name` would hide something built in."""
    space = machine.spaces.get(name)
    return name in BUILTIN_IDS or (space is not None and space.layer == "builtin")
