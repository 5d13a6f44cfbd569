"""Borrow checking, part 4: from the typed tree to the graph.

Enters: one typed function. Leaves: its `Graph`, with what is wrong regardless of control flow
(assigning to what is not `mut`, moving out of a reference) already in `refusals`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from vx.diagnostics.span import Span
from vx.sema import tree
from vx.sema.borrow_builder import Builder, LoopFrame
from vx.sema.borrow_graph import Access, Graph, Node, Spill, Use, bits
from vx.sema.borrow_mutability import barrier
from vx.sema.borrow_parts import bound, bound_locals, index_text, operands, replaces
from vx.sema.borrow_paths import DerefStep, DimStep, FieldStep, Path
from vx.sema.borrow_types import RefTypes

Holder = int | None
"""The temporary that holds the borrows of a value; None for a value without references."""


def lower_function(function: tree.Function, types: RefTypes) -> Graph:
    """The borrow graph of `function`."""
    builder = Builder(function, types)
    builder.temps.append([])
    _Lowering(builder).body(function.body)
    return builder.graph()


class _Lowering:
    """One method per kind of node; state is in the builder."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder
        self.types = builder.types

    # ---- places ----
    def place(self, place: tree.PlaceNode) -> Path | None:
        """Evaluate what `place` depends on. None: storage that is not tracked (raw pointers, the model)."""
        match place:
            case tree.Local():
                return Path(place.id)
            case tree.ModelTensor():
                return None
            case tree.Temp():
                return self._temp(place)
            case tree.Field():
                base = self.place(place.base)
                return base and base.then(FieldStep(place.index, self._field_name(place)))
            case tree.Deref():
                return self._deref(place.ref)
            case tree.Index():
                base = self.place(place.base)
                return self._index(base, place)
            case _:
                return self._reshaped(place)

    def _temp(self, place: tree.Temp) -> Path:
        held = self.value(place.value)
        storage = self.b.storage(place.type)
        self.b.emit(Node(place.span, define=storage, sources=_present(held), revives=Path(storage)))
        return Path(storage)

    def _field_name(self, place: tree.Field) -> str:
        owner = place.base.type
        return self.types.field_name(owner.key, place.index) if isinstance(owner, tree.Struct) else str(place.index)

    def _deref(self, ref: tree.Value) -> Path | None:
        if isinstance(ref, tree.AddrOf):
            if ref.mutable:
                self._require_mutable(ref.place, ref.span, "borrow", "as mutable")
            return self.place(ref.place)
        if isinstance(ref.type, tree.Ptr):
            self._consume(ref.span, [self.value(ref)])
            return None
        if isinstance(ref, tree.Read):
            base = self.place(ref.place)
            return base and base.then(DerefStep())
        held = self.value(ref)
        return None if held is None else Path(held, (DerefStep(),))

    def _index(self, base: Path | None, place: tree.Index) -> Path | None:
        steps = []
        sliced = False
        for index in place.indices:
            if isinstance(index, tree.At):
                self._number(index.index)
                text = index_text(index.index, self.b.decls)
                steps.append(DimStep(bound(index.index), bound(index.index, 1), text))
            else:
                sliced = True
                self._number(index.low)
                self._number(index.high)
                steps.append(DimStep(bound(index.low), bound(index.high), ".."))
        return base and base.then(*steps, close=sliced)

    def _number(self, value: tree.Value) -> None:
        self._consume(value.span, [self.value(value)])

    def _reshaped(self, place: tree.Reshape | tree.Transpose | tree.Bytes) -> Path | None:
        base = self.place(place.base)
        if isinstance(place, tree.Reshape):
            for dim in place.dims:
                self._number(dim)
        return base and base.then(close=True)

    # ---- borrows and reads ----
    def borrow(self, place: tree.PlaceNode, mutable: bool, span: Span, reserve: bool) -> Holder:
        path = self.place(place)
        looks = path is not None and self.b.looks(path, place.type)
        return self._borrow_path(path, looks, mutable, span, reserve)

    def _borrow_path(self, path: Path | None, looks: bool, mutable: bool, span: Span, reserve: bool) -> Holder:
        if path is None:
            return None
        loan = self.b.lend(path, mutable, span)
        kind = Access.SHARE if not mutable else Access.RESERVE if reserve else Access.EXCLUSIVE
        result = self.b.fresh()
        use = Use(kind, path, span, looks=looks)
        self.b.emit(Node(span, (use,), define=result, sources=self.b.root_sources(use), loan=loan))
        if kind is Access.RESERVE:
            self.b.reserved[result] = loan
        return result

    def _addr_of(self, value: tree.AddrOf, reserve: bool) -> Holder:
        if value.mutable:
            self._require_mutable(value.place, value.span, "borrow", "as mutable")
        if isinstance(value.type, tree.Ref):
            return self.borrow(value.place, value.mutable, value.span, reserve)
        path = self.place(value.place)
        if path is not None:
            if value.mutable:
                self.b.lent.add(path.root)
            kind = Access.EXCLUSIVE if value.mutable else Access.SHARE
            self.b.emit(Node(value.span, (Use(kind, path, value.span),)))
        return None

    def _read(self, value: tree.Read, reserve: bool) -> Holder:
        if isinstance(value.type, tree.Ref) and value.type.mutable:
            path = self.place(value.place)
            return self._borrow_path(path and path.then(DerefStep()), True, True, value.span, reserve)
        path = self.place(value.place)
        moving = value.move and not isinstance(value.type, tree.Ref)
        if moving and self._barred_move(value, path):
            return None
        if path is None:
            return None
        kind = Access.MOVE if moving else Access.READ
        use = Use(kind, path, value.span, looks=self.b.looks(path, value.type))
        moves = path if moving else None
        if not self.types.holds(value.type):
            self.b.emit(Node(value.span, (use,), moves=moves))
            return None
        result = self.b.fresh()
        self.b.emit(Node(value.span, (use,), define=result, sources=self.b.root_sources(use), moves=moves))
        return result

    def _barred_move(self, value: tree.Read, path: Path | None) -> bool:
        """Report a move that leaves a hole where nobody would notice."""
        place = value.place
        if isinstance(place, tree.ModelTensor):
            message, help_ = f"cannot move `model::{place.name}`: weights are read-only", "borrow it, or `.copy()` it"
        elif path is not None and not path.owned:
            message = "cannot move out of a reference: its owner would be left without a value"
            help_ = "borrow it with `&`, or copy it"
        elif (owner := self._dropping_owner(place)) is not None:
            message = f"cannot move a field out of `{owner}`, which has a `drop` that needs it whole"
            help_ = "borrow the field, or copy it"
        else:
            return False
        self.b.refuse("E4007", message, value.span, None, help_)
        return True

    def _dropping_owner(self, place: tree.PlaceNode) -> str | None:
        while isinstance(place, tree.Field):
            place = place.base
            if isinstance(place.type, tree.Struct) and self.types.has_drop(place.type):
                return place.type.key
        return None

    def _require_mutable(self, place: tree.PlaceNode, span: Span, verb: str, suffix: str) -> None:
        found = barrier(place, self.b.decls)
        if found is None:
            return
        what = self.types.describe(place, self.b.decls)
        message = " ".join(part for part in (f"cannot {verb} `{what}`", suffix) if part)
        label = None if found.span is None else (found.span, found.label)
        self.b.refuse("E4006", f"{message}: it is not mutable", span, label, found.help)

    # ---- values ----
    def value(self, value: tree.Value, reserve: bool = False) -> Holder:
        """Evaluate. With `reserve`, a mutable borrow begins only at the node that takes it."""
        match value:
            case tree.Const() | tree.Str() | tree.FnAddr():
                return None
            case tree.Read():
                return self._read(value, reserve)
            case tree.AddrOf():
                return self._addr_of(value, reserve)
            case tree.Call():
                return self._call(value)
            case tree.Binary(op="&&" | "||"):
                return self._short_circuit(value)
            case tree.IfExpr():
                return self._if(value)
            case tree.Match():
                return self._match(value)
            case _:
                return self._other(value)

    def _other(self, value: tree.Value) -> Holder:
        match value:
            case tree.BlockExpr():
                return self.block(value.block)
            case tree.Spawn():
                return self.block(value.body)
            case tree.ReturnExpr():
                self._return(value.value, value.span)
                return None
            case tree.Abort():
                self.b.front = []
                return None
            case _:
                return self._compute(value)

    def _compute(self, value: tree.Value) -> Holder:
        """Everything that only needs its operands: what it yields holds all that they held."""
        held = [self.value(operand) for operand in operands(value)]
        if not self.types.holds(value.type):
            self._consume(value.span, held)
            return None
        result = self.b.fresh()
        self.b.emit(Node(value.span, define=result, sources=_present(*held)))
        return result

    def _consume(self, span: Span, held: Iterable[Holder]) -> None:
        sources = _present(*held)
        if sources:
            self.b.emit(Node(span, sources=sources))

    def _arguments(self, args: Iterable[tree.Value]) -> tuple[list[Holder], tuple[Use, ...]]:
        """Evaluate arguments in order, then activate the mutable borrows among them."""
        held = [self.value(arg, reserve=True) for arg in args]
        uses = []
        for holder in held:
            if holder is not None and holder in self.b.reserved:
                loan = self.b.reserved[holder]
                self.b.loans[loan].active = len(self.b.nodes)
                uses.append(Use(Access.EXCLUSIVE, self.b.loans[loan].path, self.b.loans[loan].span, own=loan))
        return held, tuple(uses)

    def _call(self, call: tree.Call) -> Holder:
        held, uses = self._arguments(call.args)
        pairs = list(zip(call.args, held, strict=True))
        spills = [
            Spill(target, _present(*(other for _, other in pairs if other != target)))
            for arg, target in pairs
            if target is not None and self.types.stores_through(arg.type)
        ]
        only_mutable = isinstance(call.type, tree.Ref) and call.type.mutable
        sources = [h for arg, h in pairs if not only_mutable or self.types.holds_mutable(arg.type)]
        returns_refs = self.types.holds(call.type)
        node = Node(call.span, uses, spills=tuple(spill for spill in spills if spill.sources))
        node.reads = _bits(held)
        if returns_refs:
            node.define = self.b.fresh()
            node.sources = _present(*sources)
        if node.uses or node.reads or returns_refs:
            self.b.emit(node)
        if isinstance(call.type, tree.Never):
            self.b.front = []
        return node.define

    def _short_circuit(self, value: tree.Binary) -> Holder:
        self.value(value.left)
        skipped = list(self.b.front)
        self.value(value.right)
        self.b.front = _joined(skipped, self.b.front)
        return None

    def _if(self, value: tree.IfExpr) -> Holder:
        self.value(value.cond)
        arms: list[Callable[[], Holder]] = [lambda: self.block(value.then)]
        arms.append(lambda: None if value.orelse is None else self.block(value.orelse))
        return self._branches(value, arms)

    def _match(self, value: tree.Match) -> Holder:
        scrutinee = self.value(value.scrutinee)
        self._consume(value.scrutinee.span, [scrutinee])
        return self._branches(value, [partial(self._arm, arm, scrutinee) for arm in value.arms])

    def _arm(self, arm: tree.Arm, scrutinee: Holder) -> Holder:
        bound = bound_locals(arm.pattern)
        self.b.scopes.append(list(bound))
        for id_ in bound:
            self._bind(id_, scrutinee)
        result = self.block(arm.body)
        self.b.leave_scopes(len(self.b.scopes) - 1, arm.body.span)
        self.b.scopes.pop()
        return result

    def _branches(self, value: tree.Value, arms: list[Callable[[], Holder]]) -> Holder:
        """Alternatives from the same point that meet again; their values meet in one holder."""
        before = list(self.b.front)
        after: list[int] = []
        result = self.b.fresh() if self.types.holds(value.type) else None
        for arm in arms:
            self.b.front = list(before)
            held = arm()
            if result is not None:
                self.b.emit(Node(value.span, define=result, sources=_present(held)))
            after = _joined(after, self.b.front)
        self.b.front = after
        return result

    # ---- blocks and statements ----
    def body(self, body: tree.Block) -> None:
        held = self.block(body)
        self._leave_function(held, body.value.span if body.value else body.span)

    def block(self, block: tree.Block) -> Holder:
        self.b.scopes.append([])
        for stmt in block.stmts:
            self.statement(stmt)
        held = None if block.value is None else self.value(block.value)
        self.b.leave_scopes(len(self.b.scopes) - 1, block.span)
        self.b.scopes.pop()
        return held

    def statement(self, stmt: tree.StmtNode) -> None:
        self.b.temps.append([])
        self._statement(stmt)
        for storage in reversed(self.b.temps.pop()):
            self.b.end_life(storage, stmt.span)

    def _statement(self, stmt: tree.StmtNode) -> None:
        match stmt:
            case tree.Let():
                held = self.value(stmt.value)
                self.b.scopes[-1].append(stmt.id)
                self._bind(stmt.id, held)
            case tree.ExprStmt():
                self._consume(stmt.span, [self.value(stmt.value)])
            case tree.Return():
                self._return(stmt.value, stmt.span)
            case tree.Break() | tree.Continue():
                self._leave_loop(stmt)
            case tree.Loop() | tree.While() | tree.For():
                self._loop(stmt)
            case tree.Assert():
                self.value(stmt.cond)
            case _:
                self._store(stmt)

    def _bind(self, id_: tree.LocalId, held: Holder) -> None:
        self.b.declare(id_)
        span = self.b.decls[id_].span
        node = Node(span, revives=Path(id_), changes=id_)
        if id_ in self.b.holders:
            node.define, node.sources = id_, _present(held)
        self.b.emit(node)

    def _store(self, stmt: tree.Assign | tree.OpAssign | tree.Land | tree.MatMulInto | tree.Attention) -> None:
        match stmt:
            case tree.Assign():
                self._assign(stmt)
            case tree.OpAssign():
                self._consume(stmt.span, [self.value(stmt.value)])
                self._update(stmt.target)
            case tree.Land():
                self._consume(stmt.span, [self.value(stmt.ref)])
                self._update(stmt.target)
            case tree.MatMulInto():
                self._into(stmt.span, (stmt.out, stmt.left, stmt.right))
            case tree.Attention():
                first = () if stmt.first is None else (stmt.first,)
                self._into(stmt.span, (stmt.out, stmt.q, stmt.k, stmt.v, stmt.scale, *first))

    def _into(self, span: Span, args: tuple[tree.Value, ...]) -> None:
        held, uses = self._arguments(args)
        self.b.emit(Node(span, uses, _bits(held)))

    def _update(self, target: tree.PlaceNode) -> None:
        """Change storage in place."""
        self._require_mutable(target, target.span, "assign to", "")
        path = self.place(target)
        if path is not None:
            changes = None if path.steps else path.root
            self.b.emit(Node(target.span, (Use(Access.UPDATE, path, target.span),), changes=changes))

    def _assign(self, stmt: tree.Assign) -> None:
        held = self.value(stmt.value)
        if isinstance(stmt.target.type, tree.Tensor) and not replaces(stmt):
            self._consume(stmt.span, [held])
            self._update(stmt.target)
            return
        span = stmt.target.span
        self._require_mutable(stmt.target, span, "assign to", "")
        path = self.place(stmt.target)
        if path is None:
            self._consume(stmt.span, [held])
            return
        node = Node(span, (Use(Access.WRITE, path, span),), revives=path, changes=None if path.steps else path.root)
        if path.root in self.b.holders and self.types.uses_refs_in_drop(stmt.target.type):
            node.reads = bits((path.root,))
        if held is not None and not path.owned:
            node.spills = (Spill(path.root, (held,)),)
            node.reads |= _bits([held])
        elif path.root in self.b.holders and path.owned:
            node.define, node.replace, node.sources = path.root, not path.steps, _present(held)
        self.b.emit(node)

    # ---- control ----
    def _return(self, value: tree.Value | None, span: Span) -> None:
        held = None if value is None else self.value(value)
        self._leave_function(held, span if value is None else value.span)
        self.b.front = []

    def _leave_function(self, held: Holder, span: Span) -> None:
        sources = (*_present(held), *self.b.escapes)
        if sources:
            self.b.emit(Node(span, sources=sources, returns=True))
        self.b.leave_scopes(0, span)

    def _leave_loop(self, stmt: tree.Break | tree.Continue) -> None:
        frame = self.b.loops[-1]
        self.b.leave_scopes(frame.depth, stmt.span)
        if isinstance(stmt, tree.Continue):
            self.b.jump(frame.head)
        else:
            frame.breaks.extend(self.b.front)
            self.b.front = []

    def _loop(self, loop: tree.Loop | tree.While | tree.For) -> None:
        if isinstance(loop, tree.For):
            self.value(loop.low)
            self.value(loop.high)
        frame = LoopFrame(self.b.emit(Node(loop.span)), len(self.b.scopes))
        self.b.loops.append(frame)
        done = self._loop_test(loop)
        self.b.scopes.append([loop.id] if isinstance(loop, tree.For) else [])
        self.block(loop.body)
        self.b.leave_scopes(frame.depth, loop.body.span)
        self.b.scopes.pop()
        self.b.jump(frame.head)
        self.b.loops.pop()
        self.b.front = _joined(done, frame.breaks)

    def _loop_test(self, loop: tree.Loop | tree.While | tree.For) -> list[int]:
        """Decide whether there is another round; the front when there is none."""
        match loop:
            case tree.Loop():
                return []
            case tree.While():
                self.b.temps.append([])
                self.value(loop.cond)
                for storage in reversed(self.b.temps.pop()):
                    self.b.end_life(storage, loop.cond.span)
                return list(self.b.front)
            case tree.For():
                done = list(self.b.front)
                self._bind(loop.id, None)
                return done


# ---- helpers -----------------------------------------------------------------------------------
def _present(*held: Holder) -> tuple[int, ...]:
    return tuple(holder for holder in held if holder is not None)


def _bits(held: Iterable[Holder]) -> int:
    return bits(_present(*held))


def _joined(a: list[int], b: list[int]) -> list[int]:
    return list(dict.fromkeys([*a, *b]))
