"""Assignments: to variables and fields, to elements, rows and whole tensors, and landing transfers."""

from __future__ import annotations

from vx.sema import constants, convert, expressions, operators, placement, regions, tree, views
from vx.sema.context import Body, CheckFailed
from vx.sema.types import dims_fit, dims_may_equal, show, show_dims, show_place, tensor_of
from vx.syntax import ast

_COMPUTED = tree.Unary | tree.Binary | tree.Cast | tree.Math | tree.MatMul
"""Element by element into what is there, whose extents are compared when it runs; never in its place."""


def assign(body: Body, node: ast.Assign) -> tree.StmtNode:
    """`target = value;` or `target op= value;`. Errors: E3004, E3009, E3016, E6003, E7005."""
    target = _target(body, node)
    views.check_element_use(body, target)
    through = expressions.through_refs(target)
    if node.op is not None:
        return _op_assign(body, node, through)
    if isinstance(through.type, tree.Tensor):
        return _assign_tensor(body, node, target, through)
    want = convert.Want(target.type, "E3009", f"{placement.name_of(target, body)} is")
    value = expressions.value(body, node.value, target.type)
    if isinstance(target.type, tree.Ref) and not isinstance(value.type, tree.Ref):
        raise _needs_star(body, target, value)
    return tree.Assign(node.span, target, convert.coerce(body, value, want))


def _target(body: Body, node: ast.Assign) -> tree.PlaceNode:
    found = expressions.named_place(body, node.target)
    if found is not None:
        return found
    if isinstance(node.target, ast.Path):
        name = node.target.segments[-1].name
        raise body.fail("E3016", f"`{name}` is not a variable", node.target.span)
    raise body.fail("E3016", "this is a value, not something that can be assigned to", node.target.span)


def _needs_star(body: Body, target: tree.PlaceNode, value: tree.Value) -> CheckFailed:
    name = placement.name_of(target, body)
    message = f"{name} is {show(target.type)}, and this is {show(value.type)}"
    helps = [f"to change what it points to, write `*{name.strip('`')} = …`"]
    return body.fail("E3009", message, value.span, helps=helps)


# ---- op= ---------------------------------------------------------------------------------------
def _op_assign(body: Body, node: ast.Assign, target: tree.PlaceNode) -> tree.StmtNode:
    assert node.op is not None
    tensor = tensor_of(target.type)
    elem = target.type if tensor is None else tree.Scalar(tensor.elem)
    value = operators.operand(body, node.value, elem)
    if tensor is None:
        current: tree.Value = tree.Read(target.type, target.span, target, move=False)
    else:
        placement.check_use(body, target.type, target.span, target)
        current = expressions.borrow(target)
    result = operators.arithmetic(body, node, node.op, current, value)
    if tensor is None and isinstance(result.type, tree.Tensor):
        raise body.fail("E3009", f"a number cannot become {show(result.type)}", node.value.span)
    return tree.OpAssign(node.span, target, node.op, constants.in_range(body, value))


# ---- tensors -----------------------------------------------------------------------------------
def _assign_tensor(body: Body, node: ast.Assign, target: tree.PlaceNode, through: tree.PlaceNode) -> tree.StmtNode:
    if isinstance(node.value, ast.Transfer) and not expressions.is_raw(target):
        return regions.land(body, through, node.value, node.span)
    if isinstance(target.type, tree.Ref) and _may_rebind(body, target):
        value, rebinds = _reference_or_elements(body, node.value, target.type)
        if rebinds:
            want = convert.Want(target.type, "E3009", f"{placement.name_of(target, body)} is")
            return tree.Assign(node.span, target, convert.coerce(body, value, want))
    elif _replaces(body, target):
        value = expressions.value(body, node.value, target.type)
    else:
        assert isinstance(through.type, tree.Tensor)
        value = operators.operand(body, node.value, tree.Scalar(through.type.elem))
    _check_copy(body, node, through, value)
    return tree.Assign(node.span, through, value)


def _replaces(body: Body, target: tree.PlaceNode) -> bool:
    """Whether assigning an owned value puts it in place of the old one: a whole unplaced variable or field, or
    storage behind a raw pointer."""
    if isinstance(target.type, tree.Tensor) and expressions.is_raw(target):
        return True
    whole = isinstance(target, tree.Local | tree.Field) and isinstance(target.type, tree.Tensor)
    return whole and tensor_of(target.type) == target.type and getattr(target.type, "place", None) is None


def _may_rebind(body: Body, target: tree.PlaceNode) -> bool:
    """Whether `r = &…` makes the reference `r`, a mutable variable or a field, point elsewhere instead of copying
    through it."""
    return body.locals[target.id].mutable if isinstance(target, tree.Local) else isinstance(target, tree.Field)


def _reference_or_elements(body: Body, node: ast.Expr, want: tree.Ref) -> tuple[tree.Value, bool]:
    """What is assigned to a reference, and whether it is another reference. Else its elements are copied: it is
    computed, or a tensor that is named where the reference is mutable."""
    found = expressions.named_place(body, node)
    if found is None:
        value = expressions.value(body, node, want)
        if not isinstance(value.type, tree.Ref):
            placement.check_use(body, value.type, node.span, "this value")
        return value, isinstance(value.type, tree.Ref)
    if isinstance(found.type, tree.Ref):
        return expressions.read(body, found), True
    assert isinstance(want.to, tree.Tensor)
    value = operators.operand(body, node, tree.Scalar(want.to.elem))
    return value, isinstance(value.type, tree.Ref) and not want.mutable


def _check_copy(body: Body, node: ast.Assign, target: tree.PlaceNode, value: tree.Value) -> None:
    into, source = target.type, tensor_of(value.type)
    assert isinstance(into, tree.Tensor)
    name = placement.name_of(target, body)
    if source is None:
        helps = [f"to set all elements, write a loop, or `Tensor<{into.elem}, {show_dims(into.dims)}>::fill(…)`"]
        message = f"{name} is {show(into)} here, and this is {show(value.type)}"
        raise body.fail("E3009", message, value.span, helps=helps)
    if source.elem != into.elem:
        message = f"the elements of {name} are {into.elem}, and these are {source.elem}"
        raise body.fail("E3009", message, value.span, helps=[f"convert them: `… as {into.elem}`"])
    if not dims_may_equal(source.dims, into.dims):
        message = f"{show_dims(source.dims)} does not fit into {show_dims(into.dims)}"
        raise body.fail("E7005", message, node.span)
    replaced = _replaces(body, target) and isinstance(value.type, tree.Tensor)
    if replaced and not isinstance(value, _COMPUTED) and not dims_fit(source.dims, into.dims):
        message = f"{name} is {show(into)}, and what would take its place is {show(source)}"
        helps = ["copy into it: assign a view, `x[0..n]`, instead of a tensor of its own"]
        raise body.fail("E7005", message, node.span, helps=helps)
    if replaced and source.place not in (None, into.place):
        place = show_place(source.place)
        message = f"{name} is host memory, and this lives on {place}"
        raise body.fail("E3009", message, value.span, helps=["bring it here: `transfer(…, Memory::CPU_DRAM)`"])
    if not (replaced and expressions.is_raw(target)):  # a move reads nothing
        placement.check_use(body, into, target.span, name)
