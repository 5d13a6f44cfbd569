"""Importing llama2.c checkpoints: every number arrives, and nothing wrong is accepted."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_reference import greedy
from made_checkpoint import Made
from safetensors.numpy import load_file

from vx.model.errors import ModelError
from vx.model.info import ModelInfo, load_model
from vx.model.llama2c import ORDER, import_llama2c
from vx.model.rounding import from_elem, to_elem
from vx.model.weights import array


def test_the_reference_tells_the_golden_stories(stories: ModelInfo, golden: Any) -> None:
    for case in golden["cases"]:
        positions = 64 if case["prompt"] else 256
        assert greedy(stories, case["prompt_ids"], positions) == case["ids"][:positions]


def test_every_tensor_is_where_the_header_says(made_untied: Made) -> None:
    info = made_untied.load()
    assert info.file is not None
    parts = dict(zip([*ORDER, "tables", "head"], made_untied.parts, strict=True))
    data = info.file.read_bytes()
    for name, tensor in info.tensors.items():
        assert tensor.offset % 64 == 0
        if name != "tokenizer":
            stored = np.frombuffer(data, "<f4", tensor.bytes // 4, tensor.offset)
            assert np.array_equal(stored, parts[name]), name
            assert np.array_equal(array(info, name).ravel(), parts[name])
    assert info.constants["TIED"] is False and info.constants["HEAD_ROWS"] == 259


def test_the_usual_library_reads_the_file(made: Made) -> None:
    info = made.load("f16")
    assert info.file is not None
    tensors = load_file(info.file)
    assert tensors["wq"].dtype == np.float16 and tensors["wq"].shape == (2, 24, 24)
    assert tensors["att_norm"].dtype == np.float32
    assert np.array_equal(tensors["wq"].ravel(), made.parts[2].astype(np.float16))
    assert info.constants["HEAD_ROWS"] == 1 and not tensors["head"].any()


def test_digest_is_of_the_checkpoint_not_of_its_conversion(made: Made) -> None:
    digests = {made.load(dtype).digest for dtype in ("f32", "f16", "bf16")}
    assert len(digests) == 1
    made.parts[4][0] += 1.0
    made.write()
    assert made.load().digest not in digests


def test_constants(made: Made) -> None:
    constants = made.load().constants
    expected = {
        "DIM": 24,
        "HIDDEN": 40,
        "LAYERS": 2,
        "HEADS": 6,
        "KV_HEADS": 2,
        "HEAD_DIM": 4,
        "KV_DIM": 8,
        "VOCAB": 259,
    }
    expected |= {"SEQ": 16, "EPS": 1e-5, "SCALE": 0.5, "BOS": 1, "EOS": 2, "TIED": True, "ROPE_THETA": 10000.0}
    assert {name: constants[name] for name in expected} == expected


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-60000, max_value=60000))
def test_rounding_is_to_the_nearest_and_to_even(value: float) -> None:
    one = np.array([value], np.float32)
    for elem in ("f16", "bf16"):
        stored = to_elem(one, elem, "x").view(np.uint16)
        distance = abs(float(from_elem(stored.view(np.float16) if elem == "f16" else stored, elem)[0]) - value)
        for neighbour in (stored - np.uint16(1), stored + np.uint16(1)):
            other = from_elem(neighbour.view(np.float16) if elem == "f16" else neighbour, elem)[0]
            if np.isfinite(other):
                gap = abs(float(other) - value)
                assert distance < gap or (distance == gap and stored[0] % 2 == 0)


# ---- refusals ----------------------------------------------------------------------------------
def refused(made: Made, code: str, words: str = "") -> None:
    with pytest.raises(ModelError) as caught:
        made.load()
    assert caught.value.code == code and words in caught.value.message
    assert sorted(path.name for path in made.out.parent.iterdir()) == ["made.bin", "made.tok"], (
        "something was left behind"
    )


@pytest.mark.parametrize("cut", [0, 5, 27, 28, 1000, -1])
def test_truncated_checkpoint(made: Made, cut: int) -> None:
    made.checkpoint.write_bytes(made.checkpoint.read_bytes()[:cut])
    refused(made, "E9106")


def test_checkpoint_with_bytes_left_over(made: Made) -> None:
    made.checkpoint.write_bytes(made.checkpoint.read_bytes() + b"\0" * 4)
    refused(made, "E9106", "longer")


@pytest.mark.parametrize(
    ("index", "value", "code"),
    [
        (0, 0, "E9103"),
        (0, -24, "E9103"),
        (0, 23, "E9103"),
        (0, 2**31 - 1, "E9103"),
        (1, 41, "E9106"),
        (2, 2**30, "E9103"),
        (2, 3, "E9106"),
        (3, 0, "E9103"),
        (3, 24, "E9103"),
        (4, 4, "E9103"),
        (4, 12, "E9103"),
        (5, 2, "E9103"),
        (5, -(2**31), "E9103"),
        (5, 512, "E9107"),
        (6, -1, "E9103"),
        (6, 2**24, "E9106"),
        (0, 0x616B3432, "E9110"),
    ],
)
def test_header_that_lies(made: Made, index: int, value: int, code: str) -> None:
    made.header[index] = value
    if code == "E9107":
        made.parts[0] = np.zeros(512 * 24, "<f4")
    made.write()
    refused(made, code)


def test_tokenizer_of_another_size(made: Made) -> None:
    data = made.tokenizer.read_bytes()
    made.tokenizer.write_bytes(data + struct.pack("<fi", 0.0, 3) + b"abc")
    refused(made, "E9107", "260 tokens, but the model has 259")


@pytest.mark.parametrize("damage", ["empty", "cut", "negative", "huge", "nan"])
def test_damaged_tokenizer(made: Made, damage: str) -> None:
    data = bytearray(made.tokenizer.read_bytes())
    if damage in ("empty", "cut"):
        del data[0 if damage == "empty" else -3 :]
    elif damage == "nan":
        data[4:8] = struct.pack("<f", float("nan"))
    else:
        data[8:12] = struct.pack("<i", -1 if damage == "negative" else 2**31 - 1)
    made.tokenizer.write_bytes(data)
    refused(made, "E9107")


def test_missing_files_and_directories(made: Made, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="E9101"):
        import_llama2c(tmp_path / "none.bin", made.tokenizer, made.out)
    with pytest.raises(ModelError, match="E9111"):
        import_llama2c(tmp_path, made.tokenizer, made.out)
    with pytest.raises(ModelError, match="E9112"):
        import_llama2c(made.checkpoint, made.tokenizer, made.out, "f8")


def test_weights_too_large_for_f16(made: Made) -> None:
    made.parts[2][7] = 70000.0
    made.write()
    with pytest.raises(ModelError, match=r"E9115.*`wq`.*70000"):
        made.load("f16")
    assert not made.out.exists()
    assert made.load("bf16").elem == "bf16"


def test_only_model_directories_are_replaced(made: Made) -> None:
    made.load()
    assert made.load("f16").elem == "f16"
    (made.out / "thesis.tex").write_text("years of work")
    with pytest.raises(ModelError, match=r"E9108.*thesis\.tex"):
        made.load()
    assert (made.out / "thesis.tex").exists()
    with pytest.raises(ModelError, match=r"E9108.*a file"):
        import_llama2c(made.checkpoint, made.tokenizer, made.checkpoint)


def test_a_full_disk_leaves_nothing(made: Made) -> None:
    code = (
        "import resource, sys; from vx.model.llama2c import ORDER, import_llama2c; from vx.model.errors import ModelError\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "try: import_llama2c(*sys.argv[1:])\n"
        "except ModelError as error: print(error.code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(made.checkpoint), str(made.tokenizer), str(made.out)],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "E9108\n", done.stderr
    assert sorted(os.listdir(made.out.parent)) == ["made.bin", "made.tok"]


@given(st.data())
def test_any_damage_is_a_coded_error_or_harmless(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = Made(Path(folder), tied=True)
        target = made.tokenizer if data.draw(st.booleans()) else made.checkpoint
        content = bytearray(target.read_bytes())
        at = data.draw(st.integers(0, 60))
        content[at : at + 4] = data.draw(st.binary(max_size=8))
        target.write_bytes(content)
        try:
            assert json.loads((made.load().dir / "digests.json").read_text())["model"] == load_model(made.out).digest
        except ModelError as error:
            assert error.code in {"E9103", "E9106", "E9107", "E9110"}
