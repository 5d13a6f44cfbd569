"""Reductions → vector loops with several accumulators.

Enters: reductions over one range, each for one copy of the body. Leaves: their values. Either the vectors
run along the reduction's variable, an accumulator per row, folded at the end; or the iterations of the body
are the lanes and the variable is the same in all of them. Which sums are formed depends only on extents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vx.codegen.cpu_analysis import Strides, trips
from vx.codegen.cpu_expr import Expressions
from vx.codegen.cpu_text import Carried, known
from vx.codegen.cpu_values import Lanes, Linear, Slot, Val, extreme, literal, of_lanes, register, scalar_index, size
from vx.kernels import affine, ir

_ACCUMULATORS = 8
"""Enough sums in flight to hide the latency of an addition (four cycles, two a cycle)."""
_FETCH_BYTES = 6144
"""How far ahead the memory of rows is fetched: about what arrives while one line is on its way."""
_FETCHING = 8
"""With more sums than this a loop is bound by arithmetic, and fetching ahead only costs."""
_STRAIGHT = 4
"""Up to so many vectors a reduction is written without a loop."""
_CALL_WEIGHT = 20
_LOOP_WEIGHT = 256
"""Instructions that an unrolled loop may have."""


@dataclass(frozen=True, slots=True)
class Task:
    """A reduction to compute for one copy of a body."""

    lanes: Lanes
    reduce: ir.Reduce


@dataclass(frozen=True, slots=True)
class _Strand:
    """One accumulator's worth: the iteration(s) it is for, how many elements it holds, and which loads have
    their memory fetched so many elements ahead."""

    lanes: Lanes
    reduce: ir.Reduce
    count: int
    ahead: tuple[tuple[ir.Load, int], ...] = ()


def same_range(a: ir.Reduce, b: ir.Reduce) -> bool:
    """Whether two reductions can share one loop."""
    return a.op == b.op and a.type == b.type and a.low == b.low and a.high == b.high


def _weight(expr: ir.Expr) -> int:
    return sum(_CALL_WEIGHT if isinstance(e, ir.Call) else 1 for e in affine.walk(expr))


def _power_of_two(n: int) -> int:
    """The greatest power of two that is at most n (n >= 1)."""
    return 1 << (n.bit_length() - 1)


class Reductions(Expressions):
    """Expressions with reductions."""

    def width(self, elem: str, low: ir.Expr, high: ir.Expr) -> int:
        """Elements of a vector along a reduction."""
        full = max(self.have.bits // (8 * size(elem)), 1)
        count = trips(low, high)
        return full if count is None else min(full, _power_of_two(max(count, 1)))

    def reduced(self, lanes: Lanes, reduce: ir.Reduce) -> Val:
        here: Lanes | None = lanes
        in_row = False
        while here is not None:
            value = here.reduced.get(reduce)
            if value is not None and not (in_row and value.lanes > 1):
                return value
            in_row = in_row or here.row is not None
            here = here.outer
        return self.reduce_all([Task(lanes, reduce)])[0]

    def _runs_along(self, task: Task) -> bool:
        width = self.width(task.reduce.type, task.reduce.low, task.reduce.high)
        return Strides(self.facts, task.lanes).along(task.reduce, task.lanes.count, width)

    def sums_of(self, task: Task) -> int:
        """How many vectors of sums a reduction has at least."""
        return task.lanes.count if self._runs_along(task) else 1

    def reduce_all(self, tasks: Sequence[Task]) -> list[Val]:
        """The values of reductions over one range, in one loop as far as they run in the same direction."""
        results: dict[int, Val] = {}
        along: list[int] = []
        across: list[int] = []
        for number, task in enumerate(tasks):
            (along if self._runs_along(task) else across).append(number)
        for numbers, runs_along in ((along, True), (across, False)):
            if numbers:
                values = self._together([tasks[n] for n in numbers], runs_along)
                results.update(zip(numbers, values, strict=True))
        return [results[number] for number in range(len(tasks))]

    def _together(self, tasks: Sequence[Task], along: bool) -> list[Val]:
        first = tasks[0].reduce
        width = self.width(first.type, first.low, first.high) if along else 1
        strands: list[_Strand] = []
        sizes: list[int] = []
        for task in tasks:
            own = self._strands(task, along, width)
            strands += own
            sizes.append(len(own))
        low, high = (self.integer(tasks[0].lanes, bound) for bound in (first.low, first.high))
        totals = self._sums(strands, low, high, width)
        if not along:
            return totals
        values: list[Val] = []
        for count in sizes:
            values.append(self.ops.gathered([totals.pop(0) for _ in range(count)]))
        return values

    def _strands(self, task: Task, along: bool, width: int) -> list[_Strand]:
        differs = Strides(self.facts, task.lanes).differs(task.reduce.body)
        if not along:
            return [_Strand(task.lanes, task.reduce, task.lanes.count if differs else 1)]
        if task.lanes.count == 1:
            return [_Strand(task.lanes.inner({}, width), task.reduce, width)]
        if not differs:
            return [_Strand(self._row(task.lanes, None, width), task.reduce, width)]
        rows, ahead = range(task.lanes.count), tuple(self._ahead(task))
        return [_Strand(self._row(task.lanes, row, width), task.reduce, width, ahead) for row in rows]

    def _ahead(self, task: Task) -> Iterator[tuple[ir.Load, int]]:
        """Loads that walk along rows: the same place in a later block of rows, since the processor's own
        prefetching follows a row only to its end."""
        strides = Strides(self.facts, task.lanes)
        for load in _own_loads(task.reduce.body):
            step = strides.load_lane_step(load)
            if step and affine.coefficient(load.offset, task.reduce.var.id) == 1:
                block = step * task.lanes.count
                yield load, block * max(1, round(_FETCH_BYTES / abs(block * size(load.type))))

    def _row(self, lanes: Lanes, row: int | None, width: int) -> Lanes:
        """One of the iterations; None: what they have in common."""
        inner = lanes.inner({}, width, row or 0)
        if lanes.mask is not None:
            inner.mask = self.ops.any_lane(lanes.mask) if row is None else self.ops.lane(lanes.mask, row)
        return inner

    # ---- the loops -----------------------------------------------------------------------------
    def _sums(self, strands: Sequence[_Strand], low: str, high: str, width: int) -> list[Val]:
        """One total per strand; with width > 1, a scalar each, else as many lanes as the strand has."""
        first = strands[0].reduce
        at_once, unroll = self._unrolling(strands, low, high, width)
        start = extreme(first.type, first.op)
        sums = [self.ops.splat(start, s.count) for _ in range(at_once) for s in strands]
        position = low
        for count in dict.fromkeys((unroll, 1)):
            limit = self.text.sub(high, str(count * width - 1))
            position, sums = self._loop(strands, position, limit, width, count, sums, None)
        tail: list[Val] = []
        if width > 1 and self._may_remain(low, high, width):
            if self.have.masks:
                _, sums = self._loop(strands, position, high, width, 1, sums, high)
            else:
                alone = [_Strand(_narrow(s.lanes), s.reduce, 1) for s in strands]
                _, tail = self._loop(alone, position, high, 1, 1, [start] * len(strands), None)
        totals = self._combined(sums, len(strands), first.op)
        if width == 1:
            return totals
        folded = self.ops.fold_rows(first.op, totals)
        return [self.ops.pick(first.op, a, b) for a, b in zip(folded, tail, strict=True)] if tail else folded

    def _may_remain(self, low: str, high: str, width: int) -> bool:
        a, b = known(low), known(high)
        return a is None or b is None or (b - a) % width != 0

    def _unrolling(self, strands: Sequence[_Strand], low: str, high: str, width: int) -> tuple[int, int]:
        """How many sums each strand has at once, and how many vectors of it one round of the loop takes."""
        body_weight = sum(_weight(s.reduce.body) for s in strands)
        most = _power_of_two(max(1, min(_ACCUMULATORS // len(strands), _LOOP_WEIGHT // body_weight)))
        a, b = known(low), known(high)
        if a is None or b is None:
            return most, most
        steps = max((b - a) // width, 1)
        if steps <= _STRAIGHT and steps * body_weight <= _LOOP_WEIGHT:
            return min(most, _power_of_two(steps)), steps
        if steps % most and steps % (most // 2 or 1) == 0:
            most //= 2
        return most, most

    def _loop(
        self,
        strands: Sequence[_Strand],
        position: str,
        limit: str,
        width: int,
        unroll: int,
        sums: list[Val],
        high: str | None,
    ) -> tuple[str, list[Val]]:
        """Accumulates `unroll` vectors a round while position < limit; with `high`, only elements below it."""

        def body(k: str, texts: list[str]) -> list[str]:
            now = [Val(text, v.elem, v.lanes) for text, v in zip(texts, sums, strict=True)]
            for step in range(unroll):
                index = Linear(step * width, 1 if width > 1 else 0).plus(scalar_index(k))
                for number, strand in enumerate(strands):
                    place = (step * len(strands) + number) % len(now)
                    now[place] = self._accumulated(strand, index, now[place], high)
                    for load, distance in strand.ahead if high is None and len(strands) <= _FETCHING else ():
                        self.fetch_ahead(strand.lanes.inner({strand.reduce.var.id: index}), load, distance)
            return [v.text for v in now]

        position, texts = self.text.loop(position, limit, unroll * width, [Carried(v.type, v.text) for v in sums], body)
        return position, [Val(text, v.elem, v.lanes) for text, v in zip(texts, sums, strict=True)]

    def _accumulated(self, strand: _Strand, index: Linear, total: Val, high: str | None) -> Val:
        inner = strand.lanes.inner({strand.reduce.var.id: index})
        if high is None:
            return self._fitting(
                self.ops.pick(strand.reduce.op, total, self.evaluate(inner, strand.reduce.body)), total
            )
        inside = self.ops.binary("<", self.value_of(index, inner.count), Val(high, "i64"))
        inner.mask = self.ops.both(inner.mask, inside)
        more = self.ops.pick(strand.reduce.op, total, self.evaluate(inner, strand.reduce.body))
        return self.ops.select(inside, self._fitting(more, total), total)

    def _fitting(self, value: Val, total: Val) -> Val:
        if value.lanes > total.lanes:
            raise ValueError(f"region {self.facts.region.name}: a sum differs between lanes unexpectedly")
        return self.ops.splat(value, total.lanes)

    def _combined(self, sums: list[Val], strands: int, op: str) -> list[Val]:
        while len(sums) > strands:
            half = len(sums) // 2
            sums = [self.ops.pick(op, a, b) for a, b in zip(sums[:half], sums[half:], strict=True)]
        return sums

    # ---- arg-max and arg-min -------------------------------------------------------------------
    def arg_reduce(self, lanes: Lanes, stmt: ir.ArgReduce) -> None:
        """Continues from (best, at), which are slots."""
        low, high = self.integer(lanes, stmt.low), self.integer(lanes, stmt.high)
        best, at = self._slot(lanes, stmt.best.id), self._slot(lanes, stmt.at.id)
        width = self.width(best.elem, stmt.low, stmt.high)
        if lanes.count == 1 and Strides(self.facts, lanes).along(stmt, 1, width):
            low = self._arg_along(lanes, stmt, low, high, width)

        def body(k: str, _: list[str]) -> list[str]:
            inner = lanes.inner({stmt.var.id: scalar_index(k)})
            value = self.evaluate(inner, stmt.value)
            now = self._read_slot(best)
            better = self.ops.binary(">" if stmt.op == "max" else "<", value, now)
            if best.lanes > 1:
                better = self.ops.both(lanes.mask, better)
            self.write_slot(best, self.ops.select(better, value, now))
            self.write_slot(at, self.ops.select(better, self.evaluate(inner, stmt.index), self._read_slot(at)))
            return []

        self.text.loop(low, high, 1, [], body)

    def _slot(self, lanes: Lanes, var: ir.VarId) -> Slot:
        here: Lanes | None = lanes
        while here is not None and var not in here.bindings:
            here = here.outer
        binding = None if here is None else here.bindings[var]
        if not isinstance(binding, Slot):
            raise ValueError(f"region {self.facts.region.name}: variable {var} is set but not mutable")
        return binding

    def write_slot(self, slot: Slot, value: Val) -> None:
        value = self.ops.splat(value, slot.lanes)
        self.text.effect(f"store {value.typed}, ptr {slot.pointer}")

    def _arg_along(self, lanes: Lanes, stmt: ir.ArgReduce, low: str, high: str, width: int) -> str:
        """Whole vectors of the range: each lane keeps its first best and where it was. Leaves the rest."""
        slot = self._slot(lanes, stmt.best.id)
        first = self._read_slot(slot)
        unset = -(1 << 63)
        best, at = self.ops.splat(first, width), literal(unset, "i64", width)
        better_op = ">" if stmt.op == "max" else "<"

        def body(k: str, texts: list[str]) -> list[str]:
            index = Linear(0, 1).plus(scalar_index(k))
            inner = lanes.inner({stmt.var.id: index}, width)
            now, where = Val(texts[0], best.elem, width), Val(texts[1], "i64", width)
            value = self.ops.splat(self.evaluate(inner, stmt.value), width)
            better = self.ops.binary(better_op, value, now)
            return [
                self.ops.select(better, value, now).text,
                self.ops.select(better, self.value_of(index, width), where).text,
            ]

        carried = [Carried(best.type, best.text), Carried(at.type, at.text)]
        position, texts = self.text.loop(low, self.text.sub(high, str(width - 1)), width, carried, body)
        best, at = Val(texts[0], best.elem, width), Val(texts[1], "i64", width)
        top = self.ops.fold_rows(stmt.op, [best])[0]
        candidates = self.ops.select(self.ops.binary("==", best, top), at, literal((1 << 63) - 1, "i64"))
        kind = of_lanes(register("i64"), width)
        where = self.text.op(f"call i64 @llvm.vector.reduce.smin.v{width}i64({kind} {candidates.text})")
        changed = self.text.op(f"icmp ne i64 {where}, {unset}")
        found = self.text.op(f"icmp ne i64 {where}, {(1 << 63) - 1}")

        def keep() -> None:
            self.write_slot(slot, top)
            self.write_slot(
                self._slot(lanes, stmt.at.id),
                self.evaluate(lanes.inner({stmt.var.id: scalar_index(where)}), stmt.index),
            )

        self.text.when(self.text.op(f"and i1 {changed}, {found}"), keep)
        return position


def _narrow(lanes: Lanes) -> Lanes:
    """The same iteration, one element of the reduction at a time."""
    return Lanes(1, lanes.outer, lanes.row, lanes.mask, lanes.bindings, lanes.places, lanes.reduced)


def _own_loads(expr: ir.Expr) -> Iterator[ir.Load]:
    """The loads of an expression that are not inside a reduction of its own."""
    if isinstance(expr, ir.Load):
        yield expr
    if not isinstance(expr, ir.Reduce):
        for child in affine.children(expr):
            yield from _own_loads(child)
