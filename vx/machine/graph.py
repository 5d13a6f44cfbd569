"""A machine as a drawing.

Enters: a `Machine` read from files and their texts. Leaves: SVG text. Each space has a column; a box spans the
columns of the spaces that lie within it, and below, one line for each transfer leads from column to column.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from vx.diagnostics.source import SourceMap
from vx.machine.cost import edge_cost, peer_cost, price_text
from vx.machine.describe import (
    EXAMPLE_BYTES,
    declared_edges,
    declared_spaces,
    declared_topologies,
    edge_text,
    table_text,
    written,
)
from vx.machine.machine import Machine, Space, Topology

_COLUMN, _MARGIN, _LANE, _LINE, _INSET = 210, 24, 34, 17, 10
_SHOWN = ("capacity", "bandwidth", "clock", "replicas", "reserve")
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1c2430}.name{font-weight:600}.small{font-size:11.5px;fill:#4a5568}"
    ".box{fill:#4a78c2;fill-opacity:.09;stroke:#4a78c2}.host{fill:#8a8f98;stroke:#8a8f98}"
    ".life{stroke:#b5bcc8;stroke-dasharray:2 4}.edge{stroke:#b4552d;stroke-width:1.5;marker-end:url(#tip)}"
)


def svg(machine: Machine, sources: SourceMap) -> str:
    """The drawing, a complete SVG document."""
    spaces = _columns(declared_spaces(machine))
    heads = list(_heads(machine, sources))
    top = _MARGIN + _LINE * (len(heads) + 1)
    depths = {space.name: _depth(space, spaces) for space in spaces}
    deepest = max(depths.values(), default=0)
    floor = top + _LINE * (len(_SHOWN) + 2) + 2 * _INSET * (deepest + 1)
    edges = declared_edges(machine)
    width = max(2 * _MARGIN + _COLUMN * len(spaces), 640)
    height = floor + _LANE * (len(edges) + 1)
    body = [
        *(_text(_MARGIN, _MARGIN + _LINE * (row + 1) - 6, line, "name") for row, line in enumerate(heads)),
        *_boxes(spaces, depths, top, floor, sources),
        *(_lifeline(column, floor, height) for column in range(len(spaces))),
        *_lanes(machine, [space.name for space in spaces], floor, sources),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f"<style>{_STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#b4552d"/></marker></defs>\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _columns(spaces: list[Space]) -> list[Space]:
    """The spaces with what lies within each of them right after it; built-in ones outermost."""
    names = {space.name for space in spaces}
    roots = [space for space in spaces if space.within not in names]
    return [member for root in sorted(roots, key=lambda s: s.layer != "builtin") for member in _tree(root, spaces)]


def _tree(root: Space, spaces: list[Space]) -> Iterator[Space]:
    yield root
    for space in spaces:
        if space.within == root.name:
            yield from _tree(space, spaces)


def _depth(space: Space, spaces: list[Space]) -> int:
    parent = next((other for other in spaces if other.name == space.within), None)
    return 0 if parent is None else 1 + _depth(parent, spaces)


def _heads(machine: Machine, sources: SourceMap) -> Iterator[str]:
    for topology in declared_topologies(machine):
        yield " · ".join(_facts(topology, sources))


def _facts(topology: Topology, sources: SourceMap) -> Iterator[str]:
    times = f" × {topology.instances}" if topology.instances > 1 else ""
    yield f"Topology {topology.name}{times}"
    yield from (word for word in (topology.arch, topology.isa) if word is not None)
    yield f"memory {topology.memory}"
    if topology.peer is not None:
        price = price_text(peer_cost(topology, EXAMPLE_BYTES))
        table = topology.peer.table
        link = written(topology.fields["peer"], sources) if table is None else f"peer: {table_text(table)}"
        yield f"{link} (1 GiB: {price})"


def _boxes(spaces: list[Space], depths: dict[str, int], top: int, floor: int, sources: SourceMap) -> Iterator[str]:
    for column, space in enumerate(spaces):
        inset = _INSET * depths[space.name]
        left = _MARGIN + _COLUMN * column + inset // 2
        span = _COLUMN * sum(1 for _ in _tree(space, spaces)) - 12 - inset
        kind = "box host" if space.layer == "builtin" else "box"
        yield (
            f'<rect class="{kind}" x="{left}" y="{top + inset}" width="{span}" '
            f'height="{floor - top - 2 * inset}" rx="6"/>'
        )
        yield _text(left + 10, top + inset + 20, space.name, "name")
        figures = [written(space.fields[name], sources) for name in _SHOWN if name in space.fields]
        for row, figure in enumerate(figures, 1):
            yield _text(left + 10, top + inset + 20 + _LINE * row, figure, "small")


def _lifeline(column: int, floor: int, height: int) -> str:
    x = _centre(column)
    return f'<line class="life" x1="{x}" y1="{floor}" x2="{x}" y2="{height - _LANE // 2}"/>'


def _lanes(machine: Machine, names: list[str], floor: int, sources: SourceMap) -> Iterator[str]:
    for lane, edge in enumerate(declared_edges(machine), 1):
        y = floor + _LANE * lane
        start, end = _centre(names.index(edge.source)), _centre(names.index(edge.target))
        label = edge_text(edge, sources)
        price = price_text(edge_cost(machine, edge, EXAMPLE_BYTES))
        yield f'<line class="edge" x1="{start}" y1="{y}" x2="{end}" y2="{y}"/>'
        yield _text(min(start, end) + 8, y - 6, f"{label} · 1 GiB: {price}" if label else f"1 GiB: {price}", "small")


def _centre(column: int) -> int:
    return _MARGIN + _COLUMN * column + _COLUMN // 2 - 6


def _text(x: int, y: int, content: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(content)}</text>'
