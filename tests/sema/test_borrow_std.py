"""Borrows through enums, the prelude and `Vec`: what ordinary programs do is accepted, what dangles is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from borrow_cases import check_case

IMPORTS = "import std::vec;\nimport std::string;\n"

CASES = {
    "option of a reference": """
fn find(p : &Pair, yes : bool) -> Option<&Pair> { if yes { Option<&Pair>::Some(p) } else { Option<&Pair>::None } }
fn main() -> i32 {
  let mut p = pair();
  match find(&p, true) {
    Option<&Pair>::Some(q) => {
      p.a[0] = 1.0;  //! E4004
      see(q);
    }
    Option<&Pair>::None => { p.a[0] = 2.0; }
  }
  p.a[0] = 3.0;
  0
}""",
    "result handed on": """
fn first(p : &Pair) -> Result<&Pair, i32> { Result<&Pair, i32>::Ok(p) }
fn second(p : &Pair) -> Result<&Pair, i32> {
  let q = first(p)?;
  first(q)
}
fn third() -> Result<&Pair, i32> {
  let p = pair();
  let q = first(&p)?;  //! E4005
  Result<&Pair, i32>::Ok(q)
}
fn main() -> i32 {
  let p = pair();
  if second(&p).is_ok() { 0 } else { 1 }
}""",
    "view into a vector": """
fn main() -> i32 {
  let mut v = Vec<Pair>::new();
  v.push(pair());
  let p = v.at(0);
  see(p);
  v.push(pair());
  let q = v.at(0);
  v.push(pair());  //! E4002
  see(q);
  0
}""",
    "changing an element in place": """
fn main() -> i32 {
  let mut v = Vec<Pair>::new();
  v.push(pair());
  v.at_mut(0).a[0] = 1.0;
  let e = v.at_mut(0);
  e.a[1] = 2.0;
  e.b[1] = e.a[1];
  see(v.at(0));
  for i in 0..v.len() { v.at_mut(i).a[0] = v.at(i).b[0]; }
  0
}""",
    "element of itself as argument": """
fn main() -> i32 {
  let mut v = Vec<i32>::new();
  v.push(1);
  v.push(v.get(0) + v.get(v.len() - 1));
  v.set(0, v.get(1));
  v.push(*v.at(0));
  0
}""",
    "vector of references": """
fn main() -> i32 {
  let mut p = pair();
  let mut v = Vec<&Pair>::new();
  v.push(&p);
  p.a[0] = 1.0;  //! E4004
  see(v.at(0));
  p.a[0] = 2.0;
  0
}""",
    "vector of references that outlives them": """
fn main() -> i32 {
  let mut v = Vec<&Pair>::new();
  if yes() {
    let p = pair();
    v.push(&p);  //! E4005
  }
  see(v.at(0));
  0
}""",
    "vector of references that is only dropped afterwards": """
fn main() -> i32 {
  let mut v = Vec<&Pair>::new();
  let p = pair();
  v.push(&p);
  see(v.at(0));
  0
}""",
    "moved into a vector": """
fn main() -> i32 {
  let mut v = Vec<Pair>::new();
  let p = pair();
  v.push(p);
  see(&p);  //! E4001
  let mut last = v.pop();
  match last { Option<Pair>::Some(q) => { take_pair(q); } Option<Pair>::None => { } }
  last = v.pop();
  0
}""",
    "a vector that is moved and made anew": """
fn consume(v : Vec<i32>) -> i64 { v.len() }
fn main() -> i32 {
  let mut v = Vec<i32>::new();
  let mut n : i64 = 0;
  for i in 0..3 {
    v.push(i);
    n += consume(v);
    v = Vec<i32>::new();
  }
  n += consume(v);
  0
}""",
    "drop that looks through a reference": """
struct Guard { of : &Pair }
impl Guard { fn drop(self : &mut Guard) -> void { see(self.of); } }
fn main() -> i32 {
  let mut p = pair();
  let g = Guard { of: &p };
  p.a[0] = 1.0;  //! E4004
  0
}""",
    "drop after what it looks at": """
struct Guard { of : &Pair }
impl Guard { fn drop(self : &mut Guard) -> void { see(self.of); } }
fn main() -> i32 {
  let p = pair();
  let mut g = Guard { of: &p };
  let q = pair();
  g.of = &q;  //! E4005
  0
}""",
    "a guard that is gone": """
struct Guard { of : &Pair }
impl Guard { fn drop(self : &mut Guard) -> void { see(self.of); } }
fn main() -> i32 {
  let mut p = pair();
  if yes() { let g = Guard { of: &p };  see(g.of); }
  p.a[0] = 1.0;
  0
}""",
    "early returns and breaks out of nested loops": """
fn search(m : &Tensor<f32, [4, 4]>) -> &Tensor<f32, [4]> {
  let mut best = m[0];
  for i in 0..4 {
    for j in 0..4 {
      if m[i][j] > 3.0 { return m[i]; }
      if m[i][j] > 2.0 { best = m[i];  break; }
      if m[i][j] < 0.0 { continue; }
    }
  }
  best
}
fn main() -> i32 {
  let mut m = matrix();
  let r = search(&m);
  look(r);
  m[0][0] = 1.0;
  0
}""",
    "a struct that lends its parts": """
struct Net { layers : Vec<Pair>, out : Tensor<f32, [4]> }
impl Net {
  fn layer(self : &Net, i : i64) -> &Pair { self.layers.at(i) }
  fn run(self : &mut Net) -> void {
    for i in 0..self.layers.len() {
      let l = self.layers.at(i);
      for j in 0..4 { self.out[j] += l.a[j] * l.b[j]; }
    }
  }
  fn wrong(self : &mut Net) -> void {
    let l = self.layer(0);
    for j in 0..4 { self.out[j] += l.a[j]; }  //! E4004
  }
}
fn main() -> i32 {
  let mut n = Net { layers: Vec<Pair>::new(), out: tensor() };
  n.layers.push(pair());
  n.run();
  n.wrong();
  0
}""",
    "matching on what is borrowed, and changing it afterwards": """
enum State { Idle, Busy(Pair) }
fn main() -> i32 {
  let mut s = State::Idle;
  for i in 0..3 {
    let next : bool = match &s { State::Idle => true, State::Busy(p) => p.a[0] > 0.0 };
    if next { s = State::Busy(pair()); } else { s = State::Idle; }
  }
  match &mut s {
    State::Idle => { }
    State::Busy(p) => {
      p.a[0] = 1.0;
      s = State::Idle;
    }
  }
  match &mut s {
    State::Idle => { }
    State::Busy(p) => {
      s = State::Idle;  //! E4004
      p.a[0] = 1.0;
    }
  }
  0
}""",
    "two words of one text": """
fn main() -> i32 {
  let mut text = String::from("a b");
  text.push_i64(text.len());
  let n = text.len();
  text.push_string(&String::from("c"));
  let raw = text.as_str();
  text.push(65);
  if n == 3 { 0 } else { 1 }
}""",
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_std(body: str, tmp_path: Path) -> None:
    check_case(tmp_path, body, IMPORTS)
