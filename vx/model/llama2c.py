"""llama2.c checkpoints: seven i32 figures, then f32 tensors one after the other.

Enters: a checkpoint and a tokenizer file. Leaves: a model directory. The figures are dim, hidden, layers,
heads, KV heads, vocabulary (negative if the head is a matrix of its own) and positions. Between the last
norm and that head lie two tables of rotations (positions × half a head), which are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np

from vx.model.architecture import ELEMENTS, Architecture, check_architecture
from vx.model.directory import Progress, Source, write_model
from vx.model.errors import ModelError, printable, reading
from vx.model.info import ModelInfo, load_model, tensor_shapes
from vx.model.rounding import Floats
from vx.model.tokenizer import Vocabulary, pack, read_vocabulary

HEADER_BYTES = 28
VERSIONED_MAGIC = 0x616B3432
"""Begins llama2.c's later formats, which put a version after it."""

ORDER = ("emb", "att_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w2", "w3", "out_norm")
"""Tensors of the file, before the tables and the head."""

CHUNK = 1 << 21
"""Elements read at a time."""


def import_llama2c(
    checkpoint: str | Path,
    tokenizer: str | Path,
    out: str | Path,
    dtype: str = "f32",
    progress: Progress | None = None,
) -> ModelInfo:
    """Make a model directory of a llama2.c checkpoint; matrices are stored as `dtype` (f32, f16, bf16).

    E9103 absurd figures, E9106 a file of another size than they need, E9107 a tokenizer that is damaged or
    of another size, E9108 cannot write, E9101/E9111 cannot read, E9115 weights too large for `dtype`.
    """
    path, vocabulary = Path(checkpoint), read_vocabulary(Path(tokenizer))
    shape = replace(read_shape(path), elem=require_elem(dtype))
    require_tokens(vocabulary, shape, Path(tokenizer))
    origin = {"imported": {"format": "llama2.c", "checkpoint": path.name, "tokenizer": Path(tokenizer).name}}
    write_model(Path(out), shape, _sources(path, shape), pack(vocabulary), origin, progress)
    return load_model(out)


def require_elem(dtype: str) -> str:
    """`dtype` if it is an element type that matrices may have; E9112 otherwise."""
    if dtype not in ELEMENTS:
        raise ModelError("E9112", f"unknown dtype `{dtype}`", [f"one of {', '.join(ELEMENTS)}"])
    return dtype


def require_tokens(vocabulary: Vocabulary, shape: Architecture, path: Path) -> None:
    """E9107 unless the tokenizer has exactly the model's number of tokens."""
    if len(vocabulary.tokens) != shape.vocab:
        raise ModelError(
            "E9107",
            f"the tokenizer `{printable(path)}` has {len(vocabulary.tokens)} tokens, but the model has {shape.vocab}",
            ["use the tokenizer that the checkpoint was trained with"],
        )


def read_shape(path: Path) -> Architecture:
    """The architecture of a checkpoint, whose size must be exactly what its figures need. E9103, E9106."""
    with reading(path, "checkpoint"), path.open("rb") as file:
        head = file.read(HEADER_BYTES)
        size = file.seek(0, 2)
    if len(head) < HEADER_BYTES:
        raise ModelError("E9106", f"the checkpoint `{printable(path)}` is truncated: {size} bytes, no header")
    dim, hidden, layers, heads, kv_heads, vocab, seq = struct.unpack("<7i", head)
    if dim == VERSIONED_MAGIC:
        raise ModelError(
            "E9110",
            f"`{printable(path)}` is a llama2.c checkpoint of version {hidden}; only the first format is supported",
            ["export it again with `--version 0`"],
        )
    shape = Architecture(dim, hidden, layers, heads, kv_heads, abs(vocab), seq, vocab > 0, "f32")
    check_architecture(shape, f"the header of `{printable(path)}`")
    needed = _bytes_needed(shape)
    if size != needed:
        what = "truncated" if size < needed else "longer than its header says"
        raise ModelError(
            "E9106", f"the checkpoint `{printable(path)}` is {what}: {size} bytes, its header needs {needed}"
        )
    return shape


def _table_elements(shape: Architecture) -> int:
    return shape.seq * shape.head_dim


def _bytes_needed(shape: Architecture) -> int:
    shapes = tensor_shapes(shape)
    elements = sum(prod(shapes[name][1]) for name in ORDER) + _table_elements(shape)
    head = 0 if shape.tied else prod(shapes["head"][1])
    return HEADER_BYTES + 4 * (elements + head)


def _sources(path: Path, shape: Architecture) -> dict[str, Source]:
    shapes, sources, at = tensor_shapes(shape), {}, HEADER_BYTES
    for name in ORDER:
        count = prod(shapes[name][1])
        sources[name] = _source(path, at, count)
        at += 4 * count
    if not shape.tied:
        sources["head"] = _source(path, at + 4 * _table_elements(shape), prod(shapes["head"][1]))
    return sources


def _source(path: Path, offset: int, count: int) -> Source:
    def read() -> Iterator[Floats]:
        with reading(path, "checkpoint"), path.open("rb") as file:
            file.seek(offset)
            for start in range(0, count, CHUNK):
                values = np.fromfile(file, dtype="<f4", count=min(CHUNK, count - start))
                if values.size == 0:
                    raise ModelError("E9106", f"the checkpoint `{printable(path)}` became shorter while it was read")
                yield values

    return read
