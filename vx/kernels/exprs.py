"""Expressions of the typed tree as abstract values: scalars as `ir.Expr`, tensors as `View` or `Rows`."""

from __future__ import annotations

from collections.abc import Sequence

from vx.diagnostics.span import Span
from vx.kernels import affine, assume, bounds, effects, ir, loops, places, stmts
from vx.kernels.lowering import Cell, Lowering, Nothing, Number, Record, Rows, Val, View
from vx.sema import tree

COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">="))
WIDE = {"f16": "f32", "bf16": "f32"}
"""What sums of a 16-bit float type accumulate in."""


def value(lo: Lowering, e: tree.Value) -> Val:  # noqa: C901 (one arm per kind of expression)
    """Any value of the typed tree."""
    if isinstance(e.type, tree.Tensor):
        return tensor(lo, e)
    match e:
        case tree.Read(place=p) if not isinstance(e.type, tree.Scalar):
            return places.place(lo, p)
        case tree.AddrOf(place=p, mutable=mutable):
            return places.scalar_reference(lo, p, mutable)
        case tree.StructLit(values=values):
            return Record(tuple(_own_field(lo, v) for v in values))
        case tree.Call():
            return stmts.call(lo, e)
        case tree.IfExpr():
            return stmts.branch(lo, e)
        case tree.BlockExpr(block=block):
            return stmts.block(lo, block)
        case tree.Match():
            return stmts.match_value(lo, e)
        case tree.ReturnExpr(value=inner):
            stmts.leave_function(lo, inner)
            return Nothing()
        case tree.Abort(message=message):
            lo.emit(ir.Check(ir.Lit(False, "bool"), message.decode(errors="replace")))
            return Nothing()
        case _ if isinstance(e.type, tree.Scalar):
            return Number(_scalar(lo, e))
        case _:
            lo.refuse(_what(e), e.span, "move it out of the region")
            raise AssertionError


def _own_field(lo: Lowering, e: tree.Value) -> Val:
    """A field of a struct made here: scalars get a cell of their own, so that they can be assigned."""
    v = value(lo, e)
    if isinstance(v, Number):
        return Cell(lo.let("field", v.expr, mutable=True))
    return stored(lo, v, "field")


def _what(e: tree.Value) -> str:
    names = {
        "CallExtern": "calling C",
        "Print": "printing",
        "Transfer": "`transfer`",
        "Spawn": "a nested `spawn`",
        "EnumLit": "an enum value",
        "Str": "a string",
        "FnAddr": "a function pointer",
        "TensorPtr": "a raw pointer",
    }
    return names.get(type(e).__name__, f"this expression ({type(e).__name__})")


# ---- scalars -------------------------------------------------------------------------------------
def scalar(lo: Lowering, e: tree.Value) -> ir.Expr:
    """A scalar value."""
    v = value(lo, e)
    match v:
        case Number(expr=expr):
            return expr
        case Cell(var=var):
            return var
        case View(extents=()):
            return v.load(())
        case _:
            lo.refuse(_what(e), e.span, "move it out of the region")
            raise AssertionError


def index(lo: Lowering, e: tree.Value) -> ir.Affine:
    """An index: evaluated here and now, however often it is used."""
    return affine.of(_settled(lo, scalar(lo, e)), lo.ranges)


def range_end(lo: Lowering, e: tree.Value) -> ir.Affine:
    """An index that a loop starts or ends at: what would wrap in the program's own type ends the process."""
    expr = _settled(lo, scalar(lo, e))
    bounds.require_exact(lo, expr, e.span)
    return affine.of(expr, lo.ranges)


def _settled(lo: Lowering, expr: ir.Expr) -> ir.Expr:
    """An integer expression of which every part that may change is read now, so that it can be used later."""
    if lo.stable(expr):
        return expr
    match expr:
        case ir.Cast(operand=x, type=t) if affine.type_of(x)[0] in "iu":
            return ir.Cast(_settled(lo, x), t)
        case ir.Binary(op=op, left=a, right=b, type=t) if op in "+-*/%":
            return ir.Binary(op, _settled(lo, a), _settled(lo, b), t)
        case _:
            return lo.let("index", expr)


def _scalar(lo: Lowering, e: tree.Value) -> ir.Expr:
    assert isinstance(e.type, tree.Scalar)
    kind = e.type.name
    match e:
        case tree.Const(value=v):
            return ir.Lit(v, kind)
        case tree.Read(place=p):
            return read_scalar(lo, places.place(lo, p), p)
        case tree.Unary(op=op, operand=x):
            return ir.Unary(op, scalar(lo, x), kind)
        case tree.Binary(op=op, left=a, right=b):
            return _binary(lo, op, a, b, kind)
        case tree.Cast(operand=x):
            return cast(scalar(lo, x), kind)
        case tree.Math(name=name, args=args):
            return ir.Call(name, _in_order(lo, args), kind)
        case tree.Reduce(op=op, args=args):
            return _reduce(lo, op, args, kind, e.span)
        case tree.Extent(ref=ref, axis=axis):
            return affine.simplest(tensor_operand(lo, ref).extents[axis])
        case _:
            lo.refuse(_what(e), e.span, "move it out of the region")
            raise AssertionError


def read_scalar(lo: Lowering, found: Val, node: tree.PlaceNode) -> ir.Expr:
    match found:
        case Number(expr=expr):
            return expr
        case Cell(var=var):
            return var
        case View(extents=()):
            return found.load(())
        case _:
            lo.refuse("this scalar", node.span, "copy it into a local first")
            raise AssertionError


def cast(expr: ir.Expr, to: str) -> ir.Expr:
    if affine.type_of(expr) == to:
        return expr
    if isinstance(expr, ir.Lit) and to in tree.FLOATS and to not in WIDE:
        return ir.Lit(float(expr.value), to)
    return ir.Cast(expr, to)


def _binary(lo: Lowering, op: str, a: tree.Value, b: tree.Value, kind: str) -> ir.Expr:
    if op not in ("&&", "||"):
        left, right = _in_order(lo, (a, b))
        return ir.Binary(op, left, right, kind)
    left = scalar(lo, a)
    with lo.scope() as inner, assume.holding(lo, left, op == "&&"):
        right = scalar(lo, b)
    if not inner.stmts and not may_fault(lo, right):
        return ir.Binary(op, left, right, "bool")
    result = lo.let("cond", left, mutable=True)
    lo.meanings[result.id] = ir.Binary(op, left, right, "bool")
    test: ir.Expr = result if op == "&&" else ir.Unary("!", result, "bool")
    lo.emit(ir.If(test, (*inner.stmts, ir.Set(result, right)), ()))
    return result


def _in_order(lo: Lowering, nodes: Sequence[tree.Value]) -> tuple[ir.Expr, ...]:
    """Operands, each with the value that it has before the later ones are evaluated."""
    found: list[ir.Expr] = []
    for node in nodes:
        start = len(lo.scopes[-1].stmts)
        last = scalar(lo, node)
        later = lo.scopes[-1].stmts[start:]
        found = [lo.let_at(start, "operand", x) if effects.disturbs(later, x) else x for x in found]
        found.append(last)
    return tuple(found)


def may_fault(lo: Lowering, expr: ir.Expr) -> bool:
    """Whether evaluating it although nobody asks costs much, could end the process, or reads what is not there."""
    return any(isinstance(e, ir.Reduce) for e in affine.walk(expr)) or bounds.may_fault(lo, expr)


def _reduce(lo: Lowering, op: str, args: Sequence[tree.Value], kind: str, span: Span) -> ir.Expr:
    """`dot`, `sum`, `max`, `min` over a rank-1 operand."""
    operands = [tensor_operand(lo, a) for a in args]
    heavy = [loops.materialise(lo, o, "operand") if isinstance(o, Rows) and o.heavy else o for o in operands]
    k = lo.fresh("i64", "k")
    at = (affine.var(k),)
    body = cast(element(heavy[0], at), kind)
    if op == "dot":
        loops.require_same_shape(lo, heavy[0].extents, heavy[1].extents, span)
        body = ir.Binary("*", body, cast(element(heavy[1], at), kind), kind)
    extent = heavy[0].extents[0]
    loops.over(lo, k, extent)
    return ir.Reduce("add" if op in ("dot", "sum") else op, k, ir.Lit(0, "i64"), affine.simplest(extent), body, kind)


# ---- tensors -------------------------------------------------------------------------------------
def element(operand: View | Rows, at: Sequence[ir.Affine]) -> ir.Expr:
    return operand.load(at) if isinstance(operand, View) else operand.at(at)


def tensor_operand(lo: Lowering, e: tree.Value) -> View | Rows:
    """A tensor-valued operand, owned or borrowed."""
    return places.rows_of(lo, tensor(lo, e))


def tensor(lo: Lowering, e: tree.Value) -> Val:  # noqa: C901 (one arm per kind of expression)
    """A value of type `Tensor`, or a borrowed one."""
    match e:
        case tree.AddrOf(place=p):
            return places.place(lo, p)
        case tree.Read(place=p):
            return places.place(lo, p)
        case tree.Unary(op=op, operand=x):
            return _map(lo, e, (x,), lambda a: ir.Unary(op, a[0], affine.type_of(a[0])))
        case tree.Binary(op=op, left=a, right=b):
            return _map(lo, e, (a, b), lambda x: ir.Binary(op, x[0], x[1], _elem(e)))
        case tree.Cast(operand=x):
            return _map(lo, e, (x,), lambda a: cast(a[0], _elem(e)))
        case tree.Math(name=name, args=args):
            return _map(lo, e, args, lambda a: ir.Call(name, tuple(a), _elem(e)))
        case tree.MatMul(left=a, right=b):
            return product(lo, tensor_operand(lo, a), tensor_operand(lo, b), _elem(e), e.span)
        case tree.CopyTensor(ref=ref):
            return loops.materialise(lo, tensor_operand(lo, ref), "copy")
        case tree.TensorNew():
            return _new(lo, e)
        case tree.Call():
            return stmts.call(lo, e)
        case tree.BlockExpr(block=block):
            return stmts.block(lo, block)
        case tree.IfExpr():
            return stmts.branch(lo, e)
        case _:
            lo.refuse(_what(e), e.span, "do it before the region, or as a statement of its own")
            raise AssertionError


def _elem(e: tree.Value) -> str:
    assert isinstance(e.type, tree.Tensor)
    return e.type.elem


def _map(lo: Lowering, e: tree.Value, args: Sequence[tree.Value], apply: loops.ElementFn) -> Rows:
    """An element-wise operator; scalars are broadcast."""
    operands: list[View | Rows | ir.Expr] = []
    for a in args:
        if isinstance(a.type, tree.Scalar):
            operands.append(lo.once("scalar", scalar(lo, a)))
        else:
            operands.append(tensor_operand(lo, a))
    tensors = [o for o in operands if isinstance(o, View | Rows)]
    for other in tensors[1:]:
        loops.require_same_shape(lo, tensors[0].extents, other.extents, e.span)

    def at(i: Sequence[ir.Affine]) -> ir.Expr:
        return apply([element(o, i) if isinstance(o, View | Rows) else o for o in operands])

    heavy = any(isinstance(o, Rows) and o.heavy for o in tensors)
    return Rows(_elem(e), tensors[0].extents, at, heavy)


def product(lo: Lowering, a: View | Rows, b: View | Rows, kind: str, span: Span) -> Rows:
    """`a @ b`: rank 2 by 2, 2 by 1 or 1 by 2. Operands that are computed are stored first: each of
    their elements is needed many times."""
    left, right = stored(lo, a, "left"), stored(lo, b, "right")
    assert isinstance(left, View) and isinstance(right, View)
    inner = left.extents[-1]
    loops.require_same_shape(lo, (inner,), right.extents[:1], span)
    rows, columns = left.extents[:-1], right.extents[1:]
    split = len(rows)

    def at(i: Sequence[ir.Affine]) -> ir.Expr:
        k = lo.fresh("i64", "k")
        loops.over(lo, k, inner)
        x = cast(left.load((*i[:split], affine.var(k))), kind)
        y = cast(right.load((affine.var(k), *i[split:])), kind)
        body = ir.Binary("*", x, y, kind)
        return ir.Reduce("add", k, ir.Lit(0, "i64"), affine.simplest(inner), body, kind)

    return Rows(kind, (*rows, *columns), at, heavy=True)


def stored(lo: Lowering, v: Val, name: str) -> Val:
    """`v`, with an element-wise expression given storage."""
    return loops.materialise(lo, v, name) if isinstance(v, Rows) else v


def _new(lo: Lowering, e: tree.TensorNew) -> View:
    assert isinstance(e.type, tree.Tensor)
    extents: list[int] = []
    for d in e.extents:
        low, high = affine.interval(index(lo, d), lo.ranges)
        if high is None or low != high:
            lo.refuse("a tensor of run-time size", e.span, "give it its largest size, and a length beside it")
        assert high is not None
        extents.append(high)
    result = lo.allocate("tensor", e.type.elem, extents)
    if e.init == "zero":
        zero = ir.Lit(0.0 if e.type.elem in tree.FLOATS else 0, e.type.elem)
        loops.store_all(lo, result, lambda _: zero, e.span)
    elif e.init == "fill":
        assert e.fill is not None
        fill = lo.once("fill", scalar(lo, e.fill))
        loops.store_all(lo, result, lambda _: fill, e.span)
    elif e.init == "items":
        for i, item in enumerate(e.items):
            lo.emit(ir.Store(result.buffer, affine.const(i), scalar(lo, item)))
    return result
