"""What the parser says about wrong programs, and that it goes on after an error."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.syntax.helpers import errors, parse
from vx.syntax import ast


def body(text: str) -> list[str]:
    """Errors of a function body that starts at 2:1."""
    return errors(f"fn f() -> i32 {{\n{text}\n}}")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("let x = 3\nx", "E0111 2:10 expected `;` after this `let`, found `x`"),
        ("x = 3\nx", "E0111 2:6 expected `;` after this assignment, found `x`"),
        ("foo bar;", "E0111 2:4 expected `;` after this expression, found `bar`"),
        ("let x;", "E0119 2:5 `x` gets no value"),
        ("let x : i32;", "E0119 2:5 `x` gets no value"),
        ("let (a, b) = c;", "E0110 2:5 expected a name after `let`, found `(`"),
        ("let match = 3;", "E0120 2:5 expected a name after `let`, found the keyword `match`"),
        ("let x = 1 + ;", "E0110 2:13 expected an expression, found `;`"),
        ("let x = let;", "E0110 2:9 expected an expression, found the keyword `let`"),
        ("f(1, 2;", "E0110 2:7 expected `)`, found `;`"),
        ("t[];", "E0110 2:3 expected an index between `[` and `]`"),
        ("for i 0..3 { }", "E0110 2:7 expected `in` after the loop variable, found `0`"),
        ("for i in 0..=3 { }", "E0110 2:13 expected an expression, found `=`"),
        ("while let x = 3 { }", "E0110 2:7 expected a condition, found the keyword `let`"),
        ("if let Some(x) = y { }", "E0110 2:4 expected a condition, found the keyword `let`"),
        ("match x { A | B => 1 }", "E0110 2:13 expected `=>`, found `|`"),
        ("match x { A if b => 1 }", "E0110 2:13 expected `=>`, found the keyword `if`"),
        ("match x { (a, b) => 1 }", "E0110 2:11 expected a pattern, found `(`"),
        ("let x = 5u9;", "E0104 2:9 `u9` is not a suffix of a number"),
        ("let x = 0b11;", "E0104 2:9 `b11` is not a suffix of a number"),
        ("let x = 1.5i32;", "E0104 2:9 `1.5i32` has a fraction or an exponent, and `i32` is an integer type"),
        ("let x = 0x;", "E0104 2:9 `0x` has no digits"),
        ("let x = 4 as i32GB; f();\nlet y = 5GB;", "E0104 3:9 `GB` is not a suffix of a number"),
        ("let x = 1e400;", "E0105 2:9 this number is too large"),
        ("let x = 1e400f32;", "E0105 2:9 this number is too large"),
        ("Vec::<f32>::new();", "E0110 2:6 expected a name after `::`, found `<`"),
        ("Tensor<f32, [3]>::zeros();", "E0110 2:19 a tensor has no constructor `zeros`"),
        ("spawn on(CPU) { }", "E0110 2:10 expected a topology, `Topology::NAME`, found `CPU`"),
        ("spawn { }", None),
        ("transfer(x, HBM);", "E0110 2:13 expected a place, `Memory::NAME` or `Topology::NAME`, found `HBM`"),
        ("transfer(x, Memory::A) within 5;", "E0121 2:31 a deadline needs a unit of time"),
        ("transfer(x, Memory::A) within 5 min;", "E0121 2:31 `min` is not a unit of time"),
        ("transfer(x, Memory::A) within 0.1 ns;", "E0121 2:31 `0.1 ns` is not a whole number of nanoseconds"),
        ("transfer(x, Memory::A) within 1e3 ns;", "E0121 2:31 a length of time is written without an exponent"),
        ("fn g() -> i32 { 1 }", None),
        (" fn g() -> i32 { 1 }", "E0116 2:2 `fn` cannot stand inside a function"),
        (" const N : i32 = 3; f()", "E0116 2:2 `const` cannot stand inside a function"),
        ("let x : 3 = 4;", "E0110 2:9 expected a type, found `3`"),
        ("let x : *i32 = 4;", "E0110 2:10 expected `const` or `mut` after `*` in a pointer type, found `i32`"),
        ("let x : Vec<i32 = 4;", "E0110 2:17 expected `>`, found `=`"),
        ("let x = 'a';", "E0101 2:9 unexpected character `'`"),
        ("if P { a: 1 } == p { }", "E0115 2:4 a struct literal cannot stand directly before a block"),
    ],
)
def test_first_error_of_a_body(text: str, error: str | None) -> None:
    found = body(text)
    assert found, "no error"
    if error is not None:
        assert found[0] == error


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("pub fn f() -> i32 { 1 }", "E0110 1:1 expected a declaration, found `pub`"),
        ("let x = 3;", "E0110 1:1 expected a declaration, found the keyword `let`"),
        ("fn f() -> i32 { 1 } }", "E0110 1:21 this `}` closes nothing"),
        ("fn f() { }", "E0114 1:6 `f` does not say what it returns"),
        ("fn f(&self) -> void { }", "E0118 1:6 `self` needs its type written out"),
        ("fn f(self) -> void { }", "E0118 1:6 `self` needs its type written out"),
        ("fn f(mut x : i32) -> void { }", "E0118 1:6 a parameter cannot be `mut`"),
        ("fn f(x i32) -> void { }", "E0110 1:8 expected `:` and the type of `x`, found `i32`"),
        ("fn loop() -> void { }", "E0120 1:4 expected the name of a function, found the keyword `loop`"),
        ("fn f<3>() -> void { }", "E0110 1:6 expected the name of a generic parameter, found `3`"),
        ("fn f() -> i32 { g(", "E0112 1:15 this `{` is never closed"),
        ("fn f(x : i32", "E0112 1:5 this `(` is never closed"),
        ("fn f() -> i32 {", "E0112 1:15 this `{` is never closed"),
        ("struct S { a i32 }", "E0110 1:14 expected `:` and the type of `a`, found `i32`"),
        ("struct S;", "E0110 1:9 expected `{`, found `;`"),
        ("struct S(i32);", "E0110 1:9 expected `{`, found `(`"),
        ("enum E { A { x : i32 } }", "E0110 1:12 expected `,` after the variant, found `{`"),
        ("enum E { A = 3 }", "E0110 1:12 expected `,` after the variant, found `=`"),
        ("const X = 3;", "E0110 1:9 expected `:` and the type of `X`, found `=`"),
        ("type A<T> = B;", "E0110 1:7 expected `=`, found `<`"),
        ("import 3;", "E0110 1:8 expected the name of a module after `import`, found `3`"),
        ("impl S { x : i32 }", "E0110 1:10 expected `fn`, found `x`"),
        ("Memory M { size: 4 GB }", "E0113 1:12 a memory space has no field `size`"),
        ("Topology T { memori: Memory::A }", "E0113 1:14 a topology has no field `memori`"),
        ("Memory M { transfer Memory::A -> Memory::B }", "E0113 1:12 a memory space has no field `transfer`"),
        ("Memory M { capacity 4 GB }", "E0110 1:21 expected `:` after `capacity`, found `4`"),
        ("Memory M { capacity: -4 GB }", "E0110 1:22 expected a number and its unit, found `-`"),
        ("fn f() -> i32 { 1", "E0112 1:15 this `{` is never closed"),
    ],
)
def test_first_error_of_a_file(text: str, error: str) -> None:
    assert errors(text)[0] == error


def test_every_statement_reports_its_own_error() -> None:
    found = body(
        dedent(
            """\
            let x = ;
            y = = 3;
            if a { let z = *; }
            match b { 1 => +, 2 => f(, }
            let match = 3;
            g();
            return 5u9;"""
        )
    )
    assert [error.split(" ")[0:2] for error in found] == [
        ["E0110", "2:9"],
        ["E0110", "3:5"],
        ["E0110", "4:17"],
        ["E0110", "5:16"],
        ["E0110", "5:26"],
        ["E0120", "6:5"],
        ["E0104", "8:8"],
    ]


def test_every_item_reports_its_own_error() -> None:
    text = dedent(
        """\
        import std::;
        strcut A { }
        struct B { x i32, y : i32, z = 3 }
        enum C { D, 3, E }
        fn f(a, b : i32, mut c : i32) { }
        const N : i32 3;
        impl B { fn g() -> i32 { + } x fn h() -> i32 { 1 } }
        Memory M { a: 1, capacity: 3 GB, b: 2 }
        fn ok() -> i32 { 1 }
        """
    )
    assert [error.split(" ")[0:2] for error in errors(text)] == [
        ["E0110", "1:13"],
        ["E0110", "2:1"],
        ["E0110", "3:14"],
        ["E0110", "3:30"],
        ["E0110", "4:13"],
        ["E0110", "5:7"],
        ["E0118", "5:18"],
        ["E0114", "5:29"],
        ["E0110", "6:15"],
        ["E0110", "7:26"],
        ["E0110", "7:30"],
        ["E0113", "8:12"],
        ["E0113", "8:34"],
    ]
    names = [item.name for item in parse(text)[0].items if isinstance(item, ast.Function | ast.Struct | ast.Enum)]
    assert names == ["B", "C", "f", "ok"]


def test_missing_brace_costs_one_error_and_one_function() -> None:
    text = dedent(
        """\
        fn a() -> i32 {
            if x {
                1

        fn b() -> i32 { + }
        fn c() -> i32 { 1 }
        """
    )
    assert errors(text) == ["E0112 2:10 this `{` is never closed", "E0110 5:17 expected an expression, found `+`"]
    assert [item.name for item in parse(text)[0].items if isinstance(item, ast.Function)] == ["b", "c"]


def test_unclosed_string_is_the_only_error_about_it() -> None:
    assert errors('fn f() -> i32 {\n  print!("abc);\n  0\n}\n') == ["E0102 2:10 this string is never closed"]


def test_did_you_mean() -> None:
    def helps(text: str) -> list[tuple[str, str | None]]:
        return [(item.text, item.replacement) for d in parse(text)[1].diagnostics for item in d.helps]

    assert helps("strcut S { }") == [("did you mean `struct`?", "struct")]
    assert helps("Memory M { capcity: 3 GB }") == [("did you mean `capacity`?", "capacity")]
    assert helps("fn f() -> void { Tensor<f32, [1]>::fil(0.0); }") == [("did you mean `fill`?", "fill")]
    assert helps("fn f() -> void { transfer(x, HBM); }") == [("did you mean `Topology::HBM`?", None)]
    assert helps("use std::io;") == [("modules are brought in with `import`, as in `import std::math;`", None)]


def test_errors_come_in_source_order() -> None:
    found = errors("fn f() -> i32 { + }\nfn g() -> i32 { 'a }\nfn h() -> i32 { * }\n")
    assert [error.split(" ")[1] for error in found] == ["1:17", "2:17", "3:19"]
