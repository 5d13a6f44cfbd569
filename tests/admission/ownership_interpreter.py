"""Runs a typed program's ownership on random paths: what is placed, moved and dropped, and nothing else.

It knows the language's rules of ownership and the Plan, not the analysis: every tile is put where the Plan's
homes say, and freed where the language frees it. Asserted at every birth of a tile: it does not overlap a live
one, it lies in the arena, and the live bytes of its bank are not more than the arena has.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from vx.admission.plan import Bank, Call, Frame, Home, Plan
from vx.sema import tree

MAX_TURNS = 3


@dataclass(eq=False)
class Tile:
    bank: Bank
    address: int
    size: int
    what: str
    live: bool = True


@dataclass(eq=False)
class Record:
    """A struct value: tiles and records by field number, where fields have any."""

    fields: dict[int, Value]


Value = Tile | Record | None


class Break(Exception):
    pass


class Continue(Exception):
    pass


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

    def run(self, role: str) -> None:
        start = {arena.bank: arena.workspace for arena in self.plan.arenas}
        value = self.call(role, [], start, [])
        self.drop(value)
        assert not any(self.live.values()), "everything is freed in the end"

    # ---- tiles ----
    def birth(self, bank: Bank, address: int, size: int, what: str) -> Tile:
        tile = Tile(bank, address, size, what)
        arena = self.plan.arena(*bank)
        assert arena is not None and arena.bytes is not None
        assert address >= 0 and address + size <= arena.bytes, f"{what} is outside of the arena"
        for other in self.live[bank]:
            apart = address + size <= other.address or other.address + other.size <= address
            assert apart, f"{what} at {address} overlaps {other.what} at {other.address}"
        self.live[bank].append(tile)
        held = sum(other.size for other in self.live[bank])
        assert held <= arena.bytes
        self.most[bank] = max(self.most[bank], held)
        self.births += 1
        return tile

    def drop(self, value: Value) -> None:
        if isinstance(value, Tile) and value.live:
            value.live = False
            self.live[value.bank].remove(value)
        elif isinstance(value, Record):
            for inner in value.fields.values():
                self.drop(inner)
            value.fields.clear()

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
        count = 1
        for dim in type_.dims:
            assert isinstance(dim, int)
            count *= dim
        size = (tree.BITS[type_.elem] * count + 7) // 8
        bank = Bank(type_.place.space, type_.place.instance)
        what = f"a tile of {act.function.key} at {node.span.start}"
        return self.birth(bank, self.home(act, node, 0), size, what)

    # ---- functions ----
    def call(self, key: str, args: list[Value], base: dict[Bank, int], results: list[int]) -> Value:
        function, frame = self.program.functions[key], self.frames[key]
        homes = {(id(home.node), home.number, home.kind.value == "hop"): home for home in frame.homes}
        calls = {id(call.node): call for call in frame.calls}
        act = Activation(function, frame, base, results, homes, calls, set(reads(function.body)))
        act.scopes.append(list(function.params))
        act.hops.append({})
        act.locals.update(zip(function.params, args, strict=True))
        try:
            value = self.block(act, function.body)
        except Return as returned:
            value = returned.value
        self.leave(act)
        return value

    def leave(self, act: Activation) -> None:
        for id_ in reversed(act.scopes.pop()):
            self.drop(act.locals.pop(id_, None))
        for tile in act.hops.pop().values():
            self.drop(tile)

    def block(self, act: Activation, block: tree.Block) -> Value:
        act.scopes.append([])
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
        for value in act.temps:
            self.drop(value)
        act.temps.clear()

    # ---- statements ----
    def stmt(self, act: Activation, stmt: tree.StmtNode) -> None:
        match stmt:
            case tree.Let(id=id_, value=value):
                found = self.value(act, value)
                if found is not None and id_ not in act.read:
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
            self.drop(act.locals.get(target.id))
            act.locals[target.id] = value
        else:
            self.drop(holder.fields.get(index))
            holder.fields[index] = value

    def loop(self, act: Activation, stmt: tree.While | tree.Loop | tree.For) -> None:
        turns = 0
        while isinstance(stmt, tree.Loop) or turns < self.random.randrange(MAX_TURNS + 1):
            turns += 1
            if isinstance(stmt, tree.While):
                self.part(act, stmt.cond)
            try:
                self.block(act, stmt.body)
            except Break:
                return
            except Continue:
                continue
            if turns > 20:
                raise Return(None)

    # ---- values ----
    def value(self, act: Activation, value: tree.Value) -> Value:
        """The value, owned by whoever asks."""
        match value:
            case tree.Read(place=place, move=move):
                return self.take(act, place) if move and self.leaves(value.type) else self.visit(act, place)
            case tree.Call():
                return self.called(act, value)
            case tree.StructLit(values=values, order=order):
                found = dict(zip(order, self.values(act, [values[index] for index in order]), strict=True))
                return Record({i: v for i, v in found.items() if v is not None}) if self.leaves(value.type) else None
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
            case tree.Match(scrutinee=scrutinee, arms=arms):
                self.part(act, scrutinee)
                return self.block(act, self.random.choice(arms).body)
            case tree.BlockExpr(block=block) | tree.Spawn(body=block):
                return self.block(act, block)

    def values(self, act: Activation, nodes: Sequence[tree.Value]) -> list[Value]:
        """Several values in turn; leaving in between drops those that are there already."""
        found: list[Value] = []
        try:
            for node in nodes:
                found.append(self.value(act, node))
        except (Break, Continue, Return):
            for value in found:
                self.drop(value)
            raise
        return found

    def called(self, act: Activation, call: tree.Call) -> Value:
        if call.key not in self.frames:
            return None
        args = self.values(act, call.args)
        frame_call = act.calls.get(id(call))
        base = {bank: act.base[bank] + at for bank, at in frame_call.base.items()} if frame_call else {}
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
                self.drop(here.get((id(node), number)))
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
        if isinstance(place, tree.Local):
            return None, 0
        assert isinstance(place, tree.Field)
        outer, index = self.holder(act, place.base)
        if outer is None:
            assert isinstance(place.base, tree.Local)
            record = act.locals[place.base.id]
        else:
            record = outer.fields[index]
        assert isinstance(record, Record)
        return record, place.index

    def take(self, act: Activation, place: tree.PlaceNode) -> Value:
        holder, index = self.holder(act, place)
        if holder is None:
            assert isinstance(place, tree.Local)
            return act.locals.pop(place.id)
        return holder.fields.pop(index)


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
