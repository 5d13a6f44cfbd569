"""Rules that a machine's declarations keep together: containment, visibility, names, edges.

Enters: a `Machine` with everything declared so far. Leaves: errors in the reporter, at the declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from itertools import pairwise

from vx.diagnostics.report import Reporter
from vx.diagnostics.span import Span
from vx.machine.cost import containment_cost
from vx.machine.machine import BUILTIN_IDS, ID_LIMIT, SCOPES, Edge, Machine, Space, Topology, topology_id


def check_machine(machine: Machine, reporter: Reporter) -> None:
    """Report every rule that the declarations of `machine` break."""
    for space in machine.spaces.values():
        _check_containment(space, machine, reporter)
    for topology in machine.topologies.values():
        _check_topology(topology, machine, reporter)
    for edge in machine.edges:
        _check_edge(edge, machine, reporter)
    _check_ids(machine, reporter)


def _at(declared: Space | Topology, field: str) -> Span:
    """Where a field stands; the whole declaration if the field is not written."""
    return declared.fields.get(field, declared.span)


def _check_figures(space: Space, reporter: Reporter) -> None:
    """E6042 for figures of one space that leave nothing of its capacity."""
    reserved = None if space.reserve is None else space.reserve.bytes
    for field, size in (("granule", space.granule), ("reserve", reserved)):
        too_large = space.capacity is not None and size is not None and size + (field == "reserve") > space.capacity
        if too_large:
            reporter.error(
                "E6042",
                f"`{field}` of Memory {space.name}, {size} bytes, leaves nothing of its {space.capacity} bytes",
                _at(space, field),
                labels=[(_at(space, "capacity"), "the capacity is declared here")],
                helps=["correct the larger figure"],
            )


def _check_edge(edge: Edge, machine: Machine, reporter: Reporter) -> None:
    what = f"the transfer `{edge.source} -> {edge.target}`"
    known = [_known(name, edge.span, what, machine, reporter) for name in (edge.source, edge.target)]
    if not all(known) or edge.weight is None:
        return
    derived = containment_cost(machine, edge.source, edge.target, 2**30)
    if derived is not None:
        reporter.error(
            "E6013",
            f"{what} states the cost {edge.weight}, which follows from declared bandwidths already",
            edge.span,
            notes=[f"1 GiB takes {derived.amount} {derived.unit} by the bandwidths of the spaces on the way"],
            helps=["leave the cost out, or state the link's rate, such as `63 GB/s`, if it is another"],
        )


def _check_containment(space: Space, machine: Machine, reporter: Reporter) -> None:
    _check_figures(space, reporter)
    if space.within is None:
        return
    if not _known(space.within, _at(space, "within"), f"`within` of Memory {space.name}", machine, reporter):
        return
    if _in_cycle(space, machine.spaces):
        reporter.error(
            "E6006",
            f"Memory {space.name} lies within itself",
            _at(space, "within"),
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
            _at(space, "capacity"),
            labels=[(_at(parent, "capacity"), f"the capacity of {parent.name}")],
            helps=["correct the smaller figure, or `within`"],
        )
    if _breadth(space) > _breadth(parent) > 0:
        reporter.error(
            "E6011",
            f"Memory {space.name} has scope {space.scope}, broader than {parent.name}'s scope {parent.scope}",
            _at(space, "scope"),
            labels=[(_at(parent, "scope"), f"the scope of {parent.name}")],
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
    _known(topology.memory, _at(topology, "memory"), f"`memory` of {what}", machine, reporter)
    for name in (name for name in topology.visible if name != topology.memory):
        _known(name, _at(topology, "visible"), f"`visible` of {what}", machine, reporter)
    if topology.memory not in topology.visible:
        reporter.error(
            "E6005",
            f"{what} cannot see its own memory {topology.memory}",
            _at(topology, "visible"),
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
    """E6042, E6016: ids are hashes of names, so they may run out or two topologies' ranges may overlap."""
    declared = [topology for topology in machine.topologies.values() if topology.layer != "builtin"]
    ranges = sorted((topology_id(t.name), topology_id(t.name, t.instances - 1), t.name, t) for t in declared)
    for _, last, name, topology in ranges:
        if last >= ID_LIMIT:
            reporter.error(
                "E6042",
                f"Topology {name} has {topology.instances} instances, and there are no dispatch ids for so many",
                _at(topology, "instances"),
                helps=["declare fewer instances, or give the topology another name"],
            )
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
