"""Regions → Kernels: the entry of this stage.

Enters: a block of a typed function (a `spawn` body, or one host statement that computes with tensors).
Leaves: a `LoweredRegion`. Calls are inlined; what the block takes from the host function becomes parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vx.diagnostics.span import Span
from vx.kernels import affine, effects, form, ir, stmts
from vx.kernels.lowering import Lowering, Restart, View, dense_strides
from vx.kernels.region import LoweredRegion
from vx.sema import tree


def _file_name(span: Span) -> str:
    return span.file.rsplit("/", 1)[-1]


def lower_region(
    program: tree.Program,
    function: tree.Function,
    block: tree.Block,
    name: str,
    *,
    where: Callable[[Span], str] = _file_name,
    strict_index: bool = False,
) -> LoweredRegion:
    """Lower `block` of `function` to a region called `name`.

    `where` renders a span for run-time messages (`llama.vx:12`, never a path). Raises `CompileError`
    (E0902) for what a region cannot do.
    """
    written: set[object] = set()
    while True:
        lo = Lowering(program, function, where, strict_index, written)
        try:
            return _finish(lo, block, name)
        except Restart:
            continue


def _finish(lo: Lowering, block: tree.Block, name: str) -> LoweredRegion:
    body = _lower(lo, block, dense=True)
    if any(v.extents for v in lo.captured_views):
        body = _either_layout(lo, block, body)
    buffers = _classify(lo, body)
    former = form.Former(name, lo.known)
    formed = form.form(former, body)
    region = ir.Region(name, tuple(lo.params), buffers, tuple(former.kernels), formed, block.span)
    return LoweredRegion(region, tuple(lo.bindings))


def _lower(lo: Lowering, block: tree.Block, dense: bool) -> tuple[ir.Stmt, ...]:
    lo.begin(dense)
    stmts.block(lo, block)
    return tuple(lo.scopes[0].stmts)


def _either_layout(lo: Lowering, block: tree.Block, dense_body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
    """Views captured from the host usually have no gaps: one version for that, one for any strides."""
    general = _lower(lo, block, dense=False)
    cond: ir.Expr | None = None
    for view in lo.captured_views:
        for test in _gap_tests(view):
            cond = test if cond is None else ir.Binary("&&", cond, test, "bool")
    return dense_body if cond is None else (ir.If(cond, dense_body, general),)


def _gap_tests(view: View) -> list[ir.Expr]:
    return [
        ir.Binary("==", affine.simplest(stride), affine.simplest(dense), "bool")
        for extent, stride, dense in zip(view.extents, view.strides, dense_strides(view.extents), strict=True)
        if extent != affine.const(1)
    ]


def _classify(lo: Lowering, body: tuple[ir.Stmt, ...]) -> tuple[ir.Buffer, ...]:
    """Buffers with what only the finished body tells: who owns them and whether they are written."""
    private = form.private_buffers(body)
    written = effects.stored(body)
    return tuple(replace(b, kind="private" if b.id in private else b.kind, written=b.id in written) for b in lo.buffers)
