"""What the tests of artifacts build, once for each run of the tests."""

from __future__ import annotations

import atexit
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from vx.artifact.write import write_output
from vx.build import Built, build
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.options import Options

HELLO = 'import std::io;\n\nfn main() -> i32 {\n    println!("hello");\n    return 3;\n}\n'

PLACED = """import std::io;

fn main() -> i32 {
    let mut here = Tensor<f32, [8], Memory::HBM>::new();
    spawn on(Topology::Device[0]) { for i in 0..8 { here[i] = 1.5; } }
    let back = transfer(here, Memory::CPU_DRAM);
    println!("{}", back[7]);
    return 0;
}
"""

WITH_MODEL = """import model;
import std::io;

// Of this line no word may be in an artifact: a remark about wombats.
fn norm_times_zero(a : &Tensor<f32, [DIM], Memory::HBM>, b : &mut Tensor<f32, [DIM], Memory::HBM>) -> void {
    spawn on(Topology::Device[0]) {
        for i in 0..DIM { b[i] = a[i] * 0.0 + 2.0; }
    }
}

fn main() -> i32 {
    let norm = transfer(model::out_norm, Memory::HBM);
    let mut twos = Tensor<f32, [DIM], Memory::HBM>::new();
    norm_times_zero(&norm, &mut twos);
    let back = transfer(twos, Memory::CPU_DRAM);
    println!("{}", back[0]);
    return 0;
}
"""

ON_DEVICE = Options(machine="h200", host="default", devices="host")
"""A machine whose device is memory of the host, which takes a plugin."""


def built(program: Path, options: Options) -> Built:
    return build(str(program), options, SourceMap(), Reporter())


def program_in(folder: Path, text: str, name: str = "scaled.vx") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def output(folder: Path, text: str, out: Path | str, options: Options = ON_DEVICE, with_model: bool = True) -> Path:
    """The output of a program that stands in `folder`."""
    program = program_in(folder, text)
    return write_output(built(program, options), str(program), options, str(out), with_model)[0]


def make(text: str, out: Path | str, options: Options = ON_DEVICE, with_model: bool = True) -> Path:
    """The output of a program that stands somewhere; it is compiled once."""
    return output(_sources() / sha256(text.encode()).hexdigest()[:8], text, out, options, with_model)


@cache
def _sources() -> Path:
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Path(folder.name)
