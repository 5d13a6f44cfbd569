"""Running typed expressions while compiling: constants that call functions, `comptime` blocks.

Enters: typed values over scalars. Leaves: constants. Only scalars, control flow and calls of Vx functions;
anything else is `NotConstant`. Arithmetic is that of the running program, except that folded constants were
exact before they came here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vx.diagnostics.span import Span
from vx.sema import check, fold, tree
from vx.sema.context import NotConstant, Session
from vx.sema.types import is_integer

MAX_STEPS = 1_000_000
MAX_CALLS = 200

Scalar = int | float | bool
Result = Scalar | bytes | None


class _Leave(Exception):
    """`break`, `continue` or `return` on its way out."""


class _Break(_Leave):
    pass


class _Continue(_Leave):
    pass


class _Return(_Leave):
    def __init__(self, value: Result) -> None:
        super().__init__()
        self.value = value


def evaluate(session: Session, value: tree.Value) -> tree.Const | tree.Str:
    """The constant that `value` is. Raises `NotConstant`; errors: E8002, E8003."""
    if isinstance(value, tree.Const | tree.Str):
        return value
    found = _Run(session, value.span).value(value)
    if isinstance(found, bytes):
        return tree.Str(value.type, value.span, found)
    if found is None:
        raise NotConstant(value.span, "this has no value")
    return tree.Const(value.type, value.span, found)


def run(session: Session, value: tree.Value, instance: str = "") -> None:
    """Run something for its assertions; `instance` is the generic function's that it stands in."""
    _Run(session, value.span, instance).value(value)


@dataclass(slots=True)
class _Run:
    session: Session
    origin: Span
    """What is being worked out."""
    instance: str = ""
    frames: list[dict[int, Result]] = field(default_factory=lambda: [{}])
    steps: int = 0

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or len(self.frames) > MAX_CALLS:
            message = "this takes too long to work out when compiling"
            raise self.session.fail(
                "E8003", message, self.origin, notes=[f"after {MAX_STEPS} steps or {MAX_CALLS} calls"]
            )

    # ---- values ----
    def value(self, node: tree.Value) -> Result:
        self._step()
        match node:
            case tree.Const(value=number):
                return number
            case tree.Str(value=text):
                return text
            case tree.Read(place=place):
                return self._read(place)
            case tree.Unary(op=op, operand=operand):
                inner = self.scalar(operand)
                return not inner if op == "!" else _wrap(-inner, node.type)
            case tree.Binary():
                return self._binary(node)
            case tree.Cast(operand=operand):
                return self._cast(node, operand)
            case tree.Math():
                return self._math(node)
            case _:
                return self._control(node)

    def _control(self, node: tree.Value) -> Result:
        match node:
            case tree.IfExpr(cond=cond, then=then, orelse=orelse):
                chosen = then if self.scalar(cond) else orelse
                return None if chosen is None else self.block(chosen)
            case tree.BlockExpr(block=inner):
                return self.block(inner)
            case tree.Call():
                return self._call(node)
            case tree.ReturnExpr(value=result):
                raise _Return(None if result is None else self.value(result))
            case tree.Match():
                return self._match(node)
            case _:
                raise NotConstant(node.span, "this can only be done at run time")

    def scalar(self, node: tree.Value) -> Scalar:
        found = self.value(node)
        if found is None or isinstance(found, bytes):
            raise NotConstant(node.span, "this can only be done at run time")
        return found

    def _read(self, place: tree.PlaceNode) -> Result:
        if isinstance(place, tree.Local) and place.id in self.frames[-1]:
            return self.frames[-1][place.id]
        raise NotConstant(place.span, "this is known only at run time")

    def _binary(self, node: tree.Binary) -> Scalar:
        if node.op in ("&&", "||"):
            left = bool(self.scalar(node.left))
            return bool(self.scalar(node.right)) if left == (node.op == "&&") else left
        left_value, right_value = self.scalar(node.left), self.scalar(node.right)
        type_ = node.left.type
        if not isinstance(type_, tree.Scalar):
            raise NotConstant(node.span, "this can only be done at run time")
        found = fold.binary(node.op, left_value, right_value, type_.name)
        if found is None:
            raise NotConstant(node.span, f"`{node.op}` has no result here")
        return _wrap(found, node.type)

    def _cast(self, node: tree.Cast, operand: tree.Value) -> Scalar:
        if not isinstance(node.type, tree.Scalar) or not isinstance(operand.type, tree.Scalar):
            raise NotConstant(node.span, "this can only be done at run time")
        found = fold.cast(self.scalar(operand), operand.type.name, node.type.name)
        if found is None:
            raise NotConstant(node.span, "this has no result")
        return found

    def _math(self, node: tree.Math) -> Scalar:
        args = tuple(self.scalar(arg) for arg in node.args)
        type_ = node.args[0].type
        assert isinstance(type_, tree.Scalar)
        found = fold.math_call(node.name, args, type_.name, exact_only=False)
        if found is None:
            raise NotConstant(node.span, f"`{node.name}` can only be worked out at run time")
        return found

    def _call(self, node: tree.Call) -> Result:
        function = check.checked_function(self.session, node.key, node.span)
        args = [self.value(arg) for arg in node.args]
        self.frames.append(dict(zip(function.params, args, strict=True)))
        self._step()
        try:
            return self.block(function.body)
        except _Return as result:
            return result.value
        finally:
            self.frames.pop()

    def _match(self, node: tree.Match) -> Result:
        found = self.value(node.scrutinee)
        for arm in node.arms:
            pattern = arm.pattern
            if isinstance(pattern, tree.TagPattern):
                break
            if isinstance(pattern, tree.AnyPattern):
                if pattern.binding is not None:
                    self.frames[-1][pattern.binding] = found
                return self.block(arm.body)
            if pattern.value.value == found:
                return self.block(arm.body)
        raise NotConstant(node.span, "this can only be done at run time")

    # ---- statements ----
    def block(self, node: tree.Block) -> Result:
        for stmt in node.stmts:
            self._statement(stmt)
        return None if node.value is None else self.value(node.value)

    def _statement(self, stmt: tree.StmtNode) -> None:
        self._step()
        match stmt:
            case tree.Let(id=id_, value=value):
                self.frames[-1][id_] = self.value(value)
            case tree.ExprStmt(value=value):
                self.value(value)
            case tree.Assign(target=tree.Local(id=id_), value=value) if id_ in self.frames[-1]:
                self.frames[-1][id_] = self.value(value)
            case tree.OpAssign(target=tree.Local() as target, op=op, value=value):
                read = tree.Read(target.type, target.span, target, move=False)
                self.frames[-1][target.id] = self._binary(tree.Binary(target.type, stmt.span, op, read, value))
            case tree.Assert(cond=cond, message=message):
                self._assert(stmt, cond, message)
            case _:
                self._jump(stmt)

    def _assert(self, stmt: tree.Assert, cond: tree.Value, message: bytes) -> None:
        if not self.scalar(cond):
            told = f": {message.decode(errors='replace')}" if message else ""
            notes = [f"while checking `{self.instance}`"] if self.instance else []
            raise self.session.fail("E8002", f"this assertion does not hold{told}", stmt.span, notes=notes)

    def _jump(self, stmt: tree.StmtNode) -> None:
        match stmt:
            case tree.Return(value=value):
                raise _Return(None if value is None else self.value(value))
            case tree.Break():
                raise _Break
            case tree.Continue():
                raise _Continue
            case tree.Loop(body=body):
                while self._iteration(body):
                    pass
            case tree.While(cond=cond, body=body):
                while self.scalar(cond) and self._iteration(body):
                    pass
            case tree.For():
                self._for(stmt)
            case _:
                raise NotConstant(stmt.span, "this can only be done at run time")

    def _iteration(self, body: tree.Block) -> bool:
        """Run a loop's body once; whether to go on."""
        self._step()
        try:
            self.block(body)
        except _Break:
            return False
        except _Continue:
            return True
        return True

    def _for(self, stmt: tree.For) -> None:
        low, high = int(self.scalar(stmt.low)), int(self.scalar(stmt.high))
        for i in range(low, high):
            self.frames[-1][stmt.id] = i
            if not self._iteration(stmt.body):
                return


def _wrap(value: Scalar, type_: tree.Type) -> Scalar:
    """An integer result, wrapped to its type as the running program would."""
    if isinstance(value, float | bool) or not is_integer(type_) or not isinstance(type_, tree.Scalar):
        return value
    wrapped = fold.cast(value, type_.name, type_.name)
    assert wrapped is not None
    return wrapped
