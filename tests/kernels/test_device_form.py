"""Regions as launches: what the host issues, and what becomes kernel code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vx import build
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.kernels import device, ir
from vx.kernels.device_form import RECOMPUTE, device_region
from vx.options import Options

ROOT = Path(__file__).parents[2]


def regions(path: Path) -> list[ir.Region]:
    return list(build.check(str(path), Options(), SourceMap(), Reporter()).regions)


def formed(tmp_path: Path, body: str) -> device.Region:
    """The launches of a region over x, y: [64] f32 and n: i32."""
    made = "let mut x = Tensor<f32, [64]>::new(); let mut y = Tensor<f32, [64]>::new();"
    go = f"fn go(n : i32) -> f32 {{ {made} spawn on(Topology::CPU) {{ y[0] = n as f32; {body} }} x[1] + y[1] }}"
    (tmp_path / "p.vx").write_text(f"{go}\nfn main() -> i32 {{ if go(6) > 1.0 {{ 1 }} else {{ 0 }} }}\n")
    return device_region(next(r for r in regions(tmp_path / "p.vx") if "go" in r.name))


def parallel(region: device.Region) -> list[bool]:
    """Of each kernel, whether it has more than one program; without the one for y[0]."""
    return [bool(k.parts[0].axes) for k in region.kernels][1:]


def steps(body: Sequence[device.Step]) -> list[str]:
    return [type(step).__name__ for step in body]


def test_a_short_reduction_is_recomputed_where_it_is_used(tmp_path: Path) -> None:
    region = formed(tmp_path, "let s : f32 = sum(x); for i in 0..64 { y[i] = x[i] * s; }")
    assert parallel(region) == [True]
    assert [type(s) for s in region.kernels[1].prelude] == [ir.Let]


def test_a_reduction_over_what_the_kernel_changes_is_stored_first(tmp_path: Path) -> None:
    region = formed(tmp_path, "let s : f32 = sum(x); for i in 0..64 { x[i] = x[i] * s; }")
    assert parallel(region) in ([True], [False, True])
    assert [s.bytes for s in region.scratch] == [4]
    load = region.kernels[-1].prelude[0]
    assert isinstance(load, ir.Let) and isinstance(load.value, ir.Load)


def test_a_long_reduction_is_computed_once(tmp_path: Path) -> None:
    long = f"let mut z = Tensor<f32, [{2 * RECOMPUTE}]>::new(); let s : f32 = sum(z); for i in 0..64 {{ x[i] = s; }}"
    region = formed(tmp_path, long)
    assert parallel(region)[-2:] == [False, True] and region.scratch_bytes >= 8 * RECOMPUTE


def test_the_host_sees_scalars_only(tmp_path: Path) -> None:
    region = formed(tmp_path, "if n > 3 { for i in 0..n { x[i] = 1.0; } } else { x[0] = 2.0; }")
    (branch,) = [s for s in region.body if isinstance(s, device.If)]
    assert steps(branch.then)[-1] == "Launch" and steps(branch.orelse)[-1] == "Launch"
    decided = formed(tmp_path, "if x[0] > 3.0 { for i in 0..64 { x[i] = 1.0; } }")
    assert steps(decided.body) == ["Launch"]
    assert "on the device" in decided.kernels[0].why


def test_layers_are_arguments(tmp_path: Path) -> None:
    step = next(device_region(r) for r in regions(ROOT / "programs" / "llama.vx") if r.name.endswith("_step"))
    (layers,) = [s for s in step.body if isinstance(s, device.For)]
    assert steps(layers.body) == ["Launch"] * 5
    inside = [step.kernels[s.kernel] for s in layers.body if isinstance(s, device.Launch)]
    assert all([v.name for v in k.arguments] == ["l"] for k in inside)
    assert len(step.kernels) == 8


def test_bounds_come_from_checks(tmp_path: Path) -> None:
    region = formed(tmp_path, "for i in 0..n { x[i] = 1.0; }")
    assert [a.most for a in region.kernels[-1].parts[0].axes] == [64]
