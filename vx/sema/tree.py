"""The typed program: the one structure between the checker and everything behind it.

Read this file first. `sema` makes it from the syntax tree and a machine; admission, kernel formation
and code generation read it. It is fully resolved: names are `LocalId`s or function keys, generics
are instantiated, constants are folded, `?` and method calls are desugared, borrows are explicit.

Two kinds of expression:

* **places** (`PlaceNode`) denote storage: `Local`, `Field`, `Deref`, `Index`, … A place is never a value
  by itself: `Read(place, move=…)` takes its value, `AddrOf(place)` borrows it.
* **values** (everything else).

Tensors. An owned tensor has type `Tensor`; a view or borrow has type `Ref(Tensor)`. `let r = m[1];` is
`Let(r, AddrOf(Index(m, [At(1)])))` with `r : Ref(Tensor)`. Operators on rows, tiles and tensors
(`Unary`, `Binary`, `Cast`, `Math`, `MatMul`) have type `Tensor` and take operands of type `Tensor` (a
temporary), `Ref(Tensor)` (a borrow or view) or `Scalar` (broadcast); they have no storage until
something stores or binds them. `Reduce` yields a `Scalar`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vx.diagnostics.span import Span
from vx.machine.machine import Machine

# ---- element types -----------------------------------------------------------------------------
FLOATS: Mapping[str, int] = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
SIGNED: Mapping[str, int] = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128}
UNSIGNED: Mapping[str, int] = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "u128": 128}
STORAGE_ONLY: Mapping[str, int] = {"i4": 4, "u4": 4, "f8e4m3": 8, "f8e5m2": 8, "f4e2m1": 4}
"""Element types that only tensors may have; no arithmetic."""
BITS: Mapping[str, int] = {"bool": 1, **FLOATS, **SIGNED, **UNSIGNED, **STORAGE_ONLY}
"""Bits for capacity. Generated code gives an element of less than a byte a whole one: in host memory only (E9036)."""


# ---- places in the machine ---------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Place:
    """Where bytes live or code runs: a memory space, the topology that owns it, and which instance."""

    space: str
    topology: str
    instance: int = 0

    def __str__(self) -> str:
        return f"{self.space} of {self.topology}[{self.instance}]"


# ---- types -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Void:
    """No value (`void`)."""


@dataclass(frozen=True, slots=True)
class Never:
    """The type of an expression that does not return (`return`, `abort`)."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """`bool`, an integer or a float type by name. `Topology` values are `Scalar("i32")`."""

    name: str


@dataclass(frozen=True, slots=True)
class Ptr:
    """Raw pointer. String literals are `Ptr(Scalar("i8"), False)`, NUL-terminated."""

    to: Type
    mutable: bool


@dataclass(frozen=True, slots=True)
class Ref:
    """`&T`, `&mut T`; with a `Tensor` inside, a borrow or a (possibly strided) view."""

    to: Type
    mutable: bool


@dataclass(frozen=True, slots=True)
class Dyn:
    """An extent known at run time (`?`), at most `bound` if that is known (a slice's source extent)."""

    bound: int | None = None


Dim = int | Dyn


@dataclass(frozen=True, slots=True)
class Tensor:
    """Row-major tensor. `place` None is ordinary host memory. As a value it owns its storage."""

    elem: str
    dims: tuple[Dim, ...]
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Struct:
    """A monomorphised struct: a key of `Program.structs`, such as `Weights<0>`."""

    key: str


@dataclass(frozen=True, slots=True)
class Enum:
    """A monomorphised enum: a key of `Program.enums`, such as `Result<i32, Error>`."""

    key: str


Type = Void | Never | Scalar | Ptr | Ref | Tensor | Struct | Enum

BOOL, I32, I64, U8, F32 = Scalar("bool"), Scalar("i32"), Scalar("i64"), Scalar("u8"), Scalar("f32")
VOID, NEVER = Void(), Never()
CSTR = Ptr(Scalar("i8"), False)


@dataclass(frozen=True, slots=True)
class StructDef:
    key: str
    name: str
    fields: tuple[tuple[str, Type], ...]
    drop: str | None
    """Key of its `fn drop(self : &mut Self) -> void`, run before its fields are dropped."""


@dataclass(frozen=True, slots=True)
class EnumDef:
    """Variants in order; the tag is the index (i32)."""

    key: str
    name: str
    variants: tuple[tuple[str, tuple[Type, ...]], ...]


LocalId = int


@dataclass(frozen=True, slots=True)
class LocalDecl:
    """A parameter, `let`, loop variable or pattern binding of one function."""

    id: LocalId
    name: str
    type: Type
    mutable: bool
    span: Span


# ---- expressions -------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Expr:
    type: Type
    span: Span


# places
@dataclass(frozen=True, slots=True)
class Local(Expr):
    id: LocalId


@dataclass(frozen=True, slots=True)
class ModelTensor(Expr):
    """A read-only tensor of the model directory, mapped by the runtime (`model::wq`)."""

    name: str


@dataclass(frozen=True, slots=True)
class Field(Expr):
    """Field number `index` of a struct place."""

    base: PlaceNode
    index: int


@dataclass(frozen=True, slots=True)
class Deref(Expr):
    """What a `Ref` or `Ptr` value points to."""

    ref: Value


@dataclass(frozen=True, slots=True)
class Temp(Expr):
    """An owned value given storage until the end of the statement (`f().extent(0)`)."""

    value: Value


@dataclass(frozen=True, slots=True)
class At:
    """An index that drops its dimension; any integer type (sign by its type)."""

    index: Value


@dataclass(frozen=True, slots=True)
class Slice:
    """A range `low..high` that keeps its dimension."""

    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class Index(Expr):
    """Indexing a tensor place (or a `Ptr` value's `Deref`: then one `At`, element type).

    `indices` covers the leading dimensions; missing ones are whole. Type `Scalar` if every dimension
    is dropped, else `Tensor` (a sub-tensor *place*: borrow it, assign to it, or read it in an operator).
    """

    base: PlaceNode
    indices: tuple[At | Slice, ...]


@dataclass(frozen=True, slots=True)
class Reshape(Expr):
    """`base.reshape([..])` of a contiguous place (checked at run time if not known)."""

    base: PlaceNode
    dims: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Transpose(Expr):
    """`base.t()`, rank 2."""

    base: PlaceNode


@dataclass(frozen=True, slots=True)
class Bytes(Expr):
    """`base.bytes()`: a contiguous tensor as `Tensor(u8, [?])`."""

    base: PlaceNode


PlaceNode = Local | ModelTensor | Field | Deref | Temp | Index | Reshape | Transpose | Bytes


# values
@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A folded scalar constant. Integers and bools as int/bool, floats as float (may be nan/inf)."""

    value: int | float | bool


@dataclass(frozen=True, slots=True)
class Str(Expr):
    """A NUL-terminated string constant (`value` excludes the NUL); type `CSTR`."""

    value: bytes


@dataclass(frozen=True, slots=True)
class FnAddr(Expr):
    """The address of a function, as a raw pointer (callbacks to `extern`)."""

    key: str


@dataclass(frozen=True, slots=True)
class Read(Expr):
    """The value of a place. `move` when its type is not Copy: the place is dead afterwards."""

    place: PlaceNode
    move: bool


@dataclass(frozen=True, slots=True)
class AddrOf(Expr):
    """`&place`, `&mut place`; type `Ref` (or `Ptr` where an `extern` takes one)."""

    place: PlaceNode
    mutable: bool


@dataclass(frozen=True, slots=True)
class TensorPtr(Expr):
    """The data pointer of a borrowed contiguous tensor, as `Ptr(elem)`, for `extern "C"`."""

    ref: Value


@dataclass(frozen=True, slots=True)
class Extent(Expr):
    """`t.extent(axis)` (i64) of a borrowed tensor; folded to `Const` when static."""

    ref: Value
    axis: int


@dataclass(frozen=True, slots=True)
class CopyTensor(Expr):
    """`view.copy()`: a new owned tensor with the same contents; operand is `Ref(Tensor)`."""

    ref: Value


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`-` on numbers, `!` on bool; element-wise on tensors."""

    op: str
    operand: Value


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """Operators `+ - * / % == != < > <= >= && || & | ^ << >>`; operands have equal element types.
    Element-wise on tensors (`+ - * /`). `&& ||` short-circuit."""

    op: str
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """`x as T`: numeric conversion (scalar or element-wise), pointer or bool-to-int cast.

    Float to int truncates and saturates; int to narrower int wraps; int to float rounds to nearest.
    """

    operand: Value


@dataclass(frozen=True, slots=True)
class Math(Expr):
    """A float function, scalar or element-wise: `sqrt rsqrt exp exp2 ln log2 log10 sin cos tan tanh
    abs floor ceil round trunc pow atan2 min max mul_add erf is_nan`; `abs min max` also on integers."""

    name: str
    args: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Reduce(Expr):
    """`dot` (two rank-1 args), `sum`, `max`, `min` (one). 16-bit floats accumulate in and yield f32."""

    op: str
    args: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class MatMul(Expr):
    """`a @ b`: rank 2 by rank 2, 2 by 1, or 1 by 2. 16-bit floats yield f32; others their own type."""

    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A call of `Program.functions[key]`."""

    key: str
    args: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class CallExtern(Expr):
    """A call of `Program.externs[name]`; arguments are scalars and pointers."""

    name: str
    args: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Print(Expr):
    """`print(x)`: a scalar (shortest decimal that reads back), C string, or borrowed tensor, to stdout."""

    value: Value


@dataclass(frozen=True, slots=True)
class StructLit(Expr):
    """All fields in declaration order, evaluated left to right as written (`order` gives that order)."""

    values: tuple[Value, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EnumLit(Expr):
    variant: int
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class TensorNew(Expr):
    """A new owned tensor. `init`: "zero", "uninit", or "fill" with `fill` set; `extents` gives the
    value of each dimension (Const or run-time, i64). `items`: "items", row-major element values."""

    init: str
    fill: Value | None
    extents: tuple[Value, ...]
    items: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Transfer(Expr):
    """`transfer(x, place)`: a new owned tensor at `type.place` with x's contents; operand `Ref(Tensor)`.
    `route` lists the spaces passed through, source and target included."""

    ref: Value
    route: tuple[str, ...]
    within_ns: int | None = None


@dataclass(frozen=True, slots=True)
class IfExpr(Expr):
    """Also a statement (type Void). `orelse` None only when the type is Void."""

    cond: Value
    then: Block
    orelse: Block | None


@dataclass(frozen=True, slots=True)
class TagPattern:
    """Variant `tag` of the scrutinee's enum; `bindings[i]` receives payload i (None: not bound, and
    dropped if the match consumes). Nested patterns were desugared into nested matches."""

    tag: int
    bindings: tuple[LocalId | None, ...]


@dataclass(frozen=True, slots=True)
class ValuePattern:
    """Equal to a constant: integers and bools by value, C strings by bytes."""

    value: Const | Str


@dataclass(frozen=True, slots=True)
class AnyPattern:
    """Everything; `binding` receives the whole value."""

    binding: LocalId | None


@dataclass(frozen=True, slots=True)
class Arm:
    pattern: TagPattern | ValuePattern | AnyPattern
    body: Block


@dataclass(frozen=True, slots=True)
class Match(Expr):
    """Arms in order; sema proved that they are exhaustive. Two forms, by the type of `scrutinee`:
    an owned value is consumed (payloads are moved or copied into bindings); a `Ref` to an enum is
    looked through, and bindings are `Ref`s to the payloads (Copy payloads are copied)."""

    scrutinee: Value
    arms: tuple[Arm, ...]


@dataclass(frozen=True, slots=True)
class BlockExpr(Expr):
    """`{ … }` or `unsafe { … }`."""

    block: Block


@dataclass(frozen=True, slots=True)
class Spawn(Expr):
    """`spawn on(place) { … }`; a non-void value is a scalar or a tensor pinned to the place."""

    place: Place
    body: Block


@dataclass(frozen=True, slots=True)
class ReturnExpr(Expr):
    """`return x` in expression position (type Never): what `?` desugars to in its error arm."""

    value: Value | None


@dataclass(frozen=True, slots=True)
class Abort(Expr):
    """Ends the process with a message (type Never). `refuses`: what is called is not part of this build."""

    message: bytes
    refuses: bool = False


Value = (
    Const | Str | FnAddr | Read | AddrOf | TensorPtr | Extent | CopyTensor | Unary | Binary | Cast | Math
    | Reduce | MatMul | Call | CallExtern | Print | StructLit | EnumLit | TensorNew | Transfer | IfExpr
    | Match | BlockExpr | Spawn | ReturnExpr | Abort
)  # fmt: skip


# ---- statements --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Stmt:
    span: Span


@dataclass(frozen=True, slots=True)
class Let(Stmt):
    id: LocalId
    value: Value


@dataclass(frozen=True, slots=True)
class Assign(Stmt):
    """`target = value`. For a tensor target: an owned value assigned to a whole unplaced local or field
    replaces it (the old one is dropped); every other tensor assignment copies elements into the
    target's storage (extents must agree), from a `Tensor` temporary, an operator, or a `Ref`."""

    target: PlaceNode
    value: Value


@dataclass(frozen=True, slots=True)
class OpAssign(Stmt):
    """`target op= value`, `op` one of `+ - * / % & | ^ << >>`; scalar, or element-wise on a tensor target."""

    target: PlaceNode
    op: str
    value: Value


@dataclass(frozen=True, slots=True)
class Land(Stmt):
    """`target = transfer(view, place)`: copy into storage that exists; makes no tile."""

    target: PlaceNode
    ref: Value
    route: tuple[str, ...]
    within_ns: int | None = None


@dataclass(frozen=True, slots=True)
class MatMulInto(Stmt):
    """`matmul_into(&mut c, &a, &b)`"""

    out: Value
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Attention(Stmt):
    """`flash_attention_into(&mut o, &q, &k, &v, scale [, first])`: o = softmax(q·kᵀ·scale)·v row by row;
    with `first`, row i sees keys 0..=first+i. All rank 2: o, q [rows, d]; k, v [keys, d]."""

    out: Value
    q: Value
    k: Value
    v: Value
    scale: Value
    first: Value | None


@dataclass(frozen=True, slots=True)
class ExprStmt(Stmt):
    value: Value


@dataclass(frozen=True, slots=True)
class Return(Stmt):
    value: Value | None


@dataclass(frozen=True, slots=True)
class Break(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class Loop(Stmt):
    body: Block


@dataclass(frozen=True, slots=True)
class While(Stmt):
    cond: Value
    body: Block


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """`for id in low..high`: bounds evaluated once, of the loop variable's integer type."""

    id: LocalId
    low: Value
    high: Value
    body: Block


@dataclass(frozen=True, slots=True)
class Assert(Stmt):
    """`message` is empty if the program gives none."""

    cond: Value
    message: bytes


StmtNode = (
    Let | Assign | OpAssign | Land | MatMulInto | Attention | ExprStmt | Return | Break | Continue | Loop
    | While | For | Assert
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Block:
    """Statements, then an optional value. Locals declared in `stmts` die at its end, last first,
    unless moved; the value is computed before that."""

    stmts: tuple[StmtNode, ...]
    value: Value | None
    type: Type
    span: Span


# ---- the program -------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Function:
    """One instance of a function. `on` is the place it runs at (None: the host)."""

    key: str
    name: str
    params: tuple[LocalId, ...]
    locals: Mapping[LocalId, LocalDecl]
    ret: Type
    body: Block
    on: Place | None
    is_role: bool
    span: Span
    asked: Span | None = None
    """For a function of the library: the program's call that led to this instance."""


@dataclass(frozen=True, slots=True)
class Extern:
    """A C function: parameters are scalars and pointers."""

    name: str
    params: tuple[Type, ...]
    ret: Type


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model tensor that the program uses, and where its bytes are (`model.layout` says)."""

    name: str
    type: Tensor


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a role is not compiled: the machine lacks what it needs (then it is *not applicable*), or it was not
    asked for. `why` is a phrase: `needs Device[1]`, `was not asked for …`. Never counted as admitted."""

    role: str
    lacking: bool
    why: str
    span: Span

    @property
    def message(self) -> str:
        """What entering the role says."""
        if self.lacking:
            return f"the role {self.role} is not applicable on this machine: {self.why}"
        return f"the role {self.role} {self.why}"


@dataclass(frozen=True, slots=True)
class Program:
    functions: Mapping[str, Function]
    structs: Mapping[str, StructDef]
    enums: Mapping[str, EnumDef]
    externs: Mapping[str, Extern]
    model: tuple[ModelRef, ...]
    main: str
    """Key of `fn main() -> i32`."""
    roles: tuple[str, ...]
    """Keys of the roles that are compiled."""
    files: tuple[str, ...]
    """Every source file read, in order of import."""
    machine: Machine | None = None
    """What it was checked against: the machine with the program's own declarations."""
    uses_model: bool = False
    """Whether it imports the model directory, be it for constants only."""
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    """The other roles, by key; each is a function that refuses to be entered."""
