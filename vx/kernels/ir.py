"""Kernel: the one structure between regions and device code. The whole of it is declared here.

A `Region` is one `spawn` body (or one host statement that computes with rows or tiles) after inlining
and desugaring: row expressions became parallel loops over elements, `dot`, `sum` and `@` became
`Reduce`, attention became loops. What remains is scalars, flat loads and stores, and loops that say
whether they are parallel, and if not, why. `codegen/cpu.py` prints it as vectorised LLVM,
`codegen/triton.py` as Triton.

Addresses are flat: element offset from a buffer's base, as an `Affine` sum, so that the step along any
loop variable can be read off. Loop variables and offsets are i64; everything else has its own type.
"""

from __future__ import annotations

from dataclasses import dataclass

from vx.diagnostics.span import Span

VarId = int
BufferId = int


# ---- expressions -------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Lit:
    """A constant of element type `type` (`bool`, an integer or float type)."""

    value: int | float | bool
    type: str


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable (always i64), a scalar parameter, or a `Let`/`Set` scalar."""

    id: VarId
    type: str
    name: str


@dataclass(frozen=True, slots=True)
class Affine:
    """An element offset: `const + sum(coefficient * atom)`, atoms i64.

    An atom that is a `Var` is linear in it. Any other atom (`h / GROUP`, a loaded token id, a product
    with a run-time stride) is opaque: its dependence on a variable has no known step.
    Canonical: no zero coefficients, no atom twice, constants folded.
    """

    const: int
    terms: tuple[tuple[int, Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    buffer: BufferId
    offset: Affine
    type: str


@dataclass(frozen=True, slots=True)
class Unary:
    """`-`, `!`"""

    op: str
    operand: Expr
    type: str


@dataclass(frozen=True, slots=True)
class Binary:
    """`+ - * / % & | ^ << >> == != < > <= >= && ||`; operands of one type. `type` is the result's (bool
    for comparisons). Integer `+ - *` wrap, `/` truncates, `%` follows the dividend; division by zero
    aborts. f16 and bf16 arithmetic rounds after each operation. `&&`/`||` evaluate both sides."""

    op: str
    left: Expr
    right: Expr
    type: str


@dataclass(frozen=True, slots=True)
class Cast:
    """To `type`, with the semantics of `sema.tree.Cast`."""

    operand: Expr
    type: str


@dataclass(frozen=True, slots=True)
class Call:
    """A math function by the names of `sema.tree.Math`; f16/bf16 compute in f32 and round."""

    name: str
    args: tuple[Expr, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Select:
    cond: Expr
    then: Expr
    orelse: Expr
    type: str


@dataclass(frozen=True, slots=True)
class Reduce:
    """`op` ("add", "max", "min") over `var` in low..high of `body`; `type` is the accumulator's.

    For "add", `body` has type `type` (casts are explicit, so f16 operands appear as `Cast(Load)`); the
    order of summation is the code generator's, fixed for given extents, and never depends on the
    number of threads. Reductions that run side by side have different variables, also over equal
    bounds. An empty range gives 0, -inf or +inf (least and greatest value for integers).
    """

    op: str
    var: Var
    low: Expr
    high: Expr
    body: Expr
    type: str


Expr = Lit | Var | Affine | Load | Unary | Binary | Cast | Call | Select | Reduce
"""`Affine` is also an expression of type i64 (an index used as a value)."""


# ---- statements --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Let:
    """Declares `var` with its first value; `Set` may change it later if `mutable`."""

    var: Var
    value: Expr
    mutable: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """`value` has the buffer's element type. Statements run in order: a load sees every store before it
    in its iteration, so a load may be shared only as far as no store to its buffer lies between."""

    buffer: BufferId
    offset: Affine
    value: Expr


@dataclass(frozen=True, slots=True)
class For:
    """`for var in low..high`. `parallel`: iterations are independent (proven), may run in any order,
    together in vector lanes or on several threads; private buffers allocated inside are per iteration.
    `why` says which access broke the proof when it is not."""

    var: Var
    low: Expr
    high: Expr
    body: tuple[Stmt, ...]
    parallel: bool
    why: str
    span: Span


@dataclass(frozen=True, slots=True)
class While:
    """Loops while `cond`; evaluated before each round."""

    cond: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class If:
    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Alloc:
    """A buffer made inside the region comes to life here (contents undefined unless stored)."""

    buffer: BufferId


@dataclass(frozen=True, slots=True)
class ArgReduce:
    """Arg-max ("max") or arg-min ("min") of `value` over var in low..high, continuing from (best, at):
    `if value > best { best = value; at = index; }` in order; the lowest index wins."""

    op: str
    var: Var
    low: Expr
    high: Expr
    value: Expr
    best: Var
    at: Var
    index: Expr


@dataclass(frozen=True, slots=True)
class Check:
    """Ends the process with `message` unless `cond`."""

    cond: Expr
    message: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Runs `Region.kernels[kernel]` to completion."""

    kernel: int


Stmt = Let | Set | Store | For | While | If | Alloc | ArgReduce | Check | Launch


# ---- the region --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Buffer:
    """`kind`: "param" (passed in), "scratch" (made at region level, shared by its kernels) or "private"
    (made inside a parallel loop: one per iteration, never visible to another).

    `length` is the number of elements, None if only known at run time (params). Two buffers never
    overlap. `written` tells whether any statement stores to it."""

    id: BufferId
    name: str
    elem: str
    kind: str
    length: int | None
    written: bool


@dataclass(frozen=True, slots=True)
class TensorParam:
    """A data pointer (LLVM `ptr`); its extents and strides come as separate `ScalarParam`s if needed."""

    buffer: BufferId


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A scalar by value; `out` additionally: the final value is stored through a pointer at the end."""

    var: Var
    out: bool


@dataclass(frozen=True, slots=True)
class Axis:
    var: Var
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Segment:
    """One parallel loop nest: every combination of `axes` (outermost first) runs `body` once.
    The bounds of inner axes do not depend on outer ones."""

    axes: tuple[Axis, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Independent segments that share one grid (one launch)."""

    name: str
    segments: tuple[Segment, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Region:
    """`body` runs on the launching thread, in order; work is in its `Launch`es. Scalars that a kernel
    reads but does not declare are in scope at its `Launch` and passed by value; a kernel never `Set`s
    a scalar declared outside it."""

    name: str
    params: tuple[TensorParam | ScalarParam, ...]
    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    body: tuple[Stmt, ...]
    span: Span
