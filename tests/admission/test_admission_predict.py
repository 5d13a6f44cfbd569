"""Predictions: bytes, how often, and time of every transfer, and what they rest on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from admission_cases import NotAccepted, machine, typed
from ownership_interpreter import Activation, Interpreter
from random_ownership import random_program

from vx import resources
from vx.admission.check import admit
from vx.admission.plan import Bank, Plan, Prediction, Verdict
from vx.admission.predict import predict
from vx.diagnostics.report import Reporter
from vx.diagnostics.span import Span
from vx.sema import tree

WIDE = machine("80 GiB")


def planned(path: Path, source: str, machine_text: str, role: str | None = None) -> tuple[tree.Program, Plan]:
    program = typed(path, source, machine_text)
    assert program.machine is not None
    return program, admit(program, program.machine, Reporter(), role)


def predicted(path: Path, source: str, machine_text: str = WIDE, role: str | None = None) -> tuple[Prediction, ...]:
    program, plan = planned(path, source, machine_text, role)
    assert program.machine is not None
    found = predict(program, program.machine, plan)
    assert len(found) == len(plan.transfers)
    return found


def main(body: str) -> str:
    return f"fn main() -> i32 {{\n{body}\n  0\n}}\n"


def fleet(name: str) -> str:
    """A file of the fleet with what it imports, as one text."""
    text = resources.find("fleet", name).read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("import "):
            part = line.split('"')[1]
            text = text.replace(line, resources.find("fleet", part).read_text(encoding="utf-8"))
    return text


# ---- time --------------------------------------------------------------------------------------
@pytest.mark.parametrize(("rate", "ps"), [(68, 126_322_567_530), (38, 226_050_910_316)])
def test_8_gib_over_a_link(tmp_path: Path, rate: int, ps: int) -> None:
    body = "let x = Tensor<u8, [8589934592]>::uninit(); let y = transfer(x, Memory::HBM);"
    [found] = predicted(tmp_path, main(body), WIDE.replace("63 GB/s", f"{rate} GB/s"))
    assert (found.bytes, found.formula, found.ps) == (8 << 30, "", ps)
    assert found.seconds == ps / 10**12
    assert found.basis == f"declared {tmp_path / 'machine.vx'}"


def test_every_hop_of_an_h200(tmp_path: Path) -> None:
    body = """
  let x = Tensor<u8, [65536]>::new();
  let a = transfer(x, Memory::HBM);
  let b = transfer(a, Memory::L2);
  let c = transfer(b, Memory::SMEM);
  let d = transfer(x, Memory::SMEM);
"""
    *single, whole = predicted(tmp_path, main(body), fleet("h200.vx"))
    assert [found.ps for found in single] == [1_040_254, 19_116, 979_483]
    assert whole.route == ("CPU_DRAM", "HBM", "L2", "SMEM")
    assert [hop.cost.amount for hop in whole.hops if hop.cost] == [1_040_254, 19_116, 979_483]
    assert whole.ps == 1_040_254 + 19_116 + 979_483


def test_latency_counts_once_per_hop(tmp_path: Path) -> None:
    text = WIDE.replace("63 GB/s", "63 GB/s latency 8 us")
    [found] = predicted(tmp_path, main("let x = Tensor<u8, [65536]>::new(); let y = transfer(x, Memory::HBM);"), text)
    assert found.ps == 1_040_254 + 8_000_000


def test_instances_are_linked_by_the_peer_edge(tmp_path: Path) -> None:
    body = """
  let x = Tensor<u8, [442368], Topology::Device[0]>::new();
  let y = transfer(x, Topology::Device[1]);
"""
    text = machine("80 GiB", instances=2).replace("peer: 450 GB/s", "peer: 450 GB/s latency 10 us")
    [found] = predicted(tmp_path, main(body), text)
    assert (found.what, found.route) == ("`x` to HBM of instance 1", ("HBM", "HBM"))
    assert found.ps == 10_000_000 + -(-442368 * 10**12 // (450 * 10**9))
    without = machine("80 GiB", instances=2).replace("peer: 450 GB/s,", "")
    [found] = predicted(tmp_path, main(body), without)
    assert found.route == ("HBM", "CPU_DRAM", "HBM") and found.ps == 2 * -(-442368 * 10**12 // (63 * 10**9))


def test_cycles_become_time_where_a_clock_is_declared(tmp_path: Path) -> None:
    spaces = """
Memory A { scope: device, bandwidth: 64 B/cyc CLOCK }
Memory B { within: Memory::A, bandwidth: 32 B/cyc CLOCK }
Topology Device { memory: Memory::A, visible: [Memory::A, Memory::B], arch: nvptx64,
  transfer Memory::CPU_DRAM -> Memory::A : 63 GB/s  transfer Memory::A -> Memory::B }
"""
    body = "let x = Tensor<u8, [64000], Memory::A>::new(); let y = transfer(x, Memory::B);"
    [found] = predicted(tmp_path, main(body), spaces.replace("CLOCK", ", clock: 2 GHz"))
    assert found.hops[0].cost is not None and (found.hops[0].cost.amount, found.hops[0].cost.unit) == (3000, "cyc")
    assert found.ps == 1_500_000
    [found] = predicted(tmp_path, main(body), spaces.replace("CLOCK", ""))
    assert found.ps is None and found.seconds is None
    assert found.basis == "not predicted: the hop A -> B counts in cycles of no declared clock"


# ---- what is not predicted ---------------------------------------------------------------------
def test_an_unpriced_hop_is_never_zero(tmp_path: Path) -> None:
    text = WIDE + "Topology Nic { memory: Memory::NIC_RAM, transfer Memory::HBM -> Memory::NIC_RAM : 5 }\n"
    body = "let x = Tensor<u8, [65536]>::new(); let y = transfer(x, Memory::NIC_RAM);"
    [found] = predicted(tmp_path, main(body), text)
    assert found.route == ("CPU_DRAM", "HBM", "NIC_RAM")
    assert (found.bytes, found.ps, found.seconds) == (65536, None, None)
    assert found.basis == "not predicted: the hop HBM -> NIC_RAM has no price"
    assert [hop.cost is None for hop in found.hops] == [False, True]


def test_unknown_bytes_are_not_predicted(tmp_path: Path) -> None:
    source = """
fn send(x : &Tensor<f32, [?, 4]>) -> void { let y = transfer(x, Memory::HBM); }
fn main() -> i32 { let x = Tensor<f32, [8, 4]>::new(); send(&x); 0 }
"""
    [found] = predicted(tmp_path, source)
    assert (found.bytes, found.ps, found.formula) == (None, None, "16 * x.extent(0)")
    assert found.basis == "not predicted: how many bytes it moves is not known"


def test_a_copy_within_a_space_has_no_price(tmp_path: Path) -> None:
    body = "let x = Tensor<u8, [64], Memory::HBM>::new(); let y = transfer(x, Memory::HBM);"
    [found] = predicted(tmp_path, main(body))
    assert found.ps is None and found.basis == "not predicted: a copy within HBM has no price"


# ---- which figures -----------------------------------------------------------------------------
MEASURED = 'Measured { date: "2026-11-29", part: "a part", driver: "1", tool: "vx" }\n'
TABLE = "measured [1 KiB: 2 us, 4 KiB: 3 us, 16 KiB: 4 us, 64 KiB: 8 us, 1 MiB: 50 us]"


def test_measured_figures_say_so(tmp_path: Path) -> None:
    body = "let x = Tensor<u8, [32768]>::new(); let y = transfer(x, Memory::HBM);"
    [declared] = predicted(tmp_path, main(body))
    assert declared.basis.startswith("declared ")
    [found] = predicted(tmp_path, main(body), MEASURED + WIDE)
    assert found.basis == f"measured {tmp_path / 'machine.vx'}" and found.ps == declared.ps
    [found] = predicted(tmp_path, main(body), MEASURED + WIDE.replace("63 GB/s", TABLE))
    assert found.basis == f"measured {tmp_path / 'machine.vx'}"
    assert found.ps == 4_000_000 + -(-(32768 - 16384) * 4_000_000 // (65536 - 16384))


def test_declared_and_measured_are_both_named(tmp_path: Path) -> None:
    (tmp_path / "far.vx").write_text(
        MEASURED
        + "Memory FAR { }\nTopology Far { memory: Memory::FAR, transfer Memory::HBM -> Memory::FAR : 1 GB/s }\n"
    )
    body = "let x = Tensor<u8, [1000]>::new(); let y = transfer(x, Memory::FAR);"
    [found] = predicted(tmp_path, main(body), 'import "far.vx";\n' + WIDE)
    assert found.basis == f"declared {tmp_path / 'machine.vx'}, measured {tmp_path / 'far.vx'}"
    assert found.ps == -(-1000 * 10**12 // (63 * 10**9)) + 1_000_000


def test_a_quicker_route_for_this_size_is_said(tmp_path: Path) -> None:
    text = """
Memory HBM { managed: explicit, scope: device }
Memory MID { }
Topology Device { memory: Memory::HBM, visible: [Memory::HBM], arch: nvptx64,
  transfer Memory::CPU_DRAM -> Memory::HBM : 10 GB/s
  transfer Memory::CPU_DRAM -> Memory::MID : 100 GB/s latency 1 ms
  transfer Memory::MID -> Memory::HBM : 100 GB/s
}
"""
    source = main("let x = Tensor<u8, [1000]>::new(); let y = transfer(x, Memory::HBM);")
    program, plan = planned(tmp_path, source, text)
    assert program.machine is not None
    [found] = predict(program, program.machine, plan)
    assert (found.route, found.ps, found.note) == (("CPU_DRAM", "HBM"), 100_000, "")
    over = replace(plan, transfers=(replace(plan.transfers[0], route=("CPU_DRAM", "MID", "HBM")),))
    [found] = predict(program, program.machine, over)
    assert found.ps == 1_000_020_000
    assert found.note == "CPU_DRAM -> HBM would take 100000 ps for 1000 bytes"


def test_the_figures_follow_the_plan(tmp_path: Path) -> None:
    program, plan = planned(
        tmp_path, main("let x = Tensor<u8, [1000]>::new(); let y = transfer(x, Memory::HBM);"), WIDE
    )
    assert program.machine is not None
    doctored = replace(plan, transfers=(replace(plan.transfers[0], bytes=2000, target=Bank("HBM", 7)),))
    [before], [after] = predict(program, program.machine, plan), predict(program, program.machine, doctored)
    assert (before.bytes, after.bytes) == (1000, 2000)
    assert before.ps is not None and after.ps is not None and after.ps > before.ps
    assert after.what == "`x` to HBM of instance 7"


# ---- formulas ----------------------------------------------------------------------------------
FORMULAS = [
    ("x[0..n]", "2048 * n", 268435456),
    ("x[n..n + 8]", "", 16384),
    ("x[p..p + n]", "2048 * n", 268435456),
    ("x[0..p + 1]", "2048 * (p + 1)", 268435456),
    ("x[p..n]", "2048 * (n - p)", 268435456),
    ("x[0..n, 0..p]", "2 * n * p", 268435456),
    ("x[0..2 * n + 4]", "4096 * (n + 2)", 268435456),
    ("x[0..(n / 2)]", "2048 * (n / 2)", 268435456),
    ("x[0..many(n)]", "2048 * many(n)", 268435456),
    ("x[many(n)..many(n)]", "2048 * (many(n) - many(n))", 268435456),
    ("x[0..s.len]", "2048 * s.len", 268435456),
    ("x[0..n].t()", "2048 * n", 268435456),
    ("x[3, 0..n]", "2 * n", 2048),
    ("x[0..if n > 3 { n } else { 3 }]", "2048 * ?", 268435456),
]


@pytest.mark.parametrize(("view", "formula", "most"), FORMULAS)
def test_formulas_are_in_the_names_of_the_program(tmp_path: Path, view: str, formula: str, most: int) -> None:
    source = f"""
struct Shape {{ len : i64 }}
fn many(n : i32) -> i32 {{ n }}
fn send(x : &Tensor<f16, [131072, 1024]>, n : i32, p : i32, s : &Shape) -> void {{
  let y = transfer({view}, Memory::HBM);
}}
fn main() -> i32 {{
  let x = Tensor<f16, [131072, 1024]>::uninit();
  send(&x, 3, 4, &Shape {{ len: 5 }});
  0
}}
"""
    [found] = predicted(tmp_path, source)
    assert (found.formula, found.bytes) == (formula, most)


def test_nibbles_are_rounded_up_to_bytes(tmp_path: Path) -> None:
    source = """
fn send(x : &Tensor<i4, [9]>, n : i32) -> void { let y = transfer(x[0..n], Memory::HBM);  let z = transfer(x, Memory::HBM); }
fn main() -> i32 { let x = Tensor<i4, [9]>::uninit(); send(&x, 3); 0 }
"""
    part, whole = predicted(tmp_path, source)
    assert (part.formula, part.bytes) == ("(4 * n + 7) / 8", 5)
    assert (whole.formula, whole.bytes) == ("", 5)


def test_landing_in_a_place_of_known_extent_is_exact(tmp_path: Path) -> None:
    source = """
fn send(x : &Tensor<f32, [100]>, n : i32, y : &mut Tensor<f32, [100], Memory::HBM>) -> void {
  y[0..8] = transfer(x[0..n], Memory::HBM);
  y[0..n] = transfer(x[0..8], Memory::HBM);
  y[0..n] = transfer(x[0..n], Memory::HBM);
}
fn main() -> i32 {
  let x = Tensor<f32, [100]>::new();
  let mut y = Tensor<f32, [100], Memory::HBM>::new();
  send(&x, 8, &mut y);
  0
}
"""
    found = predicted(tmp_path, source)
    assert [item.bytes for item in found] == [32, 32, 400]
    assert [item.formula for item in found] == ["", "", "4 * n"]
    assert found[0].what == "`x[0..n]` to `y[0..8]` in HBM"


# ---- how often ---------------------------------------------------------------------------------
SEND = "fn send(x : &Tensor<u8, [64]>) -> void { let y = transfer(x, Memory::HBM); }\n"


def often(path: Path, source: str) -> dict[tuple[str, ...], int]:
    """The counts of the transfer in `send`, by the counts of the loops around it."""
    [found] = [item for item in predicted(path, source) if item.function == "send"]
    return {
        tuple(("call" if item.is_call else item.count) for item in around): times
        for around, times in found.often.items()
    }


LET = "let x = Tensor<u8, [64]>::new();"
OFTEN = [
    (main(f"{LET} send(&x);"), {(): 1}),
    (main(f"{LET} send(&x); send(&x);"), {(): 2}),
    (main(f"{LET} for i in 0..32 {{ send(&x); }}"), {(): 32}),
    (main(f"{LET} for i in 0..4 {{ for j in 2..5 {{ send(&x); }} }} send(&x);"), {(): 13}),
    (main(f"{LET} for i in 4..2 {{ send(&x); }}"), {(): 0}),
    (main(f"{LET} let mut i : i32 = 0; while i < 3 {{ send(&x); i += 1; }}"), {("?",): 1}),
    (
        "fn more(x : &Tensor<u8, [64]>) -> bool { send(x); false }\n" + main(f"{LET} while more(&x) {{ }}"),
        {(): 1, ("?",): 1},
    ),
    (main(f"{LET} loop {{ for i in 0..3 {{ send(&x); }} break; }}"), {("?",): 3}),
    (
        "fn some(n : i32) -> void { LET for i in 1..n { send(&x); } }\n".replace("LET", LET)
        + main("for i in 0..2 { some(3); }"),
        {("n - 1",): 2},
    ),
    (
        "fn two(x : &Tensor<u8, [64]>) -> void { send(x); send(x); }\n" + main(f"{LET} two(&x); two(&x); send(&x);"),
        {(): 5},
    ),
    (
        "fn down(x : &Tensor<u8, [64]>, n : i32) -> void { if n > 0 { send(x); down(x, n - 1); } }\n"
        + main(f"{LET} down(&x, 3);"),
        {("call",): 1},
    ),
    (main(f"{LET} if 1 < 2 {{ send(&x); }} else {{ send(&x); }}"), {(): 2}),
]


@pytest.mark.parametrize(("source", "expected"), OFTEN)
def test_how_often(tmp_path: Path, source: str, expected: dict[tuple[str, ...], int]) -> None:
    assert often(tmp_path, SEND + source) == expected


def test_calls_that_call_one_another(tmp_path: Path) -> None:
    source = (
        SEND
        + """
fn one(x : &Tensor<u8, [64]>, n : i32) -> void { if n > 0 { two(x, n - 1); } }
fn two(x : &Tensor<u8, [64]>, n : i32) -> void { send(x); one(x, n); }
"""
        + main(f"{LET} one(&x, 3);")
    )
    assert often(tmp_path, source) == {("call",): 1}


def test_calls_that_nobody_wrote_are_counted_from(tmp_path: Path) -> None:
    source = """
struct Guard { n : i32 }
impl Guard { fn drop(self : &mut Self) -> void { helper(); helper(); } }
fn helper() -> void { let x = Tensor<u8, [64]>::new(); let y = transfer(x, Memory::HBM); }
fn main() -> i32 { helper(); for i in 0..3 { let g = Guard { n: 1 }; }  0 }
"""
    [found] = predicted(tmp_path, source)
    terms = {tuple((item.is_call, item.count) for item in around): times for around, times in found.often.items()}
    assert terms == {(): 1, ((True, "?"),): 2}


def test_sums_of_many_loops_stay_short(tmp_path: Path) -> None:
    loops = "let mut i : i32 = 0; " + "while i < 3 { send(x); i += 1; } " * 9
    source = SEND + f"fn all(x : &Tensor<u8, [64]>) -> void {{ {loops} }}\n" + main(f"{LET} all(&x);")
    assert often(tmp_path, source) == {("call",): 1}


@pytest.mark.parametrize("call", ["f{}(x); f{}(x);", "let mut i : i32 = 0; while i < 3 {{ f{}(x); i += 1; }}"])
def test_long_chains_of_calls_stay_short(tmp_path: Path, call: str) -> None:
    last = 400
    chain = "".join(
        f"fn f{at}(x : &Tensor<u8, [64]>) -> void {{ {call.format(at + 1, at + 1)} }}\n" for at in range(last)
    )
    source = SEND.replace("send", f"f{last}") + chain + main(f"{LET} f0(&x);")
    [found] = predicted(tmp_path, source)
    [(around, times)] = found.often.items()
    assert around[0].is_call and len(around) <= 8 and 1 <= times <= 2**63


# ---- counts against runs -----------------------------------------------------------------------
class Counter(Interpreter):
    """Counts the transfers, the calls, and the turns of loops of a run."""

    def __init__(self, program: tree.Program, plan: Plan, seed: int) -> None:
        super().__init__(program, plan, seed)
        self.transfers: dict[tuple[str, Span], int] = defaultdict(int)
        self.turns: dict[Span, int] = defaultdict(int)
        self.loops: dict[int, Span] = {}

    def call(self, key: str, *rest: Any) -> Any:
        self.turns[self.program.functions[key].span] += 1
        return super().call(key, *rest)

    def loop(self, act: Activation, stmt: tree.While | tree.Loop | tree.For) -> None:
        self.loops[id(stmt.body)] = stmt.span
        super().loop(act, stmt)

    def block(self, act: Activation, block: tree.Block, *rest: Any) -> Any:
        if id(block) in self.loops:
            self.turns[self.loops[id(block)]] += 1
        return super().block(act, block, *rest)

    def hop(self, act: Activation, node: tree.Transfer | tree.Land) -> None:
        self.transfers[act.function.key, node.span] += 1
        super().hop(act, node)


@pytest.mark.parametrize("group", range(3))
def test_no_run_has_more_transfers_than_predicted(group: int, tmp_path: Path) -> None:
    seen = 0
    for seed in range(1000 + 12 * group, 1012 + 12 * group):
        try:
            program, plan = planned(tmp_path, random_program(seed), machine("1 GiB", instances=2))
        except NotAccepted:
            continue
        assert program.machine is not None
        found = {(item.function, item.span): item.often for item in predict(program, program.machine, plan)}
        for turn in range(8 if plan.verdict is Verdict.ADMITTED else 0):
            run = Counter(program, plan, seed * 100 + turn)
            run.run(program.main)
            seen += len(run.transfers)
            for where, times in run.transfers.items():
                # What is innermost has happened so often in all, whatever is around it.
                terms = (
                    count * (run.turns[around[-1].span] if around else 1) for around, count in found[where].items()
                )
                assert times <= sum(terms)
    assert seen > 50
