"""The state of lowering one region: fresh names, buffers, parameters, scopes and the statements so far.

Also the abstract values that the typed tree's expressions become. A tensor is a `View` (a window into a
flat buffer); an element-wise expression is `Rows` (a function from indices to a scalar expression, with no
storage); a captured struct of the host function stays a `Captured` path until a leaf is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from vx.diagnostics.report import CompileError, Reporter
from vx.diagnostics.span import Span
from vx.kernels import affine, ir, layouts
from vx.kernels.parallel import Known
from vx.kernels.region import Binding, ExtentBinding, OutBinding, ScalarBinding, StrideBinding, TensorBinding
from vx.sema import tree

MAX_STATEMENTS = 10_000
"""Statements of one region with all calls inlined: calls that fan out would grow without bound."""


MOST_ELEMENTS = 1 << 30
"""Extents that could be larger count as unbounded: nothing is allocated for them."""


LONGEST = 1 << 56
"""Elements that an address space has room for: no extent or stride is larger."""


# ---- abstract values -----------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Number:
    """An immutable scalar."""

    expr: ir.Expr


@dataclass(frozen=True, slots=True)
class Cell:
    """A mutable scalar."""

    var: ir.Var


@dataclass(frozen=True, slots=True)
class View:
    """Elements `offset + Σ index·stride` of a buffer; rank 0 is one element as a place."""

    buffer: ir.BufferId
    elem: str
    offset: ir.Affine
    extents: tuple[ir.Affine, ...]
    strides: tuple[ir.Affine, ...]

    def at(self, index: Sequence[ir.Affine]) -> ir.Affine:
        total = self.offset
        for i, stride in zip(index, self.strides, strict=True):
            total = affine.add(total, affine.times(i, stride))
        return total

    def load(self, index: Sequence[ir.Affine]) -> ir.Expr:
        return ir.Load(self.buffer, self.at(index), self.elem)


@dataclass(frozen=True, slots=True)
class Rows:
    """An element-wise tensor expression: `at(index)` is one element. `heavy`: computing one element
    loops, so whoever needs elements more than once stores them first."""

    elem: str
    extents: tuple[ir.Affine, ...]
    at: Callable[[Sequence[ir.Affine]], ir.Expr]
    heavy: bool


@dataclass(frozen=True, slots=True)
class Record:
    """A struct value made inside the region."""

    fields: tuple[Val, ...]


@dataclass(frozen=True, slots=True)
class Captured:
    """A struct, or a reference, of the host function that is not looked into yet."""

    place: tree.PlaceNode


@dataclass(frozen=True, slots=True)
class Nothing:
    """The value of a `void` expression."""


Val = Number | Cell | View | Rows | Record | Captured | Nothing


# ---- state ---------------------------------------------------------------------------------------
@dataclass(slots=True)
class Obligation:
    """`expr >= 0` must hold where `placeholder` stands, unless one of `guards` does."""

    placeholder: ir.Check
    expr: ir.Affine
    guards: tuple[ir.Expr, ...]


@dataclass(slots=True)
class Scope:
    """One statement list under construction. Obligations of an unconditional scope may move out."""

    stmts: list[ir.Stmt] = field(default_factory=list)
    obligations: list[Obligation] = field(default_factory=list)


@dataclass(slots=True)
class LoopExits:
    """Flags of the innermost loop: `run` (go on looping) and `live` (rest of this iteration)."""

    run: ir.Var
    live: ir.Var


@dataclass(slots=True)
class Frame:
    """One function being lowered: the host function (captures allowed) or an inlined call."""

    function: tree.Function
    env: dict[tree.LocalId, Val]
    captures: bool
    called: Span | None = None
    """Where the call stands that was inlined."""
    returned: ir.Var | None = None
    result: Val = Nothing()
    loops: list[LoopExits] = field(default_factory=list)


@dataclass(slots=True)
class Deferred:
    """A row expression of unbounded size that was given a name: it is computed where it is used, which is only
    right as long as nothing stores to the tensors that it reads (`stale`)."""

    buffers: frozenset[ir.BufferId]
    span: Span
    source_loops: int
    stale: bool = False


class Restart(Exception):
    """A host scalar captured by value turned out to be written."""


class Lowering:
    """State of one `lower_region` call."""

    def __init__(
        self,
        program: tree.Program,
        function: tree.Function,
        where: Callable[[Span], str],
        strict_index: bool,
        written: set[object],
    ) -> None:
        self.program = program
        self.function = function
        self.where = where
        self.strict_index = strict_index
        self.written = written
        """Keys of host scalars that the region writes, as far as known."""
        self.params: list[ir.TensorParam | ir.ScalarParam] = []
        self.bindings: list[Binding] = []
        self.buffers: list[ir.Buffer] = []
        self.lengths: dict[ir.BufferId, ir.Affine] = {}
        self.ranges: dict[ir.VarId, affine.Interval] = {}
        self.bounds: dict[ir.VarId, tuple[ir.Affine, ir.Affine]] = {}
        self.layouts: dict[ir.BufferId, layouts.Layout] = {}
        self.limits: dict[ir.Affine, int] = {}
        """What extents cannot exceed, where the type says more than ranges do."""
        self.mutable: set[ir.VarId] = set()
        self.definitions: dict[ir.VarId, ir.Expr] = {}
        self._next_var = 0
        self._captured: dict[object, Val] = {}
        self.begin(dense=True)

    def begin(self, dense: bool) -> None:
        """Start lowering the block (again). `dense`: assume that captured views have no gaps."""
        self.dense = dense
        self.frames = [Frame(self.function, {}, captures=True)]
        self.scopes = [Scope()]
        self.deferred: list[Deferred] = []
        self.facts: list[ir.Affine] = []
        """What is not negative where the current statement runs."""
        self.meanings: dict[ir.VarId, ir.Expr] = {}
        """The conditions that scalars stand for."""
        self.source_loops = 0
        """Loops of the program around what is being lowered."""
        self.captured_views: list[View] = []
        self.emitted = 0
        # Scalars are the same parameters in both versions, so that each is read and written once.
        self._captured = {key: val for key, val in self._captured.items() if not isinstance(val, View)}

    # names
    def fresh(self, type_: str, name: str) -> ir.Var:
        self._next_var += 1
        return ir.Var(self._next_var, type_, name)

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @property
    def known(self) -> Known:
        """What proofs may use."""
        return Known(self.ranges, {b.id: b.name for b in self.buffers}, self.layouts, self.bounds)

    # statements
    def emit(self, stmt: ir.Stmt) -> None:
        self.scopes[-1].stmts.append(stmt)
        if isinstance(stmt, ir.Store):
            for late in self.deferred:
                late.stale |= stmt.buffer in late.buffers
                if late.stale and self.source_loops > late.source_loops:
                    self.refuse_stale(late)
        self.emitted += 1
        if self.emitted > MAX_STATEMENTS:
            call = next((frame.called for frame in self.frames if frame.called is not None), None)
            message = f"a region of more than {MAX_STATEMENTS} statements, those of the functions it calls included"
            self.reject(message, call or self.function.span, "split it, or let fewer functions call each other twice")

    @contextmanager
    def scope(self) -> Iterator[Scope]:
        """Statements emitted inside go to a list of their own."""
        inner = Scope()
        self.scopes.append(inner)
        try:
            yield inner
        finally:
            self.scopes.pop()

    def let(self, name: str, value: ir.Expr, mutable: bool = False) -> ir.Var:
        """A new scalar holding `value`."""
        v = self.fresh(affine.type_of(value), name)
        self.emit(ir.Let(v, value, mutable))
        if mutable:
            self.mutable.add(v.id)
        else:
            self._define(v, value)
        return v

    def let_at(self, position: int, name: str, value: ir.Expr) -> ir.Var:
        """A new scalar holding the value that `value` has before the scope's statement `position`."""
        v = self.fresh(affine.type_of(value), name)
        self.scopes[-1].stmts.insert(position, ir.Let(v, value))
        self._define(v, value)
        return v

    def _define(self, v: ir.Var, value: ir.Expr) -> None:
        if affine.keeps_value(value, self.ranges):
            self.ranges[v.id] = affine.interval(value, self.ranges)
            self.definitions[v.id] = value

    def once(self, name: str, value: ir.Expr) -> ir.Expr:
        """`value`, or a scalar that holds it if evaluating it later or twice would matter."""
        return value if self.stable(value) else self.let(name, value)

    def stable(self, expr: ir.Expr) -> bool:
        """Cheap, and the same wherever it is evaluated."""
        match expr:
            case ir.Lit():
                return True
            case ir.Var(id=i):
                return i not in self.mutable
            case ir.Affine() | ir.Cast() | ir.Binary():
                return affine.type_of(expr)[0] in "iu" and all(self.stable(c) for c in affine.children(expr))
            case _:
                return False

    # buffers
    def new_buffer(self, name: str, elem: str, kind: str, length: ir.Affine) -> ir.BufferId:
        number = len(self.buffers)
        size = length.const if not length.terms else None
        self.buffers.append(ir.Buffer(number, name, elem, kind, size, written=False))
        self.lengths[number] = length
        return number

    def allocate(self, name: str, elem: str, extents: Sequence[int]) -> View:
        """A dense tensor of this region's own."""
        dims = tuple(affine.const(e) for e in extents)
        length = affine.const(1)
        for d in dims:
            length = affine.times(length, d)
        buffer = self.new_buffer(name, elem, "scratch", length)
        self.emit(ir.Alloc(buffer))
        return View(buffer, elem, affine.ZERO, dims, dense_strides(dims))

    def limit(self, extent: ir.Affine) -> int | None:
        """What an extent cannot exceed, if known."""
        found = affine.interval(extent, self.ranges)[1], self.limits.get(extent)
        return min((n for n in found if n is not None and n < MOST_ELEMENTS), default=None)

    def checks_dimensions(self, buffer: ir.BufferId) -> bool:
        """Whether each index has to lie in its own dimension, not only the element in its tensor: what lies in the
        gaps of a view is not its own, and may belong to another view of the same tensor."""
        layout = self.layouts.get(buffer)
        return self.strict_index or (layout is not None and not layout.dense)

    # captures
    def capture(self, place: tree.PlaceNode) -> Val:
        """A place of the host function: a parameter if it is a leaf, else a path to look into."""
        key = place_key(place)
        if key not in self._captured:
            self._captured[key] = self._capture(place, key)
        return self._captured[key]

    def _capture(self, place: tree.PlaceNode, key: object) -> Val:
        match place.type:
            case tree.Scalar(name=elem):
                if key in self.written:
                    return self._cell_param(place, elem)
                return Number(self._scalar_param(elem, place_name(self, place), ScalarBinding(place)))
            case tree.Tensor() as tensor:
                return self._tensor_param(place, tensor, view=False)
            case tree.Ref(to=tree.Tensor() as tensor):
                return self._tensor_param(place, tensor, view=True)
            case _:
                return Captured(place)

    def capture_cell(self, place: tree.PlaceNode) -> Cell:
        """A scalar place of the host function that the region writes. If it was taken for read-only
        before, lowering starts again knowing better (`Restart`)."""
        key = place_key(place)
        if key not in self.written:
            self.written.add(key)
            if key in self._captured:
                raise Restart
        cell = self.capture(place)
        assert isinstance(cell, Cell)
        return cell

    def _cell_param(self, place: tree.PlaceNode, type_: str) -> Cell:
        v = self.fresh(type_, place_name(self, place))
        self.mutable.add(v.id)
        self.params.append(ir.ScalarParam(v, out=True))
        self.bindings.append(OutBinding(place))
        return Cell(v)

    def _scalar_param(self, type_: str, name: str, binding: Binding) -> ir.Var:
        v = self.fresh(type_, name)
        self.params.append(ir.ScalarParam(v, out=False))
        self.bindings.append(binding)
        return v

    def _tensor_param(self, place: tree.PlaceNode, tensor: tree.Tensor, view: bool) -> View:
        name = place_name(self, place)
        extents = tuple(
            affine.const(d)
            if isinstance(d, int)
            else affine.var(self._extent_param(place, axis, f"{name}.extent{axis}", d))
            for axis, d in enumerate(tensor.dims)
        )
        strides = dense_strides(extents)
        if view and not self.dense:
            strides = tuple(affine.var(self._stride_param(place, axis, name)) for axis in range(len(extents)))
        length = affine.const(1)
        for extent, stride in zip(extents, strides, strict=True):
            length = affine.add(length, affine.times(affine.sub(extent, affine.const(1)), stride))
        buffer = self.new_buffer(name, tensor.elem, "param", length)
        self.params.append(ir.TensorParam(buffer))
        self.bindings.append(TensorBinding(place))
        layout = layouts.of(extents, strides, dense=self.dense or not view)
        if layout is not None:
            self.layouts[buffer] = layout
        result = View(buffer, tensor.elem, affine.ZERO, extents, strides)
        if view and extents:
            self.captured_views.append(result)
        return result

    def _extent_param(self, place: tree.PlaceNode, axis: int, name: str, dim: tree.Dyn) -> ir.Var:
        v = self._scalar_param("i64", name, ExtentBinding(place, axis))
        self.ranges[v.id] = (0, LONGEST if dim.bound is None else dim.bound)
        return v

    def _stride_param(self, place: tree.PlaceNode, axis: int, name: str) -> ir.Var:
        v = self._scalar_param("i64", f"{name}.stride{axis}", StrideBinding(place, axis))
        self.ranges[v.id] = (0, LONGEST)
        return v

    # refusals
    def refuse_stale(self, late: Deferred) -> None:
        what = "a tensor of run-time size that outlives what it is computed from"
        self.refuse(what, late.span, "slice tensors of known size, or store it in a tensor made before the region")

    def refuse(self, what: str, span: Span, help_: str) -> None:
        """Not possible inside a region: raises `CompileError` (E0902)."""
        self.reject(f"{what} is not supported inside a region", span, help_)

    def reject(self, message: str, span: Span, help_: str) -> NoReturn:
        """Raise E0902 at `span`; if that lies in a library's file, at the call that led there."""
        call = next((frame.called for frame in self.frames if frame.called is not None), span)
        labels = [] if call == span else [(call, "called from this region")]
        if span.file != call.file:
            span, labels = call, [(span, "reached from that call")]
        reporter = Reporter()
        reporter.error("E0902", message, span, labels=labels, helps=[help_])
        raise CompileError(reporter.diagnostics)


def dense_strides(extents: Sequence[ir.Affine]) -> tuple[ir.Affine, ...]:
    """Row-major strides, in elements."""
    strides: list[ir.Affine] = []
    step = affine.const(1)
    for extent in reversed(extents):
        strides.append(step)
        step = affine.times(step, extent)
    return tuple(reversed(strides))


def place_key(place: tree.PlaceNode) -> object:
    """Identity of a host place, without spans."""
    match place:
        case tree.Local(id=i):
            return ("local", i)
        case tree.ModelTensor(name=name):
            return ("model", name)
        case tree.Field(base=base, index=index):
            return ("field", place_key(base), index)
        case tree.Deref(ref=tree.Read(place=inner)) | tree.Deref(ref=tree.AddrOf(place=inner)):
            return ("deref", place_key(inner))
        case _:
            return ("node", id(place))


def place_name(lo: Lowering, place: tree.PlaceNode) -> str:
    """A readable name for dumps and messages."""
    match place:
        case tree.Local(id=i):
            return lo.function.locals[i].name
        case tree.ModelTensor(name=name):
            return f"model::{name}"
        case tree.Field(base=base, index=index):
            field_name = str(index)
            if isinstance(base.type, tree.Struct):
                field_name = lo.program.structs[base.type.key].fields[index][0]
            return f"{place_name(lo, base)}.{field_name}"
        case tree.Deref(ref=tree.Read(place=inner)) | tree.Deref(ref=tree.AddrOf(place=inner)):
            return place_name(lo, inner)
        case _:
            return "value"
