"""Flat offsets back to indices, where strides are known only at run time.

Enters: an offset into a tensor of the host whose layout has unknown strides. Leaves: one index per dimension, each of
which lies in its dimension, so that different indices are different elements: a view never shows an element twice. Of
a tensor without gaps that has to be proven here; of a view with gaps each index is checked before the access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vx.kernels import affine, ir
from vx.kernels.affine import Ranges

Bounds = Mapping[ir.VarId, tuple[ir.Affine, ir.Affine]]
"""What loop variables run over: low..high."""

MAX_NESTED = 8
"""Loops whose bounds depend on each other that are followed."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Of a tensor of the host. `dense`: row-major without gaps, so that the first index may be anything, and others
    too as long as the element lies in the tensor. If not, the strides are unrelated variables."""

    extents: tuple[ir.Affine, ...]
    strides: tuple[ir.Affine, ...]
    dense: bool


def indices(offset: ir.Affine, layout: Layout, bounds: Bounds, ranges: Ranges) -> tuple[ir.Affine, ...] | None:
    """The index in each dimension (those with constant strides, which are the innermost, as one)."""
    unknown = [k for k, stride in enumerate(layout.strides) if stride.terms]
    known = [k for k, stride in enumerate(layout.strides) if not stride.terms]
    if not unknown or known != list(range(len(unknown), len(layout.strides))):
        return None
    found: dict[int, ir.Affine] = dict.fromkeys(unknown, affine.ZERO)
    rest = affine.const(offset.const)
    for c, atom in offset.terms:
        index = None
        for k in unknown:
            index = _along(c, atom, layout.strides[k])
            if index is not None:
                found[k] = affine.add(found[k], index)
                break
        if index is None:
            rest = affine.add(rest, ir.Affine(0, ((c, atom),)))
    sizes = [layout.extents[k] for k in unknown]
    parts = [found[k] for k in unknown]
    if known:
        inner = layout.strides[known[0]].const
        sizes.append(affine.scale(layout.extents[known[0]], inner))
        parts.append(rest)
    elif rest != affine.ZERO:
        return None
    if layout.dense and not all(_lies_in(*pair, bounds, ranges) for pair in list(zip(parts, sizes, strict=True))[1:]):
        return None
    return tuple(parts)


def _along(c: int, atom: ir.Expr, stride: ir.Affine) -> ir.Affine | None:
    """The index that the stride is multiplied with to give `c * atom`."""
    if len(stride.terms) != 1 or stride.const or c % stride.terms[0][0]:
        return None
    factor, unit = stride.terms[0]
    index = affine.without(atom, unit)
    return None if index is None else affine.scale(index, c // factor)


def _lies_in(index: ir.Affine, size: ir.Affine, bounds: Bounds, ranges: Ranges) -> bool:
    """0 <= index < size."""
    least = affine.interval(_end(index, bounds, 1), ranges)[0]
    room = affine.sub(affine.add(size, affine.const(-1)), _end(index, bounds, -1))
    left = affine.interval(room, ranges)[0]
    return least is not None and least >= 0 and left is not None and left >= 0


def _end(index: ir.Affine, bounds: Bounds, sign: int) -> ir.Affine:
    """The index where it is smallest (1) or largest (-1), loop variables replaced by the ends of their ranges."""
    for _ in range(MAX_NESTED):
        ends: dict[ir.VarId, ir.Expr] = {}
        for c, atom in index.terms:
            if isinstance(atom, ir.Var) and atom.id in bounds:
                low, high = bounds[atom.id]
                ends[atom.id] = low if c * sign > 0 else affine.add(high, affine.const(-1))
        if not ends:
            break
        index = affine.substitute_affine(index, ends)
    return index


def of(extents: Sequence[ir.Affine], strides: Sequence[ir.Affine], dense: bool) -> Layout | None:
    """A layout worth looking at: one with strides that are known only at run time."""
    return Layout(tuple(extents), tuple(strides), dense) if any(s.terms for s in strides) else None
