"""What must never touch memory that is not its own, or touch it in another order: compiled programs."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

import vx

STOPS = {
    "rows of more elements than there are numbers": (
        "index out of range",
        """
        fn fill(t : &mut Tensor<f32, [6, 8]>, n : i64, m : i64) -> void {
          spawn on(Topology::CPU) { for i in 0..n { for j in 0..m { t[i][j] = 1.0; } } }
        }
        fn main() -> i32 {
          let mut t = Tensor<f32, [6, 8]>::new();
          fill(&mut t, 6i64, 8i64);
          fill(&mut t, 2305843009213693953i64, 1i64);
          0
        }
        """,
    ),
    "a negative index that looked like a large one": (
        "index out of range",
        """
        fn main() -> i32 {
          let mut x = Tensor<f32, [16]>::new();
          let t = Tensor<u8, [2]>::fill(3u8);
          spawn on(Topology::CPU) {
            let k : i32 = (t[0] as i64 * 1000000000i64) as i32;
            x[k] = 1.0;
          }
          print(x[0]);
          0
        }
        """,
    ),
    "the gaps of a view, which another view may own": (
        "index out of range",
        """
        fn shift(a : &mut Tensor<f32, [4, 4]>, b : &Tensor<f32, [4, 4]>, k : i32) -> void {
          spawn on(Topology::CPU) { for i in 0..4 { a[0][k + i] = b[0][3 - i] + 1.0; } }
        }
        fn main() -> i32 {
          let mut t = Tensor<f32, [4, 8]>::new();
          shift(&mut t[0..4, 0..4], &t[0..4, 4..8], 0);
          shift(&mut t[0..4, 0..4], &t[0..4, 4..8], 4);
          0
        }
        """,
    ),
    "a dot product of rows of different lengths": (
        "shapes differ",
        """
        fn product(a : &Tensor<f32, [?]>, b : &Tensor<f32, [?]>) -> f32 { spawn on(Topology::CPU) { dot(a, b) } }
        fn main() -> i32 {
          let a = Tensor<f32, [100]>::fill(1.0);
          let b = Tensor<f32, [4]>::fill(1.0);
          print(product(&a, &b));
          0
        }
        """,
    ),
    "a product of matrices that do not fit": (
        "shapes differ",
        """
        fn product(c : &mut Tensor<f32, [?, ?]>, a : &Tensor<f32, [?, ?]>, b : &Tensor<f32, [?, ?]>) -> void {
          spawn on(Topology::CPU) { c = a @ b; }
        }
        fn main() -> i32 {
          let mut c = Tensor<f32, [2, 2]>::new();
          let a = Tensor<f32, [2, 100]>::fill(1.0);
          let b = Tensor<f32, [4, 2]>::fill(1.0);
          product(&mut c, &a, &b);
          0
        }
        """,
    ),
    "attention over keys that are shorter than queries": (
        "shapes differ",
        """
        fn attend(o : &mut Tensor<f32, [2, 8]>, q : &Tensor<f32, [2, ?]>, k : &Tensor<f32, [4, 8]>) -> void {
          spawn on(Topology::CPU) { flash_attention_into(o, q, k, k, 1.0); }
        }
        fn main() -> i32 {
          let mut o = Tensor<f32, [2, 8]>::new();
          let q = Tensor<f32, [2, 100]>::fill(1.0);
          let k = Tensor<f32, [4, 8]>::fill(1.0);
          attend(&mut o, &q, &k);
          0
        }
        """,
    ),
}


def run(path: Path, text: str) -> vx.RunResult:
    path.write_text(dedent(text))
    return vx.compile(path).run(timeout=20, env={"VX_THREADS": "2"})


@pytest.mark.parametrize("name", STOPS)
def test_stops(name: str, tmp_path: Path) -> None:
    message, text = STOPS[name]
    result = run(tmp_path / "stops.vx", text)
    assert message in result.stderr and result.status == 101, result


def test_goes_on(tmp_path: Path) -> None:
    """Indices that meet although they look different, and the largest after a NaN, which nothing is larger than."""
    text = """
    fn main() -> i32 {
      let mut y = Tensor<i32, [8]>::new();
      let t = Tensor<i32, [2]>::new();
      let mut x = Tensor<f32, [8]>::fill(1.0);
      let mut most = Tensor<f32, [2]>::new();
      x[0] = NAN;  x[3] = 5.0;
      spawn on(Topology::CPU) {
        for i in 0..4 {
          let mut own = Tensor<i32, [2]>::new();
          own[0] = 3 - i;
          y[own[0] + i] = y[own[0] + i] * 10 + i;
        }
        for i in 0..9 {
          let b : i32 = i * 1073741824 + t[0];
          if i % 4 == 0 { y[b] = y[b] * 10 + i; }
        }
        for k in 0..2 {
          let mut m : f32 = x[k];
          for i in 0..8 { if x[i] > m { m = x[i]; } }
          most[k] = m;
        }
      }
      print(y[3]);  print(" ");  print(y[0]);  print(" ");  print(most[0]);  print(" ");  print(most[1]);
      0
    }
    """
    assert run(tmp_path / "goes_on.vx", text).stdout == "123 48 nan 5"
