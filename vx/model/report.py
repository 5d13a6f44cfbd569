"""What a model directory holds, for people and for programs.

Enters: a `ModelInfo`. Leaves: JSON data, or lines of text.
"""

from __future__ import annotations

from math import prod
from typing import Any

from vx.model.errors import printable
from vx.model.info import DIGESTS_FILE, NOWHERE, ModelInfo


def parameters(info: ModelInfo) -> int:
    """How many weights the model has; the unused row that stands for a tied head is not counted."""
    tied = info.architecture.tied
    return sum(
        prod(t.dims) for name, t in info.tensors.items() if name != "tokenizer" and not (tied and name == "head")
    )


def kv_bytes(info: ModelInfo, positions: int, elem_bytes: int) -> int:
    """Bytes of keys and values of `positions` positions."""
    shape = info.architecture
    return 2 * shape.layers * positions * shape.kv_dim * elem_bytes


def weights_origin(info: ModelInfo) -> str:
    """Where the weights come from: `file`, `random(SEED)` or `none`."""
    if info.random_seed is not None:
        return f"random({info.random_seed})"
    return "file" if info.runnable else "none"


def describe(info: ModelInfo) -> dict[str, Any]:
    """All of it as JSON data."""
    return {
        "dir": printable(info.dir),
        "weights": weights_origin(info),
        "digest": info.digest,
        "elem": info.elem,
        "parameters": parameters(info),
        "weight_bytes": weight_bytes(info),
        "constants": dict(info.constants),
        "tensors": {
            name: {
                "elem": tensor.elem,
                "dims": list(tensor.dims),
                "bytes": tensor.bytes,
                "offset": None if tensor.offset == NOWHERE else tensor.offset,
            }
            for name, tensor in info.tensors.items()
        },
    }


def weight_bytes(info: ModelInfo) -> int:
    """Bytes of all weights, without the tokenizer."""
    return sum(tensor.bytes for name, tensor in info.tensors.items() if name != "tokenizer")


def render(info: ModelInfo) -> str:
    """The same for a terminal, a few lines and a table of tensors."""
    shape = info.architecture
    origin = {"file": "in the file", "none": "none: enough to check a program, not to run it"}
    head = "the embedding" if shape.tied else "its own"
    lines = [
        f"model      {printable(info.dir)}",
        f"weights    {origin.get(weights_origin(info), weights_origin(info) + ', generated when the program starts')}",
        f"size       {parameters(info):,} parameters, {weight_bytes(info):,} bytes, matrices in {info.elem}",
        f"layers     {shape.layers} of dim {shape.dim}, hidden {shape.hidden}, {shape.heads} heads of {shape.head_dim}, "
        f"{shape.kv_heads} KV heads",
        f"vocabulary {shape.vocab:,} tokens, bos {shape.bos}, eos {shape.eos}; head: {head}",
        f"positions  {shape.seq:,}; rope theta {shape.rope.theta:g}"
        + (", Llama 3 scaling" if shape.rope.scaled else ""),
        f"cache      {kv_bytes(info, 1, 4):,} bytes of keys and values per position in f32",
        f"digest     {info.digest}" + (f" (from {DIGESTS_FILE})" if weights_origin(info) == "file" else ""),
        "",
    ]
    rows = [
        (name, tensor.elem, "×".join(map(str, tensor.dims)), f"{tensor.bytes:,}")
        for name, tensor in info.tensors.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines += [
        f"{name:<{widths[0]}}  {elem:<{widths[1]}}  {dims:<{widths[2]}}  {size:>{widths[3]}}"
        for name, elem, dims, size in rows
    ]
    return "\n".join(lines)
