"""Declarations → `Machine`: what they mean, and what is refused where."""

from __future__ import annotations

from pathlib import Path

import pytest

from vx.diagnostics.report import CompileError, Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.load import load_machine, machine_from_module
from vx.machine.machine import Edge, Machine, Peer, Rate, Reserve
from vx.syntax.parser import parse_module


def load(tmp_path: Path, text: str, **files: str) -> tuple[Machine, list[tuple[str, int]]]:
    """The machine that `text` declares and the errors in it, as code and line."""
    path = tmp_path / "machine.vx"
    path.write_text(text, encoding="utf-8")
    for name, content in files.items():
        (tmp_path / f"{name}.vx").write_text(content, encoding="utf-8")
    sources, reporter = SourceMap(), Reporter()
    machine = load_machine(path, "default", reporter, sources, "x86_64")
    return machine, [(found.code, sources.line_col(found.span)[0]) for found in reporter.diagnostics]


PART = """
Memory HBM { capacity: 40 GiB, granule: 2 MiB, bandwidth: 1555 GB/s, clock: 1.41 GHz, managed: explicit,
             scope: device, reserve: 8% }
Memory SMEM { within: Memory::HBM, capacity: 164 KiB, bandwidth: 128 B/cyc, replicas: 108, scope: sm,
              crossing: streamed, overcommit }
Topology Device {
    memory: Memory::HBM, visible: [Memory::HBM, Memory::SMEM], arch: nvptx64, isa: sm_80, dtypes: [f32, bf16],
    instances: 2, peer: 300 GB/s latency 10 us,
    transfer Memory::CPU_DRAM -> Memory::HBM : 31.5 GB/s latency 8 us copy_engine
    transfer Memory::HBM -> Memory::CPU_DRAM : 7
}
"""


def test_every_field_is_read(tmp_path: Path) -> None:
    machine, errors = load(tmp_path, PART)
    assert errors == []
    hbm, smem, device = machine.space("HBM"), machine.space("SMEM"), machine.topology("Device")
    assert hbm is not None and smem is not None and device is not None
    assert (hbm.capacity, hbm.granule, hbm.clock_hz) == (40 * 2**30, 2**21, 1_410_000_000)
    assert (hbm.bandwidth, hbm.managed, hbm.reserve) == (Rate(1_555 * 10**9, "s"), "explicit", Reserve(None, 80_000))
    assert (smem.within, smem.replicas, smem.scope, smem.overcommit) == ("HBM", 108, "sm", True)
    assert (smem.bandwidth, smem.crossing, smem.managed) == (Rate(128, "cyc"), "streamed", "cached")
    assert (device.visible, device.isa, device.dtypes) == (("HBM", "SMEM"), "sm_80", ("f32", "bf16"))
    assert (device.instances, device.peer) == (2, Peer(Rate(300 * 10**9, "s"), 10_000_000))
    up, down = machine.edges[-2:]
    assert isinstance(up, Edge) and (up.rate, up.latency_ps, up.markers) == (
        Rate(31_500_000_000, "s"),
        8_000_000,
        ("copy_engine",),
    )
    assert (down.weight, down.rate) == (7, None)
    assert machine.in_force and machine.host_declared


def test_gpu_means_the_declared_part(tmp_path: Path) -> None:
    machine, _ = load(tmp_path, PART)
    assert machine.topology("GPU") == machine.topology("Device")
    assert machine.space("GPU_HBM") == machine.space("HBM")
    assert machine.route("CPU_DRAM", "GPU_HBM") == ("CPU_DRAM", "HBM")


def test_generic_machine() -> None:
    reporter = Reporter()
    machine = load_machine(None, None, reporter, SourceMap(), "aarch64")
    device = machine.topology("Device")
    assert not reporter.has_errors
    assert device is not None and (device.memory, device.arch, device.instances) == ("HBM", "aarch64", 1)
    assert machine.space_owner("HBM") == device
    assert machine.route("CPU_DRAM", "HBM") == ("CPU_DRAM", "HBM")
    assert not machine.in_force


def extend(base: Machine, text: str) -> tuple[Machine, list[str]]:
    reporter = Reporter()
    machine = machine_from_module(parse_module(text, "p.vx", reporter), base, "program", reporter)
    return machine, [found.code for found in reporter.diagnostics]


def test_a_program_replaces_the_generic_machine() -> None:
    base = load_machine(None, None, Reporter(), SourceMap(), "x86_64")
    machine, errors = extend(base, "Memory HBM { capacity: 1 GiB }\nTopology Chip { memory: Memory::HBM }")
    assert errors == []
    owner = machine.space_owner("HBM")
    assert owner is not None and owner.name == "Chip"
    assert machine.route("CPU_DRAM", "HBM") is None


def test_a_program_may_not_contradict_a_machine_file(tmp_path: Path) -> None:
    base, _ = load(tmp_path, "Memory HBM { capacity: 1 GiB }\nTopology Chip { memory: Memory::HBM }")
    assert extend(base, "Memory HBM { capacity: 1024 MiB }")[1] == []
    assert extend(base, "Memory HBM { capacity: 2 GiB }")[1] == ["E6012"]


def test_two_owners_are_none(tmp_path: Path) -> None:
    machine, errors = load(tmp_path, "Memory M {}\nTopology A { memory: Memory::M }\nTopology B { memory: Memory::M }")
    assert errors == [] and machine.space_owner("M") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Memory A { capacity: 1 GiB }\nTopology T {\n memory: Memory::A, visible: [] }", [("E6005", 3)]),
        ("Memory A { within: Memory::B }\nMemory B { within: Memory::A }", [("E6006", 1), ("E6006", 2)]),
        ("Memory A { capacity: 1 KiB }\nMemory B { within: Memory::A, capacity: 1025 B }", [("E6007", 2)]),
        ("Memory A {\n capacity: 0 B }", [("E6008", 2)]),
        ("Memory A { scope: sm }\nMemory B { within: Memory::A, scope: device }", [("E6011", 2)]),
        ("Memory A { capacity: 1 B }\nMemory A { capacity: 2 B }", [("E6012", 2)]),
        ("Memory CPU_DRAM { capacity: 1 B }", [("E6016", 1)]),
        ("Memory M {}\nTopology GPU { memory: Memory::M }", [("E6016", 2)]),
        ("Topology T { memory: Memory::Nowhere }", [("E6025", 1)]),
        ("Memory A {}\nTopology T { memory: Memory::A\n transfer Memory::A -> Memory::B }", [("E6025", 3)]),
        ("Memory A {\n capacity: 1.1 KiB }", [("E6040", 2)]),
        ("Memory A {\n capacity: 1 gib }", [("E6041", 2)]),
        ("Memory A {\n bandwidth: 1 GB }", [("E6041", 2)]),
        ("Memory A {\n capacity: 9000 PiB }", [("E6042", 2)]),
        ("Memory A {\n managed: cached,\n managed: cached }", [("E6043", 3)]),
        ("Topology T { arch: x86_64 }", [("E6044", 1)]),
        ("fn main() -> i32 { return 0; }", [("E6045", 1)]),
        ("Memory A {\n scope: grid }", [("E6047", 2)]),
        ("Memory A {}\nTopology T { memory: Memory::A,\n dtypes: [f33] }", [("E6047", 3)]),
    ],
)
def test_refused(tmp_path: Path, text: str, expected: list[tuple[str, int]]) -> None:
    assert load(tmp_path, text)[1] == expected


def test_imports_are_read_once_and_may_repeat(tmp_path: Path) -> None:
    common = "Memory Store { capacity: 1 GiB }"
    machine, errors = load(
        tmp_path,
        'import "left.vx";\nimport "right.vx";\nTopology T { memory: Memory::Store }',
        left=f'import "common.vx";\n{common}',
        right='import "common.vx";',
        common=common,
    )
    assert errors == []
    assert [Path(name).name for name in machine.files] == ["common.vx", "left.vx", "right.vx", "machine.vx"]


def test_import_circle(tmp_path: Path) -> None:
    assert load(tmp_path, 'import "other.vx";', other='import "machine.vx";')[1] == [("E6046", 1)]


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="E9001"):
        load_machine(tmp_path / "none.vx", None, Reporter(), SourceMap())
