"""Regions → vectorised LLVM for CPUs.

Enters: `ir.Region`s and a `Target`. Leaves: the text of one LLVM module. For each region it defines the C
function `region.name`: a `TensorParam` is a `ptr`, a `ScalarParam` its value (bool as i8), or with `out` a
pointer to it, read at entry and written at the end. The code knows no operation by name: what a loop does
is read off its loads, stores and reductions.

- `cpu_launch`: functions, and what one launch hands to threads; `cpu_cost`: how work is divided evenly
- `cpu_plan`: which loop the lanes run along; `cpu_nest`: blocks of iterations
- `cpu_body`: statements for several iterations in lock step; `cpu_reduce`: reductions
- `cpu_expr`: expressions, loads and stores; `cpu_ops`: arithmetic; `vecmath`: exp, sin, …
- `cpu_analysis`: steps of indices; `cpu_values`, `cpu_text`, `cpu_memory`, `cpu_library`: what text is made of
"""

from __future__ import annotations

from collections.abc import Sequence

from vx.codegen.cpu_launch import emit_module
from vx.codegen.target import Target
from vx.kernels import ir


def emit_regions(regions: Sequence[ir.Region], target: Target) -> str:
    """One module with the C function of each region, for every processor level of the target; empty if
    there are no regions."""
    return emit_module(regions, target.levels, target.levels) if regions else ""


def emit_level_modules(regions: Sequence[ir.Region], target: Target) -> list[str]:
    """The same as one module per processor level, to be translated side by side and linked together."""
    if not regions:
        return []
    first, *others = target.levels
    return [emit_module(regions, [first], target.levels), *(emit_module(regions, [level], ()) for level in others)]
