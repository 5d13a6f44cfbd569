"""The grammar's page and the parser agree: random programs derived from the page parse."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.syntax.helpers import parse
from vx.syntax import parse_decl, parse_expr
from vx.syntax.lexer import KEYWORDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "grammar.md").read_text(encoding="utf-8")

Node = tuple[str, object]
"""("seq" | "alt", list of nodes), ("opt" | "many", node), ("word", text) or ("rule", name)."""

_WORDS = {
    "IDENT": ["a", "b", "n", "f", "T", "_x1"],
    "NUMBER": ["0", "17", "3i64", "1.5", "2.5f64", "1e-3", "0x1f", "1_000"],
    "INT": ["1", "40"],
    "STRING": ['"text"', '"a\\n"', '""'],
    "UNIT": ["B", "GB", "KiB", "GHz", "us"],
}
_SELF_CONTAINED = {"{", "unsafe", "comptime", "if", "match", "spawn", "print!", "println!", "eprint!", "eprintln!"}
_DEPTH = 26


def _read_grammar() -> dict[str, Node]:
    text = "\n".join(re.findall(r"```ebnf\n(.*?)```", PAGE, re.DOTALL))
    text = re.sub(r"\(\*.*?\*\)", "", text)
    tokens = re.findall(r'"[^"]*"|\w+|[=;|()\[\]{}]', text)
    rules: dict[str, Node] = {}
    at = 0

    def alternatives(closer: str) -> Node:
        nonlocal at
        options: list[Node] = []
        sequence: list[Node] = []
        while tokens[at] != closer:
            token = tokens[at]
            at += 1
            if token == "|":
                options.append(("seq", sequence))
                sequence = []
            elif token in ("[", "{", "("):
                inner = alternatives({"[": "]", "{": "}", "(": ")"}[token])
                sequence.append({"[": ("opt", inner), "{": ("many", inner), "(": inner}[token])
            else:
                sequence.append(("word", token[1:-1]) if token[0] == '"' else ("rule", token))
        at += 1
        options.append(("seq", sequence))
        return ("alt", options)

    while at < len(tokens):
        name = tokens[at]
        assert tokens[at + 1] == "=", tokens[at : at + 3]
        at += 2
        rules[name] = alternatives(";")
    return rules


RULES = _read_grammar()


class _Writer:
    """Derives random sentences; past `_DEPTH` levels it takes the alternatives with the fewest rules."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.in_head = 0

    def derive(self, node: Node, depth: int) -> list[str]:
        kind, value = node
        if kind == "word":
            return [str(value)]
        if kind == "rule":
            return self.rule(str(value), depth + 1)
        if kind == "seq":
            assert isinstance(value, list)
            return [word for part in value for word in self.derive(part, depth)]
        if kind == "alt":
            assert isinstance(value, list)
            return self.derive(self.pick(value, depth), depth)
        assert isinstance(value, tuple)
        times = 0 if depth > _DEPTH // 2 else self.random.choice([0, 1] if kind == "opt" else [0, 0, 1, 1, 2])
        return [word for _ in range(times) for word in self.derive(value, depth)]

    def pick(self, options: list[Node], depth: int) -> Node:
        if self.in_head:
            options = [option for option in options if option != ("seq", [("rule", "struct_lit")])]
        if depth > _DEPTH:
            least = min(_rules_in(option) for option in options)
            options = [option for option in options if _rules_in(option) == least]
        return self.random.choice(options)

    def rule(self, name: str, depth: int) -> list[str]:
        if name in _WORDS:
            return [self.random.choice(_WORDS[name])]
        if name == "head":
            self.in_head += 1
            words = self.derive(RULES[name], depth)
            self.in_head -= 1
            return words
        words = self.derive(RULES[name], depth)
        while name in ("expr_stmt", "value") and words[0] in _SELF_CONTAINED:
            words = self.derive(RULES[name], depth + 1)
        return words


def _rules_in(node: Node) -> int:
    """How many rules a node needs at least, where lexical ones count for nothing."""
    kind, value = node
    if kind in ("word", "opt", "many"):
        return 0
    if kind == "rule":
        return 0 if value in _WORDS else 1
    assert isinstance(value, list)
    counts = [_rules_in(part) for part in value]
    return min(counts) if kind == "alt" else sum(counts)


def test_every_rule_is_declared_and_used() -> None:
    def used(node: Node) -> set[str]:
        kind, value = node
        if kind == "rule":
            return {str(value)}
        if kind == "word":
            return set()
        parts = value if isinstance(value, list) else [value]
        return set().union(*(used(part) for part in parts))  # type: ignore[arg-type]

    named = set().union(*(used(rule) for rule in RULES.values()))
    assert named - set(RULES) - set(_WORDS) == set()
    assert set(RULES) - named == {"module"}


@pytest.mark.parametrize("rule", sorted({"item", "fn", "memory_decl", "topology_decl", "impl", "struct", "enum"}))
def test_items_derived_from_the_grammar_parse(rule: str) -> None:
    for seed in range(60):
        _check(" ".join(_Writer(seed).rule(rule, 0)))


@pytest.mark.parametrize("rule", ["expr", "stmt", "type", "primary", "match", "tensor"])
def test_parts_derived_from_the_grammar_parse(rule: str) -> None:
    frame = {"type": "fn f(x : {}) -> void {{ }}", "stmt": "fn f() -> void {{ {} }}"}.get(
        rule, "fn f() -> void {{ let x = {}; }}"
    )
    for seed in range(120):
        _check(frame.format(" ".join(_Writer(seed).rule(rule, 6))))


def _check(text: str) -> None:
    if text.count("(") + text.count("{") + text.count("[") > 400:
        return
    _, reporter = parse(text)
    for diagnostic in reporter.diagnostics:
        start = diagnostic.span.start
        raise AssertionError(
            f"{diagnostic.message} at `{text[max(0, start - 160) : start]}⟨here⟩{text[start : start + 40]}`"
        )


def test_lists_of_words() -> None:
    listed = re.search(r"Keywords: (.*?)\.\n", PAGE, re.DOTALL)
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1])) == KEYWORDS
    table = {
        word.replace("\\|", "|"): int(strength)
        for strength, words in re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)
        for word in re.findall(r"`([^`]+)`", words)
    }
    assert table == parse_expr._PRECEDENCE


def test_fields_of_declarations() -> None:
    def words(rule: str) -> set[str]:
        _, options = RULES[rule]
        assert isinstance(options, list)
        return {str(option[1][0][1]) for option in options}

    assert words("memory_field") == set(parse_decl._MEMORY_FIELDS)
    assert words("topology_field") == {*parse_decl._TOPOLOGY_FIELDS, "transfer"}
