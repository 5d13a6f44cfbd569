"""Use after move: E4001, and moves that leave a hole, E4007."""

from __future__ import annotations

from pathlib import Path

import pytest
from borrow_cases import check_case, diagnostics

CASES = {
    "twice": """
  let t = tensor();
  take(t);
  take(t);  //! E4001""",
    "borrow after move": """
  let t = tensor();
  take(t);
  look(&t);  //! E4001""",
    "read after move": """
  let t = tensor();
  take(t);
  let x = t[0];  //! E4001""",
    "write after move": """
  let mut t = tensor();
  take(t);
  t[0] = 1.0;  //! E4001""",
    "moved by let": """
  let t = tensor();
  let u = t;
  look(&u);
  look(&t);  //! E4001""",
    "new value": """
  let mut t = tensor();
  take(t);
  t = tensor();
  take(t);""",
    "moved in one arm": """
  let t = tensor();
  if yes() { take(t); }
  look(&t);  //! E4001""",
    "moved in both arms": """
  let t = tensor();
  if yes() { take(t); } else { take(t); }""",
    "moved in an arm that leaves": """
  let t = tensor();
  if yes() { take(t); return 1; }
  look(&t);""",
    "arm gives a new value": """
  let mut t = tensor();
  if yes() { take(t); t = tensor(); }
  look(&t);""",
    "moved in a loop": """
  let t = tensor();
  for i in 0..3 { take(t); }  //! E4001""",
    "moved in a loop and left": """
  let t = tensor();
  loop { take(t); break; }""",
    "moved in a loop, new value each round": """
  let mut t = tensor();
  for i in 0..3 { take(t); t = tensor(); }
  take(t);""",
    "moved at the end of a round": """
  let t = tensor();
  while yes() {
    look(&t);  //! E4001
    take(t);
  }""",
    "moved before continue": """
  let t = tensor();
  while yes() {
    if yes() { take(t); continue; }  //! E4001
    look(&t);
  }""",
    "declared in the loop": """
  for i in 0..3 { let t = tensor(); take(t); }""",
    "part": """
  let p = pair();
  take(p.a);
  look(&p.b);
  take(p.b);
  look(&p.a);  //! E4001""",
    "whole after part": """
  let p = pair();
  take(p.a);
  take_pair(p);  //! E4001""",
    "part after whole": """
  let p = pair();
  take_pair(p);
  look(&p.b);  //! E4001""",
    "part given back": """
  let mut p = pair();
  take(p.a);
  p.a = tensor();
  take_pair(p);""",
    "part of a moved whole cannot be given back": """
  let mut p = pair();
  take_pair(p);
  p.a = tensor();  //! E4001""",
    "match moves": """
  let m = Maybe::Some(tensor());
  match m { Maybe::Some(t) => { take(t); } Maybe::None => { } }
  match m { Maybe::Some(t) => { } Maybe::None => { } }  //! E4001""",
    "match of a reference does not": """
  let m = Maybe::Some(tensor());
  match &m { Maybe::Some(t) => { look(t); } Maybe::None => { } }
  match m { Maybe::Some(t) => { take(t); } Maybe::None => { } }""",
    "moved in one match arm": """
  let t = tensor();
  match 3 { 1 => { take(t); } _ => { look(&t); } }
  look(&t);  //! E4001""",
    "struct literal moves": """
  let t = tensor();
  let p = Pair { a: t, b: tensor() };
  look(&t);  //! E4001""",
    "one value in two fields": """
  let t = tensor();
  let p = Pair { a: t, b: t };  //! E4001""",
    "argument and borrow": """
  let t = tensor();
  let p = Pair { a: tensor(), b: tensor() };
  take(p.a);
  both_owned(t, &t);  //! E4001
  0
}
fn both_owned(t : Tensor<f32, [4]>, u : &Tensor<f32, [4]>) -> void { }
fn other() -> i32 {""",
    "copied values are not moved": """
  let x = 3;
  let y = x;
  let z = x + y;
  let s = "text";
  print(s);
  print(s);""",
    "references are not moved": """
  let mut t = tensor();
  let r = &mut t;
  change(r);
  change(r);
  let s = &t;
  look(s);
  look(s);""",
    "return moves": """
  let t = tensor();
  if yes() { let u = t; return 0; }
  look(&t);""",
    "short circuit": """
  let t = tensor();
  let good = yes() && gone(t);
  look(&t);  //! E4001
  0
}
fn gone(t : Tensor<f32, [4]>) -> bool { true }
fn other() -> i32 {""",
    "out of a reference": """
  let p = pair();
  let r = &p;
  take(r.a);  //! E4007""",
    "out of a mutable reference": """
  let mut t = tensor();
  let r = &mut t;
  let u = *r;  //! E4007""",
    "out of what is dropped whole": """
  let g = Guard { t: tensor() };
  take(g.t);  //! E4007
  0
}
struct Guard { t : Tensor<f32, [4]> }
impl Guard { fn drop(self : &mut Guard) -> void { } }
fn other() -> i32 {""",
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_moves(body: str, tmp_path: Path) -> None:
    check_case(tmp_path, body)


def test_says_where_it_was_moved_and_what_to_do(tmp_path: Path) -> None:
    source = """fn take(t : Tensor<f32, [4]>) -> void { }
fn main() -> i32 {
  let weights = Tensor<f32, [4]>::new();
  take(weights);
  take(weights);
  0
}
"""
    (error,), sources = diagnostics(tmp_path, source)
    assert error.message == "cannot use `weights`: its value was moved"
    assert [(sources.line_col(label.span), label.text) for label in error.labels] == [((4, 8), "`weights` moved here")]
    assert error.helps[0].text == "borrow it with `&weights` where it is moved, or move `weights.copy()`"


def test_a_generic_function_complains_once(tmp_path: Path) -> None:
    source = """fn twice<const N : i32>(t : Tensor<f32, [N]>) -> void { let a = t; let b = t; }
fn main() -> i32 {
  twice(Tensor<f32, [4]>::new());
  twice(Tensor<f32, [5]>::new());
  0
}
"""
    found, _ = diagnostics(tmp_path, source)
    assert [error.code for error in found] == ["E4001"]
