"""Calls: of functions, methods, associated functions and C functions.

Enters: call expressions. Leaves: `Call`s of instances, with generic parameters inferred and every argument
of its parameter's type. Built-in functions and methods go to `builtins.py` and `tensors.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vx.diagnostics.span import Span
from vx.sema import (
    aggregates,
    builtins,
    convert,
    expressions,
    infer,
    instances,
    methods,
    operators,
    paths,
    placement,
    resolve,
    tensors,
    tree,
    views,
)
from vx.sema.context import Body, CheckFailed, Env, GenericValue, Instance
from vx.sema.names import ExternItem, FunctionItem, did_you_mean
from vx.sema.types import show, show_place, tensor_of
from vx.syntax import ast


def call(body: Body, node: ast.Call, expected: tree.Type | None) -> tree.Value:
    """`f(…)`, `Enum::Variant(…)`, `Type::function(…)`. Errors: E3008, E3015 and those of arguments."""
    if not isinstance(node.callee, ast.Path):
        raise body.session.unsupported("calling a value is", node.callee.span)
    target = paths.resolve_path(body, node.callee, "function")
    name = node.callee.segments[-1].name
    match target:
        case paths.FunctionTarget(item=item, given=given):
            return _Call(body, item, name, node.span, expected).free(given, node.args)
        case paths.AssociatedTarget(item=item):
            return _Call(body, item, name, node.span, expected).associated(target, node.args)
        case paths.NewTensorTarget(type=type_, kind=kind):
            return tensors.new(body, node, type_, kind)
        case paths.VariantTarget():
            return aggregates.variant(body, target, node.args, node.span, expected)
        case paths.ExternTarget(item=item):
            return _extern(body, item, node)
        case paths.BuiltinTarget(name=builtin):
            return builtins.call(body, builtin, node, expected)
        case paths.LocalTarget(id=id_) if body.locals[id_].type == resolve.FUNCTION_POINTER:
            raise body.session.unsupported("calling through a function pointer is", node.callee.span)
        case _:
            raise body.fail("E3015", f"`{name}` is not a function", node.callee.span)


def method_call(body: Body, node: ast.MethodCall, expected: tree.Type | None) -> tree.Value:
    """`receiver.name(…)`: of a tensor, a number, a pointer, or a type with an `impl`. Error: E0204."""
    view = views.method_place(body, node)
    if view is not None:
        return expressions.borrow(view, mutable=node.name == "bytes_mut")
    base = _receiver(body, node, expected)
    match base.type:
        case tree.Tensor():
            return tensors.method(body, node, base)
        case tree.Scalar():
            return builtins.math_method(body, node, expressions.read(body, base))
        case tree.Ptr():
            return builtins.pointer_method(body, node, expressions.read(body, base))
        case tree.Struct() | tree.Enum():
            return _user_method(body, node, base, expected)
        case _:
            raise body.fail("E0204", f"{show(base.type)} has no methods", node.name_span)


def _receiver(body: Body, node: ast.MethodCall, expected: tree.Type | None) -> tree.PlaceNode:
    found = expressions.named_place(body, node.receiver)
    if found is None:
        hint = expected if operators.is_literal(node.receiver) else None
        value = expressions.value(body, node.receiver, hint)
        if isinstance(value.type, tree.Ref):
            found = expressions.deref(value)
        else:
            found = tree.Temp(value.type, node.receiver.span, value)
    found = expressions.through_refs(found)
    views.check_element_use(body, found)
    return found


def _user_method(body: Body, node: ast.MethodCall, base: tree.PlaceNode, expected: tree.Type | None) -> tree.Value:
    found = methods.find(body.session, base.type, node.name)
    if found is None:
        message = f"`{show(base.type)}` has no method `{node.name}`"
        helps = did_you_mean(node.name, methods.names(body.session, base.type))
        raise body.fail("E0204", message, node.name_span, helps=helps)
    params = found.item.node.params
    if not params or params[0].name != "self":
        path = f"{show(base.type)}::{node.name}(…)"
        message = f"`{node.name}` has no `self`: it is not a method"
        raise body.fail("E0204", message, node.name_span, helps=[f"call it as `{path}`"])
    declared = params[0].type
    if isinstance(declared, ast.RefType):
        receiver = expressions.borrow(base, declared.mutable)
    else:
        receiver = expressions.read(body, base)
    call_ = _Call(body, found.item, node.name, node.span, expected)
    return call_.method(found, receiver, node.generic_args, node.args)


def function_address(body: Body, target: paths.FunctionTarget | paths.AssociatedTarget, span: Span) -> tree.Value:
    """A function as a value: its address, for C. Error: E3015 for anything generic."""
    item = target.item
    if item.node.is_role:
        raise body.fail("E0215", f"`{item.node.name}` is a role, and only `main` calls roles", span)
    if item.node.generics or item.impl is not None or item.node.on is not None:
        raise body.fail("E3015", f"`{item.node.name}` is a function: call it", span)
    instance = instances.request(body.session, item, {}, body.session.host, {}, 0, span)
    return tree.FnAddr(resolve.FUNCTION_POINTER, span, instance.key)


# ---- one call of a Vx function -----------------------------------------------------------------
@dataclass(slots=True, eq=False)
class _Call:
    """A call being checked: of `item`, by the name `name`."""

    body: Body
    item: FunctionItem
    name: str
    span: Span
    expected: tree.Type | None

    def free(self, given: tuple[ast.GenericArg, ...], args: tuple[ast.Expr, ...]) -> tree.Value:
        binder = self._binder(self.item.node.generics, {})
        infer.give(binder, self.body.type_env, given, self.item.node.generics, self.name)
        return self._finish(binder, None, args)

    def method(
        self,
        found: methods.Found,
        receiver: tree.Value,
        given: tuple[ast.GenericArg, ...],
        args: tuple[ast.Expr, ...],
    ) -> tree.Value:
        binder = self._binder(self.item.node.generics, found.bindings)
        infer.give(binder, self.body.type_env, given, self.item.node.generics, self.name)
        return self._finish(binder, receiver, args)

    def associated(self, target: paths.AssociatedTarget, args: tuple[ast.Expr, ...]) -> tree.Value:
        impl = self.item.impl
        assert impl is not None
        own = self.item.node.generics
        if target.owner is not None:
            bindings = methods.impl_bindings(self.body.session, impl, target.owner)
            assert bindings is not None
            binder = self._binder(own, bindings)
        else:
            binder = self._binder((*impl.node.generics, *own), {})
            binder.self_type = impl.node.target
        infer.give(binder, self.body.type_env, target.given, own, self.name)
        return self._finish(binder, None, args)

    # ---- steps ----
    def _binder(self, params: tuple[ast.GenericParam, ...], bindings: Mapping[str, GenericValue]) -> infer.Binder:
        self._check_allowed()
        env = Env(self.item.module, self.body.here, bindings)
        return infer.Binder(self.body.session, env, params)

    def _check_allowed(self) -> None:
        body, node = self.body, self.item.node
        if node.is_unsafe and not body.unsafe:
            message = f"calling `{self.name}` needs `unsafe`"
            raise body.fail("E5002", message, self.span, helps=["put it in a block: `unsafe { … }`"])
        if node.is_role and body.session.current != "main":
            message = f"`{self.name}` is a role, and only `main` calls roles"
            raise body.fail("E0215", message, self.span, helps=["move what is shared into a plain function"])
        if body.session.has_roles and self.item.path == "main":
            message = "`main` chooses the role of the process, and nothing calls it"
            raise body.fail("E0215", message, self.span, helps=["move what is shared into a plain function"])

    def _owner(self) -> str:
        """The name of the generic type that the function belongs to, if any."""
        impl = self.item.impl
        target = impl.node.target if impl is not None and impl.node.generics else None
        return target.segments[-1] if isinstance(target, ast.PathType) else ""

    def _finish(self, binder: infer.Binder, receiver: tree.Value | None, args: tuple[ast.Expr, ...]) -> tree.Value:
        values = self._arguments(binder, receiver, args)
        binder.finish(self.name, self.span, self._owner())
        instance = self._instance(binder, values)
        first = 0 if receiver is None else 1
        declared = self.item.node.params
        for i in range(first, len(values)):
            what = f"argument `{declared[i].name}` of `{self.name}` is"
            want = convert.Want(instance.params[i], "E3003", what)
            values[i] = convert.coerce(self.body, values[i], want)
        return tree.Call(instance.ret, self.span, instance.key, tuple(values))

    def _arguments(
        self, binder: infer.Binder, receiver: tree.Value | None, args: tuple[ast.Expr, ...]
    ) -> list[tree.Value]:
        """The values of all arguments; what they say about generic parameters is bound."""
        declared = self.item.node.params[0 if receiver is None else 1 :]
        check_count(self.body, self.name, len(declared), args, self.span, self.item.node.name_span)
        if self.expected is not None and binder.open_names():
            infer.match_type(
                binder, self.item.node.ret, self.expected, infer.Origin(self.span, "the result", hint=True)
            )
        values: dict[int, tree.Value] = {}
        late = [i for i, arg in enumerate(args) if operators.is_literal(arg) and binder.is_open(declared[i].type)]
        for i in [*(i for i in range(len(args)) if i not in late), *late]:
            param = declared[i]
            values[i] = expressions.value(self.body, args[i], self._hint(binder, param.type))
            if binder.is_open(param.type) or binder.bound:
                infer.match_type(
                    binder, param.type, values[i].type, infer.Origin(args[i].span, f"argument `{param.name}`")
                )
        ordered = [values[i] for i in range(len(args))]
        return ordered if receiver is None else [receiver, *ordered]

    def _hint(self, binder: infer.Binder, node: ast.TypeExpr) -> tree.Type | None:
        """The type that an argument should have, as far as it helps literals and inference."""
        if not isinstance(node, ast.PathType | ast.PtrType) or binder.is_open(node):
            return None
        return resolve.resolve_type(self.body.session, binder.callee_env, node)

    def _instance(self, binder: infer.Binder, values: list[tree.Value]) -> Instance:
        body, session = self.body, self.body.session
        env = binder.callee_env
        here = instances.running_place(session, self.item, env)
        if here != body.here and self.item.node.on is not None:
            message = f"`{self.name}` runs on {show_place(here)}, and this is {show_place(body.here)}"
            helps = [f"call it in a region: `spawn on({show_place(here)}) {{ … }}`"]
            raise body.fail("E6001", message, self.span, helps=helps)
        env = replace(env, here=here)
        decided: dict[int, tree.Type] = {}
        for i, param in enumerate(self.item.node.params):
            found = instances.open_tensor(env.scope, param.type)
            if found is not None:
                if found.node.dims is None:
                    self._require_tensor(param, values[i])
                decided[i] = instances.param_type(session, env, param.type, values[i].type)
                self._check_visible(decided[i], here, values[i])
        depth = body.env.depth + 1 if binder.bound or binder.env.bindings else 0
        return instances.request(session, self.item, env.bindings, body.here, decided, depth, self.span)

    def _require_tensor(self, param: ast.Param, value: tree.Value) -> None:
        """E3003 unless the argument is a tensor, borrowed if the parameter is a reference."""
        borrowed = isinstance(param.type, ast.RefType)
        if tensor_of(value.type) is None or isinstance(value.type, tree.Ref) != borrowed:
            wanted = "a borrowed tensor" if borrowed else "a tensor"
            message = f"argument `{param.name}` of `{self.name}` is {wanted}, and this is {show(value.type)}"
            raise self.body.fail("E3003", message, value.span)

    def _check_visible(self, type_: tree.Type, here: tree.Place, value: tree.Value) -> None:
        if not isinstance(type_, tree.Ref) or not isinstance(type_.to, tree.Tensor):
            return
        what = value.place if isinstance(value, tree.AddrOf | tree.Read) else "this value"
        placement.check_visible(self.body, here, type_.to, value.span, what)


def check_count(
    body: Body, name: str, want: int, args: tuple[ast.Expr, ...], span: Span, declared: Span | None = None
) -> None:
    """E3008 unless there are `want` arguments."""
    if len(args) == want:
        return
    arguments = "1 argument" if want == 1 else f"{want} arguments" if want else "no arguments"
    message = f"`{name}` takes {arguments}, and {len(args)} {'is' if len(args) == 1 else 'are'} given"
    labels = [] if declared is None else [(declared, f"`{name}` is declared here")]
    raise body.fail("E3008", message, args[want].span if len(args) > want else span, labels=labels)


# ---- C functions -------------------------------------------------------------------------------
def _extern(body: Body, item: ExternItem, node: ast.Call) -> tree.Value:
    """A call of an `extern` function. Error: E5002 outside `unsafe`."""
    declared, name = item.node, item.node.name
    if not declared.is_safe and not body.unsafe:
        helps = ["put it in a block: `unsafe { … }`", "or declare it `safe fn` if it cannot do harm"]
        raise body.fail("E5002", f"calling `{name}`, a C function, needs `unsafe`", node.span, helps=helps)
    check_count(body, name, len(declared.params), node.args, node.span, declared.span)
    extern = extern_of(body, item)
    values = []
    for param, type_, arg in zip(declared.params, extern.params, node.args, strict=True):
        value = expressions.value(body, arg, type_)
        want = convert.Want(type_, "E3003", f"argument `{param.name}` of `{name}` is")
        values.append(convert.coerce(body, _for_c(value, type_), want))
    return tree.CallExtern(extern.ret, node.span, name, tuple(values))


def extern_of(body: Body, item: ExternItem) -> tree.Extern:
    """The C function's types, known to the program from now on. Error: E0217 for types that C has not."""
    session, name = body.session, item.node.name
    if name not in session.externs:
        env = Env(item.module, session.host)
        params = tuple(resolve.resolve_type(session, env, p.type) for p in item.node.params)
        ret = resolve.resolve_type(session, env, item.node.ret)
        for node, type_ in zip([*(p.type for p in item.node.params), item.node.ret], [*params, ret], strict=True):
            if not isinstance(type_, tree.Scalar | tree.Ptr | tree.Void):
                raise _not_for_c(body, node, type_)
        session.externs[name] = tree.Extern(name, params, ret)
        session.extern_items[name] = item
    elif session.extern_items[name] is not item:
        _check_same_extern(body, item)
    return session.externs[name]


def _check_same_extern(body: Body, item: ExternItem) -> None:
    """E0206 if another module declares the C function differently."""
    session, name = body.session, item.node.name
    env, known = Env(item.module, session.host), session.externs[name]
    params = tuple(resolve.resolve_type(session, env, p.type) for p in item.node.params)
    if params != known.params or resolve.resolve_type(session, env, item.node.ret) != known.ret:
        first = session.extern_items[name].node.span
        message = f"the C function `{name}` is declared with different types"
        raise body.fail("E0206", message, item.node.span, labels=[(first, "declared here as well")])


def _not_for_c(body: Body, node: ast.TypeExpr, type_: tree.Type) -> CheckFailed:
    message = f"a C function cannot have {show(type_)}"
    return body.fail("E0217", message, node.span, helps=["pass scalars and pointers"])


def _for_c(value: tree.Value, want: tree.Type) -> tree.Value:
    """References become pointers where C takes one: to a scalar or struct, or to a tensor's elements."""
    have = value.type
    if not isinstance(want, tree.Ptr) or not isinstance(have, tree.Ref):
        return value
    if want.mutable and not have.mutable:
        return value
    if isinstance(have.to, tree.Tensor):
        if want.to not in (tree.Scalar(have.to.elem), tree.VOID):
            return value
        data = tree.TensorPtr(tree.Ptr(tree.Scalar(have.to.elem), want.mutable), value.span, value)
        return data if data.type == want else tree.Cast(want, value.span, data)
    if have.to != want.to:
        return value
    if isinstance(value, tree.AddrOf):
        return tree.AddrOf(want, value.span, value.place, want.mutable)
    return tree.Cast(want, value.span, value)
