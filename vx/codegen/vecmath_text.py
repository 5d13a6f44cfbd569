"""What vector math functions are written with: arithmetic without reordering, so that a function gives the
same bits in every lane and for every number of lanes.

Enters: operands. Leaves: operands, and the text of a function.
"""

from __future__ import annotations

from collections.abc import Sequence

from vx.codegen.cpu_text import FunctionText
from vx.codegen.cpu_values import Val, literal, of_lanes, register, suffix


class MathText:
    """One function on `lanes` values at once. A product and a sum become one instruction where the
    processor has it; nothing else is fused or reordered."""

    def __init__(self, header: str, lanes: int) -> None:
        self.text = FunctionText(header)
        self.lanes = lanes

    def type(self, elem: str) -> str:
        return of_lanes(register(elem), self.lanes)

    def const(self, value: float, elem: str = "f32") -> Val:
        return literal(value, elem, self.lanes)

    def _like(self, value: Val | float, other: Val) -> Val:
        return value if isinstance(value, Val) else self.const(value, other.elem)

    def _two(self, name: str, a: Val, b: Val | float) -> Val:
        return Val(self.text.op(f"{name} {a.typed}, {self._like(b, a).text}"), a.elem, self.lanes)

    # ---- arithmetic ----------------------------------------------------------------------------
    def add(self, a: Val, b: Val | float) -> Val:
        return self._two("fadd", a, b)

    def sub(self, a: Val, b: Val | float) -> Val:
        return self._two("fsub", a, b)

    def mul(self, a: Val, b: Val | float) -> Val:
        return self._two("fmul", a, b)

    def div(self, a: Val, b: Val | float) -> Val:
        return self._two("fdiv", a, b)

    def integer(self, name: str, a: Val, b: int) -> Val:
        """`add`, `sub`, `and`, `shl`, `lshr`, `ashr`, `or` with a constant."""
        return self._two(name, a, b)

    def both(self, name: str, a: Val, b: Val) -> Val:
        """An integer instruction on two values."""
        return self._two(name, a, b)

    def mad(self, a: Val, b: Val | float, c: Val | float) -> Val:
        """a * b + c."""
        b, c = self._like(b, a), self._like(c, a)
        kind = suffix(register(a.elem), self.lanes)
        text = self.text.op(f"call {a.type} @llvm.fmuladd.{kind}({a.typed}, {b.typed}, {c.typed})")
        return Val(text, a.elem, self.lanes)

    def polynomial(self, x: Val, coefficients: Sequence[float]) -> Val:
        """By Horner's rule; coefficients from the constant one up."""
        total = self.const(coefficients[-1], x.elem)
        for coefficient in reversed(coefficients[:-1]):
            total = self.mad(total, x, coefficient)
        return total

    def unary(self, name: str, a: Val) -> Val:
        """An intrinsic of one float: `fabs`, `sqrt`."""
        return Val(
            self.text.op(f"call {a.type} @llvm.{name}.{suffix(register(a.elem), self.lanes)}({a.typed})"),
            a.elem,
            self.lanes,
        )

    def signed_like(self, a: Val, sign: Val) -> Val:
        kind = suffix(register(a.elem), self.lanes)
        text = self.text.op(f"call {a.type} @llvm.copysign.{kind}({a.typed}, {sign.typed})")
        return Val(text, a.elem, self.lanes)

    # ---- choices and conversions ---------------------------------------------------------------
    def compare(self, kind: str, a: Val, b: Val | float) -> Val:
        """`fcmp` or `icmp` with its condition."""
        return Val(self._two(kind, a, b).text, "bool", self.lanes)

    def select(self, cond: Val, then: Val, orelse: Val) -> Val:
        return Val(self.text.op(f"select {cond.typed}, {then.typed}, {orelse.typed}"), then.elem, self.lanes)

    def clamped(self, x: Val, low: float, high: float) -> Val:
        """Into low..high; NaN stays."""
        x = self.select(self.compare("fcmp olt", x, low), self.const(low, x.elem), x)
        return self.select(self.compare("fcmp ogt", x, high), self.const(high, x.elem), x)

    def to(self, name: str, a: Val, elem: str) -> Val:
        """`bitcast`, `fpext`, `fptrunc`, `trunc`, `sitofp`, …"""
        return Val(self.text.op(f"{name} {a.typed} to {self.type(elem)}"), elem, self.lanes)

    def nearest(self, x: Val) -> tuple[Val, Val]:
        """The nearest integer as a float, and its low bits as an integer: adding 1.5 * 2^(mantissa bits)
        leaves it in the mantissa. |x| must be far below 2^22 (f32) or 2^51 (f64)."""
        magic = 1.5 * 2.0 ** (23 if x.elem == "f32" else 52)
        bits = "i32" if x.elem == "f32" else "i64"
        shifted = self.add(x, magic)
        return self.sub(shifted, magic), self.to("bitcast", shifted, bits)

    # ---- lanes one by one ----------------------------------------------------------------------
    def any(self, cond: Val) -> str:
        if self.lanes == 1:
            return cond.text
        return self.text.op(f"call i1 @llvm.vector.reduce.or.v{self.lanes}i1({cond.typed})")

    def by_library(self, function: str, args: Sequence[Val], rare: Val, fast: Val) -> Val:
        """The C library's function (f32) in the lanes that are rare, `fast` in the others."""
        result = self.text.alloca(self.type("f32"), 64)
        self.text.effect(f"store {fast.typed}, ptr {result}")

        def slowly() -> None:
            memory = [self.text.alloca(self.type("f32"), 64) for _ in args]
            for pointer, arg in zip(memory, args, strict=True):
                self.text.effect(f"store {arg.typed}, ptr {pointer}")
            exact = self.text.alloca(self.type("f32"), 64)

            def lane(i: str, _: list[str]) -> list[str]:
                loaded = [f"float {self._element('load float', pointer, i)}" for pointer in memory]
                value = self.text.result(f"call float {function}({', '.join(loaded)})")
                where = self.text.op(f"getelementptr float, ptr {exact}, i64 {i}")
                self.text.effect(f"store float {value}, ptr {where}")
                return []

            self.text.loop("0", str(self.lanes), 1, [], lane)
            slow = Val(self.text.result(f"load {fast.type}, ptr {exact}"), "f32", self.lanes)
            self.text.effect(f"store {self.select(rare, slow, fast).typed}, ptr {result}")

        self.text.when(self.any(rare), slowly)
        return Val(self.text.result(f"load {fast.type}, ptr {result}"), "f32", self.lanes)

    def _element(self, how: str, pointer: str, index: str) -> str:
        where = self.text.op(f"getelementptr float, ptr {pointer}, i64 {index}")
        return self.text.result(f"{how}, ptr {where}")

    def finish(self, value: Val) -> str:
        return self.text.finish(result=value.typed)
