"""Large programs: 2,000 functions with 20,000 transfers, long chains, wide callers, hostile shapes.

Times are processor time of this process; the bounds are wide, because machines that run tests are busy ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from admission_cases import errors, machine, typed

from vx.admission.check import admit
from vx.admission.plan import Plan, Verdict
from vx.diagnostics.report import Diagnostic, Reporter
from vx.sema import tree

FUNCTIONS = 2000
TRANSFERS = 10
"""In each function."""
HEAD = """
type T = Tensor<u8, [1000], Memory::HBM>;
type H = Tensor<u8, [1000]>;
fn see(t : &T) -> void { }
fn made() -> T { T::new() }
"""
SLACK = 4


def generated(functions: int) -> str:
    """Functions that call the one before them while they hold a tile, make tiles in loops and branches, and return one."""
    parts = [HEAD, "fn f0(h : &H, n : i32) -> T { transfer(h, Memory::HBM) }"]
    for number in range(1, functions):
        moves = []
        for i in range(TRANSFERS // 2):
            moves.append(f"let a{i} = transfer(h, Memory::HBM);  let back{i} = transfer(a{i}, Memory::CPU_DRAM);")
        below = number - 1 if number % 10 else 0
        parts.append(
            f"fn f{number}(h : &H, n : i32) -> T {{\n  "
            + "\n  ".join(moves)
            + f"\n  let mut s = n + {number};\n"
            + "  while s > 3 { let w = made(); see(&w); s -= 2; }\n"
            + f"  let r = if s > 1 {{ f{below}(h, s) }} else {{ let m = made(); see(&m); m }};\n"
            + "  see(&a0); see(&a1);\n  r\n}"
        )
    calls = "\n  ".join(f"let t{number} = f{number}(&h, 1); see(&t{number});" for number in range(9, functions, 10))
    parts.append(f"fn main() -> i32 {{\n  let h = H::new();\n  {calls}\n  0\n}}")
    return "\n".join(parts)


def timed(program: tree.Program) -> tuple[Plan, tuple[Diagnostic, ...], float]:
    assert program.machine is not None
    reporter, start = Reporter(), time.process_time()
    plan = admit(program, program.machine, reporter)
    return plan, reporter.diagnostics, time.process_time() - start


def test_2000_functions_with_20000_transfers(tmp_path: Path) -> None:
    start = time.process_time()
    program = typed(tmp_path, generated(FUNCTIONS), machine("1 GiB"))
    front_end = time.process_time() - start
    plan, found, admission = timed(program)
    print(f"{FUNCTIONS} functions: front end {front_end:.1f} s, admission {admission:.1f} s of processor time")
    assert plan.verdict is Verdict.ADMITTED and not errors(found)
    assert len(plan.transfers) >= (FUNCTIONS - 1) * TRANSFERS
    assert admission < 4 * SLACK
    assert front_end + admission < 10 * SLACK


def test_admission_grows_with_the_program_and_no_faster(tmp_path: Path) -> None:
    seconds = [timed(typed(tmp_path, generated(count), machine("1 GiB")))[2] for count in (60, 240)]
    assert seconds[1] < 4 * 2 * seconds[0] + 0.1


def chain(depth: int) -> str:
    """Each function holds a tile while it calls the next."""
    bodies = [f"fn c{i}() -> void {{ let t = made(); c{i + 1}(); see(&t); }}" for i in range(depth - 1)]
    return "\n".join([HEAD, *bodies, f"fn c{depth - 1}() -> void {{ }}", "fn main() -> i32 { c0(); 0 }"])


def wide(count: int) -> str:
    """One function calls all others, twice."""
    bodies = [f"fn c{i}() -> void {{ let t = made(); see(&t); }}" for i in range(count)]
    calls = " ".join(f"c{i}(); {{ c{i}(); }}" for i in range(count))
    return "\n".join([HEAD, *bodies, f"fn main() -> i32 {{ let t = made(); {calls} see(&t); 0 }}"])


def cycle(length: int) -> str:
    """Functions that call one another in a ring, one of which holds a tile."""
    bodies = [f"fn c{i}(n : i32) -> void {{ if n > 0 {{ c{(i + 1) % length}(n - 1); }} }}" for i in range(1, length)]
    holder = "fn c0(n : i32) -> void { let t = made(); if n > 0 { c1(n - 1); } see(&t); }"
    return "\n".join([HEAD, holder, *bodies, "fn main() -> i32 { c1(9); 0 }"])


def locals_(count: int) -> str:
    """One function with very many tiles, each of which could be one of two."""
    body = " ".join(f"let t{i} = if n > {i} {{ made() }} else {{ T::new() }}; see(&t{i});" for i in range(count))
    return f"{HEAD}fn main() -> i32 {{ let mut n = 1; n += 1; {body} 0 }}"


def nested(depth: int) -> str:
    """Loops in loops, each of which replaces what an outer one keeps."""
    names = [f"p{i}" for i in range(depth)]
    body = ""
    for name in reversed(names):
        body = f"while n > 1 {{ eat({name}); {name} = pair(); {body} }}"
    lets = " ".join(f"let mut {name} = pair();" for name in names)
    more = "struct P { x : T, y : T }\nfn pair() -> P { P { x: made(), y: made() } }\nfn eat(p : P) -> void { see(&p.x); }\n"
    return f"{HEAD}{more}fn main() -> i32 {{ let mut n = 1; n += 1; {lets} {body} 0 }}"


@pytest.mark.parametrize(
    ("size", "memory", "code"),
    [
        ("4294967296, 4294967296, 4", "1 GiB", "E7006"),
        ("4611686018427387904, 3", "1 GiB", "E7006"),
        ("-4", "1 GiB", "E7006"),
        ("1", "0 B", "E6008"),
        ("1", "1 KiB, granule: 2 KiB", "E6042"),
    ],
)
def test_figures_that_are_refused_before_admission(size: str, memory: str, code: str, tmp_path: Path) -> None:
    text = f"fn main() -> i32 {{ let t = Tensor<u8, [{size}], Memory::HBM>::uninit(); 0 }}"
    with pytest.raises(AssertionError, match=code):
        typed(tmp_path, text, machine(memory))


LARGE: dict[str, tuple[Callable[[int], str], int, int | None]] = {
    # name: (program, size, tiles at the peak; None: refused)
    "chain": (chain, 2000, 1999),
    "wide": (wide, 1000, 2),
    "cycle": (cycle, 100, None),
    "locals": (locals_, 2000, 2000),
    "nested_loops": (nested, 12, 24),
}


@pytest.mark.parametrize("name", LARGE)
def test_hostile_shapes(name: str, tmp_path: Path) -> None:
    text, size, tiles = LARGE[name]
    program = typed(tmp_path, text(size), machine("1 GiB"))
    plan, found, seconds = timed(program)
    print(f"{name} of {size}: {seconds:.2f} s")
    assert seconds < 2 * SLACK
    if tiles is None:
        assert errors(found) == ["E6028"] and plan.arenas[0].bytes is None
        return
    assert plan.verdict is Verdict.ADMITTED and plan.arenas[0].bytes == tiles * 1000, found
    small = typed(tmp_path, "fn main() -> i32 { 0 }", machine(tiles * 1000 - 1)).machine
    assert small is not None
    assert admit(program, small, Reporter()).verdict is Verdict.REJECTED
