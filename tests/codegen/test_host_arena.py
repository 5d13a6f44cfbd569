"""Placed tensors lie where the Plan says, and nothing but a role's entry takes device memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vx
from vx.diagnostics.report import CompileError, Reporter
from vx.diagnostics.source import SourceMap
from vx.emit import Stage, emit
from vx.options import Options

PROGRAMS = Path(__file__).parents[1] / "programs" / "run"
TILE = "Tensor<f32, [4], Topology::Device[0]>"


def llvm(path: Path) -> str:
    return emit(str(path), Stage.LLVM, Options(), SourceMap(), Reporter())


def test_one_allocation_holds_every_tile(tmp_path: Path) -> None:
    source = tmp_path / "two.vx"
    source.write_text(
        f"fn made(v : f32) -> {TILE} {{ {TILE}::fill(v) }}\n"
        "fn main() -> i32 {\n  let a = made(1.0);\n  let b = made(2.0);\n"
        "  let x = transfer(a, Memory::CPU_DRAM);\n  let y = transfer(b, Memory::CPU_DRAM);\n"
        '  println!("{} {}", x[0], y[0]);\n  0\n}\n'
    )
    text = llvm(source)
    entry = text[text.index("@vx_program_main") :].split("\n}\n")[0]
    assert re.findall(r"@vx_alloc\(i64 (\d+)\)", entry) == ["32"]
    made = re.search(r'define internal void @"vx:made"\((.*?)\)', text)
    assert made is not None and made[1] == "ptr noalias %result, float %p0, ptr %home0"
    body = text[text.index('define internal void @"vx:made"') :].split("\n}\n")[0]
    assert "vx_alloc" not in body and "vx_free" not in body
    assert vx.compile(source).run().stdout == "1 2\n"


def test_an_arena_is_taken_when_the_role_is_entered(tmp_path: Path) -> None:
    source = tmp_path / "roles.vx"
    source.write_text(
        f"role fn small() -> i32 {{ let a = {TILE}::fill(1.0);  let h = transfer(a, Memory::CPU_DRAM);  h[0] as i32 }}\n"
        f"role fn large() -> i32 {{ let a = {TILE}::fill(1.0);  let b = {TILE}::fill(2.0);\n"
        "  let h = transfer(a, Memory::CPU_DRAM);  let g = transfer(b, Memory::CPU_DRAM);  (h[0] + g[0]) as i32 }\n"
        "fn main() -> i32 {\n  let mut n = 0;  n += 1;\n"
        '  if n == 1 { println!("{}", large());  n } else { small() }\n}\n'
    )
    text = llvm(source)
    main = text[text.index('define internal i32 @"vx:main"') :].split("\n}\n")[0]
    assert re.findall(r"@vx_alloc\(i64 (\d+)\)", main) == ["32", "16"]
    assert main.count("@vx_free(") == 2
    result = vx.compile(source).run()
    assert (result.status, result.stdout) == (1, "3\n")


def test_memory_that_is_not_planned_comes_from_the_heap(tmp_path: Path) -> None:
    source = tmp_path / "open.vx"
    source.write_text(
        "fn sized(n : i32) -> f32 {\n  let a = Tensor<f32>([n]);\n  let b = transfer(a, Topology::Device[0]);\n"
        "  let c = transfer(b, Memory::CPU_DRAM);\n  c[2]\n}\n"
        'fn main() -> i32 { println!("{}", sized(3));  0 }\n'
    )
    text = llvm(source)
    assert "vx_alloc_zero" in text and "%frame0" not in text
    assert vx.compile(source).run().stdout == "0\n"


@pytest.mark.parametrize("level", [0, 3])
def test_tiles_keep_their_contents(level: int) -> None:
    result = vx.compile(PROGRAMS / "arena_tiles.vx", opt_level=level).run()
    assert result.stdout.splitlines() == [
        "1 2 3 4", "12 30", "7 8", "loop 0 10", "loop 1 11", "loop 2 12", "early 5 / 1", "sum 40",
    ]  # fmt: skip


def test_a_destructor_cannot_place(tmp_path: Path) -> None:
    source = tmp_path / "drop.vx"
    source.write_text(
        "struct Noisy { n : i32 }\nimpl Noisy {\n"
        f'  fn drop(self : &mut Noisy) -> void {{ let a = {TILE}::fill(1.0);  let h = transfer(a, Memory::CPU_DRAM);  println!("{{}}", h[0]); }}\n'
        "}\nfn main() -> i32 { let _n = Noisy { n: 1 };  0 }\n"
    )
    with pytest.raises(CompileError, match="E6034: `drop` places tensors, and a destructor has no frame"):
        vx.compile(source)
