"""Index checks: what is out of range ends the program, and nothing else does, wherever the check was moved to."""

from __future__ import annotations

from pathlib import Path

import pytest

from vx import build
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.kernels.interpret import Number, Stopped, interpret
from vx.kernels.ir import Region, TensorParam
from vx.options import Options

ENDS = {
    "an index that changed since it was checked": "let mut j : i32 = 0; for i in 0..4 { x[j + i] = 1.0; } j = 99; for i in 0..4 { x[j + i] = 1.0; }",
    "a looked-up index that changed": "b[0] = 3; for i in 0..4 { x[b[0] as i32 + i] = 1.0; } b[0] = 90; for i in 0..4 { x[b[0] as i32 + i] = 1.0; }",
    "the last round": "for i in 0..n { x[i * 4] = 1.0; }",
    "one round of many": "for i in 0..8 { for j in 0..n { x[i * j] = 1.0; } }",
    "a branch that is taken": "for i in 0..n { if i > 4 { x[i + 11] = 1.0; } }",
    "a condition that does not say enough": "for i in 0..9 { if i + 9 < 18 { x[i + 9] = 1.0; } }",
    "a number cut to 32 bits": "let k : i32 = (b[5] as i64 * 214748365i64) as i32; x[k] = 1.0;",
    "a range that starts below zero": "for i in ((n - 9) as u32)..(n as u32) { x[i] = 1.0; }",
    "a range that starts before its first number": "for i in n as u32 - 9u32..n as u32 { b[i % 4u32] = 1u8; }",
    "a range that ends after the last number": "for i in n * 999999990..n * 1000000000 { b[i % 4] = 1u8; }",
    "a wrapped narrow index": "for i in 0..200 { if i > 150 { x[(i as i8) as i32] = 1.0; } }",
}  # fmt: skip

GOES_ON = {
    "a table shorter than its index type": "for i in 0..6 { x[b[i]] = 1.0; }",
    "a rest that is small in time": "for i in 0..n - 5 { x[i + 15 + i % 3] = 1.0; }",
    "no round": "for i in 0..n - 6 { x[i + 99] = 1.0; }",
    "an outer loop without inner rounds": "for i in 0..8 { for j in 0..n - 6 { x[i + j + 99] = 1.0; } }",
    "a branch that is not taken": "for i in 0..n { if i > 9 { x[i + 11] = 1.0; } }",
    "a condition in front": "for i in 0..n * 9 { if i >= 1 && i < 17 { x[i - 1] = 1.0; } }",
    "a condition that leaves": "for i in 0..n * 9 { if i > 15 { continue; } x[i] = 1.0; }",
    "hashes in 32 bits": "for i in 0..n { x[(i as u32 * 2654435761u32 + 3000000000u32) % 16u32] = 1.0; }",
    "a product that wraps": "for i in 0..n { x[(i * 1000003 * 7919) % 8 + 8] = 1.0; }",
    "a narrow sum that wraps": "b[0] = 200u8; b[1] = 100u8; x[(b[0] + b[1]) as i32 - 40] = 1.0;",
    "digits of a number": "for i in 0..n * 2 { x[i / 4 * 4 + i % 4] = 1.0; }",
}


def run(body: str, path: Path) -> None:
    """Interpret the region with n = 6 and b = 0, 2, 4, …"""
    params = "x : &mut Tensor<f32, [16]>, b : &mut Tensor<u8, [6]>, n : i32"
    made = "let mut x = Tensor<f32, [16]>::new(); let mut b = Tensor<u8, [6]>::new();"
    main = f"fn main() -> i32 {{ {made} go(&mut x, &mut b, 6); 0 }}"
    path.write_text(f"fn go({params}) -> void {{ spawn on(Topology::CPU) {{ {body} }} }}\n{main}\n")
    (region,) = build.check(str(path), Options(), SourceMap(), Reporter()).regions
    tensors: dict[str, list[Number]] = {"x": [0.0] * 16, "b": [0, 2, 4, 6, 8, 10]}
    interpret(region, [tensors[name] for name in _tensors(region)], _scalars(region))


def _tensors(region: Region) -> list[str]:
    names = {b.id: b.name for b in region.buffers}
    return [names[p.buffer] for p in region.params if isinstance(p, TensorParam)]


def _scalars(region: Region) -> list[Number]:
    """n is 6; strides, which the rest are, are 1."""
    return [6 if p.var.name == "n" else 1 for p in region.params if not isinstance(p, TensorParam)]


@pytest.mark.parametrize("name", ENDS)
def test_ends(name: str, tmp_path: Path) -> None:
    with pytest.raises(Stopped, match=r"out of (range|bounds)"):
        run(ENDS[name], tmp_path / "snippet.vx")


@pytest.mark.parametrize("name", GOES_ON)
def test_goes_on(name: str, tmp_path: Path) -> None:
    run(GOES_ON[name], tmp_path / "snippet.vx")
