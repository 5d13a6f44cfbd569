"""Random models: numpy's generator and the runtime's give the same bits, and what comes out is sane."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from llama_reference import Reference
from made_checkpoint import Made

from vx.model.errors import ModelError
from vx.model.info import load_model, random_key, random_parameters
from vx.model.random import chunks, values
from vx.model.rounding import numpy_type, to_elem
from vx.model.shapes import KNOWN, materialise, random_model
from vx.model.tokenizer import unpack
from vx.model.weights import array, read_tokenizer

RUNTIME = Path(__file__).resolve().parents[2] / "vx" / "runtime"

HARNESS = r"""
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>

void *vx_alloc(int64_t bytes) { return malloc((size_t)bytes); }
void vx_parallel(vx_task task, void *context, int64_t count, int64_t grain) {
    for (int64_t i = 0; i < count; i += grain) task(context, i, i + grain < count ? i + grain : count);
}
int64_t vx_elem_bytes(int32_t elem) { return elem == VX_ELEM_F32 ? 4 : 2; }
_Noreturn void vx_fail(const char *format, ...) { (void)format; exit(9); }

int main(int argc, char **argv) {
    (void)argc;
    vx_model_entry entry = {.name = "x", .elem = atoi(argv[1]), .count = atoll(argv[3])};
    entry.key = strtoull(argv[4], NULL, 10);
    entry.scale = strtof(argv[5], NULL);
    entry.bias = strtof(argv[6], NULL);
    char *made = vx_random_tensor(&entry, strtoull(argv[2], NULL, 10));
    fwrite(made, 1, (size_t)(entry.count * vx_elem_bytes(entry.elem)), stdout);
    return 0;
}
"""


@pytest.fixture(scope="module")
def runtime_generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generator")
    (folder / "harness.c").write_text(HARNESS)
    sources = [folder / "harness.c", RUNTIME / "random.c", RUNTIME / "half.c"]
    command = [sys.executable, "-m", "ziglang", "cc", "-O2", "-std=c17", "-D_GNU_SOURCE", f"-I{RUNTIME}"]
    subprocess.run([*command, *map(str, sources), "-o", str(folder / "generator")], check=True)
    return folder / "generator"


@pytest.mark.parametrize("elem", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    ("seed", "name", "dims"), [(0, "wq", (3, 7, 33)), (2**63 - 1, "att_norm", (70001,)), (42, "w2", (200, 768))]
)
def test_the_runtime_makes_the_same_bits(
    runtime_generator: Path, elem: str, seed: int, name: str, dims: tuple[int, ...]
) -> None:
    from vx.runtime.abi import ELEMENTS

    key, scale, bias = random_parameters(name, dims)
    count = int(np.prod(dims))
    arguments = [ELEMENTS[elem], seed, count, key, repr(scale), repr(bias)]
    made = subprocess.run([str(runtime_generator), *map(str, arguments)], capture_output=True, check=True).stdout
    ours = to_elem(values(seed, key, scale, bias, 0, count), elem, name)
    assert np.array_equal(np.frombuffer(made, numpy_type(elem)), ours.view(numpy_type(elem)))


def test_pieces_join_up() -> None:
    whole = values(3, 5, 2.0, 0.5, 0, 3_000_001)
    assert np.array_equal(np.concatenate(list(chunks(3, 5, 2.0, 0.5, 3_000_001))), whole)
    assert np.array_equal(values(3, 5, 2.0, 0.5, 1000, 10), whole[1000:1010])
    assert whole.min() >= -1.5 and whole.max() < 2.5 and abs(whole.mean() - 0.5) < 0.01


def test_keys_are_fnv1a() -> None:
    assert random_key("") == 0xCBF29CE484222325
    assert random_key("a") == 0xAF63DC4C8601EC8C


def test_a_directory_without_weights_in_it(tmp_path: Path) -> None:
    info = random_model("llama-3.1-8b", 7, tmp_path / "big")
    assert sum(path.stat().st_size for path in info.dir.iterdir()) < 10_000
    assert info.random_seed == 7 and info.runnable and info.elem == "bf16"
    assert info.tensors["w1"].offset == -1 and info.tensors["tokenizer"].offset > 0
    assert info.constants["BOS"] == 128000 and info.constants["ROPE_SCALING"] == 1
    vocabulary = unpack(read_tokenizer(info))
    assert len(vocabulary.tokens) == 259 and vocabulary.bos == 128000


def test_seeds_and_element_types(tmp_path: Path) -> None:
    one = random_model("stories260K", 1, tmp_path / "a")
    assert one.digest == random_model("stories260K", 1, tmp_path / "b", "f16").digest
    assert one.digest != random_model("stories260K", 2, tmp_path / "c").digest
    with pytest.raises(ModelError, match="E9112"):
        random_model("stories260K", -1, tmp_path / "d")
    with pytest.raises(ModelError, match="E9112"):
        random_model("stories260K", 1, tmp_path / "d", "f64")
    with pytest.raises(ModelError, match="E9103"):
        random_model("stories260K", 1, tmp_path / "d", seq=-5)
    assert not (tmp_path / "d").exists()


def test_like_a_directory_takes_its_tokenizer(made: Made, tmp_path: Path) -> None:
    known = made.load()
    info = random_model(known.dir, 3, tmp_path / "random")
    assert read_tokenizer(info) == read_tokenizer(known)
    assert info.architecture == known.architecture


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_materialised_weights_are_the_generated_ones(made: Made, tmp_path: Path, dtype: str) -> None:
    info = random_model(made.load().dir, 3, tmp_path / "random", dtype)
    written = materialise(info.dir, tmp_path / "written")
    for name in written.tensors:
        if name not in ("tokenizer", "head"):
            assert np.array_equal(array(info, name), array(written, name)), name
    assert written.random_seed is None
    assert json.loads((written.dir / "config.json").read_text())["vx"]["materialised"] == "random(3)"
    assert load_model(written.dir).digest == written.digest
    with pytest.raises(ModelError, match=r"E9112.*not random"):
        materialise(written.dir, tmp_path / "again")


def test_activations_stay_sane(tmp_path: Path) -> None:
    model = Reference(random_model("stories260K", 1, tmp_path / "m"))
    logits = np.stack([model.step(token) for token in range(1, 30)])
    assert np.isfinite(logits).all() and 0.2 < logits.std() < 5.0


def test_known_shapes_have_the_known_sizes(tmp_path: Path) -> None:
    from vx.model.report import parameters

    sizes = {"stories15M": 15_191_712, "llama-3.2-1b": 1_235_814_400, "llama-3.1-8b": 8_030_261_248}
    for name, count in sizes.items():
        assert parameters(random_model(name, 1, tmp_path / name)) == count
    assert set(sizes) <= set(KNOWN)
