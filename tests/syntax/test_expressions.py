"""How expressions are grouped."""

from __future__ import annotations

import pytest

from tests.syntax.helpers import codes, expr


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("1 + 2 * 3", "(1 + (2 * 3))"),
        ("1 - 2 - 3", "((1 - 2) - 3)"),
        ("a || b && c == d < e", "(a || (b && (c == (d < e))))"),
        ("a < b == c > d", "((a < b) == (c > d))"),
        ("a | b ^ c & d << 1 + 2", "(a | (b ^ (c & (d << (1 + 2)))))"),
        ("a & b == c", "((a & b) == c)"),
        ("a >> 1 << 2", "((a >> 1) << 2)"),
        ("a @ b * c / d % e", "((((a @ b) * c) / d) % e)"),
        ("0..n + 1", "(0..(n + 1))"),
        ("a + b..c | d", "((a + b)..(c | d))"),
        ("a..b == c..d", "((a..b) == (c..d))"),
        ("-a.b()", "(-a.b())"),
        ("-x as i32", "((-x) as i32)"),
        ("!a == b", "((!a) == b)"),
        ("*p.f[0]", "(*p.f[0])"),
        ("*p as i32 + 1", "(((*p) as i32) + 1)"),
        ("&mut s.x[1..2]", "(&mut s.x[(1..2)])"),
        ("&&x", "(&(&x))"),
        ("a && &b", "(a && (&b))"),
        ("a as f32 as f64 * 2.0", "(((a as f32) as f64) * 2.0)"),
        ("p as *const i8", "(p as *const i8)"),
        ("(a + b) * c", "((a + b) * c)"),
        ("f(a, b,)(c)?[d]", "f(a, b)(c)?[d]"),
        ("check(x)?.y.z()?", "check(x)?.y.z()?"),
        ("t[i, a..b, .., a.., ..b]", "t[i, (a..b), (..), (a..), (..b)]"),
        ("1.5e3f64 + 0x_ff", "(1500.0f64 + 255)"),
        ("1f32", "1.0f32"),
        ("NAN as E", "(NAN as E)"),
        ("true && !false", "(true && (!false))"),
        ('"a\\n"', "b'a\\n'"),
        ("[[1.0, 2.0], [3.0, n]]", "[[1.0, 2.0], [3.0, n]]"),
        ("sizeof<E>() as i64", "(sizeof<E> as i64)"),
        ("|x, y : i32| x + y", "|x, y| (x + y)"),
        ("|| 3", "|| 3"),
        ('println!("{}", a + 1)', "println!(b'{}', (a + 1))"),
        ("vec![1, 2; 3]", "vec!()"),
        ("Topology::GPU[i + 1]", "Topology::GPU[(i + 1)]"),
        ("Topology::GPU[0..2]", "Topology::GPU[0..2]"),
        ("Some(Topology::CPU)", "Some(Topology::CPU)"),
        ("t.topology() == Some(Memory::HBM)", "(t.topology() == Some(Memory::HBM))"),
    ],
)
def test_grouping(text: str, grouped: str) -> None:
    assert expr(text) == grouped


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("f<3>()", "f<3>()"),
        ("f<3, N + 1, -2>(x)", "f<3, (N + 1), (-2)>(x)"),
        ("f<HEADS / KV_HEADS>()", "f<(HEADS / KV_HEADS)>()"),
        ("f<true>()", "f<true>()"),
        ("a < b", "(a < b)"),
        ("a < b && c > d", "((a < b) && (c > d))"),
        ("a < b && c > (d)", "((a < b) && (c > d))"),
        ("g(a < b, c > d)", "g((a < b), (c > d))"),
        ("a < (b as i64)", "(a < (b as i64))"),
        ("x as i64 < y", "((x as i64) < y)"),
        ("len - at < (CHUNK as i64)", "((len - at) < (CHUNK as i64))"),
        ("Vec<f32>::new()", "Vec<f32>::new()"),
        ("Vec<Vec<f32>>::new()", "Vec<Vec<f32>>::new()"),
        ("Result<i32, Error>::Ok(0)", "Result<i32, Error>::Ok(0)"),
        ("Result<&T, *const i8>::Err(e)", "Result<&T, *const i8>::Err(e)"),
        ("math::max<f32>(a, b)", "math::max<f32>(a, b)"),
        ("v.get<i32>(0)", "v.get<i32>(0)"),
        ("v.len < n", "(v.len < n)"),
        ("v.len() < n", "(v.len() < n)"),
        ("f<Topology::Device[0]>()", "f<Topology::Device[0]>()"),
        ("apply(f<3>, x)", "apply(f<3>, x)"),
        ("Weights<D> { a: 1, b }", "Weights<D>{a: 1, b: b}"),
        ("f<g<2>()>()", "f<g<2>()>()"),
        ("i + 1 < LAYERS", "((i + 1) < LAYERS)"),
    ],
)
def test_generic_arguments_or_comparison(text: str, grouped: str) -> None:
    assert expr(text) == grouped


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("Tensor<f32, [2, 3]>::new()", "Tensor::new()"),
        ("Tensor<f32, [N * 2, ?], Memory::HBM>::fill(NAN as f32)", "Tensor::fill((NAN as f32))"),
        ("Tensor<f32>([[1.0], [2.0]])", "Tensor::literal([[1.0], [2.0]])"),
        ("Tensor<f32>([1, n])[0]", "Tensor::literal([1, n])[0]"),
        ("transfer(x, Memory::HBM)", "transfer(x -> Memory::HBM within None)"),
        ("transfer(x[0..n], Topology::D[i]) within 5 ms", "transfer(x[(0..n)] -> Topology::D[i] within 5000000)"),
        ("transfer(x, Memory::HBM) within 1.5us", "transfer(x -> Memory::HBM within 1500)"),
        ("unsafe { f() }", "unsafe{0; f()}"),
        ("{ f(); 3 }", "plain{1; 3}"),
    ],
)
def test_tensors_and_blocks(text: str, grouped: str) -> None:
    assert expr(text) == grouped


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("grad(f, x)", "automatic differentiation (`grad`)"),
        ("vjp(f, x, y)", "automatic differentiation (`vjp`)"),
        ("Verified(x)", "`Verified(…)`"),
        ("(a, b)", "a tuple"),
        ("()", "a tuple"),
        ("(a,)", "a tuple"),
        ("t.0", "a tuple field"),
    ],
)
def test_not_supported_yet(text: str, what: str) -> None:
    assert expr(text) == f"unsupported {what}"


def test_contextual_words_are_names_elsewhere() -> None:
    assert expr("role + type + within + Tensor + grad + sizeof + macro_rules") == (
        "((((((role + type) + within) + Tensor) + grad) + sizeof) + macro_rules)"
    )


def test_no_struct_literal_before_a_block() -> None:
    body = "fn f() -> i32 {{ {} return 0; }}"
    assert codes(body.format("if x { y(); }")) == []
    assert codes(body.format("for i in 0..n { y(); }")) == []
    assert codes(body.format("match x { y => 1, }")) == []
    assert codes(body.format("if (P { a: 1 }) == p { y(); }")) == []
    assert codes(body.format("if f(P { a: 1 }) { y(); }")) == []
    assert codes(body.format("if P { a: 1 } == p { y(); }")) == ["E0115"]


def test_max_u128_is_the_largest_integer() -> None:
    assert expr(str(2**128 - 1)) == str(2**128 - 1)
    assert codes(f"const X : u128 = {2**128};") == ["E0105"]
