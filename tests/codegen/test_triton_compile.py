"""Device kernels compiled without a device: every target, the same bytes from another folder, launches as data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cpu_regions import add, at, binary, launched, loop, mul, region, var
from triton_harness import needs_triton, printed

from vx.codegen.triton_compile import TARGETS, compile_kernels
from vx.codegen.triton_manifest import expression, manifest
from vx.kernels import affine, ir


def scaled_product() -> ir.Region:
    """out[i] = n · Σ w[i][k] · x[k]"""
    i, k, n = var(1), var(2), var(3, "f32")
    total = add(k, 64, mul(ir.Load(0, at((64, i), k), "f32"), ir.Load(1, at(k), "f32")))
    kernel, launch = launched([loop(i, 40, ir.Store(2, at(i), binary("*", total, n)))])
    return region(["f32", "f32", "f32"], [launch], [n], kernels=[kernel], name="scaled_product")


@needs_triton
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_compiles_for_every_target(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VX_CACHE_DIR", str(tmp_path))
    made, sources = printed(scaled_product())
    (binary,) = compile_kernels(sources, target)
    assert binary.image.startswith(b"\x7fELF") and binary.symbol.encode() in binary.image
    assert binary.threads == sources[0].warps * TARGETS[target][2]
    facts = json.loads(json.dumps(manifest([(made, sources)], {binary.symbol: binary}, target)))
    kernel = facts["kernels"][binary.symbol]
    assert [p["kind"] for p in kernel["parameters"]] == ["buffer", "buffer", "buffer", "block"]
    (step,) = facts["regions"][0]["steps"]
    assert step["grid"] == [{"axes": [{"extent": "40", "most": 40, "tile": 4}]}]


_COMPILE = """
import pickle, sys
from vx.codegen.triton_compile import compile_kernels
sources = pickle.load(open(sys.argv[1], "rb"))
sys.stdout.buffer.write(compile_kernels(sources, "sm_90")[0].image)
"""


@needs_triton
def test_the_same_bytes_from_another_folder(tmp_path: Path) -> None:
    import pickle

    (tmp_path / "sources").write_bytes(pickle.dumps(printed(scaled_product())[1]))
    images = []
    for name in ("one", "another/deeper"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        environment = {**os.environ, "VX_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", _COMPILE, str(tmp_path / "sources")]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
        images.append(done.stdout)
    assert images[0] == images[1] and images[0].startswith(b"\x7fELF")
    assert str(tmp_path).encode() not in images[0]


def test_host_scalars_as_postfix() -> None:
    n, m = var(1, "i32"), var(2, "i32")
    names = {1: "b0", 2: "v0"}
    extent = affine.add(affine.scale(affine.of(ir.Cast(n, "i64")), 3), affine.const(-1))
    assert expression(extent, names) == "b0 i64 3 * -1 +"
    assert expression(binary("+", n, m, "i32"), names) == "b0 v0 + i32"
    assert expression(ir.Select(ir.Binary("<", n, m, "bool"), n, m, "i32"), names) == "b0 v0 < b0 v0 ?"
