"""Expressions of regions → LLVM text, for one or several iterations at once.

Enters: an expression and the copy of the body (`Lanes`) that it is computed for. Leaves: an operand, scalar
if it is the same in all lanes. Also loads and stores: which of them are contiguous is read off the index.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType

from vx.codegen import vecmath
from vx.codegen.cpu_library import Facts, Library
from vx.codegen.cpu_ops import Ops
from vx.codegen.cpu_text import FunctionText
from vx.codegen.cpu_values import (
    HALVES,
    LANE,
    Binding,
    Features,
    Lanes,
    Linear,
    Place,
    Slot,
    Val,
    is_float,
    is_unsigned,
    literal,
    of_lanes,
    register,
    scalar_index,
    size,
    stored,
    suffix,
)
from vx.kernels import affine, ir

_LINE = 64
"""Bytes of a cache line."""
_INTRINSICS: Mapping[str, str] = MappingProxyType(
    {
        "sqrt": "sqrt",
        "floor": "floor",
        "ceil": "ceil",
        "trunc": "trunc",
        "abs": "fabs",
        "min": "minnum",
        "max": "maxnum",
        "mul_add": "fma",
    }
)
"""Functions of floats that are LLVM intrinsics."""
_C_NAMES: Mapping[str, str] = MappingProxyType({"ln": "log"})
"""What the C library calls a function, where it is not the same."""


def may_fault(expr: ir.Expr) -> bool:
    """Whether computing it where the program would not may end the process."""
    return any(isinstance(e, ir.Load | ir.Reduce) or _divides(e) for e in affine.walk(expr))


def _divides(expr: ir.Expr) -> bool:
    if not isinstance(expr, ir.Binary) or expr.op not in "/%" or is_float(expr.type):
        return False
    return not (isinstance(expr.right, ir.Lit) and expr.right.value)


class Expressions(ABC):
    """Writes expressions into one function, `text`, for the processor level `have`."""

    def __init__(self, text: FunctionText, have: Features, facts: Facts, library: Library) -> None:
        self.text = text
        self.have = have
        self.facts = facts
        self.library = library
        self.ops = Ops(text, have)

    @abstractmethod
    def reduced(self, lanes: Lanes, reduce: ir.Reduce) -> Val:
        """The value of a reduction."""

    # ---- variables and indices -----------------------------------------------------------------
    def lookup(self, lanes: Lanes, var: ir.VarId) -> Linear | Val:
        """What a variable is in these lanes."""
        rows: list[int] = []
        here = lanes
        while var not in here.bindings:
            if here.row is not None:
                rows.append(here.row)
            if here.outer is None:
                raise KeyError(f"variable {var} of region {self.facts.region.name} is not in scope")
            here = here.outer
        value: Binding = here.bindings[var]
        if isinstance(value, Slot):
            value = self._read_slot(value)
        for row in reversed(rows):
            value = self._at_lane(value, here.count, row)
        return value

    def _read_slot(self, slot: Slot) -> Val:
        type_ = of_lanes(register(slot.elem), slot.lanes)
        return Val(self.text.result(f"load {type_}, ptr {slot.pointer}"), slot.elem, slot.lanes)

    def _at_lane(self, value: Linear | Val, lanes: int, row: int) -> Linear | Val:
        if isinstance(value, Val):
            return self.ops.lane(value, row)
        scalars = value.scalars
        for coefficient, name in value.vectors:
            picked = self.ops.lane(Val(name, "i64", lanes), row)
            scalars = (*scalars, (coefficient, picked.text))
        return Linear(value.const + value.step * row, 0, scalars)

    def linear(self, lanes: Lanes, expr: ir.Expr) -> Linear:
        """An i64 expression as an index."""
        match expr:
            case ir.Affine(const=const, terms=terms):
                total = Linear(const)
                for coefficient, atom in terms:
                    total = total.plus(self.linear(lanes, atom).times(coefficient))
                return total
            case ir.Lit(value=value):
                return Linear(int(value))
            case ir.Var(id=var):
                found = self.lookup(lanes, var)
                return found if isinstance(found, Linear) else _index_of(found)
            case ir.Binary(op="+" | "-" | "*", left=left, right=right):
                return self._linear_binary(lanes, expr.op, left, right)
            case _:
                return _index_of(self.evaluate(lanes, expr))

    def _linear_binary(self, lanes: Lanes, op: str, left: ir.Expr, right: ir.Expr) -> Linear:
        a, b = self.linear(lanes, left), self.linear(lanes, right)
        if op != "*":
            return a.plus(b if op == "+" else b.times(-1))
        if b == Linear(b.const):
            return a.times(b.const)
        if a == Linear(a.const):
            return b.times(a.const)
        return _index_of(self.ops.binary("*", self.value_of(a, lanes.count), self.value_of(b, lanes.count)))

    def scalar_of(self, index: Linear) -> str:
        """The part of an index that is the same in all lanes, as an operand."""
        total = "0"
        for coefficient, name in sorted(index.scalars, key=lambda term: _age(term[1])):
            total = self.text.add(total, self.text.mul(name, str(coefficient)))
        return self.text.add(total, str(index.const))

    def value_of(self, index: Linear, lanes: int) -> Val:
        """An index as an operand."""
        base = Val(self.scalar_of(index), "i64")
        if index.uniform:
            return base
        return (
            self.ops.binary("+", base, self._spread(index, lanes)) if base.text != "0" else self._spread(index, lanes)
        )

    def _spread(self, index: Linear, lanes: int) -> Val:
        """The part of an index that differs between lanes."""
        total = Val("zeroinitializer", "i64", lanes)
        if index.step:
            numbers = ", ".join(f"i64 {lane * index.step}" for lane in range(lanes))
            total = Val(f"<{numbers}>", "i64", lanes)
        for coefficient, name in index.vectors:
            scaled = Val(name, "i64", lanes)
            if coefficient != 1:
                scaled = self.ops.binary("*", scaled, literal(coefficient, "i64"))
            total = scaled if total.text == "zeroinitializer" else self.ops.binary("+", total, scaled)
        return total

    def integer(self, lanes: Lanes, expr: ir.Expr) -> str:
        """An i64 expression that is the same in all lanes, as an operand."""
        index = self.linear(lanes, expr)
        if not index.uniform:
            raise ValueError(f"region {self.facts.region.name}: a bound differs between lanes")
        return self.scalar_of(index)

    # ---- memory --------------------------------------------------------------------------------
    def place(self, lanes: Lanes, buffer: ir.BufferId) -> Place:
        here: Lanes | None = lanes
        while here is not None:
            if buffer in here.places:
                return here.places[buffer]
            here = here.outer
        raise KeyError(f"buffer {buffer} of region {self.facts.region.name} is not allocated")

    def _located(self, lanes: Lanes, buffer: ir.BufferId, offset: ir.Affine) -> tuple[str, Linear]:
        """The buffer's memory and the index into it."""
        place = self.place(lanes, buffer)
        index = self.linear(lanes, offset)
        if place.lanes > 1:
            own = self.lookup(lanes, LANE)
            index = index.times(place.lanes).plus(own if isinstance(own, Linear) else _index_of(own))
        return place.pointer, index

    def _address(self, pointer: str, index: Linear, elem: str) -> str:
        """The address of lane 0, summed from the slowest index to the fastest so that parts can be reused."""
        terms = sorted(index.scalars, key=lambda term: _age(term[1]))
        slow = self.scalar_of(Linear(scalars=tuple(terms[:-1])))
        fast = self.scalar_of(Linear(scalars=tuple(terms[-1:])))
        for part in (slow, fast, str(index.const)):
            if part != "0":
                pointer = self.text.op(f"getelementptr {stored(elem)}, ptr {pointer}, i64 {part}")
        return pointer

    def _addresses(self, pointer: str, index: Linear, elem: str, lanes: int) -> str:
        base = self._address(pointer, index, elem)
        offsets = self._spread(index, lanes)
        return self.text.op(f"getelementptr {stored(elem)}, ptr {base}, {offsets.typed}")

    def load(self, lanes: Lanes, expr: ir.Load) -> Val:
        """The elements at the lanes' offsets; lanes that take no part give 0."""
        pointer, index = self._located(lanes, expr.buffer, expr.offset)
        marks = self.facts.marks[expr.buffer]
        key = f" at {self.text.epoch}" if self.facts.buffers[expr.buffer].written else ""
        count = 1 if index.uniform else lanes.count
        type_ = of_lanes(stored(expr.type), count)
        if count > 1 and (index.vectors or index.step != 1):
            where = self._addresses(pointer, index, expr.type, count)
            text = self._masked(
                "gather", type_, f"{suffix(stored(expr.type), count)}.v{count}p0", where, expr.type, lanes
            )
        else:
            where = self._address(pointer, index, expr.type)
            plain = f"load {type_}, ptr {where}, align {size(expr.type)}"
            if lanes.mask is None or self.text.find(plain + marks + key) is not None:
                text = plain
            elif count > 1:
                text = self._masked("load", type_, f"{suffix(stored(expr.type), count)}.p0", where, expr.type, lanes)
            else:
                taken = self.ops.any_lane(lanes.mask)
                safe = self.text.op(f"select {taken.typed}, ptr {where}, ptr @vx.zero")
                text = f"load {type_}, ptr {safe}, align {size(expr.type)}"
        name = self.text.op(text + marks, key)
        if expr.type == "bool":
            name = self.text.op(f"icmp ne {type_} {name}, zeroinitializer" if count > 1 else f"icmp ne i8 {name}, 0")
        return Val(name, expr.type, count)

    def _masked(self, how: str, type_: str, kind: str, where: str, elem: str, lanes: Lanes) -> str:
        mask = self.ops.splat(lanes.mask or literal(True, "bool"), lanes.count)
        pointers = f"<{lanes.count} x ptr>" if how == "gather" else "ptr"
        operands = f"{pointers} {where}, i32 {size(elem)}, {mask.typed}, {type_} zeroinitializer"
        return f"call {type_} @llvm.masked.{how}.{kind}({operands})"

    def fetch_ahead(self, lanes: Lanes, load: ir.Load, distance: int) -> None:
        """Asks for the memory `distance` elements after lane 0 of a load, once for every line of it."""
        pointer, index = self._located(lanes, load.buffer, load.offset)
        if index.const * size(load.type) % _LINE:
            return
        where = self._address(pointer, index.plus(Linear(distance)), load.type)
        if self.text.first_time(f"fetched: {where}"):
            self.text.effect(f"call void @llvm.prefetch.p0(ptr {where}, i32 0, i32 3, i32 1)")

    def store(self, lanes: Lanes, stmt: ir.Store) -> None:
        """Stores the value of every lane that takes part."""
        value = self.evaluate(lanes, stmt.value)
        elem = self.facts.buffers[stmt.buffer].elem
        pointer, index = self._located(lanes, stmt.buffer, stmt.offset)
        count = 1 if index.uniform else lanes.count
        value = self.ops.splat(value, count)
        text = value.text
        if elem == "bool":
            text = self.text.op(f"zext {value.typed} to {of_lanes('i8', count)}")
        what = f"{of_lanes(stored(elem), count)} {text}"
        if count > 1 and (index.vectors or index.step != 1):
            where = f"<{count} x ptr> {self._addresses(pointer, index, elem, count)}"
            self._masked_store("scatter", f"{suffix(stored(elem), count)}.v{count}p0", what, where, stmt.buffer, lanes)
        else:
            where = self._address(pointer, index, elem)
            if lanes.mask is None:
                self.text.effect(f"store {what}, ptr {where}, align {size(elem)}{self.facts.marks[stmt.buffer]}")
            else:
                self._masked_vector(stored(elem), text, count, f"ptr {where}", stmt.buffer, lanes)
        self.text.wrote()

    def _masked_vector(self, type_: str, text: str, count: int, where: str, buffer: ir.BufferId, lanes: Lanes) -> None:
        """A masked store of neighbours. LLVM 22, for AVX-512, stores the element before its truncation where one
        lane is known to be the only one, and so overwrites its neighbours; of floats it does not."""
        as_float = {"i16": "half", "i32": "float"}.get(type_)
        if as_float and count > 1:
            text = self.text.op(f"bitcast <{count} x {type_}> {text} to <{count} x {as_float}>")
            type_ = as_float
        elif type_ == "i8" and count > 1:
            lanes = self._opaque_mask(lanes)
        what = f"{of_lanes(type_, count)} {text}"
        self._masked_store("store", f"{suffix(type_, count)}.p0", what, where, buffer, lanes)

    def _opaque_mask(self, lanes: Lanes) -> Lanes:
        """The same lanes, but no mask that LLVM can work out."""
        zero = self.text.op("load volatile i8, ptr @vx.zero")
        always = self.ops.splat(Val(self.text.op(f"icmp eq i8 {zero}, 0"), "bool"), lanes.count)
        return lanes.masked(self.ops.both(lanes.mask, always))

    def _masked_store(self, how: str, kind: str, what: str, where: str, buffer: ir.BufferId, lanes: Lanes) -> None:
        mask = self.ops.splat(lanes.mask or literal(True, "bool"), lanes.count)
        align, marks = size(self.facts.buffers[buffer].elem), self.facts.marks[buffer]
        self.text.effect(f"call void @llvm.masked.{how}.{kind}({what}, {where}, i32 {align}, {mask.typed}){marks}")

    # ---- expressions ---------------------------------------------------------------------------
    def evaluate(self, lanes: Lanes, expr: ir.Expr) -> Val:
        """The value of an expression."""
        match expr:
            case ir.Lit(value=value, type=type_):
                return literal(value, type_)
            case ir.Var() | ir.Affine():
                return self._variable(lanes, expr)
            case ir.Load():
                return self.load(lanes, expr)
            case ir.Binary():
                return self._binary(lanes, expr)
            case ir.Reduce():
                return self.reduced(lanes, expr)
            case _:
                return self._composed(lanes, expr)

    def _composed(self, lanes: Lanes, expr: ir.Expr) -> Val:
        match expr:
            case ir.Unary(op=op, operand=operand):
                return self.ops.unary(op, self.evaluate(lanes, operand))
            case ir.Cast(operand=operand, type=to):
                return self.ops.cast(self.evaluate(lanes, operand), to)
            case ir.Call():
                return self._call(expr.name, tuple(self.evaluate(lanes, a) for a in expr.args))
            case ir.Select(cond=cond, then=then, orelse=orelse):
                return self._select(lanes, self.evaluate(lanes, cond), then, orelse)
            case _:
                raise TypeError(f"not an expression: {expr!r}")

    def _variable(self, lanes: Lanes, expr: ir.Var | ir.Affine) -> Val:
        if isinstance(expr, ir.Affine):
            return self.value_of(self.linear(lanes, expr), lanes.count)
        found = self.lookup(lanes, expr.id)
        return found if isinstance(found, Val) else self.value_of(found, lanes.count)

    def _binary(self, lanes: Lanes, expr: ir.Binary) -> Val:
        left = self.evaluate(lanes, expr.left)
        if expr.op in ("&&", "||") and may_fault(expr.right):
            needed = left if expr.op == "&&" else self.ops.unary("!", left)
            return self.ops.binary(expr.op, left, self._evaluate_where(lanes, needed, expr.right))
        right = self.evaluate(lanes, expr.right)
        if expr.op in ("/", "%") and not is_float(expr.type):
            right = self._not_zero(lanes, right)
        return self.ops.binary(expr.op, left, right)

    def _not_zero(self, lanes: Lanes, divisor: Val) -> Val:
        """The divisor, after ending the process if it is zero in a lane that takes part."""
        if not divisor.text.startswith("%") and divisor.text != "0":
            return divisor
        if lanes.mask is not None:
            divisor = self.ops.select(lanes.mask, divisor, literal(1, divisor.elem))
        if self.text.first_time(f"not zero: {divisor.text}"):
            self.check(self.ops.binary("!=", divisor, literal(0, divisor.elem)), "division by zero")
        return divisor

    def check(self, cond: Val, message: str) -> None:
        """Ends the process with a message unless all lanes hold."""
        held = self.ops.all_lanes(cond)
        self.text.unless_abort(held.text, f"call void @vx_abort(ptr {self.library.message(message)})")

    def _evaluate_where(self, lanes: Lanes, cond: Val, expr: ir.Expr) -> Val:
        """The value in the lanes where `cond` holds; elsewhere it is not computed, and arbitrary."""
        if not may_fault(expr):
            return self.evaluate(lanes, expr)
        return self.evaluate(lanes.masked(self.ops.both(lanes.mask, cond)), expr)

    def _select(self, lanes: Lanes, cond: Val, then: ir.Expr, orelse: ir.Expr) -> Val:
        a = self._evaluate_where(lanes, cond, then)
        b = (
            self._evaluate_where(lanes, self.ops.unary("!", cond), orelse)
            if may_fault(orelse)
            else self.evaluate(lanes, orelse)
        )
        return self.ops.select(cond, a, b)

    # ---- math ----------------------------------------------------------------------------------
    def _call(self, name: str, args: tuple[Val, ...]) -> Val:
        elem = args[0].elem
        if elem in HALVES:
            result = self._call(name, tuple(self.ops.widened(a) for a in args))
            return result if result.elem == "bool" else self.ops.narrowed(result, elem)
        if not is_float(elem):
            return self._integer_call(name, args)
        if name in _INTRINSICS:
            return self.ops.intrinsic(_INTRINSICS[name], *args)
        match name:
            case "is_nan":
                return Val(self.text.op(f"fcmp uno {args[0].typed}, {args[0].text}"), "bool", args[0].lanes)
            case "rsqrt":
                return self.ops.binary("/", literal(1, elem), self.ops.intrinsic("sqrt", *args))
            case "round":
                return self._rounded(args[0])
        return self._function(name, args)

    def _integer_call(self, name: str, args: tuple[Val, ...]) -> Val:
        if name == "abs":
            return args[0] if is_unsigned(args[0].elem) else self._absolute(args[0])
        if name == "mul_add":
            return self.ops.binary("+", self.ops.binary("*", args[0], args[1]), args[2])
        return self.ops.pick(name, *args)

    def _absolute(self, v: Val) -> Val:
        kind = suffix(register(v.elem), v.lanes)
        return Val(self.text.op(f"call {v.type} @llvm.abs.{kind}({v.typed}, i1 false)"), v.elem, v.lanes)

    def _rounded(self, v: Val) -> Val:
        """To the nearest integer, halves away from zero: adding just less than a half keeps 0.49999997 down."""
        below_half = 0.49999997019767761 if v.elem == "f32" else 0.49999999999999994
        half = self.ops.intrinsic("copysign", self.ops.splat(literal(below_half, v.elem), v.lanes), v)
        return self.ops.intrinsic("trunc", Val(self.text.op(f"fadd {v.typed}, {half.text}"), v.elem, v.lanes))

    def _function(self, name: str, args: tuple[Val, ...]) -> Val:
        args = self.ops.alike(*args)
        elem, lanes = args[0].elem, args[0].lanes
        if elem == "f32" and name in vecmath.NAMES:
            symbol = self.library.math(name, lanes, self.have)
            operands = ", ".join(a.typed for a in args)
            return Val(self.text.op(f"call {args[0].type} {symbol}({operands})"), elem, lanes)
        c_name = _C_NAMES.get(name, name) + ("f" if elem == "f32" else "")
        type_ = register(elem)
        symbol = self.library.external(c_name, type_, len(args))
        values = []
        for lane in range(lanes):
            operands = ", ".join(self.ops.lane(a, lane).typed for a in args)
            values.append(Val(self.text.op(f"call {type_} {symbol}({operands})"), elem))
        return self.ops.gathered(values)


def _index_of(v: Val) -> Linear:
    return scalar_index(v.text) if v.lanes == 1 else Linear(vectors=((1, v.text),))


def _age(name: str) -> int:
    """Values are numbered as they are made: the newest belongs to the innermost loop."""
    return int(name[2:]) if name[2:].isdigit() else 0
