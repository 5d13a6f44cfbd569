"""What names stand for: the items of modules, and how a name is looked up.

Enters: syntax trees of modules (from `modules.py`). Leaves: `Item`s. A name means the module's own item,
else the one item of that name in its imports, else the prelude's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from vx.sema import tree
from vx.syntax import ast


@dataclass(slots=True, eq=False)
class ModuleScope:
    """One source file: its own items, and the modules that it imports by the names it knows them by.

    `library` marks a file of the standard library: its functions are checked when called, and it gets
    no warnings.
    """

    path: tuple[str, ...]
    file: str
    library: bool
    node: ast.Module
    items: dict[str, Item] = field(default_factory=dict)
    imports: dict[str, ModuleScope] = field(default_factory=dict)
    prelude: ModuleScope | None = None
    impls: list[ImplItem] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path[-1]


@dataclass(frozen=True, slots=True, eq=False)
class ImplItem:
    """An `impl` block and its functions by name."""

    module: ModuleScope
    node: ast.Impl
    functions: dict[str, FunctionItem]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionItem:
    """`path` is the readable, unique name that keys are made from."""

    path: str
    module: ModuleScope
    node: ast.Function
    impl: ImplItem | None = None


@dataclass(frozen=True, slots=True, eq=False)
class StructItem:
    path: str
    module: ModuleScope
    node: ast.Struct


@dataclass(frozen=True, slots=True, eq=False)
class EnumItem:
    path: str
    module: ModuleScope
    node: ast.Enum


@dataclass(frozen=True, slots=True, eq=False)
class ConstItem:
    path: str
    module: ModuleScope
    node: ast.ConstItem


@dataclass(frozen=True, slots=True, eq=False)
class AliasItem:
    path: str
    module: ModuleScope
    node: ast.TypeAlias


@dataclass(frozen=True, slots=True, eq=False)
class ExternItem:
    path: str
    module: ModuleScope
    node: ast.ExternFunction


@dataclass(frozen=True, slots=True, eq=False)
class FixedItem:
    """What the model directory says: a constant (`Const` or `Str`), a type, or a tensor."""

    path: str
    module: ModuleScope
    meaning: tree.Const | tree.Str | tree.Scalar | tree.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class UnsupportedItem:
    """Declared, but of a kind that is not supported yet (`what`)."""

    path: str
    module: ModuleScope
    node: ast.Node
    what: str


Item = (
    FunctionItem | StructItem | EnumItem | ConstItem | AliasItem | ExternItem | FixedItem | UnsupportedItem
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A name that several imports declare."""

    items: tuple[Item, ...]


def lookup(scope: ModuleScope, name: str) -> Item | Ambiguous | None:
    """What `name`, written without a module, means in `scope`."""
    if name in scope.items:
        return scope.items[name]
    found = {id(m): m.items[name] for m in scope.imports.values() if name in m.items}
    if len(found) > 1:
        return Ambiguous(tuple(found.values()))
    if found:
        return next(iter(found.values()))
    if scope.prelude is not None:
        return scope.prelude.items.get(name)
    return None


def visible_names(scope: ModuleScope) -> list[str]:
    """Every name that `lookup` would find, for suggestions."""
    names = list(scope.items)
    for module in scope.imports.values():
        names.extend(module.items)
    if scope.prelude is not None:
        names.extend(scope.prelude.items)
    return names


_MANY = 500
"""Names among which a misspelling is looked for thoroughly."""


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` is most likely a misspelling of."""
    among = sorted(set(candidates))
    if len(among) > _MANY:
        among = [item for item in among if item[:1] == name[:1] and abs(len(item) - len(name)) <= 1][:_MANY]
    near = get_close_matches(name, among, n=1, cutoff=0.6)
    if near and len(name) > 1:
        return near[0]
    return None


def did_you_mean(name: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """Help lines for an unknown name: one suggestion or none."""
    near = closest(name, candidates)
    return (f"did you mean `{near}`?",) if near else ()


_KINDS: dict[type, str] = {
    FunctionItem: "a function",
    ExternItem: "an extern function",
    StructItem: "a struct",
    EnumItem: "an enum",
    AliasItem: "a type",
    ConstItem: "a constant",
}


def item_kind(item: Item) -> str:
    """What to call the item in a message."""
    if isinstance(item, UnsupportedItem):
        return item.what
    if isinstance(item, FixedItem):
        if isinstance(item.meaning, tree.Scalar):
            return "a type"
        return "a tensor of the model" if isinstance(item.meaning, tree.Tensor) else "a constant of the model"
    return _KINDS[type(item)]
