"""Typed programs built by hand, and what running them prints."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from vx.codegen.compile import compile_llvm
from vx.codegen.host import emit_host
from vx.codegen.host_module import HostOptions, LowerRegion
from vx.codegen.link import link_executable
from vx.codegen.target import Target, native
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import Span
from vx.sema import tree as t

SOURCES = SourceMap()
SOURCES.add("folder/test.vx", "\n" * 100)


def at(line: int = 1) -> Span:
    """A span on a line of `test.vx`."""
    return Span("folder/test.vx", line - 1, line)


S = at()
I32, I64, F32, BOOL, VOID = t.I32, t.I64, t.F32, t.BOOL, t.VOID


def const(value: int | float | bool, type_: t.Type = I32) -> t.Const:
    return t.Const(type_, S, value)


def text(value: str) -> t.Str:
    return t.Str(t.CSTR, S, value.encode())


def local(type_: t.Type, id_: int) -> t.Local:
    return t.Local(type_, S, id_)


def read(place: t.PlaceNode, move: bool = False) -> t.Read:
    return t.Read(place.type, S, place, move)


def get(type_: t.Type, id_: int, move: bool = False) -> t.Read:
    return read(local(type_, id_), move)


def binary(op: str, left: t.Value, right: t.Value, type_: t.Type | None = None) -> t.Binary:
    result = BOOL if op in ("==", "!=", "<", ">", "<=", ">=", "&&", "||") else left.type
    return t.Binary(type_ or result, S, op, left, right)


def block(*stmts: t.StmtNode, value: t.Value | None = None) -> t.Block:
    return t.Block(stmts, value, value.type if value else VOID, S)


def let(id_: int, value: t.Value) -> t.Let:
    return t.Let(S, id_, value)


def do(value: t.Value) -> t.ExprStmt:
    return t.ExprStmt(S, value)


def show(*values: t.Value) -> list[t.StmtNode]:
    """Print values, a space after each."""
    stmts: list[t.StmtNode] = []
    for value in values:
        stmts += [do(t.Print(VOID, S, value)), do(t.Print(VOID, S, text(" ")))]
    return stmts


def field(base: t.PlaceNode, index: int, type_: t.Type) -> t.Field:
    return t.Field(type_, S, base, index)


def index(base: t.PlaceNode, *indices: t.Value | tuple[t.Value, t.Value], line: int = 1) -> t.Index:
    """`base[i, a..b]`"""
    assert isinstance(base.type, t.Tensor)
    items = tuple(t.Slice(*i) if isinstance(i, tuple) else t.At(i) for i in indices)
    dims: list[t.Dim] = []
    for item in items:
        if isinstance(item, t.Slice):
            static = isinstance(item.low, t.Const) and isinstance(item.high, t.Const)
            dims.append(int(item.high.value - item.low.value) if static else t.Dyn(None))  # type: ignore[union-attr]
    dims += base.type.dims[len(items) :]
    type_: t.Type = t.Tensor(base.type.elem, tuple(dims), base.type.place) if dims else t.Scalar(base.type.elem)
    return t.Index(type_, at(line), base, items)


def ref(place: t.PlaceNode, mutable: bool = False) -> t.AddrOf:
    return t.AddrOf(t.Ref(place.type, mutable), S, place, mutable)


def deref(value: t.Value) -> t.Deref:
    assert isinstance(value.type, t.Ref | t.Ptr)
    return t.Deref(value.type.to, S, value)


def function(
    key: str, params: Mapping[int, t.Type], ret: t.Type, body: t.Block, locals_: Mapping[int, t.Type] | None = None
) -> t.Function:
    types = {**params, **(locals_ or {})}
    decls = {i: t.LocalDecl(i, f"x{i}", type_, True, S) for i, type_ in types.items()}
    return t.Function(key, key, tuple(params), decls, ret, body, None, False, S)


def program(
    *functions: t.Function,
    structs: tuple[t.StructDef, ...] = (),
    enums: tuple[t.EnumDef, ...] = (),
    externs: tuple[t.Extern, ...] = (),
) -> t.Program:
    return t.Program(
        {f.key: f for f in functions},
        {s.key: s for s in structs},
        {e.key: e for e in enums},
        {e.name: e for e in externs},
        (),
        "main",
        (),
        ("folder/test.vx",),
    )


def main(*stmts: t.StmtNode, locals_: Mapping[int, t.Type] | None = None) -> t.Function:
    """`fn main() -> i32 { stmts; 0 }`"""
    return function("main", {}, I32, block(*stmts, value=const(0)), locals_)


def no_regions(*_: object) -> t.Never:
    raise AssertionError("this program has no regions")


def llvm(source: t.Program, lower: LowerRegion = no_regions, strict: bool = False) -> str:  # type: ignore[assignment]
    return emit_host(source, HostOptions(lower, SOURCES, strict_index=strict)).llvm_text


def run(
    source: t.Program,
    folder: Path,
    *,
    lower: LowerRegion = no_regions,  # type: ignore[assignment]
    opt_level: int = 2,
    strict: bool = False,
    objects: tuple[bytes, ...] = (),
    target: Target | None = None,
    memory_mb: int = 0,
) -> subprocess.CompletedProcess[str]:
    """Compile, link and run, with at most `memory_mb` of address space if that is not 0."""
    target = target or native()
    code = compile_llvm(llvm(source, lower, strict), target, opt_level)
    link_executable([code, *objects], folder / "program", target)
    limit = ["sh", "-c", f'ulimit -v {memory_mb * 1024}; exec "$0"'] if memory_mb else []
    return subprocess.run([*limit, folder / "program"], capture_output=True, text=True, check=False, timeout=20)
