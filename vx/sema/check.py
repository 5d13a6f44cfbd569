"""The type checker's entrance: a program's main file in, the typed program out.

Enters: the path of the main file, the machine, the model directory, overrides of constants. Leaves:
`tree.Program`, or None after reporting what is wrong. Functions are checked by instance: `main` and the
roles first, then whatever they call, then every other function of the program's own files that is not
generic.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import Span
from vx.machine.load import machine_from_module
from vx.machine.machine import Machine
from vx.model.info import ModelInfo
from vx.placement.deadlines import check_deadlines
from vx.sema import (
    bounds,
    branches,
    calls,
    constants,
    convert,
    instances,
    modules,
    placement,
    resolve,
    statements,
    tree,
    warnings,
)
from vx.sema.context import Body, CheckFailed, Env, Instance, Session, type_node
from vx.sema.names import (
    AliasItem,
    ConstItem,
    EnumItem,
    ExternItem,
    FunctionItem,
    ModuleScope,
    StructItem,
    did_you_mean,
)
from vx.sema.role_calls import check_one_role
from vx.sema.roles import Outcome, settle, stub
from vx.sema.types import show
from vx.syntax import ast

_RECURSION = 30_000
"""Python frames that checking may use: long chains of operators and `else if` nest that deep."""


def check_program(
    main: str,
    *,
    machine: Machine,
    model: ModelInfo | None,
    consts: Mapping[str, str],
    reporter: Reporter,
    sources: SourceMap,
    roles: tuple[str, ...] | None = None,
) -> tree.Program | None:
    """Check the program whose main file is `main`.

    `consts` overrides its top-level constants (`--const NAME=VALUE`). `roles` are the names of the roles to compile;
    None: all that the machine can have. Returns None if errors were reported. Raises `CompileError` for a file
    that cannot be read.
    """
    session = Session(machine, model, reporter, sources, placement.host_place(machine), overrides=dict(consts))
    with _deep_recursion():
        scope = modules.load_program(session, main)
        if reporter.has_errors:
            return None
        _declare_machine(session)
        try:
            _check_all(session, scope)
        except CheckFailed:
            pass
        except RecursionError:
            session.report("E0312", "this program is nested too deeply", Span(main, 0, 0))
    if reporter.has_errors:
        warnings.about_code(session, Outcome(()))
        return None
    outcome = settle(session, "main", roles)
    if reporter.has_errors:
        return None
    given_up = (session.requested.keys() - session.functions.keys()) | session.incomplete
    assert given_up <= outcome.dropped | outcome.refused.keys(), "a function was given up without an error"
    warnings.about_code(session, outcome)
    warnings.about_names(session, outcome)
    program = _program(session, outcome)
    check_one_role(program.functions["main"], (*program.roles, *program.refused), reporter)
    check_deadlines((node for key, node in session.timed if key not in outcome.dropped), session.machine, reporter)
    return None if reporter.has_errors else program


@contextmanager
def _deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _declare_machine(session: Session) -> None:
    """`Memory` and `Topology` blocks of the program extend the machine."""
    for module in session.modules:
        session.machine = machine_from_module(module.node, session.machine, "program", session.reporter)
    session.host = placement.host_place(session.machine)


# ---- what is checked ---------------------------------------------------------------------------
def _check_all(session: Session, scope: ModuleScope) -> None:
    _check_overrides(session, scope)
    session.has_roles = any(isinstance(item, FunctionItem) and item.node.is_role for item in scope.items.values())
    main = scope.items.get("main")
    if not isinstance(main, FunctionItem):
        session.report("E0210", "there is no `fn main() -> i32`", Span(scope.file, 0, 0))
    else:
        _check_main_signature(session, main)
        _request(session, main)
    for item in scope.items.values():
        if isinstance(item, FunctionItem) and item.node.is_role:
            _request(session, item)
    _drain(session)
    for item in _own_functions(session):
        if id(item) not in session.met:
            _request(session, item)
            _drain(session)
    _check_declarations(session)


def _check_main_signature(session: Session, main: FunctionItem) -> None:
    node = main.node
    plain = not node.params and not node.generics and node.on is None and not node.is_role
    returns = isinstance(node.ret, ast.PathType) and node.ret.segments == ("i32",)
    if not plain or not returns:
        raise session.fail("E0210", "`main` has the form `fn main() -> i32`", node.name_span)


def _check_overrides(session: Session, scope: ModuleScope) -> None:
    names = [name for name, item in scope.items.items() if isinstance(item, ConstItem)]
    for name in session.overrides:
        if name not in names:
            message = f"`--const {name}`: the program has no constant `{name}`"
            helps = did_you_mean(name, names) or (f"it has {', '.join(f'`{n}`' for n in names) or 'none'}",)
            session.report("E0211", message, Span(scope.file, 0, 0), helps=helps)


def _own_functions(session: Session) -> Iterator[FunctionItem]:
    """Functions of the program's own files that have one instance only."""
    for module in session.modules:
        if module.library:
            continue
        for item in module.items.values():
            if isinstance(item, FunctionItem) and not item.node.generics:
                yield item
        for impl in module.impls:
            if not impl.node.generics:
                yield from (f for f in impl.functions.values() if not f.node.generics)


def _request(session: Session, item: FunctionItem) -> None:
    """Have a function without generic parameters checked, called or not."""
    env = Env(item.module, session.host)
    try:
        bindings = {}
        if item.impl is not None:
            bindings["Self"] = resolve.resolve_type(session, env, item.impl.node.target)
            env = Env(item.module, session.host, bindings)
        if any(_needs_argument(p.type) for p in item.node.params):
            return
        instances.request(session, item, bindings, session.host, {}, 0, item.node.name_span)
    except CheckFailed:
        return


def _needs_argument(node: ast.TypeExpr) -> bool:
    """Whether only an argument says what shape the parameter has (`&Tensor<f32>`)."""
    inner = node.inner if isinstance(node, ast.RefType) else node
    return isinstance(inner, ast.TensorType) and inner.dims is None


def _check_declarations(session: Session) -> None:
    """Constants, types and C functions of the program's own files, used or not."""
    for module in session.modules:
        if module.library:
            continue
        for item in module.items.values():
            try:
                _check_declaration(session, item)
            except CheckFailed:
                continue


def _check_declaration(session: Session, item: object) -> None:
    match item:
        case ConstItem():
            constants.const_item(session, item, item.node.span)
        case StructItem() | EnumItem() if not item.node.generics:
            resolve.instantiate(session, item, (), item.node.span)
        case AliasItem():
            resolve.resolve_type(session, Env(item.module, session.host), item.node.type)
        case ExternItem():
            calls.extern_of(Body(session, Env(item.module, session.host), tree.VOID, ""), item)
        case _:
            return


# ---- checking one instance ---------------------------------------------------------------------
def _drain(session: Session) -> None:
    while session.queue:
        instance = session.queue.popleft()
        if instance.key not in session.functions:
            _check_instance(session, instance)


def checked_function(session: Session, key: str, span: Span) -> tree.Function:
    """The function `key`, checked now if it was not yet. Error: E0303 if that is being done already."""
    if key not in session.functions:
        if key in session.checking:
            raise session.fail("E0303", f"`{key}` would need its own result to be checked", span)
        _check_instance(session, session.requested[key])
    if key not in session.functions:
        raise CheckFailed(key)
    return session.functions[key]


def _check_instance(session: Session, instance: Instance) -> None:
    if session.reporter.full:
        return
    session.checking.add(instance.key)
    outer = session.asked
    session.asked = session.asked_by[instance.key] if instance.item.module.library else None
    try:
        with session.checks(instance.key):
            function = _function(session, instance)
        if instance.key not in session.lacks:
            session.functions[instance.key] = function
    except CheckFailed:
        session.incomplete.add(instance.key)
    finally:
        session.asked = outer
        session.checking.discard(instance.key)


def _function(session: Session, instance: Instance) -> tree.Function:
    node = instance.item.node
    body = Body(session, instance.env, instance.ret, node.name if not instance.env.bindings else instance.key)
    if node.is_unsafe:
        body.unsafe = 1
    params = []
    for param, type_ in zip(node.params, instance.params, strict=True):
        if type_ == tree.VOID:
            raise body.fail("E3012", f"the parameter `{param.name}` cannot be void", param.span)
        id_ = body.declare(param.name, type_, param.span, code="W1009")
        if param.name == "self":
            body.use(id_)
        params.append(id_)
    required = _required(body, node)
    block = _body_block(body, node)
    block = replace(block, stmts=(*required, *block.stmts))
    return tree.Function(
        instance.key,
        node.name,
        tuple(params),
        body.locals,
        instance.ret,
        block,
        instance.on,
        node.is_role,
        node.span,
        session.asked,
    )


def _required(body: Body, node: ast.Function) -> tuple[tree.StmtNode, ...]:
    """The checks on entry of what `requires` leaves to run time, which the body may rely on."""
    checks = []
    for condition in instances.conditions(node):
        cond = branches.condition(body, condition)
        if isinstance(cond, tree.Const):
            continue
        text = body.session.sources.text(condition.span.file)[condition.span.start : condition.span.end]
        message = f"`{body.name}` requires `{' '.join(text.split())}`"
        checks.append(tree.Assert(condition.span, cond, message.encode()))
        bounds.learn(body.bounds, cond)
    return tuple(checks)


def _body_block(body: Body, node: ast.Function) -> tree.Block:
    """The body, giving what the function returns. Error: E3002."""
    block = statements.block(body, node.body, body.ret)
    if body.ret == tree.VOID:
        _check_void(body, node, block)
        return block
    if block.value is not None:
        value = convert.coerce(body, block.value, statements.returned(body))
        return tree.Block(block.stmts, value, block.type, block.span)
    if not isinstance(block.type, tree.Never):
        end = Span(node.body.span.file, max(node.body.span.end - 1, node.body.span.start), node.body.span.end)
        message = f"`{node.name}` returns {show(body.ret)}, and its end gives nothing"
        helps = _missing_value_help(node)
        raise body.fail("E3002", message, end, labels=[(node.ret.span, "declared here")], helps=helps)
    return block


def _missing_value_help(node: ast.Function) -> list[str]:
    last = node.body.stmts[-1] if node.body.stmts else None
    if isinstance(last, ast.ExprStmt) and last.semi:
        return ["remove the last `;` to return that value"]
    return ["end with the value, or with `return …;`"]


def _check_void(body: Body, node: ast.Function, block: tree.Block) -> None:
    """E3002 if a void function ends in a value that is not that of a block-like expression."""
    value = node.body.value
    last = block.stmts[-1] if block.stmts else None
    if value is None or not isinstance(last, tree.ExprStmt):
        return
    type_ = last.value.type
    if not isinstance(value, ast.If | ast.Match | ast.BlockExpr | ast.Spawn) and type_ not in (tree.VOID, tree.NEVER):
        message = f"`{node.name}` returns void, and this is {show(type_)}"
        raise body.fail("E3002", message, value.span, helps=["end it with `;`"])


# ---- the end -----------------------------------------------------------------------------------
def _program(session: Session, outcome: Outcome) -> tree.Program:
    dropped = outcome.dropped
    functions = {key: function for key, function in session.functions.items() if key not in dropped}
    functions.update((key, stub(session.requested[key], refusal)) for key, refusal in outcome.refused.items())
    structs = {key: one for key, one in session.structs.items() if type_node(key) not in dropped}
    enums = {key: one for key, one in session.enums.items() if type_node(key) not in dropped}
    return tree.Program(
        functions=functions,
        structs={key: tree.StructDef(key, one.item.node.name, one.fields, one.drop) for key, one in structs.items()},
        enums={key: tree.EnumDef(key, one.item.node.name, one.variants) for key, one in enums.items()},
        externs=session.externs,
        model=tuple(session.model_refs[name] for name in sorted(session.model_refs)),
        main="main",
        roles=outcome.compiled,
        refused=outcome.refused,
        files=tuple(session.files),
        machine=session.machine,
        uses_model=any(module.path == ("model",) for module in session.modules),
    )
