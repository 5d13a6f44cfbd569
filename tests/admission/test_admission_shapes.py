"""Shapes of code whose capacity is easily got wrong: each fits exactly what it needs, and one byte less is refused.

Tiles have different sizes, so the bytes at the peak say which of them were counted together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from admission_cases import NotAccepted, errors, machine, plan_of, typed

from vx.admission.check import admit
from vx.admission.plan import Bank, Limits, Plan, RegionKey, Verdict
from vx.diagnostics.report import Diagnostic, Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.load import load_machine
from vx.machine.machine import Reserve
from vx.sema import tree

FLEET = Path(__file__).parents[2] / "fleet"
PRELUDE = """
const LONG : i64 = 70000;
type A = Tensor<u8, [1000], Memory::HBM>;
type B = Tensor<u8, [2000], Memory::HBM>;
type C = Tensor<u8, [4000], Memory::HBM>;
struct Pair { x : A, y : B }
struct Nest { p : Pair, z : C }
fn a() -> A { A::new() }
fn b() -> B { B::uninit() }
fn c() -> C { let t = C::new(); t }
fn pair() -> Pair { Pair { y: b(), x: a() } }
fn nest() -> Nest { Nest { p: pair(), z: c() } }
fn see<X>(t : &X) -> void { }
fn eat<X>(t : X) -> void { see(&t); }
fn both<X, Y>(t : X, u : Y) -> void { see(&t); see(&u); }
fn two(t : A, u : B) -> void { see(&t); see(&u); }
fn same<X>(t : X) -> X { t }
fn test<X>(t : X) -> bool { see(&t); false }
fn flag() -> bool { true }
fn work<X>(t : &X) -> void { let w = c(); see(&w); see(t); }
fn work_a() -> void { let w = a(); see(&w); }
fn work_b() -> void { let w = b(); see(&w); }
fn work_c() -> void { let w = c(); see(&w); }
fn hold_b() -> void { let h = b(); work_c(); see(&h); }
fn hold_a() -> void { let h = a(); hold_b(); see(&h); }
fn busy() -> A { let w = c(); see(&w); A::new() }
fn through() -> A { let t = busy(); same(t) }
fn bound() -> A { match a() { t => t } }
fn chosen(p : bool) -> A { if p { let t = a(); return t; } match p { true => a(), _ => A::new() } }
fn deeper(n : i32) -> A { if n == 0 { return a(); } deeper(n - 1) }
fn kept(t : A) -> A { work_c(); t }
fn eaten(t : A) -> void { work_c(); see(&t); }
fn early(p : bool) -> void { if p { let w = c(); see(&w); return; } let v = b(); see(&v); }
fn split(p : Pair) -> B { see(&p.x); p.y }
fn sized<const N : i64>() -> void { let t = Tensor<u8, [N * 2 + 1], Memory::HBM>::new(); see(&t); }
fn wide() -> void { let t = Tensor<i128, [1], Memory::HBM>::new(); see(&t); }
struct Last { n : i32 }
impl Last { fn drop(self : &mut Last) -> void { let w = c(); see(&w); } }
fn last() -> Last { Last { n: 1 } }
struct Owner { t : A }
impl Owner { fn drop(self : &mut Owner) -> void { work(&self.t); } fn into(self : Owner) -> i32 { 3 } }
struct Holder { t : A }
impl Holder { fn look(self : &Holder) -> void { work_b(); } fn take(self : Holder) -> A { work_c(); self.t } }
"""
HOST = "let h = Tensor<u8, [4000]>::new(); let mut n = 5; n += 1; "


@dataclass(frozen=True)
class Shape:
    """`bytes` are needed, `code` is reported when one is missing."""

    body: str
    bytes: int
    code: str
    more: str = ""
    """More properties of the memory."""


SHAPES = {
    # ---- tiles that helpers make and return: the caller pays ----
    "each_in_its_own_helper": Shape("let x = a(); let y = b(); let z = c(); see(&x); see(&y); see(&z);", 7000, "E6010"),
    "one_helper_twice": Shape("let x = a(); let y = a(); see(&x); see(&y);", 2000, "E6010"),
    "one_helper_twice_in_a_statement": Shape("both(a(), a());", 2000, "E6010"),
    "arguments_through_calls": Shape("both(same(same(a())), same(b()));", 3000, "E6010"),
    "through_three_helpers": Shape("let x = through(); see(&x);", 5000, "E6027"),
    "result_and_what_its_maker_holds": Shape("let x = a(); let y = busy(); see(&x); see(&y);", 6000, "E6027"),
    "struct_of_results": Shape("let p = pair(); see(&p.x);", 3000, "E6010"),
    "struct_of_structs": Shape("let q = nest(); see(&q.z);", 7000, "E6010"),
    "field_of_a_result": Shape("let x = pair().x; let z = c(); see(&x); see(&z);", 5000, "E6010"),
    "fields_of_two_results": Shape("let x = pair().x; let y = pair().x; see(&x); see(&y);", 4000, "E6010"),
    "what_a_match_binds": Shape("let x = bound(); let y = bound(); see(&x); see(&y);", 2000, "E6010"),
    "matched_and_kept": Shape("let x = match pair() { p => { work_c(); p.x } }; see(&x);", 7000, "E6027"),
    "result_of_many_ways": Shape("let x = chosen(true); see(&x);", 1000, "E6009"),
    "result_of_a_recursion": Shape("let x = deeper(9); see(&x);", 1000, "E6009"),
    "argument_as_result": Shape("let x = a(); let y = kept(x); see(&y);", 5000, "E6027"),
    "part_of_an_argument_as_result": Shape("let p = pair(); let y = split(p); see(&y);", 3000, "E6010"),
    # ---- held while something runs ----
    "held_across_a_call": Shape("let x = a(); work_c(); see(&x);", 5000, "E6027"),
    "held_across_three": Shape("hold_a();", 7000, "E6027"),
    "given_away_to_a_call": Shape("eaten(a());", 5000, "E6027"),
    "lent_to_a_call": Shape("work(&b());", 6000, "E6027"),
    "method_of_what_is_held": Shape("let h = Holder { t: a() }; h.look(); let t = h.take(); see(&t);", 5000, "E6027"),
    "drop_at_the_end_of_a_block": Shape("let x = a(); { let d = last(); work_b(); } see(&x);", 5000, "E6027"),
    "drop_of_a_temporary": Shape("let x = b(); last(); see(&x);", 6000, "E6027"),
    "drop_by_assignment": Shape("let x = a(); let mut d = last(); { let y = b(); d = last(); see(&y); } see(&x);", 7000, "E6027"),
    "drop_of_what_owns": Shape("let o = Owner { t: a() };", 5000, "E6027"),
    "drop_in_a_callee": Shape("let o = Owner { t: a() }; let i = o.into();", 5000, "E6027"),
    "drop_of_a_payload": Shape("let x = a(); match Option<Last>::Some(last()) { Option::Some(d) => { let y = b(); see(&y); } _ => { } } see(&x);", 7000, "E6027"),
    # ---- what never coexists ----
    "calls_in_turn": Shape("work_a(); work_b(); work_c();", 4000, "E6009"),
    "blocks_in_turn": Shape("{ let x = a(); see(&x); } { let y = c(); see(&y); } { let z = b(); see(&z); }", 4000, "E6009"),
    "arms_of_an_if": Shape("if flag() { let x = c(); see(&x); } else { let y = b(); see(&y); }", 4000, "E6009"),
    "arms_of_a_match": Shape("match flag() { true => { let x = c(); see(&x); } _ => { let y = b(); see(&y); } }", 4000, "E6009"),
    "a_thousand_turns": Shape("for i in 0..1000 { let x = a(); let y = b(); see(&x); see(&y); }", 3000, "E6010"),
    "loop_after_loop": Shape("for i in 0..9 { work_c(); } while flag() { let x = a(); let y = b(); see(&x); see(&y); }", 4000, "E6009"),
    "outer_inner_outer": Shape("let x = a(); { let y = c(); see(&y); } let z = b(); see(&x); see(&z);", 5000, "E6010"),
    "blocks_in_blocks": Shape("let x = a(); { let y = b(); { work_c(); } { let z = a(); see(&z); } see(&y); } { work_c(); } see(&x);", 7000, "E6027"),
    "left_early": Shape("early(flag());", 4000, "E6009"),
    "left_by_break": Shape("let mut i = 0; loop { let x = a(); i += 1; if i > 3 { break; } if i > 2 { continue; } see(&x); } work_b();", 2000, "E6009"),
    "never_read": Shape("let x = C::new(); let y = b(); see(&y);", 4000, "E6009"),
    "never_read_beside": Shape("let y = b(); let x = C::new(); see(&y);", 6000, "E6010"),
    "shadowed_by_itself": Shape("let x = a(); let x = same(x); let x = x; see(&x);", 1000, "E6009"),
    "shadowed_by_another": Shape("let x = a(); see(&x); let x = b(); see(&x);", 3000, "E6010"),
    "value_of_a_block": Shape("let x = { let t = a(); let u = c(); see(&u); t }; see(&x);", 5000, "E6010"),
    "value_of_an_if": Shape("let x = if flag() { let u = b(); see(&u); a() } else { a() }; see(&x);", 3000, "E6010"),
    "moved_through_structs": Shape("let x = a(); let p = Pair { x: x, y: b() }; let q = p; let y = q.y; see(&y); see(&q.x);", 3000, "E6010"),
    "moved_in_one_arm": Shape("let x = b(); if flag() { eat(x); } let z = a(); see(&z);", 3000, "E6010"),
    "replaced_each_turn": Shape("let mut p = pair(); for i in 0..3 { eat(p); p = pair(); } see(&p.x);", 3000, "E6010"),
    # An argument that never becomes a value is charged all the same: nothing is left to be forgotten.
    "given_no_value": Shape("if flag() { two(a(), { return 0; }); } work_b();", 3000, "E6010"),
    # ---- conditions, views, storage that exists ----
    "condition": Shape("if test(c()) { let x = a(); see(&x); }", 5000, "E6010"),
    "condition_of_a_loop": Shape("while test(b()) && test(c()) { let x = a(); see(&x); }", 7000, "E6010"),
    "condition_with_a_block": Shape("while { let x = c(); see(&x); false } { let y = b(); see(&y); }", 4000, "E6009"),
    "views": Shape("let x = c(); let v = x[5..9]; let w = x[0..n]; see(&v); see(w);", 4000, "E6009"),
    "landing": Shape("let mut x = c(); x = transfer(h, Memory::HBM); x[0..n] = transfer(h[0..n], Memory::HBM); see(&x);", 4000, "E6009"),
    "bound_of_a_view": Shape("let x = transfer(h[0..n], Memory::HBM); see(&x);", 4000, "E6009"),
    "copies_in_a_region": Shape("let x = c(); let y : C = spawn on(Topology::Device) { x.copy() }; see(&y);", 8000, "E6010"),
    "product_in_a_product": Shape("let m = Tensor<f32, [5, 5], Memory::HBM>::new(); spawn on(Topology::Device) { let r = m @ m @ m; let s = r[0]; }", 300, "E6010"),
    # ---- bytes ----
    "half_bytes": Shape("let x = Tensor<i4, [3], Memory::HBM>::new(); let y = Tensor<f4e2m1, [7, 3], Memory::HBM>::new(); see(&x); see(&y);", 13, "E6010"),
    "bits": Shape("let x = Tensor<bool, [9], Memory::HBM>::new(); let y = Tensor<bool, [8], Memory::HBM>::new(); see(&x); see(&y);", 3, "E6010"),
    "rank_0": Shape("let x = Tensor<f64, [], Memory::HBM>::new(); let y = Tensor<u4, [], Memory::HBM>::new(); see(&x); see(&y);", 9, "E6010"),
    "nothing_in_it": Shape("let x = Tensor<f64, [0, 9], Memory::HBM>::new(); let y = a(); see(&x); see(&y);", 1000, "E6009"),
    "beyond_32_bits": Shape("let x = Tensor<u8, [LONG * LONG], Memory::HBM>::uninit(); let y = a(); see(&x); see(&y);", 4900001000, "E6010"),
    "beyond_an_exabyte": Shape("let x = Tensor<f64, [1048576, 1048576, 524288], Memory::HBM>::uninit(); let y = a(); see(&x); see(&y);", (1 << 62) + 1000, "E6010"),
    "extents_that_are_computed": Shape("sized<499>(); sized<1000>();", 2001, "E6009"),
    # An address is a multiple of the element's bytes: what that leaves empty is counted.
    "aligned_behind_a_smaller_one": Shape("let x = Tensor<u4, [3], Memory::HBM>::new(); let y = Tensor<f64, [2], Memory::HBM>::new(); see(&x); see(&y);", 24, "E6010"),
    "aligned_in_a_block": Shape("let x = Tensor<u8, [5], Memory::HBM>::new(); { let y = Tensor<u8, [1], Memory::HBM>::new(); let z = Tensor<f32, [1], Memory::HBM>::new(); see(&y); see(&z); } see(&x);", 16, "E6010"),
    "aligned_in_a_callee": Shape("let x = Tensor<u8, [5], Memory::HBM>::new(); wide(); see(&x);", 32, "E6027"),
    # Sizes are rounded up one by one, the capacity is not: so a byte less than whole granules is refused.
    "granules": Shape("let x = Tensor<u8, [1], Memory::HBM>::new(); let y = Tensor<u8, [300], Memory::HBM>::new(); see(&x); see(&y);", 768, "E6010", "granule: 256 B"),
    "granules_one_by_one": Shape("let x = Tensor<u8, [300], Memory::HBM>::new(); let y = Tensor<u8, [300], Memory::HBM>::new(); see(&x); see(&y);", 1024, "E6010", "granule: 256 B"),
    "granules_of_2_mib": Shape("let x = Tensor<u8, [2097153], Memory::HBM>::new(); see(&x);", 4194304, "E6009", "granule: 2 MiB"),
}  # fmt: skip


def program(body: str) -> str:
    return f"{PRELUDE}\nfn main() -> i32 {{ {HOST if 'h[' in body or '(h' in body or 'n]' in body else ''}{body} 0 }}\n"


@pytest.mark.parametrize("name", SHAPES)
def test_exact_fit_is_admitted_and_a_byte_less_is_refused(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    plan, found = plan_of(tmp_path, program(shape.body), machine(f"{shape.bytes} B, {shape.more}"))
    assert plan.verdict is Verdict.ADMITTED and not errors(found), found
    assert (plan.arenas[0].bytes, plan.arenas[0].device_margin) == (shape.bytes, 0)
    if not name.startswith("aligned"):
        assert sum(slot.bytes for slot in plan.arenas[0].peak) == shape.bytes, "the slots at the peak are all of it"

    plan, found = plan_of(tmp_path, program(shape.body), machine(f"{shape.bytes - 1} B, {shape.more}"))
    assert plan.verdict is Verdict.REJECTED
    assert set(errors(found)) == {shape.code}, found
    for misfit in plan.misfits:
        assert (misfit.code, misfit.bank) == (shape.code, Bank("HBM", 0))
        assert (misfit.required, misfit.available, misfit.margin) == (shape.bytes, shape.bytes - 1, -1)
    for item in found:
        if item.code == shape.code:
            text = " ".join([item.message, *item.notes])
            assert str(shape.bytes) in text and str(shape.bytes - 1) in text


# ---- one placement, however it is written ------------------------------------------------------
SPELLINGS = {
    "constructor": "let x = Tensor<u8, [4000], Memory::HBM>::new();",
    "uninit": "let x = Tensor<u8, [4000], Memory::HBM>::uninit();",
    "fill": "let x = Tensor<u8, [4000], Memory::HBM>::fill(7);",
    "by_device": "let x = Tensor<u8, [4000], Topology::Device>::new();",
    "by_instance": "let x = Tensor<u8, [4000], Topology::Device[0]>::new();",
    "alias": "let x = C::new();",
    "transfer_to_memory": "let x = transfer(h, Memory::HBM);",
    "transfer_to_device": "let x = transfer(h, Topology::Device[0]);",
    "transfer_of_a_view": "let x = transfer(h[0..4000], Memory::HBM);",
    "annotated": "let x : C = transfer(h, Memory::HBM);",
    "copy_of_a_placed_one": "let x : C = spawn on(Topology::Device) { let t = Tensor<u8, [4000]>::new(); t };",
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_of_a_placement_is_counted(name: str, tmp_path: Path) -> None:
    text = program(f"{HOST}{SPELLINGS[name]} see(&x);").replace(HOST + HOST, HOST)
    plan, _ = plan_of(tmp_path, text, machine(4000))
    assert plan.verdict is Verdict.ADMITTED and plan.arenas[0].bytes == 4000
    plan, found = plan_of(tmp_path, text, machine(3999))
    assert plan.verdict is Verdict.REJECTED and set(errors(found)) == {"E6009"}


def test_the_memories_of_gpus_have_granules_that_their_code_can_use(tmp_path: Path) -> None:
    """Vector loads, copies and library calls on a GPU want 256 bytes; the published figures are never run on."""
    seen = 0
    for path in sorted(FLEET.glob("*.vx")):
        if path.name.startswith("host-"):
            continue
        machine_ = load_machine(path, "default", Reporter(), SourceMap(), "x86_64")
        for topology in machine_.topologies.values():
            space = machine_.space(topology.memory) if topology.arch in ("nvptx64", "amdgcn") else None
            if space is not None:
                assert space.granule % 256 == 0, path
                seen += 1
    assert seen >= 6


# ---- instances ---------------------------------------------------------------------------------
def placed_on(size: int, *instances: int) -> str:
    lets = [f"let t{n} = Tensor<u8, [{size}], Topology::Device[{i}]>::uninit();" for n, i in enumerate(instances)]
    uses = [f"see(&t{n});" for n in range(len(instances))]
    return f"fn see<X>(t : &X) -> void {{ }}\nfn main() -> i32 {{ {' '.join(lets + uses)} 0 }}"


def test_memories_of_instances_are_never_added(tmp_path: Path) -> None:
    eight = machine(1000, instances=8)
    plan, _ = plan_of(tmp_path, placed_on(1000, *range(8)), eight)
    assert plan.verdict is Verdict.ADMITTED
    assert [(arena.bank.instance, arena.bytes, arena.device_margin) for arena in plan.arenas] == [
        (instance, 1000, 0) for instance in range(8)
    ]
    plan, found = plan_of(tmp_path, placed_on(1001, 5), eight)
    assert errors(found) == ["E6009"] and plan.misfits[0].bank == Bank("HBM", 5)
    assert (plan.misfits[0].required, plan.misfits[0].available) == (1001, 1000)
    plan, found = plan_of(tmp_path, placed_on(501, 0, 3, 3, 7), eight)
    assert errors(found) == ["E6010"] and plan.misfits[0].bank == Bank("HBM", 3)
    assert (plan.misfits[0].required, plan.misfits[0].tiles) == (1002, 2)


def test_one_body_for_two_devices(tmp_path: Path) -> None:
    text = """
fn see<X>(t : &X) -> void { }
fn half<const D : i32>() -> void { let t = Tensor<u8, [600], Topology::Device[D]>::new(); see(&t); }
fn held<const D : i32>() -> void { let t = Tensor<u8, [400], Topology::Device[D]>::new(); half<E>(); see(&t); }
fn main() -> i32 { held<0>(); 0 }
"""
    for other, needs in ((0, {0: 1000}), (1, {0: 400, 1: 600})):
        instance = text.replace("<E>", f"<{other}>")
        plan, _ = plan_of(tmp_path, instance, machine(max(needs.values()), instances=2))
        assert plan.verdict is Verdict.ADMITTED
        assert {arena.bank.instance: arena.bytes for arena in plan.arenas} == needs
        plan, _ = plan_of(tmp_path, instance, machine(max(needs.values()) - 1, instances=2))
        assert plan.verdict is Verdict.REJECTED


# ---- what a deployment keeps -------------------------------------------------------------------
@pytest.mark.parametrize(
    ("capacity", "reserve", "kept"),
    [
        (10_000, Reserve(800, None), 800),
        (10_000, Reserve(None, 80_000), 800),
        (10_001, Reserve(None, 80_000), 801),  # 800.08 bytes are rounded up
        (10_000, Reserve(None, 1), 1),
        (10_000, Reserve(None, 0), 0),
        (85_899_345_920, Reserve(None, 80_000), 6_871_947_674),
    ],
)
def test_a_reserve_to_the_byte(capacity: int, reserve: Reserve, kept: int, tmp_path: Path) -> None:
    most = capacity - kept
    text = "fn main() -> i32 { let t = Tensor<u8, [SIZE], Memory::HBM>::uninit(); 0 }"
    limits = Limits(reserve=reserve)
    plan, found = plan_of(tmp_path, text.replace("SIZE", str(most)), machine(capacity), None, limits)
    assert plan.verdict is Verdict.ADMITTED and not errors(found)
    assert (plan.arenas[0].device_margin, plan.arenas[0].deployment_margin) == (kept, 0)
    plan, found = plan_of(tmp_path, text.replace("SIZE", str(most + 1)), machine(capacity), None, limits)
    assert plan.verdict is Verdict.REJECTED
    if kept:
        assert errors(found) == ["E6037"] and plan.arenas[0].device_margin == kept - 1
        assert (plan.misfits[0].required, plan.misfits[0].available, plan.misfits[0].margin) == (most + 1, most, -1)
    else:
        assert errors(found) == ["E6009"]


def test_the_reserve_of_the_machine_and_the_one_that_is_asked_for(tmp_path: Path) -> None:
    text = "fn main() -> i32 { let t = Tensor<u8, [900], Memory::HBM>::uninit(); 0 }"
    declared = machine("1000 B, reserve: 10%")
    assert plan_of(tmp_path, text, declared)[0].verdict is Verdict.ADMITTED
    assert plan_of(tmp_path, text.replace("900", "901"), declared)[1][0].code == "E6037"
    asked = Limits(reserve=Reserve(None, 50_000))
    assert plan_of(tmp_path, text.replace("900", "950"), declared, None, asked)[0].verdict is Verdict.ADMITTED


# ---- overcommit, unknown, workspace, scratch ---------------------------------------------------
@pytest.mark.parametrize("name", ["each_in_its_own_helper", "held_across_three", "result_and_what_its_maker_holds"])
def test_an_overcommitted_memory_warns_by_how_much(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    plan, found = plan_of(tmp_path, program(shape.body), machine(f"{shape.bytes - 1} B, overcommit"))
    assert plan.verdict is Verdict.ADMITTED and not plan.misfits and plan.arenas[0].device_margin == -1
    [warning] = [item for item in found if item.code == "W1028"]
    assert f"{shape.bytes} bytes are required" in warning.notes[0]
    plan, found = plan_of(tmp_path, program(shape.body), machine(f"{shape.bytes} B, overcommit"))
    assert plan.verdict is Verdict.ADMITTED and not found


def test_an_unknown_extent_is_named(tmp_path: Path) -> None:
    text = PRELUDE + (
        "fn f(h : &Tensor<f16, [3, ?, 2]>) -> void { let x = a(); let t = transfer(h, Memory::HBM); see(&t); see(&x); }\n"
        "fn main() -> i32 { f(&Tensor<f16, [3, 4, 2]>::new()); 0 }"
    )
    plan, found = plan_of(tmp_path, text, machine(1000))
    assert plan.verdict is Verdict.UNVERIFIED and not errors(found) and plan.arenas[0].bytes is None
    [warning] = [item for item in found if item.code == "W1029"]
    assert "`t`" in warning.message and "dimension 1 of Tensor<f16, [3, ?, 2]>" in warning.message
    assert plan.unverified == ("`t` in HBM: dimension 1 of Tensor<f16, [3, ?, 2]>",)
    plan, found = plan_of(tmp_path, text, machine(999))
    assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6009"]


def planned(path: Path, text: str, capacity: int, workspace: int, scratch: int) -> tuple[Plan, tuple[Diagnostic, ...]]:
    program_ = typed(path, text, machine(capacity))
    [region] = [
        stmt.value
        for stmt in program_.functions["main"].body.stmts
        if isinstance(stmt, tree.ExprStmt) and isinstance(stmt.value, tree.Spawn)
    ]
    assert program_.machine is not None
    reporter = Reporter()
    limits = Limits(scratch={RegionKey("main", region.span): scratch}, workspace={"HBM": workspace})
    return admit(program_, program_.machine, reporter, limits=limits), reporter.diagnostics


def test_workspace_and_scratch_are_counted(tmp_path: Path) -> None:
    text = program("let x = a(); spawn on(Topology::Device) { let t = x[0]; } work_b(); see(&x);")
    # Scratch starts at a multiple of 16, at 1008 behind `x`; the workspace, below all, is rounded up to as much.
    for workspace, scratch, needed, code in ((0, 0, 3000, "E6027"), (80, 500, 3080, "E6027"), (70, 2001, 3089, "E6027"), (0, 2500, 3508, "E6010")):  # fmt: skip
        plan, _ = planned(tmp_path, text, needed, workspace, scratch)
        assert plan.verdict is Verdict.ADMITTED and plan.arenas[0].bytes == needed
        plan, found = planned(tmp_path, text, needed - 1, workspace, scratch)
        assert plan.verdict is Verdict.REJECTED and code in errors(found), (needed, found)


IN_A_REGION = """
Memory SMEM { within: Memory::HBM, managed: explicit, scope: cta, capacity: SIZE }
"""


@pytest.mark.parametrize(
    "how", ["let s = S::new(); let x = s[0];", "inner(&h);", "let s = made(); inner(&h); let x = s[0];"]
)
def test_a_region_whose_scratch_is_known_still_places_in_other_memories(how: str, tmp_path: Path) -> None:
    text = PRELUDE + (
        "type S = Tensor<u8, [3000], Memory::SMEM>;\nfn made() -> S { S::new() }\n"
        "fn inner(h : &A) on Topology::Device -> void { let s = S::new(); let t = h.copy(); see(&s); see(&t); }\n"
        f"fn main() -> i32 {{ let h = a(); spawn on(Topology::Device) {{ let t = h.copy(); {how} see(&t); }} 0 }}"
    )
    needed = 6000 if "made" in how else 3000
    for capacity, fits in ((needed, True), (needed - 1, False)):
        memories = machine(9000, more=IN_A_REGION.replace("SIZE", f"{capacity} B"))
        program_ = typed(
            tmp_path, text, memories.replace("visible: [Memory::HBM]", "visible: [Memory::HBM, Memory::SMEM]")
        )
        region = program_.functions["main"].body.stmts[1]
        assert isinstance(region, tree.ExprStmt) and program_.machine is not None
        limits = Limits(scratch={RegionKey("main", region.value.span): 600})
        plan = admit(program_, program_.machine, Reporter(), limits=limits)
        assert (plan.verdict is Verdict.ADMITTED) is fits
        assert {arena.bank.space: arena.bytes for arena in plan.arenas} == {"HBM": 1608, "SMEM": needed}


# ---- what cannot be followed is refused, not forgotten -----------------------------------------
def test_a_role_cannot_leave_a_tile_behind(tmp_path: Path) -> None:
    for made, count in (("-> A { a() }", 1), ("-> Nest { nest() }", 3)):
        text = f"{PRELUDE}role fn make() {made}\nfn main() -> i32 {{ let x = make(); see(&x); 0 }}"
        plan, found = plan_of(tmp_path, text, machine("1 MiB"))
        assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6036"] * count


CALLED_BY_C = """
extern "C" { fn later(f : fn() -> void) -> void; }
fn third() -> void { work_a(); }
fn second() -> void { unsafe { later(third); } }
fn first() -> void { unsafe { later(second); } }
"""


def test_what_c_calls_may_place(tmp_path: Path) -> None:
    text = PRELUDE + CALLED_BY_C
    plan, found = plan_of(tmp_path, text + "fn main() -> i32 { first(); 0 }", machine("1 MiB"))
    assert plan.verdict is Verdict.UNVERIFIED and "`third`" in plan.unverified[0]
    roles = "role fn serve() -> void { work_b(); }\nfn main() -> i32 { first(); serve(); 0 }"
    plan, found = plan_of(tmp_path, text + roles, machine("1 MiB"))
    assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6036"]


@pytest.mark.parametrize(
    "body",
    [
        "let mut v = s[0..n].copy(); v = h[0..n].copy(); let x = transfer(v, Memory::HBM);",
        "let mut v = s[0..n].copy(); v = h.copy(); let x = transfer(v, Memory::HBM);",
        "let mut v = s.copy(); v = h[0..n].copy(); let x = transfer(v, Memory::HBM);",
        "let mut w = Box { v: s[0..n].copy() }; w.v = h[0..n].copy(); let x = transfer(w.v, Memory::HBM);",
        "let mut v = s[0..n]; v = h[0..n]; let x = transfer(v, Memory::HBM);",
    ],
)
def test_a_bound_cannot_be_outgrown(body: str, tmp_path: Path) -> None:
    text = f"struct Box<X> {{ v : X }}\nfn main() -> i32 {{ {HOST} let s = Tensor<u8, [10]>::new(); {body} 0 }}"
    with pytest.raises(NotAccepted, match=r"E7005|E3009"):
        plan_of(tmp_path, text, machine(10))
    shorter = text.replace("h[0..n]", "s[0..n]").replace("h.copy", "s.copy").replace("s.copy(); v", "s[0..n].copy(); v")
    assert plan_of(tmp_path, shorter, machine(10))[0].verdict is Verdict.ADMITTED
