"""Expressions: operators by precedence climbing, then prefix, postfix and primary forms.

Enters: tokens. Leaves: `Expr` nodes. Where `name<` could open generic arguments or be a comparison, the
arguments are tried first (`TypeParser.try_generic_args`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from difflib import get_close_matches
from fractions import Fraction

from vx.diagnostics.report import Help
from vx.syntax import ast
from vx.syntax.cursor import ParseError
from vx.syntax.lexer import Token, number_parts
from vx.syntax.parse_pattern import PatternParser

RANGE = 45
_PRECEDENCE = {
    "||": 10, "&&": 20, "==": 30, "!=": 30, "<": 40, ">": 40, "<=": 40, ">=": 40, "..": RANGE, "|": 46, "^": 47,
    "&": 48, "<<": 49, ">>": 49, "+": 50, "-": 50, "*": 60, "/": 60, "%": 60, "@": 60,
}  # fmt: skip
"""Binding strength; all operators associate to the left."""

BLOCK_LIKE = frozenset({"{", "unsafe", "comptime", "if", "match", "spawn"})
"""Starts of the expressions that need no `;` as statements."""

_NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
PRINT_MACROS = frozenset({"print", "println", "eprint", "eprintln"})
_TENSOR_CONSTRUCTORS = ("new", "uninit", "fill")
_AUTODIFF = {"grad": "automatic differentiation (`grad`)", "vjp": "automatic differentiation (`vjp`)",
             "jvp": "automatic differentiation (`jvp`)"}  # fmt: skip


class ExprParser(PatternParser):
    @abstractmethod
    def block(self, why: str = "") -> ast.Block:
        """Provided by the statement layer."""

    @abstractmethod
    def arm_body(self) -> ast.Block:
        """Provided by the statement layer: what stands after `=>`."""

    # ---- operators ----
    def expression(self, open_range: bool = False) -> ast.Expr:
        """Any expression. With `open_range` the end after `..` may be missing before `]` or `,`."""
        return self.binary(0, open_range)

    def head(self) -> ast.Expr:
        """An expression directly before a `{`: a condition, a scrutinee, what a loop goes over."""
        outer, self.struct_ok = self.struct_ok, False
        result = self.expression()
        self.struct_ok = outer
        return result

    def binary(self, min_precedence: int, open_range: bool = False) -> ast.Expr:
        self.enter()
        result = self.binary_rest(self.cast(), min_precedence, open_range)
        self.depth -= 1
        return result

    def binary_rest(self, left: ast.Expr, min_precedence: int, open_range: bool = False) -> ast.Expr:
        """The operators after `left` that bind at least as strongly as `min_precedence`."""
        links = 0
        while True:
            op = self.tok.kind
            if self.at_shift_assignment():
                return left
            if op in ("<", ">") and self.peek().kind == op and self.touches_next():
                op += op
            precedence = _PRECEDENCE.get(op, -1)
            if precedence < min_precedence:
                return left
            links += 1
            self.chain(links)
            start = self.advance()
            if op in ("<<", ">>"):
                self.advance()
            if op == ".." and open_range and self.tok.kind in ("]", ","):
                return ast.Range(self.span_after(left.span), left, None)
            op_span = self.span_from(start)
            right = self.binary(precedence + 1)
            span = self.span_after(left.span)
            left = ast.Range(span, left, right) if op == ".." else ast.Binary(span, op, left, right, op_span)

    def at_shift_assignment(self) -> bool:
        """Whether `<<=` or `>>=` follows, which are two tokens because `>>` may close two lists of arguments."""
        kind = self.tok.kind
        return kind in ("<", ">") and self.peek().kind == kind + "=" and self.touches_next()

    def cast(self) -> ast.Expr:
        return self.cast_rest(self.prefix())

    def cast_rest(self, operand: ast.Expr) -> ast.Expr:
        links = 0
        while self.accept("as"):
            links += 1
            self.chain(links)
            target = self.cast_type()
            operand = ast.Cast(self.span_after(operand.span), operand, target)
        return operand

    def prefix(self) -> ast.Expr:
        kind = self.tok.kind
        if kind not in ("-", "!", "*", "&", "&&"):
            return self.postfix(self.primary())
        self.enter()
        start = self.advance()
        mutable = kind in ("&", "&&") and self.accept("mut") is not None
        operand = self.prefix()
        self.depth -= 1
        span = self.span_from(start)
        if kind == "&":
            return ast.AddrOf(span, operand, mutable)
        if kind == "&&":
            return ast.AddrOf(span, ast.AddrOf(span, operand, mutable), False)
        return ast.Unary(span, kind, operand)

    # ---- postfix ----
    def postfix(self, result: ast.Expr) -> ast.Expr:
        links = 0
        while True:
            kind = self.tok.kind
            if kind == ".":
                result = self.member(result)
            elif kind == "(":
                args = self.comma_list(self.advance(), ")", self.expression)
                result = ast.Call(self.span_after(result.span), result, args)
            elif kind == "[":
                indices = self.comma_list(self.advance(), "]", self.index)
                if not indices:
                    raise self.failure("E0110", "expected an index between `[` and `]`", self.last.span)
                result = ast.Index(self.span_after(result.span), result, indices)
            elif kind == "?":
                self.advance()
                result = ast.Try(self.span_after(result.span), result)
            else:
                return result
            links += 1
            self.chain(links)

    def member(self, receiver: ast.Expr) -> ast.Expr:
        self.advance()
        if self.tok.kind == "number":
            self.advance()
            return ast.Unsupported(self.span_after(receiver.span), "a tuple field")
        name = self.expect_name("the name of a field or method after `.`")
        generic_args: tuple[ast.GenericArg, ...] | None = None
        if self.tok.kind == "<":
            generic_args = self.try_generic_args(("(",))
        if self.tok.kind != "(":
            return ast.FieldAccess(self.span_after(receiver.span), receiver, name.text, name.span)
        args = self.comma_list(self.advance(), ")", self.expression)
        span = self.span_after(receiver.span)
        return ast.MethodCall(span, receiver, name.text, generic_args or (), args, name.span)

    def index(self) -> ast.Expr:
        """One index: an expression, or a range whose ends may be missing."""
        start = self.tok
        if not self.accept(".."):
            return self.expression(open_range=True)
        high = None if self.tok.kind in ("]", ",") else self.binary(RANGE + 1)
        return ast.Range(self.span_from(start), None, high)

    # ---- primary ----
    def primary(self) -> ast.Expr:
        parse = _PRIMARY.get(self.tok.kind)
        if parse is None:
            raise self.not_an_expression()
        return parse(self)

    def not_an_expression(self) -> ParseError:
        kind = self.tok.kind
        helps: list[str] = []
        if kind in ("for", "while", "loop", "return", "break", "continue", "let", "assert"):
            helps.append(f"`{kind}` is a statement and has no value; put it on a line of its own")
        elif kind == "=" and self.last.kind == "..":
            helps.append("a range leaves its end out: write `a..b + 1` for `a..=b`")
        elif kind in ("=", ">", "<") and self.last.kind == kind:
            helps.append(f"is `{kind}{kind}` meant?" if kind == "=" else "")
        return self.unexpected("an expression", helps=[text for text in helps if text])

    def parenthesised(self) -> ast.Expr:
        start = self.advance()
        items = self.comma_list(start, ")", self.expression)
        if len(items) == 1 and self.tokens[self.pos - 2].kind != ",":
            return items[0]
        return ast.Unsupported(self.span_from(start), "a tuple")

    def array(self) -> ast.ArrayLit:
        start = self.advance()
        items = self.comma_list(start, "]", self.expression)
        return ast.ArrayLit(self.span_from(start), items)

    def plain_block(self) -> ast.BlockExpr:
        block = self.block()
        return ast.BlockExpr(block.span, block, "plain")

    def marked_block(self) -> ast.BlockExpr:
        """`unsafe { … }`, `comptime { … }`"""
        start = self.advance()
        block = self.block(f"after `{start.text}`")
        return ast.BlockExpr(self.span_from(start), block, start.kind)

    def if_expression(self) -> ast.If:
        self.enter()
        start = self.advance()
        comptime = self.accept("comptime") is not None
        if self.tok.kind == "let":
            raise self.unexpected("a condition", helps=["there is no `if let`; take the value apart with `match`"])
        cond = self.head()
        then = self.block("after the condition")
        orelse: ast.Block | ast.If | None = None
        if self.accept("else"):
            orelse = self.if_expression() if self.tok.kind == "if" else self.block("or `if` after `else`")
        self.depth -= 1
        return ast.If(self.span_from(start), cond, then, orelse, comptime)

    def match(self) -> ast.Match:
        self.enter()
        start = self.advance()
        scrutinee = self.head()
        opener = self.expect("{", "after what is matched")
        outer, self.struct_ok = self.struct_ok, True
        arms: list[ast.Arm] = []
        while self.tok.kind not in ("}", "eof"):
            before = self.pos
            arm = self.recovering(self.arm)
            if arm is not None:
                arms.append(arm)
            else:
                self.skip_field()
                if self.pos == before and self.tok.kind != "}":
                    self.advance()
        self.struct_ok = outer
        self.close("}", opener)
        self.depth -= 1
        return ast.Match(self.span_from(start), scrutinee, tuple(arms))

    def arm(self) -> ast.Arm:
        start = self.tok
        pattern = self.pattern()
        if self.tok.kind in ("|", "if"):
            what = "one pattern" if self.tok.kind == "|" else "no condition"
            raise self.unexpected("`=>`", notes=[f"an arm of `match` has {what}"], helps=["decide inside the arm"])
        self.expect("=>", "after the pattern")
        body = self.arm_body()
        return ast.Arm(self.span_from(start), pattern, body)

    def spawn(self) -> ast.Spawn:
        start = self.advance()
        self.expect("on", "after `spawn`: a region says where it runs, as in `spawn on(Topology::CPU)`")
        place = self.within("(", ")", self.topology_place)
        body = self.block("after the place of a region")
        return ast.Spawn(self.span_from(start), place, body)

    def transfer(self) -> ast.Transfer:
        start = self.advance()
        opener = self.expect("(", "after `transfer`")
        outer, self.struct_ok = self.struct_ok, True
        operand = self.expression()
        self.expect(",", "and the place to move to")
        target = self.place()
        self.accept(",")
        self.struct_ok = outer
        self.close(")", opener)
        within_ns = self.duration() if self.accept_word("within") else None
        return ast.Transfer(self.span_from(start), operand, target, within_ns)

    def duration(self) -> int:
        """A length of time such as `5 ms`, in whole nanoseconds; E0121 otherwise."""
        start = self.expect("number", "and a unit of time, as in `within 5 ms`")
        parts = number_parts(start.text)
        unit = parts.suffix
        if unit is None and self.tok.kind == "ident":
            unit = self.advance().text
        span = self.span_from(start)
        if unit not in _NANOSECONDS or parts.digits[:2] in ("0x", "0X") or len(parts.digits) > 40:
            found = f"`{unit}` is not a unit of time" if unit else "a deadline needs a unit of time"
            raise self.failure("E0121", found, span, helps=["the units of time are `ns`, `us`, `ms` and `s`"])
        if "e" in parts.digits or "E" in parts.digits:
            raise self.failure("E0121", "a length of time is written without an exponent", span)
        nanoseconds = Fraction(parts.digits.replace("_", "").rstrip(".")) * _NANOSECONDS[unit]
        if nanoseconds.denominator != 1:
            raise self.failure("E0121", f"`{parts.digits} {unit}` is not a whole number of nanoseconds", span)
        return nanoseconds.numerator

    def place_value(self) -> ast.PlaceValue:
        place = self.place()
        return ast.PlaceValue(place.span, place)

    def verified(self) -> ast.Unsupported:
        start = self.advance()
        self.comma_list(self.expect("(", "after `Verified`"), ")", self.expression)
        return ast.Unsupported(self.span_from(start), "`Verified(…)`")

    def closure(self) -> ast.Closure:
        start = self.advance()
        params = self.comma_list(start, "|", self.closure_param) if start.kind == "|" else ()
        body = self.expression()
        return ast.Closure(self.span_from(start), params, body)

    def closure_param(self) -> tuple[str, ast.TypeExpr | None]:
        name = self.expect_name("the name of a parameter")
        return name.text, self.type() if self.accept(":") else None

    # ---- what starts with a name ----
    def named(self) -> ast.Expr:
        token, following = self.tok, self.peek()
        if following.kind == "!" and self.at_macro_call():
            return self.macro_call()
        needs, parse = _WORDS.get(token.text, (None, None))
        if parse is not None and (needs is None or following.kind == needs):
            return parse(self)
        path = self.path()
        if self.tok.kind == "{" and (self.struct_ok or self.at_field_list()):
            return self.struct_literal(path)
        return path

    def at_macro_call(self) -> bool:
        """Whether `name!(`, `name![` or `name!{` starts here, with no space before the `!`."""
        return (
            self.tok.kind == "ident"
            and self.peek().kind == "!"
            and self.touches_next()
            and self.peek(2).kind in ("(", "[", "{")
        )

    def path(self) -> ast.Path:
        start = self.tok
        segments = [self.path_segment()]
        while self.accept("::"):
            if self.tok.kind == "<":
                text = f"generic arguments follow the name directly: `{self.tokens[self.pos - 2].text}<…>`"
                raise self.unexpected("a name after `::`", helps=[text])
            segments.append(self.path_segment())
        return ast.Path(self.span_from(start), tuple(segments))

    def path_segment(self) -> ast.PathSegment:
        name = self.expect_name("a name after `::`")
        args = self.try_generic_args() if self.tok.kind == "<" else None
        return ast.PathSegment(self.span_from(name), name.text, args or ())

    def at_field_list(self) -> bool:
        """Whether `{ name :` starts here, which no block does."""
        return self.peek().kind == "ident" and self.peek(2).kind == ":"

    def struct_literal(self, path: ast.Path) -> ast.StructLit:
        """`Name { field: value, field }`; E0115 where the `{` has to open a block."""
        struct_ok = self.struct_ok
        fields = self.comma_list(self.advance(), "}", self.field_init)
        literal = ast.StructLit(self.span_after(path.span), path, fields)
        if not struct_ok:
            start, end = literal.span.start, literal.span.end
            text = self.text[start:end]
            self.report(
                self.failure(
                    "E0115",
                    "a struct literal cannot stand directly before a block",
                    literal.span,
                    helps=[Help("put it in parentheses", literal.span, f"({text})")],
                )
            )
        return literal

    def field_init(self) -> ast.FieldInit:
        name = self.expect_name("the name of a field")
        if self.accept(":"):
            return ast.FieldInit(self.span_from(name), name.text, self.expression())
        value = ast.Path(name.span, (ast.PathSegment(name.span, name.text, ()),))
        return ast.FieldInit(name.span, name.text, value)

    def nan(self) -> ast.NanLit:
        return ast.NanLit(self.advance().span)

    def sizeof(self) -> ast.SizeOf:
        start = self.advance()
        opener = self.expect("<")
        type_ = self.type()
        self.close_angle(opener)
        self.close(")", self.expect("("))
        return ast.SizeOf(self.span_from(start), type_)

    def reachable(self) -> ast.Reachable:
        start = self.advance()
        opener = self.expect("<")
        source = self.topology_or_name()
        self.expect(",")
        target = self.topology_or_name()
        self.close_angle(opener)
        return ast.Reachable(self.span_from(start), source, target)

    def topology_or_name(self) -> ast.TopologyPlace | ast.PathType:
        if self.tok.kind == "ident":
            name = self.advance()
            return ast.PathType(name.span, (name.text,), ())
        return self.topology_place()

    def autodiff(self) -> ast.Unsupported:
        start = self.advance()
        self.comma_list(self.advance(), ")", self.expression)
        return ast.Unsupported(self.span_from(start), _AUTODIFF[start.text])

    def tensor(self) -> ast.TensorCtor:
        """`Tensor<…>::new()`, `::uninit()`, `::fill(v)`, or contents in parentheses."""
        start = self.tok
        type_ = self.tensor_type()
        kind = "literal"
        if self.accept("::"):
            name = self.expect_name("a constructor")
            kind = name.text
            if kind not in _TENSOR_CONSTRUCTORS:
                raise self.not_a_constructor(name)
        elif self.tok.kind != "(":
            raise self.unexpected("`::new()`, `::uninit()`, `::fill(…)` or the contents in parentheses after the type")
        args = self.comma_list(self.expect("(", "after the constructor"), ")", self.expression)
        return ast.TensorCtor(self.span_from(start), type_, kind, args)

    def not_a_constructor(self, name: Token) -> ParseError:
        near = get_close_matches(name.text, _TENSOR_CONSTRUCTORS, n=1)
        helps = [Help(f"did you mean `{near[0]}`?", name.span, near[0])] if near else []
        notes = ["the constructors are `new` (zeroed), `uninit` and `fill`"]
        return self.failure("E0110", f"a tensor has no constructor `{name.text}`", name.span, notes=notes, helps=helps)

    def macro_call(self) -> ast.MacroCall:
        start = self.advance()
        self.advance()
        args: tuple[ast.Expr, ...] = ()
        if start.text in PRINT_MACROS and self.tok.kind == "(":
            args = self.comma_list(self.advance(), ")", self.expression)
        else:
            opener = self.tok
            self.skip_group()
            if self.last.kind not in ("}", ")", "]"):
                raise self.unclosed(opener, {"(": ")", "[": "]", "{": "}"}[opener.kind])
        return ast.MacroCall(self.span_from(start), start.text, args)


_PRIMARY: dict[str, Callable[[ExprParser], ast.Expr]] = {
    "ident": ExprParser.named,
    "number": ExprParser.number,
    "string": ExprParser.string,
    "(": ExprParser.parenthesised,
    "[": ExprParser.array,
    "{": ExprParser.plain_block,
    "unsafe": ExprParser.marked_block,
    "comptime": ExprParser.marked_block,
    "if": ExprParser.if_expression,
    "match": ExprParser.match,
    "spawn": ExprParser.spawn,
    "transfer": ExprParser.transfer,
    "Memory": ExprParser.place_value,
    "Topology": ExprParser.place_value,
    "Verified": ExprParser.verified,
    "|": ExprParser.closure,
    "||": ExprParser.closure,
}

_WORDS: dict[str, tuple[str | None, Callable[[ExprParser], ast.Expr]]] = {
    "true": (None, ExprParser.boolean),
    "false": (None, ExprParser.boolean),
    "NAN": (None, ExprParser.nan),
    "sizeof": ("<", ExprParser.sizeof),
    "Reachable": ("<", ExprParser.reachable),
    "Tensor": ("<", ExprParser.tensor),
    "grad": ("(", ExprParser.autodiff),
    "vjp": ("(", ExprParser.autodiff),
    "jvp": ("(", ExprParser.autodiff),
}
