"""Tokens and syntax trees as text, for `vx emit --stage tokens|ast` and for tests.

Enters: what the lexer or the parser made. Leaves: one line per token, or an indented tree with one line
per node: its class, its plain fields, and its children under the names of their fields. Fields that are
empty (`None`, `False`, `()`, `""`) are left out; positions too, so that the text is stable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vx.diagnostics.span import Span
from vx.syntax.ast import Module, Node
from vx.syntax.lexer import KEYWORDS, Token


def dump_tokens(tokens: Sequence[Token]) -> str:
    """One line per token: character offsets, kind, text."""
    lines = []
    for token in tokens:
        kind = "keyword" if token.kind in KEYWORDS else "mark" if token.kind == token.text else token.kind
        text = token.text.replace("\\", "\\\\").replace("\n", "\\n")
        lines.append(f"{token.start:>6}..{token.end:<6} {kind:<8}{text}".rstrip())
    return "\n".join(lines) + "\n"


def dump_ast(module: Module) -> str:
    """The tree of a module as indented text."""
    return "\n".join(_lines(module, "", 0)) + "\n"


def dump_node(node: Node) -> str:
    """The tree of any node as indented text."""
    return "\n".join(_lines(node, "", 0)) + "\n"


def _lines(node: Node, label: str, indent: int) -> Iterator[str]:
    plain: list[str] = []
    children: list[tuple[str, object]] = []
    for name in type(node).__slots__:
        value = getattr(node, name)
        if isinstance(value, Span) or value is None or value is False or value == "":
            continue
        if value == () and name != "dims":  # a tensor of rank 0 is not one without dimensions
            continue
        if _has_nodes(value):
            children.append((name, value))
        else:
            plain.append(_plain(name, value))
    prefix = "  " * indent + (f"{label}: " if label else "")
    yield " ".join([prefix + type(node).__name__, *plain])
    for name, value in children:
        yield from _child_lines(name, value, indent + 1)


def _child_lines(name: str, value: object, indent: int) -> Iterator[str]:
    if isinstance(value, Node):
        yield from _lines(value, name, indent)
    elif isinstance(value, tuple):
        for position, element in enumerate(value):
            label = name if len(value) == 1 else f"{name}[{position}]"
            if isinstance(element, Node | tuple):
                yield from _child_lines(label, element, indent)
            else:
                yield "  " * indent + f"{label}: {'?' if element is None else element}"


def _has_nodes(value: object) -> bool:
    if isinstance(value, tuple):
        return any(_has_nodes(element) or element is None for element in value)
    return isinstance(value, Node)


def _plain(name: str, value: object) -> str:
    if value is True:
        return name
    if isinstance(value, tuple):
        return f"{name}={'::'.join(map(str, value))}" if name in ("segments", "path") else f"{name}={value!r}"
    if isinstance(value, bytes):
        return f"{name}={value!r}"
    return f"{name}={value!r}" if name in ("doc", "text", "what") else f"{name}={value}"
