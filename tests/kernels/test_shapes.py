"""Loops as people write them: those that the rules prove parallel or reductions are, without checks inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from vx import build
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.kernels import ir
from vx.kernels.dump import dump_region
from vx.options import Options

SHAPES = {
    "x": "[T, D]", "y": "[T, D]", "w": "[D, D]", "v": "[D]", "image": "[C, S, S]", "pooled": "[C, 8, 8]", "filter": "[C, C, 3, 3]",
    "heads": "[T, H, K]", "cache": "[T, H, K]", "any": "[?, ?]", "row": "[?]",
}  # fmt: skip
"""Tensors of f32 that every snippet has as `&mut` parameters."""

PARALLEL = {
    "softmax in one loop": """
        for t in 0..T {
          let m = max(x[t]);
          let mut total : f32 = 0.0;
          for j in 0..D { x[t][j] = (x[t][j] - m).exp();  total += x[t][j]; }
          x[t] /= total;
        }""",
    "a product in any order": """
        for k in 0..D { for t in 0..T { let f = x[t][k];  for j in 0..D { y[t][j] += f * w[k][j]; } } }""",
    "a running maximum beside what is stored": """
        for t in 0..T {
          let mut top : f32 = -1e30;
          let mut at : i32 = 0;
          for j in 0..D { let s = dot(w[j], x[t]);  y[t][j] = s;  if s > top { top = s;  at = j; } }
          y[t][0] = top + (at as f32);
        }""",
    "attention by loops": """
        for h in 0..H { for i in 0..T {
          let mut s = Tensor<f32, [T]>::new();
          let mut m : f32 = -1e30;
          for j in 0..i + 1 { s[j] = dot(heads[i][h], heads[j][h]);  if s[j] > m { m = s[j]; } }
          let mut total : f32 = 0.0;
          for j in 0..i + 1 { s[j] = (s[j] - m).exp();  total += s[j]; }
          for j in 0..i + 1 { for d in 0..K { cache[i][h][d] += s[j] / total * heads[j][h][d]; } }
        } }""",
    "pairs turned by an angle": """
        for t in 0..T { for i in 0..D / 2 {
          let a = x[t][2 * i];
          let b = x[t][2 * i + 1];
          x[t][2 * i] = a * v[i] - b;
          x[t][2 * i + 1] = a + b * v[i];
        } }""",
    "halves against each other": """
        for t in 0..T / 2 { let r = x[t].copy();  x[t] = x[T - 1 - t];  x[T - 1 - t] = r; }""",
    "a convolution": """
        for c in 0..C { for i in 0..8 { for j in 0..8 {
          pooled[c][i][j] = 0.0;
          for e in 0..C { for a in 0..3 { for b in 0..3 { pooled[c][i][j] += image[e][i + a][j + b] * filter[c][e][a][b]; } } }
        } } }""",
    "neighbours where there are any": """
        for t in 0..T { for j in 0..D {
          let left : f32 = if j > 0 { x[t][j - 1] } else { 0.0 };
          if j + 1 >= D { y[t][j] = left;  continue; }
          y[t][j] = left + x[t][j + 1];
        } }""",
    "counting and summing what is positive": """
        for t in 0..T {
          let mut n : i32 = 0;
          let mut total : f32 = 0.0;
          for j in 0..D { if x[t][j] <= 0.0 { continue; }  n += 1;  total += x[t][j]; }
          y[t][0] = total / (n as f32);
        }""",
    "rows of unknown length": """
        for i in 0..any.extent(0) { for j in 0..any.extent(1) { any[i][j] = any[i][j] * 2.0; } }""",
    "a view with gaps": """
        for i in 0..row.extent(0) { row[i] = row[i] + 1.0; }""",
    "an index taken apart": """
        for t in 0..T {
          let mut apart = Tensor<f32, [H, K]>::new();
          for i in 0..D { apart[i / K][i % K] = x[t][i]; }
          y[t] = apart.reshape([D]) * 2.0;
        }""",
    "a chosen row": """
        for t in 0..T { x[t] = if t % 2 == 0 { y[t] * 2.0 } else { y[T - 1 - t] - 1.0 }; }""",
}

SERIAL = {
    "a recurrence": ("for t in 1..T { x[t] += x[t - 1]; }", "'x'"),
    "a running sum": ("let mut s : f32 = 0.0; for j in 0..D { s = s * 0.5 + v[j];  v[j] = s; }", "carries s"),
    "a scatter": ("for j in 0..D { v[(x[0][j] as i32) % D] = 1.0; }", "'v'"),
    "overlapping rows": ("for t in 0..T { for j in 0..D + 1 { x.reshape([T * D])[t * D + j] = 1.0; } }", "'x'"),
}


def regions(body: str, path: Path) -> tuple[ir.Region, ...]:
    params = ", ".join(f"{name} : &mut Tensor<f32, {shape}>" for name, shape in SHAPES.items())
    consts = "const T : i32 = 32; const D : i32 = 48; const H : i32 = 6; const K : i32 = 8; const C : i32 = 3; const S : i32 = 10;"
    tensors = {name: f"Tensor<f32, {shape.replace('?', '40')}>" for name, shape in SHAPES.items()}
    made = " ".join(f"let mut {name} = {type_}::new();" for name, type_ in tensors.items())
    args = ", ".join(f"&mut {name}" for name in SHAPES)
    main = f"fn main() -> i32 {{ {made} go({args}); 0 }}"
    path.write_text(f"{consts}\nfn go({params}) -> void {{ spawn on(Topology::CPU) {{ {body} }} }}\n{main}\n")
    return build.check(str(path), Options(), SourceMap(), Reporter()).regions


@pytest.mark.parametrize("name", PARALLEL)
def test_is_parallel(name: str, tmp_path: Path) -> None:
    (region,) = regions(PARALLEL[name], tmp_path / "snippet.vx")
    text = dump_region(region)
    assert "serial" not in text, text
    assert "check" not in text, text


@pytest.mark.parametrize("name", SERIAL)
def test_is_serial(name: str, tmp_path: Path) -> None:
    body, reason = SERIAL[name]
    (region,) = regions(body, tmp_path / "snippet.vx")
    text = dump_region(region)
    assert any("serial" in line and reason in line for line in text.splitlines()), text
