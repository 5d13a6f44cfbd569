"""Patterns inside patterns, as a decision tree of flat matches; and which cases a `match` covers.

Enters: rows of patterns with their arms. Leaves: nested `tree.Match`es that look at each payload at most
once on the way to an arm. An arm that several ways lead to is checked, and stands in the tree, once for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vx.sema import branches, expressions, patterns, statements, tree
from vx.sema.context import Body
from vx.sema.names import EnumItem
from vx.sema.types import show
from vx.syntax import ast

MAX_LEAVES = 2000


# ---- coverage of flat patterns -----------------------------------------------------------------
@dataclass(slots=True)
class Covered:
    """Which values of `type` the arms so far take."""

    body: Body
    type: tree.Type
    seen: set[int | bool | bytes] = field(default_factory=set)
    everything: bool = False

    def _item(self) -> EnumItem | None:
        inner = self.type.to if isinstance(self.type, tree.Ref) else self.type
        item = self.body.session.item_of(inner)
        return item if isinstance(item, EnumItem) else None

    def add(self, pattern: patterns.Pattern) -> None:
        if isinstance(pattern, patterns.Any):
            self.everything = True
        else:
            self.seen.add(_key(pattern))

    def has(self, pattern: patterns.Pattern) -> bool:
        return not isinstance(pattern, patterns.Any) and _key(pattern) in self.seen

    @property
    def complete(self) -> bool:
        return not self.missing()

    def missing(self) -> list[str]:
        """Cases that no arm takes, as patterns."""
        if self.everything:
            return []
        item = self._item()
        if item is not None:
            return [_shape(item, i) for i in range(len(item.node.variants)) if i not in self.seen]
        if self.type == tree.BOOL:
            return [str(b).lower() for b in (True, False) if b not in self.seen]
        return ["_"]


def _key(pattern: patterns.Tag | patterns.Value) -> int | bool | bytes:
    if isinstance(pattern, patterns.Tag):
        return pattern.index
    value = pattern.value.value
    assert not isinstance(value, float)
    return value


def _shape(item: EnumItem, index: int, items: Sequence[str] | None = None) -> str:
    variant = item.node.variants[index]
    inner = list(items) if items is not None else ["_"] * len(variant.items)
    name = f"{item.node.name}::{variant.name}"
    return f"{name}({', '.join(inner)})" if inner else name


# ---- decision trees ----------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Row:
    """What is left to test of one arm: a pattern for each column, and the names bound so far."""

    tests: tuple[patterns.Pattern, ...]
    bound: tuple[tuple[str, ast.Pattern, int], ...]
    arm: int


@dataclass(slots=True)
class _Tree:
    body: Body
    node: ast.Match
    rows: Sequence[tuple[patterns.Pattern, ast.Block]]
    expected: tree.Type | None
    hint: tree.Type | None
    used: set[int] = field(default_factory=set)
    known: dict[int, str | tuple[EnumItem, int, tuple[int, ...]]] = field(default_factory=dict)
    """What is known of each column's value on the way to here: a constant, or a variant and its payloads."""
    leaves: int = 0

    # ---- one step ----
    def decide(self, columns: tuple[int, ...], rows: Sequence[_Row]) -> tree.Block:
        """The block that finds the first row that matches the locals `columns`, and runs its arm."""
        if not rows:
            raise patterns.missing_cases(self.body, self.node, [self._witness()])
        first = rows[0]
        column = next((i for i, test in enumerate(first.tests) if not isinstance(test, patterns.Any)), None)
        if column is None:
            return self._leaf(columns, first)
        if isinstance(first.tests[column], patterns.Tag):
            return self._by_tag(columns, rows, column)
        return self._by_value(columns, rows, column)

    def _by_tag(self, columns: tuple[int, ...], rows: Sequence[_Row], column: int) -> tree.Block:
        slot = columns[column]
        type_ = self.body.locals[slot].type
        seen = type_.to if isinstance(type_, tree.Ref) else type_
        item = self.body.session.item_of(seen)
        assert isinstance(item, EnumItem)
        tests = [row.tests[column] for row in rows]
        tags = sorted({test.index for test in tests if isinstance(test, patterns.Tag)})
        arms = []
        for tag in tags:
            payload = patterns.payload_types(self.body, type_, tag)
            names = tuple(self.body.hidden(t, self.node.span, f"payload{i}") for i, t in enumerate(payload))
            rest = (*columns[:column], *names, *columns[column + 1 :])
            narrowed = [r for row in rows if (r := self._under_tag(row, column, tag, names, slot)) is not None]
            self.known[slot] = (item, tag, names)
            arms.append(tree.Arm(tree.TagPattern(tag, names), self.decide(rest, narrowed)))
            del self.known[slot]
        if len(tags) < len(item.node.variants):
            missing = next(i for i in range(len(item.node.variants)) if i not in tags)
            arms.append(self._otherwise(columns, rows, column, _shape(item, missing)))
        return self._match(slot, arms)

    def _under_tag(self, row: _Row, column: int, tag: int, names: tuple[int, ...], slot: int) -> _Row | None:
        test = row.tests[column]
        before, after = row.tests[:column], row.tests[column + 1 :]
        if isinstance(test, patterns.Tag):
            return replace(row, tests=(*before, *test.items, *after)) if test.index == tag else None
        assert isinstance(test, patterns.Any)
        if test.name is not None and not isinstance(self.body.locals[slot].type, tree.Ref):
            what = "binding a whole value beside patterns that look inside it is"
            raise self.body.session.unsupported(what, test.node.span, ["`match` on `&…` instead"])
        fill = tuple(patterns.Any(test.node, None) for _ in names)
        return _bind(replace(row, tests=(*before, *fill, *after)), test, slot)

    def _by_value(self, columns: tuple[int, ...], rows: Sequence[_Row], column: int) -> tree.Block:
        slot = columns[column]
        values: dict[object, tree.Const | tree.Str] = {}
        for row in rows:
            test = row.tests[column]
            if isinstance(test, patterns.Value):
                values.setdefault(test.value.value, test.value)
        arms = []
        for key, value in values.items():
            narrowed = [r for row in rows if (r := _under_value(row, column, key, slot)) is not None]
            self.known[slot] = _written(value)
            arms.append(tree.Arm(tree.ValuePattern(value), self.decide(_without(columns, column), narrowed)))
            del self.known[slot]
        if not (self.body.locals[slot].type == tree.BOOL and len(values) == 2):
            arms.append(self._otherwise(columns, rows, column, "_"))
        return self._match(slot, arms)

    def _otherwise(self, columns: tuple[int, ...], rows: Sequence[_Row], column: int, case: str) -> tree.Arm:
        """The arm for everything that no row tests for in this column."""
        slot = columns[column]
        rest = [row for row in rows if isinstance(row.tests[column], patterns.Any)]
        binds = any(isinstance(t := row.tests[column], patterns.Any) and t.name is not None for row in rest)
        kept = self.body.hidden(self.body.locals[slot].type, self.node.span, "rest") if binds else None
        narrowed = []
        for row in rest:
            test = row.tests[column]
            assert isinstance(test, patterns.Any)
            shorter = replace(row, tests=(*row.tests[:column], *row.tests[column + 1 :]))
            narrowed.append(_bind(shorter, test, slot if kept is None else kept))
        self.known[slot] = case
        block = self.decide(_without(columns, column), narrowed)
        del self.known[slot]
        return tree.Arm(tree.AnyPattern(kept), block)

    def _match(self, slot: int, arms: list[tree.Arm]) -> tree.Block:
        nodes: list[tuple[tree.Type, ast.Node]] = [(arm.body.type, self.node) for arm in arms]
        if self.expected == tree.VOID:
            over = all(isinstance(t, tree.Never) for t, _ in nodes)
            type_: tree.Type = tree.NEVER if over else tree.VOID
        else:
            type_ = branches.join(self.body, nodes, self.expected)
        value = tree.Match(type_, self.node.span, self._read(slot), tuple(arms))
        if type_ == tree.VOID:
            return tree.Block((tree.ExprStmt(self.node.span, value),), None, type_, self.node.span)
        return tree.Block((), value, type_, self.node.span)

    def _read(self, slot: int) -> tree.Value:
        type_ = self.body.locals[slot].type
        place = tree.Local(type_, self.node.span, slot)
        if isinstance(type_, tree.Ref):
            return expressions.borrow(place, type_.mutable)
        return tree.Read(type_, self.node.span, place, move=not self.body.session.is_copy(type_))

    # ---- arms ----
    def _leaf(self, columns: tuple[int, ...], row: _Row) -> tree.Block:
        self.leaves += 1
        if self.leaves > MAX_LEAVES:
            raise self.body.session.unsupported("a `match` with this many combinations of patterns is", self.node.span)
        self.used.add(row.arm)
        for slot, test in zip(columns, row.tests, strict=True):
            assert isinstance(test, patterns.Any)
            row = _bind(row, test, slot)
        self.body.scopes.append({})
        try:
            lets: list[tree.StmtNode] = []
            for name, at, slot in row.bound:
                value = self._read(slot)
                lets.append(tree.Let(at.span, self.body.declare(name, value.type, at.span), value))
            inner = statements.block(self.body, self.rows[row.arm][1], self.hint)
        finally:
            self.body.scopes.pop()
        if self.hint is None and not isinstance(inner.type, tree.Never | tree.Void):
            self.hint = inner.type
        if not lets:
            return inner
        return tree.Block((*lets, *self._as_stmts(inner)), self._as_value(inner), inner.type, inner.span)

    def _as_stmts(self, inner: tree.Block) -> tuple[tree.StmtNode, ...]:
        if inner.value is not None:
            return ()
        return (tree.ExprStmt(inner.span, tree.BlockExpr(inner.type, inner.span, inner)),)

    def _as_value(self, inner: tree.Block) -> tree.Value | None:
        return None if inner.value is None else tree.BlockExpr(inner.type, inner.span, inner)

    def _witness(self) -> str:
        """A case that no arm covers, written as a pattern."""
        return self._case(next(iter(self.known), -1))

    def _case(self, slot: int) -> str:
        """What is known of the value in `slot` on the way to here."""
        known = self.known.get(slot)
        if known is None or isinstance(known, str):
            return known or "_"
        item, tag, payloads = known
        return _shape(item, tag, [self._case(inner) for inner in payloads])


def _written(value: tree.Const | tree.Str) -> str:
    """A constant as a pattern."""
    if isinstance(value, tree.Str):
        return f'"{value.value.decode(errors="replace")}"'
    return str(value.value).lower()


def _bind(row: _Row, test: patterns.Any, slot: int) -> _Row:
    if test.name is None:
        return row
    return replace(row, bound=(*row.bound, (test.name, test.node, slot)))


def _under_value(row: _Row, column: int, key: object, slot: int) -> _Row | None:
    test = row.tests[column]
    shorter = replace(row, tests=(*row.tests[:column], *row.tests[column + 1 :]))
    if isinstance(test, patterns.Any):
        return _bind(shorter, test, slot)
    assert isinstance(test, patterns.Value)
    return shorter if test.value.value == key else None


def _without(columns: tuple[int, ...], column: int) -> tuple[int, ...]:
    return (*columns[:column], *columns[column + 1 :])


def tree_of(
    body: Body,
    node: ast.Match,
    value: tree.Value,
    rows: Sequence[tuple[patterns.Pattern, ast.Block]],
    expected: tree.Type | None,
) -> tree.Value:
    """The `match` as nested flat ones. Errors: E0901, E3010, E3101."""
    if isinstance(value.type, tree.Never):
        raise body.fail("E3102", f"there is no value to match: this is {show(value.type)}", node.span)
    root = body.hidden(value.type, node.scrutinee.span, "matched")
    builder = _Tree(body, node, rows, expected, expected)
    starts = [_Row((pattern,), (), arm) for arm, (pattern, _) in enumerate(rows)]
    block = builder.decide((root,), starts)
    for arm, (pattern, _) in enumerate(rows):
        if arm not in builder.used:
            body.warn("W1003", "this arm is never reached", pattern.node.span)
    let = tree.Let(node.scrutinee.span, root, value)
    whole = tree.Block((let, *block.stmts), block.value, block.type, node.span)
    return tree.BlockExpr(block.type, node.span, whole)
