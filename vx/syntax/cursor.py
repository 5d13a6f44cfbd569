"""The parser's position in the token list, and how errors are raised and recovered from.

Every parser layer (`parse_types`, `parse_expr`, `parse_stmt`, `parse_decl`, `parser`) builds on this one.
A syntax error is raised as `ParseError` and caught where parsing can go on: at a statement, an item or
a field. While a parse is only tried (`speculating` > 0), errors carry no message and the trier catches them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from vx.diagnostics.report import Diagnostic, Help, HelpLike, Label, LabelLike, Level, Reporter
from vx.diagnostics.span import Span
from vx.syntax.lexer import KEYWORDS, Token, is_closed_string, lex
from vx.syntax.limits import MAX_NESTING

T = TypeVar("T")

_NAMED_KINDS = {"eof": "the end of the file", "ident": "a name", "number": "a number", "string": "a string"}
_ITEM_STARTS = frozenset({"fn", "struct", "enum", "impl", "trait", "extern", "import"})


class ParseError(Exception):
    """One syntax error on its way to the place that can go on after it; no diagnostic while speculating."""

    def __init__(self, diagnostic: Diagnostic | None) -> None:
        super().__init__(diagnostic.message if diagnostic else "")
        self.diagnostic = diagnostic


class UnclosedBlock(ParseError):
    """A block without its `}`: only the item around it can go on after this."""


class GiveUp(Exception):
    """The reporter is full: parse no further."""


def describe(token: Token) -> str:
    """A token as an error message names it."""
    if token.kind in ("eof", "string"):
        return _NAMED_KINDS[token.kind]
    if token.kind in KEYWORDS:
        return f"the keyword `{token.text}`"
    return f"`{token.text if len(token.text) <= 40 else token.text[:37] + '…'}`"


class Cursor:
    """Tokens with a current position; `tok` is the current token, `last` the one before it."""

    def __init__(self, text: str, file: str, reporter: Reporter) -> None:
        self.text = text
        self.file = file
        self.reporter = reporter
        self.tokens, self.docs = _split_docs(lex(text, file, reporter))
        self.unreadable = [found.span.start for found in reporter.diagnostics if found.code == "E0101"]
        self.start_of_file = Token("eof", "", file, 0, 0)
        self.pos = 0
        self.tok = self.tokens[0]
        self.last = self.start_of_file
        self.speculating = 0
        self.struct_ok = True
        self.depth = 0
        self.deepest = 0
        self.longest_chain = 0

    # ---- moving ----
    def advance(self) -> Token:
        """Take the current token; at the end of the file it stays current."""
        token = self.tok
        if token.kind != "eof":
            self.last = token
            self.pos += 1
            self.tok = self.tokens[self.pos]
        return token

    def peek(self, ahead: int = 1) -> Token:
        """The token `ahead` places after the current one."""
        at = self.pos + ahead
        return self.tokens[at] if at < len(self.tokens) else self.tokens[-1]

    def rewind(self, pos: int) -> None:
        self.pos = pos
        self.tok = self.tokens[pos]
        self.last = self.tokens[pos - 1] if pos else self.start_of_file

    def at_word(self, word: str) -> bool:
        """Whether the current token is the contextual word `word`."""
        return self.tok.kind == "ident" and self.tok.text == word

    def accept(self, kind: str) -> Token | None:
        return self.advance() if self.tok.kind == kind else None

    def accept_word(self, word: str) -> Token | None:
        return self.advance() if self.at_word(word) else None

    def touches_next(self) -> bool:
        """Whether nothing stands between the current and the next token (`print!`, `>>`)."""
        return self.tok.end == self.peek().start

    def on_new_line(self) -> bool:
        """Whether a line break stands between the last token and the current one."""
        return "\n" in self.text[self.last.end : self.tok.start]

    def in_first_column(self) -> bool:
        start = self.tok.start
        return start == 0 or self.text[start - 1] == "\n"

    def span_from(self, start: Token) -> Span:
        """From `start` to the last token taken."""
        return Span(self.file, start.start, max(start.end, self.last.end))

    def span_after(self, start: Span) -> Span:
        """From `start` to the last token taken."""
        return Span(self.file, start.start, self.last.end)

    # ---- expecting ----
    def expect(self, kind: str, why: str = "") -> Token:
        """Take a token of `kind` or raise E0110; `why` continues "expected …", as in "after the condition"."""
        if self.tok.kind == kind:
            return self.advance()
        what = _NAMED_KINDS.get(kind, f"`{kind}`")
        raise self.unexpected(f"{what} {why}" if why else what)

    def expect_word(self, word: str, why: str = "") -> Token:
        if self.at_word(word):
            return self.advance()
        raise self.unexpected(f"`{word}` {why}" if why else f"`{word}`")

    def expect_name(self, what: str) -> Token:
        """Take an identifier; a keyword in its place is E0120."""
        if self.tok.kind == "ident":
            return self.advance()
        if self.tok.kind in KEYWORDS:
            word = self.tok.text
            raise self.failure(
                "E0120",
                f"expected {what}, found the keyword `{word}`",
                self.tok.span,
                helps=[f"`{word}` has a meaning of its own in Vx; choose another name, such as `{word}_`"],
            )
        raise self.unexpected(what)

    def close(self, kind: str, opener: Token) -> Token:
        """Take the delimiter that closes `opener`; at the end of the file E0112, otherwise E0110."""
        if self.tok.kind == kind:
            return self.advance()
        if self.tok.kind == "eof":
            raise self.unclosed(opener, kind)
        raise self.unexpected(f"`{kind}`", labels=[(opener.span, f"this `{opener.text}` is still open")])

    def unclosed(self, opener: Token, kind: str) -> ParseError:
        return self.failure(
            "E0112", f"this `{opener.text}` is never closed", opener.span, helps=[f"add the missing `{kind}`"]
        )

    def semicolon(self, after: str) -> None:
        """Take `;`. When a missing one (E0111) ends a line, parsing goes on as if it stood there."""
        if self.accept(";"):
            return
        end = Span(self.file, self.last.end, self.last.end)
        error = self.failure(
            "E0111",
            f"expected `;` after {after}, found {describe(self.tok)}",
            end,
            helps=[Help("add `;` here", end, ";")],
        )
        if self.speculating or not (self.tok.kind in ("}", "eof") or self.on_new_line()):
            raise error
        self.report(error)

    # ---- errors ----
    def failure(
        self,
        code: str,
        message: str,
        span: Span,
        labels: Iterable[LabelLike] = (),
        notes: Iterable[str] = (),
        helps: Iterable[HelpLike] = (),
    ) -> ParseError:
        """A `ParseError` to raise."""
        if self.speculating:
            return ParseError(None)
        return ParseError(
            Diagnostic(
                code,
                Level.ERROR,
                message,
                span,
                tuple(label if isinstance(label, Label) else Label(*label) for label in labels),
                tuple(notes),
                tuple(item if isinstance(item, Help) else Help(item) for item in helps),
            )
        )

    def unexpected(
        self, what: str, labels: Iterable[LabelLike] = (), notes: Iterable[str] = (), helps: Iterable[HelpLike] = ()
    ) -> ParseError:
        """E0110 at the current token: expected `what`, found the token."""
        if self.speculating:
            return ParseError(None)
        message = f"expected {what}, found {describe(self.tok)}"
        return self.failure("E0110", message, self.tok.span, labels, notes, helps)

    def report(self, error: ParseError) -> None:
        """Report an error after which parsing goes on; `GiveUp` once no more errors are kept.

        What follows a string that is never closed is part of that error, and so is what stands directly behind
        characters that mean nothing.
        """
        if self.speculating:
            raise error
        follows_open_string = self.last.kind == "string" and not is_closed_string(self.last)
        at = bisect_left(self.unreadable, self.last.end)
        behind_unreadable = at < len(self.unreadable) and self.unreadable[at] < self.tok.start
        if error.diagnostic is not None and not follows_open_string and not behind_unreadable:
            self.reporter.add(error.diagnostic)
        if self.reporter.full:
            raise GiveUp

    def recovering(self, parse: Callable[[], T]) -> T | None:
        """`parse()`, or None with its error reported; the caller then skips to where it can go on."""
        depth, struct_ok = self.depth, self.struct_ok
        try:
            return parse()
        except UnclosedBlock:
            raise
        except ParseError as error:
            self.report(error)
            self.depth, self.struct_ok = depth, struct_ok
            return None

    # ---- nesting ----
    def enter(self) -> None:
        """Count one level of nesting; the caller subtracts it again (recovery resets it after an error)."""
        self.depth += 1
        if self.depth > self.deepest:
            self.deepest = self.depth
            if self.depth > MAX_NESTING:
                self.deepest = MAX_NESTING
                raise self.too_deep(self.tok.span)

    def chain(self, length: int) -> None:
        """Count the links of a chain such as `a + b + c` or `x.f().g()`, which nests to the left."""
        if length > self.longest_chain:
            self.longest_chain = length
            if length > MAX_NESTING:
                self.longest_chain = MAX_NESTING
                raise self.too_deep(self.tok.span)

    def too_deep(self, span: Span) -> ParseError:
        return self.failure(
            "E0107",
            f"nested too deeply: at most {MAX_NESTING} levels fit inside one another",
            span,
            helps=["give a part of it a name with `let`, or move it to a function of its own"],
        )

    # ---- skipping after an error ----
    def skip_group(self) -> None:
        """Skip the delimited group that starts here, with all it contains."""
        depth = 0
        while self.tok.kind != "eof":
            kind = self.advance().kind
            if kind in ("{", "(", "["):
                depth += 1
            elif kind in ("}", ")", "]"):
                depth -= 1
                if depth <= 0:
                    return

    def skip_braces(self) -> None:
        """Skip `{ … }`, looking at braces only, so that a stray `(` inside does no harm."""
        depth = 0
        while self.tok.kind != "eof":
            kind = self.advance().kind
            depth += (kind == "{") - (kind == "}")
            if depth <= 0:
                return

    def skip_statement(self, starters: Collection[str]) -> None:
        """Skip past the next `;`, or to a `}`, an item, or a line that starts with one of `starters`."""
        while self.tok.kind not in ("}", "eof"):
            if self.tok.kind == "{":
                self.skip_braces()
                if self.on_new_line():
                    return
                continue
            if self.advance().kind == ";":
                return
            if self.on_new_line() and (self.tok.kind in starters or self.at_item()):
                return

    def skip_field(self) -> None:
        """Skip past the next `,` or `;`, or to a `}` or the next line."""
        while self.tok.kind not in ("}", "eof"):
            if self.tok.kind == "{":
                self.skip_braces()
            elif self.advance().kind in (",", ";"):
                return
            if self.on_new_line():
                return

    def skip_item(self, begun: bool) -> None:
        """Skip to something that starts an item on a line of its own, or past the `;` of an item that was begun."""
        while self.tok.kind != "eof":
            if self.tok.kind == "{":
                self.skip_braces()
            elif self.advance().kind == ";" and begun:
                return
            if self.on_new_line() and self.at_item():
                return

    def at_item(self) -> bool:
        """Whether an item starts here, as far as two tokens tell."""
        kind, text, following = self.tok.kind, self.tok.text, self.peek()
        if kind in _ITEM_STARTS:
            return True
        if kind in ("Memory", "Topology") or (kind == "ident" and text in ("const", "type")):
            return following.kind == "ident"
        if kind == "ident" and text == "role":
            return following.kind in ("fn", "unsafe")
        if kind == "ident" and text == "macro_rules":
            return following.kind == "!"
        if kind == "ident" and text == "Measured":
            return following.kind == "{"
        return kind == "unsafe" and following.kind == "fn"


def _split_docs(tokens: list[Token]) -> tuple[list[Token], dict[int, str]]:
    """The tokens without `///` comments, and each run of those by the index of the token after it."""
    if not any(token.kind == "doc" for token in tokens):
        return tokens, {}
    kept: list[Token] = []
    docs: dict[int, str] = {}
    pending: list[str] = []
    for token in tokens:
        if token.kind == "doc":
            pending.append(token.text.removeprefix(" "))
            continue
        if pending:
            docs[len(kept)] = "\n".join(pending)
            pending = []
        kept.append(token)
    return kept, docs
