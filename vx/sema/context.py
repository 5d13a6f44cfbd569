"""The state of one run of the checker: what the whole program has so far (`Session`) and what is known
inside the function body being checked (`Body`).

An error ends the statement it is found in: `raise body.fail(…)` reports and unwinds to the statement,
so that nothing wrong ever gets into the typed tree and one mistake is reported once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import Span
from vx.machine.machine import Machine
from vx.model.info import ModelInfo
from vx.sema import tree
from vx.sema.bounds import Interval
from vx.sema.names import ConstItem, EnumItem, ExternItem, FunctionItem, ImplItem, Item, ModuleScope, StructItem
from vx.sema.types import show, show_place

MAX_DEPTH = 128
"""Instantiations inside instantiations, before it is called runaway."""
MAX_INSTANCES = 20_000
MAX_KEY = 10_000
"""Characters of a type with all its arguments written out, before it is called runaway."""
MAX_PARTS = 10_000
"""Scalars, pointers and tensors that make up one value of a struct or enum."""


class CheckFailed(Exception):
    """An error was reported; the statement is abandoned."""


class NotConstant(CheckFailed):
    """Not an error yet: the expression has to wait for run time, because of what is at `span`."""

    def __init__(self, span: Span, why: str) -> None:
        super().__init__(why)
        self.span = span
        self.why = why


@dataclass(frozen=True, slots=True)
class ConstArg:
    """The value of a const generic parameter."""

    type: tree.Scalar
    value: int | float | bool


GenericValue = tree.Type | ConstArg | tree.Place
"""What a generic parameter is bound to: a type, a constant, or a topology."""


def show_generic(value: GenericValue) -> str:
    if isinstance(value, ConstArg):
        return str(value.value).lower() if isinstance(value.value, bool) else str(value.value)
    if isinstance(value, tree.Place):
        return show_place(value)
    return show(value)


def type_node(key: str) -> str:
    """A struct or enum in `Session.demands`."""
    return f"type {key}"


def const_node(item: ConstItem) -> str:
    """A constant in `Session.demands`."""
    return f"const {item.path}"


def no_locals(_name: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, eq=False)
class Env:
    """Where a type or constant is written: whose names it sees, what the generic parameters are bound
    to, where the code runs. `is_local` tells run-time names apart, for messages."""

    scope: ModuleScope
    here: tree.Place
    bindings: Mapping[str, GenericValue] = field(default_factory=dict)
    depth: int = 0
    is_local: Callable[[str], bool] = no_locals


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One instance of a function: everything but its body. `on` None: the host."""

    key: str
    item: FunctionItem
    env: Env
    params: tuple[tree.Type, ...]
    ret: tree.Type
    on: tree.Place | None


@dataclass(frozen=True, slots=True)
class Lack:
    """A device that the machine has not, and where it is named: an error of whoever needs it."""

    device: str
    message: str
    span: Span
    notes: tuple[str, ...]
    asked: Span | None


@dataclass(frozen=True, slots=True)
class Doubt:
    """A warning about code: `nodes` are what was checked where it was found, as in `Session.demands`."""

    message: str
    helps: tuple[str, ...]
    nodes: set[str | None] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class StructInstance:
    item: StructItem
    args: tuple[GenericValue, ...]
    env: Env
    fields: tuple[tuple[str, tree.Type], ...] = ()
    drop: str | None = None


@dataclass(slots=True, eq=False)
class EnumInstance:
    item: EnumItem
    args: tuple[GenericValue, ...]
    env: Env
    variants: tuple[tuple[str, tuple[tree.Type, ...]], ...] = ()


@dataclass(slots=True, eq=False)
class Session:
    machine: Machine
    model: ModelInfo | None
    reporter: Reporter
    sources: SourceMap
    host: tree.Place
    modules: list[ModuleScope] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    overrides: dict[str, str] = field(default_factory=dict)
    impls: dict[int, list[ImplItem]] = field(default_factory=dict)
    """By the identity of the struct or enum item."""
    requested: dict[str, Instance] = field(default_factory=dict)
    met: set[int] = field(default_factory=set)
    """Identities of the functions that have an instance."""
    queue: deque[Instance] = field(default_factory=deque)
    functions: dict[str, tree.Function] = field(default_factory=dict)
    checking: set[str] = field(default_factory=set)
    """Keys of the functions whose bodies are being checked."""
    structs: dict[str, StructInstance] = field(default_factory=dict)
    enums: dict[str, EnumInstance] = field(default_factory=dict)
    part_counts: dict[str, int] = field(default_factory=dict)
    """Of structs and enums: how many scalars, pointers and tensors make them up."""
    failed_types: set[str] = field(default_factory=set)
    """Keys of structs and enums whose declaration was refused."""
    externs: dict[str, tree.Extern] = field(default_factory=dict)
    extern_items: dict[str, ExternItem] = field(default_factory=dict)
    """The declaration that each entry of `externs` was made from."""
    model_refs: dict[str, tree.ModelRef] = field(default_factory=dict)
    const_values: dict[int, tree.Const | tree.Str] = field(default_factory=dict)
    const_stack: list[ConstItem] = field(default_factory=list)
    const_failed: set[int] = field(default_factory=set)
    declared: dict[Span, tuple[str, str]] = field(default_factory=dict)
    """Names that may turn out unused: where declared → (warning code, name)."""
    used: set[Span] = field(default_factory=set)
    doubts: dict[tuple[str, Span], Doubt] = field(default_factory=dict)
    """Warnings about code by their code and place. Which are given is decided when all is checked: see `warnings.py`."""
    asked: Span | None = None
    """While a function or type of the library is checked: what in the program led there."""
    asked_by: dict[str, Span] = field(default_factory=dict)
    """For each instance, the program's call that led to it."""
    paths: dict[tuple[str, str, int], tuple[str, ...] | None] = field(default_factory=dict)
    """The quickest path between two spaces for a number of bytes."""
    timed: list[tuple[str | None, tree.Transfer | tree.Land]] = field(default_factory=list)
    """Transfers with a deadline, and what they are in."""
    has_roles: bool = False
    doubted: set[str] = field(default_factory=set)
    """Topologies that W1025 or W1026 was said of."""
    host_missed: bool = False
    """Whether E6014 was said: it is about the whole compilation."""
    current: str | None = None
    """What is being checked: the key of a function, or `type_node` or `const_node` of a declaration."""
    demands: dict[str, dict[str, None]] = field(default_factory=dict)
    """Of everything that was `current`: what it needs, functions by key."""
    lacks: dict[str | None, list[Lack]] = field(default_factory=dict)
    """Devices that the machine has not, by what was `current` where they are named."""
    incomplete: set[str | None] = field(default_factory=set)
    """What lost a statement to an error, or to something that was given up before."""
    _reported: set[tuple[str, Span]] = field(default_factory=set)

    # ---- reporting ----
    def report(
        self,
        code: str,
        message: str,
        span: Span,
        labels: Iterable[tuple[Span, str]] = (),
        notes: Iterable[str] = (),
        helps: Iterable[str] = (),
    ) -> None:
        """Report an error, once per code and place (instances of a generic function repeat theirs).

        One in a file of the library is shown at the program's call that led there.
        """
        if (code, span) in self._reported:
            return
        self._reported.add((code, span))
        if self.asked is not None and any(module.library and module.file == span.file for module in self.modules):
            labels = [(span, "reached from that call"), *labels]
            span = self.asked
        self.reporter.error(code, message, span, labels=labels, notes=notes, helps=helps)

    def fail(
        self,
        code: str,
        message: str,
        span: Span,
        labels: Iterable[tuple[Span, str]] = (),
        notes: Iterable[str] = (),
        helps: Iterable[str] = (),
    ) -> CheckFailed:
        """Report an error; the result is to be raised."""
        self.report(code, message, span, labels, notes, helps)
        return CheckFailed(message)

    def warn(self, code: str, message: str, span: Span, helps: Iterable[str] = ()) -> None:
        if (code, span) not in self._reported:
            self._reported.add((code, span))
            self.reporter.warning(code, message, span, helps=helps)

    def lack(self, device: str, message: str, span: Span, notes: tuple[str, ...] = ()) -> CheckFailed:
        """Note that a device is needed which the machine has not. Whether that is an error (E6032) is decided
        when all is checked: see `roles.py`. The result is to be raised."""
        self.lacks.setdefault(self.current, []).append(Lack(device, message, span, notes, self.asked))
        return CheckFailed(message)

    def unsupported(self, what: str, span: Span, helps: Iterable[str] = ()) -> CheckFailed:
        """E0901: of the language, but not supported yet; the result is to be raised."""
        return self.fail("E0901", f"{what} not supported yet", span, helps=helps)

    # ---- questions that need declarations ----
    def is_copy(self, type_: tree.Type) -> bool:
        """Whether reading a place of this type leaves it usable."""
        match type_:
            case tree.Scalar() | tree.Ptr() | tree.Void() | tree.Never():
                return True
            case tree.Ref(mutable=mutable):
                return not mutable
            case tree.Enum(key=key):
                variants = self.enums[key].variants
                return all(self.is_copy(item) for _, items in variants for item in items)
            case _:
                return False

    def is_plain(self, type_: tree.Enum) -> bool:
        """Whether no variant of the enum has a payload."""
        return not any(items for _, items in self.enums[type_.key].variants)

    def item_of(self, type_: tree.Type) -> StructItem | EnumItem | None:
        """The declaration behind a struct or enum type."""
        if isinstance(type_, tree.Struct):
            return self.structs[type_.key].item
        if isinstance(type_, tree.Enum):
            return self.enums[type_.key].item
        return None

    def args_of(self, type_: tree.Type) -> tuple[GenericValue, ...]:
        """The generic arguments of a struct or enum type."""
        if isinstance(type_, tree.Struct):
            return self.structs[type_.key].args
        if isinstance(type_, tree.Enum):
            return self.enums[type_.key].args
        return ()

    def impls_of(self, item: Item) -> list[ImplItem]:
        return self.impls.get(id(item), [])

    # ---- who needs what ----
    def demand(self, node: str) -> None:
        """Note that what is being checked needs `node`."""
        if self.current is not None:
            self.demands.setdefault(self.current, {})[node] = None

    def demand_type(self, type_: tree.Type) -> None:
        """Note that what is being checked needs the declaration of a type."""
        while isinstance(type_, tree.Ref | tree.Ptr):
            type_ = type_.to
        if isinstance(type_, tree.Struct | tree.Enum):
            self.demand(type_node(type_.key))

    @contextmanager
    def checks(self, node: str) -> Iterator[None]:
        """While `node` is being checked."""
        outer, self.current = self.current, node
        try:
            yield
        finally:
            self.current = outer

    def _demand_types(self, instance: Instance) -> None:
        """A function needs the types of its signature, though its caller resolved them."""
        bound = [value for value in instance.env.bindings.values() if not isinstance(value, ConstArg | tree.Place)]
        with self.checks(instance.key):
            for type_ in (*instance.params, instance.ret, *bound):
                self.demand_type(type_)

    # ---- instances ----
    def request(self, instance: Instance, span: Span) -> None:
        """Have `instance` checked, once."""
        self.demand(instance.key)
        if instance.key in self.requested:
            return
        if instance.env.depth > MAX_DEPTH or len(self.requested) >= MAX_INSTANCES:
            raise self.fail(
                "E0308",
                f"instantiating `{instance.item.path}` does not end",
                span,
                labels=[(instance.item.node.name_span, "each instance asks for another one")],
                helps=["let `if comptime` end the recursion before the call"],
            )
        self._demand_types(instance)
        self.requested[instance.key] = instance
        self.met.add(id(instance.item))
        self.asked_by[instance.key] = self.asked or span
        self.queue.append(instance)


LocalBinding = int | None
"""A local by its id; None after its declaration was refused."""


@dataclass(slots=True, eq=False)
class Body:
    """What is known at one point of a function body (or of a constant expression: then `constant`)."""

    session: Session
    env: Env
    ret: tree.Type
    name: str
    constant: bool = False
    locals: dict[int, tree.LocalDecl] = field(default_factory=dict)
    scopes: list[dict[str, LocalBinding]] = field(default_factory=lambda: [{}])
    known: dict[int, tree.Const] = field(default_factory=dict)
    """Immutable locals whose value is a constant."""
    bounds: dict[int, Interval] = field(default_factory=dict)
    """Immutable locals of which more is known than their type."""
    unsafe: int = 0
    loops: list[bool] = field(default_factory=list)
    """The loops around this point, innermost last: whether a `break` of it was met."""
    region: Span | None = None
    """The `spawn` this is inside of, in this function."""

    def fail(
        self,
        code: str,
        message: str,
        span: Span,
        labels: Iterable[tuple[Span, str]] = (),
        notes: Iterable[str] = (),
        helps: Iterable[str] = (),
    ) -> CheckFailed:
        """Report an error; the result is to be raised."""
        notes = list(notes)
        if self.env.bindings and not self.constant:
            notes.append(f"while checking `{self.name}`")
        return self.session.fail(code, message, span, labels, notes, helps)

    def warn(self, code: str, message: str, span: Span, helps: Iterable[str] = ()) -> None:
        """A warning about this code, in the user's own files only."""
        if not self.env.scope.library:
            doubt = self.session.doubts.setdefault((code, span), Doubt(message, tuple(helps)))
            doubt.nodes.add(self.session.current)

    # ---- names ----
    def declare(self, name: str, type_: tree.Type, span: Span, *, mutable: bool = False, code: str = "W1001") -> int:
        """A new local, visible from here to the end of the innermost scope."""
        id_ = len(self.locals)
        self.locals[id_] = tree.LocalDecl(id_, name, type_, mutable, span)
        self.scopes[-1][name] = id_
        if not name.startswith("_") and not self.env.scope.library:
            self.session.declared.setdefault(span, (code, name))
        return id_

    def hidden(self, type_: tree.Type, span: Span, name: str) -> int:
        """A local that the program does not name."""
        id_ = len(self.locals)
        self.locals[id_] = tree.LocalDecl(id_, name, type_, False, span)
        return id_

    def poison(self, name: str) -> None:
        """The name is declared, but nothing more can be said of it."""
        self.scopes[-1][name] = None

    def find(self, name: str) -> tuple[bool, LocalBinding]:
        """Whether `name` is a local, and which."""
        for scope in reversed(self.scopes):
            if name in scope:
                return True, scope[name]
        return False, None

    def is_local(self, name: str) -> bool:
        return self.find(name)[0]

    def use(self, id_: int) -> None:
        self.session.used.add(self.locals[id_].span)

    def local_names(self) -> list[str]:
        return [name for scope in self.scopes for name in scope]

    @property
    def here(self) -> tree.Place:
        return self.env.here

    @property
    def on_host(self) -> bool:
        return self.env.here == self.session.host

    @property
    def home(self) -> tree.Place | None:
        """The place of a tensor made here, as types have it (None: host memory)."""
        here = self.env.here
        return None if here.space == self.session.host.space else here

    def moved_to(self, place: tree.Place) -> Env:
        """The environment of code that runs at `place`."""
        return replace(self.env, here=place)

    @property
    def type_env(self) -> Env:
        """The environment for types and constants written here."""
        return replace(self.env, is_local=self.is_local)
