"""DeviceRegion: a region as launches that a host can issue without looking at device memory.

Enters (`device_form.py`): an `ir.Region`, whose body runs on "the launching thread" and may touch tensors.
Leaves: this structure. Everything that loads or stores a tensor is kernel code here; what is left for the
host are launches, loops of known bounds and conditions, all of *host scalars*. `codegen/triton.py` prints the
kernels, `codegen/triton_manifest.py` writes the launches down for the runtime.

There are four sorts of scalars:

- **host scalars**: parameters of the region that it does not change, and what is computed from them alone.
  Kernels read the parameters from the *parameter block*, 8 bytes each, in device memory, and compute the rest
  again, so that a captured graph can be replayed with other values in the block;
- **loop variables** of the region (a layer): an argument of each launch, by value;
- **recomputed**: a value made from a short vector (a norm) is computed again in each program that needs it;
- **slots**: every other scalar that more than one kernel sees is a one-element buffer of kind "scratch", or,
  for an `out` parameter, its place in the parameter block.
"""

from __future__ import annotations

from dataclasses import dataclass

from vx.diagnostics.span import Span
from vx.kernels import ir

ALIGNMENT = 256
"""Bytes to which every buffer that the runtime places is aligned."""
BLOCK_ENTRY = 8
"""Bytes of an entry of the parameter block; a narrower scalar lies in its first bytes."""


@dataclass(frozen=True, slots=True)
class Axis:
    """`var` in low..high. `most` is the greatest number of iterations that the region's checks and types allow,
    None if they say nothing. The bounds may use device scalars; then `on_host` is false."""

    var: ir.Var
    low: ir.Expr
    high: ir.Expr
    most: int | None
    on_host: bool


@dataclass(frozen=True, slots=True)
class Part:
    """One parallel loop nest of a kernel; every combination of `axes` (outermost first) runs `body` once.
    Without axes: one program runs `body` once, in order; `For`s inside may be parallel."""

    axes: tuple[Axis, ...]
    body: tuple[ir.Stmt, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Independent parts that share one grid.

    `prelude` (`Let`s and `Check`s without loops) is run by every program first. `arguments` are scalars passed by
    value, `block` those read from the parameter block (indices into `Region.block`), `buffers` those touched.
    `guarded`: it computes addresses from tensor elements after a check of them, so it does nothing once the
    region's error word is set. `why` says why its one program is not parallel, "" if it is.
    """

    name: str
    prelude: tuple[ir.Stmt, ...]
    parts: tuple[Part, ...]
    arguments: tuple[ir.Var, ...]
    block: tuple[int, ...]
    buffers: tuple[ir.BufferId, ...]
    guarded: bool
    why: str
    span: Span


@dataclass(frozen=True, slots=True)
class Launch:
    """Enqueues `Region.kernels[kernel]` behind all launches before it. `arguments[i]`, a host scalar, is the value
    of `Kernel.arguments[i]`."""

    kernel: int
    arguments: tuple[ir.Expr, ...]


@dataclass(frozen=True, slots=True)
class Let:
    """A host scalar, for what follows in the launch list; kernels compute it themselves."""

    var: ir.Var
    value: ir.Expr


@dataclass(frozen=True, slots=True)
class For:
    """Issues `body` for each value of `var`, a loop variable; the bounds are host scalars."""

    var: ir.Var
    low: ir.Expr
    high: ir.Expr
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class If:
    cond: ir.Expr
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """The host ends the run with `message` unless `cond`, before it issues what follows."""

    cond: ir.Expr
    message: str


Step = Launch | Let | For | If | Check


@dataclass(frozen=True, slots=True)
class Entry:
    """One scalar parameter in the parameter block. `out`: kernels may change it, through buffer `slot`; the host
    reads it back."""

    var: ir.Var
    out: bool
    slot: ir.BufferId | None


@dataclass(frozen=True, slots=True)
class Scratch:
    """A buffer made by the region: `bytes` at `offset` of the region's scratch memory."""

    buffer: ir.BufferId
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Region:
    """`buffers` are those of the `ir.Region` and the slots. `messages[i]` is what error word i + 1 means: kernels
    write it instead of ending the process. `scratch_bytes` is without the kernels' private memory, which depends
    on the number of programs (`codegen/triton_tiles.py`)."""

    name: str
    params: tuple[ir.TensorParam | ir.ScalarParam, ...]
    buffers: tuple[ir.Buffer, ...]
    block: tuple[Entry, ...]
    scratch: tuple[Scratch, ...]
    scratch_bytes: int
    kernels: tuple[Kernel, ...]
    body: tuple[Step, ...]
    messages: tuple[str, ...]
    span: Span
