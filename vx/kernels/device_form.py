"""A region becomes launches: decides what the host issues and what is kernel code.

Enters: an `ir.Region`. Leaves: a `device.Region`. Statements that touch tensors outside any launch are collected
into one-program kernels; so are launches under loops or conditions that only the device can decide. A value from a
short vector is computed again by each kernel that uses it, if nothing in between stores to the vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from vx.diagnostics.span import NOWHERE, Span
from vx.kernels import affine, device, effects, ir
from vx.kernels.device_facts import Facts, addressed_by_data, element_bytes, messages
from vx.kernels.device_search import in_pieces
from vx.sema.tree import FLOATS

RECOMPUTE = 8192
"""Elements that every program may read again for one scalar; beyond that it is computed once and stored."""
ZERO = ir.Affine(0)


def device_region(region: ir.Region) -> device.Region:
    """The launches of `region`."""
    former = _Former(region)
    body = former.block(region.body, former.facts)
    block = tuple(
        device.Entry(p.var, p.out, former.slots[p.var.id].id if p.out else None)
        for p in region.params
        if isinstance(p, ir.ScalarParam)
    )
    outs = {e.slot for e in block}
    made = [*region.buffers, *former.slots.values(), *former.made]
    scratch, size = _laid_out([b for b in made if b.kind == "scratch" and b.id not in outs])
    kernels = tuple(former.kernels)
    texts = messages(kernels)
    if texts:
        kernels = tuple(replace(k, guarded=addressed_by_data(k)) for k in kernels)
    return device.Region(
        region.name, region.params, tuple(made), block, scratch, size, kernels, tuple(body), texts, region.span
    )


def _laid_out(buffers: Sequence[ir.Buffer]) -> tuple[tuple[device.Scratch, ...], int]:
    placed, at = [], 0
    for b in buffers:
        if b.length is None:
            raise ValueError(f"scratch buffer {b.name} has no known length")
        size = b.length * element_bytes(b.elem)
        placed.append(device.Scratch(b.id, at, size))
        at += -(-size // device.ALIGNMENT) * device.ALIGNMENT
    return tuple(placed), at


@dataclass(slots=True)
class _Former:
    """What is known while the body is walked."""

    region: ir.Region
    kernels: list[device.Kernel] = field(default_factory=list)
    slots: dict[ir.VarId, ir.Buffer] = field(default_factory=dict)
    known: dict[ir.VarId, ir.Let] = field(default_factory=dict)
    """Host scalars and recomputed values, in the order of their declaration."""
    params: dict[ir.VarId, int] = field(default_factory=dict)
    loop_vars: dict[ir.VarId, ir.Var] = field(default_factory=dict)
    host: set[ir.VarId] = field(default_factory=set)
    uses: Counter[ir.VarId] = field(default_factory=Counter)
    facts: Facts = field(default_factory=Facts)
    made: list[ir.Buffer] = field(default_factory=list)
    newest: int = 0
    buffers: int = 0
    """The greatest number of a scalar, and of a buffer, so far."""

    def __post_init__(self) -> None:
        self.uses = self.references(self.region.body)
        self.newest = max(
            (*self.uses, *(p.var.id for p in self.region.params if isinstance(p, ir.ScalarParam))), default=0
        )
        self.buffers = max((b.id for b in self.region.buffers), default=-1)
        scalars = [p for p in self.region.params if isinstance(p, ir.ScalarParam)]
        for i, p in enumerate(scalars):
            if p.out:
                self._slot(p.var)
            else:
                self.params[p.var.id] = i
                self.host.add(p.var.id)

    # ---- the launch list -----------------------------------------------------------------------
    def block(self, stmts: Sequence[ir.Stmt], facts: Facts) -> tuple[device.Step, ...]:
        """The steps of one statement list."""
        steps: list[device.Step] = []
        pending: list[ir.Stmt] = []
        for i, stmt in enumerate(stmts):
            if isinstance(stmt, ir.Launch):
                checks = self._absorbed(pending, stmt)
                if checks is None:
                    self._flush(pending, steps, facts)
                steps.append(self._launch(stmt, checks or (), facts))
                pending.clear()
                continue
            step = self._issued(stmt, pending, stmts[i + 1 :], facts)
            if step is None:
                pending.append(self._searched(stmt, pending, steps) if isinstance(stmt, ir.ArgReduce) else stmt)
            elif not isinstance(step, device.Let | device.Check) and step != ():
                self._flush(pending, steps, facts)
                steps.append(self._controlled(stmt, facts))
            elif step != ():
                assert isinstance(step, device.Let | device.Check)
                steps.append(step)
        self._flush(pending, steps, facts)
        return tuple(steps)

    def _searched(self, stmt: ir.ArgReduce, pending: Sequence[ir.Stmt], steps: list[device.Step]) -> ir.ArgReduce:
        """A long search, after launching what looks at its pieces; what is pending must not matter to it."""
        here = affine.variables(stmt.value) | affine.variables(stmt.index)
        if here - {stmt.var.id} - self.known.keys() - self.host:
            return stmt
        looks = [ir.Let(stmt.best, stmt.value), ir.Let(stmt.at, stmt.index)]
        if self._stored(pending) & self._read(looks):
            return stmt
        search = in_pieces(stmt, self._next_var, self._next_buffer)
        if search is None:
            return stmt
        self.made += search.made
        axis = device.Axis(search.piece, ir.Lit(0, "i64"), ir.Lit(search.pieces, "i64"), search.pieces, True)
        steps.append(self._add((device.Part((axis,), search.body),), (), "", self.region.span))
        return search.rest

    def _next_var(self) -> int:
        self.newest += 1
        return self.newest

    def _next_buffer(self) -> int:
        self.buffers += 1
        return self.buffers

    def _issued(
        self, stmt: ir.Stmt, pending: Sequence[ir.Stmt], rest: Sequence[ir.Stmt], facts: Facts
    ) -> device.Step | tuple[()] | ir.Stmt | None:
        """What the host does for a statement; () if nothing, the statement itself for control flow, None if it is
        for the device."""
        match stmt:
            case ir.Alloc():
                return ()
            case ir.Let(var=var, value=value, mutable=False) if self._on_host(value):
                self.known[var.id] = stmt
                self.host.add(var.id)
                facts.learn_value(var, value)
                return device.Let(var, value)
            case ir.Let(var=var) if self._recomputable(stmt, pending, rest):
                self.known[var.id] = stmt
                return ()
            case ir.Check(cond=cond, message=message) if self._on_host(cond):
                facts.learn(cond)
                return device.Check(cond, message)
            case ir.If(cond=cond) if self._on_host(cond):
                return stmt
            case ir.For(low=low, high=high) if self._on_host(low) and self._on_host(high) and _launches([stmt]):
                return stmt
            case _:
                return None

    def _controlled(self, stmt: ir.Stmt, facts: Facts) -> device.Step:
        """A condition or loop that the host decides."""
        if isinstance(stmt, ir.If):
            return device.If(
                stmt.cond, self.block(stmt.then, facts.inside(stmt.cond)), self.block(stmt.orelse, facts.copy())
            )
        assert isinstance(stmt, ir.For)
        inner = facts.copy()
        inner.learn_loop(stmt.var, stmt.low, stmt.high)
        self.loop_vars[stmt.var.id] = stmt.var
        self.host.add(stmt.var.id)
        return device.For(stmt.var, stmt.low, stmt.high, self.block(stmt.body, inner))

    def _on_host(self, expr: ir.Expr) -> bool:
        """Whether the host can compute it: integers made of host scalars."""
        if not affine.variables(expr) <= self.host:
            return False
        return not any(isinstance(e, ir.Load | ir.Reduce) or affine.type_of(e) in FLOATS for e in affine.walk(expr))

    def _recomputable(self, let: ir.Let, pending: Sequence[ir.Stmt], rest: Sequence[ir.Stmt]) -> bool:
        """Whether each kernel that uses the value can compute it from what is still there."""
        cost = self.facts.cost(let.value)
        if let.mutable or cost is None or cost > RECOMPUTE:
            return False
        if not affine.variables(let.value) <= self.known.keys() | self.host:
            return False
        last = max((i for i, s in enumerate(rest) if self.references([s])[let.var.id]), default=-1)
        return not self._stored([*pending, *rest[: last + 1]]) & self._read([let])

    def _read(self, stmts: Sequence[ir.Stmt]) -> set[ir.BufferId]:
        """Buffers loaded, also by recomputed values that these statements use."""
        found = effects.loaded(stmts)
        for var in effects.free_variables(stmts) & self.known.keys():
            found |= self._read([self.known[var]])
        return found

    def _stored(self, stmts: Iterable[ir.Stmt]) -> set[ir.BufferId]:
        found: set[ir.BufferId] = set()
        for stmt in effects.statements(stmts):
            if isinstance(stmt, ir.Store):
                found.add(stmt.buffer)
            elif isinstance(stmt, ir.Launch):
                for segment in self.region.kernels[stmt.kernel].segments:
                    found |= effects.stored(segment.body)
        return found

    def references(self, stmts: Iterable[ir.Stmt]) -> Counter[ir.VarId]:
        """How often each scalar is named, in launched kernels too."""
        found: Counter[ir.VarId] = Counter()
        for stmt in effects.statements(stmts):
            if isinstance(stmt, ir.Let | ir.Set | ir.For | ir.ArgReduce):
                found[stmt.var.id] += 1
            if isinstance(stmt, ir.Launch):
                for segment in self.region.kernels[stmt.kernel].segments:
                    found += self.references(_as_loops(segment))
            exprs = list(effects.own_expressions(stmt))
            if isinstance(stmt, ir.ArgReduce):
                exprs += [stmt.value, stmt.index, stmt.best, stmt.at]
            found.update(e.id for expr in exprs for e in affine.walk(expr) if isinstance(e, ir.Var))
        return found

    # ---- kernels -------------------------------------------------------------------------------
    def _absorbed(self, pending: Sequence[ir.Stmt], launch: ir.Launch) -> tuple[ir.Stmt, ...] | None:
        """Checks in front of a launch that its programs can make themselves."""
        stores = self._stored([launch])
        for stmt in pending:
            cost = self.facts.cost(stmt.cond) if isinstance(stmt, ir.Check) else None
            if cost is None or cost > RECOMPUTE or stores & self._read([stmt]):
                return None
        return tuple(pending)

    def _launch(self, launch: ir.Launch, checks: tuple[ir.Stmt, ...], facts: Facts) -> device.Launch:
        kernel = self.region.kernels[launch.kernel]
        parts = tuple(
            device.Part(tuple(self._axis(a, facts) for a in segment.axes), segment.body) for segment in kernel.segments
        )
        return self._add(parts, checks, "", kernel.span)

    def _axis(self, axis: ir.Axis, facts: Facts) -> device.Axis:
        on_host = self._on_host(axis.low) and self._on_host(axis.high)
        return device.Axis(axis.var, axis.low, axis.high, facts.most(axis.low, axis.high), on_host)

    def _flush(self, pending: list[ir.Stmt], steps: list[device.Step], facts: Facts) -> None:
        """The pending statements as a kernel of one program."""
        if not pending:
            return
        inside = self.references(pending)
        body = tuple(self._inlined(pending))
        before: list[ir.Stmt] = []
        after: list[ir.Stmt] = []
        declared = {s.var.id: s.var for s in pending if isinstance(s, ir.Let)}
        changed = {v.id: v for s in effects.statements(body) for v in _changed(s)}
        outside = {v: var for v, var in changed.items() if v not in effects.declared(body)}
        for var in outside.values():
            before.append(ir.Let(var, ir.Load(self._slot(var).id, ZERO, var.type), mutable=True))
            after.append(ir.Store(self._slot(var).id, ZERO, var))
        for v, var in declared.items():
            if self.uses[v] > inside[v]:
                after.append(ir.Store(self._slot(var).id, ZERO, var))
        whole = (*before, *body, *after)
        steps.append(self._add((device.Part((), whole),), (), _why(pending), self.region.span))
        pending.clear()

    def _inlined(self, stmts: Sequence[ir.Stmt]) -> Iterable[ir.Stmt]:
        """The statements with launches replaced by the loops that they stand for."""
        for stmt in stmts:
            match stmt:
                case ir.Launch(kernel=k):
                    for segment in self.region.kernels[k].segments:
                        yield from _as_loops(segment)
                case ir.For(body=body) | ir.While(body=body):
                    yield replace(stmt, body=tuple(self._inlined(body)))
                case ir.If(then=then, orelse=orelse):
                    yield replace(stmt, then=tuple(self._inlined(then)), orelse=tuple(self._inlined(orelse)))
                case _:
                    yield stmt

    def _slot(self, var: ir.Var) -> ir.Buffer:
        if var.id not in self.slots:
            self.slots[var.id] = ir.Buffer(self._next_buffer(), f"{var.name}_slot", var.type, "scratch", 1, True)
        return self.slots[var.id]

    def _add(self, parts: tuple[device.Part, ...], checks: tuple[ir.Stmt, ...], why: str, span: Span) -> device.Launch:
        whole = [*checks, *(s for part in parts for s in _as_loops(part))]
        taken: dict[ir.VarId, ir.Stmt] = {}
        arguments: dict[ir.VarId, ir.Var] = {}
        block: set[int] = set()
        self._needs(effects.free_variables(whole), taken, arguments, block)
        order = {v: i for i, v in enumerate(self.known)}
        lets = [taken[v] for v in sorted(taken, key=lambda v: order.get(v, -1))]
        prelude = (*lets, *checks)
        touched = effects.loaded([*prelude, *whole]) | effects.stored(whole)
        private = {b.id for b in self.region.buffers if b.kind == "private"}
        ordered = tuple(sorted(touched - private))
        by_value = tuple(arguments[v] for v in sorted(arguments))
        name = f"{self.region.name}_d{len(self.kernels)}"
        self.kernels.append(
            device.Kernel(name, prelude, parts, by_value, tuple(sorted(block)), ordered, False, why, span)
        )
        return device.Launch(len(self.kernels) - 1, by_value)

    def _needs(
        self,
        free: set[ir.VarId],
        taken: dict[ir.VarId, ir.Stmt],
        arguments: dict[ir.VarId, ir.Var],
        block: set[int],
    ) -> None:
        """Where a kernel finds the scalars that it does not declare."""
        for v in sorted(free):
            if v in taken:
                continue
            if v in self.loop_vars:
                arguments[v] = self.loop_vars[v]
            elif v in self.params:
                block.add(self.params[v])
            elif v in self.known:
                taken[v] = self.known[v]
                self._needs(affine.variables(self.known[v].value), taken, arguments, block)
            else:
                var = self._variable(v)
                taken[v] = ir.Let(var, ir.Load(self._slot(var).id, ZERO, var.type))

    def _variable(self, v: ir.VarId) -> ir.Var:
        found = [p.var for p in self.region.params if isinstance(p, ir.ScalarParam) and p.var.id == v]
        found += [s.var for s in effects.statements(self.region.body) if isinstance(s, ir.Let) and s.var.id == v]
        return found[0]


def _as_loops(nest: ir.Segment | device.Part) -> tuple[ir.Stmt, ...]:
    """A loop nest as the statements that it stands for."""
    body = nest.body
    axes: tuple[ir.Axis | device.Axis, ...] = nest.axes
    for axis in reversed(axes):
        body = (ir.For(axis.var, axis.low, axis.high, body, True, "", NOWHERE),)
    return body


def _changed(stmt: ir.Stmt) -> tuple[ir.Var, ...]:
    if isinstance(stmt, ir.Set):
        return (stmt.var,)
    return (stmt.best, stmt.at) if isinstance(stmt, ir.ArgReduce) else ()


def _launches(stmts: Iterable[ir.Stmt]) -> bool:
    return any(isinstance(s, ir.Launch) for s in effects.statements(stmts))


def _why(pending: Sequence[ir.Stmt]) -> str:
    """Why these statements are one program."""
    if _launches(pending):
        return "a loop or condition around it depends on values on the device"
    loops = [s.why for s in effects.statements(pending) if isinstance(s, ir.For) and not s.parallel and s.why]
    return loops[0] if loops else "scalar code between launches"
