"""The program that measures GPUs, over the fake driver, and the machine file made of what it prints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runtime.device_plugin import build_fake, fake_kernels
from typer.testing import CliRunner

from vx import resources
from vx.cli.app import app
from vx.codegen.link import compile_c, link_executable
from vx.codegen.plugin import library_name, plugin_library
from vx.codegen.target import native
from vx.codegen.triton_compile import Binary, NoTriton, version
from vx.diagnostics.report import CompileError, Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.cost import hop_cost, peer_cost
from vx.machine.load import load_machine
from vx.probe.gpu import gpu_outcome
from vx.probe.gpu_folder import (
    FILES,
    HELD_OUT,
    HOST_SIZES,
    KERNEL,
    PEER_SIZES,
    PROGRAM,
    READ_KERNEL,
    SETTINGS,
    SOURCES,
    settings_text,
)
from vx.probe.gpu_result import KINDS, read_result

MIB = 1 << 20
MOST = 2 * MIB
MEMORY = 200 * MIB


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, ["machine", "probe", *map(str, words)])


# ---- the program -------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `--gpu` makes it, with a kernel of the fake driver, small sizes, and that driver beside it."""
    folder = tmp_path_factory.mktemp("gpu")
    link_executable([compile_c(source, native()) for source in SOURCES], folder / PROGRAM, native(), lambda _: None)
    shutil.copy(plugin_library("cuda", native(), lambda _: None), folder / library_name("cuda"))
    fake_kernels(folder, [(READ_KERNEL.symbol, "sum", 2)], KERNEL)
    binary = Binary(READ_KERNEL.symbol, (folder / KERNEL).read_bytes(), 256, 0, 0, 0)
    lines = settings_text("sm_90", binary, 12000, read_bytes=MIB).splitlines()
    small = [line for line in lines if line[:4] not in ("host", "peer") or int(line.split()[1]) <= MOST]
    (folder / SETTINGS).write_text("\n".join(small) + "\n")
    build_fake(folder)
    return folder


def run(folder: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FAKE_CUDA")}
    environment |= {"LD_LIBRARY_PATH": str(folder), "FAKE_CUDA_MEMORY": str(MEMORY), **settings}
    return subprocess.run([folder / PROGRAM, *words], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def document(made: Path) -> Any:
    began = time.monotonic()
    done = run(made, "2", FAKE_CUDA_DEVICES="2")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) | {"seconds": time.monotonic() - began}


def test_devices_say_what_they_are_and_grant(document: Any) -> None:
    context, granule = 3 * MIB, 2 * MIB
    assert [row["uuid"][-2:] for row in document["devices"]] == ["00", "01"]
    for row in document["devices"]:
        assert row["total"] == MEMORY and row["isa"] == "sm_90" and row["granule"] == granule
        assert row["largest"] == (MEMORY - context) // granule * granule
    assert document["open"]["driver"] == 13000 and document["whole"] is True


def test_every_way_is_measured_in_two_repeats(document: Any) -> None:
    found: dict[tuple[str, int, int], set[int]] = {}
    for row in document["transfers"]:
        assert len(row["ns"]) == 2 and min(row["ns"]) > 0
        found.setdefault((row["kind"], row["device"], row["other"]), set()).add(row["bytes"])
    table = {size for size in HOST_SIZES if size <= MOST}
    held_out = {size for size in HELD_OUT if size <= MOST}
    assert len(table) >= 5 and len(held_out) >= 6
    hosts = {(kind, device, -1) for kind in KINDS[:-1] for device in (0, 1)}
    assert set(found) == hosts | {("peer", 0, 1), ("peer", 1, 0)}
    for (_, device, other), sizes in found.items():
        assert sizes == (held_out if device else held_out | table), (device, other)
    assert {row["bytes"] for row in document["reads"]} == {MIB}


def test_each_sample_comes_after_two_idle_milliseconds(document: Any) -> None:
    """Two rounds, and two before them that do not count, of everything, twice."""
    assert document["seconds"] > len(document["transfers"]) * (2 + 2) * 2 * 0.002


def test_a_stand_in_is_no_measurement(document: Any, tmp_path: Path) -> None:
    assert document["open"]["tier"] == "T1"
    (tmp_path / "result.json").write_text(json.dumps(document))
    result = invoke("--from", tmp_path / "result.json", "-o", tmp_path / "m.vx")
    assert result.exit_code == 1 and "E9041" in result.output and "stand-in" in result.output
    assert not (tmp_path / "m.vx").exists()


def test_what_it_prints_becomes_a_machine_file(document: Any, tmp_path: Path) -> None:
    """Were it a device: the same document, with its tier changed."""
    told = json.loads(json.dumps(document))
    told["open"]["tier"] = "T2"
    for row in told["devices"]:
        row["name"] = "Some GPU"
    (tmp_path / "result.json").write_text(json.dumps(told))
    outcome = gpu_outcome(read_result(tmp_path / "result.json"))
    assert len(outcome.results) == 12 and "instances: 2" in outcome.text


def test_memory_that_is_granted_only_in_smaller_pieces(made: Path) -> None:
    """A driver that refuses the first allocations: the largest is found below them."""
    done = run(made, "1", FAKE_CUDA_SCRAPS="9")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["devices"][0]["largest"] == (MEMORY - 3 * MIB) // (2 * MIB) * 2 * MIB - 9 * 2 * MIB


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"FAKE_CUDA_DEVICES": "0"}, "finds no GPU"),
        ({"FAKE_CUDA_VERSION": "11000"}, "supports CUDA 11.0"),
        ({"FAKE_CUDA_SM": "80"}, "is sm_80"),
        ({"FAKE_CUDA_FAIL": "cuMemcpyHtoDAsync_v2:5"}, "injected"),
        ({"FAKE_CUDA_FAIL": "cuMemAlloc_v2:1"}, "injected"),
        ({"LD_LIBRARY_PATH": "/nowhere"}, "libcuda"),
    ],
)
def test_what_cannot_be_measured_ends_with_a_reason(made: Path, settings: dict[str, str], words: str) -> None:
    done = run(made, "1", **settings)
    assert done.returncode == 1 and done.stderr.startswith("probe: ")
    assert words in done.stderr


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (KERNEL, lambda data: data + b"x", "SHA-256"),
        (KERNEL, None, KERNEL),
        (SETTINGS, None, SETTINGS),
        (SETTINGS, lambda data: data + b"dance 7\n", "not a setting"),
        (SETTINGS, lambda data: data[: len(data) // 2].rsplit(b"\n", 1)[0] + b"\nhost x\n", "not a number"),
        (SETTINGS, lambda data: b"isa sm_90\n", "not whole"),
        (library_name("cuda"), None, "belongs beside"),
        (library_name("cuda"), lambda data: b"nothing", "belongs beside"),
    ],
)
def test_a_folder_that_is_not_whole(
    made: Path, tmp_path: Path, name: str, change: Callable[[bytes], bytes] | None, words: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(made, folder)
    if change is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(change((folder / name).read_bytes()))
    done = run(folder, "1")
    assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1


def test_a_kernel_that_reads_less_is_found_out(made: Path, tmp_path: Path) -> None:
    """The sum of what it read is checked: a figure of memory that was not read would be too good."""
    folder = tmp_path / "copy"
    shutil.copytree(made, folder)
    digest = fake_kernels(folder, [(READ_KERNEL.symbol, "copy", 2)], KERNEL)
    lines = [line for line in (folder / SETTINGS).read_text().splitlines() if not line.startswith("sha256")]
    (folder / SETTINGS).write_text("\n".join([*lines, f"sha256 {digest.hex()}"]) + "\n")
    done = run(folder, "1")
    assert done.returncode == 1 and "read 0 words" in done.stderr


def test_the_folder_is_made(tmp_path: Path) -> None:
    try:
        version()
    except NoTriton:
        pytest.skip("Triton is not installed")
    folder = tmp_path / "probe"
    assert invoke("--gpu", "sm_90", "-o", folder).exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 5 * MIB and os.access(folder / PROGRAM, os.X_OK)
    assert invoke("--gpu", "sm_90", "-o", folder).exit_code == 0  # again, over its own files
    (folder / "mine").touch()
    assert invoke("--gpu", "sm_90", "-o", folder).exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--gpu", "sm_90"),
        ("--gpu", "gfx942", "-o", "x"),
        ("--gpu", "sm_90", "-o", "x", "--quick"),
        ("--gpu", "sm_90", "-o", "x", "--from", "y"),
        ("--from", "y", "--peer", "a:1"),
        ("--from", "y", "--serve", "1"),
    ],
)
def test_wrong_usage(words: tuple[str, ...]) -> None:
    assert invoke(*words).exit_code == 2


# ---- results -----------------------------------------------------------------------------------------------
LATENCY = {"in": 9000, "out": 10_000, "pinned_in": 8000, "pinned_out": 8500, "load": 12_000, "peer": 11_000}
RATE = {"in": 10.0, "out": 9.0, "pinned_in": 55.0, "pinned_out": 54.0, "load": 9.5, "peer": 390.0}
"""Bytes per nanosecond."""


def told(devices: int = 2) -> dict[str, Any]:
    """What the program would print of quiet devices."""
    rows = []
    for kind in KINDS:
        ways = [(d, -1) for d in range(devices)] if kind != "peer" else [(0, 1), (1, 0)][: 2 * (devices > 1)]
        for device, other in ways:
            table = () if device else PEER_SIZES if kind == "peer" else HOST_SIZES
            for size in (*table, *HELD_OUT):
                time = LATENCY[kind] + size / RATE[kind]
                rows.append({"kind": kind, "device": device, "other": other, "bytes": size, "ns": [time, time * 1.01]})
    one = {"name": "NVIDIA H200", "isa": "sm_90", "total": 150109880320, "largest": 149552103424, "granule": 2 * MIB,
           "memory_khz": 3201000, "bus_bits": 6016, "pcie_generation": 5, "pcie_width": 16, "nvlinks": 18,
           "nvlink_version": 6}  # fmt: skip
    return {
        "format": 1, "date": "2026-11-30T01:08:00Z", "tool": "vx 0.1.0", "rounds": 32, "whole": True,
        "driver_version": "580.159.04", "module": "", "open": {"tier": "T2", "driver": 13000},
        "devices": [one | {"uuid": f"GPU-{d}"} for d in range(devices)],
        "reads": [{"device": d, "bytes": 4 << 30, "ns": [955_000.0, 954_000.0]} for d in range(devices)],
        "transfers": rows,
    }  # fmt: skip


def judged(document: dict[str, Any], folder: Path) -> Any:
    (folder / "result.json").write_text(json.dumps(document))
    return invoke("--from", folder / "result.json", "-o", folder / "m.vx", "--force")


@pytest.mark.parametrize("devices", [1, 2])
def test_quiet_devices_are_calibrated(devices: int, tmp_path: Path) -> None:
    result = judged(told(devices), tmp_path)
    assert result.exit_code == 0, result.output
    assert result.output.count(": calibrated") == 5 * devices + 2 * (devices > 1)
    reporter = Reporter()
    machine = load_machine(tmp_path / "m.vx", "default", reporter, SourceMap())
    assert not reporter.diagnostics
    (measurement,) = machine.measurements.values()
    assert (measurement.driver, measurement.date) == ("580.159.04, CUDA 13.0", "2026-11-30T01:08:00Z")
    assert measurement.uuid == ", ".join(f"GPU-{d}" for d in range(devices))
    space = machine.spaces["HBM"]
    assert space.capacity == 149552103424 // MIB * MIB and space.measured
    assert space.bandwidth is not None and 4.49e12 < space.bandwidth.bytes < 4.51e12
    cost = hop_cost(machine, "CPU_DRAM", "HBM", 20 * MIB)
    assert cost is not None and cost.measured and abs(cost.amount / 1000 - (9000 + 20 * MIB / 10)) < 100
    topology = machine.topologies["Device"]
    peer = peer_cost(topology, 44 * MIB)
    assert (peer is None) == (devices == 1)
    if peer is not None:
        assert abs(peer.amount / 1000 - (11_000 + 44 * MIB / 390)) < 100 and topology.instances == 2
    assert CliRunner().invoke(app, ["machine", "show", str(tmp_path / "m.vx")]).exit_code == 0


def slow(document: Any, kind: str, factor: float, device: int = 0, repeats: tuple[int, ...] = (0, 1)) -> None:
    for row in document["transfers"]:
        if (row["kind"], row["device"]) == (kind, device):
            for repeat in repeats:
                row["ns"][repeat] *= factor


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: slow(d, "pinned_in", 0.5), "above what PCIe can do, 63.008 GB/s"),
        (lambda d: slow(d, "in", 0.1), "above what PCIe can do"),
        (lambda d: slow(d, "out", 0.1, device=1), "above what PCIe can do"),
        (lambda d: slow(d, "peer", 0.8), "above what all of its NVLinks can do, 450 GB/s"),
        (lambda d: slow(d, "in", 0), "no time"),
        (
            lambda d: d["reads"][0].update(ns=[890_000, 891_000]),
            "what its memory's clock and width can do, 4814.304 GB/s",
        ),
        (lambda d: d["reads"][1].update(ns=[0, 0]), "in no time"),
        (lambda d: d["reads"][1].update(ns=[1e6, 2e6]), "not calibrated"),
        (lambda d: d["devices"][0].update(largest=150109880321), "but has 150109880320"),
        (lambda d: slow(d, "out", 1.3, repeats=(1,)), "not calibrated"),
        (lambda d: slow(d, "in", 1.3, device=1), "inaccurate"),
    ],
)
def test_figures_that_do_not_stand(change: Callable[[Any], object], words: str, tmp_path: Path) -> None:
    document = told()
    change(document)
    result = judged(document, tmp_path)
    assert result.exit_code == 1 and words in result.output, result.output


def test_a_refused_figure_is_not_in_the_file(tmp_path: Path) -> None:
    document = told()
    slow(document, "in", 0.1)
    slow(document, "peer", 1.4, device=1, repeats=(1,))
    document["reads"][0]["ns"] = [1.0, 1.0]
    assert judged(document, tmp_path).exit_code == 1
    machine = load_machine(tmp_path / "m.vx", "default", Reporter(), SourceMap())
    assert machine.spaces["HBM"].bandwidth is None and hop_cost(machine, "CPU_DRAM", "HBM", MIB) is None
    assert machine.topologies["Device"].peer is None and machine.topologies["Device"].instances == 2
    assert hop_cost(machine, "HBM", "CPU_DRAM", MIB) is not None


def without(document: dict[str, Any], kind: str) -> None:
    document["transfers"] = [row for row in document["transfers"] if row["kind"] != kind]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(format=2),
        lambda d: d.pop("whole"),
        lambda d: d.pop("devices"),
        lambda d: d.update(devices=[]),
        lambda d: d["devices"][1].update(name="Another GPU"),
        lambda d: d["devices"][0].update(largest=-1),
        lambda d: d["devices"][0].update(total="much"),
        lambda d: d.update(reads=[]),
        lambda d: d["transfers"][0].update(kind="dance"),
        lambda d: d["transfers"][0].update(device=7),
        lambda d: d["transfers"][0].update(ns=[1.0]),
        lambda d: d["transfers"][0].update(ns=[float("nan"), 1.0]),
        lambda d: without(d, "in"),
        lambda d: d.update(transfers=d["transfers"][:8]),
        lambda d: d.update(transfers=None),
    ],
)  # fmt: skip
def test_a_document_that_is_not_whole(change: Callable[[Any], object], tmp_path: Path) -> None:
    document = told()
    change(document)
    result = judged(document, tmp_path)
    assert result.exit_code == 1 and "E9041" in result.output, result.output
    assert not (tmp_path / "m.vx").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '{"format": 1}', "[" * 100_000])
def test_a_file_that_is_no_document(text: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(CompileError, match="E9041"):
        read_result(tmp_path / "result.json")
    assert "E9001" in invoke("--from", tmp_path / "nothing.json").output


def test_the_driver_is_named_by_whoever_knows_it(tmp_path: Path) -> None:
    document = told()
    document["driver_version"] = ""
    document["module"] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Oct  7 21:14:31 UTC 2026"
    assert (
        judged(document, tmp_path).exit_code == 0
        and 'driver: "580.159.04, CUDA 13.0"' in (tmp_path / "m.vx").read_text()
    )
    document["module"] = ""
    assert judged(document, tmp_path).exit_code == 0 and 'driver: "CUDA 13.0"' in (tmp_path / "m.vx").read_text()


@pytest.mark.parametrize(("name", "devices"), [("h200", 1), ("h200-x2", 2)])
def test_measured_files_that_ship(name: str, devices: int) -> None:
    """They keep below the declared figures, and are measured throughout."""
    reporter = Reporter()
    machine = load_machine(resources.machine_file(f"measured/{name}"), "default", reporter, SourceMap())
    declared = load_machine(resources.machine_file("h200"), "default", reporter, SourceMap())
    assert not reporter.diagnostics and len(machine.measurements) == 1
    mine, theirs = machine.spaces["HBM"], declared.spaces["HBM"]
    assert mine.capacity and theirs.capacity and 0.99 < mine.capacity / theirs.capacity < 1
    assert mine.bandwidth and theirs.bandwidth and 0.9 < mine.bandwidth.bytes / theirs.bandwidth.bytes < 1
    topology = machine.topologies["Device"]
    assert topology.isa == "sm_90" and topology.instances == devices and (topology.peer is not None) == (devices == 2)
    for source, target in (("CPU_DRAM", "HBM"), ("HBM", "CPU_DRAM")):
        slow_, fast = hop_cost(machine, source, target, MIB), hop_cost(declared, source, target, MIB)
        assert slow_ is not None and fast is not None and slow_.measured and slow_.amount > fast.amount
