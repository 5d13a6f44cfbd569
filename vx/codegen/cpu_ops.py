"""Arithmetic on scalars and vectors as LLVM text: operators, conversions, choices.

Enters: operands (`Val`). Leaves: operands; a scalar meets a vector as a copy in every lane. 16-bit floats
are widened to f32 for every operation and rounded after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from vx.codegen.cpu_text import FunctionText
from vx.codegen.cpu_values import (
    FLOAT_TYPES,
    HALVES,
    Features,
    Val,
    is_float,
    is_unsigned,
    literal,
    of_lanes,
    register,
    size,
    suffix,
)

FLAGS = "reassoc nsz contract"
"""What float arithmetic may do: reorder sums and fuse products. Infinities and NaN keep their meaning."""

_FLOAT_OPS: Mapping[str, str] = MappingProxyType({"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv", "%": "frem"})
_INT_OPS: Mapping[str, str] = MappingProxyType({"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"})
_LOGIC: Mapping[str, str] = MappingProxyType({"&&": "and", "||": "or", "&": "and", "|": "or", "^": "xor"})
_COMPARE: Mapping[str, str] = MappingProxyType({"==": "eq", "!=": "ne", "<": "lt", ">": "gt", "<=": "le", ">=": "ge"})


class Ops:
    """Writes arithmetic into one function for one processor level."""

    def __init__(self, text: FunctionText, have: Features) -> None:
        self.text = text
        self.have = have
        self._parts: dict[str, tuple[Val, int]] = {}

    # ---- shapes --------------------------------------------------------------------------------
    def splat(self, v: Val, lanes: int) -> Val:
        """The scalar in every lane."""
        if v.lanes == lanes:
            return v
        if not v.text.startswith("%"):
            return Val(f"splat ({register(v.elem)} {v.text})", v.elem, lanes)
        type_ = of_lanes(register(v.elem), lanes)
        first = self.text.op(f"insertelement {type_} poison, {v.typed}, i64 0")
        return Val(
            self.text.op(f"shufflevector {type_} {first}, {type_} poison, <{lanes} x i32> zeroinitializer"),
            v.elem,
            lanes,
        )

    def alike(self, *values: Val) -> tuple[Val, ...]:
        """All with the number of lanes of the widest."""
        lanes = max(v.lanes for v in values)
        return tuple(self.splat(v, lanes) for v in values)

    def lane(self, v: Val, index: int) -> Val:
        """One lane of a vector; a scalar is its own."""
        if v.lanes == 1:
            return v
        part = Val(self.text.op(f"extractelement {v.typed}, i64 {index}"), v.elem)
        self._parts[part.text] = (v, index)
        return part

    def gathered(self, values: Sequence[Val]) -> Val:
        """The vector of these scalars."""
        if len(values) == 1:
            return values[0]
        parts = [self._parts.get(v.text) for v in values]
        whole = parts[0][0] if parts[0] is not None else None
        if whole is not None and all(p is not None and p[0] == whole for p in parts):
            picks = [p[1] for p in parts if p is not None]
            return whole if picks == list(range(whole.lanes)) else self.shuffle(whole, whole, picks)
        type_ = of_lanes(register(values[0].elem), len(values))
        name = "poison"
        for i, v in enumerate(values):
            name = self.text.op(f"insertelement {type_} {name}, {v.typed}, i64 {i}")
        return Val(name, values[0].elem, len(values))

    def shuffle(self, a: Val, b: Val, lanes: Sequence[int]) -> Val:
        """The named lanes of `a` followed by `b`."""
        picks = ", ".join(f"i32 {i}" for i in lanes)
        text = self.text.op(f"shufflevector {a.typed}, {b.typed}, <{len(lanes)} x i32> <{picks}>")
        return Val(text, a.elem, len(lanes))

    # ---- 16-bit floats -------------------------------------------------------------------------
    def widened(self, v: Val) -> Val:
        """A 16-bit float as f32 (exact); anything else as it is."""
        if v.elem == "bf16":
            wide, lanes = of_lanes("i32", v.lanes), v.lanes
            bits = self.text.op(f"zext {v.typed} to {wide}")
            high = self.text.op(f"shl {wide} {bits}, {literal(16, 'i32', lanes).text}")
            return Val(self.text.op(f"bitcast {wide} {high} to {of_lanes('float', lanes)}"), "f32", lanes)
        if v.elem != "f16":
            return v
        if not self.have.halves:
            return self._widened_by_hand(v)
        half = of_lanes("half", v.lanes)
        bits = self.text.op(f"bitcast {v.typed} to {half}")
        return Val(self.text.op(f"fpext {half} {bits} to {of_lanes('float', v.lanes)}"), "f32", v.lanes)

    def _widened_by_hand(self, v: Val) -> Val:
        """Shifting the exponent into place scales by 2^-112; infinities and NaN need a full exponent."""
        lanes, wide, real = v.lanes, of_lanes("i32", v.lanes), of_lanes("float", v.lanes)
        op = self.text.op
        bits = op(f"zext {v.typed} to {wide}")
        size_bits = op(f"and {wide} {bits}, {literal(0x7FFF, 'i32', lanes).text}")
        shifted = op(f"shl {wide} {size_bits}, {literal(13, 'i32', lanes).text}")
        scaled = op(f"fmul {real} {op(f'bitcast {wide} {shifted} to {real}')}, {literal(2.0**112, 'f32', lanes).text}")
        full = op(f"or {wide} {shifted}, {literal(0x7F800000, 'i32', lanes).text}")
        special = op(f"icmp uge {wide} {size_bits}, {literal(0x7C00, 'i32', lanes).text}")
        flag = of_lanes("i1", lanes)
        value = op(f"select {flag} {special}, {wide} {full}, {wide} {op(f'bitcast {real} {scaled} to {wide}')}")
        sign = op(f"shl {wide} {op(f'xor {wide} {bits}, {size_bits}')}, {literal(16, 'i32', lanes).text}")
        return Val(op(f"bitcast {wide} {op(f'or {wide} {value}, {sign}')} to {real}"), "f32", lanes)

    def narrowed(self, v: Val, elem: str) -> Val:
        """An f32 as a 16-bit float, rounded to nearest even, NaN kept."""
        if elem == "bf16":
            return self._narrowed_bf16(v)
        if not self.have.halves:
            return self._narrowed_by_hand(v)
        half = of_lanes("half", v.lanes)
        bits = self.text.op(f"fptrunc {v.typed} to {half}")
        return Val(self.text.op(f"bitcast {half} {bits} to {of_lanes('i16', v.lanes)}"), "f16", v.lanes)

    def _narrowed_bf16(self, v: Val) -> Val:
        lanes, wide = v.lanes, of_lanes("i32", v.lanes)
        op = self.text.op
        bits = op(f"bitcast {v.typed} to {wide}")
        top = op(f"lshr {wide} {bits}, {literal(16, 'i32', lanes).text}")
        odd = op(f"and {wide} {top}, {literal(1, 'i32', lanes).text}")
        bias = op(f"add {wide} {odd}, {literal(0x7FFF, 'i32', lanes).text}")
        rounded = op(f"lshr {wide} {op(f'add {wide} {bits}, {bias}')}, {literal(16, 'i32', lanes).text}")
        quiet = op(f"or {wide} {top}, {literal(0x40, 'i32', lanes).text}")
        nan = op(f"fcmp uno {v.typed}, {v.text}")
        chosen = op(f"select {of_lanes('i1', lanes)} {nan}, {wide} {quiet}, {wide} {rounded}")
        return Val(op(f"trunc {wide} {chosen} to {of_lanes('i16', lanes)}"), "bf16", lanes)

    def _narrowed_by_hand(self, v: Val) -> Val:
        """f16 without hardware: below 2^-14 an addition rounds, above it the bits do."""
        lanes, wide, real, flag = v.lanes, of_lanes("i32", v.lanes), of_lanes("float", v.lanes), of_lanes("i1", v.lanes)
        op = self.text.op

        def number(value: int) -> str:
            return literal(value, "i32", lanes).text

        bits = op(f"bitcast {v.typed} to {wide}")
        size_bits = op(f"and {wide} {bits}, {number(0x7FFFFFFF)}")
        small = op(f"fadd {real} {op(f'bitcast {wide} {size_bits} to {real}')}, {literal(0.5, 'f32', lanes).text}")
        subnormal = op(f"sub {wide} {op(f'bitcast {real} {small} to {wide}')}, {number(0x3F000000)}")
        odd = op(f"and {wide} {op(f'lshr {wide} {size_bits}, {number(13)}')}, {number(1)}")
        biased = op(f"add {wide} {size_bits}, {number(0xFFF - (112 << 23))}")
        normal = op(f"lshr {wide} {op(f'add {wide} {biased}, {odd}')}, {number(13)}")
        is_small = op(f"icmp ult {wide} {size_bits}, {number(113 << 23)}")
        finite = op(f"select {flag} {is_small}, {wide} {subnormal}, {wide} {normal}")
        nan = op(f"icmp ugt {wide} {size_bits}, {number(0x7F800000)}")
        payload = op(f"or {wide} {op(f'lshr {wide} {size_bits}, {number(13)}')}, {number(0x7E00)}")
        quiet = op(f"and {wide} {payload}, {number(0x7FFF)}")
        endless = op(f"select {flag} {nan}, {wide} {quiet}, {wide} {number(0x7C00)}")
        huge = op(f"icmp uge {wide} {size_bits}, {number(143 << 23)}")
        value = op(f"select {flag} {huge}, {wide} {endless}, {wide} {finite}")
        sign = op(f"lshr {wide} {op(f'xor {wide} {bits}, {size_bits}')}, {number(16)}")
        return Val(op(f"trunc {wide} {op(f'or {wide} {value}, {sign}')} to {of_lanes('i16', lanes)}"), "f16", lanes)

    # ---- operators -----------------------------------------------------------------------------
    def binary(self, op: str, a: Val, b: Val) -> Val:
        """`+ - * / %`, bits, shifts, comparisons and logic; division by zero is the caller's to refuse."""
        a, b = self.alike(a, b)
        if op in _COMPARE:
            return self._compared(op, a, b)
        if a.elem == "bool":
            return Val(self.text.op(f"{_LOGIC[op]} {a.typed}, {b.text}"), "bool", a.lanes)
        if a.elem in HALVES:
            return self.narrowed(self.binary(op, self.widened(a), self.widened(b)), a.elem)
        if is_float(a.elem):
            return Val(self.text.op(f"{_FLOAT_OPS[op]} {FLAGS} {a.typed}, {b.text}"), a.elem, a.lanes)
        if op in _INT_OPS:
            return Val(self.text.op(f"{_INT_OPS[op]} {a.typed}, {b.text}"), a.elem, a.lanes)
        return self._shifted(op, a, b) if op in ("<<", ">>") else self._divided(op, a, b)

    def _compared(self, op: str, a: Val, b: Val) -> Val:
        a, b = self.widened(a), self.widened(b)
        name = _COMPARE[op]
        if is_float(a.elem):
            kind = f"fcmp {'une' if name == 'ne' else 'o' + name}"
        elif name in ("eq", "ne"):
            kind = f"icmp {name}"
        else:
            kind = f"icmp {'u' if is_unsigned(a.elem) or a.elem == 'bool' else 's'}{name}"
        return Val(self.text.op(f"{kind} {a.typed}, {b.text}"), "bool", a.lanes)

    def _shifted(self, op: str, a: Val, b: Val) -> Val:
        within = literal(size(a.elem) * 8 - 1, a.elem, a.lanes)
        count = self.text.op(f"and {b.typed}, {within.text}")
        name = "shl" if op == "<<" else "lshr" if is_unsigned(a.elem) else "ashr"
        return Val(self.text.op(f"{name} {a.typed}, {count}"), a.elem, a.lanes)

    def _divided(self, op: str, a: Val, b: Val) -> Val:
        """Quotient or remainder; the least value divided by -1 wraps."""
        name = "div" if op == "/" else "rem"
        if is_unsigned(a.elem):
            return Val(self.text.op(f"u{name} {a.typed}, {b.text}"), a.elem, a.lanes)
        if not b.text.startswith("%"):
            return Val(self.text.op(f"s{name} {a.typed}, {b.text}"), a.elem, a.lanes)
        minus = self.binary("==", b, literal(-1, b.elem))
        divisor = self.select(minus, literal(1, b.elem), b)
        result = Val(self.text.op(f"s{name} {a.typed}, {divisor.text}"), a.elem, a.lanes)
        wrapped = self.binary("-", literal(0, a.elem), a) if op == "/" else literal(0, a.elem)
        return self.select(minus, wrapped, result)

    def unary(self, op: str, v: Val) -> Val:
        if op == "!":
            every = literal(True if v.elem == "bool" else -1, v.elem, v.lanes)
            return Val(self.text.op(f"xor {v.typed}, {every.text}"), v.elem, v.lanes)
        if v.elem in HALVES:
            return self.binary("^", Val(v.text, "u16", v.lanes), literal(0x8000, "u16")).as_elem(v.elem)
        if is_float(v.elem):
            return Val(self.text.op(f"fneg {v.typed}"), v.elem, v.lanes)
        return self.binary("-", literal(0, v.elem), v)

    def select(self, cond: Val, then: Val, orelse: Val) -> Val:
        if cond.lanes == 1:
            then, orelse = self.alike(then, orelse)
        else:
            cond, then, orelse = self.alike(cond, then, orelse)
        if then.text == orelse.text:
            return then
        text = self.text.op(f"select {cond.typed}, {then.typed}, {orelse.typed}")
        return Val(text, then.elem, then.lanes)

    def both(self, a: Val | None, b: Val) -> Val:
        """`a` and `b`, where no `a` is always true."""
        return b if a is None else self.binary("&&", a, b)

    def any_lane(self, v: Val) -> Val:
        return self._folded("or", v)

    def all_lanes(self, v: Val) -> Val:
        return self._folded("and", v)

    def _folded(self, name: str, v: Val) -> Val:
        if v.lanes == 1:
            return v
        return Val(self.text.op(f"call i1 @llvm.vector.reduce.{name}.v{v.lanes}i1({v.typed})"), "bool")

    def pick(self, op: str, a: Val, b: Val) -> Val:
        """Accumulates: a + b, or the greater or the lesser; a NaN in `b` loses."""
        if op == "add":
            return self.binary("+", a, b)
        a, b = self.alike(a, b)
        return self.select(self.binary(">" if op == "max" else "<", b, a), b, a)

    def intrinsic(self, name: str, *args: Val) -> Val:
        """An LLVM intrinsic on one float or integer type."""
        args = self.alike(*args)
        first = args[0]
        operands = ", ".join(a.typed for a in args)
        kind = suffix(register(first.elem), first.lanes)
        return Val(self.text.op(f"call {first.type} @llvm.{name}.{kind}({operands})"), first.elem, first.lanes)

    # ---- sums across lanes ---------------------------------------------------------------------
    def fold_rows(self, op: str, rows: Sequence[Val]) -> list[Val]:
        """Each row's lanes folded to one value. The tree over the lanes is the same for every number of
        rows: halves first, then quarters; several rows share the additions."""
        values: list[Val] = []
        rest = list(rows)
        while rest:
            count = min(1 << (len(rest).bit_length() - 1), rest[0].lanes)
            values += self._fold_some(op, rest[:count])
            rest = rest[count:]
        return values

    def _fold_some(self, op: str, rows: Sequence[Val]) -> list[Val]:
        """A power of two of rows, at most as many as lanes."""
        lanes = rows[0].lanes
        vectors = list(rows)
        order = [[number] for number in range(len(rows))]
        width = lanes
        while width > 1:
            width //= 2
            if len(vectors) == 1:
                partner = [lane ^ width for lane in range(lanes)]
                vectors = [self.pick(op, vectors[0], self.shuffle(vectors[0], vectors[0], partner))]
                continue
            pairs = len(vectors) // 2
            joined = [self._halved(op, vectors[n], vectors[n + pairs], width) for n in range(pairs)]
            order = [_interleaved(order[n], order[n + pairs], width * size(rows[0].elem)) for n in range(pairs)]
            vectors = joined
        block = lanes // len(rows)
        where = {row: slot * block for slot, row in enumerate(order[0])}
        return [self.lane(vectors[0], where[row]) for row in range(len(rows))]

    def _halved(self, op: str, a: Val, b: Val, width: int) -> Val:
        """Blocks of 2 * width lanes of two vectors, each block folded to width."""
        low = _halves(a.lanes, width, width * size(a.elem))
        return self.pick(op, self.shuffle(a, b, low), self.shuffle(a, b, [lane + width for lane in low]))

    # ---- conversions ---------------------------------------------------------------------------
    def cast(self, v: Val, to: str) -> Val:
        """Float to integer truncates and saturates, integers wrap, everything else rounds to nearest."""
        if v.elem == to:
            return v
        if v.elem in HALVES:
            return self.cast(self.widened(v), to)
        if to in HALVES:
            return self.narrowed(self._nearly_f32(v), to)
        if to == "bool":
            return self.binary("!=", v, literal(0, v.elem))
        if is_float(v.elem):
            return self._from_float(v, to)
        return self._from_integer(v, to)

    def _nearly_f32(self, v: Val) -> Val:
        """As f32, rounded such that rounding again to 16 bits equals rounding once."""
        if v.elem == "f32":
            return v
        if not is_float(v.elem) and (v.elem == "bool" or size(v.elem) <= 2):
            return self.cast(v, "f32")
        wide = v if v.elem == "f64" else self.cast(v, "f64")
        return self._rounded_to_odd(wide)

    def _rounded_to_odd(self, v: Val) -> Val:
        lanes, bits = v.lanes, of_lanes("i32", v.lanes)
        op = self.text.op
        near = Val(op(f"fptrunc {v.typed} to {of_lanes('float', lanes)}"), "f32", lanes)
        back = Val(op(f"fpext {near.typed} to {v.type}"), "f64", lanes)
        inexact = op(f"fcmp one {back.typed}, {v.text}")
        beyond = self.binary(">", self.intrinsic("fabs", back), self.intrinsic("fabs", v))
        whole = op(f"bitcast {near.typed} to {bits}")
        down = op(f"sub {bits} {whole}, {op(f'zext {beyond.typed} to {bits}')}")
        sticky = op(f"zext {of_lanes('i1', lanes)} {inexact} to {bits}")
        odd = op(f"or {bits} {down}, {sticky}")
        return Val(op(f"bitcast {bits} {odd} to {near.type}"), "f32", lanes)

    def _from_float(self, v: Val, to: str) -> Val:
        target = of_lanes(register(to), v.lanes)
        if is_float(to):
            name = "fpext" if to == "f64" else "fptrunc"
            return Val(self.text.op(f"{name} {v.typed} to {target}"), to, v.lanes)
        name = "fptoui" if is_unsigned(to) else "fptosi"
        kinds = f"{suffix(register(to), v.lanes)}.{suffix(FLOAT_TYPES[v.elem], v.lanes)}"
        return Val(self.text.op(f"call {target} @llvm.{name}.sat.{kinds}({v.typed})"), to, v.lanes)

    def _from_integer(self, v: Val, to: str) -> Val:
        target = of_lanes(register(to), v.lanes)
        unsigned = is_unsigned(v.elem) or v.elem == "bool"
        if is_float(to):
            return Val(self.text.op(f"{'u' if unsigned else 's'}itofp {v.typed} to {target}"), to, v.lanes)
        if v.elem != "bool" and size(v.elem) == size(to):
            return Val(v.text, to, v.lanes)
        if v.elem != "bool" and size(v.elem) > size(to):
            return Val(self.text.op(f"trunc {v.typed} to {target}"), to, v.lanes)
        return Val(self.text.op(f"{'zext' if unsigned else 'sext'} {v.typed} to {target}"), to, v.lanes)


_REGISTER_LANE = 16
"""Bytes within which x86 shuffles are cheap."""


def _halves(lanes: int, width: int, bytes_: int) -> list[int]:
    """Where the first halves of the blocks of two vectors stand: both vectors' blocks of one 16-byte part
    together when a half is smaller than that, else one vector after the other."""
    starts = list(range(0, lanes, 2 * width))
    if bytes_ >= _REGISTER_LANE:
        blocks = starts + [lanes + s for s in starts]
    else:
        per_part = max(_REGISTER_LANE // (2 * bytes_), 1)
        blocks = []
        for first in range(0, len(starts), per_part):
            part = starts[first : first + per_part]
            blocks += part + [lanes + s for s in part]
    return [block + lane for block in blocks for lane in range(width)]


def _interleaved(a: list[int], b: list[int], bytes_: int) -> list[int]:
    """The rows that the blocks of `_halved` belong to."""
    if bytes_ >= _REGISTER_LANE:
        return a + b
    per_part = max(_REGISTER_LANE // (2 * bytes_), 1)
    rows: list[int] = []
    for first in range(0, len(a), per_part):
        rows += a[first : first + per_part] + b[first : first + per_part]
    return rows
