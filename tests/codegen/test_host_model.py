"""Model tensors in host code: the table, and elements read from the file beside the executable."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import replace
from pathlib import Path

from codegen import handmade as b

from vx.codegen.compile import compile_llvm
from vx.codegen.host import emit_host
from vx.codegen.host_module import HostOptions, ModelEntry, ModelTable
from vx.codegen.link import link_executable
from vx.codegen.target import native
from vx.sema import tree as t

GRID = t.Tensor("f32", (2, 3))
BYTES = t.Tensor("u8", (4,))


def model_tensor(name: str, type_: t.Tensor) -> t.ModelTensor:
    return t.ModelTensor(type_, b.S, name)


def test_elements_come_from_the_file(tmp_path: Path) -> None:
    entries = (
        ModelEntry("tokenizer", "u8", 32, 4, 4, 0, 0.0, 0.0),
        ModelEntry("grid", "f32", 8, 24, 6, 0, 0.0, 0.0),
    )
    values = [
        b.read(b.index(model_tensor("grid", GRID), b.const(1), b.const(2))),
        b.ref(b.index(model_tensor("grid", GRID), b.const(0))),
        b.read(b.index(model_tensor("tokenizer", BYTES), b.const(3))),
    ]
    source = replace(
        b.program(b.main(*b.show(*values))), model=(t.ModelRef("grid", GRID), t.ModelRef("tokenizer", BYTES))
    )
    options = HostOptions(b.no_regions, b.SOURCES, model=ModelTable(entries, "weights.bin", -1))
    code = compile_llvm(emit_host(source, options).llvm_text, native(), 2)
    link_executable([code], tmp_path / "program", native())
    (tmp_path / "model").mkdir()
    data = b"header.." + struct.pack("<6f", *range(6)) + bytes([1, 2, 3, 4])
    (tmp_path / "model" / "weights.bin").write_bytes(data)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("5 [0,   1,   2] 4 ", "")
    (tmp_path / "model" / "weights.bin").write_bytes(data[:-1])
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert done.returncode == 101 and "tokenizer" in done.stderr
