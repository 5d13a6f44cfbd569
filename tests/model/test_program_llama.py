"""`programs/llama.vx`, built and run, against the float64 reference and the recorded ids."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from llama_reference import greedy
from made_checkpoint import Made

import vx
from vx.model.info import ModelInfo

LLAMA = Path(__file__).resolve().parents[2] / "programs" / "llama.vx"


def ids_of(result: vx.RunResult) -> list[int]:
    assert result.status == 0, result.stderr
    assert result.stdout.count("\n") == 1 and result.stdout.endswith("\n")
    return [int(word) for word in result.stdout.split(" ")]


def run_ids(model: ModelInfo, *arguments: str, threads: int = 1, **build: Any) -> list[int]:
    program = vx.compile(LLAMA, model=model.dir, **build)
    return ids_of(program.run(["--ids", "--no-stop", *arguments], env={"VX_THREADS": str(threads)}, timeout=60))


@pytest.mark.parametrize("block", [1, 3, 256])
def test_any_block_size_agrees_with_the_reference(made_untied: Made, block: int) -> None:
    info = made_untied.load()
    prompt = [1, 50, 7, 99, 200, 13, 2, 80]
    got = run_ids(info, "--prompt-ids", ",".join(map(str, prompt)), consts={"BLOCK": block})
    assert got == greedy(info, prompt, 16)


def test_from_bos_alone(made: Made) -> None:
    info = made.load()
    assert run_ids(info) == greedy(info, [1], 16)
    assert run_ids(info, "--positions", "5") == greedy(info, [1], 5)
    assert run_ids(info, "--positions", "1") == [1]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_small_weights_agree_with_the_reference_of_what_was_stored(made: Made, dtype: str) -> None:
    info = made.load(dtype)
    assert run_ids(info)[:4] == greedy(info, [1], 4)


def test_recorded_ids(stories: ModelInfo, golden: Any) -> None:
    for case in golden["cases"]:
        for threads in (1, 2):
            got = run_ids(stories, "--prompt", case["prompt"], "--positions", "256", threads=threads)
            assert got == case["ids"], case["prompt"]


@pytest.mark.parametrize("build", [{"opt_level": 0}, {"consts": {"BLOCK": 1}}], ids=["unoptimised", "token by token"])
def test_recorded_ids_of_other_builds(stories: ModelInfo, golden: Any, build: dict[str, Any]) -> None:
    case = golden["cases"][2]
    assert run_ids(stories, "--prompt", case["prompt"], "--positions", "256", **build) == case["ids"]


QEMU, SYSROOT = shutil.which("qemu-aarch64"), Path("/usr/aarch64-linux-gnu")


@pytest.mark.skipif(
    QEMU is None or not SYSROOT.is_dir(),
    reason="SKIPPED LOUDLY: the aarch64 build was not run: qemu-user and libc6-arm64-cross are not both installed",
)
def test_recorded_ids_on_aarch64(stories: ModelInfo, golden: Any) -> None:
    case = golden["cases"][1]
    program = vx.compile(LLAMA, model=stories.dir, target="aarch64-linux-gnu")
    arguments = ["--ids", "--no-stop", "--positions", "256", "--prompt", case["prompt"]]
    emulator = [str(QEMU), "-L", str(SYSROOT)]
    result = program.run(arguments, env={"VX_THREADS": "2"}, runner=emulator, timeout=120)
    assert ids_of(result) == case["ids"]


def test_sampling_is_a_function_of_the_seed(made: Made) -> None:
    info = made.load()
    hot = ["--temperature", "1.5", "--top-p", "1", "--seed"]
    first, again, other = (run_ids(info, *hot, seed) for seed in ("7", "7", "8"))
    assert first == again != other
    cold = run_ids(info, "--temperature", "0.001", "--seed", "3")
    assert cold == greedy(info, [1], 16)
    assert run_ids(info, "--temperature", "9", "--top-p", "0.0001") == greedy(info, [1], 16)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--positions", "0"], "--positions takes a whole number from 1 to 16, not 0"),
        (["--positions", "17"], "--positions takes a whole number from 1 to 16, not 17"),
        (["--positions", "many"], "--positions takes a whole number from 1 to 16, not many"),
        (["--positions"], "--positions needs a value"),
        (["--prompt-ids", "1,,2"], "--prompt-ids takes numbers from 0 to 258 with commas between, not 1,,2"),
        (["--prompt-ids", "1,259"], "--prompt-ids takes numbers from 0 to 258 with commas between, not 1,259"),
        (["--prompt", "a", "--prompt-ids", "1"], "give one prompt, not two"),
        (["--prompt", "a prompt of many letters"], "the prompt has 26 tokens, and there are only 16 positions"),
        (["--temperature", "-1"], "--temperature takes a number from 0 to 100, not -1"),
        (["--temperature", "nan"], "--temperature takes a number from 0 to 100, not nan"),
        (["--top-p", "1.5"], "--top-p takes a number from 0 to 1, not 1.5"),
        (["--seed", "-1"], "--seed takes a whole number of at most 64 bits, not -1"),
        (["--role", "captain"], "--role is one of: single, disagg"),
        (["--story"], "there is no option --story; --help lists them"),
    ],
)
def test_a_wrong_command_line_is_explained(made: Made, arguments: list[str], said: str) -> None:
    result = vx.compile(LLAMA, model=made.load().dir).run(arguments, timeout=20)
    assert (result.status, result.stdout) == (2, "")
    assert result.stderr == f"llama: {said}\n"
