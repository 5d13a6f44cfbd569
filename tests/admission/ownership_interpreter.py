"""Runs a typed program's ownership on random paths: what is placed, moved and dropped, and nothing else.

It knows the language's rules of ownership and the Plan, not the analysis: every tile is put where the Plan's
homes say, and freed where the language frees it. Asserted at every birth of a tile: it does not overlap a live
one, it lies in the arena, and the live bytes of its bank are not more than the arena has.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from vx.admission.plan import Bank, Call, Frame, Home, Plan
from vx.sema import tree


@dataclass(eq=False)
class Tile:
    bank: Bank
    address: int
    size: int
    what: str
    live: bool = True


@dataclass(eq=False)
class Record:
    """A struct or enum value that owns tiles or whose drop runs a function: what it holds, by field number."""

    type: tree.Struct | tree.Enum
    fields: dict[int, Value]
    tag: int = 0


Value = Tile | Record | None

MAX_TURNS = 3
MAX_LOOP = 20
MAX_DEPTH = 40
TEMPORARY = -1
"""Where the temporary stands whose field is taken."""
NOTHING: Mapping[int, Value] = {}


class Break(Exception):
    pass


class Continue(Exception):
    pass


class Endless(Exception):
    """A loop or recursion that has not ended yet: enough has been seen."""


class Return(Exception):
    def __init__(self, value: Value) -> None:
        self.value = value


@dataclass
class Activation:
    """A running function."""

    function: tree.Function
    frame: Frame
    base: dict[Bank, int]
    results: list[int]
    """Addresses that the caller gives for the leaves of the result."""
    homes: dict[tuple[int, int, bool], Home]
    calls: dict[int, Call]
    drops: dict[str, Call]
    read: set[int]
    locals: dict[int, Value] = field(default_factory=dict)
    scopes: list[list[int]] = field(default_factory=list)
    hops: list[dict[tuple[int, int], Tile]] = field(default_factory=list)
    temps: list[Value] = field(default_factory=list)


class Interpreter:
    def __init__(self, program: tree.Program, plan: Plan, seed: int) -> None:
        self.program, self.plan, self.random = program, plan, Random(seed)
        self.frames = {frame.function: frame for frame in plan.frames}
        self.live: dict[Bank, list[Tile]] = defaultdict(list)
        self.most: dict[Bank, int] = defaultdict(int)
        self.births = 0
        self.depth = 0

    def run(self, role: str) -> None:
        start = {arena.bank: arena.workspace for arena in self.plan.arenas}
        try:
            assert self.call(role, [], start, []) is None
        except Endless:
            return
        assert not any(self.live.values()), "everything is freed in the end"

    # ---- tiles ----
    def birth(self, bank: Bank, address: int, size: int, what: str) -> Tile:
        tile = Tile(bank, address, size, what)
        arena = self.plan.arena(*bank)
        assert arena is not None and arena.bytes is not None
        assert address >= 0 and address + size <= arena.bytes, f"{what} is outside of the arena"
        for other in self.live[bank]:
            empty = size == 0 or other.size == 0
            apart = empty or address + size <= other.address or other.address + other.size <= address
            assert apart, f"{what} at {address} overlaps {other.what} at {other.address}"
        self.live[bank].append(tile)
        held = sum(other.size for other in self.live[bank])
        assert held <= arena.bytes
        self.most[bank] = max(self.most[bank], held)
        self.births += 1
        return tile

    def drop(self, act: Activation, value: Value) -> None:
        """A value dies in a running function: its own `drop` runs first, then its fields die."""
        if isinstance(value, Tile) and value.live:
            value.live = False
            self.live[value.bank].remove(value)
        elif isinstance(value, Record):
            key = self.program.structs[value.type.key].drop if isinstance(value.type, tree.Struct) else None
            if key is not None:
                self.call(key, [None], self.base(act, act.drops.get(key)), [])
            for inner in value.fields.values():
                self.drop(act, inner)
            value.fields.clear()

    def base(self, act: Activation, call: Call | None) -> dict[Bank, int]:
        """Where the frame of a callee starts; none for one that places nothing."""
        return {bank: act.base[bank] + at for bank, at in call.base.items()} if call else {}

    def tracked(self, type_: tree.Type) -> bool:
        """Whether a value of this type owns tiles, or its drop runs a function."""
        if isinstance(type_, tree.Struct):
            found = self.program.structs[type_.key]
            return found.drop is not None or any(self.tracked(inner) for _, inner in found.fields)
        if isinstance(type_, tree.Enum):
            return any(self.tracked(inner) for _, items in self.program.enums[type_.key].variants for inner in items)
        return isinstance(type_, tree.Tensor) and type_.place is not None

    def runs(self, type_: tree.Type) -> bool:
        """Whether dropping a value of this type runs a function."""
        if not isinstance(type_, tree.Struct):
            return False
        found = self.program.structs[type_.key]
        return found.drop is not None or any(self.runs(inner) for _, inner in found.fields)

    def leaves(self, type_: tree.Type) -> list[tree.Tensor]:
        if isinstance(type_, tree.Tensor):
            return [type_] if type_.place is not None else []
        if isinstance(type_, tree.Struct):
            return [leaf for _, inner in self.program.structs[type_.key].fields for leaf in self.leaves(inner)]
        return []

    def tiles_of(self, value: Value) -> list[Tile]:
        if isinstance(value, Tile):
            return [value]
        if isinstance(value, Record):
            return [tile for index in sorted(value.fields) for tile in self.tiles_of(value.fields[index])]
        return []

    def size(self, tensor: tree.Tensor) -> int:
        """Bytes; an extent that is only bounded is any up to its bound, most often that."""
        count = 1
        for dim in tensor.dims:
            if isinstance(dim, int):
                count *= dim
            else:
                assert dim.bound is not None
                count *= self.random.choice([dim.bound, dim.bound, self.random.randrange(dim.bound + 1)])
        return (tree.BITS[tensor.elem] * count + 7) // 8

    def home(self, act: Activation, node: tree.Value | tree.Land, number: int, hop: bool = False) -> int:
        found = act.homes[id(node), number, hop]
        if found.slot is None:
            assert found.result is not None
            return act.results[found.result]
        slot = act.frame.slots[found.slot]
        return act.base[slot.bank] + slot.offset

    def place(self, act: Activation, node: tree.Value) -> Tile:
        """A new tile for the value of a node whose type is a placed tensor."""
        type_ = node.type
        assert isinstance(type_, tree.Tensor) and type_.place is not None
        bank = Bank(type_.place.space, type_.place.instance)
        what = f"a tile of {act.function.key} at {node.span.start}"
        address = self.home(act, node, 0)
        assert address % max(1, tree.BITS[type_.elem] // 8) == 0, f"{what} is not aligned"
        return self.birth(bank, address, self.size(type_), what)

    # ---- functions ----
    def call(self, key: str, args: list[Value], base: dict[Bank, int], results: list[int]) -> Value:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Endless
        function, frame = self.program.functions[key], self.frames[key]
        homes = {(id(home.node), home.number, home.kind.value == "hop"): home for home in frame.homes}
        calls = {id(call.node): call for call in frame.calls if call.node is not None}
        drops = {call.callee: call for call in frame.calls if call.node is None}
        act = Activation(function, frame, base, results, homes, calls, drops, set(reads(function.body)))
        act.scopes.append(list(function.params))
        act.hops.append({})
        act.locals.update(zip(function.params, args, strict=True))
        try:
            value = self.block(act, function.body)
        except Return as returned:
            value = returned.value
        self.leave(act)
        self.depth -= 1
        return value

    def leave(self, act: Activation) -> None:
        for id_ in reversed(act.scopes.pop()):
            self.drop(act, act.locals.pop(id_, None))
        for tile in act.hops.pop().values():
            self.drop(act, tile)

    def block(self, act: Activation, block: tree.Block, bound: Mapping[int, Value] = NOTHING) -> Value:
        """A block, which owns what is bound before it."""
        act.scopes.append(list(bound))
        act.locals.update(bound)
        act.hops.append({})
        outer, act.temps = act.temps, []
        try:
            for stmt in block.stmts:
                self.stmt(act, stmt)
                self.end_statement(act)
            return None if block.value is None else self.value(act, block.value)
        finally:
            self.end_statement(act)
            act.temps = outer
            self.leave(act)

    def end_statement(self, act: Activation) -> None:
        while act.temps:
            self.drop(act, act.temps.pop())

    # ---- statements ----
    def stmt(self, act: Activation, stmt: tree.StmtNode) -> None:
        match stmt:
            case tree.Let(id=id_, value=value):
                found = self.value(act, value)
                if found is not None and id_ not in act.read and not self.runs(act.function.locals[id_].type):
                    act.temps.append(found)
                else:
                    act.scopes[-1].append(id_)
                    act.locals[id_] = found
            case tree.Assign(target=target, value=value):
                found = self.value(act, value)
                if isinstance(found, Record):
                    self.replace(act, target, found)
                else:
                    act.temps.append(found)
            case tree.Land(ref=ref):
                self.part(act, ref)
                self.hop(act, stmt)
            case tree.Return(value=value):
                raise Return(None if value is None else self.value(act, value))
            case tree.Break():
                raise Break
            case tree.Continue():
                raise Continue
            case tree.While() | tree.Loop() | tree.For():
                self.loop(act, stmt)
            case _:
                self.visit(act, stmt)

    def replace(self, act: Activation, target: tree.PlaceNode, value: Record) -> None:
        holder, index = self.holder(act, target)
        if holder is None:
            assert isinstance(target, tree.Local)
            self.drop(act, act.locals.get(target.id))
            act.locals[target.id] = value
        else:
            self.drop(act, holder.fields.get(index))
            holder.fields[index] = value

    def loop(self, act: Activation, stmt: tree.While | tree.Loop | tree.For) -> None:
        turns = 0
        if isinstance(stmt, tree.For):
            self.part(act, (stmt.low, stmt.high))
        while True:
            turns += 1
            if isinstance(stmt, tree.While):
                self.part(act, stmt.cond)
                self.end_statement(act)
            if not isinstance(stmt, tree.Loop) and turns > self.random.randrange(MAX_TURNS + 1):
                return
            try:
                self.block(act, stmt.body)
            except Break:
                return
            except Continue:
                continue
            if turns > MAX_LOOP:
                raise Endless

    # ---- values ----
    def value(self, act: Activation, value: tree.Value) -> Value:
        """The value, owned by whoever asks."""
        match value:
            case tree.Read(place=place, move=move):
                return self.take(act, place) if move and self.tracked(value.type) else self.visit(act, place)
            case tree.Call():
                return self.called(act, value)
            case tree.StructLit(type=tree.Struct() as type_, values=values, order=order):
                found = dict(zip(order, self.values(act, [values[index] for index in order]), strict=True))
                return Record(type_, _present(found)) if self.tracked(type_) else None
            case tree.EnumLit(type=tree.Enum() as type_, values=values, variant=variant):
                found = dict(enumerate(self.values(act, values)))
                return Record(type_, _present(found), variant) if self.tracked(type_) else None
            case tree.IfExpr() | tree.Match() | tree.BlockExpr() | tree.Spawn():
                return self.chosen(act, value)
            case tree.ReturnExpr(value=inner):
                raise Return(None if inner is None else self.value(act, inner))
            case tree.Transfer(ref=ref):
                self.part(act, ref)
                tile = self.place(act, value) if self.leaves(value.type) else None
                self.hop(act, value)
                return tile
            case tree.TensorNew() | tree.CopyTensor() if self.leaves(value.type):
                return self.place(act, value)
            case _:
                return self.visit(act, value)

    def chosen(self, act: Activation, value: tree.IfExpr | tree.Match | tree.BlockExpr | tree.Spawn) -> Value:
        """One of the blocks of a value."""
        match value:
            case tree.IfExpr(cond=cond, then=then, orelse=orelse):
                self.part(act, cond)
                block = self.random.choice([then, orelse])
                return None if block is None else self.block(act, block)
            case tree.Match():
                return self.matched(act, value)
            case tree.BlockExpr(block=block) | tree.Spawn(body=block):
                return self.block(act, block)

    def matched(self, act: Activation, match: tree.Match) -> Value:
        found = self.value(act, match.scrutinee)
        arms = [arm for arm in match.arms if not isinstance(arm.pattern, tree.TagPattern) or not _differs(found, arm)]
        arm = self.random.choice(arms[:1] if isinstance(found, Record) else arms)
        if isinstance(arm.pattern, tree.AnyPattern) and arm.pattern.binding is not None:
            return self.block(act, arm.body, {arm.pattern.binding: found})
        act.temps.append(found)
        bindings = arm.pattern.bindings if isinstance(arm.pattern, tree.TagPattern) else ()
        payload = found.fields if isinstance(found, Record) else {}
        bound = {id_: payload.pop(i, None) for i, id_ in enumerate(bindings) if id_ is not None}
        return self.block(act, arm.body, bound)

    def values(self, act: Activation, nodes: Sequence[tree.Value]) -> list[Value]:
        """Several values in turn; leaving in between drops those that are there already."""
        found: list[Value] = []
        try:
            for node in nodes:
                found.append(self.value(act, node))
        except (Break, Continue, Return):
            for value in reversed(found):
                self.drop(act, value)
            raise
        return found

    def called(self, act: Activation, call: tree.Call) -> Value:
        if call.key not in self.frames:
            return None
        args = self.values(act, call.args)
        base = self.base(act, act.calls.get(id(call)))
        addresses = []
        for number, _ in enumerate(self.leaves(call.type)):
            made = (id(call), number, False) in act.homes
            addresses.append(self.home(act, call, number) if made else -1)
        return self.call(call.key, args, base, addresses)

    def hop(self, act: Activation, node: tree.Transfer | tree.Land) -> None:
        """Copies on the way, which last to the end of the block; a condition that runs again uses the same."""
        for number in range(1, len(node.route) - 1):
            if node.route[number] != "CPU_DRAM":
                home = act.homes[id(node), number, True]
                assert home.slot is not None
                slot, here = act.frame.slots[home.slot], act.hops[-1]
                self.drop(act, here.get((id(node), number)))
                tile = self.birth(slot.bank, act.base[slot.bank] + slot.offset, slot.bytes, "a hop")
                here[id(node), number] = tile

    def visit(self, act: Activation, node: object) -> None:
        """Evaluate what is inside a node; values with tiles become temporaries of the statement."""
        for item in dataclasses.fields(node):  # type: ignore[arg-type]
            self.part(act, getattr(node, item.name))

    def part(self, act: Activation, item: object) -> None:
        if isinstance(item, tree.Binary) and item.op == "&&":
            self.part(act, item.left)
            item = item.right if self.random.random() < 0.5 else None
        if isinstance(item, tree.Expr):
            if isinstance(item, tree.PlaceNode):
                self.visit(act, item)
            else:
                act.temps.append(self.value(act, item))
        elif isinstance(item, tree.At | tree.Slice):
            self.visit(act, item)
        elif isinstance(item, tuple):
            for inner in item:
                self.part(act, inner)

    # ---- places ----
    def holder(self, act: Activation, place: tree.PlaceNode) -> tuple[Record | None, int]:
        """The record that a place is a field of, or None for a whole local."""
        if isinstance(place, tree.Local | tree.Temp):
            return None, 0
        assert isinstance(place, tree.Field)
        outer, index = self.holder(act, place.base)
        if outer is None:
            record = act.locals[place.base.id if isinstance(place.base, tree.Local) else TEMPORARY]
        else:
            record = outer.fields[index]
        assert isinstance(record, Record)
        return record, place.index

    def take(self, act: Activation, place: tree.PlaceNode) -> Value:
        if isinstance(place, tree.Temp):
            return self.value(act, place.value)
        if isinstance(place, tree.Local):
            return act.locals.pop(place.id)
        assert isinstance(place, tree.Field)
        root: tree.PlaceNode = place
        while isinstance(root, tree.Field):
            root = root.base
        if isinstance(root, tree.Temp):
            act.temps.append(self.value(act, root.value))
            act.locals[TEMPORARY] = act.temps[-1]
        holder, index = self.holder(act, place)
        assert holder is not None
        return holder.fields.pop(index)


def _present(found: Mapping[int, Value]) -> dict[int, Value]:
    return {index: value for index, value in found.items() if value is not None}


def _differs(value: Value, arm: tree.Arm) -> bool:
    """Whether a variant that is known does not match a pattern."""
    return isinstance(value, Record) and isinstance(arm.pattern, tree.TagPattern) and value.tag != arm.pattern.tag


def reads(node: object) -> Iterator[int]:
    """Locals that are mentioned."""
    if isinstance(node, tree.Local):
        yield node.id
    elif isinstance(node, tuple):
        for inner in node:
            yield from reads(inner)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        for item in dataclasses.fields(node):
            if not (item.name == "type" or (isinstance(node, tree.Let) and item.name == "id")):
                yield from reads(getattr(node, item.name))
