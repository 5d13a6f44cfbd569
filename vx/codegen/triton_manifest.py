"""What a runtime needs to launch the kernels of regions, as plain data for JSON.

Enters: regions as launches, their printed and compiled kernels. Leaves: dictionaries, lists, strings and numbers
only. `docs/explanation/device-kernels.md` describes every field. Host scalars are computed by postfix programs over
64-bit integers (`expression`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from vx.codegen.triton import Parameter, Printed, Programs, print_kernel
from vx.codegen.triton_compile import TARGETS, Binary, assembler, compile_kernels, version
from vx.codegen.triton_values import Unsupported
from vx.kernels import affine, device, ir
from vx.kernels.device_form import device_region
from vx.sema.tree import FLOATS

FORMAT = 1
Plain = dict[str, object]

_UNSIGNED_DIFFERS = frozenset({"/", "%", "<", ">", "<=", ">=", ">>"})


def manifest(
    regions: Sequence[tuple[device.Region, Sequence[Printed]]], binaries: Mapping[str, Binary], target: str
) -> Plain:
    """Kernels by symbol and the launches of each region."""
    kernels = {p.symbol: _kernel(p, binaries[p.symbol], target) for _, printed in regions for p in printed}
    release, driver = assembler(target)
    return {
        "format": FORMAT,
        "target": target,
        "triton": version(),
        "assembler": release,
        "min_driver": driver,
        "kernels": kernels,
        "regions": [_region(region, printed) for region, printed in regions],
    }


def build_kernels(
    regions: Sequence[ir.Region], target: str, dependent: bool = False
) -> tuple[Plain, dict[str, bytes], dict[str, str]]:
    """The manifest of regions, the kernel files by name, and their sources by symbol. `dependent`: see
    `triton.print_kernel`. Raises `Unsupported`, and `NoTriton` where something has to be compiled without it."""
    launches = [device_region(r) for r in regions]
    printed = [[print_kernel(r, k, dependent) for k in r.kernels] for r in launches]
    flat = [p for group in printed for p in group]
    binaries = {b.symbol: b for b in compile_kernels(flat, target)}
    files = {file_name(symbol, target): b.image for symbol, b in binaries.items()}
    facts = manifest(list(zip(launches, printed, strict=True)), binaries, target)
    return facts, files, {p.symbol: p.source for p in flat}


def file_name(symbol: str, target: str) -> str:
    """The file of a kernel in an artifact."""
    return f"{symbol}.{'cubin' if TARGETS[target][0] == 'cuda' else 'hsaco'}"


# ---- kernels -----------------------------------------------------------------------------------
def _kernel(printed: Printed, binary: Binary, target: str) -> Plain:
    return {
        "file": file_name(printed.symbol, target),
        "sha256": hashlib.sha256(binary.image).hexdigest(),
        "warps": printed.warps,
        "dependent": printed.dependent,
        "threads": binary.threads,
        "shared": binary.shared,
        "parameters": [_parameter(p) for p in printed.parameters],
        "global_scratch": binary.global_scratch,
        "profile_scratch": binary.profile_scratch,
        "private": printed.private_bytes,
    }


def _parameter(p: Parameter) -> Plain:
    found: Plain = {"kind": p.kind, "type": p.type}
    return found | {"index": p.index} if p.kind in ("buffer", "scalar") else found


# ---- regions -----------------------------------------------------------------------------------
class _Values:
    """Numbers of host scalars: `b0`, `b1`, … of the parameter block, `v0`, `v1`, … of the launch list."""

    def __init__(self, region: device.Region) -> None:
        self.names = {entry.var.id: f"b{i}" for i, entry in enumerate(region.block)}
        self.count = 0

    def declare(self, var: ir.Var) -> int:
        self.names[var.id] = f"v{self.count}"
        self.count += 1
        return self.count - 1


def _region(region: device.Region, printed: Sequence[Printed]) -> Plain:
    values = _Values(region)
    steps = [_step(s, region, printed, values) for s in region.body]
    tensors = [p.buffer for p in region.params if isinstance(p, ir.TensorParam)]
    slots = {e.slot: i for i, e in enumerate(region.block) if e.slot is not None}
    return {
        "name": region.name,
        "buffers": [_buffer(b, region, tensors, slots) for b in region.buffers if b.kind != "private"],
        "block": [{"name": e.var.name, "type": e.var.type, "out": e.out} for e in region.block],
        "block_bytes": device.BLOCK_ENTRY * len(region.block),
        "scratch_bytes": region.scratch_bytes,
        "private_bytes": max((p.private_bytes for p in printed), default=0),
        "messages": list(region.messages),
        "values": values.count,
        "steps": steps,
    }


def _buffer(b: ir.Buffer, region: device.Region, tensors: Sequence[int], slots: Mapping[int, int]) -> Plain:
    """Where a buffer is: "tensor" n of the region's tensors, "block" entry n, or "scratch" at a byte offset."""
    found: Plain = {"id": b.id, "name": b.name, "type": b.elem, "written": b.written}
    if b.id in tensors:
        return found | {"where": "tensor", "at": tensors.index(b.id)}
    if b.id in slots:
        return found | {"where": "block", "at": slots[b.id]}
    place = next(s for s in region.scratch if s.buffer == b.id)
    return found | {"where": "scratch", "at": place.offset, "bytes": place.bytes}


def _step(step: device.Step, region: device.Region, printed: Sequence[Printed], values: _Values) -> Plain:
    match step:
        case device.Launch(kernel=k, arguments=arguments):
            grid = [_programs(p, values) for p in printed[k].programs]
            given = [expression(a, values.names) for a in arguments]
            return {"do": "launch", "kernel": printed[k].symbol, "grid": grid, "arguments": given}
        case device.Let(var=var, value=value):
            text = expression(value, values.names)
            return {"do": "let", "value": values.declare(var), "is": text}
        case device.Check(cond=cond, message=message):
            return {"do": "check", "cond": expression(cond, values.names), "message": message}
        case device.If(cond=cond, then=then, orelse=orelse):
            text = expression(cond, values.names)
            arms = [[_step(s, region, printed, values) for s in arm] for arm in (then, orelse)]
            return {"do": "if", "cond": text, "then": arms[0], "else": arms[1]}
        case device.For(var=var, low=low, high=high, body=body):
            bounds = [expression(e, values.names) for e in (low, high)]
            number = values.declare(var)
            inner = [_step(s, region, printed, values) for s in body]
            return {"do": "for", "value": number, "low": bounds[0], "high": bounds[1], "body": inner}


def _programs(programs: Programs, values: _Values) -> Plain:
    """Programs of one part: `fixed`, or the product of ceil(extent / tile). `most`: an extent that always suffices."""
    if programs.fixed is not None:
        return {"fixed": programs.fixed}
    axes: list[Plain] = []
    for axis, tile in programs.axes:
        extent = None
        if axis.on_host:
            extent = expression(affine.sub(affine.of(axis.high), affine.of(axis.low)), values.names)
        axes.append({"extent": extent, "most": axis.most, "tile": tile})
    return {"axes": axes}


# ---- expressions -------------------------------------------------------------------------------
def expression(expr: ir.Expr, names: Mapping[ir.VarId, str]) -> str:
    """A postfix program: numbers, names, casts by type name, operators; `neg`, `~`, `not` and `?` (condition, then,
    else). Everything is a signed 64-bit integer that wraps; `/u` and the like take both as unsigned."""
    return " ".join(_tokens(expr, names))


def _tokens(expr: ir.Expr, names: Mapping[ir.VarId, str]) -> list[str]:
    if affine.type_of(expr) in FLOATS:
        raise Unsupported("a launch that depends on a float")
    match expr:
        case ir.Lit(value=value):
            return [str(int(value))]
        case ir.Var(id=v):
            return [names[v]]
        case ir.Affine():
            return _sum(expr, names)
        case ir.Cast(operand=operand, type=to):
            return [*_tokens(operand, names), to]
        case ir.Unary(op=op, operand=operand, type=t):
            word = {"-": "neg", "!": "not" if t == "bool" else "~"}[op]
            return [*_tokens(operand, names), word, *_wrap(t)]
        case ir.Select(cond=cond, then=then, orelse=orelse):
            return [t for e in (cond, then, orelse) for t in _tokens(e, names)] + ["?"]
        case ir.Binary(op=op, left=left, right=right, type=t):
            unsigned = "u" if op in _UNSIGNED_DIFFERS and affine.type_of(left) == "u64" else ""
            return [*_tokens(left, names), *_tokens(right, names), op + unsigned, *_wrap(t)]
        case ir.Call(name="min" | "max" | "abs" as name, args=args, type=t):
            return [*(x for a in args for x in _tokens(a, names)), name, *_wrap(t)]
    raise Unsupported(f"a launch that depends on {expr!r}")


def _wrap(elem: str) -> list[str]:
    return [] if elem in ("i64", "u64", "bool") else [elem]


def _sum(expr: ir.Affine, names: Mapping[ir.VarId, str]) -> list[str]:
    tokens: list[str] = []
    for c, part in expr.terms:
        term = _tokens(part, names) if c == 1 else [*_tokens(part, names), str(c), "*"]
        tokens += term + (["+"] if tokens else [])
    if expr.const or not tokens:
        tokens += [str(expr.const)] + (["+"] if tokens else [])
    return tokens
