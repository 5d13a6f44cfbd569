"""Statements of kernels → Triton text.

Enters: the body of one part, with its axes laid out as lanes. Leaves: lines. What differs between lanes is masked;
what is the same in all is control flow. Where a store may be seen by another warp's load, all warps meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from vx.codegen import triton_tiles as tiles
from vx.codegen.triton_order import loads_first
from vx.codegen.triton_places import Memory, Tile
from vx.codegen.triton_reduce import Reductions
from vx.codegen.triton_values import Mask, Val, spread, type_name, union, variable_of
from vx.kernels import affine, effects, ir


class Body(Reductions):
    """Writes statements."""

    private: Memory | None = None
    """Where this program's share of the private memory begins; set for parts that need it."""
    private_used: int = 0

    def block(self, stmts: Sequence[ir.Stmt]) -> None:
        """The statements, in order; a failed check masks those after it."""
        depth = len(self.masks)
        for i, stmt in enumerate(stmts):
            if isinstance(stmt, ir.Let | ir.Store) and not (i and isinstance(stmts[i - 1], ir.Let)):
                self._side_by_side(stmts[i:])
            self.statement(stmt)
        self.ready.clear()
        del self.masks[depth:]

    def _side_by_side(self, stmts: Sequence[ir.Stmt]) -> None:
        """Sums over the same range in definitions that follow each other, or in a store, are computed in one loop, if
        none of them needs another's result; those of scalars that waited for their first use as well."""
        group = _together(stmts)
        declared: set[ir.VarId] = set()
        values: list[ir.Expr] = []
        for stmt in group:
            if affine.variables(stmt.value) & declared:
                break
            values.append(stmt.value)
            if isinstance(stmt, ir.Let):
                declared.add(stmt.var.id)
        sums = [e for x in values for e in outermost(x)]
        sums = [e for e in sums if (e.low, e.high) == (sums[0].low, sums[0].high)]
        if not sums or any(self.is_product(e) for e in sums):
            return
        inner = {v for e in sums for x in (e.body, e.low, e.high) for v in affine.variables(x)}
        for v in sorted((inner & (self.later.keys() | self.entries.keys())) - self.env.keys()):
            self.at_last(v)
        waiting = self._waiting({v for stmt in group for v in affine.variables(stmt.value)})
        sums += [e for x in waiting for e in outermost(x) if (e.low, e.high) == (sums[0].low, sums[0].high)]
        beside = [x for x in _beside(stmts) if isinstance(self.places[x.buffer], Memory)]
        sums = list(dict.fromkeys(sums))
        with self.kept():
            self.ready |= dict(zip(sums, self.together(sums, beside), strict=True))

    def _waiting(self, names: set[ir.VarId]) -> list[ir.Expr]:
        """Definitions that wait for their first use, of these names and what they need."""
        found: dict[ir.VarId, ir.Expr] = {}
        while new := (names & self.later.keys()) - self.env.keys() - found.keys():
            found |= {v: self.later[v].value for v in new}
            names = {v for value in found.values() for v in affine.variables(value)}
        return [found[v] for v in sorted(found)]

    def statement(self, stmt: ir.Stmt) -> None:
        for v in sorted((_inside(stmt) & (self.later.keys() | self.entries.keys())) - self.env.keys()):
            self.at_last(v)
        match stmt:
            case ir.Let():
                self._let(stmt)
            case ir.Set(var=var, value=value):
                self.assign(self.env[var.id], self.value(value))
            case ir.Store():
                self._store(stmt)
            case ir.Alloc(buffer=buffer):
                self._alloc(buffer)
            case ir.Check(cond=cond, message=message):
                holds = self.bind("holds", self.value(cond))
                self.check(holds, message)
                self.masks.append(Mask(holds, False))
            case ir.ArgReduce(best=best, at=at):
                old_best, old_at = self.env[best.id], self.env[at.id]
                new_best, new_at = self.arg_reduce(stmt, old_best, old_at)
                new_at = self.bind("index", new_at)
                self.assign(old_best, new_best)
                self.assign(old_at, new_at)
            case _:
                self._control(stmt)

    def _control(self, stmt: ir.Stmt) -> None:
        match stmt:
            case ir.For(parallel=True):
                self._parallel(stmt)
            case ir.For():
                self._serial(stmt)
            case ir.While(cond=cond, body=body):
                self._while(cond, body)
            case ir.If(cond=cond, then=then, orelse=orelse):
                self._if(self.value(cond), then, orelse)
            case _:
                raise TypeError(f"not a statement of a kernel: {stmt!r}")

    # ---- scalars -------------------------------------------------------------------------------
    def _let(self, stmt: ir.Let) -> None:
        if not stmt.mutable:
            self.defined(stmt)
            return
        v = self.value(stmt.value)
        lanes = self.active_axes()
        self.mutable.add(stmt.var.id)
        name = self.text.fresh(stmt.var.name)
        self.changing.add(name)
        start = self.broadcast(v, lanes) if lanes else self.typed(v)
        self.text.line(f"{name} = {start.text}")
        self.env[stmt.var.id] = Val(name, stmt.var.type, lanes)

    def active_axes(self) -> tuple[int, ...]:
        """All axes that lanes lie along here."""
        return tuple(sorted({a for v in self.env.values() for a in v.axes if a in self.lane_axes}))

    def assign(self, old: Val, new: Val) -> None:
        """Gives a mutable variable its next value in the lanes that take part."""
        taking = self.both([m.value for m in self.masks if not m.sure or set(m.value.axes) <= set(old.axes)])
        if taking is not None:
            new = self.select(taking, new, old)
        self.text.line(f"{old.text} = {self.broadcast(self.typed(new), old.axes).text}")

    # ---- memory --------------------------------------------------------------------------------
    def _alloc(self, buffer: ir.BufferId) -> None:
        b = next(b for b in self.region.buffers if b.id == buffer)
        if b.kind != "private":
            return
        assert b.length is not None
        axes = self.active_axes()
        if buffer in self.in_registers:
            length = self.in_registers[buffer]
            name = self.text.fresh(b.name)
            own = self.axis(length)
            self.changing.add(name)
            self.text.line(f"{name} = tl.zeros({self.shape((*axes, own))}, {type_name(b.elem)})")
            self.places[buffer] = Tile(name, axes, length, b.elem)
            return
        self.places[buffer] = self.private_memory(b, axes)

    def private_memory(self, buffer: ir.Buffer, axes: tuple[int, ...]) -> Memory:
        """A private buffer in memory: element after element, each with a value for every lane."""
        lanes = 1
        lane = Val("0", "i64", constant=True)
        for a in reversed(axes):
            here = Val(f"tl.arange(0, {self.sizes[a]}).to(tl.int64)", "i64", (a,))
            lane = here if lane.text == "0" else self.plus(self.times(here, lanes), lane)
            lanes *= self.sizes[a]
        at = self.claim(buffer, lanes)
        self.written.add(buffer.id)
        return Memory(at, buffer.elem, lanes, None if lane.constant else self.bind("lane", lane))

    def claim(self, buffer: ir.Buffer, lanes: int) -> str:
        """A pointer to memory for `lanes` copies of a buffer."""
        raise NotImplementedError

    def _store(self, stmt: ir.Store) -> None:
        v = self.value(stmt.value)
        place = self.places[stmt.buffer]
        if isinstance(place, Tile):
            self._store_tile(place, stmt.offset, v)
            return
        self.wait()
        where = self.pointer(place, stmt.offset)
        self.before_store(stmt)
        mask = self.active()
        axes = union(where, v, *([mask] if mask else []))
        target = where.text
        if axes != where.axes:
            target = f"tl.broadcast_to({spread(where, axes) if where.axes else where.text}, {self.shape(axes)})"
        if place.elem == "bool" and not v.constant:
            v = Val(f"{v.text}.to(tl.int8)" if v.text.isidentifier() else f"({v.text}).to(tl.int8)", "i8", v.axes)
        self.stores += 1
        extra = f", mask={spread(mask, axes)}" if mask is not None else ""
        self.text.line(f"tl.store({target}, {spread(v, axes)}{extra})")

    def _store_tile(self, place: Tile, offset: ir.Affine, v: Val) -> None:
        var = variable_of(offset)
        assert var is not None
        old = self._tile(place, offset)
        mask = self.active()
        new = v if mask is None else self.select(mask, v, old)
        self.text.line(f"{place.name} = {self.broadcast(self.typed(new), old.axes).text}")

    def before_store(self, stmt: ir.Store) -> None:
        """Others may still read what is about to change; what the store itself has just read there is safe."""
        b, offset = stmt.buffer, stmt.offset
        loads = [x.offset for x in affine.loads(stmt.value) if x.buffer == b]
        loaded = self.hazards.loaded.get(b, ())
        own = loads == [offset] and loaded == (offset,)
        if not self.apart(self.hazards.stored.get(b, ()), offset) or not (own or self.apart(loaded, offset)):
            self.barrier()
        self.hazards.stored[b] = (*self.hazards.stored.get(b, ()), offset)

    # ---- control flow --------------------------------------------------------------------------
    def _parallel(self, stmt: ir.For) -> None:
        lanes = max((self.in_registers.get(b, 1) for b in effects.allocated(stmt.body)), default=1)
        for a in self.active_axes():
            lanes *= self.sizes[a]
        extent = self.extent_of(stmt.low, stmt.high)
        size = tiles.chunk(extent, lanes, False)
        with self.walk(stmt.var, stmt.low, stmt.high, size) as step:
            if step.axis is not None:
                self.lane_axes.add(step.axis)
            self.block(stmt.body)
            if step.axis is not None:
                self.lane_axes.discard(step.axis)
            if step.looped and self._private_inside(stmt.body):
                self._meet(stmt.body)

    def _private_inside(self, body: Sequence[ir.Stmt]) -> bool:
        return bool(effects.allocated(body) - self.in_registers.keys())

    def extent_of(self, low: ir.Expr, high: ir.Expr) -> int | None:
        a, b = self.constant(low), self.constant(high)
        return None if a is None or b is None else max(int(b.text) - int(a.text), 0)

    def _serial(self, stmt: ir.For) -> None:
        self._forget_loads(stmt.body)
        if any(
            x.buffer not in self.constant_buffers for e in effects.all_expressions(stmt.body) for x in affine.loads(e)
        ):
            self.wait()
        with self.walk(stmt.var, stmt.low, stmt.high, 1):
            with self.text.captured() as lines:
                self.block(stmt.body)
                self._meet(stmt.body)
            self.text.splice(lines if self.products else loads_first(lines, self._unchanged(), self.changing))

    def _unchanged(self) -> set[str]:
        """Pointers to what this kernel does not store to."""
        places = {b: p for b, p in self.places.items() if b not in self.written}
        return {p.pointer for p in places.values() if isinstance(p, Memory)}

    def _while(self, cond: ir.Expr, body: Sequence[ir.Stmt]) -> None:
        going = self.text.fresh("going")
        self._forget_loads(body)
        first = self._still(cond, None)
        self.text.line(f"{going} = {first.text}")
        mine = Val(going, "bool", first.axes)
        some = f"tl.max({going}.to(tl.int32)) != 0" if mine.axes else f"{going} != 0"
        self.text.line(f"while {some}:")
        with self.text.indented():
            self.masks.append(Mask(mine, False))
            self.block(body)
            self._meet(body)
            again = self._still(cond, mine)
            self.masks.pop()
            self.text.line(f"{going} = {again.text}")

    def _still(self, cond: ir.Expr, before: Val | None) -> Val:
        """Which lanes go on: along all axes, so that it keeps its shape."""
        axes = self.active_axes()
        conditions = [self.typed(self.value(cond)), *(m.value for m in self.masks)]
        found = self.both(conditions)
        assert found is not None
        return self.broadcast(found, axes) if axes else found

    def _meet(self, body: Sequence[ir.Stmt]) -> None:
        """At the end of a round, if the next may touch what this one stored."""
        stored = effects.stored(body) - self.in_registers.keys()
        if stored & self.hazards.touched():
            self.barrier()

    def _forget_loads(self, body: Sequence[ir.Stmt]) -> None:
        """Before a loop that changes what was loaded in front of it."""
        if effects.stored(body) & self.hazards.touched():
            self.barrier()

    def _if(self, cond: Val, then: Sequence[ir.Stmt], orelse: Sequence[ir.Stmt]) -> None:
        cond = self.bind("cond", cond)
        if cond.axes:
            self._masked(cond, then)
            if orelse:
                self._masked(Val(f"~{cond.text}", "bool", cond.axes), orelse)
            return
        before = self.hazards.copy()
        self.text.line(f"if {cond.text}:")
        self._branch(then)
        after, self.hazards = self.hazards, before
        if orelse:
            self.text.line("else:")
            self._branch(orelse)
        self.hazards.join(after)

    def _branch(self, stmts: Sequence[ir.Stmt]) -> None:
        with self.text.indented():
            start = len(self.text.lines)
            self.block(stmts)
            if len(self.text.lines) == start:
                self.text.line("pass")

    def _masked(self, cond: Val, stmts: Sequence[ir.Stmt]) -> None:
        self.masks.append(Mask(cond, False))
        self.block(stmts)
        self.masks.pop()


def _inside(stmt: ir.Stmt) -> set[ir.VarId]:
    """Scalars that are read in a loop, a branch or a reduction of the statement."""
    found = effects.free_variables([s for block in effects.blocks(stmt) for s in block])
    if isinstance(stmt, ir.ArgReduce):
        found |= affine.variables(stmt.value) | affine.variables(stmt.index)
    for expr in effects.own_expressions(stmt):
        found |= {v for e in outermost(expr) for v in affine.variables(e)}
    return found


def _together(stmts: Sequence[ir.Stmt]) -> list[ir.Let | ir.Store]:
    """The definitions that come first, or else the store."""
    if isinstance(stmts[0], ir.Store):
        return [stmts[0]]
    return [s for s in itertools.takewhile(lambda s: isinstance(s, ir.Let), stmts) if isinstance(s, ir.Let)]


def _beside(stmts: Sequence[ir.Stmt]) -> Iterator[ir.Load]:
    """Loads outside reductions that definitions and stores make in any case, and could make before all of them."""
    declared: set[ir.VarId] = set()
    stored: set[ir.BufferId] = set()
    for stmt in stmts:
        if not isinstance(stmt, ir.Let | ir.Store):
            break
        for x in _certain_loads(stmt.value):
            if x.buffer not in stored and not affine.variables(x.offset) & declared and not any(affine.loads(x.offset)):
                yield x
        if isinstance(stmt, ir.Let):
            declared.add(stmt.var.id)
        else:
            stored.add(stmt.buffer)


def _certain_loads(expr: ir.Expr) -> Iterator[ir.Load]:
    if isinstance(expr, ir.Load):
        yield expr
    elif not isinstance(expr, ir.Reduce | ir.Select) and not (isinstance(expr, ir.Binary) and expr.op in ("&&", "||")):
        for child in affine.children(expr):
            yield from _certain_loads(child)


def outermost(expr: ir.Expr) -> Iterator[ir.Reduce]:
    """Reductions that are computed whenever the expression is."""
    if isinstance(expr, ir.Reduce):
        yield expr
    elif not isinstance(expr, ir.Select | ir.Load) and not (isinstance(expr, ir.Binary) and expr.op in ("&&", "||")):
        for child in affine.children(expr):
            yield from outermost(child)
