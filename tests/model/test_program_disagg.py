"""Prefill on one instance, decode on another: the same tokens, and a handoff that the answer depends on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from llama_reference import greedy
from made_checkpoint import Made

import vx
from vx.diagnostics.report import CompileError, Level
from vx.model.info import ModelInfo

LLAMA = Path(__file__).resolve().parents[2] / "programs" / "llama.vx"
PROMPT = [1, 50, 7, 99, 200, 13, 2, 80]
HANDOFF = re.compile(r" *c1\.[kv]\[l, 0\.\.n\] = transfer\(c\.[kv]\[l, 0\.\.n\], Topology::Device\[Q\]\);\n")

TWO = """
Memory HBM { capacity: 2 GiB, granule: 256 B, managed: explicit, scope: device }
Topology Device {
    memory: Memory::HBM, visible: [Memory::HBM], arch: host, instances: 2, peer: 10 GB/s,
    transfer Memory::CPU_DRAM -> Memory::HBM : 10 GB/s
    transfer Memory::HBM -> Memory::CPU_DRAM : 10 GB/s
}
"""


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A machine file of two equal devices that this CPU stands for."""
    path = tmp_path / "two.vx"
    path.write_text(TWO)
    return path


@pytest.fixture
def altered(tmp_path: Path) -> Path:
    """Where a changed copy of the program goes: beside copies of what it imports."""
    for source in LLAMA.parent.glob("*.vx"):
        (tmp_path / source.name).write_text(source.read_text())
    return tmp_path / "llama.vx"


@pytest.fixture(params=["memory of this CPU", "stand-in"])
def devices(request: pytest.FixtureRequest, two: Path) -> dict[str, str]:
    """Two devices to build for: once as code of this CPU, once GPUs that host memory stands in for."""
    if request.param == "stand-in":
        return {"machine": "node-2gpu-h200", "devices": "host"}
    return {"machine": str(two)}


def run(
    program: Path, devices: dict[str, str], model: ModelInfo, prompt: str, positions: int = 16, **env: str
) -> vx.RunResult:
    built = vx.compile(program, model=model.dir, host="default", **devices)
    arguments = ["--ids", "--no-stop", "--role", "disagg", "--prompt-ids", prompt, "--positions", str(positions)]
    return built.run(arguments, env=env)


def ids(result: vx.RunResult) -> list[int]:
    assert result.status == 0, result.stderr
    return [int(word) for word in result.stdout.split()]


def text_of(prompt: list[int]) -> str:
    return ",".join(map(str, prompt))


def test_the_tokens_are_those_of_one_device(made_untied: Made, devices: dict[str, str]) -> None:
    info = made_untied.load()
    assert ids(run(LLAMA, devices, info, text_of(PROMPT))) == greedy(info, PROMPT, 16)
    assert ids(run(LLAMA, devices, info, "1")) == greedy(info, [1], 16)


def test_recorded_ids_after_a_handoff(
    stories: ModelInfo, golden: dict[str, list[dict[str, object]]], devices: dict[str, str]
) -> None:
    built = vx.compile(LLAMA, model=stories.dir, host="default", **devices)
    for case in golden["cases"]:
        arguments = ["--ids", "--no-stop", "--role", "disagg", "--prompt", str(case["prompt"]), "--positions", "256"]
        assert ids(built.run(arguments)) == case["ids"], case["prompt"]


def test_one_device_refuses_the_role_and_runs_the_other(made: Made) -> None:
    built = vx.compile(LLAMA, model=made.load().dir)
    refused = built.run(["--role", "disagg"])
    assert refused.status != 0 and "Device[1]" in refused.stderr and refused.stdout == ""
    assert built.run(["--ids"]).status == 0


@pytest.mark.parametrize(
    ("replaced", "by", "code"),
    [
        ("&w1, &mut c1,", "&w1, &mut c,", "E0306"),
        (
            "decode<Q>(n,",
            "spawn on(Topology::Device[Q]) { t1.x[0] = c.k[0][0][0][0] as f32; }\n      decode<Q>(n,",
            "E6003",
        ),
    ],
    ids=["given to decode", "read by it"],
)
def test_decode_cannot_read_the_cache_where_prefill_left_it(
    made: Made, two: Path, altered: Path, replaced: str, by: str, code: str
) -> None:
    text = HANDOFF.sub("", LLAMA.read_text())
    assert text.count(replaced) == 1
    altered.write_text(text.replace(replaced, by))
    with pytest.raises(CompileError) as refused:
        vx.compile(altered, model=made.load().dir, machine=two, host="default")
    assert {found.code for found in refused.value.diagnostics if found.level is Level.ERROR} == {code}


def test_without_the_handoff_the_logits_are_no_numbers(made: Made, devices: dict[str, str], altered: Path) -> None:
    altered.write_text(HANDOFF.sub("", LLAMA.read_text()))
    result = run(altered, devices, made.load(), text_of(PROMPT[:4]))
    assert result.status == 1
    assert result.stderr == "llama: the logits for position 5 are not finite, on device 1\n"
    assert result.stdout.split()[:4] == [str(i) for i in PROMPT[:4]]


def test_a_handoff_that_lacks_a_layer_is_noticed(made: Made, devices: dict[str, str], altered: Path) -> None:
    text = LLAMA.read_text()
    found = HANDOFF.findall(text)
    assert len(found) == 2
    late = "".join(f"if l > 0 {{ {line.strip()} }}\n" for line in found)
    altered.write_text(text.replace("".join(found), late))
    assert run(altered, devices, made.load(), text_of(PROMPT[:4])).status == 1


def test_evidence_of_a_handoff_between_stand_ins(made: Made, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    devices, info = {"machine": "node-2gpu-h200", "devices": "host"}, made.load()
    assert run(LLAMA, devices, info, text_of(PROMPT), VX_TRACE=str(trace)).status == 0
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    assert next(event for event in events if event["event"] == "open")["tier"] == "T1"
    regions = [event["ordinal"] for event in events if event["event"] == "dispatch"]
    switch = regions.index(1)
    assert set(regions[:switch]) == {0} and set(regions[switch:]) == {1}, "one switch, from prefill to decode"
    rows = 2 * info.constants["LAYERS"] * len(PROMPT) * info.constants["KV_DIM"] * 4
    moved = [event["bytes"] for event in events if event["event"] == "peer"]
    assert sum(moved) == rows + 4, "the filled rows of keys and values, and one token"
    arenas = [event["bytes"] for event in events if event["event"] == "arena"]
    record = json.loads(vx.compile(LLAMA, model=info.dir, host="default", **devices).record.read_text())
    sets = [row for row in record["resident_sets"] if row["role"] == "disagg"]
    assert arenas == [row["total_bytes"] for row in sets] and len(arenas) == 2


def test_one_device_is_all_that_a_single_role_opens(made: Made, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    built = vx.compile(LLAMA, model=made.load().dir, machine="node-2gpu-h200", host="default", devices="host")
    assert built.run(["--ids", "--prompt-ids", "1,2"], env={"VX_TRACE": str(trace)}).status == 0
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [event["device"] for event in events if event["event"] == "device"] == ["Device[0]"]
    assert {event["ordinal"] for event in events if event["event"] == "dispatch"} == {0}
