"""Exclusivity: E4002 to E4004, lifetimes: E4005, and what is not mutable: E4006."""

from __future__ import annotations

from pathlib import Path

import pytest
from borrow_cases import check_case, diagnostics

CASES = {
    "two mutable": """
  let mut t = tensor();
  let a = &mut t;
  let b = &mut t;  //! E4002
  change(a);""",
    "two mutable, one after the other": """
  let mut t = tensor();
  let a = &mut t;
  change(a);
  let b = &mut t;
  change(b);""",
    "two mutable in one call": """
  let mut t = tensor();
  two(&mut t, &mut t);  //! E4002""",
    "mutable and shared in one call": """
  let mut t = tensor();
  both(&mut t, &t);  //! E4002""",
    "shared first": """
  let mut t = tensor();
  flipped(&t, &mut t);  //! E4002
  0
}
fn flipped(u : &Tensor<f32, [4]>, t : &mut Tensor<f32, [4]>) -> void { }
fn other() -> i32 {""",
    "disjoint fields": """
  let mut p = pair();
  both(&mut p.a, &p.b);
  let a = &mut p.a;
  let b = &mut p.b;
  change(a);
  change(b);
  look(&p.a);""",
    "whole and field": """
  let mut p = pair();
  let a = &mut p.a;
  let q = &p;  //! E4003
  change(a);
  look(&q.b);""",
    "rows with different constants": """
  let mut m = matrix();
  both(&mut m[0], &m[1]);""",
    "rows with equal constants": """
  let mut m = matrix();
  both(&mut m[1], &m[1]);  //! E4002""",
    "rows with unknown numbers": """
  let mut m = matrix();
  for i in 0..3 { for j in 0..3 { both(&mut m[i], &m[j]); } }  //! E4002""",
    "rows a constant apart": """
  let mut m = matrix();
  for i in 0..3 { both(&mut m[i], &m[i + 1]); }
  for i in 0..3 { both(&mut m[2 * i + 1], &m[2 * i]); }
  for i in 0..3 { both(&mut m[i + 1], &m[1 + i]); }  //! E4002""",
    "rows a constant apart, kept into the next round": """
  let mut m = matrix();
  let t = tensor();
  let mut before = &t;
  for i in 0..3 {
    change(&mut m[i + 1]);  //! E4002
    look(before);
    before = &m[i + 2];
  }""",
    "rows a constant apart, but the number changes": """
  let mut m = matrix();
  let mut i = 0;
  let r = &mut m[i];
  i += 1;
  look(&m[i - 1]);  //! E4003
  look(&m[i]);      //! E4003
  change(r);""",
    "rows a constant apart, but the number is lent": """
  let mut m = matrix();
  let mut i = 0;
  let p = &mut i;
  let r = &mut m[i];  //! E4003
  *p = 1;
  look(&m[i + 1]);  //! E4003
  change(r);""",
    "rows by numbers from a tensor": """
  let mut m = matrix();
  let k = Tensor<i32, [2]>::new();
  both(&mut m[k[0]], &m[k[0] + 1]);  //! E4002""",
    "rows a constant apart, in numbers that wrap around": """
  let mut m = matrix();
  let n : u8 = 200;
  parts(&mut m[0..n], &m[n + 60..4]);  //! E4002
  0
}
fn parts(a : &mut Tensor<f32, [?, 4]>, b : &Tensor<f32, [?, 4]>) -> void { a[0][0] = b[0][0]; }
fn other() -> i32 {""",
    "slices that meet": """
  let mut v = Tensor<f32, [8]>::new();
  for n in 1..3 {
    parts(&mut v[0..n], &v[n..8]);
    parts(&mut v[n..2 * n], &v[0..n]);
    parts(&mut v[n..2 * n], &v[0..n + 1]);  //! E4002
  }
  0
}
fn parts(a : &mut Tensor<f32, [?]>, b : &Tensor<f32, [?]>) -> void { a[0] = b[0]; }
fn other() -> i32 {""",
    "slices apart": """
  let mut m = matrix();
  let low = &mut m[0..2];
  let high = &m[2..4];
  low[0][0] = high[0][0];""",
    "slices that overlap": """
  let mut m = matrix();
  let low = &mut m[0..3];
  let high = &m[2..4];  //! E4003
  low[0][0] = high[0][0];""",
    "product into an operand": """
  let a = matrix();
  let mut c = matrix();
  matmul_into(&mut c, &c, &a);  //! E4002
  matmul_into(&mut c, &a, &c);  //! E4002
  matmul_into(&mut c, &a, &a);""",
    "attention into its keys": """
  let q = matrix();
  let mut k = matrix();
  flash_attention_into(&mut k, &q, &k, &q, 1.0);  //! E4002""",
    "read while mutably borrowed": """
  let mut t = tensor();
  let r = &mut t;
  let x = t[0];  //! E4003
  change(r);""",
    "read after the last use": """
  let mut t = tensor();
  let r = &mut t;
  change(r);
  let x = t[0];""",
    "borrow while mutably borrowed": """
  let mut t = tensor();
  let r = &mut t;
  look(&t);  //! E4003
  change(r);""",
    "write while borrowed": """
  let mut t = tensor();
  let r = &t;
  t[0] = 1.0;  //! E4004
  look(r);""",
    "write after the last use": """
  let mut t = tensor();
  let r = &t;
  look(r);
  t[0] = 1.0;""",
    "write another row": """
  let mut m = matrix();
  let r = m[0];
  m[1][0] = 1.0;
  look(r);
  m[0][0] = 1.0;""",
    "view is a borrow": """
  let mut m = matrix();
  let r = m[0];
  m[0][0] = 1.0;  //! E4004
  look(r);""",
    "move while borrowed": """
  let t = tensor();
  let r = &t;
  take(t);  //! E4004
  look(r);""",
    "replace while borrowed": """
  let mut t = tensor();
  let r = &t;
  t = tensor();  //! E4004
  look(r);""",
    "scalar": """
  let mut x = 1;
  let r = &x;
  x = 2;  //! E4004
  print(*r);""",
    "compound assignment": """
  let mut x = 1;
  let r = &x;
  x += 2;  //! E4004
  print(*r);""",
    "element-wise from itself": """
  let mut t = tensor();
  t[0] = t[1] + t[0];
  t[1..4] = t[0..3] * 2.0;
  t[0..3] = t[1..4];
  t[0] += t[0];""",
    "argument of a method on the same value": """
  let mut v = Stack { n: 0 };
  v.push(v.len());
  v.push(v.n);
  0
}
struct Stack { n : i32 }
impl Stack {
  fn len(self : &Stack) -> i32 { self.n }
  fn push(self : &mut Stack, x : i32) -> void { self.n = x; }
}
fn other() -> i32 {""",
    "argument that changes the receiver": """
  let mut v = Stack { n: 0 };
  v.push(v.next());  //! E4002
  0
}
struct Stack { n : i32 }
impl Stack {
  fn next(self : &mut Stack) -> i32 { self.n += 1;  self.n }
  fn push(self : &mut Stack, x : i32) -> void { self.n = x; }
}
fn other() -> i32 {""",
    "result borrows from the argument": """
  let mut t = tensor();
  let r = same(&t);
  t[0] = 1.0;  //! E4004
  look(r);""",
    "result borrows from either": """
  let mut t = tensor();
  let mut u = tensor();
  let r = either(&t, &u);
  u[0] = 1.0;  //! E4004
  look(r);
  u[0] = 1.0;""",
    "mutable result": """
  let mut t = tensor();
  let r = same_mut(&mut t);
  look(&t);  //! E4003
  change(r);
  look(&t);""",
    "through a reference": """
  let mut t = tensor();
  let r = &mut t;
  let s = &mut r[0..2];
  change(r);  //! E4002
  s[0] = 1.0;
  change(r);""",
    "references passed on": """
  let mut t = tensor();
  inner(&mut t, &tensor());
  0
}
fn inner(t : &mut Tensor<f32, [4]>, u : &Tensor<f32, [4]>) -> void {
  for i in 0..3 { both(t, u);  change(t);  look(t); }
}
fn other() -> i32 {""",
    "struct with a reference": """
  let mut t = tensor();
  let v = View { of: &t, n: 1 };
  t[0] = 1.0;  //! E4004
  look(v.of);""",
    "struct with a reference, scalar field used": """
  let mut t = tensor();
  let v = View { of: &t, n: 1 };
  let n = v.n;
  t[0] = 1.0;
  print(n);""",
    "struct with a mutable reference": """
  let mut t = tensor();
  let e = Edit { of: &mut t, n: 1 };
  change(e.of);
  look(&t);  //! E4003
  change(e.of);""",
    "reference stored in a field": """
  let t = pair();
  let mut u = pair();
  let mut v = Look { at: &t, n: 1 };
  v.at = &u;
  u.a[0] = 1.0;  //! E4004
  see(v.at);""",
    "a number read from what holds a reference": """
  let t = pair();
  let mut u = pair();
  let mut v = Look { at: &t, n: 1 };
  v.at = &u;
  v.n = 2;
  see(v.at);
  u.a[0] = 1.0;
  print(v.n);""",
    "loop keeps a borrow": """
  let mut m = matrix();
  let other = tensor();
  let mut kept = &other;
  for i in 0..3 {
    m[i][0] = 1.0;  //! E4004
    look(kept);
    kept = m[i];
  }""",
    "loop borrows anew": """
  let mut m = matrix();
  for i in 0..3 {
    let r = &mut m[i];
    r[0] = 1.0;
    m[0][0] = r_free();
  }
  0
}
fn r_free() -> f32 { 1.0 }
fn other() -> i32 {""",
    "reference replaced": """
  let mut t = tensor();
  let u = tensor();
  let mut r = &t;
  look(r);
  r = &u;
  t[0] = 1.0;
  look(r);""",
    "borrow in one arm": """
  let mut t = tensor();
  let u = tensor();
  let r = if yes() { &t } else { &u };
  t[0] = 1.0;  //! E4004
  look(r);""",
    "a reference that moves on": """
  let p = pair();
  let mut q = pair();
  let mut r = &p;
  while yes() { r = same_pair(r); }
  see(r);
  let mut e = &mut q;
  while yes() { e = next(e); }
  e.a[0] = 1.0;
  see(&q);
  0
}
fn next(p : &mut Pair) -> &mut Pair { p }
fn other() -> i32 {""",
    "match binding borrows": """
  let mut m = Maybe::Some(tensor());
  match &m {
    Maybe::Some(t) => {
      m = Maybe::None;  //! E4004
      look(t);
    }
    Maybe::None => { m = Maybe::None; }
  }""",
    "returned local": """
  look(escape());
  0
}
fn escape() -> &Tensor<f32, [4]> {
  let t = tensor();
  &t  //! E4005
}
fn other() -> i32 {""",
    "returned view of a parameter by value": """
  look(escape(tensor()));
  0
}
fn escape(t : Tensor<f32, [4]>) -> &Tensor<f32, [4]> {
  return &t;  //! E4005
}
fn other() -> i32 {""",
    "returned view of a reference": """
  let m = matrix();
  look(row(&m));
  0
}
fn row(m : &Tensor<f32, [4, 4]>) -> &Tensor<f32, [4]> { let r = m[2];  r }
fn other() -> i32 {""",
    "returned inside a struct": """
  let v = escape();
  look(v.of);
  0
}
fn escape() -> View {
  let t = tensor();
  View { of: &t, n: 1 }  //! E4005
}
fn other() -> i32 {""",
    "kept beyond its block": """
  let other = tensor();
  let mut kept = &other;
  if yes() {
    let t = tensor();
    kept = &t;  //! E4005
  }
  look(kept);""",
    "kept, but not used beyond its block": """
  let other = tensor();
  let mut kept = &other;
  if yes() {
    let t = tensor();
    kept = &t;
    look(kept);
  }""",
    "block value": """
  let r = { let t = tensor(); &t };  //! E4005
  look(r);""",
    "kept from round to round": """
  let other = tensor();
  let mut kept = &other;
  while yes() {
    look(kept);
    let t = tensor();
    kept = &t;  //! E4005
  }""",
    "temporary": """
  let r = same(&tensor());  //! E4005
  look(r);""",
    "temporary within its statement": """
  look(same(&tensor()));
  let x = tensor()[0];""",
    "stored where the caller sees it": """
  let p = pair();
  let mut v = Look { at: &p, n: 1 };
  store(&mut v);
  see(v.at);
  0
}
fn store(v : &mut Look) -> void {
  let p = pair();
  v.at = &p;  //! E4005
}
fn other() -> i32 {""",
    "stored by a callee": """
  let p = pair();
  let mut v = Look { at: &p, n: 1 };
  if yes() {
    let q = pair();
    store(&mut v, &q);  //! E4005
  }
  see(v.at);
  0
}
fn store(v : &mut Look, p : &Pair) -> void { v.at = p; }
fn other() -> i32 {""",
    "passed on to be stored": """
  let p = pair();
  let mut v = Look { at: &p, n: 1 };
  store(&mut v);
  see(v.at);
  0
}
fn store(v : &mut Look) -> void {
  let p = pair();
  let w = v;
  keep(w, &p);  //! E4005
}
fn keep(v : &mut Look, p : &Pair) -> void { v.at = p; }
fn other() -> i32 {""",
    "regions": """
  let mut m = matrix();
  let mut t = tensor();
  let r = m[0];
  spawn on(Topology::CPU) { for i in 0..4 { t[i] = r[i]; } }
  spawn on(Topology::CPU) { for i in 0..4 { m[i][i] = t[i]; } }
  let s = m[1];
  spawn on(Topology::CPU) { for i in 0..4 { m[1][i] = s[i]; } }  //! E4004""",
    "not mutable": """
  let x = 1;
  x = 2;  //! E4006
  let t = tensor();
  t[0] = 1.0;  //! E4006
  change(&mut t);  //! E4006
  t[0] += 1.0;  //! E4006""",
    "not mutable: parameters and loop variables": """
  for i in 0..3 { i = 2; }  //! E4006
  let a = local(1, tensor());
  0
}
fn local(n : i32, t : Tensor<f32, [4]>) -> i32 {
  n += 1;  //! E4006
  t[0] = 1.0;  //! E4006
  let mut u = t;
  u[0] = 1.0;
  n
}
fn other() -> i32 {""",
    "not mutable: through a shared reference": """
  let mut t = tensor();
  let r = &t;
  r[0] = 1.0;  //! E4006
  change(r.of);
  0
}
fn inner(t : &Tensor<f32, [4]>, e : &Edit) -> void {
  t[0] = 1.0;  //! E4006
  e.n = 1;  //! E4006
  change(e.of);  //! E4006
}
fn other() -> i32 {""".replace("  change(r.of);\n", ""),
    "mutable through a mutable reference": """
  let mut t = tensor();
  let e = Edit { of: &mut t, n: 1 };
  e.of[0] = 1.0;
  let r = &mut t;
  r[1] = 2.0;""",
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_conflicts(body: str, tmp_path: Path) -> None:
    check_case(tmp_path, body)


def test_names_both_places_and_the_later_use(tmp_path: Path) -> None:
    source = """fn main() -> i32 {
  let mut t = Tensor<f32, [2, 3]>::new();
  let row = t[0];
  t[0][1] = 5.0;
  print(row);
  0
}
"""
    (error,), sources = diagnostics(tmp_path, source)
    assert error.code == "E4004"
    assert error.message == "cannot assign to `t[0][1]` while `t[0]` is borrowed"
    labels = [(sources.line_col(label.span)[0], label.text) for label in error.labels]
    assert labels == [(3, "`t[0]` is borrowed here"), (5, "the borrow is needed here")]
