"""Text to tokens.

Enters: a source text. Leaves: a list of `Token`s that ends in one of kind `eof`. A keyword's and a
punctuation mark's kind is its own text; the others are `ident`, `number`, `string` and `doc`. What is
not a token is reported (E0101 to E0106) and skipped, so the parser always gets a usable list.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from vx.diagnostics.report import Help, Reporter
from vx.diagnostics.span import Span

# fmt: off
KEYWORDS = frozenset({
    "fn", "let", "mut", "for", "in", "if", "else", "loop", "while", "break", "continue", "return", "spawn",
    "on", "where", "transfer", "match", "struct", "unsafe", "safe", "extern", "trait", "impl", "comptime",
    "import", "assert", "enum", "as", "requires", "ensures", "invariant", "Topology", "Memory", "Ref",
    "Verified", "Pinned",
})
# fmt: on
FLOAT_SUFFIXES = frozenset({"f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2", "f4e2m1"})
INT_SUFFIXES = frozenset({"i4", "i8", "i16", "i32", "i64", "i128", "u4", "u8", "u16", "u32", "u64", "u128"})
MAX_INTEGER = 2**128 - 1
"""The largest integer literal: the largest value of the widest type."""

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n\f\v]+)
  | (?P<doc>///(?!/)[^\n]*)
  | (?P<comment>//[^\n]*)
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>0[xX][0-9A-Fa-f_]*(?:[A-Za-z_][A-Za-z0-9_]*)?
             | [0-9][0-9_]*(?:\.[0-9][0-9_]*|\.(?![.A-Za-z_]))?(?:[eE][+-]?[0-9][0-9_]*)?(?:[A-Za-z_][A-Za-z0-9_]*)?)
  | (?P<string>"(?:[^"\\]|\\.)*+")
  | (?P<openstring>")
  | (?P<block>/\*)
  | (?P<punct>->|=>|==|!=|<=|>=|&&|\|\||::|\.\.|\+=|-=|\*=|/=|%=|&=|\|=|\^=|[-+*/%@=<>!&|^(){}\[\],;:.?$])
  | (?P<bad>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(
    r"(?P<digits>0[xX][0-9A-Fa-f_]*|[0-9][0-9_]*(?P<fraction>\.[0-9_]*)?(?P<exponent>[eE][+-]?[0-9][0-9_]*)?)"
    r"(?P<suffix>[A-Za-z_][A-Za-z0-9_]*)?"
)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


class Token(NamedTuple):
    """Characters `start..end` of `file`; `text` is exactly what stands there (for `doc`, without `///`)."""

    kind: str
    text: str
    file: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.file, self.start, self.end)


class NumberParts(NamedTuple):
    """A number token taken apart: `0x` or decimal digits, whether it is a float, and its suffix."""

    digits: str
    is_float: bool
    suffix: str | None


def lex(text: str, file: str, reporter: Reporter) -> list[Token]:
    """All tokens of `text`. Stops early, with an `eof` token, once the reporter keeps no more errors."""
    return _Lexer(text, file, reporter).run()


def number_parts(text: str) -> NumberParts:
    """Take a number token's text apart. A unit (`63GB`) comes out as the suffix."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return NumberParts(text, False, None)
    is_float = match["fraction"] is not None or match["exponent"] is not None
    return NumberParts(match["digits"], is_float, match["suffix"])


def is_closed_string(token: Token) -> bool:
    """False for the string token that stands for a string without its closing quote (E0102)."""
    return _STRING.fullmatch(token.text) is not None


def string_value(text: str) -> bytes:
    """The bytes of a string token (quotes included in `text`), escapes resolved. A line ends in `\\n`, however the
    file ends its lines."""
    inner = text[1:-1] if len(text) > 1 and text.endswith('"') else text[1:]
    inner = inner.replace("\r\n", "\n")
    if "\\" in inner:
        inner = _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[0]), inner)
    return inner.encode("utf-8", "surrogatepass")


class _Lexer:
    def __init__(self, text: str, file: str, reporter: Reporter) -> None:
        self.text = text
        self.file = file
        self.reporter = reporter
        self.tokens: list[Token] = []
        self.bad_start: int | None = None

    def run(self) -> list[Token]:
        text, file, tokens, match_at = self.text, self.file, self.tokens, _TOKEN.match
        at, size = 0, len(self.text)
        while at < size:
            match = match_at(text, at)
            if match is None:  # every character matches some group
                break
            kind, end = match.lastgroup, match.end()
            if kind == "bad":
                self.bad_start = at if self.bad_start is None else self.bad_start
                at = end
                continue
            if self.bad_start is not None:
                self.report_bad(at)
                if self.reporter.full:
                    break
            if kind == "ident":
                word = match[0]
                tokens.append(Token(word if word in KEYWORDS else "ident", word, file, at, end))
            elif kind == "punct":
                mark = match[0]
                tokens.append(Token(mark, mark, file, at, end))
            elif kind != "space" and kind != "comment":
                end = self.rare(kind, match[0], at, end)
            at = end
        if self.bad_start is not None:
            self.report_bad(size)
        tokens.append(Token("eof", "", file, size, size))
        return tokens

    def rare(self, kind: str | None, text: str, start: int, end: int) -> int:
        """Handle a token that needs a look inside; returns where lexing goes on."""
        if kind == "number":
            self.tokens.append(Token("number", text, self.file, start, end))
        elif kind == "string":
            self.check_string(text, start)
            self.tokens.append(Token("string", text, self.file, start, end))
        elif kind == "doc":
            self.tokens.append(Token("doc", text[3:].rstrip("\r"), self.file, start, end))
        elif kind == "openstring":
            return self.open_string(start)
        elif kind == "block":
            return self.block_comment(start)
        return end

    def report_bad(self, end: int) -> None:
        start = self.bad_start if self.bad_start is not None else end
        self.bad_start = None
        run = self.text[start:end]
        shown = " ".join(_describe(char) for char in run[:3]) + (" …" if len(run) > 3 else "")
        plural = "s" if len(run) > 1 else ""
        self.reporter.error(
            "E0101", f"unexpected character{plural} {shown}", self.span(start, end), helps=_bad_help(run[0])
        )

    def check_string(self, text: str, start: int) -> None:
        if "\\" in text:
            for match in _ESCAPE.finditer(text):
                if match[1] not in _ESCAPES:
                    self.reporter.error(
                        "E0103",
                        f"unknown escape `\\{_printable(match[1])}` in a string",
                        self.span(start + match.start(), start + match.end()),
                        helps=[r"the escapes are \n \t \r \" and \\; write \\ for a backslash"],
                    )
        if "\0" in text:
            at = start + text.index("\0")
            self.reporter.error("E0101", "a string cannot contain a zero byte", self.span(at, at + 1))

    def open_string(self, start: int) -> int:
        line_end = self.text.find("\n", start)
        line_end = len(self.text) if line_end < 0 else line_end
        self.reporter.error(
            "E0102",
            "this string is never closed",
            self.span(start, line_end),
            notes=['a string may go over several lines, so an earlier string may be the one without its `"`'],
            helps=[Help('close it with `"`', self.span(line_end, line_end), '"')],
        )
        self.tokens.append(Token("string", self.text[start:line_end], self.file, start, line_end))
        return len(self.text) if self.reporter.full else line_end

    def block_comment(self, start: int) -> int:
        close = self.text.find("*/", start + 2)
        end = len(self.text) if close < 0 else close + 2
        self.reporter.error(
            "E0106",
            "Vx has no block comments",
            self.span(start, start + 2),
            helps=["start each line of the comment with `//`"],
        )
        return end

    def span(self, start: int, end: int) -> Span:
        return Span(self.file, start, end)


def _printable(char: str) -> str:
    return char if char.isprintable() else f"U+{ord(char):04X}"


def _describe(char: str) -> str:
    if char.isascii() and char.isprintable():
        return f"`{char}`"
    name = unicodedata.name(char, "")
    return f"U+{ord(char):04X}" + (f" ({name})" if name else "")


def _bad_help(char: str) -> list[str]:
    if char == "'":
        return ["Vx has no character literals: write a number such as `97u8`, or a string in double quotes"]
    if char == "#":
        return ["Vx has no attributes; comments start with `//`"]
    if char in "\u201c\u201d":
        return ['strings are written with the plain quote `"`']
    if char.isspace():
        return ["only spaces, tabs and line breaks separate words"]
    if char.isalpha():
        return ["names are made of the letters a to z and A to Z, digits and `_`"]
    return []
