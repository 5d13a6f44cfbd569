"""Slots: storage for a value that is only decided when the region runs.

Enters: the type of an `if`, of a `match` or of a function that returns early. Leaves: a value of the region's own
that each of the alternatives is copied into. Scalars become mutable cells, tensors buffers, structs both.
"""

from __future__ import annotations

from vx.diagnostics.span import Span
from vx.kernels import ir, loops
from vx.kernels.lowering import Captured, Cell, Lowering, Nothing, Number, Record, Rows, Val, View
from vx.sema import tree


def make(lo: Lowering, type_: tree.Type, name: str, span: Span) -> Val:
    """A new slot. A shared reference gets a copy of what it refers to, which nothing can change meanwhile."""
    match type_:
        case tree.Scalar(name=elem):
            return Cell(lo.let(name, zero(elem), mutable=True))
        case tree.Tensor(elem=elem, dims=dims):
            sizes = [d for d in dims if isinstance(d, int)]
            if len(sizes) == len(dims):
                return lo.allocate(name, elem, sizes)
        case tree.Ref(to=to, mutable=False):
            return make(lo, to, name, span)
        case tree.Struct(key=key):
            fields = lo.program.structs[key].fields
            return Record(tuple(make(lo, field, f"{name}.{label}", span) for label, field in fields))
        case tree.Void() | tree.Never():
            return Nothing()
    lo.refuse("choosing between these values", span, "store into one tensor in all cases")
    raise AssertionError


def fill(lo: Lowering, slot: Val, v: Val, span: Span) -> None:
    """Copy a value into a slot of its type; nothing to do if it has none (`return`, `break`, `abort`)."""
    match slot, v:
        case _, Nothing():
            return
        case Cell(var=var), _:
            lo.emit(ir.Set(var, number(v)))
        case View(), View() | Rows():
            loops.assign(lo, slot, v, span)
        case Record(fields=into), Record(fields=fields):
            for a, b in zip(into, fields, strict=True):
                fill(lo, a, b, span)
        case Record(fields=into), Captured(place=place) if isinstance(place.type, tree.Struct):
            for i, (_, type_) in enumerate(lo.program.structs[place.type.key].fields):
                fill(lo, into[i], lo.capture(tree.Field(type_, span, place, i)), span)
        case _:
            lo.refuse("copying this value", span, "copy its fields")


def is_plain(v: Val) -> bool:
    """A struct of scalars, made in the region."""
    return isinstance(v, Record) and all(isinstance(f, Cell) or is_plain(f) for f in v.fields)


def moved(lo: Lowering, v: Val, name: str) -> Val:
    """A struct in its new place: what held it before may be assigned anew. Tensors stay where they are."""
    match v:
        case Record(fields=fields):
            return Record(tuple(moved(lo, f, name) for f in fields))
        case Cell(var=var):
            return Cell(lo.let(name, var, mutable=True))
        case _:
            return v


def read(slot: Val) -> Val:
    """What a filled slot stands for."""
    return Number(slot.var) if isinstance(slot, Cell) else slot


def number(v: Val) -> ir.Expr:
    match v:
        case Number(expr=expr):
            return expr
        case Cell(var=var):
            return var
        case View(extents=()):
            return v.load(())
        case _:
            raise AssertionError(f"{type(v).__name__} where a scalar was expected")


def zero(type_: str) -> ir.Lit:
    if type_ == "bool":
        return ir.Lit(False, type_)
    return ir.Lit(0.0 if type_ in tree.FLOATS else 0, type_)
