"""One `Memory` or `Topology` declaration of the syntax tree as machine data.

Enters: `ast.MemoryDecl`, `ast.TopologyDecl`. Leaves: `Space`, `Topology` and its `Edge`s. Only what one
declaration can say about itself is checked here; `check.py` checks them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TypeVar

from vx.diagnostics.report import Reporter
from vx.diagnostics.span import Span
from vx.machine import units
from vx.machine.machine import SCOPES, Edge, Layer, Peer, Rate, Space, Topology
from vx.machine.measured import table_of
from vx.sema.tree import BITS
from vx.syntax import ast

T = TypeVar("T")

Fields = dict[str, ast.DeclField]


def space_of(decl: ast.MemoryDecl, layer: Layer, reporter: Reporter, measured: bool = False) -> Space:
    """The space that a `Memory` block declares; `measured` if its file is a measured one."""
    fields = _fields(decl.fields, f"Memory {decl.name}", reporter)
    within = _value(fields, "within")
    granule = _figure(fields, "granule", units.size, reporter)
    return Space(
        name=decl.name,
        within=within.name if isinstance(within, ast.MemoryPlace) else None,
        capacity=_figure(fields, "capacity", units.size, reporter),
        granule=1 if granule is None else granule,
        bandwidth=_figure(fields, "bandwidth", units.rate, reporter),
        clock_hz=_figure(fields, "clock", units.clock, reporter),
        replicas=_figure(fields, "replicas", units.count, reporter),
        managed=_choice(fields, "managed", ("cached", "explicit"), reporter) or "cached",
        crossing=_choice(fields, "crossing", ("sequenced", "streamed"), reporter) or "sequenced",
        scope=_choice(fields, "scope", SCOPES, reporter),
        overcommit="overcommit" in fields,
        reserve=_figure(fields, "reserve", units.reserve, reporter),
        layer=layer,
        span=decl.span,
        fields={name: field.span for name, field in fields.items()},
        measured=measured,
    )


def topology_of(
    decl: ast.TopologyDecl, layer: Layer, host_arch: str, reporter: Reporter, measured: bool = False
) -> Topology | None:
    """The topology that a `Topology` block declares; None if it does not say where its values live.

    `arch: host` is the architecture that host code is compiled for.
    """
    fields = _fields(decl.fields, f"Topology {decl.name}", reporter)
    memory = _value(fields, "memory")
    if not isinstance(memory, ast.MemoryPlace):
        reporter.error(
            "E6044",
            f"Topology {decl.name} does not say where its values live",
            decl.span,
            helps=["add `memory: Memory::…`, the space that its own values occupy"],
        )
        return None
    arch = _word(fields, "arch")
    instances = _figure(fields, "instances", units.count, reporter)
    return Topology(
        name=decl.name,
        memory=memory.name,
        visible=_visible(fields, memory.name),
        arch=host_arch if arch == "host" else arch,
        isa=_word(fields, "isa"),
        dtypes=_dtypes(fields, reporter),
        instances=1 if instances is None else instances,
        peer=_peer(fields, reporter),
        layer=layer,
        span=decl.span,
        fields={name: field.span for name, field in fields.items()},
        measured=measured,
    )


def edges_of(decl: ast.TopologyDecl, layer: Layer, reporter: Reporter, measured: bool = False) -> list[Edge]:
    """The transfers that a `Topology` block declares."""
    return [replace(_edge(edge, layer, reporter), measured=measured) for edge in decl.edges]


def _edge(edge: ast.Edge, layer: Layer, reporter: Reporter) -> Edge:
    weight: int | None = None
    rate: Rate | None = None
    if edge.cost is not None:
        if edge.cost.unit is None:
            weight = _checked(edge.cost, units.count, reporter, edge.span)
        else:
            rate = _checked(edge.cost, units.rate, reporter, edge.span)
    latency = None if edge.latency is None else _checked(edge.latency, units.duration_ps, reporter, edge.span)
    if weight is not None and latency is not None:
        reporter.error(
            "E6041",
            f"the cost {weight} has no unit, so no latency can be added to it",
            edge.span,
            helps=["give the link's rate, such as `63 GB/s latency 8 us`, or leave the latency out"],
        )
    table = None if edge.table is None else table_of(edge.table, reporter)
    return Edge(edge.source.name, edge.target.name, weight, rate, latency, edge.markers, layer, edge.span, table)


def _fields(fields: tuple[ast.DeclField, ...], what: str, reporter: Reporter) -> Fields:
    named: Fields = {}
    for field in fields:
        if field.name in named:
            reporter.error(
                "E6043",
                f"{what} gives `{field.name}` twice",
                field.span,
                labels=[(named[field.name].span, "first given here")],
                helps=["keep one of them"],
            )
            continue
        named[field.name] = field
    return named


def _value(fields: Fields, name: str) -> object:
    return fields[name].value if name in fields else None


def _word(fields: Fields, name: str) -> str | None:
    value = _value(fields, name)
    return value if isinstance(value, str) else None


def _choice(fields: Fields, name: str, allowed: Sequence[str], reporter: Reporter) -> str | None:
    word = _word(fields, name)
    if word is None or word in allowed:
        return word
    _refuse_word(fields[name], f"`{name}`", word, allowed, reporter)
    return None


def _dtypes(fields: Fields, reporter: Reporter) -> tuple[str, ...] | None:
    value = _value(fields, "dtypes")
    if not isinstance(value, tuple):
        return None
    words = [word for word in value if isinstance(word, str)]
    for word in words:
        if word not in BITS:
            _refuse_word(fields["dtypes"], "`dtypes`", word, list(BITS), reporter)
    return tuple(word for word in words if word in BITS)


def _refuse_word(field: ast.DeclField, what: str, word: str, allowed: Sequence[str], reporter: Reporter) -> None:
    near = get_close_matches(word, allowed, n=1)
    hint = f"did you mean `{near[0]}`? " if near else ""
    reporter.error("E6047", f"{what} cannot be `{word}`", field.span, helps=[f"{hint}it can be {', '.join(allowed)}"])


def _visible(fields: Fields, memory: str) -> tuple[str, ...]:
    value = _value(fields, "visible")
    if not isinstance(value, tuple):
        return (memory,)
    return tuple(place.name for place in value if isinstance(place, ast.MemoryPlace))


def _figure(fields: Fields, name: str, read: Callable[[ast.Quantity], T], reporter: Reporter) -> T | None:
    value = _value(fields, name)
    if not isinstance(value, ast.Quantity):
        return None
    return _checked(value, read, reporter, fields[name].span)


def _peer(fields: Fields, reporter: Reporter) -> Peer | None:
    value = _value(fields, "peer")
    if isinstance(value, ast.MeasuredTable):
        table = table_of(value, reporter)
        return None if table is None else Peer(None, None, table)
    if not isinstance(value, tuple) or not isinstance(value[0], ast.Quantity):
        return None
    span = fields["peer"].span
    rate = _checked(value[0], units.rate, reporter, span)
    latency = value[1] if len(value) > 1 else None
    latency_ps = _checked(latency, units.duration_ps, reporter, span) if isinstance(latency, ast.Quantity) else None
    return None if rate is None else Peer(rate, latency_ps)


def _checked(quantity: ast.Quantity, read: Callable[[ast.Quantity], T], reporter: Reporter, span: Span) -> T | None:
    try:
        return read(quantity)
    except units.UnitError as error:
        reporter.error(error.code, error.message, quantity.span or span, helps=[error.help])
        return None
