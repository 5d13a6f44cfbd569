"""Hugging Face checkpoints: `config.json`, safetensors in one file or several, `tokenizer.json`.

Enters: such a directory, of a Llama. Leaves: a model directory. Rows of the query and key matrices are put
in the order in which neighbours rotate together: there, element i of a head rotates with element
i + head_dim / 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from vx.model.architecture import Architecture, architecture_from_config, read_json
from vx.model.container import Entry, read_header
from vx.model.directory import Progress, Source, write_model
from vx.model.errors import ModelError, printable, reading
from vx.model.info import CONFIG_FILE, WEIGHTS_FILE, ModelInfo, load_model
from vx.model.llama2c import require_elem, require_tokens
from vx.model.rounding import Floats, from_elem, numpy_type
from vx.model.tokenizer import BYTE, CONTROL, TEXT, Token, Vocabulary, pack, read_vocabulary

INDEX_FILE, TOKENIZER_FILE = "model.safetensors.index.json", "tokenizer.json"
TOKENIZER_LIMIT = 64 << 20
"""Bytes of the largest `tokenizer.json` read."""

LAYER_NAMES = {
    "att_norm": "input_layernorm",
    "wq": "self_attn.q_proj",
    "wk": "self_attn.k_proj",
    "wv": "self_attn.v_proj",
    "wo": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "w1": "mlp.gate_proj",
    "w3": "mlp.up_proj",
    "w2": "mlp.down_proj",
}
WHOLE_NAMES = {"emb": "model.embed_tokens.weight", "out_norm": "model.norm.weight", "head": "lm_head.weight"}


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor and the file it is in."""

    path: Path
    entry: Entry


def import_hugging_face(
    directory: str | Path,
    out: str | Path,
    dtype: str | None = None,
    tokenizer: str | Path | None = None,
    progress: Progress | None = None,
) -> ModelInfo:
    """Make a model directory of a Hugging Face Llama; `dtype` None keeps the checkpoint's.

    The tokenizer is `tokenizer` (a llama2.c file) or the directory's `tokenizer.json`, which must be of
    sentencepiece's kind. E9101 to E9105 as for model directories, E9107 another tokenizer, E9110 not a plain
    Llama or another kind of tokenizer, E9108 cannot write, E9115 weights too large for `dtype`.
    """
    root = Path(directory)
    shape = architecture_from_config(read_json(root / CONFIG_FILE, "model configuration"), f"`{root / CONFIG_FILE}`")
    shape = replace(shape, elem=require_elem(dtype or shape.elem))
    path = root / TOKENIZER_FILE if tokenizer is None else Path(tokenizer)
    vocabulary = _read_tokenizer_json(path, shape) if tokenizer is None else read_vocabulary(path)
    require_tokens(vocabulary, shape, path)
    sources = _sources(_stored_tensors(root), shape, root)
    origin = {"imported": {"format": "hugging face", "checkpoint": root.name, "tokenizer": path.name}}
    write_model(Path(out), shape, sources, pack(vocabulary), origin, progress)
    return load_model(out)


# ---- weights -----------------------------------------------------------------------------------
def _stored_tensors(root: Path) -> dict[str, Stored]:
    """Every tensor of the checkpoint by its name there."""
    files = [WEIGHTS_FILE]
    if (root / INDEX_FILE).exists():
        listed = read_json(root / INDEX_FILE, "index of weights").get("weight_map")
        if not isinstance(listed, dict) or not all(_plain_name(name) for name in listed.values()):
            raise ModelError("E9102", f"`{printable(root / INDEX_FILE)}`: `weight_map` must map tensors to file names")
        files = sorted(set(listed.values()))
    return {name: Stored(root / file, entry) for file in files for name, entry in read_header(root / file).items()}


def _plain_name(name: object) -> bool:
    return isinstance(name, str) and name == Path(name).name and name not in ("", ".", "..")


def _sources(stored: Mapping[str, Stored], shape: Architecture, root: Path) -> dict[str, Source]:
    sources = {}
    for name, theirs in WHOLE_NAMES.items():
        if name == "head" and shape.tied:
            continue
        sources[name] = _source([_find(stored, theirs, _whole_dims(shape)[name], root)], 0)
    for name, theirs in LAYER_NAMES.items():
        dims, heads = _layer_dims(shape)[name], {"wq": shape.heads, "wk": shape.kv_heads}.get(name, 0)
        layers = range(shape.layers)
        tensors = [_find(stored, f"model.layers.{layer}.{theirs}.weight", dims, root) for layer in layers]
        sources[name] = _source(tensors, heads)
    return sources


def _whole_dims(shape: Architecture) -> dict[str, tuple[int, ...]]:
    return {"emb": (shape.vocab, shape.dim), "out_norm": (shape.dim,), "head": (shape.vocab, shape.dim)}


def _layer_dims(shape: Architecture) -> dict[str, tuple[int, ...]]:
    dim, hidden, kv_dim = shape.dim, shape.hidden, shape.kv_dim
    square, key = (dim, dim), (kv_dim, dim)
    return {"att_norm": (dim,), "wq": square, "wk": key, "wv": key, "wo": square, "ffn_norm": (dim,)} | {
        "w1": (hidden, dim),
        "w3": (hidden, dim),
        "w2": (dim, hidden),
    }


def _find(stored: Mapping[str, Stored], name: str, dims: tuple[int, ...], root: Path) -> Stored:
    if name not in stored:
        raise ModelError("E9105", f"the checkpoint `{printable(root)}` has no tensor `{name}`")
    found = stored[name]
    if found.entry.dims != dims or found.entry.elem not in ("f32", "f16", "bf16"):
        have = f"{found.entry.elem} {list(found.entry.dims)}"
        raise ModelError(
            "E9105", f"`{printable(found.path)}`: `{name}` is {have}, but {CONFIG_FILE} needs {list(dims)}"
        )
    return found


def _source(tensors: list[Stored], heads: int) -> Source:
    """The tensors one after the other; with `heads`, each with its rows reordered."""

    def read() -> Iterator[Floats]:
        for tensor in tensors:
            kind = numpy_type(tensor.entry.elem)
            with reading(tensor.path, "weights file"), tensor.path.open("rb") as file:
                file.seek(tensor.entry.offset)
                data = np.fromfile(file, dtype=kind, count=prod(tensor.entry.dims))
            values = from_elem(data, tensor.entry.elem)
            yield values if heads == 0 else _interleaved(values.reshape(tensor.entry.dims), heads).ravel()

    return read


def _interleaved(rows: Floats, heads: int) -> Floats:
    """Rows `[heads · head_dim, dim]` with elements i and i + head_dim / 2 of each head made neighbours."""
    count, dim = rows.shape
    return rows.reshape(heads, 2, count // heads // 2, dim).transpose(0, 2, 1, 3).reshape(count, dim)


# ---- tokenizer.json ----------------------------------------------------------------------------
def _read_tokenizer_json(path: Path, shape: Architecture) -> Vocabulary:
    """A byte-pair tokenizer with byte fallback whose blanks are `▁`: what sentencepiece makes."""
    content = read_json(path, "tokenizer", limit=TOKENIZER_LIMIT)
    model = content.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE" or model.get("byte_fallback") is not True:
        raise ModelError(
            "E9110",
            f"`{printable(path)}` is not a byte-pair tokenizer with byte fallback; others (Llama 3's among them) "
            "split text in ways that are not supported yet",
            ["give a llama2.c tokenizer file with `--tokenizer`"],
        )
    ids, merges, added = model.get("vocab"), model.get("merges"), content.get("added_tokens", [])
    if not isinstance(ids, dict) or not isinstance(merges, list) or not isinstance(added, list):
        raise ModelError("E9107", f"the tokenizer `{printable(path)}` lacks its vocabulary or its merges")
    texts = _texts_by_id(ids, shape.vocab, path)
    pairs = _pairs(merges, path)
    if not _follow_from_scores(pairs, ids):
        raise ModelError("E9110", f"`{printable(path)}`: its merges do not follow from one score per token")
    ranks = {left + right: rank for rank, (left, right) in reversed(list(enumerate(pairs)))}
    controls = {item.get("id") for item in added if isinstance(item, dict)} | {shape.bos, shape.eos}
    tokens = tuple(_token(id_, text, ranks, controls) for id_, text in enumerate(texts))
    unk = ids.get(model.get("unk_token"), 0)
    return Vocabulary(tokens, unk, shape.bos, shape.eos, space_first=_space_first(content))


def _texts_by_id(ids: Mapping[str, Any], count: int, path: Path) -> list[str]:
    texts = [""] * count
    for text, id_ in ids.items():
        if type(id_) is not int or not 0 <= id_ < count:
            raise ModelError(
                "E9107", f"the tokenizer `{printable(path)}`: id {id_!s:.20} is outside the model's {count}"
            )
        texts[id_] = text
    return texts


def _pairs(merges: list[Any], path: Path) -> list[tuple[str, str]]:
    pairs = []
    for rank, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise ModelError("E9107", f"the tokenizer `{printable(path)}`: merge {rank} is not a pair")
        pairs.append((parts[0], parts[1]))
    return pairs


def _follow_from_scores(pairs: list[tuple[str, str]], ids: Mapping[str, Any]) -> bool:
    """Whether merging any two neighbours whose joined text is a token, best token first, is the same as these merges.

    It is if every way to split a merged text into two tokens is listed, and the ways of one text together.
    """
    listed, done, before = set(pairs), set[str](), ""
    for left, right in pairs:
        text = left + right
        if text != before and text in done:
            return False
        done.add(text)
        before = text
    splits = ((text[:at], text[at:]) for text in done for at in range(1, len(text)))
    return all(pair in listed for pair in splits if pair[0] in ids and pair[1] in ids)


def _token(id_: int, text: str, ranks: Mapping[str, int], controls: set[Any]) -> Token:
    if id_ in controls or not text:
        return Token(text.encode(), 0.0, CONTROL)
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        return Token(bytes([int(text[3:5], 16)]), 0.0, BYTE)
    return Token(text.replace("▁", " ").encode(), -float(ranks.get(text, len(ranks))), TEXT)


def _space_first(content: Mapping[str, Any]) -> bool:
    """Whether the normaliser or the splitter puts a `▁` in front."""
    normalizer, splitter = content.get("normalizer"), content.get("pre_tokenizer")
    steps = normalizer.get("normalizers", [normalizer]) if isinstance(normalizer, dict) else []
    prepends = any(isinstance(step, dict) and step.get("type") == "Prepend" for step in steps)
    return prepends or (isinstance(splitter, dict) and splitter.get("prepend_scheme") in ("first", "always"))
