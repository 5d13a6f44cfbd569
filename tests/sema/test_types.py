"""Structs, enums, `match`, `?`, methods, references, raw pointers, C functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import accepted, dumped, expect

S = "struct S { a : i32, b : f32 }\n"
E = "enum E { One(i32), Two(f32, S), None0 }\n"
C = "enum C { Red, Green, Blue }\n"

CASES = {
    "missing_field": S + "fn main() -> i32 {\n let s = S { a: 1 };  //! E3013\n 0 }",
    "unknown_field": S + "fn main() -> i32 {\n let s = S { a: 1, c: 2.0, b: 1.0 };  //! E3013\n 0 }",
    "field_twice": S + "fn main() -> i32 {\n let s = S { a: 1, a: 2, b: 1.0 };  //! E3013\n 0 }",
    "field_type": S + "fn main() -> i32 { let x : i64 = 1;\n let s = S { a: x, b: 1 };  //! E3014\n 0 }",
    "not_a_struct": C + "fn main() -> i32 {\n let s = C { a: 1 };  //! E3013\n 0 }",
    "infinite": "struct N { next : N }  //! E0311\nfn main() -> i32 { 0 }",
    "infinite_by_enum": "struct N { next : Option<N> }  //! E0311\nfn main() -> i32 { 0 }",
    "infinite_and_used": "enum A { Leaf, Fork(A, A) }  //! E0311\nfn main() -> i32 { let a = A::Leaf;  let b = a;  match b { A::Leaf => 1, A::Fork(_, _) => 2 } }",
    "linked": "struct N { next : *mut N }\nfn main() -> i32 { 0 }",
    "variant_payload": E + S + "fn main() -> i32 {\n let e = E::One(1.5);  //! E3003\n 0 }",
    "variant_count": E + S + "fn main() -> i32 {\n let e = E::One();  //! E3008\n 0 }",
    "variant_unresolved": "let e = Some(1);  let f : Option<i32> = None;\n let g = None;  //! E0305",
    "missing_case": C
    + "fn f(c : C) -> i32 {\n match c { C::Red => 1, C::Green => 2 }  //! E3101\n}\nfn main() -> i32 { 0 }",
    "all_cases": C
    + "fn f(c : C) -> i32 { match c { C::Red => 1, C::Green => 2, C::Blue => 3 } }\nfn main() -> i32 { 0 }",
    "rest": C + "fn f(c : C) -> i32 { match c { C::Red => 1, _ => 2 } }\nfn main() -> i32 { 0 }",
    "number_needs_rest": "let n = 3;\n let m = match n { 1 => 2, 2 => 3 };  //! E3101",
    "bool_cases": "let n = true;  let m = match n { true => 2, false => 3 };\n let k = match n { true => 1 };  //! E3101",
    "pattern_type": "let n = 3;\n let m = match n { 1.5 => 2, _ => 3 };  //! E3102",
    "pattern_variant_of_number": "let n = 3;\n match n { Some(x) => { } _ => { } }  //! E3102",
    "pattern_other_enum": C
    + "enum D { X }\nfn f(c : C) -> i32 {\n match c { D::X => 1, _ => 2 }  //! E3102\n}\nfn main() -> i32 { 0 }",
    "pattern_count": E
    + S
    + "fn f(e : E) -> i32 {\n match e { E::One(a, b) => 1, _ => 2 }  //! E3103\n}\nfn main() -> i32 { 0 }",
    "pattern_unknown": C
    + "fn f(c : C) -> i32 {\n match c { C::Rod => 1, _ => 2 }  //! E0205\n}\nfn main() -> i32 { 0 }",
    "arm_types": "let n = 3;\n let m = match n { 1 => 2, _ => true };  //! E3010",
    "match_text": 'let s = "one";  let m = match s { "one" => 1, "two" => 2, _ => 3 };',
    "match_constant": "const A : i32 = 4;\nfn main() -> i32 { match 3 { A => 1, _ => 2 } }",
    "nested_missing": "fn f(o : Option<Option<i32>>) -> i32 {\n match o { Some(Some(x)) => x, None => 0 }  //! E3101\n}\nfn main() -> i32 { 0 }",
    "nested": "fn f(o : Option<Option<i32>>) -> i32 { match o { Some(Some(3)) => 1, Some(Some(x)) => x, Some(None) => 2, None => 0 } }\n"
    "fn main() -> i32 { f(Some(None)) }",
    "match_as_statement": C
    + "fn f(c : C) -> void { match c { C::Red => { print(1); } _ => { } } }\nfn main() -> i32 { 0 }",
    "try": "fn f() -> Result<i32, bool> { Ok(1) }\nfn g() -> Result<i64, bool> { let a = f()?;  Ok(a as i64) }\nfn main() -> i32 { 0 }",
    "try_option": "fn f() -> Option<i32> { None }\nfn g() -> Option<bool> { let a : i32 = f()?;  Some(a > 1) }\nfn main() -> i32 { 0 }",
    "try_other_error": "fn f() -> Result<i32, bool> { Ok(1) }\nfn g() -> Result<i32, i32> {\n f()?;  //! E3020\n Ok(1) }\nfn main() -> i32 { 0 }",
    "try_in_main": "fn f() -> Result<i32, bool> { Ok(1) }\nfn main() -> i32 {\n f()?  //! E3020\n}",
    "try_on_number": "fn g() -> Option<i32> {\n let a = 3?;  //! E3020\n None }\nfn main() -> i32 { 0 }",
    "try_mixed": "fn f() -> Option<i32> { None }\nfn g() -> Result<i32, i32> {\n let a = f()?;  //! E3020\n Ok(1) }\nfn main() -> i32 { 0 }",
    "enum_compare": C + "fn main() -> i32 { let c = C::Red;\n if c == C::Red { }  //! E3005\n 0 }",
    "enum_as_number": C + "fn main() -> i32 { let c = C::Blue;  let n : u8 = c as u8;  (c as i32) + (n as i32) }",
    "enum_with_payload_as_number": E + S + "fn main() -> i32 { let e = E::None0;\n e as i32  //! E3011\n}",
    "deref_number": "let a = 3;\n let b = *a;  //! E3012",
    "deref": "let mut a = 3;  let r = &mut a;  *r = 4;  *r += 1;  let b : i32 = *r;",
    "assign_through_reference": "let mut a = 3;  let r = &mut a;\n r = 4;  //! E3009",
    "reference_in_arithmetic": "let a = 3;  let r = &a;  let b : i32 = r + 1;",
    "raw_deref": "let a = 3;  let p = &a as *const i32;\n let b = *p;  //! E5001",
    "raw_index": "let a = 3;  let p = &a as *const i32;\n let b = p[0];  //! E5001",
    "raw_unsafe": "let a = 3;  let p = &a as *const i32;  let b : i32 = unsafe { *p + p[0] };",
    "extern_unsafe": 'extern "C" { fn abs(n : i32) -> i32; }\nfn main() -> i32 {\n abs(3)  //! E5002\n}',
    "extern_safe": 'extern "C" { safe fn abs(n : i32) -> i32; }\nfn main() -> i32 { abs(3) }',
    "extern_type": S + 'extern "C" {\n fn f(s : S) -> void;  //! E0217\n}\nfn main() -> i32 { 0 }',
    "extern_reference": 'extern "C" { safe fn f(p : *mut i32, t : *const f32) -> void; }\n'
    "fn main() -> i32 { let mut a = 3;  let t = Tensor<f32, [4]>::new();  f(&mut a, &t);  0 }",
    "extern_shared_for_mut": 'extern "C" { safe fn f(p : *mut i32) -> void; }\nfn main() -> i32 { let a = 3;\n f(&a);  //! E3003\n 0 }',
    "extern_element": 'extern "C" { safe fn f(t : *const f32) -> void; }\n'
    "fn main() -> i32 { let t = Tensor<f64, [4]>::new();\n f(&t);  //! E3003\n 0 }",
    "unsafe_function": "unsafe fn f() -> i32 { 1 }\nfn main() -> i32 { let a = unsafe { f() };\n f()  //! E5002\n}",
    "callback": 'extern "C" { safe fn run(f : fn(i32) -> i32) -> void; }\nfn one(a : i32) -> i32 { a }\nfn main() -> i32 { run(one); 0 }',
    "closure": "let f = |x| x + 1;  //! E0901",
    "trait": "trait T { fn f() -> void; }  //! E0901\nfn main() -> i32 { 0 }",
    "tuple": "fn f(a : (i32, i32)) -> void { }  //! E0901\nfn main() -> i32 { 0 }",
    "array": "fn f(a : [i32; 3]) -> void { }  //! E0901\nfn main() -> i32 { 0 }",
    "by_value_self": S + "impl S { fn take(self : S) -> i32 { self.a }  fn peek(self : &S) -> i32 { self.a }\n"
    "  fn bump(self : &mut S) -> void { self.a += 1; } }\n"
    "fn main() -> i32 { let mut s = S { a: 1, b: 2.0 };  s.bump();  s.peek() + s.take() }",
    "borrow_advice": S
    + "fn f(s : &S) -> i32 { s.a }\nfn main() -> i32 { let s = S { a: 1, b: 2.0 };\n f(s)  //! E3003\n}",
    "mutable_advice": S
    + "fn f(s : &mut S) -> void { }\nfn main() -> i32 { let mut s = S { a: 1, b: 2.0 };\n f(&s);  //! E3003\n 0 }",
    "reference_to_reference": S + "fn f(s : &S) -> i32 { g(&s) }\nfn g(s : &S) -> i32 { s.a }\nfn main() -> i32 { 0 }",
}


@pytest.mark.parametrize("name", CASES)
def test_types(name: str, tmp_path: Path) -> None:
    expect(tmp_path, CASES[name])


def test_match_on_a_reference_binds_references_and_copies(tmp_path: Path) -> None:
    source = "enum E { A(i32, Tensor<f32, [2]>), B }\n"
    source += "fn f(e : &E) -> f32 { match e { E::A(n, t) => t[n], E::B => 0.0 } }\nfn main() -> i32 { 0 }"
    assert dumped(tmp_path, source, "f") == (
        "fn f(e.0 : &E) -> f32 {\n"
        "  match &(*e.0) {\n"
        "    A(n.1, t.2) => {\n"
        "      copy (*t.2)[copy n.1]\n"
        "    }\n"
        "    B => {\n"
        "      0.0f32\n"
        "    }\n"
        "  }\n}"
    )


def test_match_moves_only_if_an_arm_takes_a_payload(tmp_path: Path) -> None:
    head = "enum E { A(Tensor<f32, [2]>), B }\nfn eat(t : Tensor<f32, [2]>) -> void { }\n"
    looks = head + "fn f(e : E) -> bool { match e { E::A(_) => true, E::B => false } }\nfn main() -> i32 { 0 }"
    takes = head + "fn f(e : E) -> void { match e { E::A(t) => { eat(t); } E::B => { } } }\nfn main() -> i32 { 0 }"
    assert "match &e.0 {" in dumped(tmp_path, looks, "f")
    assert "match move e.0 {" in dumped(tmp_path, takes, "f")


def test_try_returns_the_error(tmp_path: Path) -> None:
    source = "fn f() -> Result<i32, bool> { Ok(1) }\nfn g() -> Result<i64, bool> { let a = f()?;  Ok(a as i64) }\nfn main() -> i32 { 0 }"
    text = dumped(tmp_path, source, "g")
    assert "Ok(value.0) => {\n      copy value.0\n    }" in text
    assert "Err(error.1) => {\n      return Result<i64, bool>::Err(copy error.1)\n    }" in text


def test_nested_patterns_become_flat_matches(tmp_path: Path) -> None:
    source = "fn f(o : Option<Option<i32>>) -> i32 { match o { Some(Some(x)) => x, Some(None) => 1, None => 0 } }\nfn main() -> i32 { 0 }"
    text = dumped(tmp_path, source, "f")
    assert text.count("match ") == 2 and "let matched.1 : Option<Option<i32>> = copy o.0;" in text


def test_fields_are_in_declaration_order_and_remember_how_they_were_written(tmp_path: Path) -> None:
    from vx.sema import tree

    program = accepted(tmp_path, S + "fn main() -> i32 { let s = S { b: 1.0, a: 2 };  s.a }")
    let = program.functions["main"].body.stmts[0]
    assert isinstance(let, tree.Let) and isinstance(let.value, tree.StructLit)
    assert [v.value for v in let.value.values if isinstance(v, tree.Const)] == [2, 1.0]
    assert let.value.order == (1, 0)


def test_mutable_references_are_reborrowed(tmp_path: Path) -> None:
    source = (
        S
        + "fn f(s : &mut S) -> void { g(s);  g(s);  h(s); }\nfn g(s : &mut S) -> void { }\nfn h(s : &S) -> void { }\nfn main() -> i32 { 0 }"
    )
    assert dumped(tmp_path, source, "f") == (
        "fn f(s.0 : &mut S) -> void {\n  g(&mut (*s.0));\n  g(&mut (*s.0));\n  h(&(*s.0));\n}"
    )


def test_destructors_are_found(tmp_path: Path) -> None:
    source = "struct F<T> { a : T }\nimpl<T> F<T> { fn drop(self : &mut F<T>) -> void { } }\nfn main() -> i32 { let f = F { a: 1.5 }; 0 }"
    program = accepted(tmp_path, source)
    assert program.structs["F<f32>"].drop == "F<f32>::drop" and "F<f32>::drop" in program.functions
