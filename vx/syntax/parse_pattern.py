"""Literals, and the patterns of `match`.

Enters: tokens. Leaves: `Number`, `StringLit`, `BoolLit` and `Pattern` nodes. A number's value is checked
here: its suffix names an element type and it fits the widest type (E0104, E0105).
"""

from __future__ import annotations

import math

from vx.syntax import ast
from vx.syntax.cursor import ParseError
from vx.syntax.lexer import FLOAT_SUFFIXES, INT_SUFFIXES, MAX_INTEGER, Token, number_parts, string_value
from vx.syntax.parse_types import TypeParser

_MAX_DIGITS = 500
"""Characters of a number literal; more than any value needs."""

_UNITS = frozenset({"B", "KB", "MB", "GB", "TB", "PB", "KiB", "MiB", "GiB", "TiB", "PiB", "ns", "us", "ms", "s"})


class PatternParser(TypeParser):
    # ---- literals ----
    def number(self) -> ast.Number:
        """A number. A malformed one (E0104) or one that no type holds (E0105) is reported and read as 0."""
        token = self.expect("number")
        suffix = number_parts(token.text).suffix
        try:
            value = self.number_value(token)
        except ParseError as error:
            self.report(error)
            value, suffix = 0, None
        return ast.Number(token.span, value, token.text, suffix)

    def number_value(self, token: Token) -> int | float:
        if len(token.text) > _MAX_DIGITS:
            raise self.failure("E0105", f"this number has {len(token.text)} digits: no type holds it", token.span)
        parts = number_parts(token.text)
        if parts.suffix is not None and parts.suffix not in FLOAT_SUFFIXES and parts.suffix not in INT_SUFFIXES:
            raise self.bad_suffix(token, parts.suffix)
        if parts.is_float and parts.suffix in INT_SUFFIXES:
            message = f"`{token.text}` has a fraction or an exponent, and `{parts.suffix}` is an integer type"
            raise self.failure("E0104", message, token.span, helps=[f"write `{parts.digits} as {parts.suffix}`"])
        digits = parts.digits.replace("_", "")
        if digits[:2] in ("0x", "0X"):
            return self.integer(token, digits[2:], 16)
        if not parts.is_float and parts.suffix not in FLOAT_SUFFIXES:
            return self.integer(token, digits, 10)
        value = float(digits)
        if math.isinf(value):
            raise self.too_large(token, "f64")
        return value

    def integer(self, token: Token, digits: str, base: int) -> int:
        if not digits:
            raise self.failure("E0104", f"`{token.text}` has no digits", token.span, helps=["write some, as in `0x1f`"])
        value = int(digits, base)
        if value > MAX_INTEGER:
            raise self.too_large(token, "u128")
        return value

    def too_large(self, token: Token, widest: str) -> ParseError:
        note = f"the widest type that could hold it is `{widest}`"
        return self.failure("E0105", "this number is too large", token.span, notes=[note])

    def bad_suffix(self, token: Token, suffix: str) -> ParseError:
        helps = []
        if token.text[:1] == "0" and suffix[:1] in ("b", "o"):
            helps.append("Vx writes numbers in decimal or, with `0x`, in hexadecimal")
        elif suffix in _UNITS:
            helps.append("units are written only in machine declarations and after `within`")
        else:
            helps.append("a suffix is an element type, as in `80i32`, `7u8` or `1.5f64`")
        return self.failure("E0104", f"`{suffix}` is not a suffix of a number", token.span, helps=helps)

    def string(self) -> ast.StringLit:
        token = self.expect("string")
        return ast.StringLit(token.span, string_value(token.text))

    def boolean(self) -> ast.BoolLit:
        token = self.advance()
        return ast.BoolLit(token.span, token.text == "true")

    # ---- patterns ----
    def pattern(self) -> ast.Pattern:
        self.enter()
        start = self.tok
        result: ast.Pattern
        if start.kind == "ident":
            result = self.named_pattern()
        elif start.kind in ("number", "-"):
            negative = self.accept("-") is not None
            value = self.number()
            result = ast.LiteralPattern(self.span_from(start), value, negative)
        elif start.kind == "string":
            text = self.string()
            result = ast.LiteralPattern(text.span, text, False)
        else:
            raise self.not_a_pattern()
        self.depth -= 1
        return result

    def not_a_pattern(self) -> ParseError:
        note = "a pattern is a literal, a name, `_`, or a variant such as `Some(x)` or `Result<i32, E>::Ok(x)`"
        return self.unexpected("a pattern", notes=[note])

    def named_pattern(self) -> ast.Pattern:
        start = self.tok
        if start.text in ("true", "false"):
            value = self.boolean()
            return ast.LiteralPattern(value.span, value, False)
        self.advance()
        if start.text == "_":
            return ast.WildcardPattern(start.span)
        if self.tok.kind == "(":
            items = self.comma_list(self.advance(), ")", self.pattern)
            return ast.VariantPattern(self.span_from(start), None, start.text, items)
        if self.tok.kind in ("<", "::"):
            return self.variant_pattern(start)
        return ast.NamePattern(start.span, start.text)

    def variant_pattern(self, start: Token) -> ast.VariantPattern:
        """`Enum<…>::Variant(…)`; a module in front stays part of the enum's name (`handoff::Error`)."""
        name, args = start.text, self.generic_args() if self.tok.kind == "<" else ()
        enum_span = self.span_from(start)
        self.expect("::", "and the name of a variant")
        variant = self.expect_name("the name of a variant").text
        while self.tok.kind in ("<", "::") and not args:
            name = f"{name}::{variant}"
            args = self.generic_args() if self.tok.kind == "<" else ()
            enum_span = self.span_from(start)
            self.expect("::", "and the name of a variant")
            variant = self.expect_name("the name of a variant").text
        items: tuple[ast.Pattern, ...] = ()
        if self.tok.kind == "(":
            items = self.comma_list(self.advance(), ")", self.pattern)
        return ast.VariantPattern(self.span_from(start), ast.PathSegment(enum_span, name, args), variant, items)
