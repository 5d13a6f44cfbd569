"""Parallel loop nests → blocks of iterations, whole ranges or the cells that one thread was given.

Enters: a `Nest` and where it stands. Leaves: loops over blocks of `lanes * group` iterations along the last
axis, counted from the start of the axis, so that a block is computed in the same way whoever computes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vx.codegen.cpu_analysis import trips
from vx.codegen.cpu_body import Bodies, outermost
from vx.codegen.cpu_plan import CHUNK, Nest, plan
from vx.codegen.cpu_text import known
from vx.codegen.cpu_values import LANE, Lanes, Linear, Val, scalar_index
from vx.kernels import affine, effects, ir


@dataclass(frozen=True, slots=True)
class _Block:
    """A step along the last axis; `masked`: only the lanes that are still in range."""

    lanes: int
    group: int
    masked: bool = False


class Nests(Bodies):
    """Bodies and the nests around them."""

    # ---- whole ---------------------------------------------------------------------------------
    def nest(self, lanes: Lanes, loop: ir.For) -> None:
        """All iterations of a parallel loop, on this thread."""
        nest = plan([ir.Axis(loop.var, loop.low, loop.high)], loop.body, self.facts, lanes, self.have)
        self.varying |= nest.varying
        self._over_outer(lanes, nest, nest.outer)

    def _over_outer(self, lanes: Lanes, nest: Nest, outer: tuple[ir.Axis, ...]) -> None:
        if not outer:
            low, high = self._bounds(lanes, nest.axes[-1])
            self._whole_blocks(lanes, nest, low, high)
            return
        low, high = self._bounds(lanes, outer[0])

        def body(i: str, _: list[str]) -> list[str]:
            self._over_outer(lanes.inner({outer[0].var.id: scalar_index(i)}), nest, outer[1:])
            return []

        self.text.loop(low, high, 1, [], body)

    def _whole_blocks(self, lanes: Lanes, nest: Nest, low: str, high: str) -> None:
        if nest.rows == 1:
            self.span(lanes, nest, low, high, "0", "0")
            return
        first, last = self._bounds(lanes, nest.axes[-2])

        def body(p: str, _: list[str]) -> list[str]:
            self.span(lanes, nest, low, high, p, self.text.least(last, self.text.add(p, str(CHUNK))))
            return []

        self.text.loop(first, last, CHUNK, [], body)

    def _bounds(self, lanes: Lanes, axis: ir.Axis) -> tuple[str, str]:
        return self.integer(lanes, axis.low), self.integer(lanes, axis.high)

    # ---- cells ---------------------------------------------------------------------------------
    def cell_counts(self, lanes: Lanes, nest: Nest) -> list[str]:
        """How many cells a nest has along each outer axis, the blocked axis (if any) and the last axis."""
        counts = []
        for axis in nest.axes:
            low, high = self._bounds(lanes, axis)
            step = self._cell_extent(nest, axis)
            length = self.text.most(self.text.sub(high, low), "0")
            counts.append(self.text.div(self.text.add(length, str(step - 1)), str(step)))
        return counts

    def _cell_extent(self, nest: Nest, axis: ir.Axis) -> int:
        if axis is nest.axes[-1]:
            return nest.block
        return CHUNK if nest.rows > 1 and axis is nest.axes[-2] else 1

    def cells(self, lanes: Lanes, nest: Nest, begin: str, end: str) -> None:
        """The cells begin..end of a nest; the last axis is the fastest."""
        self.varying |= nest.varying
        counts = self.cell_counts(lanes, nest)
        if len(nest.axes) == 1:
            self._cell_span(lanes, nest, begin, end, "0")
            return
        fast = counts[-1]
        self._hoist(lanes, nest, {axis.var.id for axis in nest.axes})
        first = self.text.div(begin, fast)
        last = self.text.div(self.text.add(end, self.text.sub(fast, "1")), fast)

        def body(number: str, _: list[str]) -> list[str]:
            base = self.text.mul(number, fast)
            from_ = self.text.most(self.text.sub(begin, base), "0")
            to = self.text.least(self.text.sub(end, base), fast)
            inner, chunk = self._at_cell(lanes, nest, counts[:-1], number)
            self._cell_span(inner, nest, from_, to, chunk)
            return []

        self.text.loop(first, last, 1, [], body)

    def _at_cell(self, lanes: Lanes, nest: Nest, counts: list[str], number: str) -> tuple[Lanes, str]:
        """The outer axes' values at a cell, and where its part of the blocked axis starts."""
        inner, chunk = lanes.inner({}), "0"
        for axis, count in reversed(list(zip(nest.axes[:-1], counts, strict=True))):
            rest = self.text.div(number, count)
            digit = self.text.sub(number, self.text.mul(rest, count)) if axis is not nest.axes[0] else number
            number = rest
            step = self._cell_extent(nest, axis)
            value = self.text.add(self.integer(lanes, axis.low), self.text.mul(digit, str(step)))
            if nest.rows > 1 and axis is nest.axes[-2]:
                chunk = value
            else:
                inner.bindings[axis.var.id] = scalar_index(value)
        return inner, chunk

    def _cell_span(self, lanes: Lanes, nest: Nest, begin: str, end: str, chunk: str) -> None:
        """Cells begin..end along the last axis."""
        low, high = self._bounds(lanes, nest.axes[-1])
        block = str(nest.block)
        first = self.text.add(low, self.text.mul(begin, block))
        last = self.text.least(high, self.text.add(low, self.text.mul(end, block)))
        if nest.rows == 1:
            self.span(lanes, nest, first, last, "0", "0")
            return
        limit = self._bounds(lanes, nest.axes[-2])[1]
        self.span(lanes, nest, first, last, chunk, self.text.least(limit, self.text.add(chunk, str(CHUNK))))

    # ---- blocks --------------------------------------------------------------------------------
    def span(self, lanes: Lanes, nest: Nest, low: str, high: str, row: str, row_end: str) -> None:
        """Iterations low..high of the last axis, rows row..row_end of the blocked axis."""
        own = {nest.axes[-1].var.id} | ({nest.axes[-2].var.id} if nest.rows > 1 else set())
        if not self._worth_hoisting(nest, own):
            self._blocks(lanes, nest, low, high, row, row_end)
            return

        def inside() -> None:
            inner = lanes.inner({})
            self._hoist(inner, nest, own)
            self._blocks(inner, nest, low, high, row, row_end)

        below = self.text.below(low, high)
        if known(low) is not None and known(high) is not None:
            if below == "true":
                inside()
            return
        self.text.when(below, inside)

    def _blocks(self, lanes: Lanes, nest: Nest, low: str, high: str, row: str, row_end: str) -> None:
        position = low
        for block in self._sizes(nest):

            def body(i: str, _: list[str], block: _Block = block) -> list[str]:
                self._rows(lanes, nest, block, i, high, row, row_end)
                return []

            iterations = block.lanes * block.group
            limit = high if block.masked else self.text.sub(high, str(iterations - 1))
            position, _ = self.text.loop(position, limit, iterations, [], body)

    def _sizes(self, nest: Nest) -> Iterator[_Block]:
        """The blocks, each for what the one before leaves, in the order in which they run."""
        axis = nest.axes[-1]
        left = trips(axis.low, axis.high)
        rest = _Block(nest.lanes, 1, True) if self.have.masks and nest.across and nest.lanes > 1 else _Block(1, 1)
        for block in dict.fromkeys([_Block(nest.lanes, nest.group), _Block(nest.lanes, 1), rest]):
            if left is None:
                yield block
            elif left and (left >= block.lanes * block.group or block.masked):
                yield block
                left %= block.lanes * block.group

    def _rows(self, lanes: Lanes, nest: Nest, block: _Block, i: str, high: str, row: str, row_end: str) -> None:
        """One block of the last axis, for all its rows."""
        if nest.rows == 1:
            self.run(self._copies(lanes, nest, block, i, high), nest.body)
            return
        position = row
        for rows in (nest.rows, 1):

            def body(p: str, _: list[str], rows: int = rows) -> list[str]:
                copies = []
                for number in range(rows):
                    at = scalar_index(p).plus(Linear(number))
                    inner = lanes.inner({nest.axes[-2].var.id: at})
                    copies += self._copies(inner, nest, block, i, high)
                self.run(copies, nest.body)
                return []

            position, _ = self.text.loop(position, self.text.sub(row_end, str(rows - 1)), rows, [], body)

    def _copies(self, lanes: Lanes, nest: Nest, block: _Block, i: str, high: str) -> list[Lanes]:
        """The copies of the body that run in lock step: vectors of iterations from i on."""
        copies = []
        for number in range(block.group):
            index = Linear(number * block.lanes, 1 if block.lanes > 1 else 0).plus(scalar_index(i))
            bindings = {nest.axes[-1].var.id: index}
            if block.lanes > 1:
                bindings[LANE] = Linear(0, 1)
            copy = lanes.inner(bindings, block.lanes)
            if block.masked:
                copy.mask = self.ops.binary("<", self.value_of(index, block.lanes), Val(high, "i64"))
            copies.append(copy)
        return copies

    # ---- what does not change in a nest --------------------------------------------------------
    def _worth_hoisting(self, nest: Nest, own: set[ir.VarId]) -> bool:
        return any(True for _ in self._invariant(nest, own))

    def _invariant(self, nest: Nest, own: set[ir.VarId]) -> Iterator[ir.Reduce]:
        """Reductions that are the same in all iterations of the loops `own`."""
        made = own | effects.declared(nest.body) | effects.assigned(nest.body)
        buffers = effects.stored(nest.body) | effects.allocated(nest.body)
        before_checks = []
        for stmt in nest.body:
            if isinstance(stmt, ir.Check):
                break
            before_checks.append(stmt)
        exprs = [e for stmt in before_checks for e in effects.own_expressions(stmt)]
        for reduce in (r for e in exprs for r in outermost(e)):
            if made.isdisjoint(affine.variables(reduce)) and not any(
                load.buffer in buffers for load in affine.loads(reduce)
            ):
                yield reduce

    def _hoist(self, lanes: Lanes, nest: Nest, own: set[ir.VarId]) -> None:
        """Computes them ahead."""
        for reduce in dict.fromkeys(self._invariant(nest, own)):
            if not self._is_known(lanes, reduce):
                lanes.reduced[reduce] = self.reduced(lanes, reduce)
