"""Statements in host code.

Enters: statement nodes. Leaves: instructions. Temporaries of a statement go at its end.
"""

from __future__ import annotations

from vx.codegen import host_device, host_scalar
from vx.codegen.host_drop import bind_expression, bind_value, replace
from vx.codegen.host_expr import block_into, discard, leave
from vx.codegen.host_function import Emitter, LoopLabels
from vx.codegen.host_region import ARITHMETIC, assign_computed, run_statement
from vx.codegen.host_tensor import borrowed, copy_elements, require_same_extents, settle
from vx.codegen.llvm_text import REGISTER
from vx.sema import tree
from vx.sema.tree import UNSIGNED, Block, PlaceNode, Scalar, Tensor


def let(fn: Emitter, node: tree.Let) -> None:
    bind_expression(fn, node.id, node.value)


def assign(fn: Emitter, node: tree.Assign) -> None:
    with fn.scope():
        if not isinstance(node.target.type, Tensor):
            value = fn.value(node.value)
            replace(fn, node.target, value)
        elif isinstance(node.value, ARITHMETIC) or isinstance(node.value.type, Scalar):
            assign_computed(fn, node)
        elif _replaces(fn, node):
            replace(fn, node.target, fn.value(node.value))
        else:
            source = borrowed(fn, node.value)
            target = settle(fn, fn.tensor_place(node.target), node.span)
            require_same_extents(fn, target, source, node.span)
            if not host_device.copy(fn, target, node.target.type, source, node.value.type):
                copy_elements(fn, target, source)


def _replaces(fn: Emitter, node: tree.Assign) -> bool:
    """Whether the target takes over the value's storage instead of receiving copies of its elements."""
    target = node.target
    assert isinstance(target.type, Tensor)
    whole = isinstance(target, tree.Local | tree.Field) and target.type.place is None
    owned = isinstance(node.value.type, Tensor) and not (isinstance(node.value, tree.Read) and not node.value.move)
    return owned and (whole or _is_raw_tensor(fn, target))


def _is_raw_tensor(fn: Emitter, target: PlaceNode) -> bool:
    """`*p` or `p[i]` of a raw pointer to tensors: storage for a descriptor, which has no tensor yet."""
    if isinstance(target, tree.Index):
        return fn.is_raw_index(target)
    return isinstance(target, tree.Deref) and isinstance(target.ref.type, tree.Ptr)


def op_assign(fn: Emitter, node: tree.OpAssign) -> None:
    with fn.scope():
        if isinstance(node.target.type, Tensor):
            assign_computed(fn, node)
            return
        assert isinstance(node.target.type, Scalar)
        right = fn.scalar(node.value)
        address = fn.address(node.target)
        left = fn.load(node.target.type, address)
        assert isinstance(left, str)
        result = host_scalar.arithmetic(fn, node.op, left, right, node.target.type.name, node.span)
        fn.store(result, node.target.type, address)


def land(fn: Emitter, node: tree.Land) -> None:
    with fn.scope():
        source = borrowed(fn, node.ref)
        target = settle(fn, fn.tensor_place(node.target), node.span)
        require_same_extents(fn, target, source, node.span)
        if not host_device.copy(fn, target, node.target.type, source, node.ref.type):
            copy_elements(fn, target, source)


def computed(fn: Emitter, node: tree.MatMulInto | tree.Attention) -> None:
    with fn.scope():
        run_statement(fn, node)


def expr_stmt(fn: Emitter, node: tree.ExprStmt) -> None:
    with fn.scope():
        discard(fn, node.value)


def return_stmt(fn: Emitter, node: tree.Return) -> None:
    with fn.scope():
        leave(fn, node.value)


def break_stmt(fn: Emitter, node: tree.Break) -> None:
    loop = fn.loops[-1]
    fn.unwind(loop.depth)
    fn.goto(loop.stop)


def continue_stmt(fn: Emitter, node: tree.Continue) -> None:
    loop = fn.loops[-1]
    fn.unwind(loop.depth)
    fn.goto(loop.again)


def _body(fn: Emitter, body: Block, stop: str, again: str) -> None:
    fn.loops.append(LoopLabels(stop, again, len(fn.scopes)))
    block_into(fn, body, None)
    fn.loops.pop()


def loop(fn: Emitter, node: tree.Loop) -> None:
    head, stop = fn.fresh_label(), fn.fresh_label()
    fn.label(head)
    _body(fn, node.body, stop, head)
    fn.goto(head)
    fn.label(stop)


def while_loop(fn: Emitter, node: tree.While) -> None:
    head, body, stop = fn.fresh_label(), fn.fresh_label(), fn.fresh_label()
    fn.label(head)
    fn.branch(fn.condition(node.cond), body, stop)
    fn.label(body)
    _body(fn, node.body, stop, head)
    fn.goto(head)
    fn.label(stop)


def for_loop(fn: Emitter, node: tree.For) -> None:
    """The counter is below `high` when it is stepped, so the step never wraps."""
    type_ = fn.type_of(node.id)
    assert isinstance(type_, Scalar)
    kind, unsigned = REGISTER[type_.name], type_.name in UNSIGNED
    with fn.scope():
        low, high = fn.scalar(node.low), fn.scalar(node.high)
        counter = fn.storage(type_)
        fn.line(f"store {kind} {low}, ptr {counter}")
        head, body, again, stop = (fn.fresh_label() for _ in range(4))
        fn.label(head)
        index = fn.op(f"load {kind}, ptr {counter}")
        fn.branch(fn.op(f"icmp {'ult' if unsigned else 'slt'} {kind} {index}, {high}"), body, stop)
        fn.label(body)
        bind_value(fn, node.id, index)
        _body(fn, node.body, stop, again)
        fn.label(again)
        following = fn.op(f"add {'nuw' if unsigned else 'nsw'} {kind} {index}, 1")
        fn.line(f"store {kind} {following}, ptr {counter}")
        fn.goto(head)
        fn.label(stop)


def assert_stmt(fn: Emitter, node: tree.Assert) -> None:
    holds = fn.condition(node.cond)
    words = b"assertion failed" + (b": " + node.message if node.message else b"")
    text = fn.module.string(words + f" at {fn.module.where(node.span)}".encode())
    fn.line(f"call void {fn.module.helper('require')}(i1 {holds}, ptr {text})")
