"""Loops that are split, turned inside out or replaced by reductions compute what they do statement by statement."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_random_programs import Recorder, run

from vx import build
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.kernels import ir, parallel, reductions
from vx.kernels.interpret import Number
from vx.options import Options

PROGRAM = """
fn main() -> i32 {
  let mut a = Tensor<f32, [8]>::new();  let mut b = Tensor<f32, [8]>::new();  let mut c = Tensor<f32, [8]>::new();
  let mut d = Tensor<f32, [4]>::new();  let mut e = Tensor<f32, [8, 4]>::new();  let mut p = Tensor<i32, [8]>::new();
  let mut s : f32 = 1.0;  let mut best : f32 = -9.0;  let mut at : i32 = -1;  let mut u : i32 = 0;
  spawn on(Topology::CPU) { BODY }
  0
}
"""

PARTS = [
    "let x = a[i] * 2.0;  b[i] = x;  s += x;",
    "s += b[i];  b[i] = a[i];",
    "best = best.max(b[i]);  b[i] = a[i];",
    "b[i] = a[i];  s += b[i];  b[i] = 0.0;",
    "b[i] = a[i];  s += b[7 - i];",
    "let mut m = a[i];  b[i] = m;  m += 1.0;  s += m;",
    "let mut m = a[i];  m += 1.0;  b[i] = m;  s += m;",
    "let mut k = i as u8;  e[i][0] = 1.0;  k = k / 2u8;  s += e[k as i32][0];",
    "if a[i] > 0.0 { b[i] = a[i]; }  s += b[i];",
    "b[p[i]] = a[i];  s += b[p[i]];",
    "b[i] += a[i];  s += a[p[i]] + s;",
    "u += p[i];  if u > 9 { break; }  b[i] = a[i];",
    "if a[i] > best { best = a[i];  at = i; }  b[i] = best;",
    "c[i] = a[i];  if c[i] > best && i % 2 == 0 { best = c[i];  at = i; }",
    "if a[i] > best { best = a[i];  at = 100 / (i - 3); }",
    "b[i] = s;  s += a[i];",
    "let x = s;  s += a[i];  best = best.max(x);",
    "let mut own = Tensor<f32, [2]>::new();  own[0] = a[i];  b[i] = own[0];  s += own[0];",
    "for j in 0..4 { e[i][j] = a[i]; }  s += e[i][1];",
    "for j in 0..4 { e[j][i % 4] += 1.0; }",
    "for j in 0..4 { d[j] += e[i][j] * a[i]; }",
    "let x = d[1];  for j in 0..4 { d[j] += x * a[i]; }",
    "d[0] += a[i];  d[1] = d[1].max(d[0]);",
    "d[0] += a[i];  d[p[i] % 4] += 1.0;",
]
RANGES = ("0..8", "1..7", "3..3")


def values() -> dict[str, list[Number]]:
    return {
        "a": [float(k * 5 % 7 - 3) for k in range(8)],
        "b": [float(k * 3 % 5 - 2) for k in range(8)],
        "c": [float(k % 3) for k in range(8)],
        "d": [0.0, 1.0, -2.0, 5.0],
        "e": [float(k * 7 % 11 - 5) for k in range(32)],
        "p": [k * 5 % 8 for k in range(8)],
        "s": [1.0],
        "best": [-9.0],
        "at": [-1],
        "u": [0],
    }


def result(path: Path) -> dict[str, list[Number]]:
    """What the regions leave, checked for iterations that meet."""
    found = values()
    for region in build.check(str(path), Options(), SourceMap(), Reporter()).regions:
        if any(isinstance(param, ir.TensorParam) for param in region.params):
            run(Recorder(region), found)
    return found


@pytest.mark.parametrize("part", PARTS)
def test_same_as_statement_by_statement(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "loops.vx"
    path.write_text(PROGRAM.replace("BODY", "  ".join(f"for i in {bounds} {{ {part} }}" for bounds in RANGES)))
    reordered = result(path)
    monkeypatch.setattr(parallel, "why_serial", lambda *_: "not asked")
    monkeypatch.setattr(reductions, "of", lambda *_: None)
    assert reordered == result(path)
