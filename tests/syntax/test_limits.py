"""Inputs that are hostile by size or depth: a coded error or a result, soon, and never an exception."""

from __future__ import annotations

import random
import sys
import time

import pytest

from tests.syntax.helpers import codes, parse, tree
from vx.diagnostics.report import MAX_ERRORS
from vx.syntax.dump import dump_ast
from vx.syntax.limits import MAX_NESTING, recursion_room

DEEP = 10_000


def in_main(text: str) -> str:
    return f"fn main() -> i32 {{ {text} }}"


@pytest.mark.parametrize(
    "text",
    [
        in_main("(" * DEEP + "1" + ")" * DEEP),
        in_main("[" * DEEP + "]" * DEEP),
        "fn main() -> i32 " + "{" * DEEP + "}" * DEEP,
        in_main("if x {" * DEEP + "}" * DEEP),
        in_main("if x { } else " * DEEP + "{ }"),
        in_main("match x { A => " * DEEP + "1" + "}" * DEEP),
        in_main("match x { " + "A(" * DEEP + ")" * DEEP + " => 1 }"),
        in_main("-" * DEEP + "1"),
        in_main("f(" * DEEP + ")" * DEEP),
        in_main("1 + " * DEEP + "1"),
        in_main("x" + ".f()" * DEEP),
        in_main("x" + " as i32" * DEEP),
        in_main("|x| " * DEEP + "1"),
        in_main("A { x: " * DEEP + "1" + "}" * DEEP),
        in_main("Topology::T[" * DEEP + "1" + "]" * DEEP),
        in_main("f<" * DEEP),
        in_main("let x : " + "Vec<" * DEEP + "i32" + ">" * DEEP + " = 1;"),
        in_main("let x : " + "&" * DEEP + "i32 = 1;"),
        in_main("let x : " + "fn(" * DEEP + "i32 = 1;"),
    ],
)
def test_deep_nesting_is_a_coded_error(text: str) -> None:
    assert "E0107" in codes(text)


@pytest.mark.parametrize(
    "text",
    [
        in_main("(" * 90 + "1" + ")" * 90),
        in_main("{" * 90 + "1" + "}" * 90),
        in_main("1 + " * (MAX_NESTING - 5) + "1"),
        in_main("x" + ".f()" * (MAX_NESTING - 5)),
    ],
)
def test_what_fits_is_accepted_and_can_be_walked(text: str) -> None:
    module, reporter = parse(text)
    assert not reporter.diagnostics
    with recursion_room():
        dump_ast(module)


def test_chains_in_nested_parentheses_count_together() -> None:
    text = "a"
    for _ in range(100):
        text = f"({text}{' + a' * 100})"
    assert codes(in_main(text)) == ["E0107"]


def test_recursion_limit_is_restored() -> None:
    before = sys.getrecursionlimit()
    codes(in_main("(" * DEEP))
    assert sys.getrecursionlimit() == before


def _random_text(alphabet: str, size: int) -> str:
    return "".join(random.Random(1).choices(alphabet, k=size))


MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    "text",
    [
        _random_text("".join(map(chr, range(256))), MEGABYTE),
        _random_text('(){}[]<>;,.:=+-*/&|"!?@a1 \n', MEGABYTE),
        in_main("(" * MEGABYTE),
        in_main('"' + "a" * MEGABYTE),
        '"\\"\n' * (MEGABYTE // 4),
        in_main("9" * MEGABYTE),
        "/*" * (MEGABYTE // 2),
        "fn f() -> i32 {\n" * (MEGABYTE // 32),
        in_main("x " + "a<Tensor<f32,[b<" * (MEGABYTE // 64)),
        in_main("f(" + "a<b," * (MEGABYTE // 64) + ")"),
    ],
)
def test_a_megabyte_of_nonsense_takes_bounded_time(text: str) -> None:
    start = time.perf_counter()
    _, reporter = parse(text)
    assert len(reporter.diagnostics) <= MAX_ERRORS
    assert time.perf_counter() - start < 10


def test_empty_file() -> None:
    assert tree("") == "Module\n"
    assert tree("// nothing\n") == "Module\n"
    assert tree("/// nothing\n") == "Module\n"


def test_speed() -> None:
    text = "".join(
        f"fn f{i}(a : &Tensor<f32, [N, ?]>, b : i32) -> i32 {{\n"
        "  let mut x : i32 = a.extent(0) as i32 + b * 2;\n"
        "  for i in 0..x { if i < b { x += g<3>(i, a[i, 0..b]); } else { h(&x); } }\n"
        "  x\n}\n"
        for i in range(400)
    )
    best = min(_time(text) for _ in range(3))
    assert text.count("\n") == 2000
    assert best < 0.4


def _time(text: str) -> float:
    """Processor time, so that a busy machine is not a slow parser."""
    start = time.process_time()
    parse(text)
    return time.process_time() - start
