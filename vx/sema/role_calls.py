"""One role for a process: `main` may not enter a second one.

Enters: the typed `main` and the keys of roles. Leaves: E0218 at each call of a role before which, on some path,
another role was entered. The states of a point are where a role may have been entered on the way there, None for
not at all; no states: the point is not reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from vx.diagnostics.report import Reporter
from vx.diagnostics.span import Span
from vx.sema import tree

States = frozenset[Span | None]
_NOWHERE: States = frozenset()


def check_one_role(main: tree.Function, roles: Iterable[str], reporter: Reporter) -> None:
    """Report E0218 for calls of roles in `main` that may be the second one."""
    keys = frozenset(roles)
    if keys:
        _Flow(keys, reporter).block(main.body, frozenset({None}))


@dataclass(slots=True)
class _Loop:
    """The states where a loop's body begins, and where it is left."""

    again: States
    out: States = _NOWHERE


@dataclass(slots=True)
class _Flow:
    roles: frozenset[str]
    reporter: Reporter
    loops: list[_Loop] = field(default_factory=list)
    """Those around, innermost last."""

    def block(self, block: tree.Block, states: States) -> States:
        for stmt in block.stmts:
            states = self.stmt(stmt, states)
        return states if block.value is None else self.value(block.value, states)

    def stmt(self, stmt: tree.StmtNode, states: States) -> States:
        match stmt:
            case tree.Loop(body=body):
                return self._loop(None, body, states).out
            case tree.While(cond=cond, body=body):
                return self._loop(cond, body, states).out
            case tree.For(low=low, high=high, body=body):
                loop = self._loop(None, body, self.value(high, self.value(low, states)))
                return loop.out | loop.again
            case tree.Break():
                self.loops[-1].out |= states
                return _NOWHERE
            case tree.Continue():
                self.loops[-1].again |= states
                return _NOWHERE
            case tree.Return():
                self._parts(stmt, states)
                return _NOWHERE
            case _:
                return self._parts(stmt, states)

    def _loop(self, cond: tree.Value | None, body: tree.Block, states: States) -> _Loop:
        """Twice around is enough: the second time meets what the first one entered."""
        loop = _Loop(states)
        self.loops.append(loop)
        for _ in range(2):
            before = loop.again
            if cond is not None:
                before = self.value(cond, before)
                loop.out |= before
            after = self.block(body, before)
            loop.again |= after
        self.loops.pop()
        return loop

    def value(self, value: tree.Value, states: States) -> States:
        match value:
            case tree.Call(key=key) if key in self.roles:
                return self._enter(value, self._parts(value, states))
            case tree.IfExpr(cond=cond, then=then, orelse=orelse):
                tested = self.value(cond, states)
                return self.block(then, tested) | (tested if orelse is None else self.block(orelse, tested))
            case tree.Match(scrutinee=scrutinee, arms=arms):
                chosen = self.value(scrutinee, states)
                return _NOWHERE.union(*(self.block(arm.body, chosen) for arm in arms))
            case tree.BlockExpr(block=block) | tree.Spawn(body=block):
                return self.block(block, states)
            case tree.Binary(op="&&" | "||", left=left, right=right):
                known = self.value(left, states)
                return known | self.value(right, known)
            case tree.ReturnExpr() | tree.Abort():
                self._parts(value, states)
                return _NOWHERE
            case _:
                return self._parts(value, states)

    def _enter(self, call: tree.Call, states: States) -> States:
        earlier = next((span for span in states if span is not None), None)
        if earlier is not None:
            again = earlier == call.span
            self.reporter.error(
                "E0218",
                "a process enters one role, and this may enter " + ("it again" if again else "a second one"),
                call.span,
                labels=[] if again else [(earlier, "a role may have been entered here")],
                helps=["choose one role: call each in its own arm of a `match` or `if`, or return after the call"],
            )
        return frozenset({call.span}) if states else _NOWHERE

    def _parts(self, node: tree.Expr | tree.Stmt, states: States) -> States:
        """What is directly inside, in order."""
        for part in _parts_of(node):
            states = self.value(part, states)
        return states


def _parts_of(node: object) -> Iterator[tree.Value]:
    names: tuple[str, ...] = getattr(type(node), "__slots__", ())
    pending = [getattr(node, name) for name in reversed(names)]
    while pending:
        here = pending.pop()
        if isinstance(here, tree.Value):
            yield here
        elif isinstance(here, tuple):
            pending.extend(reversed(here))
        elif isinstance(here, tree.PlaceNode | tree.At | tree.Slice):
            yield from _parts_of(here)
