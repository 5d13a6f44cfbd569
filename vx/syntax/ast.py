"""The syntax tree: what the parser makes of a source text, and nothing more.

Read this file first. Every node is a frozen dataclass with a `span`. Names are unresolved strings,
types are unresolved `TypeExpr`s; `sema` turns this tree into the typed program (`sema/tree.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from vx.diagnostics.span import Span


@dataclass(frozen=True, slots=True)
class Node:
    span: Span


# ---- places ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class MemoryPlace(Node):
    """`Memory::HBM`"""

    name: str


@dataclass(frozen=True, slots=True)
class TopologyPlace(Node):
    """`Topology::Device[i]`, `Topology::GPU[a..b]` (a slice), `Topology::CPU` (no index)."""

    name: str
    index: Expr | None
    index_end: Expr | None


PlaceExpr = MemoryPlace | TopologyPlace


# ---- types -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PathType(Node):
    """A named type: `i32`, `E`, `Vec<f32>`, `Weights<D>`, `model::E`, `void`, `Self`."""

    segments: tuple[str, ...]
    args: tuple[GenericArg, ...]


@dataclass(frozen=True, slots=True)
class RefType(Node):
    """`&T`, `&mut T`"""

    inner: TypeExpr
    mutable: bool


@dataclass(frozen=True, slots=True)
class PtrType(Node):
    """`*const T`, `*mut T`"""

    inner: TypeExpr
    mutable: bool


@dataclass(frozen=True, slots=True)
class TensorType(Node):
    """`Tensor<f32, [LAYERS, ?], Memory::HBM>`; a dimension `None` is `?`; `dims` None: `Tensor<f32>`."""

    elem: TypeExpr
    dims: tuple[Expr | None, ...] | None
    place: PlaceExpr | None


@dataclass(frozen=True, slots=True)
class WrapperType(Node):
    """`Ref<T, mem>`, `Verified<T>`, `Pinned<T, topology>`"""

    kind: str
    inner: TypeExpr
    place: PlaceExpr | None


@dataclass(frozen=True, slots=True)
class FnType(Node):
    """`fn(i32) -> i32`; a closure type `|i32| -> i32` has `closure` set."""

    params: tuple[TypeExpr, ...]
    ret: TypeExpr
    closure: bool


@dataclass(frozen=True, slots=True)
class ArrayType(Node):
    """`[T; N]`"""

    elem: TypeExpr
    length: Expr


@dataclass(frozen=True, slots=True)
class TupleType(Node):
    items: tuple[TypeExpr, ...]


@dataclass(frozen=True, slots=True)
class VectorType(Node):
    """`<4 x f32>`"""

    length: int
    elem: TypeExpr


@dataclass(frozen=True, slots=True)
class TopologyType(Node):
    """`Topology` as the type of a value (an i32 dispatch id)."""


TypeExpr = (
    PathType | RefType | PtrType | TensorType | WrapperType | FnType | ArrayType | TupleType
    | VectorType | TopologyType
)  # fmt: skip


# ---- expressions -------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Number(Node):
    """`80i32`, `1.5`, `1e-5`, `0xff`. `value` is an int iff the text has no `.` and no exponent and
    the suffix is not a float type; `suffix` is an element type name or None."""

    value: int | float
    text: str
    suffix: str | None


@dataclass(frozen=True, slots=True)
class StringLit(Node):
    """A string literal; `value` is its UTF-8 bytes after escapes, without the final NUL."""

    value: bytes


@dataclass(frozen=True, slots=True)
class BoolLit(Node):
    value: bool


@dataclass(frozen=True, slots=True)
class NanLit(Node):
    pass


@dataclass(frozen=True, slots=True)
class PathSegment(Node):
    name: str
    args: tuple[GenericArg, ...]


@dataclass(frozen=True, slots=True)
class Path(Node):
    """`x`, `model::wq`, `f<3>`, `Result<i32, E>::Ok`, `Vec<f32>::new`: a value or callee by name."""

    segments: tuple[PathSegment, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-x`, `!x`, `*x`"""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class AddrOf(Node):
    """`&x`, `&mut x`"""

    operand: Expr
    mutable: bool


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Operators `|| && == != < > <= >= | ^ & << >> + - * / % @`; `op_span` is the operator's own."""

    op: str
    left: Expr
    right: Expr
    op_span: Span


@dataclass(frozen=True, slots=True)
class Range(Node):
    """`a..b`; either end may be missing inside an index."""

    low: Expr | None
    high: Expr | None


@dataclass(frozen=True, slots=True)
class Call(Node):
    callee: Expr
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MethodCall(Node):
    receiver: Expr
    name: str
    generic_args: tuple[GenericArg, ...]
    args: tuple[Expr, ...]
    name_span: Span


@dataclass(frozen=True, slots=True)
class FieldAccess(Node):
    receiver: Expr
    name: str
    name_span: Span


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`t[i]`, `t[i, a..b, j]`; each index is an expression or a `Range`."""

    receiver: Expr
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast(Node):
    operand: Expr
    target: TypeExpr


@dataclass(frozen=True, slots=True)
class FieldInit(Node):
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class StructLit(Node):
    path: Path
    fields: tuple[FieldInit, ...]


@dataclass(frozen=True, slots=True)
class ArrayLit(Node):
    """`[a, b]`: only inside tensor constructors and `reshape`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class TensorCtor(Node):
    """`Tensor<…>::new()`, `::uninit()`, `::fill(v)`; kind "literal" is `Tensor<…>([[1.0], [2.0]])`
    or, in the older spelling, `Tensor<f32>([rows, cols])`."""

    type: TensorType
    kind: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class SizeOf(Node):
    type: TypeExpr


@dataclass(frozen=True, slots=True)
class BlockExpr(Node):
    """`{ … }`, `unsafe { … }`, `comptime { … }`; `kind` is "plain", "unsafe" or "comptime"."""

    block: Block
    kind: str


@dataclass(frozen=True, slots=True)
class If(Node):
    """`if c { } else …`; `comptime` for `if comptime c`. `orelse` is a `Block`, an `If` or None."""

    cond: Expr
    then: Block
    orelse: Block | If | None
    comptime: bool


@dataclass(frozen=True, slots=True)
class Arm(Node):
    pattern: Pattern
    body: Block


@dataclass(frozen=True, slots=True)
class Match(Node):
    scrutinee: Expr
    arms: tuple[Arm, ...]


@dataclass(frozen=True, slots=True)
class Spawn(Node):
    place: PlaceExpr
    body: Block


@dataclass(frozen=True, slots=True)
class Transfer(Node):
    """`transfer(x, Memory::HBM) within 5 ms`; `within_ns` is the deadline in nanoseconds."""

    operand: Expr
    target: PlaceExpr
    within_ns: int | None


@dataclass(frozen=True, slots=True)
class PlaceValue(Node):
    """A memory or topology written as a value (`Some(Topology::CPU)`)."""

    place: PlaceExpr


@dataclass(frozen=True, slots=True)
class Reachable(Node):
    source: TopologyPlace | PathType
    target: TopologyPlace | PathType


@dataclass(frozen=True, slots=True)
class Try(Node):
    """Postfix `?`"""

    operand: Expr


@dataclass(frozen=True, slots=True)
class MacroCall(Node):
    """`print!(…)`, `println!(…)` with parsed `args`; any other macro keeps only its name."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Closure(Node):
    params: tuple[tuple[str, TypeExpr | None], ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class Unsupported(Node):
    """Something of the grammar that is parsed but not implemented (`what` names it): autodiff, `Verified(…)`, …"""

    what: str


Expr = (
    Number | StringLit | BoolLit | NanLit | Path | Unary | AddrOf | Binary | Range | Call | MethodCall
    | FieldAccess | Index | Cast | StructLit | ArrayLit | TensorCtor | SizeOf | BlockExpr | If | Match
    | Spawn | Transfer | PlaceValue | Reachable | Try | MacroCall | Closure | Unsupported
)  # fmt: skip

GenericArg = TypeExpr | Expr
"""A plain name is parsed as a `PathType`; sema decides whether it names a type or a constant."""


# ---- patterns ----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class WildcardPattern(Node):
    pass


@dataclass(frozen=True, slots=True)
class LiteralPattern(Node):
    """A number (with `-` allowed), string or bool."""

    value: Number | StringLit | BoolLit
    negative: bool


@dataclass(frozen=True, slots=True)
class NamePattern(Node):
    """Binds the whole value, unless it names a constant or a payload-free variant in scope."""

    name: str


@dataclass(frozen=True, slots=True)
class VariantPattern(Node):
    """`Option<i32>::Some(x)`, `Color::Red`, and the short `Some(x)` (then `enum` is None)."""

    enum: PathSegment | None
    variant: str
    items: tuple[Pattern, ...]


Pattern = WildcardPattern | LiteralPattern | NamePattern | VariantPattern


# ---- statements --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Let(Node):
    name: str
    name_span: Span
    mutable: bool
    type: TypeExpr | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """`target = value;`; `op` is the operator before `=` of the compound forms (`+=`, `<<=`, …), else None."""

    target: Expr
    op: str | None
    value: Expr


@dataclass(frozen=True, slots=True)
class ExprStmt(Node):
    """An expression for its effect; `semi` False only for block-like ones without `;`."""

    expr: Expr
    semi: bool


@dataclass(frozen=True, slots=True)
class Return(Node):
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Break(Node):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Node):
    pass


@dataclass(frozen=True, slots=True)
class Loop(Node):
    body: Block


@dataclass(frozen=True, slots=True)
class While(Node):
    cond: Expr
    body: Block


@dataclass(frozen=True, slots=True)
class For(Node):
    name: str
    name_span: Span
    iterable: Expr
    body: Block


@dataclass(frozen=True, slots=True)
class Assert(Node):
    cond: Expr
    message: bytes | None


Stmt = Let | Assign | ExprStmt | Return | Break | Continue | Loop | While | For | Assert


@dataclass(frozen=True, slots=True)
class Block(Node):
    """Statements, then the block's value if it ends in an expression without `;`.

    A block-like expression (`if`, `match`, `spawn`, …) in last position is the `value`; sema decides
    whether a value is wanted there.
    """

    stmts: tuple[Stmt, ...]
    value: Expr | None


# ---- items -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class GenericParam(Node):
    """`T`, `T : Trait` (kind "type", `bound` the trait), `const N : i32` (kind "const", `type` set),
    `D : Topology` (kind "topology")."""

    name: str
    kind: str
    type: TypeExpr | None
    bound: str | None


@dataclass(frozen=True, slots=True)
class Param(Node):
    name: str
    type: TypeExpr


@dataclass(frozen=True, slots=True)
class ReachableBound(Node):
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Function(Node):
    name: str
    name_span: Span
    generics: tuple[GenericParam, ...]
    params: tuple[Param, ...]
    on: TopologyPlace | None
    ret: TypeExpr
    requires: tuple[Expr, ...]
    ensures: tuple[Expr, ...]
    where: tuple[ReachableBound, ...]
    body: Block
    is_unsafe: bool
    is_role: bool
    doc: str


@dataclass(frozen=True, slots=True)
class Field(Node):
    name: str
    type: TypeExpr


@dataclass(frozen=True, slots=True)
class Struct(Node):
    name: str
    generics: tuple[GenericParam, ...]
    fields: tuple[Field, ...]
    doc: str


@dataclass(frozen=True, slots=True)
class Variant(Node):
    name: str
    items: tuple[TypeExpr, ...]


@dataclass(frozen=True, slots=True)
class Enum(Node):
    name: str
    generics: tuple[GenericParam, ...]
    variants: tuple[Variant, ...]
    doc: str


@dataclass(frozen=True, slots=True)
class Impl(Node):
    """`impl<T> Vec<T> { … }`; `trait` is set for `impl Trait for T`."""

    generics: tuple[GenericParam, ...]
    trait: TypeExpr | None
    target: TypeExpr
    functions: tuple[Function, ...]


@dataclass(frozen=True, slots=True)
class Trait(Node):
    name: str


@dataclass(frozen=True, slots=True)
class ExternFunction(Node):
    name: str
    params: tuple[Param, ...]
    ret: TypeExpr
    is_safe: bool


@dataclass(frozen=True, slots=True)
class ExternBlock(Node):
    abi: str
    functions: tuple[ExternFunction, ...]


@dataclass(frozen=True, slots=True)
class ConstItem(Node):
    name: str
    type: TypeExpr
    value: Expr


@dataclass(frozen=True, slots=True)
class TypeAlias(Node):
    name: str
    type: TypeExpr


@dataclass(frozen=True, slots=True)
class Import(Node):
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImportFile(Node):
    """`import "h100-sxm.vx";` in a machine file."""

    path: str


@dataclass(frozen=True, slots=True)
class Quantity(Node):
    """A figure with its unit, kept as exact text: `1555 GB/s` is ("1555", "GB", "s"); `40 GiB` is
    ("40", "GiB", None); `128 B/cyc`, `1.41 GHz`, `8 us`, `8%` and a plain integer likewise."""

    number: str
    unit: str | None
    per: str | None


@dataclass(frozen=True, slots=True)
class MeasuredTable(Node):
    """`measured [4 KiB: 1.2 us, 64 KiB: 9.1 us, …]`: what transfers of some sizes took."""

    points: tuple[tuple[Quantity, Quantity], ...]


@dataclass(frozen=True, slots=True)
class Edge(Node):
    """`transfer A -> B : 63 GB/s latency 8 us relaxed`; in place of a cost there may be a `table`."""

    source: MemoryPlace
    target: MemoryPlace
    cost: Quantity | None
    latency: Quantity | None
    markers: tuple[str, ...]
    table: MeasuredTable | None = None


@dataclass(frozen=True, slots=True)
class DeclField(Node):
    """One field of a Memory or Topology block. `value` by name: `within`, `memory`: MemoryPlace;
    `visible`: tuple of MemoryPlace; `dtypes`: tuple of str; `arch`, `isa`, `managed`, `crossing`,
    `scope`: str; `capacity`, `granule`, `bandwidth`, `clock`, `replicas`, `instances`, `reserve`:
    Quantity; `peer`: (Quantity, Quantity | None) rate and latency, or MeasuredTable; `overcommit`: None; the
    fields of `Measured`: str."""

    name: str
    value: object


@dataclass(frozen=True, slots=True)
class MemoryDecl(Node):
    name: str
    fields: tuple[DeclField, ...]
    doc: str


@dataclass(frozen=True, slots=True)
class TopologyDecl(Node):
    name: str
    fields: tuple[DeclField, ...]
    edges: tuple[Edge, ...]
    doc: str


@dataclass(frozen=True, slots=True)
class MeasuredDecl(Node):
    """`Measured { date: "…", … }` in a machine file: its figures were measured, then and on that."""

    fields: tuple[DeclField, ...]
    doc: str


@dataclass(frozen=True, slots=True)
class MacroDef(Node):
    name: str


@dataclass(frozen=True, slots=True)
class TransferImpl(Node):
    source: MemoryPlace
    target: MemoryPlace
    topology: TopologyPlace
    functions: tuple[Function, ...]


Item = (
    Import | ImportFile | Function | Struct | Enum | Impl | Trait | ExternBlock | ConstItem | TypeAlias
    | MemoryDecl | TopologyDecl | MeasuredDecl | MacroDef | TransferImpl
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Module(Node):
    """One source file."""

    items: tuple[Item, ...]
