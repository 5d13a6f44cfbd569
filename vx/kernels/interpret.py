"""Runs a region directly, one element at a time: the oracle that generated code is compared with.

Enters: a `Region`, one flat array per tensor parameter, one number per scalar parameter. Leaves: the arrays
changed in place, and the final values of `out` scalars. Integers wrap as they do in Vx; floats are computed
in f64, so that results are better than any rounding the generated code may choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from types import MappingProxyType

from vx.kernels import ir
from vx.sema.tree import FLOATS, SIGNED, UNSIGNED

Number = int | float | bool


class Stopped(Exception):
    """The region ended the process; the message says why."""


class Interpreter:
    """The state of one run: buffers by id and scalars by id."""

    def __init__(self, region: ir.Region) -> None:
        self.region = region
        self.buffers: MutableMapping[ir.BufferId, MutableSequence[Number]] = {}
        self.scalars: MutableMapping[ir.VarId, Number] = {}
        self._lengths = {b.id: b.length or 0 for b in region.buffers}
        self._elems = {b.id: b.elem for b in region.buffers}

    # ---- statements ----------------------------------------------------------------------------
    def run(self, stmts: Sequence[ir.Stmt]) -> None:
        for stmt in stmts:
            self._statement(stmt)

    def _statement(self, stmt: ir.Stmt) -> None:
        match stmt:
            case ir.Let(var=var, value=value) | ir.Set(var=var, value=value):
                self.scalars[var.id] = self.value(value)
            case ir.Store(buffer=buffer, offset=offset, value=value):
                self.buffers[buffer][self._index(buffer, offset)] = self.value(value)
            case ir.Alloc(buffer=buffer):
                self.buffers[buffer] = [math.nan if self._elems[buffer] in FLOATS else 0] * self._lengths[buffer]
            case ir.Check(cond=cond, message=message):
                if not self.value(cond):
                    raise Stopped(message)
            case ir.Launch(kernel=kernel):
                for segment in self.region.kernels[kernel].segments:
                    self._axes(segment.axes, segment.body)
            case _:
                self._control(stmt)

    def _control(self, stmt: ir.Stmt) -> None:
        match stmt:
            case ir.For(var=var, low=low, high=high, body=body):
                self._axes((ir.Axis(var, low, high),), body)
            case ir.While(cond=cond, body=body):
                while self.value(cond):
                    self.run(body)
            case ir.If(cond=cond, then=then, orelse=orelse):
                self.run(then if self.value(cond) else orelse)
            case ir.ArgReduce():
                self._arg_reduce(stmt)

    def _axes(self, axes: Sequence[ir.Axis], body: Sequence[ir.Stmt]) -> None:
        if not axes:
            self.run(body)
            return
        for i in range(int(self.value(axes[0].low)), int(self.value(axes[0].high))):
            self.scalars[axes[0].var.id] = i
            self._axes(axes[1:], body)

    def _arg_reduce(self, stmt: ir.ArgReduce) -> None:
        for i in range(int(self.value(stmt.low)), int(self.value(stmt.high))):
            self.scalars[stmt.var.id] = i
            value, best = self.value(stmt.value), self.scalars[stmt.best.id]
            if value > best if stmt.op == "max" else value < best:
                self.scalars[stmt.best.id] = value
                self.scalars[stmt.at.id] = self.value(stmt.index)

    def _index(self, buffer: ir.BufferId, offset: ir.Affine) -> int:
        index = int(self.value(offset))
        if not 0 <= index < len(self.buffers[buffer]):
            raise Stopped(f"element {index} of buffer {buffer} with {len(self.buffers[buffer])}")
        return index

    # ---- expressions ---------------------------------------------------------------------------
    def value(self, expr: ir.Expr) -> Number:
        match expr:
            case ir.Lit(value=value):
                return value
            case ir.Var(id=var):
                return self.scalars[var]
            case ir.Affine(const=const, terms=terms):
                return const + sum(c * int(self.value(atom)) for c, atom in terms)
            case ir.Load(buffer=buffer, offset=offset):
                return self.buffers[buffer][self._index(buffer, offset)]
            case ir.Select(cond=cond, then=then, orelse=orelse):
                return self.value(then if self.value(cond) else orelse)
            case ir.Reduce():
                return self._reduce(expr)
            case _:
                return self._computed(expr)

    def _computed(self, expr: ir.Expr) -> Number:
        match expr:
            case ir.Unary(op=op, operand=operand, type=to):
                x = self.value(operand)
                return (not x if to == "bool" else wrapped(~int(x), to)) if op == "!" else wrapped(-x, to)
            case ir.Cast(operand=operand, type=to):
                return cast(self.value(operand), to)
            case ir.Call(name=name, args=args, type=to):
                return wrapped(call(name, [self.value(a) for a in args]), to)
            case ir.Binary(op=op, left=left, right=right, type=to):
                a = self.value(left)
                if op in ("&&", "||") and bool(a) != (op == "&&"):
                    return bool(a)
                return wrapped(binary(op, a, self.value(right), _bits(left)), to)
        raise TypeError(f"not an expression: {expr!r}")

    def _reduce(self, expr: ir.Reduce) -> Number:
        values = []
        for i in range(int(self.value(expr.low)), int(self.value(expr.high))):
            self.scalars[expr.var.id] = i
            values.append(self.value(expr.body))
        if expr.op == "add":
            return math.fsum(values) if expr.type in FLOATS else wrapped(sum(values), expr.type)
        return (max if expr.op == "max" else min)([least_or_greatest(expr.op, expr.type), *values])


def _bits(expr: ir.Expr) -> int:
    name = "i64" if isinstance(expr, ir.Affine) else expr.type
    return SIGNED.get(name) or UNSIGNED.get(name) or 64


def least_or_greatest(op: str, elem: str) -> Number:
    """What the maximum ("max") or minimum of nothing is."""
    if elem in FLOATS:
        return -math.inf if op == "max" else math.inf
    if elem in UNSIGNED:
        return 0 if op == "max" else (1 << UNSIGNED[elem]) - 1
    bits = SIGNED[elem]
    return -(1 << (bits - 1)) if op == "max" else (1 << (bits - 1)) - 1


def wrapped(value: Number, elem: str) -> Number:
    """An integer brought into its type's range; a float or bool as it is."""
    bits = SIGNED.get(elem) or UNSIGNED.get(elem)
    if bits is None:
        return bool(value) if elem == "bool" else float(value)
    low = int(value) & ((1 << bits) - 1)
    return low - (1 << bits) if elem in SIGNED and low >> (bits - 1) else low


def cast(value: Number, to: str) -> Number:
    """`value as to`: floats truncate and saturate to integers, integers wrap."""
    if not isinstance(value, float) or to in FLOATS or to == "bool":
        return wrapped(value, to)
    if math.isnan(value):
        return 0
    low, high = least_or_greatest("max", to), least_or_greatest("min", to)
    return max(low, min(high, value if math.isinf(value) else math.trunc(value)))


def binary(op: str, a: Number, b: Number, bits: int) -> Number:
    """An operator on two numbers of one type; integer results are still to be wrapped."""
    if op in ("/", "%") and not isinstance(a, float):
        return _divided(op, int(a), int(b))
    if op in ("<<", ">>"):
        count = int(b) % bits
        return int(a) << count if op == "<<" else int(a) >> count
    return _BINARY[op](a, b)


def _divided(op: str, a: int, b: int) -> int:
    if b == 0:
        raise Stopped("division by zero")
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient if op == "/" else a - quotient * b


def _real_quotient(a: Number, b: Number) -> float:
    if b != 0 or a != a:
        return a / b
    return math.nan if a == 0 else math.copysign(math.inf, a) * math.copysign(1.0, b)


_BINARY: Mapping[str, Callable[[Number, Number], Number]] = MappingProxyType(
    {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": _real_quotient,
        "%": lambda a, b: math.fmod(a, b) if b != 0 else math.nan,
        "&": lambda a, b: int(a) & int(b),
        "|": lambda a, b: int(a) | int(b),
        "^": lambda a, b: int(a) ^ int(b),
        "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
        "<": lambda a, b: a < b,
        ">": lambda a, b: a > b,
        "<=": lambda a, b: a <= b,
        ">=": lambda a, b: a >= b,
        "&&": lambda a, b: bool(a) and bool(b),
        "||": lambda a, b: bool(a) or bool(b),
    }
)


def call(name: str, args: Sequence[Number]) -> Number:
    """A math function; outside its domain NaN or infinity, as in C."""
    try:
        return _CALLS[name](*args)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _logarithm(log: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: -math.inf if x == 0 else log(x)


def _rounded(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


_CALLS: Mapping[str, Callable[..., Number]] = MappingProxyType(
    {
        "sqrt": math.sqrt,
        "rsqrt": lambda x: math.inf if x == 0 else 1 / math.sqrt(x),
        "exp": math.exp,
        "exp2": lambda x: 2.0**x,
        "ln": _logarithm(math.log),
        "log2": _logarithm(math.log2),
        "log10": _logarithm(math.log10),
        "sin": math.sin,
        "cos": math.cos,
        "tan": math.tan,
        "tanh": math.tanh,
        "erf": math.erf,
        "abs": abs,
        "floor": math.floor,
        "ceil": math.ceil,
        "round": _rounded,
        "trunc": math.trunc,
        "pow": math.pow,
        "atan2": math.atan2,
        "min": min,
        "max": max,
        "mul_add": lambda a, b, c: a * b + c,
        "is_nan": lambda x: x != x,
    }
)


def interpret(
    region: ir.Region, tensors: Sequence[MutableSequence[Number]], scalars: Sequence[Number]
) -> dict[ir.VarId, Number]:
    """Runs the region on its tensor parameters (changed in place) and scalar parameters, each in the order
    of `region.params`. Raises `Stopped` where the compiled region would end the process."""
    state = Interpreter(region)
    flat, numbers = iter(tensors), iter(scalars)
    outs: list[ir.VarId] = []
    for param in region.params:
        if isinstance(param, ir.TensorParam):
            state.buffers[param.buffer] = next(flat)
        else:
            state.scalars[param.var.id] = next(numbers)
            outs += [param.var.id] if param.out else []
    for buffer in region.buffers:
        if buffer.kind == "scratch":
            state._statement(ir.Alloc(buffer.id))
    state.run(region.body)
    return {var: state.scalars[var] for var in outs}
