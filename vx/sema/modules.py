"""Reading a program: its main file and everything it imports.

Enters: the path of the main file. Leaves: `ModuleScope`s with their items, imports first. `import std::x;`
reads `std/x.vx`, `import model;` the library's `model.vx` with what the model directory says, any other name
a file beside the importing one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from vx import resources
from vx.diagnostics.span import Span
from vx.sema import tree
from vx.sema.context import Session
from vx.sema.names import (
    AliasItem,
    Ambiguous,
    ConstItem,
    EnumItem,
    ExternItem,
    FixedItem,
    FunctionItem,
    ImplItem,
    Item,
    ModuleScope,
    StructItem,
    UnsupportedItem,
    did_you_mean,
    lookup,
)
from vx.sema.types import integer_range, round_float
from vx.syntax import ast
from vx.syntax.parser import parse_module

_F64_CONSTANTS = ("ROPE_",)
"""Prefixes of the model's constants that are f64; its other floats are f32."""
_SWITCHES = frozenset({"TIED", "ROPE_SCALING"})
"""The model's constants that are bools."""


def load_program(session: Session, main: str) -> ModuleScope:
    """The main file's scope; all others hang off it. Reports what is wrong with imports and declarations."""
    loader = _Loader(session)
    prelude = loader.module(("std", "prelude"), str(resources.find("std", "prelude.vx")), library=True)
    loader.prelude = prelude
    scope = loader.module((os.path.splitext(os.path.basename(main))[0],), main, library=False)
    session.modules = [scope, *(m for m in loader.modules.values() if m is not scope)]
    session.files = [scope.file for scope in loader.modules.values()]
    used: set[str] = set()
    for module in session.modules:
        _Declarations(session, module, used).declare()
    for module in session.modules:
        _attach_impls(session, module)
    return scope


class _Loader:
    """Reads files, each once."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.modules: dict[str, ModuleScope] = {}
        self.prelude: ModuleScope | None = None

    def module(self, path: tuple[str, ...], file: str, *, library: bool) -> ModuleScope:
        key = os.path.realpath(file)
        if key in self.modules:
            return self.modules[key]
        session = self.session
        node = parse_module(session.sources.load(file), file, session.reporter)
        scope = ModuleScope(path, file, library, node, prelude=self.prelude)
        self.modules[key] = scope
        for item in node.items:
            if isinstance(item, ast.Import):
                self._import(scope, item)
            elif isinstance(item, ast.ImportFile):
                message = "a program imports modules, not machine files"
                helps = ["give the machine file with `--machine`"]
                session.report("E0208", message, item.span, helps=helps)
        return scope

    def _import(self, scope: ModuleScope, item: ast.Import) -> None:
        found = self._file_of(scope, item)
        if found is None:
            return
        file, library = found
        path = item.path if item.path[0] != "std" else ("std", *item.path[1:])
        imported = self.module(path, file, library=library)
        if imported is not scope:
            scope.imports[item.path[-1]] = imported

    def _file_of(self, scope: ModuleScope, item: ast.Import) -> tuple[str, bool] | None:
        """The file that an import names, and whether it is of the library. Errors: E0208, E0214."""
        session = self.session
        if item.path == ("model",):
            if session.model is None:
                message = "this program needs a model directory, and none is given"
                session.report("E0214", message, item.span, helps=["pass one: `--model DIR`"])
                return None
            return str(resources.find("std", "model.vx")), True
        library = item.path[0] == "std"
        folder = str(resources.directory("std")) if library else os.path.dirname(scope.file)
        names = item.path[1:] if library else item.path
        file = os.path.join(folder, *names) + ".vx"
        if names and os.path.isfile(file):
            return file, library or scope.library
        text = "::".join(item.path)
        near = did_you_mean(text, _importable(folder, "std::" if library else ""))
        if not near and not library and os.path.isfile(resources.find("std", f"{item.path[-1]}.vx")):
            near = (f"did you mean `std::{item.path[-1]}`?",)
        notes = [f"there is no file {file}"]
        session.report("E0208", f"there is no module `{text}`", item.span, notes=notes, helps=near)
        return None


def _importable(folder: str, prefix: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return
    for name in names:
        if name.endswith(".vx"):
            yield prefix + name.removesuffix(".vx")


# ---- declarations ------------------------------------------------------------------------------
class _Declarations:
    """Makes items of one module's declarations. `used` are the readable paths that are taken."""

    def __init__(self, session: Session, scope: ModuleScope, used: set[str]) -> None:
        self.session = session
        self.scope = scope
        self.used = used

    def declare(self) -> None:
        if self.scope.path == ("model",):
            for item in _model_items(self.session, self.scope):
                self.scope.items[item.path] = item
        for node in self.scope.node.items:
            self._item(node)

    def _item(self, node: ast.Item) -> None:
        scope = self.scope
        match node:
            case ast.Function():
                self._add(node.name, node, FunctionItem(self._path(node.name), scope, node))
            case ast.Struct():
                self._members(node.name, [(f.name, f.span) for f in node.fields], "field")
                self._add(node.name, node, StructItem(self._path(node.name), scope, node))
            case ast.Enum():
                self._members(node.name, [(v.name, v.span) for v in node.variants], "variant")
                self._add(node.name, node, EnumItem(self._path(node.name), scope, node))
            case ast.ConstItem():
                self._add(node.name, node, ConstItem(self._path(node.name), scope, node))
            case ast.TypeAlias():
                self._add(node.name, node, AliasItem(self._path(node.name), scope, node))
            case ast.ExternBlock():
                for function in node.functions:
                    self._add(function.name, function, ExternItem(function.name, scope, function))
            case ast.Impl():
                self._impl(node)
            case _:
                self._unsupported(node)

    def _unsupported(self, node: ast.Item) -> None:
        """E0901 for the kinds of items that are parsed only."""
        if isinstance(node, ast.Trait):
            self._add(node.name, node, UnsupportedItem(node.name, self.scope, node, "a trait"))
            self.session.unsupported("a trait is", node.span)
        elif isinstance(node, ast.MacroDef):
            self.session.unsupported("a macro definition is", node.span)
        elif isinstance(node, ast.TransferImpl):
            self.session.unsupported("`impl Transfer` is", node.span)

    def _path(self, name: str) -> str:
        path = name if name not in self.used else "::".join((*self.scope.path, name))
        self.used.add(path)
        return path

    def _add(self, name: str, node: ast.Node, item: Item) -> None:
        if name in self.scope.items:
            message = f"`{name}` is declared twice"
            self.session.report("E0206", message, node.span, labels=[(_span_of(self.scope.items[name]), "first here")])
            return
        if isinstance(item, FunctionItem):
            self._members(name, [(p.name, p.span) for p in item.node.params], "parameter")
        if isinstance(item, FunctionItem | StructItem | EnumItem):
            self._members(name, [(g.name, g.span) for g in item.node.generics], "generic parameter")
        self.scope.items[name] = item

    def _members(self, owner: str, members: list[tuple[str, Span]], what: str) -> None:
        seen: dict[str, Span] = {}
        for name, span in members:
            if name in seen:
                message = f"the {what} `{name}` of `{owner}` is declared twice"
                self.session.report("E0206", message, span, labels=[(seen[name], "first here")])
            seen[name] = span

    def _impl(self, node: ast.Impl) -> None:
        if node.trait is not None:
            self.session.unsupported("implementing a trait is", node.trait.span)
            return
        impl = ImplItem(self.scope, node, {})
        for function in node.functions:
            if function.name in impl.functions:
                first = impl.functions[function.name].node.name_span
                message = f"`{function.name}` is declared twice"
                self.session.report("E0206", message, function.name_span, labels=[(first, "first here")])
            self._members(function.name, [(p.name, p.span) for p in function.params], "parameter")
            impl.functions[function.name] = FunctionItem(function.name, self.scope, function, impl)
        self.scope.impls.append(impl)


def _span_of(item: Item) -> Span:
    if isinstance(item, FixedItem):
        return Span(item.module.file, 0, 0)
    return item.node.name_span if isinstance(item, FunctionItem) else item.node.span


def _attach_impls(session: Session, module: ModuleScope) -> None:
    """Let the session find every `impl` by the item that it is of. Error: E0202."""
    for impl in module.impls:
        target = impl.node.target
        found: Item | Ambiguous | None = None
        if isinstance(target, ast.PathType):
            found = lookup(module, target.segments[-1])
        if not isinstance(found, StructItem | EnumItem):
            message = "an `impl` is of a struct or enum"
            session.report("E0202", message, target.span)
            continue
        known = session.impls.setdefault(id(found), [])
        for name, function in impl.functions.items():
            for other in known:
                if name in other.functions and not found.node.generics:
                    first = other.functions[name].node.name_span
                    message = f"`{name}` is declared twice for `{found.node.name}`"
                    session.report("E0206", message, function.node.name_span, labels=[(first, "first here")])
        known.append(impl)


# ---- the model ---------------------------------------------------------------------------------
def _model_items(session: Session, scope: ModuleScope) -> Iterator[FixedItem]:
    """Constants, element type, digest and tensors of the model directory."""
    model = session.model
    assert model is not None
    span = Span(scope.file, 0, 0)
    for name, value in _constants(model.constants).items():
        yield FixedItem(name, scope, _constant(name, value, span))
    yield FixedItem("MODEL_DIGEST", scope, tree.Str(tree.CSTR, span, model.digest.encode()))
    yield FixedItem("E", scope, tree.Scalar(model.elem))
    for name, info in model.tensors.items():
        yield FixedItem(name, scope, tree.Tensor(info.elem, tuple(info.dims)))


def _constants(constants: Mapping[str, int | float | bool]) -> Mapping[str, int | float | bool]:
    return {name: bool(value) if name in _SWITCHES else value for name, value in constants.items()}


def _constant(name: str, value: int | float | bool, span: Span) -> tree.Const:
    if isinstance(value, bool):
        return tree.Const(tree.BOOL, span, value)
    if isinstance(value, float):
        type_ = "f64" if name.startswith(_F64_CONSTANTS) else "f32"
        return tree.Const(tree.Scalar(type_), span, round_float(type_, value))
    low, high = integer_range("i32")
    return tree.Const(tree.I32 if low <= value <= high else tree.I64, span, value)
