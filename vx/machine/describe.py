"""A machine as text for people: its spaces as a tree, its edges, and each figure's source.

Enters: a `Machine` read from files and their texts. Leaves: lines. Figures are shown as they are written;
`// spec:` comments, at the end of the figure's line or on the lines above it, are their sources.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import NOWHERE, Span
from vx.machine.cost import Cost, edge_cost, price_text
from vx.machine.machine import Edge, Machine, Space, Table, Topology
from vx.machine.units import size_text

EXAMPLE_BYTES = 2**30
"""What a transfer is priced for in descriptions."""

_SPEC = re.compile(r"//\s*spec:\s*(.*)")
_COLON = re.compile(r"(?<!:):(?!:)")


def describe(machine: Machine, sources: SourceMap) -> str:
    """The machine that the files of `machine.files` declare, as a tree with the source of each figure."""
    lines = [*_heading(machine), *_topologies(machine, sources), *_spaces(machine, sources)]
    return "\n".join([*lines, *_edges(machine, sources)]) + "\n"


def summary(machine: Machine, sources: SourceMap) -> str:
    """One line: what runs code, and the memory it has; for a host, its memory."""
    parts = [_summary_of(topology, machine, sources) for topology in declared_topologies(machine)]
    if not parts:
        parts = [f"host, {_figures(space, sources)}" for space in declared_spaces(machine)]
    return "; ".join(parts)


def spec_of(span: Span, sources: SourceMap) -> str:
    """The source that a declaration's `// spec:` comment gives for a figure; empty if there is none."""
    line = sources.position(span.file, span.end)[0]
    same = _SPEC.search(sources.line_text(span.file, line))
    if same:
        return same[1].strip()
    above: list[str] = []
    while line > 1:
        line -= 1
        found = _SPEC.fullmatch(sources.line_text(span.file, line).strip())
        if found is None:
            break
        above.insert(0, found[1].strip())
    return " ".join(above)


def declared_spaces(machine: Machine) -> list[Space]:
    """The spaces that files declare or describe, then built-in ones that a declared edge touches."""
    touched = {name for edge in declared_edges(machine) for name in (edge.source, edge.target)}
    described = [space for space in machine.spaces.values() if space.span != NOWHERE]
    return described + [s for s in machine.spaces.values() if s.span == NOWHERE and s.name in touched]


def declared_topologies(machine: Machine) -> list[Topology]:
    """The topologies that files declare."""
    return [topology for topology in machine.topologies.values() if topology.span != NOWHERE]


def declared_edges(machine: Machine) -> list[Edge]:
    """The edges that files declare."""
    return [edge for edge in machine.edges if edge.span != NOWHERE]


def written(span: Span, sources: SourceMap) -> str:
    """What stands at a span, on one line."""
    return " ".join(sources.text(span.file)[span.start : span.end].split())


def edge_text(edge: Edge, sources: SourceMap) -> str:
    """What is written about an edge after its spaces: cost, latency, markers."""
    if edge.table is not None:
        return " ".join([table_text(edge.table), *edge.markers])
    if edge.rate is None and edge.weight is None:
        return " ".join(edge.markers)
    return _COLON.split(written(edge.span, sources), maxsplit=1)[-1].strip()


def table_text(table: Table) -> str:
    """A measured table for people: its ends, and how many sizes there are."""
    ends = (
        f"{size_text(size)} {price_text(Cost(time, 'ps', 'table'))}"
        for size, time in table.points[:: len(table.points) - 1]
    )
    return f"measured {' … '.join(ends)}, {len(table.points)} sizes"


def _summary_of(topology: Topology, machine: Machine, sources: SourceMap) -> str:
    times = f"{topology.instances} × " if topology.instances > 1 else ""
    kind = written(topology.fields["arch"], sources).removeprefix("arch:").strip() if topology.arch else ""
    kind = "this CPU" if kind == "host" else kind
    names = " ".join(word for word in (kind, topology.isa) if word)
    return f"{times}{names}, {_figures(machine.spaces[topology.memory], sources)}"


def _figures(space: Space, sources: SourceMap) -> str:
    shown = [space.fields[name] for name in ("capacity", "bandwidth") if name in space.fields]
    figures = [written(span, sources).partition(":")[2].strip() for span in shown]
    return ", ".join([space.name, *figures])


def _heading(machine: Machine) -> Iterator[str]:
    *imported, main = machine.files
    yield main
    if imported:
        yield f"imports {', '.join(_beside(main, name) for name in imported)}"
    for name, found in machine.measurements.items():
        said = (
            found.date,
            found.part,
            found.uuid,
            found.driver,
            found.tool,
            found.network and f"network {found.network}",
        )
        yield f"{_beside(main, name)} was measured: {', '.join(text for text in said if text)}"


def _beside(main: str, name: str) -> str:
    return os.path.relpath(name, os.path.dirname(main) or ".")


def _topologies(machine: Machine, sources: SourceMap) -> Iterator[str]:
    for topology in declared_topologies(machine):
        times = f" × {topology.instances}" if topology.instances > 1 else ""
        yield ""
        yield f"Topology {topology.name}{times}"
        table = topology.peer.table if topology.peer is not None else None
        shown = {} if table is None else {"peer": table_text(table)}
        yield from _fields(topology.fields, "  ", sources, shown=shown)


def _spaces(machine: Machine, sources: SourceMap) -> Iterator[str]:
    shown = declared_spaces(machine)
    names = {space.name for space in shown}
    for space in shown:
        if space.within is None or space.within not in names:
            yield ""
            yield from _subtree(space, shown, "", sources)


def _subtree(space: Space, shown: list[Space], indent: str, sources: SourceMap) -> Iterator[str]:
    children = [child for child in shown if child.within == space.name]
    yield f"Memory {space.name}" + ("" if space.layer != "builtin" else "  (built in)")
    yield from _fields(space.fields, f"{indent}│ " if children else f"{indent}  ", sources, "within")
    for child in children:
        last = child is children[-1]
        head, *rest = _subtree(child, shown, indent + ("   " if last else "│  "), sources)
        yield f"{indent}{'└─' if last else '├─'} {head}"
        yield from rest


def _fields(
    fields: Mapping[str, Span],
    indent: str,
    sources: SourceMap,
    hidden: str = "",
    shown: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """`shown` says it shorter than what is written."""
    for name, span in fields.items():
        if name != hidden:
            value = (shown or {}).get(name) or written(span, sources).removeprefix(name).lstrip(": ")
            yield _row(indent, name, value, spec_of(span, sources))


def _row(indent: str, name: str, value: str, source: str) -> str:
    return f"{indent}{name:<10} {value:<18}  {source}".rstrip()


def _edges(machine: Machine, sources: SourceMap) -> Iterator[str]:
    edges = declared_edges(machine)
    if not edges:
        return
    yield ""
    yield "Transfers, and what 1 GiB takes"
    width = max(len(f"{edge.source} -> {edge.target}") for edge in edges)
    for edge in edges:
        price = price_text(edge_cost(machine, edge, EXAMPLE_BYTES))
        text = f"  {edge.source + ' -> ' + edge.target:<{width}}  {price:<10}  {edge_text(edge, sources):<24}"
        yield f"{text}  {spec_of(edge.span, sources)}".rstrip()
