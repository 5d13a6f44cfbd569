"""Tensors: shapes, views, operators, reductions, the two built-in kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import dumped, expect

T = "let t = Tensor<f32, [3, 4]>::new();  let v = Tensor<f32, [4]>::new();  let h = Tensor<f16, [4]>::new();\n"
MT = "let mut t = Tensor<f32, [3, 4]>::new();  let v = Tensor<f32, [4]>::new();  let n = 2;\n"

CASES = {
    "element": T + "let a : f32 = t[1][2] + t[1, 2];",
    "index_float": T + "let a = t[1.0];  //! E3007",
    "index_bool": T + "let a = t[true];  //! E3007",
    "index_out_of_range": T + "let a = t[3];  //! E7003",
    "index_negative": T + "let a = t[-1];  //! E7003",
    "index_too_many": T + "let a = t[1, 2, 0];  //! E7004",
    "index_number": T + "let a = 3;\n let b = a[0];  //! E3012",
    "range_out": T + "let a = t[1..4];  //! E7003",
    "range_reversed": T + "let a = t[2..1];  //! E7003",
    "range_too_long": T + "let i = 0;  let j = i + 1;\n let a = t[j..j + 4];  //! E7003",
    "range_static": T
    + "let i = 0;  let j = i + 1;  let a : &Tensor<f32, [2, 4]> = t[j..j + 2];  let b : &Tensor<f32, [2, 4]> = t[2 * j..2 * (j + 1)];",
    "range_dynamic": T
    + "let i = 0;  let j = i + 1;  let k = j + i;\n let a : &Tensor<f32, [2, 4]> = t[j..k];  //! E3001",
    "range_dynamic_fits": T + "let i = 0;  let j = i + 1;  let k = j + i;  let a : &Tensor<f32, [?, 4]> = t[j..k];",
    "row": T + "let r = t[1];  let a : &Tensor<f32, [4]> = r;  let b : f32 = r[2];",
    "row_is_no_tensor": T + "let r : Tensor<f32, [4]> = t[1];  //! E3001",
    "row_copy": T + "let r : Tensor<f32, [4]> = t[1].copy();",
    "static_fits_dynamic": "fn f(t : &Tensor<f32, [?]>) -> void { }\nfn main() -> i32 { let v = Tensor<f32, [4]>::new();  f(&v);  0 }",
    "dynamic_does_not_fit": "fn f(t : &Tensor<f32, [4]>) -> void { }\nfn g(t : &Tensor<f32, [?]>) -> void {\n f(t); }  //! E3003\nfn main() -> i32 { 0 }",
    "rank_differs": "fn f(t : &Tensor<f32, [4, 1]>) -> void { }\nfn main() -> i32 { let v = Tensor<f32, [4]>::new();\n f(&v);  //! E3003\n 0 }",
    "view_as_argument": "fn f(t : &Tensor<f32, [4]>) -> f32 { t[0] }\nfn main() -> i32 { let t = Tensor<f32, [3, 4]>::new();  f(t[1]);  f(&t[2]);  0 }",
    "temporary_needs_borrow": "fn f(t : &Tensor<f32, [4]>) -> f32 { t[0] }\nfn main() -> i32 { let v = Tensor<f32, [4]>::new();\n f(v * 2.0);  //! E3003\n f(&(v * 2.0));  0 }",
    "elementwise": T + "let a : Tensor<f32, [4]> = v * 2.0 + 1 - t[0] / v;  let b = 2 * v;",
    "elementwise_shapes": T + "let a = v + t;  //! E7005",
    "elementwise_elements": T + "let a = v + h;  //! E3004",
    "elementwise_scalar": T + "let s : f64 = 1.0;\n let a = v * s;  //! E3004",
    "elementwise_modulo": T + "let a = v % v;  //! E3004",
    "elementwise_compare": T + "let a = v < v;  //! E3005",
    "elementwise_bool": "let b = Tensor<bool, [4]>::new();\n let a = b + b;  //! E3004",
    "matmul": T + "let a : Tensor<f32, [3, 3]> = t @ t.t();  let b : Tensor<f32, [3]> = t @ v;  let c = v @ t.t();",
    "matmul_shapes": T + "let a = t @ t;  //! E7001",
    "matmul_ranks": T + "let a = v @ v;  //! E7001",
    "matmul_scalar": T + "let a = t @ 2.0;  //! E7001",
    "matmul_mixed_floats": "let a = Tensor<f16, [2, 3]>::new();  let b = Tensor<bf16, [3, 2]>::new();  let c : Tensor<f32, [2, 2]> = a @ b;",
    "matmul_elements": "let a = Tensor<i32, [2, 3]>::new();  let b = Tensor<f32, [3, 2]>::new();\n let c = a @ b;  //! E7002",
    "matmul_integers": "let a = Tensor<i64, [2, 3]>::new();  let b = Tensor<i64, [3, 2]>::new();  let c : Tensor<i64, [2, 2]> = a @ b;",
    "dot": T + "let a : f32 = dot(v, t[0]) + v.dot(v) + sum(v) + v.max() + min(v) + dot(h, v) + sum(h);",
    "dot_rank": T + "let a = dot(t, t);  //! E7004",
    "dot_length": T + "let a = dot(v, t.t()[0]);  //! E7005",
    "dot_elements": "let a = Tensor<i32, [4]>::new();  let v = Tensor<f32, [4]>::new();\n let b = dot(a, v);  //! E7002",
    "max_of_two": "let a : f64 = max(1.0, 2.0);  let b : i32 = max(3, 4);",
    "sum_of_bools": "let a = Tensor<bool, [4]>::new();\n let b = sum(a);  //! E7002",
    "math": T
    + "let a : Tensor<f32, [4]> = v.exp().sqrt();  let b : Tensor<bool, [4]> = v.is_nan();  let c = v.max(0.0);",
    "reshape": T + "let a : &Tensor<f32, [12]> = t.reshape([12]);  let b : &Tensor<f32, [2, 6]> = t.reshape([2, 6]);",
    "reshape_count": T + "let a = t.reshape([11]);  //! E7007",
    "reshape_gaps": T + "let a = t.t().reshape([12]);  //! E7008",
    "reshape_slice_gaps": T + "let a = t[0..2, 1].reshape([2]);  //! E7008",
    "reshape_argument": T + "let a = t.reshape(12);  //! E3008",
    "transpose_rank": T + "let a = v.t();  //! E7004",
    "bytes": T + "let a : &Tensor<u8, [?]> = t.bytes();  let b = t[1].bytes();  let n : i64 = b.extent(0);",
    "bytes_gaps": T + "let a = t.t().bytes();  //! E7008",
    "extent": T + "let a : i64 = t.extent(1);\n let b = t.extent(2);  //! E7003",
    "extent_dynamic_axis": T + "let i = 0;  let j = i + 1;\n let b = t.extent(j);  //! E0301",
    "new_dynamic": "fn f(n : i64) -> void { let t = Tensor<f32, [n, 4]>::new();  let a : i64 = t.extent(0); }\nfn main() -> i32 { 0 }",
    "new_unknown": "let t = Tensor<f32, [?]>::new();  //! E7004",
    "new_no_shape": "let t = Tensor<f32>::new();  //! E7004",
    "new_shapeless_twice": "let t : Tensor<f32> = Tensor<f32>::new();  //! E7004",
    "shapeless_let": "let t : Tensor<f32> = Tensor<f32>([[1.0, 2.0]]);  let u : Tensor<f32, [1, 2]> = t;\n let w : Tensor<f64> = Tensor<f32, [2]>::new();  //! E3001",
    "new_from_type": "let t : Tensor<f32, [3]> = Tensor<f32>::new();",
    "fill": "let t = Tensor<f16, [3]>::fill(NAN as f16);  let u = Tensor<f64, [3]>::fill(1);\n let w = Tensor<f32, [3]>::fill(true);  //! E3003",
    "fill_count": "let t = Tensor<f16, [3]>::fill();  //! E3008",
    "contents": "let t : Tensor<f32, [2, 2]> = Tensor<f32>([[1.0, 2.0], [3.0, 4.0]]);  let u : Tensor<f32, [2]> = Tensor<f32>([1.0, 2.0]);",
    "contents_ragged": "let t = Tensor<f32>([[1.0, 2.0], [3.0]]);  //! E7009",
    "contents_shape": "let t = Tensor<f32, [3]>([1.0, 2.0]);  //! E7009",
    "contents_integers": "let t : Tensor<i32, [3]> = Tensor<i32, [3]>([1, 2, 3]);",
    "contents_element": "let a = true;\n let t = Tensor<f32, [1]>([a]);  //! E3003",
    "shape_spelling": "let n = 4;  let t : Tensor<f32, [1, 4]> = Tensor<f32>([1, n]);",
    "shape_spelling_dynamic": "fn f(n : i32) -> Tensor<f32, [1, ?]> { Tensor<f32>([1, n]) }\nfn main() -> i32 { 0 }",
    "assign_element": MT + "t[1][2] = 3;  t[n, 0] += 1.5;  t[n][n] *= 2;",
    "assign_row": MT + "t[1] = v;  t[n] = v * 2.0;  t[0..2] = t[1..3] * 1.0;  t[1] += v;  t *= 2;",
    "assign_row_length": MT + "t[1] = t.t()[0];  //! E7005",
    "assign_row_element_type": MT + "t[1] = v as f64;  //! E3009",
    "assign_row_scalar": MT + "t[1] = 0.0;  //! E3009",
    "assign_element_row": MT + "t[1][2] = v;  //! E3009",
    "assign_whole": "let mut v = Tensor<f32, [4]>::new();  let w = Tensor<f32, [4]>::new();  v = w;  v = v * 2.0;",
    "assign_through": "fn f(out : &mut Tensor<f32, [4]>, v : &Tensor<f32, [4]>) -> void { out = v * 2.0;  out[1] = v[0]; }\nfn main() -> i32 { 0 }",
    "matmul_into": MT + "let mut c = Tensor<f32, [3, 3]>::new();  let u = t.t().copy();  matmul_into(&mut c, &t, &u);",
    "matmul_into_shapes": MT
    + "let mut c = Tensor<f32, [3, 4]>::new();  let u = t.t().copy();\n matmul_into(&mut c, &t, &u);  //! E7001",
    "matmul_into_shared": MT
    + "let mut c = Tensor<f32, [3, 3]>::new();  let u = t.t().copy();\n matmul_into(&c, &t, &u);  //! E3003",
    "matmul_into_value": MT + "let a = matmul_into(&mut t, &t, &t);  //! E3012",
    "attention": "let mut o = Tensor<f32, [2, 8]>::new();  let q = Tensor<f32, [2, 8]>::new();  let k = Tensor<f16, [5, 8]>::new();\n"
    "flash_attention_into(&mut o, &q, &k, &k, 0.5);  flash_attention_into(&mut o, &q, &k, &k, 0.5, 3);",
    "attention_shapes": "let mut o = Tensor<f32, [2, 8]>::new();  let q = Tensor<f32, [2, 8]>::new();  let k = Tensor<f16, [5, 7]>::new();\n"
    "flash_attention_into(&mut o, &q, &k, &k, 0.5);  //! E7001",
    "attention_rank": T
    + "let mut o = Tensor<f32, [3, 4]>::new();\n flash_attention_into(&mut o, &t, &v, &t, 0.5);  //! E7004",
    "attention_scale": T
    + "let mut o = Tensor<f32, [3, 4]>::new();  let s : f64 = 1.0;\n flash_attention_into(&mut o, &t, &t, &t, s);  //! E3003",
    "attention_count": T
    + "let mut o = Tensor<f32, [3, 4]>::new();\n flash_attention_into(&mut o, &t, &t, &t);  //! E3008",
    "storage_only": "let t = Tensor<f8e4m3, [4]>::new();  let u : Tensor<f32, [4]> = t as f32;  let a = t[0] as f32;",
    "storage_only_arithmetic": "let t = Tensor<i4, [4]>::new();\n let u = t + t;  //! E3004",
    "storage_only_scalar": "fn f(a : i4) -> void { }  //! E3012\nfn main() -> i32 { 0 }",
    "no_such_method": T + "let a = t.shape();  //! E0204",
    "fields_of_tensor": T + "let a = t.rows;  //! E0203",
    "array_value": "let a = [1, 2];  //! E3012",
    "any_shape": "fn f(t : &Tensor<f32>) -> i64 { t.extent(0) }\nfn main() -> i32 { let v = Tensor<f32, [4]>::new();  let t = Tensor<f32, [2, 2]>::new();  f(&v);  f(&t);  0 }",
    "any_shape_by_value": "fn f(t : Tensor<f32>) -> i64 { t.extent(0) }\nfn main() -> i32 { f(Tensor<f32, [4]>::new());  f(Tensor<f32, [2, 2]>::new());  0 }",
    "any_shape_of_number": "fn f(t : &Tensor<f32>) -> i64 { t.extent(0) }\nfn main() -> i32 {\n f(3);  //! E3003\n 0 }",
    "matrix": "fn f(m : &Matrix) -> f32 { m[0][1] }\nfn main() -> i32 { let t = Tensor<f32, [2, 2]>::new();  f(&t);  0 }",
}


@pytest.mark.parametrize("name", CASES)
def test_tensors(name: str, tmp_path: Path) -> None:
    expect(tmp_path, CASES[name])


def test_rows_and_elements(tmp_path: Path) -> None:
    text = dumped(
        tmp_path,
        "let m = Tensor<f32, [3, 4]>::new();  let i = 1;  let r = m[i];  let a = m[i][2];  let s = m[0..2][1];",
    )
    assert "let r.2 : &Tensor<f32, [4]> = &m.0[copy i.1];" in text
    assert "let a.3 : f32 = copy m.0[copy i.1, 2i32];" in text
    assert "let s.4 : &Tensor<f32, [4]> = &m.0[0i32..2i32][1i32];" in text


def test_slices_keep_what_is_known_of_their_extent(tmp_path: Path) -> None:
    source = "fn f(t : &Tensor<f32, [8, 4]>, at : i32, n : i32) -> void {\n"
    source += "  let a = t[at..at + 3];  let b = t[0..n];  let c = t[..];  let d = t[n..];  let e = t[2 * at..2 * at + 2, 1];\n}\nfn main() -> i32 { 0 }"
    text = dumped(tmp_path, source, "f")
    types = [line.split(" : ")[1].split(" = ")[0] for line in text.splitlines()[1:-1]]
    assert types == [
        "&Tensor<f32, [3, 4]>",
        "&Tensor<f32, [? (at most 8), 4]>",
        "&Tensor<f32, [8, 4]>",
        "&Tensor<f32, [? (at most 8), 4]>",
        "&Tensor<f32, [2]>",
    ]


def test_whole_assignment_moves_and_row_assignment_copies(tmp_path: Path) -> None:
    source = "let mut a = Tensor<f32, [2, 3]>::new();  let b = Tensor<f32, [2, 3]>::new();  let v = Tensor<f32, [3]>::new();  a = b;  a[1] = v;"
    text = dumped(tmp_path, source)
    assert "a.0 = move b.1;" in text and "a.0[1i32] = &v.2;" in text


def test_operators_read_without_moving(tmp_path: Path) -> None:
    source = "struct S { x : Tensor<f32, [4]> }\nfn f(s : &S) -> f32 { let y = s.x * 2.0 + s.x;  dot(y, s.x) }\nfn main() -> i32 { 0 }"
    text = dumped(tmp_path, source, "f")
    assert "((&(*s.0).x * 2.0f32) : Tensor<f32, [4]> + &(*s.0).x) : Tensor<f32, [4]>" in text
    assert "dot(&y.1, &(*s.0).x)" in text
