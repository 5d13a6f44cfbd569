"""Borrow checking: questions about single nodes of the typed tree, without state.

Enters: a node. Leaves: its operands in the order of evaluation, what a pattern binds, what an assignment does.
"""

from __future__ import annotations

from vx.sema import tree


def bound_locals(pattern: tree.TagPattern | tree.ValuePattern | tree.AnyPattern) -> tuple[int, ...]:
    match pattern:
        case tree.TagPattern():
            return tuple(id_ for id_ in pattern.bindings if id_ is not None)
        case tree.AnyPattern():
            return () if pattern.binding is None else (pattern.binding,)
        case tree.ValuePattern():
            return ()


_REPLACING = (
    tree.Read, tree.Call, tree.TensorNew, tree.CopyTensor, tree.Transfer, tree.IfExpr, tree.Match,
    tree.BlockExpr, tree.Spawn,
)  # fmt: skip


def replaces(stmt: tree.Assign) -> bool:
    """Whether an assignment of a tensor takes over the new storage, rather than copying elements."""
    target, value = stmt.target, stmt.value
    whole = isinstance(target, tree.Local | tree.Field) and isinstance(target.type, tree.Tensor)
    unplaced = isinstance(target.type, tree.Tensor) and target.type.place is None
    owned = isinstance(value.type, tree.Tensor) and isinstance(value, _REPLACING)
    return whole and unplaced and owned


def operands(value: tree.Value) -> tuple[tree.Value, ...]:
    """The values that an expression without control flow evaluates, in order."""
    match value:
        case tree.TensorPtr() | tree.Extent() | tree.CopyTensor() | tree.Transfer():
            return (value.ref,)
        case tree.Unary() | tree.Cast():
            return (value.operand,)
        case tree.Binary() | tree.MatMul():
            return (value.left, value.right)
        case tree.Math() | tree.Reduce() | tree.CallExtern():
            return value.args
        case tree.Print():
            return (value.value,)
        case _:
            return _parts(value)


def _parts(value: tree.Value) -> tuple[tree.Value, ...]:
    match value:
        case tree.StructLit():
            return tuple(value.values[at] for at in value.order)
        case tree.EnumLit():
            return value.values
        case tree.TensorNew():
            fill = () if value.fill is None else (value.fill,)
            return (*value.extents, *fill, *value.items)
        case _:
            return ()
