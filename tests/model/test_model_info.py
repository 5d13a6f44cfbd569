"""Reading model directories: quick, and proof against headers that lie."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_checkpoint import Made

from vx.model.architecture import architecture_from_config, config_of
from vx.model.errors import ModelError
from vx.model.info import load_model, require_weights
from vx.model.report import describe, render
from vx.model.shapes import KNOWN, shape_like


def edit_header(made: Made, change: Callable[[dict[str, Any]], object]) -> None:
    """Rewrite the weights file with a changed header, its length kept right."""
    path = made.out / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def edit_config(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def refused(folder: Path, code: str, words: str = "") -> None:
    with pytest.raises(ModelError) as caught:
        load_model(folder)
    assert caught.value.code == code and words in caught.value.message, caught.value


def test_reading_needs_no_numpy(made: Made) -> None:
    made.load()
    code = "import sys; from vx.model.info import load_model; load_model(sys.argv[1]); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(made.out)], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("ours", [True, False])
def test_a_configuration_is_enough_to_check(made: Made, ours: bool) -> None:
    known = made.load()
    (made.out / "model.safetensors").unlink()
    (made.out / "digests.json").unlink()
    if not ours:
        config = json.loads((made.out / "config.json").read_text())
        del config["vx"]
        (made.out / "config.json").write_text(json.dumps(config))
    info = load_model(made.out)
    assert info.constants == known.constants | ({} if ours else {"TOKENIZER_BYTES": 0})
    assert info.tensors.keys() == known.tensors.keys()
    assert {n: (t.elem, t.dims) for n, t in info.tensors.items() if n != "tokenizer"} == {
        n: (t.elem, t.dims) for n, t in known.tensors.items() if n != "tokenizer"
    }
    assert info.file is None and not info.runnable and info.digest != known.digest
    with pytest.raises(ModelError, match="E9113"):
        require_weights(info)


def test_digests_identify_a_model_without_its_weights(made: Made) -> None:
    known = made.load()
    (made.out / "model.safetensors").unlink()
    assert load_model(made.out).digest == known.digest


def test_description_has_every_tensor(made: Made) -> None:
    info = made.load()
    text = render(info)
    assert all(f"\n{name} " in text for name in info.tensors) and info.digest in text
    assert json.loads(json.dumps(describe(info)))["tensors"]["wk"]["dims"] == [2, 8, 24]


def test_configuration_round_trips() -> None:
    for name in KNOWN:
        assert architecture_from_config(config_of(KNOWN[name]), "test") == KNOWN[name]


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"hidden_size": None}, "E9102", "no `hidden_size`"),
        ({"hidden_size": "24"}, "E9102", "must be an integer"),
        ({"hidden_size": True}, "E9102", "must be an integer"),
        ({"hidden_size": 10**30}, "E9103", "dim"),
        ({"num_hidden_layers": -1}, "E9103", "layers"),
        ({"rms_norm_eps": float("nan")}, "E9103", "eps"),
        ({"rms_norm_eps": 10**400}, "E9102", "must be a number"),
        ({"torch_dtype": "int8"}, "E9102", "dtype"),
        ({"torch_dtype": None}, "E9102", "dtype"),
        ({"bos_token_id": 259}, "E9103", "bos"),
        ({"model_type": "mistral"}, "E9110", "mistral"),
        ({"attention_bias": True}, "E9110", "attention_bias"),
        ({"head_dim": 8}, "E9110", "head_dim"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "E9110", "yarn"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "E9102", "low_freq_factor"),
        ({"vx": {"format": 2}}, "E9102", "format 2"),
        ({"vx": {"format": 1, "weights": "random(-1)"}}, "E9102", "random(-1)"),
        ({"vx": []}, "E9102", "object"),
        ({"vx": {}}, "E9102", "another tool"),
        ({"vx": None}, "E9102", "vx"),
        ({"vocab_size": 260}, "E9105", "`emb`"),
        ({"tie_word_embeddings": False}, "E9105", "`head`"),
        ({"torch_dtype": "float16"}, "E9105", "f16"),
    ],
)
def test_wrong_configuration(made: Made, fields: dict[str, Any], code: str, words: str) -> None:
    made.load()
    edit_config(made.out, **fields)
    refused(made.out, code, words)


@pytest.mark.parametrize(
    "text", ["", "[", "[]", "null", '{"a": 1, "a": 2}', "[" * 100000, '{"x": ' + "9" * 10000 + "}", "\xff"]
)
def test_configuration_that_is_not_a_json_object(made: Made, text: str) -> None:
    made.load()
    (made.out / "config.json").write_bytes(text.encode("latin-1"))
    refused(made.out, "E9102")


def test_not_a_directory(tmp_path: Path, made: Made) -> None:
    refused(tmp_path / "none", "E9101", "none")
    refused(made.checkpoint, "E9101", "is a file")
    refused(tmp_path, "E9101", "configuration")
    refused(Path("a\0b"), "E9101")
    refused(Path("x" * 5000), "E9101")


def test_weights_of_another_tool(made: Made) -> None:
    made.load()
    config = json.loads((made.out / "config.json").read_text())
    del config["vx"]
    (made.out / "config.json").write_text(json.dumps(config))
    refused(made.out, "E9102", "another tool")


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda h: h.pop("wq"), "E9104", "hole"),
        (lambda h: h["wq"].update(dtype="F16"), "E9104", "bytes"),
        (lambda h: h["wq"].update(dtype="F8"), "E9104", "F8"),
        (lambda h: h["wq"].update(dtype=3), "E9104", "element type"),
        (lambda h: h["wq"].update(shape=[24, 48]), "E9105", "`wq`"),
        (lambda h: h["wq"].update(shape=[2, 24, -24]), "E9104", "natural"),
        (lambda h: h["wq"].update(shape=[1] * 100), "E9104", "short list"),
        (lambda h: h["wq"].update(shape="24"), "E9104", "natural"),
        (lambda h: h["wq"].update(data_offsets=[0, 4608]), "E9104", "overlaps"),
        (lambda h: h["wq"].update(data_offsets=[8, 4]), "E9104", "ascending"),
        (lambda h: h["wq"].update(data_offsets=[0, 10**15]), "E9104", "ends at"),
        (lambda h: h["wq"].update(data_offsets=[0, 10**30]), "E9104", "natural"),
        (lambda h: h["wq"].update(data_offsets=[0]), "E9104", "two"),
        (lambda h: h.update(wq=7), "E9104", "object"),
        (lambda h: h.update(wx=h.pop("wq")), "E9105", "`wq`"),
        (lambda h: h.update(Tokenizer=h.pop("tokenizer")), "E9105", "`tokenizer`"),
        (lambda h: h.clear(), "E9104", "belong to none"),
    ],
)
def test_header_that_lies(made: Made, change: Callable[[dict[str, Any]], object], code: str, words: str) -> None:
    made.load()
    edit_header(made, change)
    refused(made.out, code, words)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\x10",
        (1 << 63).to_bytes(8, "little"),
        (1 << 24).to_bytes(8, "little"),
        b"\xff" * 8,
        b"\x02" + b"\0" * 7 + b"[]",
    ],
)
def test_header_of_impossible_length(made: Made, head: bytes) -> None:
    made.load()
    path = made.out / "model.safetensors"
    path.write_bytes(head + path.read_bytes()[len(head) :] if head else b"")
    refused(made.out, "E9104")


def test_a_header_too_long_to_read(made: Made) -> None:
    made.load()
    with (made.out / "model.safetensors").open("wb") as file:
        file.write((1 << 30).to_bytes(8, "little"))
        file.truncate(1 << 31)
    refused(made.out, "E9104", "allowed")


def test_truncated_weights(made: Made) -> None:
    info = made.load()
    assert info.file is not None
    info.file.write_bytes(info.file.read_bytes()[:-1])
    refused(made.out, "E9104", "ends at")


def test_doctored_digests(made: Made) -> None:
    made.load()
    path = made.out / "digests.json"
    digests = json.loads(path.read_text())
    digests["tensors"]["wq"] = digests["tensors"]["wk"]
    path.write_text(json.dumps(digests))
    refused(made.out, "E9114")
    path.unlink()
    refused(made.out, "E9101")


@given(st.integers(0, 1200), st.binary(min_size=1, max_size=12))
def test_any_damage_to_the_header_is_a_coded_error_or_harmless(at: int, junk: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = Made(Path(folder), tied=True)
        path = made.load().dir / "model.safetensors"
        data = bytearray(path.read_bytes())
        data[at : at + len(junk)] = junk
        path.write_bytes(data)
        try:
            load_model(made.out)
        except ModelError as error:
            assert error.code in {"E9104", "E9105"}


def test_shape_like() -> None:
    assert shape_like("llama-3.2-1b").kv_heads == 8
    with pytest.raises(ModelError) as caught:
        shape_like("lama-3.2-1b")
    assert caught.value.code == "E9112" and "did you mean `llama-3.2-1b`?" in caught.value.helps
