"""Borrow checking: questions about single nodes of the typed tree, without state.

Enters: a node. Leaves: its operands in the order of evaluation, what a pattern binds, what an assignment does.
"""

from __future__ import annotations

from collections.abc import Mapping

from vx.sema import tree
from vx.sema.borrow_paths import Bound


def bound(value: tree.Value, add: int = 0) -> Bound:
    """`value + add` as an end of a range. Unsigned and narrow numbers are not compared: a sum of them may wrap
    around and still be a valid index."""
    comparable = isinstance(value, tree.Const) or value.type in _WIDE_SIGNED
    return Bound(value, add, _symbols(value) if comparable else None)


_WIDE_SIGNED = (tree.Scalar("i32"), tree.Scalar("i64"), tree.Scalar("i128"))


def _symbols(value: tree.Value) -> frozenset[int] | None:
    """The variables that a number depends on; None if it depends on anything else."""
    match value:
        case tree.Const():
            return frozenset()
        case tree.Read(place=tree.Local(id=id_)):
            return frozenset((id_,))
        case tree.Cast(operand=operand):
            return _symbols(operand)
        case tree.Binary(left=left, right=right):
            a, b = _symbols(left), _symbols(right)
            return None if a is None or b is None else a | b
        case _:
            return None


def index_text(value: tree.Value, decls: Mapping[tree.LocalId, tree.LocalDecl]) -> str:
    """An index in a message."""
    match value:
        case tree.Const(value=number):
            return str(number)
        case tree.Read(place=tree.Local(id=id_)):
            return decls[id_].name
        case _:
            return ".."


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
