"""Which part of each tensor a region touches, as far as what the host knows before it issues the region says.

Enters: a `Region`. Leaves: for each tensor parameter the ranges that it reads and stores to, or nothing known: then
all of it. Offsets that depend on host scalars alone, but for loops of constant bounds, are ranges; anything else, such
as an index that was loaded, may be anywhere. A step that reads token p and stores token p + 1 does not hold up a copy
of token p.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vx.kernels import affine, effects, ir
from vx.kernels.effects import Access, Loop

MOST = 4
"""Ranges of one tensor that are told apart."""


@dataclass(frozen=True, slots=True)
class Range:
    """Elements `start + low` to `start + high`, both included; `start` is a sum of host scalars."""

    start: ir.Affine
    low: int
    high: int
    written: bool


def footprints(region: ir.Region) -> Mapping[ir.BufferId, tuple[Range, ...] | None]:
    """The ranges of each tensor parameter; None: all of it."""
    host = {p.var.id for p in region.params if isinstance(p, ir.ScalarParam) and not p.out}
    found: dict[ir.BufferId, list[Range] | None] = {
        p.buffer: [] for p in region.params if isinstance(p, ir.TensorParam)
    }
    for access in _accesses(region):
        ranges = found.get(access.buffer)
        if ranges is None:
            continue
        one = _range(access, host)
        found[access.buffer] = None if one is None else _joined(ranges, one)
    return {buffer: None if ranges is None else tuple(ranges) for buffer, ranges in found.items()}


def _accesses(region: ir.Region) -> Iterator[Access]:
    yield from effects.accesses(region.body)
    for kernel in region.kernels:
        for segment in kernel.segments:
            loops: tuple[Loop, ...] = ()
            for axis in segment.axes:
                yield from effects.accesses([ir.Let(axis.var, axis.low), ir.Let(axis.var, axis.high)], loops)
                loops = (*loops, Loop(axis.var, axis.low, axis.high))
            yield from effects.accesses(segment.body, loops)


def _range(access: Access, host: set[ir.VarId]) -> Range | None:
    """Where one access may be, over all its iterations."""
    loops = {loop.var.id: loop for loop in access.inner}
    start: list[tuple[int, ir.Expr]] = []
    low = high = access.offset.const
    for coefficient, atom in access.offset.terms:
        if _of_host(atom, host):
            start.append((coefficient, atom))
            continue
        bounds = _bounds(loops.get(atom.id)) if isinstance(atom, ir.Var) else None
        if bounds is None:
            return None
        ends = sorted((coefficient * bounds[0], coefficient * bounds[1]))
        low, high = low + ends[0], high + ends[1]
    return Range(ir.Affine(0, tuple(start)), low, high, access.store)


def _of_host(expr: ir.Expr, host: set[ir.VarId]) -> bool:
    loads = any(isinstance(e, ir.Load | ir.Reduce) for e in affine.walk(expr))
    return not loads and affine.variables(expr) <= host


def _bounds(loop: Loop | None) -> tuple[int, int] | None:
    """The first and last value of a loop of constant bounds. A loop without iterations touches nothing."""
    if loop is None:
        return None
    low, high = affine.of(loop.low), affine.of(loop.high)
    if low.terms or high.terms:
        return None
    return low.const, max(low.const, high.const - 1)


def _joined(ranges: list[Range], one: Range) -> list[Range] | None:
    """`ranges` with one more; those with the same start become one."""
    for number, other in enumerate(ranges):
        if (other.start, other.written) == (one.start, one.written):
            hull = Range(one.start, min(other.low, one.low), max(other.high, one.high), one.written)
            return [*ranges[:number], hull, *ranges[number + 1 :]]
    return [*ranges, one] if len(ranges) < MOST else None
