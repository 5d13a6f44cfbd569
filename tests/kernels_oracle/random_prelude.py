"""What every random program begins with: functions that its cases call, in Vx and in Python."""

from __future__ import annotations

from random_text import INTEGERS, LIMIT

ELEMS = [*LIMIT, *INTEGERS, "bool"]


def shown(value: str, elem: str) -> str:
    """A scalar of any type as something that prints as a number."""
    if elem == "bool":
        return f"if {value} {{ 1 }} else {{ 0 }}"
    return f"{value} as f32" if elem in ("f16", "bf16") else value


def prelude() -> str:
    """The functions that cases call."""
    parts = [VX_PRELUDE]
    for elem in ELEMS:
        first = "((k * 37 + salt * 101) % 15)"
        value = f"{first} as {elem}" if elem[0] == "u" else f"({first} - 7) as {elem}"
        value = f"{first} % 2 == 0" if elem == "bool" else value
        parts.append(
            f"fn start_{elem}(t : &mut Tensor<{elem}, [?]>, salt : i32) -> void {{\n"
            f"  for j in 0..t.extent(0) {{ let k : i32 = j as i32;  t[k] = {value}; }}\n}}\n"
            f"fn dump_{elem}(t : &Tensor<{elem}, [?]>) -> void {{\n"
            f'  for k in 0..t.extent(0) {{ print({shown("t[k]", elem)});  print(" "); }}\n  print("\\n");\n}}\n'
        )
    return "".join(parts)


VX_PRELUDE = """\
fn pick(x : f32, y : f32) -> f32 {
  if x > y { return x - y; }
  if y > 3.0 { return 1.0; }
  x + y
}
fn first_above(a : &Tensor<f32, [?]>, x : f32) -> i32 {
  for i in 0..a.extent(0) {
    if a[i] > x { return i as i32; }
  }
  -1
}
fn alternating(a : &Tensor<f32, [?]>) -> f32 {
  let mut total : f32 = 0.0;
  let mut sign : f32 = 1.0;
  let mut i : i64 = 0;
  while i < a.extent(0) {
    total += a[i] * sign;
    sign = -sign;
    i += 1;
  }
  total
}
fn every<const K : i32>(a : &Tensor<f32, [?]>) -> f32 {
  let mut total : f32 = 0.0;
  for i in 0..a.extent(0) {
    if i % (K as i64) != 0 { continue; }
    total += a[i];
  }
  total
}
fn early<const N : i32>(a : &Tensor<f32, [N]>, x : f32) -> Tensor<f32, [N]> {
  if x > 2.0 { return a.copy(); }
  let mut r = a.copy();
  for i in 0..N {
    if i % 2 == 1 { continue; }
    r[i] = a[i] + 1.0;
  }
  r
}
fn running(a : &mut Tensor<f32, [?]>) -> void {
  for i in 1..a.extent(0) { a[i] = (a[i] + a[i - 1]).max(-7.0).min(7.0); }
}
fn reversed(a : &mut Tensor<f32, [?]>) -> void {
  let n : i64 = a.extent(0);
  for i in 0..n / 2 {
    let x : f32 = a[i];
    a[i] = a[n - 1 - i];
    a[n - 1 - i] = x;
  }
}
fn scaled(out : &mut Tensor<f32, [?]>, a : &Tensor<f32, [?]>, s : f32) -> void {
  for i in 0..out.extent(0) { out[i] = (a[i] * s).max(-7.0).min(7.0); }
}
fn until_negative(out : &mut Tensor<f32, [?]>, a : &Tensor<f32, [?]>) -> void {
  for i in 0..out.extent(0) {
    if a[i] < -3.0 { return; }
    if a[i] > 5.0 { continue; }
    out[i] = a[i];
  }
}
"""

PY_PRELUDE = """
class Pair: pass
import math
import numpy as np

def clamp(x): return np.clip(x, -7, 7) if isinstance(x, np.ndarray) else max(-7, min(7, x))

def wrap(x, bits):
    size = abs(bits)
    x = int(x) & ((1 << size) - 1)
    return x - (1 << size) if bits > 0 and x >> (size - 1) else x

def quotient(a, b): return abs(a) // b * (1 if a >= 0 else -1)
def rest(a, b): return a - quotient(a, b) * b

def start(elem, dims, salt):
    size = math.prod(dims)
    base = (np.arange(size) * 37 + salt * 101) % 15
    if elem == "bool": return (base % 2 == 0).reshape(dims)
    if elem[0] == "u": return base.astype(np.int64).reshape(dims)
    return (base - 7).astype(np.int64 if elem[0] == "i" else np.float64).reshape(dims)

def pick(x, y):
    if x > y: return x - y
    if y > 3: return 1.0
    return x + y

def first_above(a, x):
    for i in range(len(a)):
        if a[i] > x: return i
    return -1

def alternating(a): return float(a[::2].sum() - a[1::2].sum())
def every(k, a): return float(a[::k].sum())

def early(a, x):
    r = a.copy()
    if x > 2: return r
    r[::2] += 1
    return r

def running(a):
    for i in range(1, len(a)): a[i] = clamp(a[i] + a[i - 1])

def reversed(a): a[:] = a[::-1].copy()
def scaled(out, a, s): out[:] = clamp(a * s)

def until_negative(out, a):
    for i in range(len(out)):
        if a[i] < -3: return
        if a[i] > 5: continue
        out[i] = a[i]
"""
