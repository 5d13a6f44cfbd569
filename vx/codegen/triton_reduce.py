"""Reductions and loops inside an iteration → Triton text: chunks of an inner axis, matrix products, arg-max."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from vx.codegen import triton_tiles as tiles
from vx.codegen.triton_expr import Expressions
from vx.codegen.triton_places import Memory
from vx.codegen.triton_values import (
    HALVES,
    AxisId,
    Mask,
    Val,
    atom,
    identity,
    spread,
    type_name,
    union,
)
from vx.kernels import affine, ir

_NOWHERE_YET = (1 << 62) - 1
"""A position that no element has."""


@dataclass(frozen=True, slots=True)
class Walk:
    """One step of a loop whose iterations lie along an axis: `axis` is None if they come one at a time. `mask` tells
    which of them exist, None if all do. `looped`: there may be several such steps; then `counter` is the first of this
    one's, and `last` where they end."""

    var: Val
    axis: AxisId | None
    mask: Val | None
    looped: bool
    counter: str
    last: str


@dataclass(frozen=True, slots=True)
class Carried:
    """A load whose value one round of a loop makes for the next: its name now, and what it will be. `axis`: that of
    the loop's variable where the name was first given."""

    load: ir.Load
    now: Val
    next: str
    axis: AxisId


@dataclass(frozen=True, slots=True)
class Sum:
    """A reduction being written: its accumulator's type and axes; one round's text, given the accumulator's name or
    "" if there is only one round; the result from the accumulator."""

    type: str
    axes: tuple[AxisId, ...]
    update: Callable[[str], Val]
    finish: Callable[[Val], Val]


class Reductions(Expressions):
    """Writes loops over inner axes. `ready` are reductions computed ahead; `columns`: how many iterations of a sum are
    done together where the part's tiles say so."""

    ready: dict[ir.Reduce, Val]
    columns: int | None = None

    # ---- walking a range -----------------------------------------------------------------------
    @contextmanager
    def walk(self, var: ir.Var, low: ir.Expr, high: ir.Expr, size: int) -> Iterator[Walk]:
        """Writes what comes inside once for every `size` iterations, or only once if that is all."""
        first, last = self.value(low), self.value(high)
        full = self.full.get(var.id)
        extent = _constant_extent(first, last)
        size = full or size
        if full or (extent is not None and extent <= size and size > 1):
            with self._step(var, first, last, size, "", extent) as step:
                yield step
            return
        uniform = not first.axes and not last.axes
        start, end = (first, last) if uniform else self._hull(first, last)
        counter = self.text.fresh(f"{var.name}0" if size > 1 else var.name)
        by = f", {size}" if size > 1 else ""
        self.text.line(f"for {counter} in range({start.text}, {end.text}{by}):")
        with self.text.indented(), self._step(var, first, last, size, counter, extent) as step:
            yield step

    def _hull(self, low: Val, high: Val) -> tuple[Val, Val]:
        """Scalars that the range of no lane that takes part goes beyond."""
        ends = []
        taking = self.active()
        for op, v in (("min", low), ("max", high)):
            if not v.axes:
                ends.append(v)
                continue
            if taking is not None:
                outside = Val(identity(op, "i64"), "i64", constant=True)
                v = self.select(taking, v, outside)
            while v.axes:
                v = Val(f"tl.{op}({v.text}, axis={len(v.axes) - 1})", v.type, v.axes[:-1])
            ends.append(self.bind("first" if op == "min" else "last", v))
        return ends[0], ends[1]

    @contextmanager
    def _step(self, var: ir.Var, low: Val, high: Val, size: int, counter: str, extent: int | None) -> Iterator[Walk]:
        uniform = not low.axes and not high.axes
        axis = self.axis(size) if size > 1 else None
        base = counter or low.text
        if axis is None:
            position = Val(f"tl.cast({base}, tl.int64)", "i64")
        else:
            text = f"tl.arange(0, {size}).to(tl.int64)"
            position = Val(text if base == "0" else f"{atom(base)} + {text}", "i64", (axis,))
        mine = self.bind(var.name, position)
        conditions = []
        if low.axes:
            axes = union(mine, low)
            conditions.append(Val(f"{spread(mine, axes)} >= {spread(low, axes)}", "bool", axes))
        if not uniform or (axis is not None and (not extent or extent % size)):
            axes = union(mine, high)
            conditions.append(Val(f"{spread(mine, axes)} < {spread(high, axes)}", "bool", axes))
        mask = self.both(conditions)
        if mask is not None:
            mask = self.bind(f"{var.name}_in", mask)
            self.masks.append(Mask(mask, uniform and (bool(counter) or bool(extent))))
        self.env[var.id] = mine
        yield Walk(mine, axis, mask, bool(counter), counter, high.text)
        if mask is not None:
            self.masks.pop()
        del self.env[var.id]

    # ---- reductions ----------------------------------------------------------------------------
    def reduced(self, expr: ir.Reduce) -> Val:
        return self.ready[expr] if expr in self.ready else self.together([expr])[0]

    def is_product(self, expr: ir.Reduce) -> bool:
        return self._sides(expr) is not None

    def together(self, exprs: Sequence[ir.Reduce], beside: Sequence[ir.Load] = ()) -> list[Val]:
        """The values of reductions over the same range, in one loop. Several must not be matrix products. `beside`:
        what is needed afterwards, and can be on its way meanwhile."""
        first = exprs[0]
        extent, size, product = self._round(exprs)
        exprs = [_along(e, first.var) for e in exprs]
        stream = [] if product else self._streamed(exprs)
        carried: list[Carried] = []
        if stream and extent and extent > size and extent % size == 0 and first.var.id not in self.full:
            carried = self._first_round(first, size, stream)
            self._meanwhile(beside)
        if carried or not stream:
            self._wait_for(exprs)
        with (
            self.text.captured() as lines,
            self.walk(first.var, first.low, first.high, size) as step,
            self.text.captured() as inner,
        ):
            if carried:
                self._next_round(first.var, step, size, carried)
            else:
                self._only_round(step, stream, beside)
            write = self._product if product else self._elements
            sums = [write(e, step) for e in exprs]
        if not step.looped:
            self.text.splice([*lines, *inner])
            return [self.bind("total", s.finish(s.update(""))) for s in sums]
        # Accumulators are declared in front of the loop, now that their axes are known.
        names = [self.text.fresh("acc") for _ in sums]
        for e, name, s in zip(exprs, names, sums, strict=True):
            init = identity(e.op, s.type)
            self.text.line(f"{name} = tl.full({self.shape(s.axes)}, {init}, {type_name(s.type)})")
        self.text.splice([*lines, *inner])
        with self.text.indented():
            for name, s in zip(names, sums, strict=True):
                self.text.line(f"{name} = {s.update(name).text}")
            for c in carried:
                self.text.line(f"{c.now.text} = {c.next}")
        return [self.bind("total", s.finish(Val(n, s.type, s.axes))) for n, s in zip(names, sums, strict=True)]

    def _round(self, exprs: Sequence[ir.Reduce]) -> tuple[int | None, int, bool]:
        """Of reductions over the same range: how many iterations if that is constant, how many are done together, and
        whether it is a matrix product."""
        first = exprs[0]
        lanes = 1
        for a in {a for e in exprs for x in (e.body, e.low, e.high) for a in self.axes_of(x)}:
            lanes *= self.sizes[a]
        extent = _constant_extent(self.constant(first.low), self.constant(first.high))
        product = self.is_product(first)
        if self.columns and not product and lanes > 1:
            return extent, self.columns, product
        return extent, tiles.chunk(extent, lanes, product), product

    def _streamed(self, exprs: Sequence[ir.Reduce]) -> list[ir.Load]:
        """Loads of what nobody changes, matrices first: they can be on their way while the rest is waited for."""
        found: list[ir.Load] = []
        for e in exprs:
            parts = list(affine.walk(e.body))
            if any(
                isinstance(x, ir.Reduce | ir.Select) or (isinstance(x, ir.Binary) and x.op in ("&&", "||"))
                for x in parts
            ):
                continue
            found += [
                x
                for x in parts
                if isinstance(x, ir.Load)
                and x.buffer in self.constant_buffers
                and e.var.id in affine.variables(x.offset)
                and not any(affine.loads(x.offset))
            ]
        wide = {x: len(self.axes_of(x.offset)) for x in found}
        return sorted(wide, key=lambda x: -wide[x]) if any(wide.values()) else []

    def _first_round(self, first: ir.Reduce, size: int, stream: Sequence[ir.Load]) -> list[Carried]:
        """Loads of the first round, in front of the loop."""
        text = f"tl.arange(0, {size}).to(tl.int64)"
        low = self.value(first.low).text
        axis = self.axis(size)
        self.env[first.var.id] = self.bind(
            first.var.name, Val(text if low == "0" else f"{low} + {text}", "i64", (axis,))
        )
        carried = []
        for x in stream:
            now = self.load(x)
            self.changing.add(now.text)
            carried.append(Carried(x, now, "", axis))
        del self.env[first.var.id]
        return carried

    def _next_round(self, var: ir.Var, step: Walk, size: int, carried: list[Carried]) -> None:
        """Loads of the round after this one, which are on their way during it."""
        assert step.axis is not None and step.last
        here = self.env[var.id]
        more = self.bind("more", Val(f"{step.counter} + {size} < {step.last}", "bool"))
        self.env[var.id] = self.bind(var.name, Val(f"{here.text} + {size}", "i64", here.axes))
        self.masks.append(Mask(more, False))
        following = [self.load(x.load).text for x in carried]
        self.masks.pop()
        self.env[var.id] = here
        for i, (x, text) in enumerate(zip(carried, following, strict=True)):
            axes = tuple(step.axis if a == x.axis else a for a in x.now.axes)
            now = Val(x.now.text, x.now.type, axes)
            carried[i] = Carried(x.load, now, text, x.axis)
            self.arrived(x.load, now)

    def _only_round(self, step: Walk, stream: Sequence[ir.Load], beside: Sequence[ir.Load]) -> None:
        """Loads of a round that none before it began."""
        for x in stream:
            self.load(x)
        if stream and not step.looped and step.mask is None:
            self._meanwhile(beside)

    def _meanwhile(self, beside: Sequence[ir.Load]) -> None:
        """What is needed beside the sums, constants first."""
        for x in sorted(beside, key=lambda x: x.buffer not in self.constant_buffers):
            self.load(x)

    def _wait_for(self, exprs: Sequence[ir.Reduce]) -> None:
        """The wait that a loop would otherwise repeat."""
        if any(x.buffer not in self.constant_buffers for e in exprs for x in affine.loads(e.body)):
            self.wait()

    def constant(self, expr: ir.Expr) -> Val | None:
        """A bound that is a bare number."""
        if isinstance(expr, ir.Lit) or (isinstance(expr, ir.Affine) and not expr.terms):
            return self.value(expr)
        return None

    def _elements(self, expr: ir.Reduce, step: Walk) -> Sum:
        """One accumulator for each lane and each iteration of a chunk."""
        wide = "f32" if expr.type in HALVES else expr.type
        body = self.bind("term", self.cast(self.value(expr.body), wide))
        lanes = union(body, *([step.mask] if step.mask else []), step.var)
        nothing = Val(identity(expr.op, wide), wide, constant=True)
        if step.mask is not None and not self._zero_outside(expr, step):
            body = self.bind("term", self.select(step.mask, body, nothing))
        elif body.axes != lanes:
            body = self.bind("term", self.broadcast(body, lanes))

        def update(acc: str) -> Val:
            if not acc:
                return body
            if expr.op == "add":
                return Val(f"{acc} + {body.text}", wide, lanes)
            return Val(f"tl.{expr.op}imum({acc}, {body.text})", wide, lanes)

        def finish(acc: Val) -> Val:
            if step.axis is None:
                return self.cast(acc, expr.type)
            name = "sum" if expr.op == "add" else expr.op
            position = acc.axes.index(step.axis)
            kept = tuple(a for a in acc.axes if a != step.axis)
            text = f"tl.{name}({acc.text}, axis={position})"
            if wide in ("i8", "i16", "u8", "u16"):
                text += f".to({type_name(wide)})"
            return self.cast(Val(text, wide, kept), expr.type)

        return Sum(wide, lanes, update, finish)

    def _zero_outside(self, expr: ir.Reduce, step: Walk) -> bool:
        """Whether a term is 0 where the range has ended, because all that it multiplies is loaded as 0 there."""
        if expr.op != "add" or step.mask is None or step.mask.axes != (step.axis,):
            return False
        parts = [expr.body]
        while parts:
            match parts.pop():
                case ir.Load(buffer=buffer, offset=offset) if isinstance(self.places[buffer], Memory):
                    if expr.var.id not in affine.variables(offset):
                        return False
                case ir.Cast(operand=operand):
                    parts.append(operand)
                case ir.Binary(op="*", left=left, right=right):
                    parts += [left, right]
                case _:
                    return False
        return True

    # ---- matrix products -----------------------------------------------------------------------
    def _sides(self, expr: ir.Reduce) -> tuple[AxisId, AxisId] | None:
        """The two axes of a matrix product: each side's factors vary along one of them only."""
        if expr.op != "add" or expr.type != "f32":
            return None
        found: set[AxisId] = set()
        for factor in tiles.factors(expr.body):
            axes = self.axes_of(factor)
            if len(axes) > 1 or any(self.sizes[a] < tiles.LEAST for a in axes):
                return None
            if axes and expr.var.id not in affine.variables(factor):
                return None
            found |= axes
        full = self.full.get(expr.var.id)
        if len(found) != 2 or (full is not None and full < tiles.LEAST):
            return None
        left, right = sorted(found)
        return left, right

    def _product(self, expr: ir.Reduce, step: Walk) -> Sum:
        assert step.axis is not None
        sides: dict[AxisId | None, list[ir.Expr]] = {}
        for factor in tiles.factors(expr.body):
            axes = self.axes_of(factor) - {step.axis}
            sides.setdefault(axes.pop() if axes else None, []).append(factor)
        left, right = sorted(a for a in sides if a is not None)
        sides[left] += sides.pop(None, [])
        pair = [self._side(sides[a], (a, step.axis), step) for a in (left, right)]
        if pair[0].type != pair[1].type:
            pair = [self.bind("side", self.cast(v, "f32")) for v in pair]
        precision = ', input_precision="ieee"' if pair[0].type == "f32" else ""
        result = (left, right)

        def update(acc: str) -> Val:
            onto = f", {acc}" if acc else ""
            return Val(f"tl.dot({pair[0].text}, tl.trans({pair[1].text}){onto}{precision})", "f32", result)

        return Sum("f32", result, update, lambda acc: acc)

    def _side(self, factors: list[ir.Expr], axes: tuple[AxisId, ...], step: Walk) -> Val:
        """One operand, 16 bits wide if it is nothing but such elements; zero where the reduction has ended."""
        first = factors[0]
        if len(factors) == 1 and isinstance(first, ir.Cast) and affine.type_of(first.operand) in HALVES:
            v = self.value(first.operand)
        else:
            v = self.value(first)
            for factor in factors[1:]:
                v = self.operator("*", v, self.value(factor), "f32")
        v = self.bind("side", self.broadcast(v, axes))
        if step.mask is not None:
            extra = [a for a in step.mask.axes if a not in axes]
            inside = self.any_along(step.mask, extra) if extra else step.mask
            v = self.bind("side", self.select(inside, v, Val("0.0", v.type, constant=True)))
        return v

    # ---- arg-max -------------------------------------------------------------------------------
    def arg_reduce(self, stmt: ir.ArgReduce, best: Val, at: Val) -> tuple[Val, Val]:
        """The better of (best, at) and the range, each lane of a chunk looking for its own first."""
        lanes = 1
        for a in {*self.axes_of(stmt.value), *best.axes, *self.axes_of(stmt.low), *self.axes_of(stmt.high)}:
            lanes *= self.sizes[a]
        extent = _constant_extent(self.constant(stmt.low), self.constant(stmt.high))
        size = tiles.scan(extent, lanes)
        high, place = self.text.fresh("high"), self.text.fresh("place")
        with (
            self.text.captured() as lines,
            self.walk(stmt.var, stmt.low, stmt.high, size) as step,
            self.text.captured() as inner,
        ):
            value = self.bind("value", self.value(stmt.value))
            masks = [m.value for m in self.masks]
            lanes_ = union(best, value, step.var, *masks)
            better = f"{spread(value, lanes_)} {'>' if stmt.op == 'max' else '<'} {high}"
            taking = self.both(masks)
            if taking is not None:
                better = f"({better}) & {atom(spread(taking, lanes_))}"
            found = self.text.fresh("better")
            self.text.line(f"{found} = {better}")
            self.text.line(f"{high} = tl.where({found}, {spread(value, lanes_)}, {high})")
            self.text.line(f"{place} = tl.where({found}, {spread(step.var, lanes_)}, {place})")
        self.text.line(f"{high} = {self.broadcast(best, lanes_).text}")
        self.text.line(f"{place} = tl.full({self.shape(lanes_)}, {_NOWHERE_YET}, tl.int64)")
        self.text.splice(lines)
        self.text.splice(inner)
        return self._first_of(stmt, best, at, Val(high, best.type, lanes_), Val(place, "i64", lanes_), step.axis)

    def _first_of(
        self, stmt: ir.ArgReduce, best: Val, at: Val, high: Val, place: Val, axis: AxisId | None
    ) -> tuple[Val, Val]:
        """Among the lanes of a chunk, the best; of equals the first."""
        if axis is not None:
            position = high.axes.index(axis)
            kept = tuple(a for a in high.axes if a != axis)
            top = self.bind("top", Val(f"tl.{stmt.op}({high.text}, axis={position})", high.type, kept))
            same = f"{high.text} == {spread(top, high.axes)}"
            place = self.bind(
                "place", Val(f"tl.min(tl.where({same}, {place.text}, {_NOWHERE_YET}), axis={position})", "i64", kept)
            )
            high = top
        found = self.bind("found", Val(f"{place.text} != {_NOWHERE_YET}", "bool", place.axes))
        self.env[stmt.var.id] = place
        self.masks.append(Mask(found, False))
        index = self.value(stmt.index)
        self.masks.pop()
        return self.select(found, high, best), self.select(found, index, at)


def _along(expr: ir.Reduce, var: ir.Var) -> ir.Reduce:
    """The same reduction over another variable."""
    return replace(expr, var=var, body=affine.substitute(expr.body, {expr.var.id: var}))


def _constant_extent(low: Val | None, high: Val | None) -> int | None:
    if low is None or high is None or not low.constant or not high.constant:
        return None
    return max(int(high.text) - int(low.text), 0)
