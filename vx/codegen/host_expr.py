"""Values in host code: constants, operators, calls, aggregates, control flow that yields a value.

Enters: value nodes. Leaves: operands, or results written to an address. Operators on tensors go to
`host_region.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vx.codegen import host_arena, host_scalar
from vx.codegen.host_caller import note_call
from vx.codegen.host_function import Emitter, Operand, View
from vx.codegen.host_module import c_param, c_result, memory, register, returns_by_pointer
from vx.codegen.host_region import compute, reduce
from vx.codegen.host_tensor import borrowed, settle, spill
from vx.codegen.layout import is_aggregate, is_empty
from vx.codegen.llvm_text import INTEGERS, constant
from vx.runtime.abi import ELEMENTS
from vx.sema import tree
from vx.sema.tree import BOOL, FLOATS, UNSIGNED, Block, Ptr, Scalar, Tensor, Type, Value


# ---- constants -------------------------------------------------------------------------------------
def const(fn: Emitter, node: tree.Const) -> Operand:
    if isinstance(node.type, Scalar):
        return constant(node.value, node.type.name)
    return "null" if node.value == 0 else fn.op(f"inttoptr i64 {int(node.value)} to ptr")


def string(fn: Emitter, node: tree.Str) -> Operand:
    return fn.module.string(node.value)


def function_address(fn: Emitter, node: tree.FnAddr) -> Operand:
    host_arena.refuse_hidden(fn.module, node.key, "who calls it through a pointer has no frame for them", node.span)
    return fn.module.function(node.key)


# ---- operators -------------------------------------------------------------------------------------
def _name(type_: Type) -> str:
    assert isinstance(type_, Scalar), type_
    return type_.name


def unary(fn: Emitter, node: tree.Unary) -> Operand:
    if isinstance(node.type, Tensor):
        return compute(fn, node)
    value = fn.scalar(node.operand)
    name = _name(node.type)
    return host_scalar.invert(fn, value, name) if node.op == "!" else host_scalar.negate(fn, value, name)


def binary(fn: Emitter, node: tree.Binary) -> Operand:
    if isinstance(node.type, Tensor):
        return compute(fn, node)
    if node.op in ("&&", "||"):
        return _short_circuit(fn, node)
    left, right = fn.scalar(node.left), fn.scalar(node.right)
    kind = node.left.type
    if node.op in host_scalar.COMPARISONS:
        return host_scalar.compare(fn, node.op, left, right, kind.name if isinstance(kind, Scalar) else None)
    return host_scalar.arithmetic(fn, node.op, left, right, _name(kind), node.span)


def _short_circuit(fn: Emitter, node: tree.Binary) -> str:
    left = fn.condition(node.left)
    if not fn.open:
        return "poison"
    decided, other, after = fn.block, fn.fresh_label(), fn.fresh_label()
    fn.branch(left, *((other, after) if node.op == "&&" else (after, other)))
    fn.label(other)
    right = fn.condition(node.right)
    known = "false" if node.op == "&&" else "true"
    incoming = [f"[ {known}, %{decided} ]"]
    if fn.open:
        incoming.append(f"[ {right}, %{fn.block} ]")
    fn.label(after)
    return fn.op(f"phi i1 {', '.join(incoming)}")


def cast(fn: Emitter, node: tree.Cast) -> Operand:
    source, target = node.operand.type, node.type
    if isinstance(target, Tensor):
        return compute(fn, node)
    if isinstance(source, Scalar) and isinstance(target, Scalar):
        return host_scalar.cast(fn, fn.scalar(node.operand), source.name, target.name)
    value = fn.value(node.operand)
    if isinstance(value, View):
        return value if isinstance(target, tree.Ref) else settle(fn, value, node.span).data
    if isinstance(source, Scalar):
        wide = host_scalar.cast(fn, value, source.name, "i64")
        return fn.op(f"inttoptr i64 {wide} to ptr")
    if isinstance(target, Scalar):
        return fn.op(f"ptrtoint ptr {value} to {register(target)}")
    return value


def math(fn: Emitter, node: tree.Math) -> Operand:
    if isinstance(node.type, Tensor):
        return compute(fn, node)
    return host_scalar.math(fn, node.name, [fn.scalar(a) for a in node.args], _name(node.args[0].type))


def reduction(fn: Emitter, node: tree.Reduce) -> Operand:
    return reduce(fn, node)


def matmul(fn: Emitter, node: tree.MatMul) -> Operand:
    return compute(fn, node)


# ---- calls -----------------------------------------------------------------------------------------
def _arguments(fn: Emitter, nodes: tuple[Value, ...]) -> list[str]:
    """Arguments of a call between host functions, left to right; the callee owns them."""
    texts = []
    with fn.pending() as keep:
        for node in nodes:
            value = fn.value(node)
            keep(value, node.type)
            if isinstance(value, View):
                texts.append(f"ptr {spill(fn, value)}")
            else:
                texts.append(f"{register(node.type)} {value}")
    return texts


def call(fn: Emitter, node: tree.Call) -> Operand:
    """A call whose result is in a register."""
    arguments = [*_arguments(fn, node.args), *host_arena.arguments(fn, node)]
    note_call(fn, node)
    name = fn.module.function(node.key)
    text = f"call {register(node.type)} {name}({', '.join(arguments)})"
    if not is_empty(node.type):
        return fn.op(text)
    fn.line(text)
    if isinstance(node.type, tree.Never):
        fn.end("unreachable")
    return "poison"


def call_into(fn: Emitter, node: tree.Call, address: str | None) -> None:
    """A call; a result in memory is written to `address` by the callee."""
    if not returns_by_pointer(node.type):
        value = call(fn, node)
        if address is not None and not is_empty(node.type):
            fn.store(value, node.type, address)
        return
    arguments = [*_arguments(fn, node.args), *host_arena.arguments(fn, node)]
    result = address if address is not None else fn.storage(node.type)
    note_call(fn, node)
    fn.line(f"call void {fn.module.function(node.key)}({', '.join([f'ptr {result}', *arguments])})")


def call_value(fn: Emitter, node: tree.Call) -> Operand:
    if not returns_by_pointer(node.type):
        return call(fn, node)
    address = fn.storage(node.type)
    call_into(fn, node, address)
    return address if is_aggregate(node.type) else fn.load(node.type, address)


_VARIADIC: Mapping[str, int] = MappingProxyType(
    {"printf": 1, "dprintf": 2, "fprintf": 2, "sprintf": 2, "snprintf": 3, "open": 2, "fcntl": 2, "ioctl": 2}
)
"""C functions with `...`, which programs declare with the arguments they pass, and their fixed parameters."""


def call_extern(fn: Emitter, node: tree.CallExtern) -> Operand:
    extern = fn.module.program.externs[node.name]
    arguments = []
    for argument, type_ in zip(node.args, extern.params, strict=True):
        value = fn.value(argument)
        text = value.data if isinstance(value, View) else fn.in_memory(value, argument.type)
        arguments.append(f"{c_param(type_)} {text}")
    fixed = _VARIADIC.get(node.name)
    name = fn.module.extern(extern, fixed)
    kind = c_result(extern.ret)
    if fixed is not None:
        kind += f" ({', '.join([*(memory(t) for t in extern.params[:fixed]), '...'])})"
    text = f"call {kind} {name}({', '.join(arguments)})"
    if is_empty(extern.ret):
        fn.line(text)
        if isinstance(extern.ret, tree.Never):
            fn.end("unreachable")
        return "poison"
    result = fn.op(text)
    return fn.op(f"trunc i8 {result} to i1") if extern.ret == BOOL else result


# ---- print -----------------------------------------------------------------------------------------
def print_value(fn: Emitter, node: tree.Print) -> Operand:
    type_ = node.value.type
    if isinstance(type_, Tensor) or (isinstance(type_, tree.Ref) and isinstance(type_.to, Tensor)):
        _print_tensor(fn, borrowed(fn, node.value))
        return "poison"
    value = fn.scalar(node.value)
    while isinstance(type_, tree.Ref):
        type_ = type_.to
        loaded = fn.load(type_, value)
        assert isinstance(loaded, str)
        value = loaded
    if isinstance(type_, Ptr):
        fn.line(f"call void {fn.module.runtime('vx_print_str')}(ptr {value})")
    else:
        _print_scalar(fn, value, _name(type_))
    return "poison"


def _print_tensor(fn: Emitter, view: View) -> None:
    address = spill(fn, view)
    rank = len(view.extents)
    extents, strides = fn.at_offset(address, 8), fn.at_offset(address, 8 + 8 * rank)
    fn.line(
        f"call void {fn.module.runtime('vx_print_tensor')}(ptr {view.data}, i32 {ELEMENTS[view.elem]}, i32 {rank}, "
        f"ptr {extents}, ptr {strides})"
    )


def _print_scalar(fn: Emitter, value: str, name: str) -> None:
    if name in ("f32", "f64"):
        kind = "float" if name == "f32" else "double"
        fn.line(f"call void {fn.module.runtime('vx_print_' + name)}({kind} {value})")
    elif name in FLOATS:
        bits = fn.op(f"bitcast {register(Scalar(name))} {value} to i16")
        wide = fn.op(f"zext i16 {bits} to i32")
        fn.line(f"call void {fn.module.runtime('vx_print_' + name)}(i32 {wide})")
    elif name == "bool":
        wide = fn.op(f"zext i1 {value} to i32")
        fn.line(f"call void {fn.module.runtime('vx_print_bool')}(i32 {wide})")
    elif INTEGERS[name] == 128:
        address = fn.storage(Scalar(name))
        fn.store(value, Scalar(name), address)
        fn.line(f"call void {fn.module.runtime('vx_print_' + name)}(ptr {address})")
    else:
        wide_name = "u64" if name in UNSIGNED else "i64"
        wide = host_scalar.cast(fn, value, name, wide_name)
        fn.line(f"call void {fn.module.runtime('vx_print_' + wide_name)}(i64 {wide})")


# ---- aggregates ------------------------------------------------------------------------------------
def struct_into(fn: Emitter, node: tree.StructLit, address: str | None) -> None:
    assert isinstance(node.type, tree.Struct)
    base = address if address is not None else fn.storage(node.type)
    offsets = fn.module.layouts.field_offsets(node.type)
    _parts_into(fn, [(node.values[i], offsets[i]) for i in node.order], base)


def enum_into(fn: Emitter, node: tree.EnumLit, address: str | None) -> None:
    assert isinstance(node.type, tree.Enum)
    base = address if address is not None else fn.storage(node.type)
    offsets = fn.module.layouts.payload_offsets(node.type, node.variant)
    _parts_into(fn, list(zip(node.values, offsets, strict=True)), base)
    fn.line(f"store i32 {node.variant}, ptr {base}")


def _parts_into(fn: Emitter, parts: list[tuple[Value, int]], base: str) -> None:
    """Evaluate parts in order, each straight into its place; leaving half-way drops those that are there."""
    with fn.pending() as keep:
        for node, offset in parts:
            there = fn.at_offset(base, offset)
            if is_aggregate(node.type):
                fn.into(node, there)
                keep(there, node.type)
            else:
                value = fn.value(node)
                fn.store(value, node.type, there)
                keep(value, node.type)


# ---- control flow ------------------------------------------------------------------------------------
def block_into(fn: Emitter, block: Block, address: str | None) -> None:
    """A block; its value is computed before its locals go."""
    with fn.scope():
        for stmt in block.stmts:
            if not fn.open:
                return
            fn.stmt(stmt)
        if block.value is not None and fn.open:
            with fn.scope():
                if address is None:
                    discard(fn, block.value)
                else:
                    fn.into(block.value, address)


def discard(fn: Emitter, node: Value) -> None:
    """Evaluate for the effect; a result that owns something is dropped."""
    if is_empty(node.type):
        fn.into(node, None)
    elif isinstance(node, tree.Read) and not node.move:
        return
    else:
        fn.drop(fn.value(node), node.type)


def if_into(fn: Emitter, node: tree.IfExpr, address: str | None) -> None:
    cond = fn.condition(node.cond)
    then, after = fn.fresh_label(), fn.fresh_label()
    orelse = fn.fresh_label() if node.orelse is not None else after
    fn.branch(cond, then, orelse)
    fn.label(then)
    block_into(fn, node.then, address)
    reaches = fn.open or node.orelse is None
    fn.goto(after)
    if node.orelse is not None:
        fn.label(orelse)
        block_into(fn, node.orelse, address)
        reaches = reaches or fn.open
        fn.goto(after)
    if reaches:
        fn.label(after)


def block_expr_into(fn: Emitter, node: tree.BlockExpr, address: str | None) -> None:
    block_into(fn, node.block, address)


def return_expr(fn: Emitter, node: tree.ReturnExpr) -> Operand:
    leave(fn, node.value)
    return "poison"


def leave(fn: Emitter, value: Value | None) -> None:
    """Return from the function."""
    result = "poison"
    if value is not None and returns_by_pointer(fn.function.ret):
        fn.into(value, fn.result)
    elif value is not None:
        result = fn.scalar(value)
    fn.unwind(0)
    kind = register(fn.function.ret)
    fn.end("ret void" if returns_by_pointer(fn.function.ret) or kind == "void" else f"ret {kind} {result}")


def abort(fn: Emitter, node: tree.Abort) -> Operand:
    if node.refuses:
        fn.line(f"call void {fn.module.runtime('vx_refuse')}(ptr {fn.module.string(node.message)})")
    elif fn.function.asked is None:
        message = fn.module.string(node.message + f" at {fn.module.where(node.span)}".encode())
        fn.line(f"call void {fn.module.runtime('vx_abort')}(ptr {message})")
    else:
        fn.line(f"call void {fn.module.runtime('vx_abort_called')}(ptr {fn.module.string(node.message)})")
    fn.end("unreachable")
    return "poison"
