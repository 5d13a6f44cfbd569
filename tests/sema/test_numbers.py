"""The numeric model: literals adopt their context's type, nothing is converted, constants are exact."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import dumped, expect

CASES = {
    "let_mismatch": "let a : i64 = 1;  let b : i32 = a;  //! E3001",
    "let_float_literal_in_integer": "let b : i32 = 1.5;  //! E3001",
    "integer_literal_adopts_float": "let b : f32 = 1;",
    "literal_out_of_range": "let b : i8 = 200;  //! E0302",
    "most_negative": "let b : i8 = -128;  let c : i32 = -2147483648;",
    "negative_unsigned": "let b : u8 = -1;  //! E0302",
    "narrowest": "let a = 3000000000;  let b : i64 = a;  let c = 3;  let d : i32 = c;",
    "arithmetic_mixed": "let a : i32 = 1;  let b : i64 = 2;\n let c = a + b;  //! E3004",
    "arithmetic_literal_both_sides": "let a : i64 = 1;  let b : i64 = a + 1;  let c : i64 = 1 + a;",
    "arithmetic_literal_float_right": "let a : i64 = 1;\n let b = a + 1.5;  //! E3004",
    "nested_literals": "let a : u8 = 1;  let b : u8 = (2 * 3 + 1) + a;",
    "comparison_mixed": "let a : i32 = 1;  let b : u32 = 2;\n let c = a < b;  //! E3005",
    "comparison_literal": "let a : i64 = 1;  let c = 0 < a && a != 3;",
    "condition_number": "if 1 { }  //! E3006",
    "condition_while": "let n = 3;\n while n { }  //! E3006",
    "logic_number": "let a = 1;\n let b = a && true;  //! E3006",
    "not_number": "let a = 1;\n let b = !a;  //! E3006",
    "bool_arithmetic": "let a = true;\n let b = a + a;  //! E3004",
    "negate_unsigned": "let a : u32 = 1;\n let b = -a;  //! E3004",
    "bits": "let a : u32 = 6;  let b : u32 = (a & 3) | (a ^ 1) << 2;",
    "bits_of_float": "let a = 1.0;\n let b = a & a;  //! E3004",
    "division_by_zero": "let a = 4;\n let b = a / 0;  //! E0304",
    "overflow_folded": "let a : i32 = 2147483647 + 1;  //! E0302",
    "exact_inside": "let a : i64 = (2147483647 * 4) as i64;",
    "cast_bool": "let a = 1 as bool;  //! E3011",
    "cast_from_bool": "let a = true as i32;",
    "cast_tensor_to_scalar_type": "let t = Tensor<f32, [2]>::new();  let u = t as f64;  let v : Tensor<f64, [2]> = u;",
    "cast_struct": "struct S { a : i32 }\nfn main() -> i32 { let s = S { a: 1 };\n s as i32 }  //! E3011",
    "method_on_integer": "let a = 4;\n let b = a.sqrt();  //! E3004",
    "method_min_integer": "let a = 4;  let b : i32 = a.min(3).abs();",
    "method_unknown": "let a = 4.0;\n let b = a.sqroot();  //! E0204",
    "method_argument": "let a : f64 = 4.0;  let b : f64 = a.pow(2.0);  let c : f32 = 1.0;\n let d = a.pow(c);  //! E3004",
    "return_mismatch": "fn f() -> i64 { let a : i32 = 1;\n a }  //! E3002\nfn main() -> i32 { 0 }",
    "return_missing": "fn f() -> i64 {\n}  //! E3002\nfn main() -> i32 { 0 }",
    "return_statement": "fn f() -> i64 { let a : i32 = 1;\n return a; }  //! E3002\nfn main() -> i32 { 0 }",
    "return_nothing": "fn f() -> i64 {\n return; }  //! E3002\nfn main() -> i32 { 0 }",
    "void_returns": "fn f() -> void {\n 3 }  //! E3002\nfn main() -> i32 { 0 }",
    "void_returns_statement": "fn f() -> void {\n return 3; }  //! E3002\nfn main() -> i32 { 0 }",
    "argument_mismatch": "fn f(a : i64) -> void { }\nfn main() -> i32 { let a : i32 = 1;\n f(a);  //! E3003\n 0 }",
    "argument_literal": "fn f(a : i64, b : f64) -> void { }\nfn main() -> i32 { f(1, 2); 0 }",
    "argument_count": "fn f(a : i64) -> void { }\nfn main() -> i32 {\n f();  //! E3008\n 0 }",
    "assign_mismatch": "let mut a : i32 = 1;  let b : i64 = 2;\n a = b;  //! E3009",
    "op_assign_mismatch": "let mut a : i32 = 1;  let b : i64 = 2;\n a += b;  //! E3004",
    "op_assign_literal": "let mut a : u8 = 1;  a += 2;  a *= 3;  a %= 4;",
    "assign_constant": "const N : i32 = 3;\nfn main() -> i32 {\n N = 4;  //! E3016\n 0 }",
    "branches_differ": "let b : i64 = 1;  let a = if true { b } else { 2.0 };  //! E3010",
    "branches_literals_agree": "let a : f32 = if true { 1 } else { 2.0 };",
    "branches_literal": "let n : i64 = 3;  let m : i64 = if n > 2 { 0 } else { n };",
    "branches_literal_first": "let n : i64 = 3;  let m = if n > 2 { 0 } else { n };  let k : i64 = m;",
    "diverging_branch": "let n = 3;  let m : i32 = if n > 2 { return 1; } else { n };",
    "print_struct": "struct S { a : i32 }\nfn main() -> i32 { let s = S { a: 1 };\n print(s);  //! E3012\n 0 }",
    "format_count": 'println!("{} {}", 1);  //! E3019',
    "format_text": "println!(3);  //! E3019",
    "format_braces": 'println!("{{}} {}", 1);',
    "pointer_text": 'let s = "x";\n let b = s == "x";  //! E3005',
    "range_value": "let r = 0..3;  //! E3012",
    "loop_bounds": "let a : i64 = 1;  let b : i32 = 4;\n for i in a..b { }  //! E3007",
    "loop_float": "for i in 0..2.0 { }  //! E3007",
    "loop_over_value": "let a = 3;\n for i in a { }  //! E0901",
    "break_outside": "break;  //! E3018",
    "suffix": "let a : i64 = 3i32;  //! E3001",
    "u64_literal": "let a : u64 = 18446744073709551615;  let b = a / 10;",
    "nan": "let a : f64 = NAN;  let b = NAN as f16;  let c = a.is_nan();",
    "void_let": "fn f() -> void { }\nfn main() -> i32 {\n let a = f();  //! E3012\n 0 }",
}


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, tmp_path: Path) -> None:
    expect(tmp_path, CASES[name])


def test_literals_take_the_type_of_the_other_side(tmp_path: Path) -> None:
    text = dumped(tmp_path, "let x : f64 = 3.0;  let y = 1 + x * 2;  let z = 1.5 as f64;  let n = 7 / 2 - 1;")
    assert text == (
        "fn main() -> i32 {\n"
        "  let x.0 : f64 = 3.0f64;\n"
        "  let y.1 : f64 = (1.0f64 + (copy x.0 * 2.0f64));\n"
        "  let z.2 : f64 = 1.5f64;\n"
        "  let n.3 : i32 = 2i32;\n"
        "  0i32\n}"
    )


def test_folded_floats_are_rounded_to_their_type(tmp_path: Path) -> None:
    text = dumped(tmp_path, "let a : f32 = 0.1 + 0.2;  let b : f16 = 0.1;  let c = 0.1 as f64;")
    assert "a.0 : f32 = 0.30000001192092896f32" in text
    assert "b.1 : f16 = 0.0999755859375f16" in text
    assert "c.2 : f64 = 0.1f64" in text


def test_printing_is_a_sequence(tmp_path: Path) -> None:
    text = dumped(tmp_path, 'let n = 3;  println!("a {} b{}", n, 1.5);  print!("x");')
    assert text.count("print(") == 6
    assert 'print("a ");\n    print(copy n.0);\n    print(" b");\n    print(1.5f32);\n    print("\\n");' in text
