"""Properties that hold for any text."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.syntax.helpers import parse
from vx.diagnostics.render import render_json, render_text
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import Span
from vx.syntax.ast import Node
from vx.syntax.dump import dump_ast, dump_tokens
from vx.syntax.lexer import KEYWORDS, lex

_WORDS = [
    *sorted(KEYWORDS),
    *[
        "x",
        "y",
        "f",
        "T",
        "role",
        "const",
        "type",
        "true",
        "within",
        "Tensor",
        "Reachable",
        "sizeof",
        "grad",
        "NAN",
        "self",
        "1",
        "0.5",
        "3i32",
        "0x1",
        "5GB",
    ],
    *[
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        "<=",
        ">=",
        "==",
        "!=",
        "=",
        "=>",
        "->",
        "+",
        "-",
        "*",
        "/",
        "%",
        "@",
        "&",
        "&&",
        "|",
        "||",
        "^",
        "!",
        "?",
        ".",
        "..",
        ":",
        "::",
        ";",
        ",",
        "+=",
        "-=",
        "$",
        "//",
        "///",
        "/*",
    ],
    *('"s"', '"open', "'c", "#", "\n", "Memory::M", "Topology::T[0]", "f<3>()", "Vec<i32>", "fn g() -> i32 {"),
]

texts = st.one_of(st.text(max_size=200), st.lists(st.sampled_from(_WORDS), max_size=60).map(" ".join))
bodies = st.lists(st.sampled_from(_WORDS), max_size=40).map(lambda words: f"fn f() -> i32 {{ {' '.join(words)} }}")


def nodes(root: object) -> Iterator[Node]:
    pending = [root]
    while pending:
        value = pending.pop()
        if isinstance(value, tuple):
            pending.extend(value)
        elif isinstance(value, Node):
            yield value
            pending.extend(getattr(value, name) for name in type(value).__slots__)


def inside(span: Span, text: str) -> bool:
    return 0 <= span.start <= span.end <= len(text)


@given(st.one_of(texts, bodies))
@settings(max_examples=400, deadline=None)
def test_any_text_gives_a_tree_or_reports(text: str) -> None:
    module, reporter = parse(text)
    for node in nodes(module):
        assert inside(node.span, text), node
    for diagnostic in reporter.diagnostics:
        assert inside(diagnostic.span, text), diagnostic
        assert all(inside(label.span, text) for label in diagnostic.labels)
        assert all(inside(item.span, text) for item in diagnostic.helps if item.span)
    sources = SourceMap()
    sources.add("test.vx", text)
    assert render_text(reporter.diagnostics, sources).count("Error[") >= len(reporter.diagnostics)
    render_json(reporter.diagnostics, sources)
    assert dump_ast(module).startswith("Module")


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_tokens_stand_in_order_and_say_what_is_there(text: str) -> None:
    tokens = lex(text, "t", Reporter())
    assert tokens[-1].kind == "eof"
    end = 0
    for token in tokens:
        assert end <= token.start <= token.end <= len(text)
        expected = text[token.start : token.end]
        assert token.text == (expected[3:].rstrip("\r") if token.kind == "doc" else expected)
        end = token.end
    dump_tokens(tokens)


@given(bodies)
@settings(max_examples=200, deadline=None)
def test_children_lie_within_their_parents(text: str) -> None:
    module, reporter = parse(text)
    if reporter.has_errors:
        return
    for parent in nodes(module):
        for name in type(parent).__slots__:
            for child in nodes(getattr(parent, name)):
                assert parent.span.start <= child.span.start and child.span.end <= parent.span.end, (parent, child)
