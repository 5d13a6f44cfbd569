"""Generic functions and types, constants, and what runs while compiling."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import accepted, checked, dumped, expect

CASES = {
    "const_from_shape": "fn f<const N : i32>(t : &Tensor<f32, [N]>) -> i32 { N }\n"
    "fn main() -> i32 { let t = Tensor<f32, [5]>::new();  f(&t) }",
    "bound_twice": "fn f<const N : i32>(a : &Tensor<f32, [N]>, b : &Tensor<f32, [N]>) -> void { }\nfn main() -> i32 {\n"
    " let a = Tensor<f32, [5]>::new();  let b = Tensor<f32, [6]>::new();\n f(&a, &b);  //! E0306\n 0 }",
    "type_twice": "fn f<T>(a : T, b : T) -> void { }\nfn main() -> i32 { let a : i32 = 1;  let b : i64 = 2;\n f(a, b);  //! E0306\n 0 }",
    "type_twice_literal": "fn f<T>(a : T, b : T) -> T { b }\nfn main() -> i32 { let a : i64 = 1;  let c : i64 = f(1, a);  0 }",
    "not_inferred": "fn f<const N : i32>() -> i32 { N }\nfn main() -> i32 {\n f()  //! E0305\n}",
    "run_time_extent": "fn f<const N : i32>(t : &Tensor<f32, [N]>) -> i32 { N }\n"
    "fn g(t : &Tensor<f32, [?]>) -> i32 {\n f(t)  //! E0305\n}\nfn main() -> i32 { 0 }",
    "given": "fn f<const N : i32>() -> i32 { N }\nfn main() -> i32 { f<3>() + f<2 + 2>() }",
    "given_too_many": "fn f<const N : i32>() -> i32 { N }\nfn main() -> i32 {\n f<3, 4>()  //! E0307\n}",
    "given_wrong_kind": "fn f<T>(a : T) -> void { }\nfn main() -> i32 {\n f<3>(1);  //! E0307\n 0 }",
    "given_wrong_type": "fn f<const N : i32>() -> i32 { N }\nfn main() -> i32 {\n f<true>()  //! E0307\n}",
    "struct_arguments": "struct B<T> { a : T }\nfn f(b : B) -> void { }  //! E0307\nfn main() -> i32 { 0 }",
    "expected_result": "struct B<T> { a : T }\nimpl<T> B<T> { fn of(a : T) -> B<T> { B { a: a } } }\n"
    "fn main() -> i32 { let b : B<i64> = B::of(1);  let c : i64 = b.a;  0 }",
    "impl_of_one_instance": "struct B<T> { a : T }\nimpl B<i32> { fn twice(self : &B<i32>) -> i32 { self.a * 2 } }\nfn main() -> i32 {\n"
    " let b = B { a: 1.5 };\n b.twice();  //! E0204\n B { a: 1 }.twice() }",
    "error_in_instance_once": "fn f<const N : i32>() -> i32 {\n let a : i32 = 1.5;  //! E3001\n N }\nfn main() -> i32 { f<1>() + f<2>() }",
    "generic_body_unchecked_until_used": "fn f<T>(a : T) -> T { a + true }\nfn main() -> i32 { 0 }",
    "body_per_instance": "fn f<T>(a : T) -> T {\n a + 1 }  //! E3004\nfn main() -> i32 { f(1);  f(true);  0 }",
    "runaway": "fn f<const N : i32>() -> i32 {\n f<N + 1>() }  //! E0308\nfn main() -> i32 { f<0>() }",
    "runaway_type": "struct B<T> { p : *mut B<B<T>> }  //! E0308\nfn f(b : &B<i32>) -> void { }\nfn main() -> i32 { 0 }",
    "recursion": "fn f(n : i32) -> i32 { if n < 2 { 1 } else { n * f(n - 1) } }\nfn main() -> i32 { f(5) }",
    "comptime_recursion": "fn f<const N : i32>() -> i32 { if comptime N == 0 { 0 } else { f<N - 1>() + N } }\nfn main() -> i32 { f<20>() }",
    "pruned_branch": "fn f<const N : i32>() -> i32 { if comptime N > 2 { N } else { nonsense(1.5 + true) } }\nfn main() -> i32 { f<3>() }",
    "comptime_needs_constant": "let n = 3;  let mut m = n;\n if comptime m > 2 { }  //! E0301",
    "comptime_assert": 'const N : i32 = 3;\nfn main() -> i32 {\n comptime { assert(N == 4, "N is 4");  //! E8002\n }\n 0 }',
    "comptime_assert_holds": 'const N : i32 = 3;\nfn main() -> i32 { comptime { assert(N == 3, "N is 3"); }  0 }',
    "comptime_in_instance": 'fn f<const N : i32>() -> i32 {\n comptime { assert(N % 4 == 0, "a multiple of 4"); }  //! E8002\n N }\n'
    "fn main() -> i32 { f<8>() + f<6>() }",
    "comptime_loop": 'fn main() -> i32 { comptime { let mut s = 0;  for i in 0..10 { s += i; }  assert(s == 45, "sum"); }  0 }',
    "comptime_run_time": 'fn f() -> i32 { 3 }\nfn main() -> i32 { let t = f();\n comptime { assert(t == 3, "t"); }  //! E0301\n 0 }',
    "constant_calls": "fn sq(n : i32) -> i32 { n * n }\nconst N : i32 = sq(4) + 1;\nfn main() -> i32 { let t = Tensor<f32, [N]>::new();  let a : i64 = t.extent(0);  0 }",
    "constant_cycle": "const A : i32 = B + 1;\nconst B : i32 = A;  //! E0303\nfn main() -> i32 { A }",
    "constant_not": 'extern "C" { safe fn f() -> i32; }\nconst A : i32 = f();  //! E0301\nfn main() -> i32 { A }',
    "constant_type": "const A : i64 = 3;\nconst B : i32 = A;  //! E3001\nfn main() -> i32 { B }",
    "constant_range": "const A : i8 = 100 * 2;  //! E0302\nfn main() -> i32 { 0 }",
    "constant_exact": "const A : i32 = 65536;\nconst B : i64 = (A * A) as i64;\nfn main() -> i32 { 0 }",
    "endless": "fn f() -> i32 { loop { } }\nconst A : i32 = f();  //! E8003\nfn main() -> i32 { A }",
    "dimension_local": "let n = 3;  let m = n + 1;\n let t : Tensor<f32, [m]> = Tensor<f32, [4]>::new();  //! E0301",
    "dimension_negative": "fn f(t : &Tensor<f32, [2 - 3]>) -> void { }  //! E7006\nfn main() -> i32 { 0 }",
    "dimension_float": "fn f(t : &Tensor<f32, [1.5]>) -> void { }  //! E7006\nfn main() -> i32 { 0 }",
    "requires": "fn f<const N : i32>() -> i32 requires N > 2 { N }\nfn main() -> i32 { f<3>();\n f<2>()  //! E8002\n}",
    "requires_partly": "fn f<const N : i32>(n : i32) -> i32 requires n > 2 && N > 2 { n }\nfn main() -> i32 { f<3>(1);\n f<2>(3)  //! E8002\n}",
    "alias": "type Row = Tensor<f32, [4]>;\nfn f(r : &Row) -> f32 { r[0] }\nfn main() -> i32 { let r = Tensor<f32, [4]>::new();  f(&r);  0 }",
    "associated_generic": "struct P { a : i32 }\nimpl P { fn make<T>(a : T) -> T { a } }\nfn main() -> i32 { let a : f64 = P::make(1.5);  P::make<i32>(2) }",
    "self_type": "struct P { a : i32 }\nimpl P { fn new() -> Self { Self { a: 1 } }  fn same(self : &Self) -> &Self { self } }\nfn main() -> i32 { P::new().same().a }",
}


@pytest.mark.parametrize("name", CASES)
def test_generics(name: str, tmp_path: Path) -> None:
    expect(tmp_path, CASES[name])


def test_conflict_names_both_bindings(tmp_path: Path) -> None:
    source = "fn f<const N : i32>(a : &Tensor<f32, [N]>, b : &Tensor<f32, [N]>) -> void { }\n"
    source += "fn main() -> i32 { let a = Tensor<f32, [5]>::new();  let b = Tensor<f32, [6]>::new();  f(&a, &b);  0 }"
    _, found, _ = checked(tmp_path, source)
    assert [label.text for label in found[0].labels] == ["argument `a` makes it 5", "argument `b` makes it 6"]
    assert found[0].message == "`N` would be both 5 and 6"


def test_instances_have_readable_keys(tmp_path: Path) -> None:
    source = "struct B<T> { a : T }\nimpl<T> B<T> { fn get(self : &B<T>) -> &T { &self.a } }\n"
    source += "fn f<T, const N : i32>(a : T) -> T { a }\nfn main() -> i32 { let b = B { a: 1.5 };  b.get();  f<i64, 3>(1);  0 }"
    program = accepted(tmp_path, source)
    assert set(program.functions) == {"main", "B<f32>::get", "f<i64, 3>"}
    assert set(program.structs) == {"B<f32>"}


def test_dead_branch_is_not_in_the_tree(tmp_path: Path) -> None:
    source = "fn f<const N : i32>() -> i32 { if comptime N > 2 { N } else { 0 } }\nfn main() -> i32 { f<3>() + f<1>() }"
    assert dumped(tmp_path, source, "f<3>") == "fn f<3>() -> i32 {\n  {\n    3i32\n  }\n}"
    assert dumped(tmp_path, source, "f<1>") == "fn f<1>() -> i32 {\n  {\n    0i32\n  }\n}"


def test_comptime_blocks_are_constants(tmp_path: Path) -> None:
    source = "fn fib(n : i32) -> i32 { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }\n"
    source += "fn main() -> i32 { let a : i32 = comptime { fib(12) };  a }"
    assert "let a.0 : i32 = 144i32;" in dumped(tmp_path, source)


def test_constants_in_dimensions_are_exact(tmp_path: Path) -> None:
    source = "const BIG : i32 = 2000000000;\nfn f(t : &Tensor<u8, [BIG * 4]>) -> void { }\nfn main() -> i32 { 0 }"
    assert "Tensor<u8, [8000000000]>" in dumped(tmp_path, source, "f")
