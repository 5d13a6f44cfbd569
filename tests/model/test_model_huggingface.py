"""Hugging Face checkpoints: another order of rows, the same numbers out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_reference import Reference
from made_checkpoint import Made
from safetensors.numpy import save_file

from vx.model.architecture import config_of
from vx.model.errors import ModelError
from vx.model.huggingface import LAYER_NAMES, import_hugging_face
from vx.model.info import load_model
from vx.model.tokenizer import Token, Vocabulary, byte_vocabulary, decode, encode, unpack, write_vocabulary
from vx.model.weights import array, read_tokenizer


class HalvesReference(Reference):
    """The same model where element i of a head rotates with element i + head_dim / 2."""

    def _turned(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        half = x.shape[1] // 2
        turned = (x[:, :half] + 1j * x[:, half:]) * self.turns[self.at]
        return np.concatenate((turned.real, turned.imag), -1)


def theirs(made: Made, folder: Path, shards: int = 1) -> dict[str, Any]:
    """Write `made`'s numbers as a Hugging Face directory would hold them: rows taken as they are."""
    info = made.load()
    shape = info.architecture
    tensors = {"model.embed_tokens.weight": array(info, "emb"), "model.norm.weight": array(info, "out_norm")}
    for ours, name in LAYER_NAMES.items():
        for layer in range(shape.layers):
            tensors[f"model.layers.{layer}.{name}.weight"] = np.ascontiguousarray(array(info, ours)[layer])
    if not shape.tied:
        tensors["lm_head.weight"] = array(info, "head")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config_of(shape)))
    names = sorted(tensors)
    files = {
        name: f"model-{at % shards}.safetensors" if shards > 1 else "model.safetensors" for at, name in enumerate(names)
    }
    for file in set(files.values()):
        save_file({name: tensors[name] for name in names if files[name] == file}, folder / file)
    if shards > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return tensors


@pytest.mark.parametrize(("tied", "shards"), [(True, 1), (False, 3)])
def test_logits_are_those_of_the_original_order(tmp_path: Path, tied: bool, shards: int) -> None:
    made = Made(tmp_path, tied)
    theirs(made, tmp_path / "hf", shards)
    imported = Reference(import_hugging_face(tmp_path / "hf", tmp_path / "ours", tokenizer=made.tokenizer))
    original = HalvesReference(load_model(made.out))
    for token in (1, 77, 200, 33, 5):
        assert np.allclose(imported.step(token), original.step(token), rtol=1e-9, atol=1e-9)


def test_element_types(made: Made, tmp_path: Path) -> None:
    theirs(made, tmp_path / "hf")
    one = import_hugging_face(tmp_path / "hf", tmp_path / "a", "bf16", made.tokenizer)
    two = import_hugging_face(tmp_path / "hf", tmp_path / "b", None, made.tokenizer)
    assert (one.elem, two.elem) == ("bf16", "f32") and one.digest == two.digest


def refused(made: Made, folder: Path, code: str, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        import_hugging_face(folder, folder.parent / "ours", tokenizer=made.tokenizer)
    assert caught.value.code == code and words in caught.value.message
    assert not (folder.parent / "ours").exists()


def test_missing_and_wrong_tensors(made: Made, tmp_path: Path) -> None:
    tensors = theirs(made, tmp_path / "hf")
    name = "model.layers.1.mlp.up_proj.weight"
    save_file({n: t for n, t in tensors.items() if n != name}, tmp_path / "hf" / "model.safetensors")
    refused(made, tmp_path / "hf", "E9105", name)
    save_file(tensors | {name: tensors[name][:3].copy()}, tmp_path / "hf" / "model.safetensors")
    refused(made, tmp_path / "hf", "E9105", name)
    save_file(tensors | {name: tensors[name].astype(np.int32)}, tmp_path / "hf" / "model.safetensors")
    refused(made, tmp_path / "hf", "E9105", "i32")
    (tmp_path / "hf" / "model.safetensors").unlink()
    refused(made, tmp_path / "hf", "E9101", "weights file")


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "", "..", 7])
def test_an_index_names_only_files_beside_it(made: Made, tmp_path: Path, name: object) -> None:
    theirs(made, tmp_path / "hf", 2)
    (tmp_path / "hf" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": name}}))
    refused(made, tmp_path / "hf", "E9102", "weight_map")


# ---- tokenizer.json ----------------------------------------------------------------------------
def tokenizer_json(folder: Path, vocab: int) -> Any:
    """Write a tokenizer of sentencepiece's kind with exactly `vocab` tokens; returns the library's object."""
    tokenizers = pytest.importorskip("tokenizers", reason="SKIPPED LOUDLY: the library `tokenizers` is not installed")
    ids = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    merged = ["ab", "▁a", "bc", "abab", "▁ab", "abc", "▁abc"]
    for text in ["▁", "a", "b", "c", "é", *merged]:
        ids[text] = len(ids)
    splits = [(text[:at], text[at:]) for text in merged for at in range(1, len(text))]
    merges = [(left, right) for left, right in splits if left in ids and right in ids]
    for extra in range(vocab - len(ids)):
        ids[f"<extra{extra}>"] = len(ids)
    model = tokenizers.models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    made = tokenizers.Tokenizer(model)
    normalizers = tokenizers.normalizers
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    made.save(str(folder / "tokenizer.json"))
    return made


def test_the_tokenizer_encodes_as_the_library_does(made: Made, tmp_path: Path) -> None:
    made.header[5] = 300
    made.parts[0] = np.zeros(300 * 24, "<f4")
    made.write()
    fill = tuple(Token(f"<{at}>".encode(), 0.0) for at in range(41))
    write_vocabulary(made.tokenizer, Vocabulary((*byte_vocabulary().tokens, *fill)))
    theirs(made, tmp_path / "hf")
    library = tokenizer_json(tmp_path / "hf", 300)
    vocabulary = unpack(read_tokenizer(import_hugging_face(tmp_path / "hf", tmp_path / "ours")))
    for text in ("", "abc", "abab abc", "abcabcab  ab é", "xyz 中", "bcbcab", " a"):
        assert encode(vocabulary, text.encode())[1:] == (library.encode(text).ids if text else [])
        assert decode(vocabulary, encode(vocabulary, text.encode())).decode() == text


def model(merges: list[str], **more: int) -> dict[str, Any]:
    ids = {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "aba": 4, **more}
    return {"type": "BPE", "byte_fallback": True, "vocab": ids, "merges": merges}


def test_other_tokenizers_are_not_supported_yet(made: Made, tmp_path: Path) -> None:
    theirs(made, tmp_path / "hf")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"model": {"type": "BPE", "byte_fallback": False, "vocab": {}, "merges": []}}, "E9110"),
        ({"model": {"type": "Unigram"}}, "E9110"),
        ({}, "E9110"),
        ({"model": {"type": "BPE", "byte_fallback": True}}, "E9107"),
        ({"model": {"type": "BPE", "byte_fallback": True, "vocab": {"a": 259}, "merges": []}}, "E9107"),
        ({"model": {"type": "BPE", "byte_fallback": True, "vocab": {"a": "b"}, "merges": []}}, "E9107"),
        ({"model": {"type": "BPE", "byte_fallback": True, "vocab": {"a": 1}, "merges": ["a b c"]}}, "E9107"),
        ({"model": {"type": "BPE", "byte_fallback": True, "vocab": {"a": 1}, "merges": [["a", 1]]}}, "E9107"),
        ({"model": model(["a b", "ab a", "a b"])}, "E9110"),
        ({"model": model(["a b", "ab a"], ba=5)}, "E9110"),
    ]
    for content, code in wrong:
        (tmp_path / "hf" / "tokenizer.json").write_text(json.dumps(content))
        with pytest.raises(ModelError, match=code):
            import_hugging_face(tmp_path / "hf", tmp_path / "ours")
