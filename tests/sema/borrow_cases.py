"""Running the borrow checker on pieces of source with the errors written beside the lines that cause them.

`//! E4001` at the end of a line: exactly this error starts in this line. Lines without it have none.
"""

from __future__ import annotations

import re
from pathlib import Path

from vx.diagnostics.report import Diagnostic, Level, Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.load import load_machine
from vx.sema.borrow import check_borrows
from vx.sema.check import check_program

PRELUDE = """
struct Pair { a : Tensor<f32, [4]>, b : Tensor<f32, [4]> }
struct View { of : &Tensor<f32, [4]>, n : i32 }
struct Edit { of : &mut Tensor<f32, [4]>, n : i32 }
enum Maybe { Some(Tensor<f32, [4]>), None }
fn tensor() -> Tensor<f32, [4]> { Tensor<f32, [4]>::new() }
fn matrix() -> Tensor<f32, [4, 4]> { Tensor<f32, [4, 4]>::new() }
fn pair() -> Pair { Pair { a: tensor(), b: tensor() } }
fn take(t : Tensor<f32, [4]>) -> void { }
fn take_pair(p : Pair) -> void { }
fn look(t : &Tensor<f32, [4]>) -> void { }
fn change(t : &mut Tensor<f32, [4]>) -> void { t[0] = 1.0; }
fn both(t : &mut Tensor<f32, [4]>, u : &Tensor<f32, [4]>) -> void { t[0] = u[0]; }
fn two(t : &mut Tensor<f32, [4]>, u : &mut Tensor<f32, [4]>) -> void { t[0] = u[0]; }
fn same(t : &Tensor<f32, [4]>) -> &Tensor<f32, [4]> { t }
fn same_mut(t : &mut Tensor<f32, [4]>) -> &mut Tensor<f32, [4]> { t }
fn either(t : &Tensor<f32, [4]>, u : &Tensor<f32, [4]>) -> &Tensor<f32, [4]> { if t[0] > u[0] { t } else { u } }
struct Look { at : &Pair, n : i32 }
fn see(p : &Pair) -> void { }
fn same_pair(p : &Pair) -> &Pair { p }
fn yes() -> bool { true }
"""


def diagnostics(path: Path, source: str) -> tuple[tuple[Diagnostic, ...], SourceMap]:
    """What the borrow checker says about a whole program; the program must be well-typed."""
    file = path / "case.vx"
    file.write_text(source)
    sources, reporter = SourceMap(), Reporter()
    machine = load_machine(None, None, reporter, sources, "host")
    program = check_program(str(file), machine=machine, model=None, consts={}, reporter=reporter, sources=sources)
    assert program is not None, [f"{sources.line_col(d.span)} {d.code} {d.message}" for d in reporter.diagnostics]
    check_borrows(program, reporter)
    return tuple(item for item in reporter.diagnostics if item.level is Level.ERROR), sources


def check_case(path: Path, body: str, imports: str = "") -> None:
    """Check that a function body raises exactly the errors noted in it."""
    source = f"{PRELUDE}fn main() -> i32 {{\n{body}\n  0\n}}\n" if "fn main" not in body else PRELUDE + body
    source = imports + source
    found, sources = diagnostics(path, source)
    got = sorted((sources.line_col(d.span)[0], d.code) for d in found)
    wanted = [
        (number, code)
        for number, line in enumerate(source.splitlines(), 1)
        for code in re.findall(r"E\d{4}", line.partition("//!")[2])
    ]
    assert got == sorted(wanted), [f"{sources.line_col(d.span)} {d.code} {d.message}" for d in found]
