"""Typed program → LLVM text of its host code.

Enters: a `Program` and `HostOptions`. Leaves: one module as text, in which everything is internal but
`vx_program_main` (which the runtime's start-up calls) and the model's table, and the regions that it calls,
for `cpu.py` to print. The text holds no data layout: `compile.py` adds the target's.

`host_function.py` has the state of one function, the other `host_*.py` say what each node means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vx.admission.plan import RegionKey
from vx.admission.tiles import Types
from vx.codegen import host_arena as arena_host
from vx.codegen import host_expr as expr
from vx.codegen import host_match, host_place, host_region, host_stmt, prelude
from vx.codegen import host_tensor as tensor
from vx.codegen.host_arena import arenas_of
from vx.codegen.host_device import Remote, control_bytes, remote_devices
from vx.codegen.host_drop import bind, drop_function, drop_value
from vx.codegen.host_function import Emitter, Handlers, InMemory
from vx.codegen.host_manifest import DeviceRegion, globals_of
from vx.codegen.host_model import model_globals
from vx.codegen.host_module import HostOptions, Module, register, returns_by_pointer
from vx.codegen.layout import Layouts, is_aggregate, is_view
from vx.codegen.scan import scan
from vx.kernels.region import LoweredRegion
from vx.machine.machine import GPU_ARCHES
from vx.sema import tree
from vx.sema.tree import Program
from vx.syntax.limits import recursion_room

HANDLERS = Handlers(
    value={
        tree.Const: expr.const, tree.Str: expr.string, tree.FnAddr: expr.function_address,
        tree.Read: host_place.read, tree.AddrOf: host_place.address_of,
        tree.TensorPtr: tensor.tensor_pointer, tree.Extent: tensor.extent_value,
        tree.CopyTensor: tensor.copy_of, tree.Transfer: tensor.copy_of, tree.TensorNew: tensor.tensor_new,
        tree.Unary: expr.unary, tree.Binary: expr.binary, tree.Cast: expr.cast, tree.Math: expr.math,
        tree.Reduce: expr.reduction, tree.MatMul: expr.matmul,
        tree.Call: expr.call_value, tree.CallExtern: expr.call_extern, tree.Print: expr.print_value,
        tree.ReturnExpr: expr.return_expr, tree.Abort: expr.abort,
    },
    into={
        tree.Read: host_place.read_into, tree.Call: expr.call_into, tree.StructLit: expr.struct_into,
        tree.EnumLit: expr.enum_into, tree.IfExpr: expr.if_into, tree.Match: host_match.match_into,
        tree.BlockExpr: expr.block_expr_into, tree.Spawn: host_region.spawn_into,
    },
    address={
        tree.Local: host_place.local_address, tree.Field: host_place.field_address,
        tree.Deref: host_place.deref_address, tree.Temp: host_place.temp_address,
        tree.Index: host_place.index_address,
    },
    tensor_place={
        tree.Local: tensor.reference_place, tree.Field: tensor.reference_place, tree.Deref: tensor.deref_tensor,
        tree.Temp: tensor.temp_tensor, tree.ModelTensor: tensor.model_tensor, tree.Index: tensor.index_tensor,
        tree.Reshape: tensor.reshape, tree.Transpose: tensor.transpose, tree.Bytes: tensor.bytes_view,
    },
    stmt={
        tree.Let: host_stmt.let, tree.Assign: host_stmt.assign, tree.OpAssign: host_stmt.op_assign,
        tree.Land: host_stmt.land, tree.MatMulInto: host_stmt.computed, tree.Attention: host_stmt.computed,
        tree.ExprStmt: host_stmt.expr_stmt, tree.Return: host_stmt.return_stmt, tree.Break: host_stmt.break_stmt,
        tree.Continue: host_stmt.continue_stmt, tree.Loop: host_stmt.loop, tree.While: host_stmt.while_loop,
        tree.For: host_stmt.for_loop, tree.Assert: host_stmt.assert_stmt,
    },
    held=host_place.held,
    is_raw_index=host_place.is_raw_index,
    load_view=tensor.load_view,
    store_view=tensor.store_view,
    drop_value=drop_value,
)  # fmt: skip


LONG_FUNCTION = 60
"""Lines from which on a function is never inlined. LLVM would inline every function that has one caller; the
one huge function that this makes of a program takes ten times as long to optimise and is no faster."""


@dataclass(frozen=True, slots=True)
class HostModule:
    """Host code as text, the regions that it calls as C functions, and what each `spawn` needs beside its tensors."""

    llvm_text: str
    regions: tuple[LoweredRegion, ...]
    scratch: Mapping[RegionKey, int]
    control: Mapping[str, int]
    """What each GPU's memory holds beside its tiles."""
    remote: Remote
    device_regions: tuple[DeviceRegion, ...]

    @property
    def host_regions(self) -> tuple[LoweredRegion, ...]:
        """The regions that are code of the host."""
        kernels = {found.lowered.region.name for found in self.device_regions if found.gpu is not None}
        return tuple(region for region in self.regions if region.region.name not in kernels)


def emit_host(program: Program, options: HostOptions) -> HostModule:
    """Write the host code of everything that `main` reaches.

    Raises `CompileError` for what regions cannot do (E0902).
    """
    arenas = arenas_of(options.plans, options.machine)
    layouts = Layouts(program.structs, program.enums, arenas.bank)
    remote = remote_devices(sorted(arenas.banks), options.machine, options.stand_in)
    module = Module(program, options, arenas, remote, Types(program), layouts)
    main = program.functions[program.main]
    with recursion_room():
        function = module.function(main.key)
        entry = _entry(module, function)
        bodies = _bodies(module)
    devices = globals_of(module)
    machine = options.machine
    gpus = [t for t in machine.topologies.values() if t.layer != "builtin" and t.arch in GPU_ARCHES] if machine else []
    control = {gpu.memory: control_bytes(len(module.options.gpu)) for gpu in gpus}
    parts = [
        *model_globals(module),
        *module.string_globals(),
        *module.declared.values(),
        *(prelude.HELPERS[name].text for name in module.helpers),
        *devices,
        "\n".join(entry),
        *bodies,
        prelude.METADATA,
    ]
    return HostModule(
        "\n".join(parts) + "\n", tuple(module.regions), module.scratch, control, remote, tuple(module.device_regions)
    )


def _entry(module: Module, main: str) -> list[str]:
    """The function that the runtime starts. A program without roles enters its only one here: `main`."""
    lines: list[str] = []

    def op(text: str) -> str:
        lines.append(f"%v{len(lines)} = {text}")
        return lines[-1].partition(" ")[0]

    bases, leaving = arena_host.enter(module, module.program.main, lines.append, op)
    status = op(f"call i32 {main}({', '.join(f'ptr {base}' for base in bases)})")
    body = [f"  {line}" for line in (*lines, *leaving)]
    return ["define i32 @vx_program_main() nounwind {", *body, f"  ret i32 {status}", "}"]


def _bodies(module: Module) -> list[str]:
    """Functions and drop functions, each of which may ask for more of both."""
    texts: list[str] = []
    functions, drops = 0, 0
    while functions < len(module.functions) or drops < len(module.drops):
        if functions < len(module.functions):
            key = list(module.functions)[functions]
            functions += 1
            texts.append(_function(module, module.program.functions[key]))
        else:
            texts.append(drop_function(module, list(module.drops)[drops]))
            drops += 1
    return texts


def _function(module: Module, function: tree.Function) -> str:
    by_pointer = returns_by_pointer(function.ret)
    fn = Emitter(module, HANDLERS, function, scan(function), "%result" if by_pointer else None)
    params = ["ptr noalias %result"] if by_pointer else []
    with fn.scope():
        for number, local in enumerate(function.params):
            params.append(_param(fn, local, f"%p{number}"))
        params += arena_host.parameters(fn)
        _body(fn, function)
    kind = "void" if by_pointer else register(function.ret)
    inlining = " noinline" if len(fn.lines) > LONG_FUNCTION else ""
    head = f"define internal {kind} {module.function(function.key)}({', '.join(params)}) nounwind{inlining} {{"
    return "\n".join([head, "entry:", *fn.allocas, *fn.lines, "}"])


def _param(fn: Emitter, local: tree.LocalId, name: str) -> str:
    """Bind a parameter; tensors and aggregates come in storage that this function owns."""
    type_ = fn.type_of(local)
    if is_aggregate(type_) or (is_view(type_) and local in fn.usage.in_memory):
        bind(fn, local, InMemory(name))
    elif is_view(type_):
        bind(fn, local, fn.load(type_, name))
    elif local in fn.usage.in_memory:
        address = fn.storage(type_)
        fn.store(name, type_, address)
        bind(fn, local, InMemory(address))
    else:
        bind(fn, local, name)
    by_pointer = is_aggregate(type_) or is_view(type_)
    return f"ptr noalias {name}" if by_pointer else f"{register(type_)} {name}"


def _body(fn: Emitter, function: tree.Function) -> None:
    ret = function.ret
    if returns_by_pointer(ret):
        expr.block_into(fn, function.body, fn.result)
        _finish(fn, "ret void", function)
    elif register(ret) == "void":
        expr.block_into(fn, function.body, None)
        _finish(fn, "unreachable" if isinstance(ret, tree.Never) else "ret void", function)
    else:
        address = fn.storage(ret)
        expr.block_into(fn, function.body, address)
        result = fn.load(ret, address) if fn.open else "poison"
        _finish(fn, f"ret {register(ret)} {result}", function)


def _finish(fn: Emitter, text: str, function: tree.Function) -> None:
    """End the function where its body's end can be reached, dropping the parameters."""
    if not fn.open:
        return
    has_value = function.body.value is not None or register(function.ret) == "void"
    fn.unwind(0)
    fn.end(text if has_value else "unreachable")
