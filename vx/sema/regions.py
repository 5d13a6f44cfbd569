"""Regions and transfers: what runs where, and what moves.

Enters: `spawn on`, `transfer`, places as values, `Reachable`. Leaves: `Spawn`, `Transfer` and `Land` with
places resolved and routes found. A region's body is checked as code of its topology.
"""

from __future__ import annotations

from vx.diagnostics.span import Span
from vx.machine.machine import GPU_ARCHES, topology_id
from vx.machine.route import find_path
from vx.sema import expressions, placement, statements, tree
from vx.sema.context import Body, Session
from vx.sema.types import dims_may_equal, most_bytes, show, show_dims, show_place
from vx.syntax import ast


# ---- regions -----------------------------------------------------------------------------------
def spawn(body: Body, node: ast.Spawn, expected: tree.Type | None) -> tree.Value:
    """`spawn on(T) { … }`. Errors: E6025, E6030 for a value that cannot leave, E6038 inside a region."""
    if body.region is not None or not body.on_host:
        labels = [] if body.region is None else [(body.region, "this region")]
        raise body.fail("E6038", "a region cannot start another one", node.span, labels=labels)
    place = _spawn_place(body, node)
    outer_env, outer_loops = body.env, body.loops
    body.env, body.loops, body.region = body.moved_to(place), [], node.place.span
    try:
        block = statements.block(body, node.body, expected)
        if expected != tree.VOID:
            block = _copied_out(body, block)
    finally:
        body.env, body.loops, body.region = outer_env, outer_loops, None
    type_ = tree.VOID if isinstance(block.type, tree.Never) else block.type
    if not isinstance(type_, tree.Void | tree.Scalar | tree.Tensor):
        helps = ["write it into a tensor that exists already, or make the value a tensor: `.copy()`"]
        message = f"a region gives a number or a tensor, not {show(type_)}"
        raise body.fail("E6030", message, node.body.value.span if node.body.value else node.span, helps=helps)
    return tree.Spawn(type_, node.span, place, block)


def _spawn_place(body: Body, node: ast.Spawn) -> tree.Place:
    assert isinstance(node.place, ast.TopologyPlace)
    if node.place.name == "Current":
        body.warn("W1023", "`Topology::Current` is where this code runs already", node.place.span)
    return placement.placed(body.session, body.type_env, node.place)


def _copied_out(body: Body, block: tree.Block) -> tree.Block:
    """A region whose value is a row or view gives a copy of it."""
    value = block.value
    if value is None or not isinstance(value.type, tree.Ref) or not isinstance(value.type.to, tree.Tensor):
        return block
    placement.check_use(body, value.type, value.span, "this value")
    inner = value.type.to
    type_ = tree.Tensor(inner.elem, inner.dims, body.home)
    return tree.Block(block.stmts, tree.CopyTensor(type_, value.span, value), type_, block.span)


# ---- transfers ---------------------------------------------------------------------------------
def transfer(body: Body, node: ast.Transfer, _expected: tree.Type | None) -> tree.Value:
    """`transfer(x, place)`: a new tensor there. Errors: E3012, E6002, E6025, E6026, E6038."""
    target = placement.placed(body.session, body.type_env, node.target)
    value = expressions.unchecked(body, node.operand) if _is_number(body, node.operand) else None
    if value is not None:
        return value
    return moved(body, expressions.place(body, node.operand), target, node.span, node.within_ns)


def _is_number(body: Body, node: ast.Expr) -> bool:
    """Whether the operand is a number: the value of a region that has arrived already."""
    found = expressions.named_place(body, node)
    return found is not None and isinstance(found.type, tree.Scalar)


def moved(body: Body, source: tree.PlaceNode, target: tree.Place, span: Span, within_ns: int | None) -> tree.Value:
    """A new tensor at `target` with the contents of `source`."""
    ref, route = carried(body, source, target, span)
    assert isinstance(ref.type, tree.Ref) and isinstance(ref.type.to, tree.Tensor)
    place = placement.type_place(body.session, target)
    placement.check_dtype(body.session, place, ref.type.to.elem, span)
    type_ = tree.Tensor(ref.type.to.elem, ref.type.to.dims, place)
    node = tree.Transfer(type_, span, ref, route, within_ns)
    if within_ns is not None:
        body.session.timed.append((body.session.current, node))
    return node


def carried(body: Body, source: tree.PlaceNode, target: tree.Place, span: Span) -> tuple[tree.Value, tuple[str, ...]]:
    """What a transfer to `target` reads, and its route."""
    source = expressions.through_refs(source)
    if not isinstance(source.type, tree.Tensor):
        raise body.fail("E3012", f"`transfer` moves tensors, and this is {show(source.type)}", source.span)
    if not body.on_host:
        raise body.fail("E6038", "transfers are started by the host, and this runs on a device", span)
    origin = placement.real_place(body.session, source.type.place)
    if (origin.space, origin.instance) == (target.space, target.instance) and not body.env.bindings:
        body.warn("W1022", f"this is in {target.space} already", span, ["to copy it, write `.copy()`"])
    route = route_between(body, origin, target, span, most_bytes(source.type))
    if body.session.host.space in route:
        placement.check_host(body.session, f"the transfer {' -> '.join(route)}", span)
    return expressions.borrow(source), route


def route_between(body: Body, origin: tree.Place, target: tree.Place, span: Span, size: int | None) -> tuple[str, ...]:
    """The spaces passed on the way of at most `size` bytes. Error: E6002 if there is none."""
    session = body.session
    machine, host = session.machine, session.host.space
    if origin.space == target.space:
        topology = machine.topology(target.topology) if target.topology else None
        if origin.instance == target.instance:
            return (target.space,)
        if topology is not None and topology.peer is not None:
            return (origin.space, target.space)
        out, back = _path(session, origin.space, host, size), _path(session, host, target.space, size)
        found = None if out is None or back is None else (*out, *back[1:])
    else:
        found = _path(session, origin.space, target.space, size)
    if found is None:
        known = sorted({edge.target for edge in machine.edges if edge.source == origin.space})
        message = f"there is no path from {origin.space} to {target.space}"
        notes = [f"from {origin.space} a transfer leads to {', '.join(known) or 'nowhere'}"]
        helps = [f"declare an edge: `transfer Memory::{origin.space} -> Memory::{target.space}`"]
        raise body.fail("E6002", message, span, notes=notes, helps=helps)
    return found


def _path(session: Session, source: str, target: str, size: int | None) -> tuple[str, ...] | None:
    """The quickest path for so many bytes. Where no link has a latency, or the size is not bounded, the time per
    byte alone decides."""
    machine = session.machine
    if size is None or all(edge.latency_ps is None and edge.table is None for edge in machine.edges):
        return machine.route(source, target)
    asked = (source, target, size)
    if asked not in session.paths:
        session.paths[asked] = find_path(machine, source, target, size)
    return session.paths[asked]


def land(body: Body, target: tree.PlaceNode, node: ast.Transfer, span: Span) -> tree.Land:
    """`target = transfer(view, place)`: a copy into storage that exists. Errors: E3009, E6039, E7005."""
    goal = placement.placed(body.session, body.type_env, node.target)
    ref, route = carried(body, expressions.place(body, node.operand), goal, node.span)
    assert isinstance(ref.type, tree.Ref) and isinstance(ref.type.to, tree.Tensor)
    source, into = ref.type.to, target.type
    assert isinstance(into, tree.Tensor)
    lives = placement.real_place(body.session, into.place)
    if placement.type_place(body.session, goal) != into.place:
        message = f"this goes to {show_place(goal)}, and {placement.name_of(target, body)} is in {show_place(lives)}"
        raise body.fail("E6039", message, node.target.span)
    if source.elem != into.elem:
        message = f"the elements are {source.elem}, and {placement.name_of(target, body)} has {into.elem}"
        raise body.fail("E3009", message, node.operand.span)
    if not dims_may_equal(source.dims, into.dims):
        message = f"{show_dims(source.dims)} does not fit into {show_dims(into.dims)}"
        raise body.fail("E7005", message, node.operand.span)
    landing = tree.Land(span, target, ref, route, node.within_ns)
    if node.within_ns is not None:
        body.session.timed.append((body.session.current, landing))
    return landing


def the_device(body: Body, span: Span) -> tree.Place:
    """The one device that `.to_device()` means: the only declared one, else the built-in GPU."""
    machine = body.session.machine
    declared = [t for t in machine.topologies.values() if t.layer != "builtin" and t.memory != body.session.host.space]
    parts = [t for t in declared if t.arch in GPU_ARCHES] or declared
    if len(parts) == 1 and parts[0].instances == 1:
        return tree.Place(parts[0].memory, parts[0].name)
    if parts:
        message = "`.to_device()` does not say which device"
        raise body.fail("E6031", message, span, helps=["write `transfer(x, Topology::D[i])`"])
    gpu = machine.topologies["GPU"]
    return tree.Place(gpu.memory, gpu.name)


# ---- places as values --------------------------------------------------------------------------
def place_value(body: Body, node: ast.PlaceValue, _expected: tree.Type | None) -> tree.Value:
    """A topology as a number: its dispatch id."""
    if isinstance(node.place, ast.MemoryPlace):
        raise body.session.unsupported("a memory as a value is", node.span)
    place = placement.resolve_place(body.session, body.type_env, node.place)
    return tree.Const(tree.I32, node.span, topology_id(place.topology, place.instance))


def reachable(body: Body, node: ast.Reachable, _expected: tree.Type | None) -> tree.Value:
    """`Reachable<A, B>`: whether there is a path from A's memory to B's; known when compiling."""
    spaces = []
    for side in (node.source, node.target):
        named = ast.TopologyPlace(side.span, side.segments[-1], None, None) if isinstance(side, ast.PathType) else side
        spaces.append(placement.resolve_place(body.session, body.type_env, named).space)
    return tree.Const(tree.BOOL, node.span, body.session.machine.route(spaces[0], spaces[1]) is not None)
