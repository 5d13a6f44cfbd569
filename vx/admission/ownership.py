"""From a function's body to operations on tiles (`ops.py`).

Enters: a function of the typed program. Leaves: `Lowered`. The walk
goes in evaluation order. A value in a position that owns (a binding, field, argument, result, or a temporary
that something borrows) is *owned*: its tiles get holders. Any other value is only *visited*: operators have no
storage until something stores them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vx.admission import tiles
from vx.admission.nodes import behind_pointer, is_raw, locals_read, parts_of, root_of
from vx.admission.ops import (
    LAST,
    OUTSIDE,
    At,
    Branch,
    EndBlock,
    EndStmt,
    Fill,
    Holder,
    HolderId,
    Hop,
    Invoke,
    Leave,
    Lowered,
    Move,
    Op,
    Owner,
    Reassigned,
    Region,
    Repeat,
    Site,
    Untracked,
)
from vx.admission.plan import Bank, Limits, Moved, RegionKey
from vx.admission.tiles import Leaf, Types
from vx.diagnostics.span import Span
from vx.machine.machine import Machine
from vx.sema import tree

Held = tuple[HolderId, ...]

_START = At(0, 0)
_MAKERS = (
    tree.Call,
    tree.Spawn,
    tree.Transfer,
    tree.TensorNew,
    tree.CopyTensor,
    tree.IfExpr,
    tree.Match,
    tree.BlockExpr,
)
"""Values that may make tiles, be they owned or not."""
_UNTRACKED_POINTER = "behind a raw pointer"


def lower_function(
    function: tree.Function,
    types: Types,
    machine: Machine,
    limits: Limits,
) -> Lowered:
    """The operations of a function."""
    return _Walk(function, types, machine, limits).run()


@dataclass(slots=True)
class _Walk:
    function: tree.Function
    types: Types
    machine: Machine
    limits: Limits
    out: Lowered = field(init=False)
    ops: list[Op] = field(default_factory=list)
    at: At = _START
    held: dict[tree.LocalId, Held] = field(default_factory=dict)
    results: Held = ()
    read: frozenset[tree.LocalId] = frozenset()
    dropping: set[tuple[str, At]] = field(default_factory=set)
    covered: Bank | None = None
    """In a region with known scratch: the bank of that."""

    def run(self) -> Lowered:
        function = self.function
        self.out = Lowered(function.key)
        self.read = frozenset(locals_read(function.body))
        for number, id_ in enumerate(function.params):
            self._declare(id_, Owner.PARAM, At(OUTSIDE, 0), number)
        leaves = self.types.leaves(function.ret)
        self.results = tuple(
            self._holder(Owner.RESULT, f"the result{leaf.name}", leaf, At(OUTSIDE, 0), function.span, (0, i))
            for i, leaf in enumerate(leaves)
        )
        self.block(function.body, self.results)
        self.out.ops = tuple(self.ops)
        return self.out

    # ---- holders ----
    def _holder(
        self, owner: Owner, name: str, leaf: Leaf, at: At, span: Span, index: tuple[int, int] = (0, 0)
    ) -> HolderId:
        id_ = len(self.out.holders)
        covered = self.covered is not None and tiles.bank_of(self.machine, leaf.place) == self.covered
        self.out.holders.append(Holder(id_, owner, name, leaf, at, span, index, covered))
        return id_

    def _declare(self, id_: tree.LocalId, owner: Owner, at: At, number: int = 0) -> Held:
        """The holders of a local's tiles."""
        local = self.function.locals[id_]
        held = tuple(
            self._holder(owner, local.name + leaf.name, leaf, at, local.span, (number, i))
            for i, leaf in enumerate(self.types.leaves(local.type))
        )
        self.held[id_] = held
        self._may_drop(local.type, At(max(at.block, 0), LAST), local.span)
        return held

    def _temps(self, type_: tree.Type, span: Span) -> Held:
        return tuple(self._holder(Owner.TEMP, "", leaf, self.at, span) for leaf in self.types.leaves(type_))

    def _move(self, sources: Held, targets: Held) -> None:
        self.ops.extend(Move(a, b) for a, b in zip(sources, targets, strict=True))

    def _filled(self, value: tree.Value, extents: Sequence[tree.Value] = ()) -> Held:
        """Temporaries for a value that is made here."""
        held = self._temps(value.type, value.span)
        for number, leaf in enumerate(self.types.leaves(value.type)):
            self.ops.append(Fill(held[number], tiles.size_of(leaf.tensor, extents), value, number))
        return held

    def _may_drop(self, type_: tree.Type, at: At, span: Span) -> None:
        for key in sorted(self.types.drops(type_)):
            if (key, at) not in self.dropping:
                self.dropping.add((key, at))
                self.out.sites.append(Site(key, at, span, None, self.covered))

    # ---- blocks and branches ----
    def block(self, block: tree.Block, targets: Held) -> None:
        """A block whose value, if it has tiles, goes to `targets` outside of it."""
        outer = self.at
        number = len(self.out.parents)
        self.out.parents.append(outer if number else At(OUTSIDE, 0))
        for index, stmt in enumerate(block.stmts):
            self.at = At(number, index)
            self.stmt(stmt)
            self.ops.append(EndStmt(self.at))
        self.at = At(number, len(block.stmts))
        if block.value is not None:
            self._into(block.value, targets)
            self.ops.append(EndStmt(self.at))
        self.ops.append(EndBlock(number))
        self.at = outer

    def _into(self, value: tree.Value, targets: Held) -> None:
        """Evaluate a value, which goes to `targets` if it is one."""
        if not self.types.leaves(value.type):
            self.visit(value)
            return
        held = self.own(value)
        self._move(held, targets or self._temps(value.type, value.span))

    def _arm(self, block: tree.Block, targets: Held) -> tuple[Op, ...]:
        outer, self.ops = self.ops, []
        self.block(block, targets if not isinstance(block.type, tree.Never) else ())
        arm, self.ops = tuple(self.ops), outer
        return arm

    def _branches(self, value: tree.IfExpr | tree.Match) -> Held:
        """An `if` or `match`: each arm's value moves to the same temporaries."""
        held = self._temps(value.type, value.span)
        if isinstance(value, tree.IfExpr):
            self.visit(value.cond)
            blocks = [value.then] if value.orelse is None else [value.then, value.orelse]
            arms = [self._arm(block, held) for block in blocks]
            if value.orelse is None:
                arms.append(())
        else:
            scrutinee = self._kept(value.scrutinee, value.scrutinee.type)
            arms = [self._matched(arm, scrutinee, held) for arm in value.arms]
        self.ops.append(Branch(tuple(arms)))
        return held

    def _matched(self, arm: tree.Arm, scrutinee: Held, held: Held) -> tuple[Op, ...]:
        """An arm, whose block owns what its pattern binds: the whole value, or payloads, which cannot be followed."""
        outer, self.ops = self.ops, []
        start = At(len(self.out.parents), 0)
        match arm.pattern:
            case tree.AnyPattern(binding=id_) if id_ is not None:
                self._move(scrutinee, self._declare(id_, Owner.LOCAL, start))
            case tree.TagPattern(bindings=bindings):
                for id_ in bindings:
                    if id_ is not None:
                        payload = self._declare(id_, Owner.LOCAL, start)
                        self._untracked(payload, "a payload", arm.body.span, late=True)
        self.ops.extend(self._arm(arm.body, held))
        arm_ops, self.ops = tuple(self.ops), outer
        return arm_ops

    def _repeat(self, cond: tree.Value | None, body: tree.Block) -> None:
        outer, self.ops = self.ops, []
        first = len(self.out.parents)
        if cond is not None:
            self.visit(cond)
            self.ops.append(EndStmt(self.at))
        inner = self._arm(body, ())
        self.ops.append(Branch((inner, (Leave("break"),))))
        repeated, self.ops = tuple(self.ops), outer
        self.ops.append(Repeat(repeated, first, len(self.out.parents)))

    # ---- statements ----
    def stmt(self, stmt: tree.StmtNode) -> None:
        match stmt:
            case tree.Let(id=id_, value=value):
                self._let(id_, value)
            case tree.Assign(target=target, value=value):
                self._assign(target, value, stmt.span)
            case tree.Land(target=target, ref=ref):
                self.visit_place(target)
                self.visit(ref)
                self._land(stmt)
            case tree.ExprStmt(value=value):
                self._into(value, ())
            case tree.Return(value=value):
                self._return(value)
            case tree.Break():
                self.ops.append(Leave("break"))
            case tree.Continue():
                self.ops.append(Leave("continue"))
            case _:
                self._loop(stmt)

    def _loop(self, stmt: tree.StmtNode) -> None:
        match stmt:
            case tree.Loop(body=body):
                outer, self.ops = self.ops, []
                first = len(self.out.parents)
                inner = self._arm(body, ())
                self.ops = outer
                self.ops.append(Repeat(inner, first, len(self.out.parents)))
            case tree.While(cond=cond, body=body):
                self._repeat(cond, body)
            case tree.For(low=low, high=high, body=body):
                self.visit(low)
                self.visit(high)
                self._repeat(None, body)
            case _:
                self._children(stmt)

    def _let(self, id_: tree.LocalId, value: tree.Value) -> None:
        type_ = self.function.locals[id_].type
        if not self.types.leaves(type_):
            self._into(value, ())
            self._may_drop(type_, At(self.at.block, LAST), value.span)
            return
        sources = self.own(value)
        unread = id_ not in self.read and not self.types.drops(type_)
        targets = self._declare(id_, Owner.TEMP if unread else Owner.LOCAL, self.at)
        if sources:
            self._move(sources, targets)

    def _assign(self, target: tree.PlaceNode, value: tree.Value, span: Span) -> None:
        """Into a placed tensor elements are copied; a struct that owns tiles is replaced, and so is what lies behind a
        raw pointer."""
        leaves = self.types.leaves(target.type)
        copied = isinstance(target.type, tree.Tensor) and not (is_raw(target) and self.types.leaves(value.type))
        if not leaves or copied:
            self.visit_place(target)
            self.visit(value)
            return
        sources = self.own(value)
        self.visit_place(target)
        root, _ = root_of(target)
        if isinstance(root, tree.Local):
            self._move(sources, self._of_place(target) if sources else ())
        elif behind_pointer(root):
            self._untracked(sources, _UNTRACKED_POINTER, value.span)
        else:
            self.out.reassigned.append(Reassigned(leaves[0].name.strip("."), span))

    def _return(self, value: tree.Value | None) -> None:
        if value is not None:
            self._into(value, self.results)
        self.ops.append(Leave("return"))

    # ---- owned values ----
    def own(self, value: tree.Value) -> Held:
        """Evaluate a value where it gets an owner: the holders of its tiles, in order. None for one that never is."""
        self._may_drop(value.type, self.at, value.span)
        match value:
            case tree.Read(place=place, move=True):
                return self._taken(value, place)
            case tree.Call():
                return self._call(value)
            case tree.StructLit(values=values, order=order):
                wanted = self._fields(value.type)
                parts = {index: self._part(values[index], wanted[index]) for index in order}
                return tuple(id_ for index in range(len(values)) for id_ in parts[index])
            case tree.IfExpr() | tree.Match():
                return self._branches(value)
            case tree.BlockExpr(block=block):
                held = self._temps(value.type, value.span)
                self.block(block, held)
                return held
            case tree.Spawn():
                return self._spawn(value)
            case tree.TensorNew() | tree.CopyTensor():
                self._children(value)
                extents = value.extents if isinstance(value, tree.TensorNew) else ()
                return self._filled(value, extents)
            case tree.Transfer():
                self.visit(value.ref)
                held = self._filled(value)
                self._transfer(value)
                return held
            case _:
                self.visit(value)
                return self._filled(value)

    def _part(self, value: tree.Value, type_: tree.Type) -> Held:
        """The holders of a value where one of `type_` is wanted; what never becomes a value fills none."""
        if self.types.leaves(value.type):
            return self.own(value)
        self.visit(value)
        return self._temps(type_, value.span)

    def _kept(self, value: tree.Value, type_: tree.Type) -> Held:
        """As `_part`, moved to temporaries of this statement."""
        held = self._part(value, type_)
        given = self._temps(type_, value.span)
        self._move(held, given)
        return given

    def _untracked(self, held: Held, where: str, span: Span, *, late: bool = False) -> None:
        self.out.untracked.extend(Untracked(id_, where, span, late) for id_ in held)

    def _of_place(self, place: tree.PlaceNode) -> Held:
        """The holders in a place that is a local or a field of one."""
        root, path = root_of(place)
        assert isinstance(root, tree.Local)
        return self._under(self.held[root.id], root.type, path)

    def _under(self, held: Held, type_: tree.Type, path: tuple[int, ...]) -> Held:
        """Of the holders of a value, those in its field at `path`."""
        leaves = self.types.leaves(type_)
        return tuple(id_ for id_, leaf in zip(held, leaves, strict=True) if leaf.path[: len(path)] == path)

    def _fields(self, type_: tree.Type) -> tuple[tree.Type, ...]:
        assert isinstance(type_, tree.Struct)
        return tuple(inner for _, inner in self.types.program.structs[type_.key].fields)

    def _taken(self, value: tree.Value, place: tree.PlaceNode) -> Held:
        root, path = root_of(place)
        if isinstance(root, tree.Local):
            return self._of_place(place)
        if isinstance(root, tree.Temp):
            return self._under(self.own(root.value), root.type, path)
        self.visit_place(place)
        held = self._filled(value)
        self._untracked(held, _UNTRACKED_POINTER, place.span, late=True)
        return held

    def _call(self, call: tree.Call) -> Held:
        self.out.sites.append(Site(call.key, self.at, call.span, call, self.covered))
        callee = self.types.program.functions[call.key]
        wanted = [callee.locals[id_].type for id_ in callee.params]
        args = tuple(self._kept(arg, type_) for arg, type_ in zip(call.args, wanted, strict=True))
        results = self._temps(call.type, call.span)
        if results or any(args):
            self.ops.append(Invoke(call, args, results))
        return results

    def _spawn(self, value: tree.Spawn) -> Held:
        key = RegionKey(self.function.key, value.span)
        if key not in self.limits.scratch:
            held = self._temps(value.type, value.span)
            self.block(value.body, held)
            return held
        bank = tiles.bank_of(self.machine, value.place)
        self.out.regions.append(Region(key, bank, self.at, value))
        self.covered = bank
        self.block(value.body, self._temps(value.type, value.span))
        self.covered = None
        return self._filled(value)

    # ---- transfers ----
    def _transfer(self, value: tree.Transfer) -> None:
        assert isinstance(value.type, tree.Tensor)
        self._carried(value, value.type)

    def _land(self, stmt: tree.Land) -> None:
        assert isinstance(stmt.target.type, tree.Tensor)
        self._carried(stmt, stmt.target.type)

    def _carried(self, node: tree.Transfer | tree.Land, into: tree.Tensor) -> None:
        """Record a transfer, and the copies on its way."""
        ref, route = node.ref, node.route
        assert isinstance(ref.type, tree.Ref) and isinstance(ref.type.to, tree.Tensor)
        moved = ref.type.to
        sizes = [size for size in (tiles.size_of(moved), tiles.size_of(into)) if size.unknown is None]
        size = sizes[0] if sizes else tiles.size_of(moved)
        source, target = self._place(moved), self._place(into)
        host = tiles.host_space(self.machine)
        for number, space in enumerate(route[1:-1], 1):
            if space != host:
                bank = tiles.hop_bank(self.machine, space, source, target)
                self.out.hops.append(Hop(bank, size, self.at, moved, node, number))
        self.out.transfers.append(
            Moved(
                self.function.key,
                node.span,
                route,
                tiles.bank_of(self.machine, source),
                tiles.bank_of(self.machine, target),
                min((size.bytes for size in sizes), default=None),
                tiles.is_exact(moved) or tiles.is_exact(into),
                isinstance(node, tree.Land),
            )
        )

    def _place(self, tensor: tree.Tensor) -> tree.Place:
        return tensor.place or tree.Place(tiles.host_space(self.machine), "CPU")

    # ---- visited values ----
    def visit(self, value: tree.Value) -> None:
        """Evaluate a value that nobody owns: what it is made of may still own."""
        self._may_drop(value.type, self.at, value.span)
        match value:
            case _ if isinstance(value, _MAKERS):
                self.own(value)
            case tree.StructLit() | tree.EnumLit():
                self._aggregate(value)
            case tree.Read(place=place):
                self.visit_place(place)
            case tree.Binary(op="&&" | "||", left=left, right=right):
                self.visit(left)
                outer, self.ops = self.ops, []
                self.visit(right)
                arm, self.ops = tuple(self.ops), outer
                self.ops.append(Branch((arm, ())))
            case tree.ReturnExpr(value=inner):
                self._return(inner)
            case tree.FnAddr(key=key):
                self.out.callbacks.append((key, value.span))
            case tree.MatMul(left=left, right=right):
                for factor in (left, right):
                    self._factor(factor)
            case _:
                self._children(value)

    def _factor(self, value: tree.Value) -> None:
        """An operand of `@` is read over and over, so one that is computed needs storage first."""
        if isinstance(value, tree.MatMul | tree.Binary | tree.Unary | tree.Cast | tree.Math):
            self._into(value, ())
        else:
            self.visit(value)

    def _aggregate(self, value: tree.StructLit | tree.EnumLit) -> None:
        order = value.order if isinstance(value, tree.StructLit) else range(len(value.values))
        for index in order:
            item = value.values[index]
            held = self._part(item, item.type)
            if isinstance(value, tree.EnumLit):
                where = f"a payload of {value.type.key}" if isinstance(value.type, tree.Enum) else "a payload"
                self._untracked(held, where, item.span)

    def visit_place(self, place: tree.PlaceNode) -> None:
        if isinstance(place, tree.Temp):
            self._into(place.value, ())
        elif not isinstance(place, tree.Local):
            self._children(place)

    def _children(self, node: tree.Expr | tree.Stmt) -> None:
        for child in parts_of(node):
            if isinstance(child, tree.PlaceNode):
                self.visit_place(child)
            else:
                self.visit(child)
