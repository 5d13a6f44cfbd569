"""The golden cases, and every code of capacity with what makes it appear and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from admission_cases import PRELUDE, THREE, TILE, errors, machine, plan_of, typed, whole

from vx.admission.check import admit
from vx.admission.plan import Bank, Kind, Limits, RegionKey, Verdict, every_slot
from vx.diagnostics.report import Diagnostic, Reporter
from vx.machine.machine import Reserve
from vx.sema import tree

A100_40 = machine("40 GiB")
A100_80 = machine("80 GiB")


def only(found: tuple[Diagnostic, ...]) -> Diagnostic:
    [item] = [item for item in found if item.code != "W1009"]
    return item


# ---- golden ------------------------------------------------------------------------------------
def test_three_tiles_of_64_kib_in_150_kib(tmp_path: Path) -> None:
    plan, found = plan_of(tmp_path, THREE, machine("150 KiB, granule: 1 KiB"))
    [misfit] = plan.misfits
    assert (misfit.code, misfit.required, misfit.available) == ("E6010", 196608, 153600)
    assert (misfit.margin, misfit.tiles) == (-43008, 3)
    error = only(found)
    assert error.code == "E6010"
    text = " ".join((error.message, *error.notes, *(label.text for label in error.labels)))
    assert all(fact in text for fact in ("HBM", "196608", "153600", "43008", "3 tiles", "`a`", "`b`"))
    plan, _ = plan_of(tmp_path, text_of_two(), machine("150 KiB, granule: 1 KiB"))
    assert plan.verdict is Verdict.ADMITTED


def text_of_two() -> str:
    return (
        "fn main() -> i32 { let a = Tensor<f32, [16384], Memory::HBM>::new(); let b = Tensor<f32, [16384], Memory::HBM>::new();"
        " let r = transfer(a, Memory::CPU_DRAM); let s = transfer(b, Memory::CPU_DRAM); 0 }"
    )


def test_60_gb_on_40_and_80_gib(tmp_path: Path) -> None:
    text = "fn main() -> i32 { let a = Tensor<u8, [60000000000], Memory::HBM>::uninit(); 0 }"
    plan, found = plan_of(tmp_path, text, A100_40)
    error = only(found)
    assert error.code == "E6009" and "60000000000" in error.message and "42949672960" in error.message
    assert plan.verdict is Verdict.REJECTED
    plan, found = plan_of(tmp_path, text, A100_80)
    assert plan.verdict is Verdict.ADMITTED and not found


def test_two_tiles_of_24_gib_made_by_a_helper_do_not_fit_40(tmp_path: Path) -> None:
    text = """
type Big = Tensor<u8, [25769803776], Memory::HBM>;
fn make() -> Big { Big::uninit() }
fn main() -> i32 {
  let a = make();  let b = make();
  let x = transfer(a[0..1], Memory::CPU_DRAM);  let y = transfer(b[0..1], Memory::CPU_DRAM);
  0
}"""
    plan, found = plan_of(tmp_path, text, A100_40)
    assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6010"]
    assert plan_of(tmp_path, text, A100_80)[0].verdict is Verdict.ADMITTED


def test_two_dies_with_a_transfer_between(tmp_path: Path) -> None:
    dies = """
Memory GDDR7 { capacity: 128 GiB, managed: explicit, scope: device }
Memory HBM4 { capacity: 288 GiB, managed: explicit, scope: device }
Topology Prefill { memory: Memory::GDDR7, visible: [Memory::GDDR7], arch: nvptx64,
  transfer Memory::CPU_DRAM -> Memory::GDDR7 : 300   transfer Memory::GDDR7 -> Memory::HBM4 : 120 }
Topology Decode { memory: Memory::HBM4, visible: [Memory::HBM4], arch: nvptx64 }
"""
    text = """
fn main() -> i32 {
  let x = Tensor<f32, [1024]>::new();
  let kv = transfer(x, Memory::GDDR7);  let moved = transfer(kv, Memory::HBM4);
  spawn on(Topology::Decode) { let a = moved[0]; }
  0
}"""
    plan, found = plan_of(tmp_path, text, dies)
    assert plan.verdict is Verdict.ADMITTED, found
    assert [(m.route, m.bytes) for m in plan.transfers] == [(("CPU_DRAM", "GDDR7"), 4096), (("GDDR7", "HBM4"), 4096)]
    assert [(a.bank.space, a.bytes) for a in plan.arenas] == [("GDDR7", 4096), ("HBM4", 4096)]


def test_recursion_that_holds_a_tile(tmp_path: Path) -> None:
    text = whole(
        "fn f(n : i32) -> void { let a = T::new(); if n > 0 { f(n - 1); } read(&a); }\nfn main() -> i32 { f(3); 0 }"
    )
    plan, found = plan_of(tmp_path, text, A100_80)
    error = only(found)
    assert error.code == "E6028" and "3145728" in error.message and "`f`" in error.message
    assert plan.verdict is Verdict.REJECTED and plan.arenas[0].bytes is None


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("fn f(n : i32) -> void { if n > 0 { g(n - 1); } }\nfn g(n : i32) -> void { let a = tile(); f(n); read(&a); }", True),
        ("fn f(n : i32) -> void { if n > 0 { f(n - 1); } }", False),
        ("fn f(n : i32) -> T { if n == 0 { return tile(); } f(n - 1) }", False),
        ("fn f(n : i32) -> void { if n > 0 { g(&T::new(), n); } }\nfn g(t : &T, n : i32) -> void { f(n - 1); }", True),
    ],
)  # fmt: skip
def test_cycles_of_calls(code: str, refused: bool, tmp_path: Path) -> None:
    text = whole(code + "\nfn main() -> i32 { let t = tile(); f(3); read(&t); 0 }")
    plan, found = plan_of(tmp_path, text, A100_80)
    assert errors(found) == (["E6028"] if refused else [])
    assert plan.verdict is (Verdict.REJECTED if refused else Verdict.ADMITTED)


CYCLE = """
fn work() -> void { let w = T::new(); read(&w); }
fn f(n : i32) -> void { if n > 0 { g(n - 1); } }
fn g(n : i32) -> void { if n > 5 { h(n); } f(n); }
fn h(n : i32) -> void { work(); g(n - 1); }
fn main() -> i32 { let t = tile(); f(9); read(&t); 0 }
"""


def test_a_cycle_needs_what_it_calls(tmp_path: Path) -> None:
    plan, found = plan_of(tmp_path, whole(CYCLE), machine(2 * TILE))
    assert plan.verdict is Verdict.ADMITTED and plan.arenas[0].bytes == 2 * TILE, found
    assert [slot.name for slot in plan.arenas[0].peak] == ["t", "w"] and len(plan.arenas[0].peak[1].path) == 4
    assert {(slot.name, slot.offset) for slot in every_slot(plan)} == {("t", 0), ("w", TILE)}
    plan, found = plan_of(tmp_path, whole(CYCLE), machine(2 * TILE - 1))
    assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6027"]


# ---- bytes -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("type_", "granule", "size"),
    [
        ("f32, [5]", 1, 20),
        ("f32, [5]", 64, 64),
        ("f32, [16]", 64, 64),
        ("f32, [17]", 64, 128),
        ("i4, [3]", 1, 2),
        ("i4, [4]", 1, 2),
        ("f4e2m1, [7, 3]", 1, 11),
        ("f8e4m3, [7]", 1, 7),
        ("bool, [9]", 1, 2),
        ("f16, [3, 5]", 1, 30),
        ("i128, [2]", 1, 32),
        ("f32, []", 1, 4),
        ("u8, [100000, 100000, 1000]", 1, 10**13),
    ],
)
def test_bytes_of_a_tile(type_: str, granule: int, size: int, tmp_path: Path) -> None:
    text = f"fn f(t : &Tensor<{type_}, Memory::HBM>) -> void {{ }}\nfn main() -> i32 {{ let a = Tensor<{type_}, Memory::HBM>::uninit(); f(&a); 0 }}"
    plan, _ = plan_of(tmp_path, text, machine(f"{size} B, granule: {granule} B"))
    assert plan.verdict is Verdict.ADMITTED and plan.arenas[0].bytes == size
    if granule > 1:
        return
    plan, found = plan_of(tmp_path, text, machine(f"{size - 1} B"))
    assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6009"]


def test_one_granule_too_much_is_refused(tmp_path: Path) -> None:
    """The limit of a block is 1 KiB below the memory of the multiprocessor: what fills the latter does not fit."""
    text = "fn main() -> i32 { let a = Tensor<u8, [SIZE], Memory::HBM>::uninit(); 0 }"
    usable = machine("163 KiB, granule: 1 KiB")
    assert plan_of(tmp_path, text.replace("SIZE", "166912"), usable)[0].verdict is Verdict.ADMITTED
    assert plan_of(tmp_path, text.replace("SIZE", "166913"), usable)[0].verdict is Verdict.REJECTED
    assert plan_of(tmp_path, text.replace("SIZE", "167936"), usable)[0].verdict is Verdict.REJECTED


# ---- instances ---------------------------------------------------------------------------------
def test_instances_are_accounted_one_by_one(tmp_path: Path) -> None:
    def text(second: int) -> str:
        return whole(
            f"""
fn main() -> i32 {{
  let a = Tensor<u8, [3145728], Topology::Device[0]>::new();
  let b = Tensor<u8, [3145728], Topology::Device[{second}]>::new();
  let x = transfer(a[0..1], Memory::CPU_DRAM);  let y = transfer(b[0..1], Memory::CPU_DRAM);
  0
}}"""
        ).replace(PRELUDE, "")

    plan, _ = plan_of(tmp_path, text(1), machine(TILE, instances=2))
    assert plan.verdict is Verdict.ADMITTED
    assert {arena.bank: arena.bytes for arena in plan.arenas} == {Bank("HBM", 0): TILE, Bank("HBM", 1): TILE}
    plan, found = plan_of(tmp_path, text(0), machine(TILE, instances=2))
    assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6010"]


def test_eight_instances_are_not_one_space(tmp_path: Path) -> None:
    text = "fn main() -> i32 { let a = Tensor<u8, [86973087744], Topology::Device[3]>::uninit(); 0 }"
    plan, found = plan_of(tmp_path, text, machine("80 GiB", instances=8))
    assert plan.verdict is Verdict.REJECTED and "instance 3" in only(found).message


# ---- hops, landing -----------------------------------------------------------------------------
STAGED = "Memory STAGE { managed: explicit, scope: device, capacity: 4 MiB }\n"
STAGED_MACHINE = (
    "Memory HBM { managed: explicit, scope: device, capacity: 64 MiB }\n"
    + STAGED
    + "Topology Device { memory: Memory::HBM, visible: [Memory::HBM], arch: nvptx64,\n"
    " transfer Memory::CPU_DRAM -> Memory::STAGE : 63 GB/s   transfer Memory::STAGE -> Memory::HBM : 63 GB/s }\n"
)


def test_hops_are_tiles_to_the_end_of_the_block(tmp_path: Path) -> None:
    host = "let h = Tensor<u8, [3145728]>::new(); "
    plan, _ = plan_of(
        tmp_path,
        whole(host + "{ let a = transfer(h, Memory::HBM); read(&a); } { let b = transfer(h, Memory::HBM); read(&b); }"),
        STAGED_MACHINE,
    )
    assert plan.verdict is Verdict.ADMITTED
    arena = plan.arena("STAGE")
    assert arena is not None and arena.bytes == TILE and [slot.kind for slot in arena.peak] == [Kind.HOP]
    plan, found = plan_of(
        tmp_path,
        whole(host + "let a = transfer(h, Memory::HBM); let b = transfer(h, Memory::HBM); read(&a); read(&b);"),
        STAGED_MACHINE,
    )
    assert errors(found) == ["E6010"] and plan.misfits[0].bank == Bank("STAGE", 0)


def test_a_landing_of_several_hops_needs_the_hop_only(tmp_path: Path) -> None:
    text = whole("let h = Tensor<u8, [3145728]>::new(); let mut a = T::new(); a = transfer(h, Memory::HBM); read(&a);")
    plan, _ = plan_of(tmp_path, text, STAGED_MACHINE)
    assert {arena.bank.space: arena.bytes for arena in plan.arenas} == {"HBM": TILE, "STAGE": TILE}


# ---- extents -----------------------------------------------------------------------------------
def test_a_bounded_view_is_charged_its_bound(tmp_path: Path) -> None:
    body = """
fn main() -> i32 {
  let h = Tensor<u8, [3145728]>::new();
  let mut n = 5;  n += 1;
  let a = transfer(h[0..n], Memory::HBM);
  let b = transfer(a, Memory::CPU_DRAM);
  0
}"""
    plan, found = plan_of(tmp_path, body, machine(TILE))
    assert plan.verdict is Verdict.ADMITTED and plan.arenas[0].bytes == TILE, found
    assert [(moved.bytes, moved.exact) for moved in plan.transfers] == [(TILE, False), (TILE, False)]
    assert plan_of(tmp_path, body, machine(TILE - 1))[0].verdict is Verdict.REJECTED


UNBOUNDED = """
fn f(h : &Tensor<f32, [4, ?]>) -> void {
  let a = transfer(h, Memory::HBM);
  let b = transfer(a, Memory::CPU_DRAM);
}
"""


def test_an_unbounded_extent_is_unverified_not_admitted(tmp_path: Path) -> None:
    text = UNBOUNDED + "fn main() -> i32 { f(&Tensor<f32, [4, 9]>::new()); 0 }"
    plan, found = plan_of(tmp_path, text, A100_40)
    assert plan.verdict is Verdict.UNVERIFIED and plan.arenas[0].bytes is None
    warning = only(found)
    assert warning.code == "W1029" and "dimension 1" in warning.message and "`a`" in warning.message
    assert plan.transfers[0].bytes is None
    plan, found = plan_of(tmp_path, text, A100_40.replace("capacity: 40 GiB", "granule: 1 B"))
    assert plan.verdict is Verdict.ADMITTED and not errors(found)


def test_what_surely_does_not_fit_is_refused_though_something_is_unknown(tmp_path: Path) -> None:
    text = (
        UNBOUNDED
        + "fn main() -> i32 { f(&Tensor<f32, [4, 9]>::new()); let b = T::new(); let c = T::new(); read(&b); read(&c); 0 }"
    )
    plan, found = plan_of(tmp_path, whole(text), machine(TILE))
    assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6010"]


# ---- ownership ---------------------------------------------------------------------------------
LOST = {
    "payload": "let o = Option<T>::Some(tile()); let mut c = 1;",
    "payload_of_a_result": "let o = maybe(); let mut c = 1;",
    "vec": "let mut v = Vec<Pair>::new(); let p = Pair { x: tile(), y: tile() }; v.push(p);",
    "temporary_in_a_vec": "let mut v = Vec<Pair>::new(); v.push(Pair { x: tile(), y: tile() });",
    "vec_through_a_function": "let mut v = Vec<Pair>::new(); keep(&mut v, Pair { x: tile(), y: tile() });",
    "payload_in_a_function": "let o = wrapped(tile());",
    "tensor_in_a_vec": "let mut v = Vec<T>::new(); v.push(tile());",
    "tensors_in_a_loop": "let mut v = Vec<T>::new(); for i in 0..9 { let t = tile(); v.push(t); }",
    "empty_vec": "let v = Vec<T>::new();",
    "tensor_behind_a_pointer": "unsafe { let p = malloc(100) as *mut T; p[0] = tile(); p[1] = tile(); read(&p[0]); }",
    "transferred_behind_a_pointer": "let h = Tensor<u8, [3145728]>::new(); unsafe { let p = malloc(100) as *mut T; *p = transfer(h, Memory::HBM); }",
}


@pytest.mark.parametrize("name", LOST)
def test_tiles_that_nobody_can_follow(name: str, tmp_path: Path) -> None:
    text = (
        "import std::vec;\n"
        + PRELUDE
        + "fn maybe() -> Option<T> { Some(tile()) }\nfn keep(v : &mut Vec<Pair>, p : Pair) -> void { v.push(p); }\n"
        + 'extern "C" { fn malloc(n : i64) -> *mut u8; }\n'
        + f"fn wrapped(t : T) -> Option<T> {{ Some(t) }}\nfn main() -> i32 {{ {LOST[name]} 0 }}"
    )
    plan, found = plan_of(tmp_path, text, A100_80)
    assert plan.verdict is Verdict.REJECTED and set(errors(found)) == {"E6034"}
    assert all(item.span.file.endswith("case.vx") for item in found if item.code == "E6034")


def test_host_tensors_may_be_owned_by_anything(tmp_path: Path) -> None:
    text = "import std::vec;\nfn main() -> i32 { let mut v = Vec<Tensor<f32, [4]>>::new(); v.push(Tensor<f32, [4]>::new()); 0 }"
    plan, found = plan_of(tmp_path, text, A100_80)
    assert plan.verdict is Verdict.ADMITTED and not plan.arenas and not errors(found)


SHARED = {
    "either_of_two": "let a = tile(); let b = tile(); let c = if cond() { a } else { b }; read(&c);",
    "new_or_old": "let a = tile(); let c = if cond() { a } else { tile() }; read(&c);",
    "replaced": "let mut p = pair(); p = pair(); read(&p.x);",
    "placed_in_a_loop_and_moved_out": "let mut p = pair(); for i in 0..3 { p = pair(); } read(&p.x);",
    "placed_in_a_loop_and_kept": "let mut p = pair(); eat_pair(p); p = pair(); for i in 0..3 { let q = pair(); p = q; } read(&p.x);",
    "placed_again_each_turn": "let mut p = pair(); eat_pair(p); for i in 0..3 { p = pair(); } p = pair();",
    "placed_before_one_break": "let mut p = pair(); eat_pair(p); loop { if cond() { p = pair(); break; } if cond() { break; } } p = pair(); read(&p.x);",
    "placed_before_continue": "let mut p = pair(); eat_pair(p); while cond() { if cond() { p = pair(); continue; } if cond() { break; } } p = pair(); read(&p.x);",
    "replaced_through_a_reference": "let mut p = pair(); renew(&mut p); read(&p.x);",
    "sometimes_the_argument": "let a = tile(); let b = sometimes(a, true); read(&b);",
    "one_of_two_arguments": "let a = tile(); let b = tile(); let c = one_of(a, b); read(&c);",
    "in_place_of_the_argument": "refill(pair());",
    "result_in_place_of_the_argument": "let mut p = pair(); p = renewed(p); read(&p.x);",
    "two_results": "let a = two(true); read(&a);",
    "moved_maybe": "let mut p = pair(); if cond() { eat_pair(p); p = pair(); } else { p = pair(); } read(&p.x);",
}
SHARING = """
fn cond() -> bool { true }
fn pair() -> Pair { Pair { x: T::new(), y: tile() } }
fn eat_pair(p : Pair) -> void { read(&p.x); }
fn renew(p : &mut Pair) -> void { *p = pair(); }
fn sometimes(t : T, c : bool) -> T { if c { t } else { eat(t); tile() } }
fn one_of(a : T, b : T) -> T { if cond() { a } else { b } }
fn refill(p : Pair) -> void { let mut q = p; eat_pair(q); q = pair(); read(&q.x); }
fn renewed(p : Pair) -> Pair { read(&p.x); pair() }
fn two(c : bool) -> T { let a = tile(); let b = tile(); read(&b); if c { return a; } b }
"""


@pytest.mark.parametrize("name", SHARED)
def test_two_owners_of_one_slot(name: str, tmp_path: Path) -> None:
    text = SHARING + f"fn main() -> i32 {{ {SHARED[name]} 0 }}"
    plan, found = plan_of(tmp_path, whole(text), A100_80)
    assert plan.verdict is Verdict.REJECTED and set(errors(found)) == {"E6035"}, found


def test_the_message_names_both_owners(tmp_path: Path) -> None:
    text = SHARING + f"fn main() -> i32 {{ {SHARED['new_or_old']} 0 }}"
    _, found = plan_of(tmp_path, whole(text), A100_80)
    [error] = [item for item in found if item.code == "E6035"]
    assert "`a`" in error.message and "`c`" in error.message


# ---- roles -------------------------------------------------------------------------------------
ROLES = """
role fn first() -> void { let a = T::new(); read(&a); }
role fn second() -> void { let a = T::new(); let b = T::new(); read(&a); read(&b); }
fn helper() -> void { let a = tile(); read(&a); }
"""


def test_each_role_is_admitted_by_itself(tmp_path: Path) -> None:
    text = whole(ROLES + "fn main() -> i32 { if 1 < 2 { first(); } else { second(); } 0 }")
    assert plan_of(tmp_path, text, machine(TILE), "first")[0].verdict is Verdict.ADMITTED
    plan, found = plan_of(tmp_path, text, machine(TILE), "second")
    assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6010"]
    with pytest.raises(ValueError, match="which role"):
        plan_of(tmp_path, text, machine(TILE))
    with pytest.raises(ValueError, match="no role `third`"):
        plan_of(tmp_path, text, machine(TILE), "third")


@pytest.mark.parametrize("outside", ["helper();", "let a = T::new();", "let p = if true { tile() } else { tile() };"])
def test_a_tile_outside_a_role(outside: str, tmp_path: Path) -> None:
    text = whole(ROLES + f"fn main() -> i32 {{ first(); {outside} 0 }}")
    plan, found = plan_of(tmp_path, text, A100_80, "first")
    assert plan.verdict is Verdict.REJECTED and set(errors(found)) == {"E6036"}


# ---- overcommit, reserve, workspace, scratch ---------------------------------------------------
def test_overcommit_warns(tmp_path: Path) -> None:
    bodies = {
        "two": "let a = T::new(); let b = T::new(); read(&a); read(&b);",
        "call": "let a = T::new(); work(); read(&a);",
        "cycle": "again(3);",
    }
    functions = (
        "fn work() -> void { let w = T::new(); read(&w); }\n"
        "fn again(n : i32) -> void { let a = T::new(); if n > 0 { again(n - 1); } read(&a); }\n"
    )
    for body in bodies.values():
        text = whole(functions + f"fn main() -> i32 {{ {body} 0 }}")
        plan, found = plan_of(tmp_path, text, machine(f"{TILE} B, overcommit"))
        assert plan.verdict is Verdict.ADMITTED and only(found).code == "W1028"
    plan, found = plan_of(tmp_path, whole("let a = T::new(); read(&a);"), machine(f"{TILE - 1} B, overcommit"))
    assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6009"]


def test_device_fit_and_deployment_fit(tmp_path: Path) -> None:
    body = whole("let a = T::new(); read(&a);")
    for reserve, limits in (("1 MiB", Limits()), ("2 MiB", Limits(reserve=Reserve(1 << 20, None)))):
        plan, _ = plan_of(tmp_path, body, machine(f"4 MiB, reserve: {reserve}"), None, limits)
        assert plan.verdict is Verdict.ADMITTED
        assert (plan.arenas[0].device_margin, plan.arenas[0].deployment_margin) == (1 << 20, 0)
    plan, found = plan_of(tmp_path, body, machine("4 MiB"), None, Limits(reserve=Reserve((1 << 20) + 1, None)))
    assert plan.verdict is Verdict.REJECTED and only(found).code == "E6037"
    assert plan.misfits[0].margin == -1
    # 8 % of 4 MiB is 335544.32 bytes; the reserve is rounded up
    plan, _ = plan_of(tmp_path, body, machine("4 MiB"), None, Limits(reserve=Reserve(None, 80_000)))
    assert plan.arenas[0].reserve == 335545


def test_workspace_lies_below_the_tiles(tmp_path: Path) -> None:
    body = whole("let a = T::new(); read(&a);")
    plan, _ = plan_of(tmp_path, body, machine(TILE + 100), None, Limits(workspace={"HBM": 100}))
    assert plan.verdict is Verdict.ADMITTED and plan.arenas[0].bytes == TILE + 100
    assert plan.arenas[0].peak[0].offset == 100
    plan, found = plan_of(tmp_path, body, machine(TILE + 99), None, Limits(workspace={"HBM": 100}))
    assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6027"]


def test_scratch_is_a_tile_of_its_statement(tmp_path: Path) -> None:
    text = whole(
        "let a = T::new(); spawn on(Topology::Device) { let mut b = Tensor<u8, [16]>::new(); b[0] = a[0]; } read(&a);"
    )
    program = typed(tmp_path, text, machine(TILE + 5))
    assert program.machine is not None
    [region] = [
        s.value
        for s in program.functions["main"].body.stmts
        if isinstance(s, tree.ExprStmt) and isinstance(s.value, tree.Spawn)
    ]
    key = RegionKey("main", region.span)
    plan = admit(program, program.machine, Reporter(), limits=Limits(scratch={key: 5}))
    assert plan.verdict is Verdict.ADMITTED and plan.arenas[0].bytes == TILE + 5
    assert [slot.kind for slot in plan.arenas[0].peak] == [Kind.TILE, Kind.SCRATCH]
    assert admit(program, program.machine, Reporter(), limits=Limits(scratch={key: 6})).verdict is Verdict.REJECTED
    assert admit(program, program.machine, Reporter(), limits=Limits(scratch={key: 0})).arenas[0].bytes == TILE
    assert admit(program, program.machine, Reporter()).arenas[0].bytes == TILE + 16


# ---- where it is reported ----------------------------------------------------------------------
def test_calls_are_reported_at_the_smallest_function(tmp_path: Path) -> None:
    functions = (
        "fn leaf() -> void { let a = T::new(); read(&a); }\n"
        "fn middle() -> void { let a = T::new(); leaf(); read(&a); }\n"
        "fn top() -> void { middle(); }\n"
        "fn main() -> i32 { let a = T::new(); top(); read(&a); 0 }\n"
    )
    plan, found = plan_of(tmp_path, whole(functions), machine(2 * TILE - 1))
    assert errors(found) == ["E6027"] and plan.misfits[0].function == "middle"
    plan, found = plan_of(tmp_path, whole(functions), machine(3 * TILE - 1))
    assert errors(found) == ["E6027"] and plan.misfits[0].function == "main"
    assert "`top`" in only(found).message
    plan, found = plan_of(tmp_path, whole(functions), machine(3 * TILE))
    assert [slot.offset for slot in plan.arenas[0].peak] == [0, TILE, 2 * TILE]
    assert [len(slot.path) for slot in plan.arenas[0].peak] == [0, 2, 3]


def test_a_parameter_too_large_is_refused_without_being_placed(tmp_path: Path) -> None:
    text = whole("fn f(t : &Tensor<u8, [4000000], Memory::HBM>) -> void { }\nfn main() -> i32 { let a = T::new(); read(&a); if false { g(); } 0 }\n"
                 "fn g() -> void { let x = Tensor<u8, [4000000], Memory::HBM>::new(); f(&x); }")  # fmt: skip
    _, found = plan_of(tmp_path, text, machine(TILE))
    assert errors(found) == ["E6009"]
