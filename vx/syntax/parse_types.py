"""Types, places and generic arguments.

Enters: tokens. Leaves: `TypeExpr`, `PlaceExpr` and `GenericArg` nodes. `<` and `>` are single tokens
everywhere; the expression layer puts two that touch together to a shift.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import TypeVar

from vx.diagnostics.report import Reporter
from vx.syntax import ast
from vx.syntax.cursor import Cursor, ParseError
from vx.syntax.lexer import Token, number_parts

T = TypeVar("T")

ARITHMETIC = 50
"""Binding strength of `+`: a const argument is an expression of operators at least this strong."""

AFTER_ARGUMENTS = frozenset({"(", "::", "{", ")", ",", ";", "]", "}", ".", "?"})
"""What may follow `name<…>` in an expression; anything else makes the `<` a comparison."""

_OPERANDS = frozenset({"ident", "number", "string", "(", "!", "Memory", "Topology", "transfer"})
"""After `x as T < U >`, these make both marks comparisons."""

_CONST_ARGUMENT_STARTS = frozenset({"number", "string", "-", "!"})


class TypeParser(Cursor):
    def __init__(self, text: str, file: str, reporter: Reporter) -> None:
        super().__init__(text, file, reporter)
        self.arguments_at: dict[int, tuple[tuple[ast.GenericArg, ...], int] | None] = {}
        """Per `<` tried so far: its generic arguments with the position after `>`, or None if it opens none."""
        self.comparisons: set[int] = set()
        """Those that could open generic arguments but are comparisons by what follows the `>`."""

    # ---- provided by the expression layer ----
    @abstractmethod
    def expression(self, open_range: bool = False) -> ast.Expr: ...

    @abstractmethod
    def binary(self, min_precedence: int, open_range: bool = False) -> ast.Expr: ...

    # ---- lists ----
    def comma_list(self, opener: Token, closer: str, parse: Callable[[], T]) -> tuple[T, ...]:
        """`parse()` separated by commas up to and including `closer`; a trailing comma is fine."""
        outer, self.struct_ok = self.struct_ok, True
        items: list[T] = []
        while self.tok.kind != closer:
            items.append(parse())
            if not self.accept(","):
                break
        self.struct_ok = outer
        self.close(closer, opener)
        return tuple(items)

    def within(self, opener: str, closer: str, parse: Callable[[], T]) -> T:
        """`parse()` between delimiters, where struct literals are allowed again."""
        start = self.expect(opener)
        outer, self.struct_ok = self.struct_ok, True
        result = parse()
        self.struct_ok = outer
        self.close(closer, start)
        return result

    # ---- types ----
    def type(self) -> ast.TypeExpr:
        self.enter()
        kind = self.tok.kind
        result: ast.TypeExpr
        if kind == "ident":
            result = self.tensor_type() if self.at_tensor() else self.path_type()
        elif kind in _TYPE_STARTS:
            result = _TYPE_STARTS[kind](self)
        else:
            raise self.not_a_type()
        self.depth -= 1
        return result

    def cast_type(self) -> ast.TypeExpr:
        """The type after `as`, where a following `<` is usually a comparison."""
        self.enter()
        result: ast.TypeExpr
        if self.tok.kind == "ident" and not self.at_tensor():
            result = self.path_type(may_compare=True)
        elif self.tok.kind == "*":
            result = self.pointer_type(self.cast_type)
        elif self.tok.kind == "&":
            result = self.reference_type(self.cast_type)
        else:
            result = self.type()
        self.depth -= 1
        return result

    def not_a_type(self) -> ParseError:
        if self.tok.kind == "number":
            return self.unexpected("a type", notes=["a number can be a generic argument or a dimension, not a type"])
        return self.unexpected("a type")

    def at_tensor(self) -> bool:
        return self.tok.text == "Tensor" and self.tok.kind == "ident" and self.peek().kind == "<"

    def path_type(self, may_compare: bool = False) -> ast.PathType:
        start = self.advance()
        segments = [start.text]
        while self.tok.kind == "::" and self.peek().kind == "ident":
            self.advance()
            segments.append(self.advance().text)
        args: tuple[ast.GenericArg, ...] = ()
        if self.tok.kind == "<":
            args = (self.try_generic_args(after_cast=True) or ()) if may_compare else self.generic_args()
        return ast.PathType(self.span_from(start), tuple(segments), args)

    def reference_type(self, target: Callable[[], ast.TypeExpr] | None = None) -> ast.RefType:
        start = self.advance()
        mutable = self.accept("mut") is not None
        inner = (target or self.type)()
        return ast.RefType(self.span_from(start), inner, mutable)

    def double_reference_type(self) -> ast.RefType:
        start = self.advance()
        mutable = self.accept("mut") is not None
        inner = self.type()
        span = self.span_from(start)
        return ast.RefType(span, ast.RefType(span, inner, mutable), False)

    def pointer_type(self, target: Callable[[], ast.TypeExpr] | None = None) -> ast.PtrType:
        start = self.advance()
        mutable = self.accept("mut") is not None
        if not mutable and not self.accept_word("const"):
            raise self.unexpected("`const` or `mut` after `*` in a pointer type")
        inner = (target or self.type)()
        return ast.PtrType(self.span_from(start), inner, mutable)

    def tensor_type(self) -> ast.TensorType:
        """`Tensor<elem [, [dims] [, place]]>`"""
        start = self.advance()
        opener = self.expect("<")
        elem = self.type()
        dims: tuple[ast.Expr | None, ...] | None = None
        place: ast.PlaceExpr | None = None
        if self.accept(",") and self.tok.kind != ">":
            bracket = self.expect("[", "before the dimensions")
            dims = self.comma_list(bracket, "]", self.dimension)
            if self.accept(",") and self.tok.kind != ">":
                place = self.place()
        self.close_angle(opener)
        return ast.TensorType(self.span_from(start), elem, dims, place)

    def dimension(self) -> ast.Expr | None:
        return None if self.accept("?") else self.expression()

    def wrapper_type(self) -> ast.WrapperType:
        """`Ref<T, mem>`, `Pinned<T, topology>`, `Verified<T>`"""
        start = self.advance()
        opener = self.expect("<", f"after `{start.text}`")
        inner = self.type()
        place: ast.PlaceExpr | None = None
        if start.kind != "Verified":
            self.expect(",", f"and a place: `{start.text}` says where its value lives")
            place = self.place()
        self.close_angle(opener)
        return ast.WrapperType(self.span_from(start), start.kind, inner, place)

    def function_type(self) -> ast.FnType:
        start = self.advance()
        params = self.comma_list(self.expect("("), ")", self.type)
        return self.function_result(start, params, closure=False)

    def closure_type(self) -> ast.FnType:
        start = self.advance()
        params = self.comma_list(start, "|", self.type) if start.kind == "|" else ()
        return self.function_result(start, params, closure=True)

    def function_result(self, start: Token, params: tuple[ast.TypeExpr, ...], closure: bool) -> ast.FnType:
        self.expect("->", "and the type that it returns")
        ret = self.type()
        return ast.FnType(self.span_from(start), params, ret, closure)

    def array_type(self) -> ast.ArrayType:
        start = self.advance()
        elem = self.type()
        self.expect(";", "and a length, as in `[i32; 4]`")
        length = self.expression()
        self.close("]", start)
        return ast.ArrayType(self.span_from(start), elem, length)

    def tuple_type(self) -> ast.TypeExpr:
        start = self.advance()
        items = self.comma_list(start, ")", self.type)
        if len(items) == 1:
            return items[0]
        return ast.TupleType(self.span_from(start), items)

    def vector_type(self) -> ast.VectorType:
        opener = self.advance()
        lanes = number_parts(self.expect("number", "of lanes").text)
        if lanes.is_float or lanes.suffix or not lanes.digits.isdigit() or len(lanes.digits) > 9:
            raise self.failure("E0104", "the number of lanes is a small decimal integer", self.last.span)
        self.expect_word("x", "after the number of lanes, as in `<4 x f32>`")
        elem = self.type()
        self.close_angle(opener)
        return ast.VectorType(self.span_from(opener), int(lanes.digits), elem)

    def topology_type(self) -> ast.TopologyType:
        start = self.advance()
        if self.tok.kind == "::":
            raise self.unexpected(
                "a type",
                notes=["`Topology::NAME` is a place; it stands last in a tensor type, after the dimensions"],
            )
        return ast.TopologyType(self.span_from(start))

    # ---- generic arguments ----
    def generic_args(self) -> tuple[ast.GenericArg, ...]:
        """`<A, 3, N + 1>`, certain to be generic arguments.

        What was found is kept per position, so that attempts within attempts stay linear.
        """
        at = self.pos
        known = self.arguments_at.get(at)
        if known is not None:
            self.rewind(known[1])
            return known[0]
        if self.speculating and at in self.arguments_at:
            raise ParseError(None)
        opener = self.expect("<")
        self.enter()
        try:
            args = [self.generic_arg()]
            while self.accept(",") and self.tok.kind != ">":
                args.append(self.generic_arg())
            self.close_angle(opener)
        except ParseError:
            self.arguments_at[at] = None
            raise
        self.depth -= 1
        self.arguments_at[at] = (tuple(args), self.pos)
        return tuple(args)

    def try_generic_args(
        self, follow: Collection[str] = AFTER_ARGUMENTS, after_cast: bool = False
    ) -> tuple[ast.GenericArg, ...] | None:
        """Generic arguments if the `<` here opens some, else None.

        They count if one of `follow` comes after them; in the type after `as`, if no operand does.
        """
        at = self.pos
        if at in self.comparisons or self.arguments_at.get(at, ()) is None:
            return None
        depth, struct_ok = self.depth, self.struct_ok
        self.speculating += 1
        try:
            args = self.generic_args()
            kind = self.tok.kind
            accepted = kind not in _OPERANDS if after_cast else kind in follow and (kind != "{" or self.at_fields())
        except ParseError:
            accepted = False
        finally:
            self.speculating -= 1
        self.depth, self.struct_ok = depth, struct_ok
        if accepted:
            return args
        self.comparisons.add(at)
        self.rewind(at)
        return None

    def at_fields(self) -> bool:
        """Whether the `{` here opens the fields of a struct literal rather than a block."""
        first, second = self.peek().kind, self.peek(2).kind
        return first == "}" or (first == "ident" and second in (":", ",", "}"))

    def generic_arg(self) -> ast.GenericArg:
        start = self.tok
        if start.kind in ("Memory", "Topology") and self.peek().kind == "::":
            place = self.place()
            return ast.PlaceValue(place.span, place)
        if start.kind == "{":
            return self.within("{", "}", self.expression)
        if start.kind in _CONST_ARGUMENT_STARTS or (start.kind == "ident" and start.text in ("true", "false")):
            return self.binary(ARITHMETIC)
        at = self.pos
        argument = self.try_type() if start.kind == "(" else self.type()
        if argument is not None and (start.kind not in ("ident", "(") or self.tok.kind in (",", ">", ">=")):
            return argument
        self.rewind(at)
        return self.binary(ARITHMETIC)

    def try_type(self) -> ast.TypeExpr | None:
        """The type that starts here, or None if what starts here is none."""
        depth = self.depth
        self.speculating += 1
        try:
            return self.type()
        except ParseError:
            self.depth = depth
            return None
        finally:
            self.speculating -= 1

    def close_angle(self, opener: Token) -> None:
        """Take `>`; of a `>=` (as in `let x : Vec<f32>= …`) take the first character."""
        if self.tok.kind == ">=" and not self.speculating:
            token = self.tok
            self.last = Token(">", ">", token.file, token.start, token.start + 1)
            self.tok = Token("=", "=", token.file, token.start + 1, token.end)
            self.tokens[self.pos] = self.tok
            return
        self.close(">", opener)

    # ---- places ----
    def place(self) -> ast.PlaceExpr:
        if self.tok.kind == "Memory":
            return self.memory_place()
        if self.tok.kind == "Topology":
            return self.topology_place()
        raise self.not_a_place("a place, `Memory::NAME` or `Topology::NAME`", "Topology")

    def not_a_place(self, what: str, keyword: str) -> ParseError:
        helps = [f"did you mean `{keyword}::{self.tok.text}`?"] if self.tok.kind == "ident" else []
        return self.unexpected(what, helps=helps)

    def memory_place(self) -> ast.MemoryPlace:
        start = self.tok
        if start.kind != "Memory":
            raise self.not_a_place("a memory space, `Memory::NAME`", "Memory")
        self.advance()
        self.expect("::", "and the name of a memory space")
        name = self.expect_name("the name of a memory space")
        return ast.MemoryPlace(self.span_from(start), name.text)

    def topology_place(self) -> ast.TopologyPlace:
        """`Topology::NAME`, `Topology::NAME[i]`, `Topology::NAME[a..b]`"""
        start = self.tok
        if start.kind != "Topology":
            raise self.not_a_place("a topology, `Topology::NAME`", "Topology")
        self.advance()
        self.expect("::", "and the name of a topology")
        name = self.expect_name("the name of a topology")
        low: ast.Expr | None = None
        high: ast.Expr | None = None
        if self.tok.kind == "[":
            index = self.within("[", "]", self.expression)
            low, high = (index.low, index.high) if isinstance(index, ast.Range) else (index, None)
        return ast.TopologyPlace(self.span_from(start), name.text, low, high)


_TYPE_STARTS: dict[str, Callable[[TypeParser], ast.TypeExpr]] = {
    "&": TypeParser.reference_type,
    "&&": TypeParser.double_reference_type,
    "*": TypeParser.pointer_type,
    "Ref": TypeParser.wrapper_type,
    "Pinned": TypeParser.wrapper_type,
    "Verified": TypeParser.wrapper_type,
    "fn": TypeParser.function_type,
    "|": TypeParser.closure_type,
    "||": TypeParser.closure_type,
    "[": TypeParser.array_type,
    "(": TypeParser.tuple_type,
    "<": TypeParser.vector_type,
    "Topology": TypeParser.topology_type,
}
