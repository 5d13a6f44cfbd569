"""Printing: `print(x)`, `print!("…")`, `println!("a {} b", x)`."""

from __future__ import annotations

from vx.diagnostics.span import Span
from vx.sema import constants, methods, operators, tree
from vx.sema.context import Body
from vx.sema.types import show
from vx.syntax import ast

_NAMES = ("print", "println")


def macro_call(body: Body, node: ast.MacroCall, _expected: tree.Type | None) -> tree.Value:
    """A sequence of `Print`s. Errors: E0901 for other macros, E3019 for a wrong format."""
    if node.name not in _NAMES:
        raise body.session.unsupported(f"the macro `{node.name}!` is", node.span)
    parts: list[tree.Value] = []
    if node.args:
        parts = _formatted(body, node)
    if node.name == "println":
        parts.append(_text(b"\n", node.span))
    merged = _merged(parts)
    if len(merged) == 1:
        return merged[0]
    stmts = _in_order(body, merged)
    return tree.BlockExpr(tree.VOID, node.span, tree.Block(stmts, None, tree.VOID, node.span))


def _in_order(body: Body, parts: list[tree.Value]) -> tuple[tree.StmtNode, ...]:
    """The prints as statements. Numbers that something has to run for are worked out before the first of them
    prints; what borrows, strings and tensors, is not kept beyond its own."""
    numbers = [part for part in parts if isinstance(part, tree.Print) and isinstance(part.value.type, tree.Scalar)]
    if all(_at_hand(number.value) for number in numbers):
        return tuple(tree.ExprStmt(part.span, part) for part in parts)
    lets: list[tree.StmtNode] = []
    prints: list[tree.StmtNode] = []
    for part in parts:
        if part in numbers and isinstance(part, tree.Print):
            type_, span = part.value.type, part.value.span
            id_ = body.hidden(type_, span, "printed")
            lets.append(tree.Let(span, id_, part.value))
            part = tree.Print(tree.VOID, part.span, tree.Read(type_, span, tree.Local(type_, span, id_), False))
        prints.append(tree.ExprStmt(part.span, part))
    return (*lets, *prints)


def _at_hand(value: tree.Value) -> bool:
    """Whether nothing has to run for the value."""
    return isinstance(value, tree.Const) or (isinstance(value, tree.Read) and isinstance(value.place, tree.Local))


def _formatted(body: Body, node: ast.MacroCall) -> list[tree.Value]:
    form = node.args[0]
    if not isinstance(form, ast.StringLit):
        helps = [f'write `{node.name}!("{{}}", …)`']
        raise body.fail("E3019", f"the first argument of `{node.name}!` is a string literal", form.span, helps=helps)
    pieces = _pieces(body, form)
    holes = len(pieces) - 1
    values = node.args[1:]
    if holes != len(values):
        given = "1 value is" if len(values) == 1 else f"{len(values)} values are"
        message = f"the text has {holes} `{{}}`, and {given} given"
        raise body.fail("E3019", message, form.span)
    parts: list[tree.Value] = []
    for i, piece in enumerate(pieces):
        if piece:
            parts.append(_text(piece, form.span))
        if i < holes:
            parts.append(print_value(body, values[i], values[i].span))
    return parts


def _pieces(body: Body, form: ast.StringLit) -> list[bytes]:
    """The text between the `{}`, with `{{` and `}}` as single braces."""
    pieces, text, at = [], bytearray(), 0
    value = form.value
    while at < len(value):
        two = value[at : at + 2]
        if two in (b"{{", b"}}"):
            text += two[:1]
            at += 2
        elif two == b"{}":
            pieces.append(bytes(text))
            text = bytearray()
            at += 2
        elif two[:1] in (b"{", b"}"):
            helps = ["`{}` stands for a value, `{{` and `}}` for braces"]
            raise body.fail("E3019", "a single brace in the text", form.span, helps=helps)
        else:
            text += two[:1]
            at += 1
    return [*pieces, bytes(text)]


def _text(text: bytes, span: Span) -> tree.Print:
    return tree.Print(tree.VOID, span, tree.Str(tree.CSTR, span, text))


def _merged(parts: list[tree.Value]) -> list[tree.Value]:
    """Neighbouring texts as one."""
    result: list[tree.Value] = []
    for part in parts:
        text, before = _plain_text(part), _plain_text(result[-1]) if result else None
        if text is not None and before is not None:
            result[-1] = _text(before + text, result[-1].span)
        else:
            result.append(part)
    return result


def _plain_text(part: tree.Value) -> bytes | None:
    """What a `Print` prints, if that is a literal text."""
    if isinstance(part, tree.Print) and isinstance(part.value, tree.Str):
        return part.value.value
    return None


def print_value(body: Body, node: ast.Expr, span: Span) -> tree.Value:
    """`Print` of one value. Error: E3012 for what cannot be printed."""
    value = operators.operand(body, node)
    type_ = value.type
    if isinstance(type_, tree.Tensor):
        temp = tree.Temp(type_, node.span, value)
        value = tree.AddrOf(tree.Ref(type_, False), node.span, temp, False)
    elif isinstance(type_, tree.Scalar):
        value = constants.in_range(body, value)
    printable = isinstance(type_, tree.Scalar | tree.Tensor) or type_ == tree.CSTR
    if isinstance(type_, tree.Ref):
        printable = isinstance(type_.to, tree.Tensor)
    if not printable:
        helps = _print_help(body, type_)
        raise body.fail("E3012", f"{show(type_)} cannot be printed", node.span, helps=helps)
    return tree.Print(tree.VOID, span, value)


def _print_help(body: Body, type_: tree.Type) -> list[str]:
    if methods.find(body.session, type_, "print") is not None:
        return ["call its method: `….print()`"]
    if isinstance(type_, tree.Struct):
        return ["print its fields one by one"]
    return ["`match` on it and print what it is"] if isinstance(type_, tree.Enum) else []
