"""How much of a kernel one program does: a deterministic rule from the shape of the loops.

Enters: a `device.Part`. Leaves: its `Tiles`. Three shapes are told apart: matrix products (two axes that meet only
in a reduction over a product), rows (loops or reductions inside), and element-wise work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vx.codegen import triton_table as table
from vx.codegen.triton_values import HALVES, power_of_two
from vx.kernels import affine, device, effects, ir
from vx.kernels.device_facts import element_bytes

PERSISTENT = 264
"""Programs of a part whose number of iterations only the device knows, or that needs private memory."""
ELEMENTS = 512
"""Elements of element-wise work in one program."""
SERIAL = 128
"""The same where each element takes a serial loop."""
CHUNK = 4096
"""Elements of a tile that a loop walks in chunks."""
WIDEST = 1024
"""Columns of such a chunk."""
HELD = 8192
"""Elements of a matrix that a program holds, if they are whole rows."""
SHORT = 128
"""Columns that are not divided into chunks, if four times as many elements are enough."""
SEARCHED = 8192
"""Elements that an arg-max compares at a time."""
ROWS = 4
"""Rows that share a loaded vector in products of matrices and a vector, all matrices together."""
LOOP_WARPS = 8
"""Warps of a program whose iterations have loops of their own."""
LEAST = 16
"""Rows, columns and depth from which matrix units can be used."""
TILE = 64
"""Rows and columns of a matrix product's tile, of 16-bit factors; half of it for f32."""
DEPTH = 32
"""Steps of the reduction that a matrix product takes at a time."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """`axes[i]`: consecutive iterations of axis i in one program, a power of two; 1: a scalar. `warps` per program.
    `columns`: iterations of its sums that are done together, a power of two; None: as many as `chunk` says."""

    axes: tuple[int, ...]
    warps: int
    columns: int | None = None


def choose(part: device.Part) -> Tiles:
    """The tiles of one part."""
    product = product_axes(part)
    if product is not None:
        return _product_tiles(part, product)
    if not part.axes:
        return Tiles((), 8 if _inner(part.body) else 1)
    if _wide(part.body):
        return _row_tiles(part)
    return _element_tiles(part, SERIAL if _inner(part.body) else ELEMENTS)


def _product_tiles(part: device.Part, product: set[ir.VarId]) -> Tiles:
    tile = TILE if _sixteen_bits(part.body) else TILE // 2
    sizes = []
    for axis in part.axes:
        most = tile if axis.most is None else power_of_two(axis.most)
        sizes.append(min(max(most, LEAST), tile) if axis.var.id in product else 1)
    return Tiles(tuple(sizes), 4)


def _sixteen_bits(body: Sequence[ir.Stmt]) -> bool:
    """Whether a product's factors are 16 bits wide, as matrix units want them; f32 is multiplied by plain units."""
    exprs = (e for x in effects.all_expressions(body) for e in affine.walk(x))
    wide = (f for e in exprs if isinstance(e, ir.Reduce) for f in factors(e.body) if isinstance(f, ir.Cast))
    return any(affine.type_of(f.operand) in HALVES for f in wide)


def _row_tiles(part: device.Part) -> Tiles:
    loops = [s for s in effects.statements(part.body) if isinstance(s, ir.For | ir.While | ir.ArgReduce | ir.Alloc)]
    sizes = [1] * len(part.axes)
    last = part.axes[-1]
    if loops:
        return Tiles(tuple(sizes), LOOP_WARPS)
    sums = [e for x in effects.all_expressions(part.body) for e in affine.walk(x) if isinstance(e, ir.Reduce)]
    shape = _streams(part, sums)
    tile = table.Tile(max(ROWS // len(sums), 2), None, 4)
    if shape:
        tile = table.TUNED.get(shape) or _whole_rows(shape, tile)
    sizes[-1] = tile.rows if last.most is None else min(tile.rows, power_of_two(last.most))
    return Tiles(tuple(sizes), tile.warps, tile.columns)


def _whole_rows(shape: table.Shape, tile: table.Tile) -> table.Tile:
    """Rows of 16-bit elements that a program can hold: all of them is on its way at once."""
    if shape.bits != 16 or shape.length not in (2 * WIDEST, 4 * WIDEST):
        return tile
    return replace(tile, rows=min(tile.rows, HELD // shape.length), columns=shape.length)


def _streams(part: device.Part, sums: Sequence[ir.Reduce]) -> table.Shape | None:
    """The shape of a product of matrices and a vector."""
    axes = {a.var.id for a in part.axes}
    rows, lengths, widths = 1, set(), set()
    for a in part.axes:
        rows *= a.most or 0
    for e in sums:
        if not (isinstance(e.low, ir.Lit) and isinstance(e.high, ir.Lit)):
            return None
        lengths.add(int(e.high.value) - int(e.low.value))
        for x in affine.loads(e.body):
            variables = affine.variables(x.offset)
            if e.var.id in variables and variables & axes:
                widths.add(8 * element_bytes(x.type))
    if len(lengths) != 1 or len(widths) != 1:
        return None
    return table.Shape(rows, lengths.pop(), widths.pop(), len(sums))


def _element_tiles(part: device.Part, elements: int) -> Tiles:
    left, sizes = elements, []
    for axis in reversed(part.axes):
        size = left if axis.most is None else min(left, power_of_two(axis.most))
        sizes.append(size)
        left //= size
    return Tiles(tuple(reversed(sizes)), 4)


def _wide(body: Sequence[ir.Stmt]) -> bool:
    """Whether an iteration has work for several lanes of its own."""
    for s in effects.statements(body):
        if isinstance(s, ir.ArgReduce | ir.Alloc) or (isinstance(s, ir.For) and s.parallel):
            return True
    return any(isinstance(e, ir.Reduce) for x in effects.all_expressions(body) for e in affine.walk(x))


def _inner(body: Sequence[ir.Stmt]) -> bool:
    """Whether an iteration has loops or reductions of its own."""
    if any(isinstance(s, ir.For | ir.While | ir.ArgReduce) for s in effects.statements(body)):
        return True
    return any(isinstance(e, ir.Reduce) for x in effects.all_expressions(body) for e in affine.walk(x))


def product_axes(part: device.Part) -> set[ir.VarId] | None:
    """Axes of the part along which a matrix product runs: both of its sides, or one if the other is a parallel loop
    inside. None if there is no product, or one side is too short to fill a tile."""
    axes = {a.var.id: a for a in part.axes}
    inside = {s.var.id for s in effects.statements(part.body) if isinstance(s, ir.For) and s.parallel}
    for left, right in _factor_pairs(part.body):
        rows, columns = left - right, right - left
        for a in sorted(rows & axes.keys()):
            others = columns & axes.keys()
            if others:
                found = {a, max(others)}
                return found if all(_fills(axes[v]) for v in found) else None
            if columns & inside and _fills(axes[a]):
                return {a}
    return None


def _fills(axis: device.Axis) -> bool:
    return axis.most is None or axis.most >= LEAST // 2


def _factor_pairs(body: Sequence[ir.Stmt]) -> Iterator[tuple[set[ir.VarId], set[ir.VarId]]]:
    """For each product that is summed up: the variables of two of its factors, either way round."""
    for expr in effects.all_expressions(body):
        for e in affine.walk(expr):
            if isinstance(e, ir.Reduce) and e.op == "add" and e.type == "f32":
                found = [affine.variables(f) for f in factors(e.body)]
                yield from ((a, b) for a in found for b in found if a is not b)


def factors(expr: ir.Expr) -> tuple[ir.Expr, ...]:
    """What a product of floats multiplies."""
    if isinstance(expr, ir.Binary) and expr.op == "*" and expr.type == "f32":
        return (*factors(expr.left), *factors(expr.right))
    return (expr,)


def scan(extent: int | None, lanes: int) -> int:
    """The same for a search, which keeps nothing but the best of each lane."""
    return min(max(1, SEARCHED // lanes), SEARCHED if extent is None else power_of_two(max(extent, 1)))


def chunk(extent: int | None, lanes: int, product: bool) -> int:
    """Iterations of an inner loop that are done together, when `lanes` elements vary along with them."""
    if product:
        return DEPTH if extent is None else max(LEAST, min(DEPTH, power_of_two(extent)))
    if extent is not None and extent <= SHORT and extent * lanes <= 4 * CHUNK:
        return power_of_two(max(extent, 1))
    room = max(1, CHUNK // lanes)
    return min(room, WIDEST, WIDEST if extent is None else power_of_two(max(extent, 1)))
