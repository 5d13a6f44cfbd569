"""Text to syntax tree: the items of a source file, on top of the other parser layers.

Enters: the text of one file. Leaves: `ast.Module`, with an error reported for everything that was not
understood; what could be read is in the tree even then.

The layers, each a class on top of the previous one: `cursor` (tokens, errors, recovery), `parse_types`,
`parse_pattern`, `parse_expr`, `parse_stmt`, `parse_decl`, and the items here.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TypeVar

from vx.diagnostics.report import Help, Reporter
from vx.diagnostics.span import Span
from vx.syntax import ast
from vx.syntax.cursor import GiveUp, ParseError, UnclosedBlock
from vx.syntax.lexer import string_value
from vx.syntax.limits import MAX_NESTING, nests_too_deeply, recursion_room
from vx.syntax.parse_decl import DeclParser

T = TypeVar("T")

_ITEM_WORDS = (
    "fn", "role", "struct", "enum", "impl", "trait", "extern", "import", "const", "type", "Memory", "Topology", "unsafe",
)  # fmt: skip
_FOREIGN_WORDS = {
    "use": "modules are brought in with `import`, as in `import std::math;`",
    "mod": "a module is a file; bring it in with `import`",
    "static": "a value known at compile time is a `const`",
    "var": "variables are declared in functions, with `let` or `let mut`",
    "def": "functions are declared with `fn`",
    "func": "functions are declared with `fn`",
    "function": "functions are declared with `fn`",
    "class": "types are declared with `struct` and get methods in an `impl`",
    "typedef": "a type gets another name with `type Name = …;`",
    "include": "modules are brought in with `import`",
}
_STATEMENT_WORDS = frozenset({"let", "for", "while", "loop", "if", "match", "return", "spawn", "assert"})


def parse_module(text: str, file: str, reporter: Reporter) -> ast.Module:
    """Parse one source or machine file. Errors (E01xx) go to `reporter`; nothing is raised."""
    found = Reporter()
    with recursion_room():
        module = Parser(text, file, found).module()
    for diagnostic in sorted(found.diagnostics, key=lambda diagnostic: diagnostic.span.start):
        reporter.add(diagnostic)
    return module


class Parser(DeclParser):
    def module(self) -> ast.Module:
        items: list[ast.Item] = []
        try:
            while self.tok.kind != "eof":
                item = self.item_or_skip()
                if item is not None:
                    items.append(item)
        except GiveUp:
            pass
        return ast.Module(Span(self.file, 0, len(self.text)), tuple(items))

    def item_or_skip(self) -> ast.Item | None:
        """The next item; after an error, None, at the start of the next thing that looks like an item."""
        before = self.pos
        self.depth = self.deepest = self.longest_chain = 0
        try:
            item = self.item()
            self.check_height(item)
            return item
        except ParseError as error:
            self.report(error)
            self.struct_ok = True
            begun = self.pos > before
            if not (begun and self.at_item() and (self.on_new_line() or isinstance(error, UnclosedBlock))):
                self.skip_item(begun)
            return None

    def check_height(self, item: ast.Item) -> None:
        """Refuse an item whose tree is deeper than later stages can walk (E0107)."""
        if self.deepest * (self.longest_chain + 1) > MAX_NESTING:
            span = nests_too_deeply(item)
            if span is not None:
                raise self.too_deep(span)

    # ---- items ----
    def item(self) -> ast.Item:
        doc = self.docs.get(self.pos, "")
        kind = self.tok.text if self.tok.kind == "ident" else self.tok.kind
        parse = _ITEMS.get(kind)
        if parse is None or (kind in _CONTEXTUAL and self.peek().kind not in _CONTEXTUAL[kind]):
            raise self.not_an_item()
        return parse(self, doc)

    def not_an_item(self) -> ParseError:
        token = self.tok
        if token.kind == "}":
            return self.failure(
                "E0110", "this `}` closes nothing", token.span, helps=["remove it, or look above for a missing `{`"]
            )
        helps: list[str | Help] = []
        if token.text == "pub":
            helps.append("everything in a module is visible to those who import it; leave `pub` out")
        elif token.text in _FOREIGN_WORDS:
            helps.append(_FOREIGN_WORDS[token.text])
        elif token.kind in _STATEMENT_WORDS or token.text in ("print", "println"):
            helps.append("statements stand in functions; a program starts in `fn main() -> i32 { … }`")
        elif token.kind == "ident":
            near = get_close_matches(token.text, _ITEM_WORDS, n=1)
            helps.extend(Help(f"did you mean `{word}`?", token.span, word) for word in near)
        return self.unexpected(
            "a declaration", notes=["a file consists of `fn`, `struct`, `import` and the like"], helps=helps
        )

    def import_(self, doc: str) -> ast.Import | ast.ImportFile:
        start = self.advance()
        if self.tok.kind == "string":
            path = string_value(self.advance().text).decode("utf-8", "replace")
            self.semicolon("this import")
            return ast.ImportFile(self.span_from(start), path)
        names = [self.expect_name("the name of a module after `import`").text]
        while self.accept("::"):
            names.append(self.expect_name("the name of a module after `::`").text)
        self.semicolon("this import")
        return ast.Import(self.span_from(start), tuple(names))

    def const(self, doc: str) -> ast.ConstItem:
        start = self.advance()
        name = self.expect_name("the name of a constant")
        self.expect(":", f"and the type of `{name.text}`")
        type_ = self.type()
        self.expect("=", f"and the value of `{name.text}`")
        value = self.expression()
        self.semicolon("this constant")
        return ast.ConstItem(self.span_from(start), name.text, type_, value)

    def type_alias(self, doc: str) -> ast.TypeAlias:
        start = self.advance()
        name = self.expect_name("the name of a type")
        if self.tok.kind == "<":
            raise self.unexpected("`=`", notes=["a type alias takes no generic parameters"])
        self.expect("=", f"and the type that `{name.text}` stands for")
        type_ = self.type()
        self.semicolon("this type")
        return ast.TypeAlias(self.span_from(start), name.text, type_)

    # ---- functions ----
    def function(self, doc: str) -> ast.Function:
        """`[role] [unsafe] fn name<generics>(params) [on T] -> type contracts { … }`"""
        start = self.tok
        is_role = self.accept_word("role") is not None
        is_unsafe = self.accept("unsafe") is not None
        self.expect("fn")
        name = self.expect_name("the name of a function")
        generics = self.generics()
        params = self.params()
        on = self.topology_place() if self.accept("on") else None
        ret = self.return_type(name.text)
        requires, ensures, where = self.contracts()
        body = self.block("and the body of the function")
        return ast.Function(
            self.span_from(start), name.text, name.span, generics, params, on, ret, requires, ensures, where, body,
            is_unsafe, is_role, doc,
        )  # fmt: skip

    def return_type(self, name: str) -> ast.TypeExpr:
        """`-> type`. Without one, E0114 is reported and the function taken to return nothing."""
        if self.accept("->"):
            return self.type()
        at = Span(self.file, self.last.end, self.last.end)
        help_ = Help("write the type after `->`; a function that returns nothing says `-> void`", at, " -> void")
        if name == "main":
            help_ = Help("`main` returns the exit status", at, " -> i32")
        error = self.failure("E0114", f"`{name}` does not say what it returns", self.last.span, helps=[help_])
        if self.tok.kind not in ("{", ";"):
            raise error
        self.report(error)
        return ast.PathType(at, ("void",), ())

    def params(self) -> tuple[ast.Param, ...]:
        """`(name : type, …)`; a wrong parameter is reported and left out."""
        opener = self.expect("(", "and the parameters")
        params: list[ast.Param] = []
        while self.tok.kind != ")":
            param = self.recovering(self.param)
            if param is not None:
                params.append(param)
            else:
                while self.tok.kind not in (",", ")", "{", "}", ";", "->", "eof"):
                    self.advance()
            if not self.accept(","):
                break
        self.close(")", opener)
        return tuple(params)

    def param(self) -> ast.Param:
        start = self.tok
        if start.kind in ("&", "mut"):
            raise self.misplaced_self_or_mut()
        name = self.expect_name("the name of a parameter")
        if name.text == "self" and self.tok.kind != ":":
            raise self.self_without_type(name.span, "self : T")
        self.expect(":", f"and the type of `{name.text}`")
        type_ = self.type()
        return ast.Param(self.span_from(start), name.text, type_)

    def misplaced_self_or_mut(self) -> ParseError:
        mutable = self.peek().kind == "mut"
        if self.tok.kind == "&" and self.peek(2 if mutable else 1).text == "self":
            return self.self_without_type(self.tok.span, f"self : &{'mut ' if mutable else ''}T")
        if self.tok.kind == "mut":
            return self.failure(
                "E0118",
                "a parameter cannot be `mut`",
                self.tok.span,
                helps=["give it a mutable copy in the body: `let mut x = x;`"],
            )
        return self.unexpected("the name of a parameter")

    def self_without_type(self, span: Span, spelling: str) -> ParseError:
        helps = [f"write `{spelling}`, where `T` is the type that the `impl` is for"]
        return self.failure("E0118", "`self` needs its type written out", span, helps=helps)

    def contracts(self) -> tuple[tuple[ast.Expr, ...], tuple[ast.Expr, ...], tuple[ast.ReachableBound, ...]]:
        requires: list[ast.Expr] = []
        ensures: list[ast.Expr] = []
        where: list[ast.ReachableBound] = []
        while True:
            if self.accept("requires"):
                requires.append(self.head())
            elif self.accept("ensures"):
                ensures.append(self.head())
            elif self.accept("where"):
                where.append(self.reachable_bound())
                while self.accept(",") and self.tok.kind != "{":
                    where.append(self.reachable_bound())
            else:
                return tuple(requires), tuple(ensures), tuple(where)

    def reachable_bound(self) -> ast.ReachableBound:
        start = self.tok
        self.expect_word("Reachable", "after `where`, as in `where Reachable<A, B>`")
        opener = self.expect("<")
        source = self.expect_name("the name of a topology parameter").text
        self.expect(",")
        target = self.expect_name("the name of a topology parameter").text
        self.close_angle(opener)
        return ast.ReachableBound(self.span_from(start), source, target)

    def generics(self) -> tuple[ast.GenericParam, ...]:
        """`<T, const N : i32, D : Topology>`, or nothing."""
        if self.tok.kind != "<":
            return ()
        opener = self.advance()
        params = [self.generic_param()]
        while self.accept(",") and self.tok.kind != ">":
            params.append(self.generic_param())
        self.close_angle(opener)
        return tuple(params)

    def generic_param(self) -> ast.GenericParam:
        start = self.tok
        if self.at_word("const") and self.peek().kind == "ident":
            self.advance()
            name = self.expect_name("the name of a generic constant").text
            self.expect(":", f"and the type of `{name}`")
            type_ = self.type()
            return ast.GenericParam(self.span_from(start), name, "const", type_, None)
        name = self.expect_name("the name of a generic parameter").text
        kind, bound = "type", None
        if self.accept(":"):
            if self.accept("Topology"):
                kind = "topology"
            else:
                bound = self.expect_name("`Topology` or the name of a trait").text
        return ast.GenericParam(self.span_from(start), name, kind, None, bound)

    # ---- types with members ----
    def members(self, parse: Callable[[], T]) -> tuple[T, ...]:
        """`{ member … }`; a comma after each is optional, a wrong one is reported and skipped."""
        opener = self.expect("{")
        found: list[T] = []
        while self.tok.kind not in ("}", "eof"):
            before = self.pos
            member = self.recovering(parse)
            if member is not None:
                found.append(member)
                self.accept(",")
                continue
            self.skip_field()
            if self.pos == before:
                self.advance()
        self.close("}", opener)
        return tuple(found)

    def struct(self, doc: str) -> ast.Struct:
        start = self.advance()
        name = self.expect_name("the name of a struct").text
        generics = self.generics()
        if self.tok.kind in (";", "("):
            raise self.unexpected("`{`", notes=["the fields of a struct have names, as in `struct P { x : f32 }`"])
        fields = self.members(self.field)
        return ast.Struct(self.span_from(start), name, generics, fields, doc)

    def field(self) -> ast.Field:
        start = self.tok
        name = self.expect_name("the name of a field").text
        self.expect(":", f"and the type of `{name}`")
        type_ = self.type()
        return ast.Field(self.span_from(start), name, type_)

    def enum(self, doc: str) -> ast.Enum:
        start = self.advance()
        name = self.expect_name("the name of an enum").text
        generics = self.generics()
        variants = self.members(self.variant)
        return ast.Enum(self.span_from(start), name, generics, variants, doc)

    def variant(self) -> ast.Variant:
        start = self.expect_name("the name of a variant")
        items: tuple[ast.TypeExpr, ...] = ()
        if self.tok.kind == "(":
            items = self.comma_list(self.advance(), ")", self.type)
        elif self.tok.kind in ("{", "="):
            what = "named fields" if self.tok.kind == "{" else "number"
            raise self.unexpected(
                "`,` after the variant", notes=[f"a variant has no {what}: write `{start.text}(i32)`"]
            )
        return ast.Variant(self.span_from(start), start.text, items)

    def impl(self, doc: str) -> ast.Impl | ast.TransferImpl:
        start = self.advance()
        if self.at_word("Transfer") and self.peek().kind == "<" and self.peek(2).kind == "Memory":
            return self.transfer_impl()
        generics = self.generics()
        trait: ast.TypeExpr | None = None
        target = self.type()
        if self.accept("for"):
            trait, target = target, self.type()
        functions = self.members(self.method)
        return ast.Impl(self.span_from(start), generics, trait, target, functions)

    def transfer_impl(self) -> ast.TransferImpl:
        start = self.advance()
        opener = self.expect("<")
        source = self.memory_place()
        self.expect(",")
        target = self.memory_place()
        self.close_angle(opener)
        self.expect("for", "and the topology")
        topology = self.topology_place()
        functions = self.members(self.method)
        return ast.TransferImpl(self.span_from(start), source, target, topology, functions)

    def method(self) -> ast.Function:
        if self.tok.kind not in ("fn", "unsafe"):
            raise self.unexpected("`fn`", notes=["an `impl` consists of functions"])
        return self.function(self.docs.get(self.pos, ""))

    def trait(self, doc: str) -> ast.Trait:
        start = self.advance()
        name = self.expect_name("the name of a trait").text
        self.generics()
        self.members(self.signature)
        return ast.Trait(self.span_from(start), name)

    def signature(self) -> ast.ExternFunction:
        """`[safe] fn name(params) -> type;`"""
        start = self.tok
        is_safe = self.accept("safe") is not None
        self.expect("fn")
        name = self.expect_name("the name of a function").text
        params = self.params()
        ret = self.return_type(name)
        self.semicolon(f"the declaration of `{name}`")
        return ast.ExternFunction(self.span_from(start), name, params, ret, is_safe)

    def extern(self, doc: str) -> ast.ExternBlock:
        start = self.advance()
        abi = "C"
        if self.tok.kind == "string":
            abi = string_value(self.advance().text).decode("utf-8", "replace")
        functions = self.members(self.signature)
        return ast.ExternBlock(self.span_from(start), abi, functions)

    def macro(self, doc: str) -> ast.MacroDef:
        start = self.advance()
        self.expect("!")
        name = self.expect_name("the name of a macro").text
        opener = self.tok
        if opener.kind != "{":
            raise self.unexpected("`{` and the rules")
        self.skip_group()
        if self.last.kind not in ("}", ")", "]"):
            raise self.unclosed(opener, "}")
        return ast.MacroDef(self.span_from(start), name)


_ITEMS: dict[str, Callable[[Parser, str], ast.Item]] = {
    "fn": Parser.function,
    "role": Parser.function,
    "unsafe": Parser.function,
    "struct": Parser.struct,
    "enum": Parser.enum,
    "impl": Parser.impl,
    "trait": Parser.trait,
    "extern": Parser.extern,
    "import": Parser.import_,
    "const": Parser.const,
    "type": Parser.type_alias,
    "Memory": Parser.memory_decl,
    "Topology": Parser.topology_decl,
    "Measured": Parser.measured_decl,
    "macro_rules": Parser.macro,
}

_CONTEXTUAL = {"role": ("fn", "unsafe"), "macro_rules": ("!",), "Measured": ("{",)}
"""Words that are also ordinary names: what has to follow for them to start an item."""
