"""Places: from `Memory::X` and `Topology::T[i]` to where bytes live and code runs, and who may read what.

Enters: place expressions, the machine. Leaves: `tree.Place`s. Two spellings of one place give one `Place`:
a device's space is its `memory:`, a space's device is the one topology whose memory it is. In types, the
host's own memory is None.
"""

from __future__ import annotations

from itertools import pairwise

from vx.diagnostics.span import Span
from vx.machine.cost import Cost, peer_cost, price_text
from vx.machine.machine import Machine, Topology
from vx.machine.route import route_along
from vx.sema import constants, tree
from vx.sema.context import Body, Env, Session
from vx.sema.names import did_you_mean
from vx.sema.types import most_bytes, show_place, tensor_of
from vx.syntax import ast


def host_place(machine: Machine) -> tree.Place:
    """Where host code runs."""
    cpu = machine.topology("CPU")
    return tree.Place(cpu.memory if cpu is not None else "CPU_DRAM", "CPU")


def type_place(session: Session, place: tree.Place) -> tree.Place | None:
    """The place as types have it: None for host memory, whoever owns or reads it."""
    return None if place.space == session.host.space else place


def real_place(session: Session, place: tree.Place | None) -> tree.Place:
    """The inverse of `type_place`."""
    return session.host if place is None else place


# ---- resolving ---------------------------------------------------------------------------------
def resolve_place(session: Session, env: Env, node: ast.PlaceExpr) -> tree.Place:
    """The place that is written, with both halves. Errors: E6025, E6031, E6032."""
    if isinstance(node, ast.MemoryPlace):
        return _memory(session, env, node)
    return _topology(session, env, node)


def placed(session: Session, env: Env, node: ast.PlaceExpr) -> tree.Place:
    """The place that a tensor is put at, or that code is to run at. Errors: those of `resolve_place`, E6014.
    Warnings: W1025, W1026."""
    place = resolve_place(session, env, node)
    if not env.scope.library:
        _check_declared(session, place, node.span)
    return place


def _check_declared(session: Session, place: tree.Place, span: Span) -> None:
    """W1025 for a part that no input describes, W1026 for one whose memory the host does not reach."""
    machine, name = session.machine, place.topology
    topology = machine.topology(name) if name else None
    if topology is None or topology.memory == session.host.space or name in session.doubted:
        return
    if machine.in_force and topology.layer == "builtin":
        session.doubted.add(name)
        message = f"no machine file and no program declares {name}: what is placed there is checked against nothing"
        helps = [f"the machine has {_declared_parts(machine)}", f"or describe {name} in a machine file"]
        session.warn("W1025", message, span, helps)
    elif topology.layer != "builtin" and machine.route(session.host.space, topology.memory) is None:
        session.doubted.add(name)
        message = f"{topology.memory}, the memory of {name}, cannot be reached from the host"
        helps = [f"declare an edge, such as `transfer Memory::{session.host.space} -> Memory::{topology.memory}`"]
        session.warn("W1026", message, span, helps)


def _declared_parts(machine: Machine) -> str:
    names = [name for name, topology in machine.topologies.items() if topology.layer != "builtin"]
    return ", ".join(names) or "no other topology"


def check_host(session: Session, what: str, span: Span) -> None:
    """E6014, once, where `what` uses the host's memory and a machine model is in force without a host."""
    if session.host_missed or not session.machine.in_force or session.machine.host_declared:
        return
    session.host_missed = True
    session.report(
        "E6014",
        f"{what} uses the host's memory {session.host.space}, and no host was declared",
        span,
        notes=["the machine model describes a device, and nothing says what host it hangs off"],
        helps=["pass `--host FILE` with a machine file of the host, or `--host default` to leave it undescribed"],
    )


def _memory(session: Session, env: Env, node: ast.MemoryPlace) -> tree.Place:
    machine = session.machine
    space = machine.space(node.name)
    if space is None:
        help_ = did_you_mean(node.name, [*machine.spaces, *machine.space_aliases])
        known = ", ".join(sorted(machine.spaces))
        message = f"there is no memory space `{node.name}` on this machine"
        raise session.fail("E6025", message, node.span, notes=[f"it has {known}"], helps=help_)
    owner = machine.space_owner(space.name)
    if owner is None:
        return tree.Place(space.name, "")
    return tree.Place(space.name, owner.name, _unindexed(session, env, owner, node.span, f"Memory::{node.name}"))


def _topology(session: Session, env: Env, node: ast.TopologyPlace) -> tree.Place:
    bound = env.bindings.get(node.name)
    if isinstance(bound, tree.Place):
        return bound
    if node.name == "Current":
        return env.here
    topology = session.machine.topology(node.name)
    if topology is None:
        machine = session.machine
        help_ = did_you_mean(node.name, [*machine.topologies, *machine.topology_aliases])
        known = ", ".join(sorted(machine.topologies))
        message = f"there is no topology `{node.name}` on this machine"
        raise session.fail("E6025", message, node.span, notes=[f"it has {known}"], helps=help_)
    if node.index_end is not None:
        raise session.unsupported("a slice of devices (`Topology::D[a..b]`) is", node.span)
    if node.index is None:
        instance = _unindexed(session, env, topology, node.span, f"Topology::{node.name}")
        return tree.Place(topology.memory, topology.name, instance)
    return tree.Place(topology.memory, topology.name, _instance(session, env, node.index, topology))


def _instance(session: Session, env: Env, index: ast.Expr, topology: Topology) -> int:
    """The device index, which must be a constant below the number of instances."""
    found = constants.try_constant(session, env, index, tree.I32)
    if found is None or isinstance(found.value, float | bool):
        raise session.fail(
            "E6031",
            f"the index of `Topology::{topology.name}` is not known at compile time",
            index.span,
            helps=["use a literal, a `const`, or a const generic parameter"],
        )
    if not 0 <= found.value < topology.instances:
        count = "1 instance" if topology.instances == 1 else f"{topology.instances} instances"
        device = f"{topology.name}[{found.value}]"
        raise session.lack(device, f"`Topology::{device}` does not exist: the machine has {count}", index.span)
    return found.value


def _unindexed(session: Session, env: Env, topology: Topology, span: Span, written: str) -> int:
    """Which instance a place without an index means."""
    if env.here.topology == topology.name:
        return env.here.instance
    if topology.instances > 1 and topology.layer != "builtin":
        raise session.fail(
            "E6031",
            f"`{written}` does not say which of {topology.instances} instances",
            span,
            helps=[f"write `Topology::{topology.name}[0]`, or the instance you mean"],
        )
    return 0


def check_dtype(session: Session, place: tree.Place | None, elem: str, span: Span) -> None:
    """E6026 if the device at `place` cannot represent `elem`."""
    topology = session.machine.topology(place.topology) if place is not None and place.topology else None
    if topology is not None and topology.dtypes is not None and elem not in topology.dtypes:
        known = ", ".join(topology.dtypes)
        message = f"{topology.name} cannot represent {elem}"
        raise session.fail("E6026", message, span, notes=[f"its element types are {known}"])


# ---- the use rule ------------------------------------------------------------------------------
def may_use(session: Session, here: tree.Place, where: tree.Place | None) -> bool:
    """Whether code running at `here` may read values that live at `where`."""
    place = real_place(session, where)
    if place.space == here.space:
        same = not place.topology or place.topology != here.topology or place.instance == here.instance
        if same:
            return True
    machine = session.machine
    if place.topology != here.topology and machine.sees(here.topology, place.space):
        return True
    space = machine.space(place.space)
    if space is None or space.layer == "builtin" or space.managed != "cached":
        return False
    return machine.route(place.space, here.space) is not None


def check_use(body: Body, type_: tree.Type, span: Span, what: tree.PlaceNode | str) -> None:
    """E6003 unless code here may read the elements of a tensor of this type. `what` is it, or what to call it."""
    tensor = tensor_of(type_)
    if tensor is not None:
        check_visible(body, body.here, tensor, span, what)


def check_visible(body: Body, here: tree.Place, tensor: tree.Tensor, span: Span, what: tree.PlaceNode | str) -> None:
    """E6003 unless code at `here` may read the elements of `tensor`; E6014 if that reads an undeclared host."""
    name = what if isinstance(what, str) else name_of(what, body)
    if not may_use(body.session, here, tensor.place):
        whole = tensor if isinstance(what, str) else _whole(what, tensor)
        raise _use_error(body, here, whole, span, name)
    if tensor.place is None and here != body.session.host:
        check_host(body.session, f"reading {name} on {here.topology}", span)


def _whole(place: tree.PlaceNode, tensor: tree.Tensor) -> tree.Tensor:
    """The tensor that has a name, of which `place` is a part: what one would move."""
    while isinstance(place, tree.Index | tree.Reshape | tree.Transpose | tree.Bytes):
        place = place.base
    return tensor_of(place.type) or tensor


def _use_error(body: Body, here: tree.Place, tensor: tree.Tensor, span: Span, name: str) -> Exception:
    """E6003: who cannot read what, and the transfer to insert."""
    session = body.session
    place = real_place(session, tensor.place)
    topology = session.machine.topology(here.topology)
    sees = ", ".join(topology.visible) if topology is not None else here.space
    lives = place.space if place.space != here.space else f"{place.space} of {show_place(place)}"
    reader = here.topology if place.space != here.space else show_place(here)
    plain = name.strip("`") if name.startswith("`") else "x"
    owner = f"'{plain}'" if name.startswith("`") else name
    message = f"{owner} lives in {lives} but {reader} sees only [{sees}]"
    route = session.machine.route(place.space, here.space)
    if route is None:
        note = f"there is no path from {place.space} to {here.space}: it cannot be read from here"
        return body.fail("E6003", message, span, notes=[note])
    target = f"Memory::{here.space}" if here == session.host else show_place(here)
    price = _price(session, route, tensor, here)
    help_ = f"transfer to {here.space} ({price} on the declared path): `let moved = transfer({plain}, {target});`"
    return body.fail("E6003", message, span, notes=[f"the path is {' -> '.join(route)}"], helps=[help_])


def _price(session: Session, route: tuple[str, ...], tensor: tree.Tensor, here: tree.Place) -> str:
    """What the path costs: a time for the bytes if every hop has one, else the sum of the declared weights."""
    machine, size = session.machine, most_bytes(tensor)
    path = route_along(machine, route, size or 0)
    time = path.total_ps
    if len(route) == 1:
        topology = machine.topology(here.topology)
        cost = None if topology is None else peer_cost(topology, size or 0)
        time = cost.amount if cost is not None and cost.unit == "ps" else None
    if time is not None and size is not None:
        return f"{price_text(Cost(time, 'ps', 'link_rate'))} for {size} B"
    weighed = {(edge.source, edge.target) for edge in machine.edges if edge.weight is not None}
    if len(route) > 1 and all(hop in weighed for hop in pairwise(route)):
        return f"cost {path.total_weight}"
    return "unpriced"


def name_of(place: tree.PlaceNode, body: Body) -> str:
    """What to call a place in a message."""
    match place:
        case tree.Local(id=id_):
            return f"`{body.locals[id_].name}`"
        case tree.ModelTensor(name=name):
            return f"`{name}`"
        case tree.Field(base=base, index=index):
            return _field_name(base, index, body)
        case tree.Deref(ref=tree.Read(place=inner)):
            return name_of(inner, body)
        case tree.Index() | tree.Reshape() | tree.Transpose() | tree.Bytes():
            return name_of(place.base, body)
        case _:
            return "this value"


def _field_name(base: tree.PlaceNode, index: int, body: Body) -> str:
    owner = name_of(base, body).strip("`")
    if not isinstance(base.type, tree.Struct):
        return f"`{owner}`"
    field = body.session.structs[base.type.key].fields[index][0]
    return f"`{owner}.{field}`" if owner != "this value" else f"`{field}`"
