"""Generic parameters from what is passed: matching declared types against actual ones.

Enters: type expressions that mention generic parameters, and the types of arguments. Leaves: bindings. A
parameter bound twice must agree, and the error names both bindings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass

from vx.diagnostics.span import Span
from vx.sema import resolve, tree
from vx.sema.context import CheckFailed, ConstArg, Env, GenericValue, Session, show_generic
from vx.sema.names import Ambiguous, lookup
from vx.sema.types import tensor_of
from vx.syntax import ast


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a binding came from: `hint` if only from the type that the context expects."""

    span: Span
    what: str
    hint: bool = False


@dataclass(slots=True, eq=False)
class Binder:
    """Bindings of `params` so far. `env` is where the declared types are written, without the bindings."""

    session: Session
    env: Env
    params: tuple[ast.GenericParam, ...]
    bound: dict[str, GenericValue] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    run_time: dict[str, Origin] = field(default_factory=dict)
    """Const parameters that met an extent known only at run time."""
    self_type: ast.TypeExpr | None = None
    """What `Self` is, while the parameters of its `impl` are still to be inferred."""

    @property
    def callee_env(self) -> Env:
        """The environment of the declared types with the bindings so far."""
        env = self.env
        bindings = {**env.bindings, **self.bound}
        if self.self_type is not None and not self.open_names():
            inner = Env(env.scope, env.here, bindings, env.depth)
            bindings["Self"] = resolve.resolve_type(self.session, inner, self.self_type)
        return Env(env.scope, env.here, bindings, env.depth)

    def param(self, name: str) -> ast.GenericParam | None:
        return next((p for p in self.params if p.name == name), None)

    def open_names(self) -> set[str]:
        return {p.name for p in self.params if p.name not in self.bound}

    def is_open(self, node: ast.Node) -> bool:
        """Whether `node` mentions a parameter that is not bound yet."""
        names = self.open_names()
        if names and self.self_type is not None:
            names.add("Self")
        return bool(names) and any(name in names for name in names_in(node))

    def bind(self, name: str, value: GenericValue, origin: Origin) -> None:
        """E0306 if `name` is already bound to something else."""
        if name not in self.bound:
            self.bound[name] = value
            self.origins[name] = origin
            return
        known, first = self.bound[name], self.origins[name]
        if known == value or first.hint or origin.hint:
            return
        raise self.session.fail(
            "E0306",
            f"`{name}` would be both {show_generic(known)} and {show_generic(value)}",
            origin.span,
            labels=[
                (first.span, f"{first.what} makes it {show_generic(known)}"),
                (origin.span, f"{origin.what} makes it {show_generic(value)}"),
            ],
        )

    def finish(self, name: str, span: Span, owner: str = "") -> None:
        """E0305 if a parameter is still unbound. `owner`: the type whose function `name` is."""
        for param in self.params:
            if param.name not in self.bound:
                raise self._not_inferred(param, name, span, owner)

    def _not_inferred(self, param: ast.GenericParam, name: str, span: Span, owner: str) -> CheckFailed:
        met = self.run_time.get(param.name)
        labels = [] if met is None else [(met.span, f"{met.what} has an extent known only at run time")]
        given = ", ".join(p.name for p in self.params)
        return self.session.fail(
            "E0305",
            f"`{param.name}` of `{name}` cannot be inferred",
            span,
            labels=labels,
            helps=[f"give it: `{owner}<{given}>::{name}`" if owner else f"give it: `{name}<{given}>`"],
        )


def names_in(node: object) -> Iterator[str]:
    """Every plain name written in a piece of syntax."""
    if isinstance(node, ast.PathType) and len(node.segments) == 1:
        yield node.segments[0]
    elif isinstance(node, ast.Path) and len(node.segments) == 1:
        yield node.segments[0].name
    elif isinstance(node, ast.TopologyPlace):
        yield node.name
    if isinstance(node, tuple):
        for item in node:
            yield from names_in(item)
    elif is_dataclass(node) and not isinstance(node, Span):
        for one in fields(node):
            yield from names_in(getattr(node, one.name))


# ---- matching ----------------------------------------------------------------------------------
def match_type(binder: Binder, node: ast.TypeExpr, actual: tree.Type, origin: Origin) -> None:
    """Bind the parameters that `node` mentions so that it becomes `actual`. What does not match at all is
    left to the check of the argument that follows."""
    match node:
        case ast.PathType():
            _match_path(binder, node, actual, origin)
        case ast.RefType(inner=inner):
            if isinstance(actual, tree.Ref):
                match_type(binder, inner, actual.to, origin)
        case ast.PtrType(inner=inner):
            if isinstance(actual, tree.Ptr):
                match_type(binder, inner, actual.to, origin)
        case ast.WrapperType(inner=inner):
            match_type(binder, inner, actual, origin)
        case ast.TensorType():
            tensor = tensor_of(actual)
            if tensor is not None:
                _match_tensor(binder, node, tensor, origin)
        case _:
            return


def _match_path(binder: Binder, node: ast.PathType, actual: tree.Type, origin: Origin) -> None:
    name = node.segments[-1]
    if name == "Self" and binder.self_type is not None:
        match_type(binder, binder.self_type, actual, origin)
        return
    param = binder.param(name) if len(node.segments) == 1 and not node.args else None
    if param is not None:
        if param.kind == "type" and not isinstance(actual, tree.Never):
            binder.bind(name, actual, origin)
        return
    item = binder.session.item_of(actual)
    if item is None or not node.args:
        return
    named = lookup(binder.env.scope, name) if len(node.segments) == 1 else item
    if isinstance(named, Ambiguous) or named is not item:
        return
    for arg, value in zip(node.args, binder.session.args_of(actual), strict=False):
        _match_arg(binder, arg, value, origin)


def _match_arg(binder: Binder, arg: ast.GenericArg, value: GenericValue, origin: Origin) -> None:
    if isinstance(value, ConstArg | tree.Place):
        node = resolve.as_expression(arg)
        name = _plain(node)
        if name is not None and binder.param(name) is not None:
            binder.bind(name, value, origin)
    elif isinstance(arg, ast.PathType | ast.RefType | ast.PtrType | ast.TensorType | ast.WrapperType):
        match_type(binder, arg, value, origin)


def _plain(node: ast.Expr | None) -> str | None:
    if isinstance(node, ast.Path) and len(node.segments) == 1 and not node.segments[0].args:
        return node.segments[0].name
    return None


def _match_tensor(binder: Binder, node: ast.TensorType, actual: tree.Tensor, origin: Origin) -> None:
    if isinstance(node.elem, ast.PathType):
        _match_path(binder, node.elem, tree.Scalar(actual.elem), origin)
    if node.dims is not None and len(node.dims) == len(actual.dims):
        for dim, extent in zip(node.dims, actual.dims, strict=True):
            _match_extent(binder, dim, extent, origin)
    if isinstance(node.place, ast.TopologyPlace) and actual.place is not None:
        _match_place(binder, node.place, actual.place, origin)


def _match_extent(binder: Binder, dim: ast.Expr | None, extent: tree.Dim, origin: Origin) -> None:
    name = _plain(dim)
    param = binder.param(name) if name is not None else None
    if param is None or name is None or param.kind != "const":
        return
    if isinstance(extent, int):
        _bind_const(binder, param, extent, origin)
    elif name not in binder.bound:
        binder.run_time[name] = origin


def _match_place(binder: Binder, node: ast.TopologyPlace, actual: tree.Place, origin: Origin) -> None:
    if binder.param(node.name) is not None:
        binder.bind(node.name, actual, origin)
        return
    topology = binder.session.machine.topology(node.name)
    if topology is None or topology.name != actual.topology:
        return
    name = _plain(node.index)
    param = binder.param(name) if name is not None else None
    if param is not None and param.kind == "const":
        _bind_const(binder, param, actual.instance, origin)


def _bind_const(binder: Binder, param: ast.GenericParam, value: int, origin: Origin) -> None:
    assert param.type is not None
    type_ = resolve.resolve_type(binder.session, binder.callee_env, param.type)
    if isinstance(type_, tree.Scalar):
        binder.bind(param.name, ConstArg(type_, value), origin)


def give(
    binder: Binder, env: Env, args: Iterable[ast.GenericArg], params: tuple[ast.GenericParam, ...], name: str
) -> None:
    """Bind `params` to explicit arguments, in order; the rest stays to be inferred. Error: E0307 if too many."""
    args = tuple(args)
    if len(args) > len(params):
        span = args[len(params)].span
        declared = params[0].span if params else span
        raise resolve.wrong_count(binder.session, name, len(params), len(args), span, declared)
    for param, arg in zip(params, args, strict=False):
        value = resolve.generic_arg(binder.session, env, param, arg, binder.callee_env)
        binder.bind(param.name, value, Origin(arg.span, "this argument"))
