"""`requires`: checked when compiling as far as it is known then, otherwise on entry, where it bounds extents."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cases import accepted, checked, dumped, expect, whole

from vx.diagnostics.span import Span
from vx.sema import bounds, tree
from vx.sema.types import integer_range

CASES = {
    "constant": "fn f<const N : i32>() -> i32 requires N > 2 { N }\nfn main() -> i32 { f<3>();\n f<2>()  //! E8002\n}",
    "constant_part": "fn f<const N : i32>(n : i32) -> i32 requires n > 2 && N > 2 { n }\nfn main() -> i32 { f<3>(1);\n f<2>(3)  //! E8002\n}",
    "run_time": "fn f(n : i32) -> i32 requires n > 2 { n }\nfn main() -> i32 { f(3) }",
    "not_bool": "fn f(n : i32) -> i32 requires n { n }  //! E3006\nfn main() -> i32 { 0 }",
    "constant_not_bool": "fn f(n : i32) -> i32 requires 3 { n }  //! E3006\nfn main() -> i32 { 0 }",
    "unknown_name": "fn f(n : i32) -> i32 requires m > 2 { n }  //! E0201\nfn main() -> i32 { 0 }",
    "local_of_the_body": "fn f(n : i32) -> i32 requires m > 2 {  //! E0201\n let m = n;  m }\nfn main() -> i32 { 0 }",
    "counts_as_use": "fn f(n : i32) -> i32 requires n > 2 { 0 }\nfn main() -> i32 { f(3) }",
    "ensures": "fn f(n : i32) -> i32 ensures n > 2 { n }  //! E0901\nfn main() -> i32 { f(3) }",
    "in_a_constant": "fn f(n : i32) -> i32 requires n > 2  //! E8002\n { n }\nconst A : i32 = f(2);\nfn main() -> i32 { A }",
    "longer_than_bound": "fn f(n : i32) -> void requires n <= 4 { let mut t = Tensor<f32, [4]>::new();\n t[0..n] = Tensor<f32, [5]>::new();  //! E7005\n }\nfn main() -> i32 { f(3); 0 }",
    "product_of_bounded": "fn f(n : i32) -> void requires n <= 4 { let a = Tensor<f32, [2, n]>::new();\n let b = a @ Tensor<f32, [5, 2]>::new();  //! E7001\n print(b); }\nfn main() -> i32 { f(3); 0 }",
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_requires(name: str, tmp_path: Path) -> None:
    expect(tmp_path, CASES[name], warnings=True)


def test_checks_on_entry_come_first_and_name_the_condition(tmp_path: Path) -> None:
    source = "fn f<const N : i32>(n : i32) -> i32\n requires N > 0 && n <\n  N requires n != 2 { let m = n;  m }\nfn main() -> i32 { f<8>(3) }"
    body = accepted(tmp_path, source).functions["f<8>"].body
    checks = [stmt for stmt in body.stmts if isinstance(stmt, tree.Assert)]
    assert list(body.stmts[:2]) == checks
    assert [check.message for check in checks] == [b"`f<8>` requires `n < N`", b"`f<8>` requires `n != 2`"]


@pytest.mark.parametrize(
    ("requires", "extent", "dim"),
    [
        ("requires n <= 8", "n", "? (at most 8)"),
        ("requires n == 8", "n", "? (at most 8)"),
        ("requires n >= 8", "n", "?"),
        ("requires n > 8 && 20 > n", "n / 2", "? (at most 9)"),
        ("requires n <= -8", "n", "? (at most 0)"),
        ("requires n <= 8", "(n - 9) as u32", "?"),
        ("requires n <= 8", "n * -1", "?"),
        ("requires n <= 8 && n >= -8", "n * -3", "? (at most 24)"),
        ("requires n <= 8 && n >= -8", "n * n", "? (at most 64)"),
        ("requires n <= 8 && n >= 0", "(n as u8) * 32", "?"),
        ("requires n <= 8 && n >= 0", "(n as u8) * 31", "? (at most 248)"),
        ("requires n <= 8", "100 / n", "?"),
        ("requires n <= 8 && n > 1", "100 / n", "? (at most 50)"),
        ("requires n <= 8", "n % 4", "?"),
        ("requires n <= 8", "-n", "?"),
        ("requires n <= 8", "{ n }", "?"),
    ],
)
def test_bounds(requires: str, extent: str, dim: str, tmp_path: Path) -> None:
    source = f"fn f(n : i32) -> void {requires} {{ let t = Tensor<f32, [{extent}]>::new();  print(t); }}\nfn main() -> i32 {{ f(3); 0 }}"
    assert f"Tensor<f32, [{dim}]>" in dumped(tmp_path, source, "f")


def test_bounds_of_recursive_views_end(tmp_path: Path) -> None:
    """Each instance of a function over an open shape asks for one with a smaller bound only so often."""
    source = """
fn f(x : &Tensor<f32>, n : i32) -> f32 requires n <= 100 {
  if n <= 1 { 0.0 } else { let m = n - 1;  x[0] + f(&x[1..n], m) + f(&x[0..m / 2], m / 2) }
}
fn g(x : &Tensor<f32>) -> f32 {
  let n = x.extent(0);
  if n <= 1 { 0.0 } else { x[0] + g(&x[1..n]) + g(&x[0..n - 1]) }
}
fn main() -> i32 { let x = Tensor<f32, [?]>([1.0, 2.0]);  print(f(&x, 2) + g(&x[0..x.extent(0)])); 0 }
"""
    program = accepted(tmp_path, source)
    assert 3 < len(program.functions) < 20


def test_dimensions_are_exact_in_expressions(tmp_path: Path) -> None:
    source = (
        "let t = Tensor<u8, [70000 * 70000]>::uninit();  let u = t.reshape([70000 * 7000, 10]);  print(u.extent(0));"
    )
    assert "Tensor<u8, [4900000000]>" in dumped(tmp_path, source)
    _, found, _ = checked(
        tmp_path, whole("let t = Tensor<u4, [4294967296 * 2147483648]>::uninit();  print(t.extent(0));")
    )
    assert [d.code for d in found] == ["E7006"]


# ---- the arithmetic of bounds, against values ---------------------------------------------------
SPAN = Span("", 0, 0)
TYPES = ("i8", "u8", "i16", "i32", "u32", "i64", "u64", "i128")


def wrapped(value: int, type_: str) -> int:
    low, high = integer_range(type_)
    return (value - low) % (high - low + 1) + low


def made(choose: random.Random, type_: str, depth: int, locals_: dict[int, tuple[str, int]]) -> tree.Value:
    """A random expression of a type over locals, by id: their types and values."""
    scalar = tree.Scalar(type_)
    kind = choose.choice(["leaf"] if depth == 0 else ["leaf", "cast", "min", *"+-*/"])
    if kind == "leaf":
        mine = [id_ for id_, (name, _) in locals_.items() if name == type_]
        if mine and choose.random() < 0.7:
            return tree.Read(scalar, SPAN, tree.Local(scalar, SPAN, choose.choice(mine)), move=False)
        return tree.Const(scalar, SPAN, wrapped(choose.randint(-5, 300), type_))
    if kind == "cast":
        return tree.Cast(scalar, SPAN, made(choose, choose.choice(TYPES), depth - 1, locals_))
    left, right = (made(choose, type_, depth - 1, locals_) for _ in range(2))
    return (
        tree.Math(scalar, SPAN, "min", (left, right)) if kind == "min" else tree.Binary(scalar, SPAN, kind, left, right)
    )


def valued(value: tree.Value, locals_: dict[int, tuple[str, int]]) -> int:
    """What the running program computes. Raises `ZeroDivisionError`."""
    assert isinstance(value.type, tree.Scalar)
    match value:
        case tree.Const(value=number):
            return int(number)
        case tree.Read(place=tree.Local(id=id_)):
            return locals_[id_][1]
        case tree.Cast(operand=operand):
            result = valued(operand, locals_)
        case tree.Math(args=(left, right)):
            result = min(valued(left, locals_), valued(right, locals_))
        case tree.Binary(op=op, left=left, right=right):
            a, b = valued(left, locals_), valued(right, locals_)
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if op == "/" else 0
            result = {"+": a + b, "-": a - b, "*": a * b, "/": quotient}[op]
        case _:
            raise AssertionError(value)
    return wrapped(result, value.type.name)


def test_values_lie_in_their_intervals() -> None:
    choose, bounded = random.Random(7), 0
    for _ in range(8000):
        locals_: dict[int, tuple[str, int]] = {}
        known: dict[int, bounds.Interval] = {}
        for id_, type_ in enumerate(choose.choices(TYPES, k=6)):
            low, high = integer_range(type_)
            value = wrapped(choose.choice([choose.randint(-20, 300), choose.randint(low, high), low, high]), type_)
            locals_[id_] = (type_, value)
            read = tree.Read(tree.Scalar(type_), SPAN, tree.Local(tree.Scalar(type_), SPAN, id_), move=False)
            for op, limit in (("<=", value + choose.randint(0, 50)), (">=", value - choose.randint(0, 50))):
                if choose.random() < 0.6:
                    limit_ = tree.Const(read.type, SPAN, min(max(limit, low), high))
                    bounds.learn(known, tree.Binary(tree.BOOL, SPAN, op, read, limit_))
        expression = made(choose, choose.choice(TYPES), 3, locals_)
        try:
            value = valued(expression, locals_)
        except ZeroDivisionError:
            continue
        found = bounds.interval(expression, known)
        assert found.low <= value <= found.high, (expression, locals_, known)
        bounded += found.stated
    assert bounded > 2000, "most expressions were not bounded at all"
