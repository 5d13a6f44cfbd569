"""Kernel formation: the parallel loops of a lowered region become kernels and launches.

Enters: the region's statement list, every loop marked parallel or not. Leaves: the list with each group of
parallel loops replaced by a `Launch`. A perfect nest collapses into several axes; neighbours over the same
axes fuse when the combined loop is still proven parallel; neighbours that do not touch each other's data
share one grid. Everything else stays with the launching thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vx.diagnostics.span import Span
from vx.kernels import affine, effects, ir, parallel
from vx.kernels.effects import Loop

MAX_AXES = 3


@dataclass(slots=True)
class Former:
    """Collects the kernels of one region."""

    name: str
    known: parallel.Known
    kernels: list[ir.Kernel] = field(default_factory=list)


@dataclass(slots=True)
class _Group:
    """Parallel loops that will share a launch, with their axes already collapsed."""

    loops: list[ir.For] = field(default_factory=list)
    segments: list[ir.Segment] = field(default_factory=list)


def form(former: Former, stmts: Sequence[ir.Stmt]) -> tuple[ir.Stmt, ...]:
    """The statement list of the launching thread."""
    out: list[ir.Stmt] = []
    group = _Group()
    for stmt in stmts:
        if isinstance(stmt, ir.For) and stmt.parallel:
            if not _joins(former, group, stmt):
                _flush(former, group, out)
                _start(group, stmt)
            continue
        if group.loops and _moves_before(stmt, group.loops):
            out.append(stmt)
            continue
        _flush(former, group, out)
        out.append(_inside(former, stmt))
    _flush(former, group, out)
    return tuple(out)


def _inside(former: Former, stmt: ir.Stmt) -> ir.Stmt:
    """A statement of the launching thread, with the parallel loops inside it formed."""
    match stmt:
        case ir.For(body=body):
            return replace(stmt, body=form(former, body))
        case ir.While(body=body):
            return replace(stmt, body=form(former, body))
        case ir.If(then=then, orelse=orelse):
            return replace(stmt, then=form(former, then), orelse=form(former, orelse))
        case _:
            return stmt


def _moves_before(stmt: ir.Stmt, loops: Sequence[ir.For]) -> bool:
    """Whether a scalar definition, allocation or check may run before loops that stand in front of it."""
    if isinstance(stmt, ir.Alloc):
        return True
    if not isinstance(stmt, ir.Let | ir.Check):
        return False
    return not (effects.stored(loops) & effects.loaded([stmt]))


def _start(group: _Group, loop: ir.For) -> None:
    group.loops.append(loop)
    group.segments.append(collapse(loop))


def _joins(former: Former, group: _Group, loop: ir.For) -> bool:
    """Add `loop` to the group if it fuses with the last segment or is independent of all."""
    if not group.loops:
        return False
    segment = collapse(loop)
    others = group.loops[:-1]
    if all(parallel.independent([o], [loop]) for o in others):
        fused = _fuse(former, group.segments[-1], segment)
        if fused is not None:
            group.segments[-1] = fused
            group.loops[-1] = _as_loop(fused, loop.span)
            return True
        if parallel.independent([group.loops[-1]], [loop]):
            group.loops.append(loop)
            group.segments.append(segment)
            return True
    return False


def _flush(former: Former, group: _Group, out: list[ir.Stmt]) -> None:
    if not group.loops:
        return
    kernel = ir.Kernel(f"{former.name}_k{len(former.kernels)}", tuple(group.segments), group.loops[0].span)
    out.append(ir.Launch(len(former.kernels)))
    former.kernels.append(kernel)
    group.loops.clear()
    group.segments.clear()


def collapse(loop: ir.For) -> ir.Segment:
    """The perfect nest of parallel loops at `loop` as one segment."""
    axes = [ir.Axis(loop.var, loop.low, loop.high)]
    body = loop.body
    while len(axes) < MAX_AXES and len(body) == 1:
        inner = body[0]
        if not isinstance(inner, ir.For) or not inner.parallel:
            break
        outer = {a.var.id for a in axes}
        if (affine.variables(inner.low) | affine.variables(inner.high)) & outer:
            break
        axes.append(ir.Axis(inner.var, inner.low, inner.high))
        body = inner.body
    return ir.Segment(tuple(axes), body)


def _as_loop(segment: ir.Segment, span: Span) -> ir.For:
    """The segment as the nest it stands for."""
    body = segment.body
    for axis in reversed(segment.axes):
        body = (ir.For(axis.var, axis.low, axis.high, body, True, "", span),)
    loop = body[0]
    assert isinstance(loop, ir.For)
    return loop


def _fuse(former: Former, first: ir.Segment, second: ir.Segment) -> ir.Segment | None:
    """Both bodies in one loop, if they run over the same axes, hold no parallel loops of their own, and
    each iteration of the second needs only what the same iteration of the first made."""
    if len(first.axes) != len(second.axes) or _has_loops(first.body) or _has_loops(second.body):
        return None
    renamed: dict[ir.VarId, ir.Expr] = {}
    for a, b in zip(first.axes, second.axes, strict=True):
        if a.low != b.low or a.high != b.high:
            return None
        renamed[b.var.id] = a.var
    body = (*first.body, *effects.substituted(second.body, renamed))
    for i, axis in enumerate(first.axes):
        nest = body
        for inner in reversed(first.axes[i + 1 :]):
            nest = (ir.For(inner.var, inner.low, inner.high, nest, True, "", _NO_SPAN),)
        if parallel.why_serial(Loop(axis.var, axis.low, axis.high), nest, former.known):
            return None
    return ir.Segment(first.axes, body)


_NO_SPAN = Span("<fused>", 0, 0)


def _has_loops(body: Sequence[ir.Stmt]) -> bool:
    return any(isinstance(s, ir.For | ir.While | ir.Alloc) for s in effects.statements(body))


def private_buffers(stmts: Sequence[ir.Stmt], inside: bool = False) -> set[ir.BufferId]:
    """Buffers allocated inside a parallel loop: one per iteration."""
    found: set[ir.BufferId] = set()
    for stmt in stmts:
        if isinstance(stmt, ir.Alloc) and inside:
            found.add(stmt.buffer)
        parallel_here = inside or (isinstance(stmt, ir.For) and stmt.parallel)
        for block in effects.blocks(stmt):
            found |= private_buffers(block, parallel_here)
    return found
