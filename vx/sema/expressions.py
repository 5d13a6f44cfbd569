"""Expressions: the one entrance for checking any of them, and the simple kinds.

Enters: syntax-tree expressions and the type that the context expects (a hint: literals and inference use
it, `convert.coerce` enforces it). Leaves: typed values. `place` does the same for expressions that name
storage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from vx.diagnostics.span import Span
from vx.sema import (
    aggregates,
    branches,
    calls,
    casts,
    constants,
    fields,
    layout,
    macros,
    operators,
    paths,
    patterns,
    regions,
    resolve,
    tensors,
    tree,
    views,
)
from vx.sema.context import Body
from vx.sema.types import is_float, is_integer, show
from vx.syntax import ast

Handler = Callable[[Body, Any, tree.Type | None], tree.Value]


def value(body: Body, node: ast.Expr, expected: tree.Type | None = None) -> tree.Value:
    """The value of an expression. An integer constant that its type cannot hold is E0302."""
    return constants.in_range(body, unchecked(body, node, expected))


def unchecked(body: Body, node: ast.Expr, expected: tree.Type | None = None) -> tree.Value:
    """Like `value`, but a constant may still be out of range: arithmetic on constants is exact."""
    return _handlers()[type(node)](body, node, expected)


def place(body: Body, node: ast.Expr) -> tree.PlaceNode:
    """The storage that an expression names; a value gets storage until the end of the statement."""
    found = named_place(body, node)
    if found is not None:
        return found
    result = value(body, node)
    return deref(result) if isinstance(result.type, tree.Ref) else tree.Temp(result.type, node.span, result)


def named_place(body: Body, node: ast.Expr) -> tree.PlaceNode | None:
    """The storage that an expression names, or None if it is not that kind of expression."""
    match node:
        case ast.Path():
            return _path_place(body, node)
        case ast.FieldAccess():
            return fields.field(body, node)
        case ast.Index():
            return views.index(body, node)
        case ast.Unary(op="*"):
            return fields.dereference(body, node)
        case ast.MethodCall():
            return views.method_place(body, node)
        case _:
            return None


def _path_place(body: Body, node: ast.Path) -> tree.PlaceNode | None:
    target = paths.resolve_path(body, node)
    if isinstance(target, paths.LocalTarget):
        return tree.Local(body.locals[target.id].type, node.span, target.id)
    if isinstance(target, paths.TensorTarget):
        ref = tree.ModelRef(target.name, target.type)
        body.session.model_refs.setdefault(target.name, ref)
        return tree.ModelTensor(target.type, node.span, target.name)
    return None


def deref(ref: tree.Value) -> tree.PlaceNode:
    """What a reference or pointer points to."""
    assert isinstance(ref.type, tree.Ref | tree.Ptr)
    if isinstance(ref, tree.AddrOf) and isinstance(ref.type, tree.Ref):
        return ref.place
    return tree.Deref(ref.type.to, ref.span, ref)


def through_refs(found: tree.PlaceNode) -> tree.PlaceNode:
    """The place, looked through any references that it holds."""
    while isinstance(found.type, tree.Ref):
        found = deref(tree.Read(found.type, found.span, found, move=False))
    return found


def is_raw(found: tree.PlaceNode) -> bool:
    """`*p` or `p[i]` of a raw pointer: storage for a value, which is moved in and out without being dropped."""
    base = found.base if isinstance(found, tree.Index) and found.type == found.base.type else found
    return isinstance(base, tree.Deref) and isinstance(base.ref.type, tree.Ptr)


def borrow(found: tree.PlaceNode, mutable: bool = False) -> tree.Value:
    """`&place`; of a place that holds a reference, a reborrow of what that points to."""
    return address(through_refs(found), found.span, mutable)


def address(found: tree.PlaceNode, span: Span, mutable: bool) -> tree.Value:
    """`&found`, written at `span`."""
    return tree.AddrOf(tree.Ref(found.type, mutable), span, found, mutable)


def read(body: Body, found: tree.PlaceNode) -> tree.Value:
    """The value of a place. A part of a tensor is borrowed, everything else copied or moved."""
    part = isinstance(found, tree.Index | tree.Reshape | tree.Transpose | tree.Bytes) and not is_raw(found)
    if part and isinstance(found.type, tree.Tensor):
        return borrow(found)
    if isinstance(found, tree.Temp):
        return found.value
    return tree.Read(found.type, found.span, found, move=not body.session.is_copy(found.type))


# ---- the simple kinds --------------------------------------------------------------------------
def _place_value(body: Body, node: ast.Expr, _expected: tree.Type | None) -> tree.Value:
    found = named_place(body, node)
    assert found is not None
    views.check_element_use(body, found)
    return read(body, found)


def _path(body: Body, node: ast.Path, expected: tree.Type | None) -> tree.Value:
    target = paths.resolve_path(body, node)
    match target:
        case paths.ConstTarget(value=found):
            if isinstance(found, tree.Const):
                return tree.Const(found.type, node.span, found.value)
            return tree.Str(found.type, node.span, found.value)
        case paths.LocalTarget() | paths.TensorTarget():
            return _place_value(body, node, expected)
        case paths.VariantTarget():
            return aggregates.variant(body, target, (), node.span, expected)
        case paths.FunctionTarget() | paths.AssociatedTarget():
            return calls.function_address(body, target, node.span)
        case paths.ExternTarget(item=item):
            raise body.fail("E3015", f"`{item.node.name}` is a function: call it", node.span)
        case paths.BuiltinTarget(name=name) | paths.NewTensorTarget(kind=name):
            raise body.fail("E3015", f"`{name}` is a built-in function: call it", node.span)


def _number(body: Body, node: ast.Number, expected: tree.Type | None) -> tree.Value:
    return constants.number(body, node, expected)


def _string(_body: Body, node: ast.StringLit, _expected: tree.Type | None) -> tree.Value:
    return tree.Str(tree.CSTR, node.span, node.value)


def _bool(_body: Body, node: ast.BoolLit, _expected: tree.Type | None) -> tree.Value:
    return tree.Const(tree.BOOL, node.span, node.value)


def _nan(_body: Body, node: ast.NanLit, expected: tree.Type | None) -> tree.Value:
    type_ = expected if expected is not None and is_float(expected) else tree.F32
    return tree.Const(type_, node.span, float("nan"))


def _sizeof(body: Body, node: ast.SizeOf, expected: tree.Type | None) -> tree.Value:
    """A constant: of the integer type that is expected, like a literal, else i64."""
    type_ = resolve.resolve_type(body.session, body.type_env, node.type)
    size = layout.size_of(body.session, type_)
    result = expected if expected is not None and is_integer(expected) else tree.I64
    return tree.Const(result, node.span, size)


def _range(body: Body, node: ast.Range, _expected: tree.Type | None) -> tree.Value:
    message = "a range is not a value"
    raise body.fail("E3012", message, node.span, helps=["ranges stand in `for … in a..b` and in `t[a..b]`"])


def _array(body: Body, node: ast.ArrayLit, _expected: tree.Type | None) -> tree.Value:
    message = "`[…]` is not a value of its own"
    raise body.fail("E3012", message, node.span, helps=["make a tensor: `Tensor<f32>([[1.0, 2.0]])`"])


def _closure(body: Body, node: ast.Closure, _expected: tree.Type | None) -> tree.Value:
    raise body.session.unsupported("a closure is", node.span, ["write a function"])


def _unsupported(body: Body, node: ast.Unsupported, _expected: tree.Type | None) -> tree.Value:
    raise body.session.unsupported(f"{node.what} is", node.span)


def _addr_of(body: Body, node: ast.AddrOf, expected: tree.Type | None) -> tree.Value:
    hint = expected.to if isinstance(expected, tree.Ref) else None
    found = named_place(body, node.operand)
    if found is None:
        result = value(body, node.operand, hint)
        if isinstance(result.type, tree.Void | tree.Never):
            raise body.fail("E3012", f"there is nothing to borrow: this is {show(result.type)}", node.span)
        found = tree.Temp(result.type, node.operand.span, result)
    return address(through_refs(found), node.span, node.mutable)


@cache
def _handlers() -> Mapping[type, Handler]:
    return {
        ast.Number: _number,
        ast.StringLit: _string,
        ast.BoolLit: _bool,
        ast.NanLit: _nan,
        ast.Path: _path,
        ast.Unary: operators.unary,
        ast.AddrOf: _addr_of,
        ast.Binary: operators.binary,
        ast.Range: _range,
        ast.Call: calls.call,
        ast.MethodCall: calls.method_call,
        ast.FieldAccess: _place_value,
        ast.Index: _place_value,
        ast.Cast: casts.cast,
        ast.StructLit: aggregates.struct_literal,
        ast.ArrayLit: _array,
        ast.TensorCtor: tensors.constructor,
        ast.SizeOf: _sizeof,
        ast.BlockExpr: branches.block_expression,
        ast.If: branches.if_expression,
        ast.Match: patterns.match,
        ast.Spawn: regions.spawn,
        ast.Transfer: regions.transfer,
        ast.PlaceValue: regions.place_value,
        ast.Reachable: regions.reachable,
        ast.Try: patterns.try_,
        ast.MacroCall: macros.macro_call,
        ast.Closure: _closure,
        ast.Unsupported: _unsupported,
    }
