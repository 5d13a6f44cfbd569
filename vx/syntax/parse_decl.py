"""`Memory`, `Topology` and `Measured` declarations, in programs and in machine files.

Enters: tokens. Leaves: `MemoryDecl`, `TopologyDecl` and `MeasuredDecl` nodes. Figures are kept as exact text with their
unit (`Quantity`); what they mean and whether they are possible is decided by `machine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from vx.diagnostics.report import Help
from vx.syntax import ast
from vx.syntax.cursor import ParseError
from vx.syntax.lexer import Token, number_parts, string_value
from vx.syntax.parse_stmt import StmtParser

_MARKERS = frozenset({"relaxed", "sync", "copy_engine"})
_NOT_UNITS = _MARKERS | {"latency", "overcommit"}


class DeclParser(StmtParser):
    def memory_decl(self, doc: str) -> ast.MemoryDecl:
        start = self.advance()
        name = self.expect_name("the name of a memory space")
        fields = self.declared_fields(_MEMORY_FIELDS)
        return ast.MemoryDecl(
            self.span_from(start), name.text, tuple(f for f in fields if isinstance(f, ast.DeclField)), doc
        )

    def topology_decl(self, doc: str) -> ast.TopologyDecl:
        start = self.advance()
        name = self.expect_name("the name of a topology")
        entries = self.declared_fields(_TOPOLOGY_FIELDS)
        fields = tuple(entry for entry in entries if isinstance(entry, ast.DeclField))
        edges = tuple(entry for entry in entries if isinstance(entry, ast.Edge))
        return ast.TopologyDecl(self.span_from(start), name.text, fields, edges, doc)

    def measured_decl(self, doc: str) -> ast.MeasuredDecl:
        start = self.advance()
        fields = self.declared_fields(_MEASURED_FIELDS)
        return ast.MeasuredDecl(self.span_from(start), tuple(f for f in fields if isinstance(f, ast.DeclField)), doc)

    def declared_fields(self, known: Mapping[str, FieldValue | None]) -> list[ast.DeclField | ast.Edge]:
        """`{ field: value, … }`; commas are optional, a wrong field is reported and skipped."""
        opener = self.expect("{", "and the fields")
        entries: list[ast.DeclField | ast.Edge] = []
        while self.tok.kind not in ("}", "eof"):
            before = self.pos
            entry = self.recovering(lambda: self.declared_field(known))
            if entry is not None:
                entries.append(entry)
                self.accept(",")
            else:
                self.skip_field()
                if self.pos == before:
                    self.advance()
        self.close("}", opener)
        return entries

    def declared_field(self, known: Mapping[str, FieldValue | None]) -> ast.DeclField | ast.Edge:
        start = self.tok
        if start.kind == "transfer" and known is _TOPOLOGY_FIELDS:
            return self.edge()
        if start.text not in known:
            raise self.unknown_field(known)
        self.advance()
        parse = known[start.text]
        if parse is None:
            return ast.DeclField(start.span, start.text, None)
        self.expect(":", f"after `{start.text}`")
        value = parse(self)
        return ast.DeclField(self.span_from(start), start.text, value)

    def unknown_field(self, known: Mapping[str, FieldValue | None]) -> ParseError:
        if self.tok.kind not in ("ident", "transfer"):
            return self.unexpected("the name of a field")
        what = next(name for name, fields in _BLOCKS.items() if fields is known)
        owner = next((name for name, fields in _BLOCKS.items() if self.tok.text in fields), None)
        near = get_close_matches(self.tok.text, known, n=1)
        helps = [Help(f"did you mean `{near[0]}`?", self.tok.span, near[0])] if near else []
        notes = [f"the fields of a {what} are {', '.join(known)}"]
        if owner is not None and not near:
            notes.append(f"`{self.tok.text}` belongs to a {owner}")
        return self.failure(
            "E0113", f"a {what} has no field `{self.tok.text}`", self.tok.span, notes=notes, helps=helps
        )

    # ---- values of fields ----
    def quantity(self, is_unit: Callable[[Token], bool] | None = None) -> ast.Quantity:
        """A number, then perhaps `%` or a unit, then perhaps `/s` or `/cyc`."""
        start = self.expect("number", "and its unit")
        number, unit = _split_unit(start)
        per: str | None = None
        is_unit = is_unit or self.is_unit
        if unit is None and (self.tok.kind == "%" or (self.tok.kind == "ident" and is_unit(self.tok))):
            unit = self.advance().text
        if unit is not None and self.accept("/"):
            per = self.expect_name("`s` or `cyc` after `/`").text
        return ast.Quantity(self.span_from(start), number, unit, per)

    def is_unit(self, token: Token) -> bool:
        """Whether a word after a number is its unit, and not the next field or a marker of an edge."""
        return token.text not in _NOT_UNITS and self.peek().kind != ":"

    def space_list(self) -> tuple[ast.MemoryPlace, ...]:
        return self.comma_list(self.expect("["), "]", self.memory_place)

    def name_list(self) -> tuple[str, ...]:
        return self.comma_list(self.expect("["), "]", self.word)

    def word(self) -> str:
        return self.expect_name("a name").text

    def quoted(self) -> str:
        return string_value(self.expect("string", "in quotes").text).decode("utf-8", "replace")

    def peer(self) -> tuple[ast.Quantity, ast.Quantity | None] | ast.MeasuredTable:
        if self.at_word("measured"):
            return self.measured_table()
        return self.quantity(), self.quantity() if self.accept_word("latency") else None

    def measured_table(self) -> ast.MeasuredTable:
        """`measured [size: time, …]`"""
        start = self.advance()
        opener = self.expect("[", "and the sizes with their times")
        try:
            points = self.comma_list(opener, "]", self.measured_point)
        except ParseError:
            while self.tok.kind not in ("]", "}", "eof"):  # what follows inside belongs to the same mistake
                self.advance()
            raise
        return ast.MeasuredTable(self.span_from(start), points)

    def measured_point(self) -> tuple[ast.Quantity, ast.Quantity]:
        size = self.quantity(is_unit=lambda _: True)  # its unit stands before a `:`, as fields elsewhere do
        self.expect(":", "and the time that this size takes")
        return size, self.quantity()

    def edge(self) -> ast.Edge:
        """`transfer A -> B [: cost [latency t] | : measured […]] {relaxed | sync | copy_engine}`"""
        start = self.advance()
        source = self.memory_place()
        self.expect("->", "and the space that the data goes to")
        target = self.memory_place()
        cost: ast.Quantity | None = None
        latency: ast.Quantity | None = None
        table: ast.MeasuredTable | None = None
        if self.accept(":"):
            if self.at_word("measured"):
                table = self.measured_table()
            else:
                cost = self.quantity()
                latency = self.quantity() if self.accept_word("latency") else None
        markers: list[str] = []
        while self.tok.kind == "ident" and self.tok.text in _MARKERS:
            markers.append(self.advance().text)
        return ast.Edge(self.span_from(start), source, target, cost, latency, tuple(markers), table)


def _split_unit(token: Token) -> tuple[str, str | None]:
    """`63GB` is the number `63` with the unit `GB`; exponents and `0x` stay, for `machine` to refuse."""
    parts = number_parts(token.text)
    return parts.digits, parts.suffix


FieldValue = Callable[[DeclParser], object]


_MEMORY_FIELDS: dict[str, FieldValue | None] = {
    "within": DeclParser.memory_place,
    "capacity": DeclParser.quantity,
    "granule": DeclParser.quantity,
    "bandwidth": DeclParser.quantity,
    "clock": DeclParser.quantity,
    "replicas": DeclParser.quantity,
    "managed": DeclParser.word,
    "crossing": DeclParser.word,
    "scope": DeclParser.word,
    "reserve": DeclParser.quantity,
    "overcommit": None,
}

_TOPOLOGY_FIELDS: dict[str, FieldValue | None] = {
    "memory": DeclParser.memory_place,
    "visible": DeclParser.space_list,
    "arch": DeclParser.word,
    "isa": DeclParser.word,
    "dtypes": DeclParser.name_list,
    "instances": DeclParser.quantity,
    "peer": DeclParser.peer,
}

_MEASURED_FIELDS: dict[str, FieldValue | None] = dict.fromkeys(
    ("date", "part", "uuid", "driver", "tool", "network"), DeclParser.quoted
)

_BLOCKS = {"memory space": _MEMORY_FIELDS, "topology": _TOPOLOGY_FIELDS, "measurement": _MEASURED_FIELDS}
"""What a block is called that has these fields."""
