"""GGUF files of our models, so that llama.cpp can run the same weights.

Enters: a model directory. Leaves: a GGUF file (version 3). Rows are in the order of our tensors: llama.cpp's
`llama` architecture rotates neighbouring pairs, as we do.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vx.model.architecture import Architecture, Rope
from vx.model.info import ModelInfo
from vx.model.rounding import to_elem
from vx.model.tokenizer import BYTE, TEXT, Vocabulary, unpack
from vx.model.weights import array, read_tokenizer

ALIGNMENT = 32
U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
TYPES = {"f32": 0, "f16": 1, "bf16": 30}
FILE_TYPES = {"f32": 0, "f16": 1, "bf16": 32}
NORMAL_TOKEN, CONTROL_TOKEN, UNUSED_TOKEN, BYTE_TOKEN = 1, 3, 5, 6

LAYER_NAMES = {
    "att_norm": "attn_norm",
    "wq": "attn_q",
    "wk": "attn_k",
    "wv": "attn_v",
    "wo": "attn_output",
    "ffn_norm": "ffn_norm",
    "w1": "ffn_gate",
    "w3": "ffn_up",
    "w2": "ffn_down",
}
WHOLE_NAMES = {"emb": "token_embd", "out_norm": "output_norm", "head": "output"}


@dataclass(frozen=True, slots=True)
class Item:
    """A tensor of the file: its data and element type. GGUF lists dimensions from the fastest."""

    name: str
    elem: str
    values: np.ndarray[Any, Any]


def write_gguf(info: ModelInfo, path: Path) -> None:
    """Write `info`'s weights to `path`, in their own element types."""
    items = list(_items(info))
    metadata = list(_metadata(info.architecture, unpack(read_tokenizer(info))))
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(items), len(metadata)))
        file.write(b"".join(metadata))
        offset = 0
        for item in items:
            dims = item.values.shape[::-1]
            file.write(_text(item.name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPES[item.elem], offset))
            offset += item.values.nbytes + -item.values.nbytes % ALIGNMENT
        _pad(file)
        for item in items:
            file.write(item.values.tobytes())
            _pad(file)


def _pad(file: BinaryIO) -> None:
    file.write(bytes(-file.tell() % ALIGNMENT))


def _items(info: ModelInfo) -> Iterator[Item]:
    for name, gguf_name in WHOLE_NAMES.items():
        if name != "head" or not info.architecture.tied:
            yield _item(info, name, gguf_name, array(info, name))
    for name, gguf_name in LAYER_NAMES.items():
        for layer, values in enumerate(array(info, name)):
            yield _item(info, name, f"blk.{layer}.{gguf_name}", values)
    if info.architecture.rope.scaled:
        yield Item("rope_freqs.weight", "f32", _frequency_factors(info.architecture))


def _item(info: ModelInfo, name: str, gguf_name: str, values: np.ndarray[Any, Any]) -> Item:
    elem = info.tensors[name].elem
    return Item(f"{gguf_name}.weight", elem, to_elem(np.ascontiguousarray(values), elem, name))


def _frequency_factors(shape: Architecture) -> np.ndarray[Any, Any]:
    """What each rotation's frequency is divided by under Llama 3's scaling."""
    rope: Rope = shape.rope
    factors = []
    for i in range(shape.head_dim // 2):
        turns = rope.original * rope.theta ** (-2 * i / shape.head_dim) / (2 * math.pi)
        smooth = min(1.0, max(0.0, (turns - rope.low) / (rope.high - rope.low)))
        factors.append(1.0 / ((1.0 - smooth) / rope.factor + smooth))
    return np.array(factors, dtype=np.float32)


# ---- metadata ----------------------------------------------------------------------------------
def _metadata(shape: Architecture, vocabulary: Vocabulary) -> Iterator[bytes]:
    yield _pair("general.architecture", STRING, "llama")
    yield _pair("general.alignment", U32, ALIGNMENT)
    yield _pair("general.file_type", U32, FILE_TYPES[shape.elem])
    for name, value in (
        ("context_length", shape.seq),
        ("embedding_length", shape.dim),
        ("block_count", shape.layers),
        ("feed_forward_length", shape.hidden),
        ("attention.head_count", shape.heads),
        ("attention.head_count_kv", shape.kv_heads),
        ("rope.dimension_count", shape.head_dim),
        ("vocab_size", shape.vocab),
    ):
        yield _pair(f"llama.{name}", U32, value)
    yield _pair("llama.attention.layer_norm_rms_epsilon", F32, shape.eps)
    yield _pair("llama.rope.freq_base", F32, shape.rope.theta)
    yield from _tokenizer(shape, vocabulary)


def _tokenizer(shape: Architecture, vocabulary: Vocabulary) -> Iterator[bytes]:
    """The vocabulary, filled up with unused tokens to the model's number."""
    texts, scores, kinds = [], [], []
    for id_, token in enumerate(vocabulary.tokens):
        if token.kind == BYTE:
            texts.append(f"<0x{token.text[0]:02X}>".encode())
        elif token.kind == TEXT:
            texts.append(token.text.replace(b" ", "▁".encode()))
        else:
            texts.append(f"<control {id_}>".encode())
        scores.append(token.score)
        kinds.append({TEXT: NORMAL_TOKEN, BYTE: BYTE_TOKEN}.get(token.kind, CONTROL_TOKEN))
    for id_ in range(len(texts), shape.vocab):
        texts.append(f"<unused {id_}>".encode())
        scores.append(0.0)
        kinds.append(UNUSED_TOKEN)
    yield _pair("tokenizer.ggml.model", STRING, "llama")
    yield _array("tokenizer.ggml.tokens", STRING, texts)
    yield _array("tokenizer.ggml.scores", F32, scores)
    yield _array("tokenizer.ggml.token_type", I32, kinds)
    for name, id_ in (("bos", shape.bos), ("eos", shape.eos), ("unknown", vocabulary.unk)):
        yield _pair(f"tokenizer.ggml.{name}_token_id", U32, id_)
    yield _pair("tokenizer.ggml.add_bos_token", BOOL, True)


def _pair(name: str, kind: int, value: Any) -> bytes:
    return _text(name) + struct.pack("<I", kind) + _value(kind, value)


def _array(name: str, kind: int, values: list[Any]) -> bytes:
    head = _text(name) + struct.pack("<IIQ", ARRAY, kind, len(values))
    return head + b"".join(_value(kind, value) for value in values)


def _value(kind: int, value: Any) -> bytes:
    if kind == STRING:
        return _text(value)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}[kind], value)


def _text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data
