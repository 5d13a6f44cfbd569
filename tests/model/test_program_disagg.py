"""Prefill on one instance, decode on another: the same tokens, and a handoff that the answer depends on."""

from __future__ import annotations

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


def run(program: Path, machine: Path, model: ModelInfo, prompt: str, positions: int = 16) -> vx.RunResult:
    built = vx.compile(program, model=model.dir, machine=machine, host="default")
    return built.run(["--ids", "--no-stop", "--role", "disagg", "--prompt-ids", prompt, "--positions", str(positions)])


def ids(result: vx.RunResult) -> list[int]:
    assert result.status == 0, result.stderr
    return [int(word) for word in result.stdout.split()]


def text_of(prompt: list[int]) -> str:
    return ",".join(map(str, prompt))


def test_the_tokens_are_those_of_one_device(made_untied: Made, two: Path) -> None:
    info = made_untied.load()
    assert ids(run(LLAMA, two, info, text_of(PROMPT))) == greedy(info, PROMPT, 16)
    assert ids(run(LLAMA, two, info, "1")) == greedy(info, [1], 16)


def test_recorded_ids_after_a_handoff(
    stories: ModelInfo, golden: dict[str, list[dict[str, object]]], two: Path
) -> None:
    built = vx.compile(LLAMA, model=stories.dir, machine=two, host="default")
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


def test_without_the_handoff_the_logits_are_no_numbers(made: Made, two: Path, altered: Path) -> None:
    altered.write_text(HANDOFF.sub("", LLAMA.read_text()))
    result = run(altered, two, made.load(), text_of(PROMPT[:4]))
    assert result.status == 1
    assert result.stderr == "llama: the logits for position 5 are not finite, on device 1\n"
    assert result.stdout.split()[:4] == [str(i) for i in PROMPT[:4]]


def test_a_handoff_that_lacks_a_layer_is_noticed(made: Made, two: Path, altered: Path) -> None:
    text = LLAMA.read_text()
    found = HANDOFF.findall(text)
    assert len(found) == 2
    late = "".join(f"if l > 0 {{ {line.strip()} }}\n" for line in found)
    altered.write_text(text.replace("".join(found), late))
    assert run(altered, two, made.load(), text_of(PROMPT[:4])).status == 1
