"""Statements of a loop body, for several copies of it in lock step.

Enters: statements and a group of copies (`Lanes`), which are iterations of parallel loops. Leaves: text
that does each statement for every copy before the next. Reductions of one body that can share a loop do.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

from vx.codegen.cpu_library import Facts, Library
from vx.codegen.cpu_memory import Frame
from vx.codegen.cpu_reduce import Reductions, Task, same_range
from vx.codegen.cpu_text import FunctionText
from vx.codegen.cpu_values import Features, Lanes, Place, Slot, Val, of_lanes, register, scalar_index, size
from vx.kernels import affine, effects, ir

Group = Sequence[Lanes]


class Bodies(Reductions):
    """Statements. `frame` gives private memory; `varying` are the scalars that differ between lanes."""

    def __init__(self, text: FunctionText, have: Features, facts: Facts, library: Library, frame: Frame) -> None:
        super().__init__(text, have, facts, library)
        self.frame = frame
        self.varying: set[ir.VarId] = set()

    @abstractmethod
    def nest(self, lanes: Lanes, loop: ir.For) -> None:
        """Runs a parallel loop inside one copy of a body."""

    @abstractmethod
    def launch(self, lanes: Lanes, stmt: ir.Launch) -> None:
        """Runs a kernel."""

    # ---- lists ---------------------------------------------------------------------------------
    def run(self, group: Group, stmts: Sequence[ir.Stmt]) -> None:
        """Does the statements in order."""
        for number, stmt in enumerate(stmts):
            self._reduce_ahead(group, stmts[number:])
            if effects.blocks(stmt):
                self._forget(group, stmt)
            self._statement(group, stmt)
            self._forget(group, stmt)

    def _forget(self, group: Group, stmt: ir.Stmt) -> None:
        """Drops reductions whose inputs the statement changes."""
        buffers, scalars = self._stored(stmt), effects.assigned([stmt])
        if not buffers and not scalars:
            return
        for lanes in group:
            stale = [r for r in lanes.reduced if _reads(r, buffers, scalars)]
            for reduce in stale:
                del lanes.reduced[reduce]

    def _reduce_ahead(self, group: Group, stmts: Sequence[ir.Stmt]) -> None:
        """Computes the first statement's reductions, and with them later ones over the same range whose
        inputs are there already."""
        own = list(dict.fromkeys(r for e in effects.own_expressions(stmts[0]) for r in outermost(e)))
        waiting = [r for r in own if not all(self._is_known(lanes, r) for lanes in group)]
        if not waiting:
            return
        candidates = list(dict.fromkeys([*waiting, *self._ready(stmts)]))
        while waiting:
            same = [r for r in candidates if same_range(r, waiting[0])]
            tasks = [Task(lanes, r) for lanes in group for r in same if not self._is_known(lanes, r)]
            for some in self._portions(tasks):
                for task, value in zip(some, self.reduce_all(some), strict=True):
                    task.lanes.reduced[task.reduce] = value
            waiting = [r for r in waiting if r not in same]

    def _ready(self, stmts: Sequence[ir.Stmt]) -> Iterator[ir.Reduce]:
        """Reductions of the statements whose inputs no statement before them makes or changes."""
        buffers: set[ir.BufferId] = set()
        scalars: set[ir.VarId] = set()
        for stmt in stmts:
            if isinstance(stmt, ir.Check):
                return
            for expr in effects.own_expressions(stmt):
                yield from (r for r in outermost(expr) if not _reads(r, buffers, scalars))
            buffers |= self._stored(stmt) | effects.allocated([stmt])
            scalars |= effects.assigned([stmt]) | effects.declared([stmt])

    def _stored(self, stmt: ir.Stmt) -> set[ir.BufferId]:
        """Buffers that the statement writes, also through the kernels it launches."""
        kernels = (self.facts.region.kernels[s.kernel] for s in effects.statements([stmt]) if isinstance(s, ir.Launch))
        bodies = (segment.body for kernel in kernels for segment in kernel.segments)
        return effects.stored([stmt]).union(*(effects.stored(body) for body in bodies))

    def _is_known(self, lanes: Lanes, reduce: ir.Reduce) -> bool:
        here: Lanes | None = lanes
        while here is not None:
            if reduce in here.reduced:
                return True
            here = here.outer
        return False

    def _portions(self, tasks: Sequence[Task]) -> Iterator[Sequence[Task]]:
        """As many reductions together as have their sums in half of the registers."""
        first, sums = 0, 0
        for number, task in enumerate(tasks):
            own = self.sums_of(task)
            if sums and sums + own > self.have.registers // 2:
                yield tasks[first:number]
                first, sums = number, 0
            sums += own
        yield tasks[first:]

    # ---- statements ----------------------------------------------------------------------------
    def _statement(self, group: Group, stmt: ir.Stmt) -> None:
        match stmt:
            case ir.Let():
                self._each(group, lambda lanes: self._let(lanes, stmt))
            case ir.Set(var=var, value=value):
                self._each(group, lambda lanes: self._set(lanes, var.id, self.evaluate(lanes, value)))
            case ir.Store():
                self._each(group, lambda lanes: self.store(lanes, stmt))
            case ir.Check():
                self._each(group, lambda lanes: self._checked(lanes, stmt))
            case ir.Alloc(buffer=buffer):
                self._allocate(group, buffer)
            case ir.ArgReduce():
                self._each(group, lambda lanes: self.arg_reduce(lanes, stmt))
            case ir.If():
                self._if(group, stmt)
            case _:
                self._loop_statement(group, stmt)

    def _loop_statement(self, group: Group, stmt: ir.Stmt) -> None:
        match stmt:
            case ir.For(parallel=True) if len(group) == 1 and group[0].count == 1:
                self.nest(group[0], stmt)
            case ir.For():
                self._serial(group, stmt)
            case ir.While():
                self._while(group, stmt)
            case ir.Launch():
                self._each(group, lambda lanes: self.launch(lanes, stmt))
            case _:
                raise TypeError(f"not a statement: {stmt!r}")

    def _each(self, group: Group, do: Callable[[Lanes], None]) -> None:
        for lanes in group:
            do(lanes)

    def _let(self, lanes: Lanes, stmt: ir.Let) -> None:
        if stmt.mutable:
            differs = stmt.var.id in self.varying
            slot = self.new_slot(stmt.var, lanes.count if differs else 1)
            self.write_slot(slot, self.evaluate(lanes, stmt.value))
            lanes.bindings[stmt.var.id] = slot
        elif stmt.var.type == "i64":
            lanes.bindings[stmt.var.id] = self.linear(lanes, stmt.value)
        else:
            lanes.bindings[stmt.var.id] = self.evaluate(lanes, stmt.value)

    def new_slot(self, var: ir.Var, lanes: int) -> Slot:
        return Slot(self.text.alloca(of_lanes(register(var.type), lanes)), var.type, lanes)

    def _set(self, lanes: Lanes, var: ir.VarId, value: Val) -> None:
        slot = self._slot(lanes, var)
        if lanes.mask is not None and slot.lanes > 1:  # else it is the same in all lanes, also in those that are off
            value = self.ops.select(lanes.mask, value, self._read_slot(slot))
        self.write_slot(slot, value)

    def _checked(self, lanes: Lanes, stmt: ir.Check) -> None:
        cond = self.evaluate(lanes, stmt.cond)
        if lanes.mask is not None:
            cond = self.ops.binary("||", cond, self.ops.unary("!", lanes.mask))
        self.check(cond, stmt.message)

    def _allocate(self, group: Group, buffer: ir.BufferId) -> None:
        facts = self.facts.buffers[buffer]
        if facts.kind == "scratch":
            return
        for number, lanes in enumerate(group):
            bytes_ = (facts.length or 0) * size(facts.elem) * lanes.count
            lanes.places[buffer] = Place(self.frame.private(buffer, number, bytes_), lanes.count)

    # ---- control flow --------------------------------------------------------------------------
    def _if(self, group: Group, stmt: ir.If) -> None:
        conds = [self.evaluate(lanes, stmt.cond) for lanes in group]
        if conds[0].lanes == 1 and all(c == conds[0] for c in conds):
            self._branch(group, conds[0], stmt)
            return
        for lanes, cond in zip(group, conds, strict=True):
            if cond.lanes == 1:
                self._branch([lanes], cond, stmt)
                continue
            for sign, arm in ((False, stmt.then), (True, stmt.orelse)):
                taken = self.ops.unary("!", cond) if sign else cond
                if arm:
                    self.run([lanes.masked(self.ops.both(lanes.mask, taken))], arm)

    def _branch(self, group: Group, cond: Val, stmt: ir.If) -> None:
        then, orelse, after = self.text.label(), self.text.label(), self.text.label()
        self.text.branch(cond.text, then, orelse if stmt.orelse else after)
        arms = [(then, stmt.then)] + ([(orelse, stmt.orelse)] if stmt.orelse else [])
        for label, arm in arms:
            with self.text.scope():
                self.text.place(label)
                self.run([lanes.inner({}) for lanes in group], arm)
                self.text.jump(after)
        self.text.place(after)

    def _serial(self, group: Group, stmt: ir.For) -> None:
        low, high = self.integer(group[0], stmt.low), self.integer(group[0], stmt.high)

        def body(i: str, _: list[str]) -> list[str]:
            self.run([lanes.inner({stmt.var.id: scalar_index(i)}) for lanes in group], stmt.body)
            return []

        self.text.loop(low, high, 1, [], body)

    def _while(self, group: Group, stmt: ir.While) -> None:
        head, inside, after = self.text.label(), self.text.label(), self.text.label()
        self.text.jump(head)
        with self.text.scope():
            self.text.place(head)
            cond = self.evaluate(group[0].inner({}), stmt.cond)
            self.text.branch(cond.text, inside, after)
            self.text.place(inside)
            self.run([lanes.inner({}) for lanes in group], stmt.body)
            self.text.jump(head)
        self.text.place(after)


def outermost(expr: ir.Expr) -> Iterator[ir.Reduce]:
    """The reductions that computing the expression always computes, without those inside them."""
    match expr:
        case ir.Reduce():
            yield expr
        case ir.Select(cond=cond):
            yield from outermost(cond)
        case ir.Binary(op="&&" | "||", left=left):
            yield from outermost(left)
        case _:
            for child in affine.children(expr):
                yield from outermost(child)


def _reads(expr: ir.Expr, buffers: set[ir.BufferId], scalars: set[ir.VarId]) -> bool:
    if scalars and not scalars.isdisjoint(affine.variables(expr)):
        return True
    return any(load.buffer in buffers for load in affine.loads(expr))
