"""How many tiles coexist, for every shape of code: exactly that much memory is enough, one byte less is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from admission_cases import TILE, errors, machine, plan_of, whole

from vx.admission.plan import Verdict

SHAPES: dict[str, tuple[str, int, str]] = {
    # name: (code, tiles at the peak, the error one byte below it)
    # ---- the matrix ----
    "lone": ("let a = T::new(); read(&a);", 1, "E6009"),
    "two_in_a_block": ("let a = T::new(); let b = T::new(); read(&a); read(&b);", 2, "E6010"),
    "block_then_block": ("{ let a = T::new(); read(&a); } { let b = T::new(); read(&b); }", 1, "E6009"),
    "if_and_else": (
        "let mut c = true; if c { let a = T::new(); read(&a); } else { let b = T::new(); read(&b); }",
        1,
        "E6009",
    ),
    "outer_and_inner": ("let a = T::new(); { let b = T::new(); read(&b); } read(&a);", 2, "E6010"),
    "outer_inner_outer": (
        "let a = T::new(); { let b = T::new(); read(&b); } let c = T::new(); read(&a); read(&c);",
        2,
        "E6010",
    ),
    "loop_body": ("for i in 0..9 { let a = T::new(); read(&a); }", 1, "E6009"),
    "outer_and_loop": ("let o = T::new(); for i in 0..9 { let a = T::new(); read(&a); } read(&o);", 2, "E6010"),
    "two_calls_in_turn": ("work(); work();", 1, "E6009"),
    "held_across_a_call": ("let a = T::new(); work(); read(&a);", 2, "E6027"),
    "dead_before_a_call": ("{ let a = T::new(); read(&a); } work();", 1, "E6009"),
    "each_in_its_own_helper": ("outer();", 2, "E6027"),
    # ---- returned tiles ----
    "returned": ("let a = tile(); read(&a);", 1, "E6009"),
    "two_returned": ("let a = tile(); let b = tile(); read(&a); read(&b);", 2, "E6010"),
    "returned_struct": ("let p = pair(); read(&p.x);", 2, "E6010"),
    "returned_and_helper": ("let a = busy(); read(&a);", 2, "E6027"),
    "returned_through_two": ("let a = through(); read(&a);", 1, "E6009"),
    "returned_early": ("let a = early(true); read(&a);", 1, "E6009"),
    "returned_from_a_loop": ("let a = searched(); read(&a);", 1, "E6009"),
    # ---- moves make no tile ----
    "moved": ("let a = T::new(); let b = a; let c = b; read(&c);", 1, "E6009"),
    "moved_into_a_field": ("let a = T::new(); let b = T::new(); let p = Pair { x: a, y: b }; read(&p.y);", 2, "E6010"),
    "moved_out_of_a_field": ("let p = pair(); let q = p.x; read(&q);", 2, "E6010"),
    "moved_to_a_callee": ("let a = T::new(); eat(a);", 1, "E6009"),
    "its_argument_returned": ("let a = T::new(); let b = same(a); let c = same(b); read(&c);", 1, "E6009"),
    "value_of_a_block": ("let a = { let t = T::new(); read(&t); t }; read(&a);", 1, "E6009"),
    "value_of_an_if": (
        "let mut c = true; let a = if c { let t = T::new(); t } else { T::new() }; read(&a);",
        1,
        "E6009",
    ),
    "value_of_a_match": ("let mut c = 1; let a = match c { 1 => { tile() } _ => { T::new() } }; read(&a);", 1, "E6009"),
    "moved_if": ("let mut c = true; let a = T::new(); let b = T::new(); if c { eat(a); } read(&b);", 2, "E6010"),
    "replaced_after_a_move": (
        "let mut p = pair(); for i in 0..3 { split(p); p = pair(); } read(&p.x);",
        2,
        "E6010",
    ),
    # ---- what lasts one statement ----
    "never_read": ("let a = T::new(); let b = T::new(); let c = T::new();", 1, "E6009"),
    "never_read_beside": ("let a = T::new(); let b = T::new(); read(&a);", 2, "E6010"),
    "argument_temporaries": ("eat(T::new()); eat(T::new());", 1, "E6009"),
    "two_arguments": ("both(T::new(), T::new());", 2, "E6010"),
    "borrowed_temporary": ("read(&T::new()); read(&tile());", 1, "E6009"),
    "argument_held_during_call": ("with(T::new());", 2, "E6027"),
    "unused_value": ("T::new(); tile(); T::new();", 1, "E6009"),
    # ---- views, landing, blocks ----
    "view": ("let a = T::new(); let v = a[0..9]; sees(&v);", 1, "E6009"),
    "landing": (
        "let h = Tensor<u8, [3145728]>::new(); let mut a = T::new(); a = transfer(h, Memory::HBM);"
        " a[0..5] = transfer(h[0..5], Memory::HBM); read(&a);",
        1,
        "E6009",
    ),
    "annotated": ("let h = Tensor<u8, [3145728]>::new(); let a : T = transfer(h, Memory::HBM); read(&a);", 1, "E6009"),
    "constructors": (
        "let a = T::new(); let b = T::uninit(); let c = T::fill(1); read(&a); read(&b); read(&c);",
        3,
        "E6010",
    ),
    "dead_after_an_early_return": ("leaves(true); let a = T::new(); read(&a);", 1, "E6009"),
    "continue_and_break": (
        "let mut i = 0; while i < 9 { i += 1; let a = T::new(); if i == 3 { continue; } if i == 5 { break; } read(&a); }"
        " let b = T::new(); read(&b);",
        1,
        "E6009",
    ),
    "nested_loops": (
        "for i in 0..3 { let a = T::new(); for j in 0..3 { let b = T::new(); read(&b); } work(); read(&a); }",
        2,
        "E6010",
    ),
    "condition": ("while test(T::new()) { let a = T::new(); read(&a); }", 2, "E6010"),
    "short_circuit": ("let mut c = true; if c && test(T::new()) { let a = T::new(); read(&a); }", 2, "E6010"),
    "inside_a_region": (
        "let a = T::new(); spawn on(Topology::Device) { let mut b = Tensor<u8, [3145728]>::new(); b[0] = a[0]; }",
        2,
        "E6010",
    ),
    "value_of_a_region": (
        "let a = T::new(); let b : T = spawn on(Topology::Device) { a.copy() }; read(&b);",
        2,
        "E6010",
    ),
    "methods": ("let h = Holder { t: T::new() }; h.look(); let t = h.take(); read(&t);", 1, "E6009"),
    "chain_of_calls": ("one(); two();", 3, "E6027"),
}

FUNCTIONS = """
fn work() -> void { let w = T::new(); read(&w); }
fn outer() -> void { let o = T::new(); work(); read(&o); }
fn pair() -> Pair { Pair { x: T::new(), y: tile() } }
fn split(p : Pair) -> void { read(&p.x); }
fn busy() -> T { let w = T::new(); read(&w); T::new() }
fn through() -> T { let t = tile(); read(&t); t }
fn early(c : bool) -> T { if c { let t = T::new(); return t; } T::new() }
fn searched() -> T { let mut i = 0; loop { i += 1; let t = T::new(); if i > 3 { return t; } } T::new() }
fn both(a : T, b : T) -> void { read(&a); read(&b); }
fn with(a : T) -> void { work(); read(&a); }
fn sees(v : &Tensor<u8, [9], Memory::HBM>) -> void { }
fn test(t : T) -> bool { read(&t); false }
fn leaves(c : bool) -> void { if c { return; } work(); }
struct Holder { t : T }
impl Holder { fn look(self : &Holder) -> void { read(&self.t); } fn take(self : Holder) -> T { self.t } }
fn one() -> void { work(); }
fn two() -> void { let a = T::new(); three(); read(&a); }
fn three() -> void { let a = tile(); work(); read(&a); }
"""


@pytest.mark.parametrize("name", SHAPES)
def test_exact_fit_is_admitted_and_a_byte_more_is_refused(name: str, tmp_path: Path) -> None:
    body, tiles, code = SHAPES[name]
    text = FUNCTIONS + f"fn main() -> i32 {{ {body} 0 }}"
    plan, found = plan_of(tmp_path, whole(text), machine(tiles * TILE))
    assert plan.verdict is Verdict.ADMITTED, found
    arena = plan.arena("HBM")
    assert arena is not None and arena.bytes == tiles * TILE and arena.device_margin == 0

    plan, found = plan_of(tmp_path, whole(text), machine(tiles * TILE - 1))
    assert plan.verdict is Verdict.REJECTED
    assert code in errors(found), found
    if code != "E6009":
        assert "E6009" not in errors(found)
