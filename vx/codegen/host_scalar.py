"""Scalar arithmetic in host code.

Enters: an `Emitter`, operands and element types. Leaves: operands. Integers wrap, division truncates and
aborts on zero, shift counts are taken modulo the width, float to int saturates (NaN gives 0). Float arithmetic
is strict: every operation rounds once to its own type.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vx.codegen.host_function import Emitter
from vx.codegen.llvm_text import INTEGERS, REGISTER, constant
from vx.diagnostics.span import Span
from vx.sema.tree import FLOATS, UNSIGNED

_INT_OPS: Mapping[str, str] = MappingProxyType({"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"})
_FLOAT_OPS: Mapping[str, str] = MappingProxyType({"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv", "%": "frem"})
_FLOAT_COMPARE: Mapping[str, str] = MappingProxyType(
    {"==": "oeq", "!=": "une", "<": "olt", ">": "ogt", "<=": "ole", ">=": "oge"}
)
_INT_COMPARE: Mapping[str, str] = MappingProxyType({"<": "lt", ">": "gt", "<=": "le", ">=": "ge"})
COMPARISONS = frozenset(_FLOAT_COMPARE)


def widen(fn: Emitter, value: str, name: str) -> tuple[str, str]:
    """A float in a type that has arithmetic, and that type: 16-bit floats as f32."""
    if name in ("f16", "bf16"):
        return fn.op(f"fpext {REGISTER[name]} {value} to float"), "f32"
    return value, name


def narrow(fn: Emitter, value: str, source: str, name: str) -> str:
    """Round an f32 or f64 to the float type `name`, once."""
    if source == name:
        return value
    if name == "bf16":
        helper = fn.module.helper(f"bf16.{source}")
        return fn.op(f"call bfloat {helper}({REGISTER[source]} {value})")
    instruction = "fpext" if FLOATS[name] > FLOATS[source] else "fptrunc"
    return fn.op(f"{instruction} {REGISTER[source]} {value} to {REGISTER[name]}")


def compare(fn: Emitter, op: str, left: str, right: str, name: str | None) -> str:
    """A comparison; `name` None compares pointers."""
    if name is not None and name in FLOATS:
        return fn.op(f"fcmp {_FLOAT_COMPARE[op]} {REGISTER[name]} {left}, {right}")
    if op in _INT_COMPARE:
        sign = "u" if name is None or name == "bool" or name in UNSIGNED else "s"
        predicate = sign + _INT_COMPARE[op]
    else:
        predicate = "eq" if op == "==" else "ne"
    return fn.op(f"icmp {predicate} {'ptr' if name is None else REGISTER[name]} {left}, {right}")


def arithmetic(fn: Emitter, op: str, left: str, right: str, name: str, span: Span) -> str:
    """`+ - * / % & | ^ << >>` on two operands of one type."""
    if name in FLOATS:
        return _float_arithmetic(fn, op, left, right, name)
    if op in ("/", "%"):
        return _division(fn, op, left, right, name, span)
    if op in ("<<", ">>"):
        return _shift(fn, op, left, right, name)
    return fn.op(f"{_INT_OPS[op]} {REGISTER[name]} {left}, {right}")


def _float_arithmetic(fn: Emitter, op: str, left: str, right: str, name: str) -> str:
    if name not in ("f16", "bf16"):
        return fn.op(f"{_FLOAT_OPS[op]} {REGISTER[name]} {left}, {right}")
    wide_left, _ = widen(fn, left, name)
    wide_right, _ = widen(fn, right, name)
    return narrow(fn, fn.op(f"{_FLOAT_OPS[op]} float {wide_left}, {wide_right}"), "f32", name)


def _division(fn: Emitter, op: str, left: str, right: str, name: str, span: Span) -> str:
    kind = REGISTER[name]
    word = "div" if op == "/" else "rem"
    if right.lstrip("-").isdigit() and right not in ("0", "-1"):
        return fn.op(f"{'u' if name in UNSIGNED else 's'}{word} {kind} {left}, {right}")
    message = fn.module.string(f"division by zero at {fn.module.where(span)}".encode())
    helper = fn.module.helper(f"{word}.{name}")
    return fn.op(f"call {kind} {helper}({kind} {left}, {kind} {right}, ptr {message})")


def _shift(fn: Emitter, op: str, left: str, right: str, name: str) -> str:
    kind = REGISTER[name]
    if right.lstrip("-").isdigit():
        count = str(int(right) % INTEGERS[name])
    else:
        count = fn.op(f"and {kind} {right}, {INTEGERS[name] - 1}")
    instruction = "shl" if op == "<<" else "lshr" if name in UNSIGNED else "ashr"
    return fn.op(f"{instruction} {kind} {left}, {count}")


def negate(fn: Emitter, value: str, name: str) -> str:
    """`-x`"""
    if name in FLOATS:
        return fn.op(f"fneg {REGISTER[name]} {value}")
    return fn.op(f"sub {REGISTER[name]} 0, {value}")


def invert(fn: Emitter, value: str, name: str) -> str:
    """`!x` on a bool; on an integer all its bits."""
    return fn.op(f"xor {REGISTER[name]} {value}, {'true' if name == 'bool' else '-1'}")


def cast(fn: Emitter, value: str, source: str, name: str) -> str:
    """`x as T` between scalars."""
    if source == name:
        return value
    if source in FLOATS:
        return _float_to_float(fn, value, source, name) if name in FLOATS else _float_to_int(fn, value, source, name)
    return _int_to_float(fn, value, source, name) if name in FLOATS else _int_to_int(fn, value, source, name)


def _float_to_float(fn: Emitter, value: str, source: str, name: str) -> str:
    wide, wide_name = widen(fn, value, source)
    return narrow(fn, wide, wide_name, name)


def _float_to_int(fn: Emitter, value: str, source: str, name: str) -> str:
    wide, wide_name = widen(fn, value, source)
    kind = REGISTER[wide_name]
    if name == "bool":
        return fn.op(f"fcmp une {kind} {wide}, {constant(0.0, wide_name)}")
    bits = INTEGERS[name]
    sign = "u" if name in UNSIGNED else "s"
    intrinsic = f"llvm.fpto{sign}i.sat.i{bits}.f{FLOATS[wide_name]}"
    fn.module.declare(intrinsic, f"declare i{bits} @{intrinsic}({kind})")
    return fn.op(f"call i{bits} @{intrinsic}({kind} {wide})")


def _int_to_float(fn: Emitter, value: str, source: str, name: str) -> str:
    instruction = "uitofp" if source == "bool" or source in UNSIGNED else "sitofp"
    # Integers up to 53 bits are exact in f64, so that rounding to bf16 happens once.
    direct = {"bf16": "f64", "f16": "f32"}.get(name, name)
    number = fn.op(f"{instruction} {REGISTER[source]} {value} to {REGISTER[direct]}")
    return narrow(fn, number, direct, name)


def _int_to_int(fn: Emitter, value: str, source: str, name: str) -> str:
    if name == "bool":
        return fn.op(f"icmp ne {REGISTER[source]} {value}, 0")
    have = 1 if source == "bool" else INTEGERS[source]
    want = INTEGERS[name]
    if have == want:
        return value
    instruction = "trunc" if want < have else "zext" if source == "bool" or source in UNSIGNED else "sext"
    return fn.op(f"{instruction} {REGISTER[source]} {value} to {REGISTER[name]}")


# ---- functions ---------------------------------------------------------------------------------
_INTRINSICS: Mapping[str, str] = MappingProxyType(
    {
        "sqrt": "sqrt",
        "abs": "fabs",
        "floor": "floor",
        "ceil": "ceil",
        "round": "round",
        "trunc": "trunc",
        "min": "minnum",
        "max": "maxnum",
        "mul_add": "fma",
    }
)
_LIBM: Mapping[str, str] = MappingProxyType(
    {
        "exp": "exp",
        "exp2": "exp2",
        "ln": "log",
        "log2": "log2",
        "log10": "log10",
        "sin": "sin",
        "cos": "cos",
        "tan": "tan",
        "tanh": "tanh",
        "pow": "pow",
        "atan2": "atan2",
        "erf": "erf",
    }
)


def math(fn: Emitter, name: str, args: list[str], elem: str) -> str:
    """A function of `tree.Math` on scalars of type `elem`; 16-bit floats compute in f32 and round."""
    if elem not in FLOATS:
        return _int_function(fn, name, args, elem)
    wide = [widen(fn, a, elem) for a in args]
    kind = wide[0][1]
    operands = [a for a, _ in wide]
    if name == "is_nan":
        return fn.op(f"fcmp uno {REGISTER[kind]} {operands[0]}, {operands[0]}")
    if name == "rsqrt":
        root = _call(fn, f"llvm.sqrt.f{FLOATS[kind]}", operands, kind)
        result = fn.op(f"fdiv {REGISTER[kind]} {constant(1.0, kind)}, {root}")
    elif name in _INTRINSICS:
        result = _call(fn, f"llvm.{_INTRINSICS[name]}.f{FLOATS[kind]}", operands, kind)
    else:
        result = _call(fn, _LIBM[name] + ("f" if kind == "f32" else ""), operands, kind)
    return narrow(fn, result, kind, elem)


def _call(fn: Emitter, function: str, args: list[str], kind: str) -> str:
    llvm = REGISTER[kind]
    params = ", ".join([llvm] * len(args))
    fn.module.declare(function, f"declare {llvm} @{function}({params}) nounwind willreturn memory(none)")
    operands = ", ".join(f"{llvm} {a}" for a in args)
    return fn.op(f"call {llvm} @{function}({operands})")


def _int_function(fn: Emitter, name: str, args: list[str], elem: str) -> str:
    kind = REGISTER[elem]
    sign = "u" if elem in UNSIGNED else "s"
    if name == "abs":
        if sign == "u":
            return args[0]
        fn.module.declare(f"llvm.abs.{kind}", f"declare {kind} @llvm.abs.{kind}({kind}, i1)")
        return fn.op(f"call {kind} @llvm.abs.{kind}({kind} {args[0]}, i1 false)")
    return _call(fn, f"llvm.{sign}{name}.{kind}", args, elem)
