"""Statements and blocks.

Enters: tokens. Leaves: `Stmt` and `Block` nodes. A statement with an error is reported and skipped, so
that one run reports the errors of all statements.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from vx.diagnostics.report import Help
from vx.diagnostics.span import Span
from vx.syntax import ast
from vx.syntax.cursor import UnclosedBlock
from vx.syntax.lexer import Token, string_value
from vx.syntax.parse_expr import BLOCK_LIKE, PRINT_MACROS, ExprParser

_ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="})
_STARTERS = frozenset({"let", "for", "while", "loop", "return", "break", "continue", "assert", "if", "match", "spawn"})
_CONTINUES_BLOCK = frozenset({".", "?", "as"})
"""After a block-like expression in statement position these go on with it; anything else is a new statement."""


class StmtParser(ExprParser):
    @abstractmethod
    def item(self) -> ast.Item:
        """Provided by the item layer."""

    # ---- blocks ----
    def block(self, why: str = "") -> ast.Block:
        """`{ statements [value] }`; `why` says where the `{` was expected."""
        opener = self.expect("{", why)
        self.enter()
        outer, self.struct_ok = self.struct_ok, True
        stmts: list[ast.Stmt] = []
        while self.tok.kind not in ("}", "eof"):
            if self.accept(";"):
                continue
            if self.at_item():
                self.item_in_block(opener.span)
                continue
            before = self.pos
            stmt = self.recovering(self.statement)
            if stmt is not None:
                stmts.append(stmt)
            else:
                self.skip_statement(_STARTERS)
                if self.pos == before and self.tok.kind != "}":
                    self.advance()
        self.struct_ok = outer
        if self.tok.kind == "eof":
            raise UnclosedBlock(self.unclosed(opener, "}").diagnostic)
        self.advance()
        self.depth -= 1
        return _finish_block(self.span_from(opener), stmts)

    def item_in_block(self, opener: Span) -> None:
        """An item among statements: at the start of a line the block was not closed, else it is misplaced."""
        what = self.tok.text
        if self.in_first_column():
            error = self.failure(
                "E0112",
                "this `{` is never closed",
                opener,
                labels=[(self.tok.span, "the next item starts here")],
                helps=["add the missing `}`"],
            )
            raise UnclosedBlock(error.diagnostic)
        self.report(
            self.failure(
                "E0116",
                f"`{what}` cannot stand inside a function",
                self.tok.span,
                helps=["move it out: functions, types and constants are declared at the top level of a file"],
            )
        )
        before = self.pos
        if self.recovering(self.item) is None:
            self.skip_statement(_STARTERS)
            if self.pos == before:
                self.advance()

    def arm_body(self) -> ast.Block:
        """What stands after `=>`: a block, or one statement or value that ends in `,`, `;` or the match's `}`."""
        if self.tok.kind == "{":
            block = self.block()
            self.accept(",")
            return block
        start = self.tok
        stmt = self.statement(in_arm=True)
        block = _finish_block(self.span_from(start), [stmt])
        if not self.accept(",") and self.last.kind not in (";", "}") and self.tok.kind != "}":
            error = self.unexpected("`,` after this arm")
            if not self.on_new_line():
                raise error
            self.report(error)
        return block

    # ---- statements ----
    def statement(self, in_arm: bool = False) -> ast.Stmt:
        """One statement. A value without `;` comes out as an `ExprStmt` with `semi` False."""
        self.enter()
        parse = _STATEMENTS.get(self.tok.kind)
        result = parse(self, in_arm) if parse else self.expression_statement(in_arm)
        self.depth -= 1
        return result

    def end(self, after: str, in_arm: bool) -> None:
        """The `;` of a statement, which an arm of `match` may leave out."""
        if in_arm and self.tok.kind in (",", "}"):
            return
        self.semicolon(after)

    def expression_statement(self, in_arm: bool) -> ast.Stmt:
        start = self.tok
        if start.kind in BLOCK_LIKE or self.at_macro_call():
            value = self.primary()
            if self.tok.kind not in _CONTINUES_BLOCK:
                return self.self_contained(start, value)
            value = self.binary_rest(self.cast_rest(self.postfix(value)), 0)
        else:
            value = self.expression()
        if self.tok.kind in _ASSIGNMENTS or self.at_shift_assignment():
            return self.assignment(value, in_arm)
        if self.accept(";"):
            return ast.ExprStmt(self.span_from(start), value, True)
        if not self.block_ends() and not (in_arm and (self.tok.kind == "," or self.on_new_line())):
            self.semicolon("this expression")
            return ast.ExprStmt(self.span_from(start), value, True)
        return ast.ExprStmt(self.span_from(start), value, False)

    def block_ends(self) -> bool:
        """Whether the block ends here, or would if its `}` were not missing."""
        return self.tok.kind in ("}", "eof") or (self.at_item() and self.in_first_column())

    def self_contained(self, start: Token, value: ast.Expr) -> ast.ExprStmt:
        """A block-like expression or a macro call: it needs no `;`, and a macro may have a block after it."""
        if not isinstance(value, ast.MacroCall):
            return ast.ExprStmt(self.span_from(start), value, self.accept(";") is not None)
        if value.name not in PRINT_MACROS and self.tok.kind == "{":
            self.skip_group()
        self.accept(";")
        return ast.ExprStmt(self.span_from(start), value, True)

    def assignment(self, target: ast.Expr, in_arm: bool) -> ast.Assign:
        mark = self.advance().kind
        if mark in ("<", ">"):
            mark += self.advance().kind
        value = self.expression()
        self.end("this assignment", in_arm)
        return ast.Assign(self.span_after(target.span), target, mark[:-1] or None, value)

    def let(self, in_arm: bool) -> ast.Let:
        start = self.advance()
        mutable = self.accept("mut") is not None
        if self.tok.kind in ("(", "[", "&"):
            raise self.unexpected("a name after `let`", notes=["`let` gives one name; `match` takes values apart"])
        name = self.expect_name("a name after `let`")
        type_ = self.type() if self.accept(":") else None
        if self.tok.kind == ";":
            raise self.failure(
                "E0119",
                f"`{name.text}` gets no value",
                name.span,
                helps=[Help(f"give it one, as in `let {name.text} = …;`")],
            )
        self.expect("=", f"and the value of `{name.text}`")
        value = self.expression()
        self.end("this `let`", in_arm)
        return ast.Let(self.span_from(start), name.text, name.span, mutable, type_, value)

    def return_(self, in_arm: bool) -> ast.Return:
        start = self.advance()
        value = None if self.tok.kind in (";", "}", "eof") or (in_arm and self.tok.kind == ",") else self.expression()
        self.end("`return`", in_arm)
        return ast.Return(self.span_from(start), value)

    def break_(self, in_arm: bool) -> ast.Break:
        start = self.advance()
        self.end("`break`", in_arm)
        return ast.Break(self.span_from(start))

    def continue_(self, in_arm: bool) -> ast.Continue:
        start = self.advance()
        self.end("`continue`", in_arm)
        return ast.Continue(self.span_from(start))

    def loop(self, in_arm: bool) -> ast.Loop:
        start = self.advance()
        body = self.loop_body("after `loop`")
        return ast.Loop(self.span_from(start), body)

    def while_(self, in_arm: bool) -> ast.While:
        start = self.advance()
        if self.tok.kind == "let":
            raise self.unexpected("a condition", helps=["there is no `while let`; use `loop` and `match`"])
        cond = self.head()
        body = self.loop_body("after the condition")
        return ast.While(self.span_from(start), cond, body)

    def for_(self, in_arm: bool) -> ast.For:
        start = self.advance()
        name = self.expect_name("the name of the loop variable")
        self.expect("in", "after the loop variable")
        iterable = self.head()
        body = self.loop_body("after what the loop goes over")
        return ast.For(self.span_from(start), name.text, name.span, iterable, body)

    def loop_body(self, why: str) -> ast.Block:
        """The body of a loop; its `invariant`s come first in it, as something not supported yet."""
        invariants: list[ast.Stmt] = []
        while self.tok.kind == "invariant":
            start = self.advance()
            self.within("(", ")", self.expression)
            span = self.span_from(start)
            invariants.append(ast.ExprStmt(span, ast.Unsupported(span, "a loop invariant"), True))
        block = self.block(why)
        return ast.Block(block.span, (*invariants, *block.stmts), block.value) if invariants else block

    def assert_(self, in_arm: bool) -> ast.Assert:
        start = self.advance()
        opener = self.expect("(", "after `assert`")
        cond = self.expression()
        message: bytes | None = None
        if self.accept(",") and self.tok.kind != ")":
            message = string_value(self.expect("string", "that says what went wrong").text)
            self.accept(",")
        self.close(")", opener)
        self.end("this `assert`", in_arm)
        return ast.Assert(self.span_from(start), cond, message)


def _finish_block(span: Span, stmts: list[ast.Stmt]) -> ast.Block:
    """A block whose last statement, if it is an expression without `;`, is its value."""
    if stmts and isinstance(stmts[-1], ast.ExprStmt) and not stmts[-1].semi:
        return ast.Block(span, tuple(stmts[:-1]), stmts[-1].expr)
    return ast.Block(span, tuple(stmts), None)


_STATEMENTS: dict[str, Callable[[StmtParser, bool], ast.Stmt]] = {
    "let": StmtParser.let,
    "return": StmtParser.return_,
    "break": StmtParser.break_,
    "continue": StmtParser.continue_,
    "loop": StmtParser.loop,
    "while": StmtParser.while_,
    "for": StmtParser.for_,
    "assert": StmtParser.assert_,
}
