"""Instances of functions: signatures with everything generic filled in, and their keys.

Enters: a function item and what its parameters are bound to. Leaves: an `Instance`, queued for checking.
An unplaced tensor behind a reference parameter lives wherever the argument lives: such instances differ by
place, and a function without `on` also differs by where it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vx.diagnostics.span import Span
from vx.sema import constants, placement, resolve, tree
from vx.sema.context import Env, GenericValue, Instance, Session, show_generic
from vx.sema.names import AliasItem, FunctionItem, ModuleScope, lookup
from vx.sema.types import show_dims, show_place, tensor_of
from vx.syntax import ast


def running_place(session: Session, item: FunctionItem, env: Env) -> tree.Place:
    """Where the body runs: what `on` says, else where the caller runs."""
    return env.here if item.node.on is None else placement.placed(session, env, item.node.on)


@dataclass(frozen=True, slots=True)
class OpenTensor:
    """The tensor type of a parameter that leaves its place, or its shape, to the argument. `scope` is where
    it is written: the parameter's module, or that of a type alias."""

    node: ast.TensorType
    scope: ModuleScope


def open_tensor(scope: ModuleScope, node: ast.TypeExpr) -> OpenTensor | None:
    """What a parameter's type leaves open: an unplaced tensor behind a reference, or one without a shape."""
    inner = node.inner if isinstance(node, ast.RefType) else node
    if isinstance(inner, ast.PathType) and isinstance(node, ast.RefType):
        if inner.segments == ("Matrix",):
            elem = ast.PathType(inner.span, ("f32",), ())
            return OpenTensor(ast.TensorType(inner.span, elem, (None, None), None), scope)
        named = lookup(scope, inner.segments[0]) if len(inner.segments) == 1 else None
        if isinstance(named, AliasItem):
            inner, scope = named.node.type, named.module
    if not isinstance(inner, ast.TensorType):
        return None
    is_open = inner.dims is None or (isinstance(node, ast.RefType) and inner.place is None)
    return OpenTensor(inner, scope) if is_open else None


def param_type(session: Session, env: Env, node: ast.TypeExpr, actual: tree.Type | None) -> tree.Type:
    """The type of a parameter, given the type of its argument (None: nothing is known of it)."""
    found = open_tensor(env.scope, node)
    tensor = None if actual is None else tensor_of(actual)
    if found is None or tensor is None or isinstance(actual, tree.Ref) != isinstance(node, ast.RefType):
        return resolve.resolve_type(session, env, node)
    inner = env if found.scope is env.scope else Env(found.scope, env.here, depth=env.depth)
    elem = resolve.element_type(session, inner, found.node.elem)
    place, dims = tensor.place, tensor.dims
    if found.node.place is not None:
        place = resolve.written_place(session, inner, found.node, elem)
    if found.node.dims is not None:
        dims = resolve.tensor_type(session, inner, found.node).dims
    type_ = tree.Tensor(elem, dims, place)
    return tree.Ref(type_, node.mutable) if isinstance(node, ast.RefType) else type_


def request(
    session: Session,
    item: FunctionItem,
    bindings: Mapping[str, GenericValue],
    caller: tree.Place,
    param_types: Mapping[int, tree.Type],
    depth: int,
    span: Span,
) -> Instance:
    """The instance for these bindings, queued. `param_types` has the types that an argument decided."""
    env = Env(item.module, caller, bindings, depth)
    here = running_place(session, item, env)
    env = Env(item.module, here, bindings, depth)
    params = tuple(
        param_types[i] if i in param_types else resolve.resolve_type(session, env, p.type)
        for i, p in enumerate(item.node.params)
    )
    ret = resolve.resolve_type(session, env, item.node.ret)
    on = None if here == session.host else here
    key = _key(session, item, bindings, env, params)
    instance = Instance(key, item, env, params, ret, on)
    if key not in session.requested:
        _check_contract(session, item, env, span)
    session.request(instance, span)
    return instance


def _key(
    session: Session,
    item: FunctionItem,
    bindings: Mapping[str, GenericValue],
    env: Env,
    params: tuple[tree.Type, ...],
) -> str:
    own = [bindings[p.name] for p in item.node.generics]
    if item.impl is not None:
        self_type = bindings.get("Self")
        assert self_type is not None
        base = f"{show_generic(self_type)}::{item.node.name}"
    else:
        base = item.path
    key = resolve.instance_key(base, own)
    if item.node.on is None and env.here != session.host:
        key += f" on {show_place(env.here)}"
    moved = _moved_params(session, item, env, params)
    return f"{key} [{', '.join(moved)}]" if moved else key


def _moved_params(session: Session, item: FunctionItem, env: Env, params: tuple[tree.Type, ...]) -> list[str]:
    """Parameters whose argument decided more than the declaration says, as text for the key."""
    home = placement.type_place(session, env.here)
    result = []
    for declared, type_ in zip(item.node.params, params, strict=True):
        found, tensor = open_tensor(item.module, declared.type), tensor_of(type_)
        if found is None or tensor is None:
            continue
        text = "" if found.node.dims is not None else f": {show_dims(tensor.dims)}"
        if found.node.place is None and tensor.place != home:
            text += f" at {show_place(placement.real_place(session, tensor.place))}"
        if text:
            result.append(declared.name + text)
    return result


# ---- what a signature demands ------------------------------------------------------------------
def conditions(node: ast.Function) -> Iterator[ast.Expr]:
    """What the function requires, one by one: `a && b` are two."""
    pending = list(reversed(node.requires))
    while pending:
        condition = pending.pop()
        if isinstance(condition, ast.Binary) and condition.op == "&&":
            pending += [condition.right, condition.left]
        else:
            yield condition


def _check_contract(session: Session, item: FunctionItem, env: Env, span: Span) -> None:
    for bound in item.node.where:
        source = _where_place(session, env, bound.source, bound.span)
        target = _where_place(session, env, bound.target, bound.span)
        if session.machine.route(source.space, target.space) is None:
            message = f"{target.space} cannot be reached from {source.space}"
            labels = [(bound.span, f"`{item.node.name}` needs it")]
            raise session.fail("E6002", message, span, labels=labels)
    for condition in conditions(item.node):
        _check_requires(session, item, env, condition, span)
    for condition in item.node.ensures:
        raise session.unsupported("`ensures` is", condition.span, ["write an `assert` at the end of the body"])


def _where_place(session: Session, env: Env, name: str, span: Span) -> tree.Place:
    return placement.resolve_place(session, env, ast.TopologyPlace(span, name, None, None))


def _check_requires(session: Session, item: FunctionItem, env: Env, condition: ast.Expr, span: Span) -> None:
    """E8002 if the condition is known to be false. What is known only at run time is checked there."""
    names = frozenset(p.name for p in item.node.params)
    local_env = Env(env.scope, env.here, env.bindings, env.depth, names.__contains__)
    found = constants.try_constant(session, local_env, condition, tree.BOOL)
    if found is not None and found.value is False:
        message = f"`{item.node.name}` requires what does not hold here"
        raise session.fail("E8002", message, span, labels=[(condition.span, "this is false")])
