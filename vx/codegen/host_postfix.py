"""Postfix programs of the launch manifest as LLVM: `docs/explanation/device-kernels.md` says what they mean.

Enters: the text of an expression, i64 operands by name, a way to write an instruction. Leaves: an i64 operand.
Everything is a signed 64-bit integer that wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

Op = Callable[[str], str]

_PLAIN: Mapping[str, str] = MappingProxyType(
    {"+": "add", "-": "sub", "*": "mul", "/": "sdiv", "%": "srem", "/u": "udiv", "%u": "urem", "&": "and", "|": "or",
     "^": "xor", "<<": "shl", ">>": "ashr", ">>u": "lshr", "&&": "and", "||": "or"}
)  # fmt: skip
_COMPARED: Mapping[str, str] = MappingProxyType(
    {"==": "eq", "!=": "ne", "<": "slt", ">": "sgt", "<=": "sle", ">=": "sge", "<u": "ult", ">u": "ugt", "<=u": "ule",
     ">=u": "uge"}
)  # fmt: skip


def evaluate(text: str, values: Mapping[str, str], op: Op) -> str:
    """The value of a postfix program."""
    stack: list[str] = []
    for word in text.split():
        if word in values:
            stack.append(values[word])
        elif word.lstrip("-").isdigit():
            stack.append(word)
        elif word in _PLAIN or word in _COMPARED or word in ("min", "max"):
            right, left = stack.pop(), stack.pop()
            stack.append(_binary(word, left, right, op))
        elif word == "?":
            orelse, then, cond = stack.pop(), stack.pop(), stack.pop()
            stack.append(op(f"select i1 {op(f'icmp ne i64 {cond}, 0')}, i64 {then}, i64 {orelse}"))
        else:
            stack.append(_unary(word, stack.pop(), op))
    (result,) = stack
    return result


def _binary(word: str, left: str, right: str, op: Op) -> str:
    if word in _PLAIN:
        return op(f"{_PLAIN[word]} i64 {left}, {right}")
    if word in _COMPARED:
        return op(f"zext i1 {op(f'icmp {_COMPARED[word]} i64 {left}, {right}')} to i64")
    first = op(f"icmp {'slt' if word == 'min' else 'sgt'} i64 {left}, {right}")
    return op(f"select i1 {first}, i64 {left}, i64 {right}")


def _unary(word: str, operand: str, op: Op) -> str:
    match word:
        case "neg":
            return op(f"sub i64 0, {operand}")
        case "~":
            return op(f"xor i64 {operand}, -1")
        case "not":
            return op(f"xor i64 {operand}, 1")
        case "abs":
            return op(f"select i1 {op(f'icmp slt i64 {operand}, 0')}, i64 {op(f'sub i64 0, {operand}')}, i64 {operand}")
        case "bool":
            return op(f"zext i1 {op(f'icmp ne i64 {operand}, 0')} to i64")
    return widened(operand, word, op)


def widened(operand: str, type_: str, op: Op) -> str:
    """An i64 cut to the bits of an integer type and back."""
    bits = int(type_[1:])
    if bits >= 64:
        return operand
    return op(f"{'sext' if type_[0] == 'i' else 'zext'} i{bits} {op(f'trunc i64 {operand} to i{bits}')} to i64")
