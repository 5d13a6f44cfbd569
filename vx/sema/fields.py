"""Fields and dereferences: places reached from other places by name or through a pointer."""

from __future__ import annotations

from vx.sema import expressions, tree
from vx.sema.context import Body
from vx.sema.names import did_you_mean
from vx.sema.types import show
from vx.syntax import ast

_TENSOR_METHODS = ("extent", "reshape", "t", "copy", "bytes", "bytes_mut", "topology")


def field(body: Body, node: ast.FieldAccess) -> tree.Field:
    """`receiver.name`, looking through references. Error: E0203 if there is no such field."""
    base = expressions.through_refs(expressions.place(body, node.receiver))
    if not isinstance(base.type, tree.Struct):
        raise body.fail("E0203", f"{show(base.type)} has no fields", node.name_span, helps=_field_help(base.type, node))
    fields = body.session.structs[base.type.key].fields
    for index, (name, type_) in enumerate(fields):
        if name == node.name:
            return tree.Field(type_, node.span, base, index)
    message = f"`{base.type.key}` has no field `{node.name}`"
    helps = did_you_mean(node.name, [name for name, _ in fields])
    if not helps and fields:
        helps = (f"it has {', '.join(f'`{name}`' for name, _ in fields)}",)
    raise body.fail("E0203", message, node.name_span, helps=helps)


def _field_help(type_: tree.Type, node: ast.FieldAccess) -> tuple[str, ...]:
    if isinstance(type_, tree.Ptr):
        return (f"look through the pointer first: `(*…).{node.name}`, in `unsafe`",)
    if isinstance(type_, tree.Tensor):
        return did_you_mean(node.name, _TENSOR_METHODS)
    if isinstance(type_, tree.Enum):
        return ("`match` on it to get at its payload",)
    return ()


def dereference(body: Body, node: ast.Unary) -> tree.PlaceNode:
    """`*r`, `*p`. Errors: E3012 if it is neither; E5001 for a raw pointer outside `unsafe`."""
    found = expressions.named_place(body, node.operand)
    if found is not None:
        ref: tree.Value = tree.Read(found.type, found.span, found, move=False)
    else:
        ref = expressions.value(body, node.operand)
    if isinstance(ref.type, tree.Ptr):
        require_unsafe(body, node)
        if ref.type.to == tree.VOID:
            message = "a pointer to void points to nothing that could be read"
            raise body.fail("E3012", message, node.span, helps=["cast it first: `(p as *const i32)`"])
    elif not isinstance(ref.type, tree.Ref):
        raise body.fail("E3012", f"{show(ref.type)} cannot be dereferenced", node.span)
    return tree.Deref(ref.type.to, node.span, ref)


def require_unsafe(body: Body, node: ast.Node) -> None:
    """E5001 outside `unsafe`."""
    if not body.unsafe:
        message = "using a raw pointer needs `unsafe`"
        raise body.fail("E5001", message, node.span, helps=["put it in a block: `unsafe { … }`"])
