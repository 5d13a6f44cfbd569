"""One host function being written: its text, its locals, and what must be dropped on the way out.

Enters: nodes of the typed tree, one after another. Leaves: lines of LLVM. The other `host_*` files hold
what each node means; they reach each other through the methods of `Emitter`, which look the node's class
up in `Handlers`.

Values by type: scalars, pointers and references to anything but tensors are operands (text); tensors and
references to tensors are `View`s; structs and enums are in memory, a value of one is the address of
storage that nobody else uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from vx.codegen.host_module import Module, memory
from vx.codegen.layout import Size, is_aggregate, is_empty, is_view
from vx.codegen.llvm_text import Int
from vx.codegen.scan import Usage
from vx.diagnostics.span import Span
from vx.sema import tree
from vx.sema.tree import BOOL, LocalId, PlaceNode, StmtNode, Type, Value


@dataclass(frozen=True, slots=True)
class Shape:
    """Extents and strides; `dense`: row-major without gaps, known now."""

    extents: tuple[Int, ...]
    strides: tuple[Int, ...]
    dense: bool


@dataclass(frozen=True, slots=True)
class Lead:
    """One index on the first dimension is all that was applied to a whole tensor."""

    index: Int
    extent: Int


@dataclass(frozen=True, slots=True)
class View:
    """Tensor elements at `data`, from element `offset` on.

    `whole`: what the window must lie in and was not yet checked against (None: nothing to check). Whoever
    uses the elements calls `host_tensor.settle` or `host_tensor.element` first.
    """

    elem: str
    data: str
    offset: Int
    extents: tuple[Int, ...]
    strides: tuple[Int, ...]
    whole: Shape | None
    dense: bool
    lead: Lead | None = None


Operand = str | View


@dataclass(frozen=True, slots=True)
class InMemory:
    """A local that has an address."""

    address: str


Slot = InMemory | str | View
"""Where a local is: in memory, or a value that never changes."""


@dataclass(frozen=True, slots=True)
class LoopLabels:
    """Where `break` and `continue` go, and how many scopes stay open there."""

    stop: str
    again: str
    depth: int


Cleanup = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Handlers:
    """What each class of node means. A value has a handler in `value`, or in `into` (which writes the
    result to an address, or nowhere if there is none), or in both."""

    value: Mapping[type, Callable[[Emitter, Any], Operand]]
    into: Mapping[type, Callable[[Emitter, Any, str | None], None]]
    address: Mapping[type, Callable[[Emitter, Any], str]]
    tensor_place: Mapping[type, Callable[[Emitter, Any], View]]
    stmt: Mapping[type, Callable[[Emitter, Any], None]]
    held: Callable[[Emitter, PlaceNode], Operand]
    is_raw_index: Callable[[tree.Index], bool]
    load_view: Callable[[Emitter, str, Type], View]
    store_view: Callable[[Emitter, View, str], None]
    drop_value: Callable[[Emitter, Operand, Type], None]


@dataclass(slots=True)
class Emitter:
    """The state of one function. `open`: the current block can still be added to."""

    module: Module
    handlers: Handlers
    function: tree.Function
    usage: Usage
    result: str | None
    """Where the result goes, if it is returned in memory."""
    lines: list[str] = field(default_factory=list)
    allocas: list[str] = field(default_factory=list)
    count: int = 0
    open: bool = True
    block: str = "entry"
    slots: dict[LocalId, Slot] = field(default_factory=dict)
    types: dict[LocalId, Type] = field(default_factory=dict)
    flags: dict[tuple[LocalId, tuple[int, ...]], str] = field(default_factory=dict)
    scopes: list[list[Cleanup]] = field(default_factory=list)
    loops: list[LoopLabels] = field(default_factory=list)

    # ---- text ----------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        """Add an instruction; after the end of a block, in a block that is never reached."""
        if not self.open:
            self.label(self.fresh_label())
        self.lines.append("  " + text)

    def op(self, text: str) -> str:
        """Add an instruction with a result; its name."""
        self.count += 1
        name = f"%t{self.count}"
        self.line(f"{name} = {text}")
        return name

    def end(self, text: str) -> None:
        """Add the instruction that ends the block."""
        if self.open:
            self.lines.append("  " + text)
            self.open = False

    def fresh_label(self) -> str:
        self.count += 1
        return f"L{self.count}"

    def label(self, name: str) -> None:
        """Start the block `name`, falling into it if the current one is open."""
        if self.open:
            self.lines.append(f"  br label %{name}")
        self.lines.append(f"{name}:")
        self.open = True
        self.block = name

    def goto(self, name: str) -> None:
        self.end(f"br label %{name}")

    def branch(self, cond: str, then: str, orelse: str) -> None:
        self.end(f"br i1 {cond}, label %{then}, label %{orelse}")

    def alloca(self, size: Size) -> str:
        """Storage in the frame; its address."""
        self.count += 1
        name = f"%a{self.count}"
        self.allocas.append(f"  {name} = alloca [{size.bytes} x i8], align {size.align}")
        return name

    def storage(self, type_: Type) -> str:
        """Storage for a value of the type."""
        if is_aggregate(type_) or is_view(type_):
            return self.alloca(self.module.layouts.size(type_))
        self.count += 1
        name = f"%a{self.count}"
        self.allocas.append(f"  {name} = alloca {memory(type_)}")
        return name

    def splice(self, lines: Sequence[str], count: int) -> None:
        """Add instructions written elsewhere, which have used names up to `count`."""
        if not self.open:
            self.label(self.fresh_label())
        self.lines += lines
        self.count = count

    # ---- memory --------------------------------------------------------------------------------
    def at_offset(self, address: str, offset: int) -> str:
        """The address `offset` bytes further."""
        return self.op(f"getelementptr inbounds i8, ptr {address}, i64 {offset}") if offset else address

    def load(self, type_: Type, address: str) -> Operand:
        """The value at an address; of an aggregate, the address of a copy."""
        if is_view(type_):
            return self.handlers.load_view(self, address, type_)
        if is_aggregate(type_):
            copy = self.storage(type_)
            self.copy(copy, address, type_)
            return copy
        if is_empty(type_):
            return "poison"
        loaded = self.op(f"load {memory(type_)}, ptr {address}")
        return self.op(f"trunc i8 {loaded} to i1") if type_ == BOOL else loaded

    def store(self, value: Operand, type_: Type, address: str) -> None:
        """Write a value to an address; an aggregate is copied from where it is."""
        if isinstance(value, View):
            self.handlers.store_view(self, value, address)
        elif is_aggregate(type_):
            self.copy(address, value, type_)
        elif not is_empty(type_):
            self.line(f"store {memory(type_)} {self.in_memory(value, type_)}, ptr {address}")

    def in_memory(self, value: str, type_: Type) -> str:
        """A scalar or pointer operand as it is in memory and in C calls."""
        if type_ != BOOL:
            return value
        if value in ("true", "false"):
            return "1" if value == "true" else "0"
        return self.op(f"zext i1 {value} to i8")

    def copy(self, target: str, source: str, type_: Type) -> None:
        """Copy the bytes of a value."""
        size = self.module.layouts.size(type_)
        if size.bytes and target != source:
            name = self.module.declare(
                "llvm.memcpy.p0.p0.i64", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
            )
            align = f"align {size.align}"
            self.line(f"call void {name}(ptr {align} {target}, ptr {align} {source}, i64 {size.bytes}, i1 false)")

    # ---- nodes ---------------------------------------------------------------------------------
    def value(self, node: Value) -> Operand:
        """Evaluate; whoever asks owns the result."""
        handler = self.handlers.value.get(type(node))
        if handler is not None:
            return handler(self, node)
        if is_empty(node.type):
            self.handlers.into[type(node)](self, node, None)
            return "poison"
        address = self.storage(node.type)
        self.handlers.into[type(node)](self, node, address)
        return address if is_aggregate(node.type) else self.load(node.type, address)

    def scalar(self, node: Value) -> str:
        """Evaluate what is not a tensor: an operand, or the address of an aggregate."""
        result = self.value(node)
        assert isinstance(result, str), node
        return result

    def view(self, node: Value) -> View:
        """Evaluate a tensor or a reference to one."""
        result = self.value(node)
        assert isinstance(result, View), node
        return result

    def into(self, node: Value, address: str | None) -> None:
        """Evaluate and write the result to `address` (None: there is no value)."""
        handler = self.handlers.into.get(type(node))
        if handler is not None:
            handler(self, node, address)
            return
        result = self.handlers.value[type(node)](self, node)
        if address is not None and not is_empty(node.type):
            self.store(result, node.type, address)

    def address(self, place: PlaceNode) -> str:
        """The address of a place that is not a tensor's elements."""
        return self.handlers.address[type(place)](self, place)

    def tensor_place(self, place: PlaceNode) -> View:
        """The window that a place of type `Tensor`, or of type `Ref(Tensor)` looked through, denotes."""
        return self.handlers.tensor_place[type(place)](self, place)

    def held(self, place: PlaceNode) -> Operand:
        """The value at a place, which stays there; of an aggregate, the address of a copy."""
        return self.handlers.held(self, place)

    def is_raw_index(self, node: tree.Index) -> bool:
        """`p[i]` of a raw pointer, as opposed to indexing the tensor that it points to."""
        return self.handlers.is_raw_index(node)

    def stmt(self, node: StmtNode) -> None:
        self.handlers.stmt[type(node)](self, node)

    def drop(self, value: Operand, type_: Type) -> None:
        """Drop an owned value."""
        if self.module.layouts.needs_drop(type_):
            self.handlers.drop_value(self, value, type_)

    # ---- scopes --------------------------------------------------------------------------------
    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is made inside is dropped at the end, last first."""
        self.scopes.append([])
        yield
        depth = len(self.scopes) - 1
        self.unwind(depth)
        self.scopes.pop()

    def unwind(self, depth: int) -> None:
        """Drop what the scopes above `depth` hold, as a jump out of them does."""
        if not self.open:
            return
        for cleanups in reversed(self.scopes[depth:]):
            for cleanup in reversed(cleanups):
                cleanup()

    def defer(self, cleanup: Cleanup) -> None:
        """Run `cleanup` wherever the innermost scope is left."""
        self.scopes[-1].append(cleanup)

    @contextmanager
    def pending(self) -> Iterator[Callable[[Operand, Type], None]]:
        """Values that are owned by nobody yet: `keep(value, type)` has one dropped if evaluation of a later
        one leaves the function or the loop; at the end somebody has taken them."""
        scope = self.scopes[-1]
        before = len(scope)
        mine: list[Cleanup] = []

        def keep(value: Operand, type_: Type) -> None:
            if self.module.layouts.needs_drop(type_):
                cleanup = lambda: self.drop(value, type_)  # noqa: E731
                mine.append(cleanup)
                scope.append(cleanup)

        yield keep
        scope[before:] = [c for c in scope[before:] if not any(c is m for m in mine)]

    def condition(self, node: Value) -> str:
        """Evaluate a bool, with its temporaries dropped before anything depends on it."""
        with self.scope():
            return self.scalar(node)

    # ---- locals --------------------------------------------------------------------------------
    def type_of(self, local: LocalId) -> Type:
        """A local's type, also of those made here."""
        own = self.types.get(local)
        return own if own is not None else self.function.locals[local].type

    def where(self, span: Span) -> str:
        return self.module.where_string(span)
