"""Mistakes that others made about places and links, each with the rule that keeps us from it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from placement_cases import checked, errors, messages

import vx
from vx.admission.check import admit
from vx.admission.plan import Verdict
from vx.diagnostics.report import CompileError, Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.cost import edge_cost
from vx.machine.load import load_machine
from vx.machine.route import find_route
from vx.placement.execution import check_execution


@pytest.fixture(autouse=True)
def _in_the_checkout(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


def verdicts(path: Path, source: str, machine: str | Path) -> tuple[list[Verdict], set[str]]:
    """The verdict of each role, and the codes that admission reported."""
    program, found, _ = checked(path, source, machine)
    assert program is not None, found
    reporter = Reporter()
    assert program.machine is not None
    keys = program.roles or (program.main,)
    plans = [admit(program, program.machine, reporter, key) for key in keys]
    return [plan.verdict for plan in plans], {item.code for item in reporter.diagnostics}


# ---- one placement, however it is spelled ------------------------------------------------------
N = 15_000_000_000
"""Elements of 4 bytes: 60 GB, which an A100 of 40 GiB does not hold and one of 80 GiB does."""
SPELLINGS = {
    "memory": f"let d = Tensor<f32, [{N}], Memory::HBM>::uninit();  print(d.extent(0));",
    "topology": f"let d = Tensor<f32, [{N}], Topology::Device>::uninit();  print(d.extent(0));",
    "instance": f"let d = Tensor<f32, [{N}], Topology::Device[0]>::uninit();  print(d.extent(0));",
    "gpu": f"let d = Tensor<f32, [{N}], Topology::GPU[0]>::uninit();  print(d.extent(0));",
    "fill": f"let d = Tensor<f32, [{N}], Memory::HBM>::fill(1.0);  print(d.extent(0));",
    "transfer_to_memory": f"let x = Tensor<f32, [{N}]>::uninit();  let d = transfer(x, Memory::HBM);  print(d.extent(0));",
    "transfer_to_topology": f"let x = Tensor<f32, [{N}]>::uninit();  let d = transfer(x, Topology::Device);  print(d.extent(0));",
    "annotated": f"let x = Tensor<f32, [{N}]>::uninit();  let d : Tensor<f32, [{N}], Memory::HBM> = transfer(x, Memory::HBM);  print(d.extent(0));",
    "with_memory": f"let x = Tensor<f32, [{N}]>::uninit();  let d = x.with_memory(Memory::HBM);  print(d.extent(0));",
    "to_device": f"let x = Tensor<f32, [{N}]>::uninit();  let d = x.to_device();  print(d.extent(0));",
    "in_a_region": f"spawn on(Topology::Device) {{ let d = Tensor<f32, [{N}]>::uninit();  let s = d[0]; }}",
    "value_of_a_region": f"let x = Tensor<f32, [1], Memory::HBM>::new();  let d = spawn on(Topology::Device) {{ Tensor<f32, [{N}]>::uninit() }};  print(d.extent(0));",
    "result": f"fn make() -> Tensor<f32, [{N}], Memory::HBM> {{ Tensor<f32, [{N}], Memory::HBM>::uninit() }}\nfn main() -> i32 {{ let d = make();  print(d.extent(0));  0 }}",
    "pinned": f"fn take(_d : Pinned<Tensor<f32, [{N}]>, Topology::Device>) -> void {{ }}\nfn main() -> i32 {{ take(Tensor<f32, [{N}], Memory::HBM>::uninit());  0 }}",
    "field": f"struct S {{ d : Tensor<f32, [{N}], Memory::HBM> }}\nfn main() -> i32 {{ let s = S {{ d: Tensor<f32, [{N}], Memory::HBM>::uninit() }};  print(s.d.extent(0));  0 }}",
    "alias": f"type Big = Tensor<f32, [{N}], Memory::HBM>;\nfn main() -> i32 {{ let d : Big = Tensor<f32, [{N}], Memory::HBM>::uninit();  print(d.extent(0));  0 }}",
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_of_a_placement_is_admitted_alike(name: str, tmp_path: Path) -> None:
    assert verdicts(tmp_path, SPELLINGS[name], Path("fleet/a100-40.vx")) == ([Verdict.REJECTED], {"E6009"})
    assert verdicts(tmp_path, SPELLINGS[name], Path("fleet/a100-80.vx")) == ([Verdict.ADMITTED], set())


# ---- instances ---------------------------------------------------------------------------------
def test_the_memory_of_eight_devices_is_not_one_memory(tmp_path: Path) -> None:
    """What all of a node's devices hold together, no one of them holds."""
    node = Path("fleet/node-8gpu.vx")
    aggregate = "let d = Tensor<u8, [600000000000], Topology::Device[0]>::uninit();  print(d.extent(0));"
    assert verdicts(tmp_path, aggregate, node) == ([Verdict.REJECTED], {"E6009"})
    parts = "".join(
        f"let d{i} = Tensor<u8, [75000000000], Topology::Device[{i}]>::uninit();  print(d{i}.extent(0));\n"
        for i in range(8)
    )
    assert verdicts(tmp_path, parts, node) == ([Verdict.ADMITTED], set())


def test_another_instance_does_not_lend_its_memory(tmp_path: Path) -> None:
    two = "let a = Tensor<u8, [50000000000], Topology::Device[{0}]>::uninit();\n"
    two += "let b = Tensor<u8, [50000000000], Topology::Device[{1}]>::uninit();\n"
    two += "spawn on(Topology::Device[{0}]) {{ let s = a[0]; }}\nspawn on(Topology::Device[{1}]) {{ let t = b[0]; }}"
    node = Path("fleet/node-2gpu-h100.vx")
    assert verdicts(tmp_path, two.format(0, 0), node) == ([Verdict.REJECTED], {"E6010"})
    assert verdicts(tmp_path, two.format(0, 1), node) == ([Verdict.ADMITTED], set())


# ---- what a part lacks -------------------------------------------------------------------------
@pytest.mark.parametrize("part", ["xeon-8480", "epyc-9654", "graviton3", "graviton4"])
def test_a_cpu_has_no_scratchpad(part: str, tmp_path: Path) -> None:
    source = "let d = Tensor<f32, [4], Memory::SMEM>::new();\n"
    assert errors(tmp_path, source, Path(f"fleet/{part}.vx")) == [(2, "E6025")]
    assert errors(tmp_path, source, Path("fleet/h200.vx")) == []


# ---- the host, and what code is generated for --------------------------------------------------
def test_a_link_to_an_undescribed_host_is_not_assumed(tmp_path: Path) -> None:
    source = "let x = Tensor<f32, [4]>::new();\nlet d = transfer(x, Memory::HBM);"
    assert errors(tmp_path, source, Path("fleet/h200.vx"), host=None) == [(3, "E6014")]
    assert errors(tmp_path, source, Path("fleet/h200.vx"), host="default") == []
    assert errors(tmp_path, source, Path("fleet/h200.vx"), host="fleet/host-x86-xeon-8480.vx") == []


REGION = "let d = Tensor<f32, [4], Topology::Device[0]>::new();\nspawn on(Topology::Device[0]) { let s = d[0]; }"


@pytest.mark.parametrize(
    ("part", "arch", "codes"),
    [
        ("xeon-8480", "x86_64", []),
        ("xeon-8480", "aarch64", ["E9031"]),
        ("graviton3", "aarch64", []),
        ("graviton3", "x86_64", ["E9031"]),
        ("h200", "x86_64", []),
        ("h200", "aarch64", []),
        ("mi300x", "x86_64", ["E9031"]),
    ],
)
def test_the_machine_says_what_code_is_for(part: str, arch: str, codes: list[str], tmp_path: Path) -> None:
    """The architecture of a region follows from its topology; a build for another one is refused, not run."""
    program, found, _ = checked(tmp_path, REGION, Path(f"fleet/{part}.vx"))
    assert program is not None and program.machine is not None, found
    reporter = Reporter()
    check_execution(program, program.machine, arch, False, reporter)
    assert [item.code for item in reporter.diagnostics] == codes


# ---- prices ------------------------------------------------------------------------------------
def test_every_link_of_a_node_is_priced_in_time() -> None:
    """Not by unitless weights, which say neither how long a transfer takes nor which of two is sooner."""
    reporter = Reporter()
    machine = load_machine("fleet/node-8gpu.vx", "default", reporter, SourceMap())
    links = [edge for edge in machine.edges if edge.layer == "machine"]
    assert links and all(edge.weight is None for edge in links)
    for edge in links:
        cost = edge_cost(machine, edge, 2**30)
        assert cost is not None and cost.amount > 0, edge
    size = 16 * 2**20
    device = machine.topologies["Device"]
    assert device.peer is not None
    found = [find_route(machine, "HBM", target, size) for target in ("L2", "CPU_DRAM", "Remote_HBM")]
    times = [route.total_ps for route in found if route is not None]
    assert len(times) == 3 and None not in times
    assert all(near < far for near, far in pairwise(time for time in times if time is not None))


def test_a_weight_is_no_price(tmp_path: Path) -> None:
    machine = """
Memory HBM { managed: explicit }
Topology Device { memory: Memory::HBM, transfer Memory::CPU_DRAM -> Memory::HBM : 3 }
"""
    source = "let x = Tensor<f32, [4]>::new();\nlet d = transfer(x, Memory::HBM) within 1 s;"
    [text] = messages(tmp_path, source, machine)
    assert "the machine gives no price for CPU_DRAM -> HBM" in text


# ---- elements of less than a byte --------------------------------------------------------------
@pytest.mark.parametrize(("elem", "fits"), [("bool", 8192), ("i4", 2048), ("u4", 2048), ("f4e2m1", 2048)])
def test_packed_elements_are_counted_packed_and_never_built(elem: str, fits: int, tmp_path: Path) -> None:
    machine = """
Memory HBM { managed: explicit, capacity: 1 KiB }
Topology Device { memory: Memory::HBM, arch: nvptx64 }
"""
    source = "let d = Tensor<{}, [{}], Memory::HBM>::uninit();  print(d.extent(0));"
    assert verdicts(tmp_path, source.format(elem, fits), machine) == ([Verdict.ADMITTED], set())
    assert verdicts(tmp_path, source.format(elem, fits + 1), machine) == ([Verdict.REJECTED], {"E6009"})
    for arch in ("", ", arch: host", ", arch: nvptx64"):
        file = tmp_path / "built.vx"
        declared = machine.replace(", arch: nvptx64", arch)
        file.write_text(f"{declared}fn main() -> i32 {{ {source.format(elem, 16)}  0 }}\n", encoding="utf-8")
        assert not [item for item in vx.check(file).diagnostics if item.code.startswith("E")]
        with pytest.raises(CompileError, match="E9036"):
            vx.compile(file)


def test_the_bytes_of_packed_elements_are_what_a_cpu_moves(tmp_path: Path) -> None:
    """In host memory each has a byte, so a view of its bytes is as long as it has elements."""
    source = "let m = Tensor<bool, [100]>::new();\nlet d = transfer(m.bytes(), Memory::HBM);\nprint(d.extent(0));"
    machine = "Memory HBM { managed: explicit, capacity: SIZE B }\nTopology Device { memory: Memory::HBM, transfer Memory::CPU_DRAM -> Memory::HBM }"
    assert verdicts(tmp_path, source, machine.replace("SIZE", "100")) == ([Verdict.ADMITTED], set())
    assert verdicts(tmp_path, source, machine.replace("SIZE", "99")) == ([Verdict.REJECTED], {"E6009"})


# ---- what would be kept elsewhere than placed ----------------------------------------------------
def test_tensors_in_the_memories_on_a_gpu_are_not_built(tmp_path: Path) -> None:
    """They would lie in host memory: no host code puts a tensor into a cache or scratchpad."""
    file = tmp_path / "on_die.vx"
    file.write_text(
        "fn main() -> i32 { let d = Tensor<u8, [64], Memory::L2>::new(); print(d.extent(0)); 0 }\n", encoding="utf-8"
    )
    assert vx.check(file, machine="h200", host="default").ok
    with pytest.raises(CompileError, match="E9031: a tensor in L2 cannot be built"):
        vx.compile(file, machine="h200", host="default")


SHARED = """
Memory HBM { managed: explicit, capacity: 1000 B }
Topology Device { memory: Memory::HBM, arch: nvptx64, isa: sm_90 }
Topology Node { memory: Memory::HBM, arch: nvptx64, isa: sm_90 }
fn main() -> i32 { let d = Tensor<u8, [921], Memory::HBM>::new(); print(d.extent(0)); 0 }
"""


@pytest.mark.parametrize("devices", [None, "host"])
def test_a_memory_that_devices_share(devices: str | None, tmp_path: Path) -> None:
    """The reserve is kept in it too, and what is in it would be in host memory, so it is not built."""
    file = tmp_path / "shared.vx"
    file.write_text(SHARED, encoding="utf-8")
    assert vx.check(file).ok and vx.check(file, reserve="7.9%").ok
    assert "E6037" in str(vx.check(file, reserve="8%"))
    with pytest.raises(CompileError, match=r"E9031: .* HBM is the memory of Device and Node"):
        vx.compile(file, devices=devices)


@pytest.mark.parametrize("capacity", ["", ", capacity: 1 KiB, overcommit"])
@pytest.mark.parametrize(("arch", "devices"), [("nvptx64, isa: sm_90", None), ("nvptx64", "host"), ("host", "host")])
def test_what_a_device_needs_is_known_when_it_is_built(
    capacity: str, arch: str, devices: str | None, tmp_path: Path
) -> None:
    """Without a size there is no arena, and tiles would come from the host's heap."""
    file = tmp_path / "open.vx"
    file.write_text(
        f"""
Memory HBM {{ managed: explicit{capacity} }}
Topology Device {{ memory: Memory::HBM, arch: {arch} }}
fn again(n : i32) -> void {{
  let t = Tensor<u8, [100], Memory::HBM>::new();
  if n > 0 {{ again(n - 1); }}
  print(t.extent(0));
}}
fn main() -> i32 {{ again(3); 0 }}
""",
        encoding="utf-8",
    )
    assert vx.check(file).ok
    with pytest.raises(CompileError, match="E6048: how many bytes main needs in HBM is not known"):
        vx.compile(file, devices=devices)


def test_what_is_unverified_is_checked_but_not_built(tmp_path: Path) -> None:
    """With a bound the same program is built."""
    file = tmp_path / "unverified.vx"
    text = """
Memory HBM {{ managed: explicit, capacity: 1 KiB }}
Topology Device {{ memory: Memory::HBM, arch: host }}
fn ten(n : i32) -> i32 {{ if n > 9 {{ n }} else {{ ten(n + 1) }} }}
fn some(n : i32) -> void {requires} {{
  let t = Tensor<u8, [n], Memory::HBM>::new();
  print(t.extent(0));
}}
fn main() -> i32 {{ some(ten(10)); 0 }}
"""
    file.write_text(text.format(requires=""), encoding="utf-8")
    assert vx.check(file).ok
    with pytest.raises(CompileError, match="E6048: main is unverified on this machine, so it is not built"):
        vx.compile(file)
    file.write_text(text.format(requires="requires n <= 1024"), encoding="utf-8")
    assert vx.compile(file).executable.is_file()
