"""Source to kernels, as text: what is parallel, what shares a launch, what is checked and where."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from vx.diagnostics.report import CompileError, Reporter
from vx.diagnostics.source import SourceMap
from vx.emit import Stage, emit
from vx.options import Options

HEAD = """
const N : i32 = 6;
fn main() -> i32 {
  let mut n : i32 = 4;
  let w = Tensor<f32, [N, 8]>::fill(1.0);
  let x = Tensor<f32, [8]>::fill(2.0);
  let mut y = Tensor<f32, [N]>::new();
  let mut z = Tensor<f32, [N]>::new();
  let mut t = Tensor<f32, [N, 8]>::new();
  let mut best : i32 = 0;
  n += 0;
  spawn on(Topology::CPU) {
"""


def kernels(tmp_path: Path, body: str) -> str:
    """The dump of one region, without its parameter line."""
    path = tmp_path / "p.vx"
    path.write_text(f"{HEAD}{body}\n  }}\n  0\n}}\n")
    dump = emit(str(path), Stage.KERNELS, Options(), SourceMap(), Reporter())
    assert dump.count("\nregion ") == 0
    return dump.split("\n", 1)[1]


CASES = {
    "a row product and what follows it element by element are one kernel": (
        "for i in 0..N { y[i] = dot(w[i], x * 3.0); }  for i in 0..N { z[i] = y[i] + 1.0; }",
        """\
          launch vx_region_0_main_k0
        kernel vx_region_0_main_k0
          grid i%1 in 0..6
            y[i%1] = add[k%2 in 0..8]((w[8*i%1 + k%2] * (x[k%2] * 3.0)))
            z[i%1] = (y[i%1] + 1.0)
        """,
    ),
    "independent loops of other sizes share a launch": (
        "for i in 0..N { y[i] = 1.0; }  for i in 0..5 { z[i] = 2.0; }",
        """\
          launch vx_region_0_main_k0
        kernel vx_region_0_main_k0
          grid i%1 in 0..6
            y[i%1] = 1.0
          grid i%2 in 0..5
            z[i%2] = 2.0
        """,
    ),
    "a loop that reads what its neighbour wrote elsewhere waits for it": (
        "for i in 0..N { y[i] = x[i]; }  for i in 0..N { z[i] = y[5 - i]; }",
        """\
          launch vx_region_0_main_k0
          launch vx_region_0_main_k1
        kernel vx_region_0_main_k0
          grid i%1 in 0..6
            y[i%1] = x[i%1]
        kernel vx_region_0_main_k1
          grid i%2 in 0..6
            z[i%2] = y[-1*i%2 + 5]
        """,
    ),
    "a recurrence is serial and says why": (
        "for i in 1..N { z[i] = z[i - 1] + 1.0; }",
        """\
          serial i%1 in 1..6  // iterations may overlap in the read of 'z'
            z[i%1] = (z[i%1 + -1] + 1.0)
        """,
    ),
    "an accumulating loop is a reduction": (
        "let mut s : f32 = 0.0;  for i in 0..8 { s += x[i] * x[i]; }  y[0] = s;",
        """\
          let mut s%1 : f32 = 0.0
          s%1 = (s%1 + add[i%2 in 0..8]((x[i%2] * x[i%2])))
          y[0] = s%1
        """,
    ),
    "a search for the largest is an arg-max": (
        "let mut top : f32 = x[0];  for i in 1..8 { if x[i] > top { top = x[i];  best = i; } }",
        """\
          let mut top%1 : f32 = x[0]
          top%1, best%3 = argmax over i%2 in 1..8 of x[i%2] at i32(i%2)
        """,
    ),
    "a run-time bound is checked once, in front": (
        "for p in 0..n { t[p] = w[p] * y[p]; }",
        """\
          check ((0 >= i64(n%1)) || (-1*i64(n%1) >= -6))  // index out of range at p.vx:13
          launch vx_region_0_main_k0
        kernel vx_region_0_main_k0
          grid p%2 in 0..i64(n%1)
            let scalar%3 : f32 = y[p%2]
            parallel i%4 in 0..8
              t[8*p%2 + i%4] = (w[8*p%2 + i%4] * scalar%3)
        """,
    ),
    "a nest collapses, and a product keeps its accumulator": (
        "t[0..N] = w @ w.t() @ w;",
        """\
          alloc left
          launch vx_region_0_main_k0
          launch vx_region_0_main_k1
        kernel vx_region_0_main_k0
          grid i%1 in 0..6, j%2 in 0..6
            left[6*i%1 + j%2] = add[k%3 in 0..8]((w[8*i%1 + k%3] * w[k%3 + 8*j%2]))
        kernel vx_region_0_main_k1
          grid i%4 in 0..6, j%5 in 0..8
            t[8*i%4 + j%5] = add[k%6 in 0..6]((left[6*i%4 + k%6] * w[8*k%6 + j%5]))
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_formation(tmp_path: Path, name: str) -> None:
    body, expected = CASES[name]
    got = "\n".join(line for line in kernels(tmp_path, body).splitlines() if not line.startswith("  scratch"))
    assert dedent(got).rstrip() == dedent(expected).rstrip()


def test_the_number_of_kernels_does_not_depend_on_the_number_of_rounds(tmp_path: Path) -> None:
    bodies = [f"for l in 0..{rounds} {{ for i in 0..N {{ y[i] = y[i] * x[l]; }} }}" for rounds in (2, 7)]
    counts = {kernels(tmp_path, body).count("kernel ") for body in bodies}
    assert counts == {1}


def test_an_out_of_range_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError):
        kernels(tmp_path, "y[0..7] = z[0..7];")
