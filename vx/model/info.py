"""What a compiler needs to know of a model: its constants, and where each tensor's bytes are.

Enters: a model directory. `config.json` alone is enough to check a program; `model.safetensors`, of which
only the header is read here, makes it runnable. Leaves: `ModelInfo`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import prod, sqrt
from pathlib import Path
from typing import Any

from vx.model.architecture import (
    Architecture,
    architecture_digest,
    architecture_from_config,
    read_json,
)
from vx.model.container import Entry, read_header
from vx.model.errors import ModelError, printable

CONFIG_FILE, WEIGHTS_FILE, DIGESTS_FILE = "config.json", "model.safetensors", "digests.json"
FORMAT = 1
"""Version of our model directories, `vx.format` in `config.json`."""

TOKENIZER_LIMIT = 1 << 28
"""Bytes of the largest tokenizer tensor that is believed."""

NOWHERE = -1
"""`TensorInfo.offset` of a tensor whose bytes are in no file: generated, or unknown."""

SEED_LIMIT = (1 << 63) - 1
"""The largest seed: seeds are natural numbers of 63 bits."""

ELEM_BYTES: Mapping[str, int] = {"f32": 4, "f16": 2, "bf16": 2, "u8": 1}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor. `offset` is in bytes from the file's start, a multiple of 64, or `NOWHERE`.

    Where the model's weights are random, element i is `unit(seed, key, i) · scale + bias`, see `random.py`.
    """

    elem: str
    dims: tuple[int, ...]
    offset: int
    bytes: int
    key: int = 0
    scale: float = 0.0
    bias: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model directory. `constants` are what `import model;` brings in, `elem` is its `E`."""

    architecture: Architecture
    constants: Mapping[str, int | float | bool]
    elem: str
    tensors: Mapping[str, TensorInfo]
    digest: str
    """SHA-256 (hex) over the imported checkpoint's tensors and shape; equal for its f16 and f32 conversions."""
    random_seed: int | None
    """The weights are generated from this seed; only `tokenizer` is in the file."""
    file: Path | None
    """The weights file, or None for a directory that has only a configuration."""
    dir: Path

    @property
    def runnable(self) -> bool:
        """Whether every tensor has bytes: in the file, or from the generator."""
        return self.file is not None


# ---- the tensors of a Llama --------------------------------------------------------------------
def tensor_shapes(shape: Architecture) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Every weight's element type and dimensions, by name; layers are stacked. Without `tokenizer`."""
    layers, dim, hidden, kv_dim, elem = shape.layers, shape.dim, shape.hidden, shape.kv_dim, shape.elem
    return {
        "emb": (elem, (shape.vocab, dim)),
        "att_norm": ("f32", (layers, dim)),
        "wq": (elem, (layers, dim, dim)),
        "wk": (elem, (layers, kv_dim, dim)),
        "wv": (elem, (layers, kv_dim, dim)),
        "wo": (elem, (layers, dim, dim)),
        "ffn_norm": ("f32", (layers, dim)),
        "w1": (elem, (layers, hidden, dim)),
        "w3": (elem, (layers, hidden, dim)),
        "w2": (elem, (layers, dim, hidden)),
        "out_norm": ("f32", (dim,)),
        "head": (elem, (shape.head_rows, dim)),
    }


def constants_of(shape: Architecture, tokenizer_bytes: int) -> dict[str, int | float | bool]:
    """What `import model;` brings in by name."""
    rope = shape.rope
    return {
        "DIM": shape.dim,
        "HIDDEN": shape.hidden,
        "LAYERS": shape.layers,
        "HEADS": shape.heads,
        "KV_HEADS": shape.kv_heads,
        "HEAD_DIM": shape.head_dim,
        "KV_DIM": shape.kv_dim,
        "VOCAB": shape.vocab,
        "SEQ": shape.seq,
        "EPS": shape.eps,
        "SCALE": 1.0 / sqrt(shape.head_dim),
        "BOS": shape.bos,
        "EOS": shape.eos,
        "TIED": shape.tied,
        "HEAD_ROWS": shape.head_rows,
        "ROPE_THETA": rope.theta,
        "ROPE_SCALING": int(rope.scaled),
        "ROPE_FACTOR": rope.factor,
        "ROPE_LOW": rope.low,
        "ROPE_HIGH": rope.high,
        "ROPE_ORIGINAL": rope.original,
        "TOKENIZER_BYTES": tokenizer_bytes,
    }


def random_key(name: str) -> int:
    """The key of tensor `name` in the random generator: 64-bit FNV-1a of its name."""
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return key


def random_parameters(name: str, dims: tuple[int, ...]) -> tuple[int, float, float]:
    """`(key, scale, bias)` of a random weight: norms near 1, matrices of variance 1 / columns.

    A uniform variable on [-1, 1) has variance 1/3, hence the factor 3. The figures are exact in f32.
    """
    if name.endswith("norm"):
        return random_key(name), 0.125, 1.0
    return random_key(name), _f32(sqrt(3.0 / dims[-1])), 0.0


def _f32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


# ---- reading a directory -----------------------------------------------------------------------
def load_model(directory: str | Path) -> ModelInfo:
    """Read a model directory's configuration and its weights file's header; no weight is read.

    Raises `ModelError`: E9101 nothing there, E9102 configuration unreadable, E9103 figures that do not fit,
    E9104 a header that lies, E9105 tensors that are not this model's, E9110 other kinds of model, E9111 no access.
    """
    root = Path(directory)
    _require_directory(root)
    config = read_json(root / CONFIG_FILE, "model configuration")
    source = f"`{printable(root / CONFIG_FILE)}`"
    shape = architecture_from_config(config, source)
    section = _own_section(config, source)
    seed = _random_seed(section, source)
    weights = root / WEIGHTS_FILE
    entries = _read_entries(weights, section, source)
    tensors = _tensors(shape, entries, seed, weights)
    if entries is None:
        size = _tokenizer_bytes(section, source)
        tensors["tokenizer"] = TensorInfo("u8", (size,), NOWHERE, size)
    else:
        tensors["tokenizer"] = _tokenizer(entries, weights)
    return ModelInfo(
        architecture=shape,
        constants=constants_of(shape, tensors["tokenizer"].bytes),
        elem=shape.elem,
        tensors=tensors,
        digest=_digest(root, shape, seed, weights=entries is not None),
        random_seed=seed,
        file=None if entries is None else weights,
        dir=root,
    )


def require_weights(info: ModelInfo) -> None:
    """E9113 if the model can be checked but not run."""
    if not info.runnable:
        raise ModelError(
            "E9113",
            f"the model directory `{printable(info.dir)}` has only a configuration: enough to check, not to run",
            [f"`vx model random --like {printable(info.dir)} --seed 1 -o DIR` makes a runnable stand-in"],
        )


def _require_directory(root: Path) -> None:
    try:
        if root.is_dir():
            return
        exists = root.exists()
    except (OSError, ValueError) as error:
        raise ModelError("E9101", f"`{printable(root)}` is not a usable path: {error}") from error
    if exists:
        helps = ["`vx model import CHECKPOINT --tokenizer FILE -o DIR` makes a model directory of a checkpoint"]
        raise ModelError("E9101", f"`{printable(root)}` is a file, not a model directory", helps)
    raise ModelError("E9101", f"there is no model directory `{printable(root)}`")


def _own_section(config: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    section = config.get("vx", {})
    if not isinstance(section, dict):
        raise ModelError("E9102", f"{source}: `vx` must be an object")
    version = section.get("format", FORMAT)
    if version != FORMAT:
        raise ModelError("E9102", f"{source}: this is format {version!s:.20}, and only format {FORMAT} is known")
    return section


def _random_seed(section: Mapping[str, Any], source: str) -> int | None:
    text = section.get("weights", "file")
    if text == "file":
        return None
    found = re.fullmatch(r"random\((\d{1,20})\)", text) if isinstance(text, str) else None
    if found is None or int(found[1]) > SEED_LIMIT:
        raise ModelError("E9102", f"{source}: `vx.weights` must be `file` or `random(SEED)`, not `{text!s:.40}`")
    return int(found[1])


def _read_entries(weights: Path, section: Mapping[str, Any], source: str) -> Mapping[str, Entry] | None:
    """The weights file's header, None if there is no such file."""
    if not weights.exists():
        return None
    if "format" not in section:
        raise ModelError(
            "E9102",
            f"`{printable(weights.parent)}` is a checkpoint of another tool, not a model directory ({source} has no `vx` section)",
            [f"`vx model import {printable(weights.parent)} -o DIR` converts Hugging Face's format"],
        )
    return read_header(weights)


def _tokenizer_bytes(section: Mapping[str, Any], source: str) -> int:
    """Bytes of the tokenizer where the weights file, which holds it, is not there; 0 if unknown."""
    size = section.get("tokenizer_bytes", 0)
    if type(size) is not int or not 0 <= size <= TOKENIZER_LIMIT:
        raise ModelError("E9102", f"{source}: `vx.tokenizer_bytes` must be a number of bytes, not `{size!s:.20}`")
    return size


def _tensors(
    shape: Architecture, entries: Mapping[str, Entry] | None, seed: int | None, weights: Path
) -> dict[str, TensorInfo]:
    tensors = {}
    for name, (elem, dims) in tensor_shapes(shape).items():
        size = prod(dims) * ELEM_BYTES[elem]
        if seed is not None:
            tensors[name] = TensorInfo(elem, dims, NOWHERE, size, *random_parameters(name, dims))
        elif entries is None:
            tensors[name] = TensorInfo(elem, dims, NOWHERE, size)
        else:
            entry = _entry(entries, name, weights)
            if (entry.elem, entry.dims) != (elem, dims):
                raise ModelError(
                    "E9105",
                    f"`{printable(weights)}`: tensor `{name}` is {entry.elem} {list(entry.dims)}, "
                    f"but {CONFIG_FILE} needs {elem} {list(dims)}",
                )
            tensors[name] = TensorInfo(elem, dims, entry.offset, size)
    return tensors


def _entry(entries: Mapping[str, Entry], name: str, weights: Path) -> Entry:
    if name not in entries:
        raise ModelError("E9105", f"`{printable(weights)}` has no tensor `{name}`")
    if entries[name].offset % 64:
        raise ModelError("E9104", f"`{printable(weights)}`: tensor `{name}` is not aligned to 64 bytes")
    return entries[name]


def _tokenizer(entries: Mapping[str, Entry], weights: Path) -> TensorInfo:
    entry = _entry(entries, "tokenizer", weights)
    if entry.elem != "u8" or len(entry.dims) != 1 or not 64 <= entry.bytes <= TOKENIZER_LIMIT:
        raise ModelError("E9105", f"`{printable(weights)}`: `tokenizer` must be one row of u8, of believable size")
    return TensorInfo("u8", entry.dims, entry.offset, entry.bytes)


# ---- digests -----------------------------------------------------------------------------------
def combined_digest(shape: Architecture, tensors: Mapping[str, str]) -> str:
    """The model digest: SHA-256 (hex) over the shape's digest and the per-tensor digests, by name."""
    lines = [f"architecture {architecture_digest(shape)}"]
    lines += [f"{name} {digest}" for name, digest in sorted(tensors.items())]
    return sha256("\n".join(lines).encode()).hexdigest()


def random_digest(shape: Architecture, seed: int) -> str:
    """The model digest of generated weights: they are a function of the shape and the seed."""
    return combined_digest(shape, {"weights": f"random({seed})"})


def _digest(root: Path, shape: Architecture, seed: int | None, weights: bool) -> str:
    """The digest of what was imported; of the shape alone if neither `weights` nor a list of digests is there."""
    if seed is not None:
        return random_digest(shape, seed)
    path = root / DIGESTS_FILE
    if not weights and not path.exists():
        return combined_digest(shape, {})
    listed = read_json(path, "list of digests")
    tensors = listed.get("tensors")
    if not isinstance(tensors, dict) or not all(_is_digest(value) for value in tensors.values()):
        raise ModelError("E9102", f"`{printable(path)}`: `tensors` must map names to SHA-256 digests")
    digest = combined_digest(shape, tensors)
    if listed.get("model") != digest:
        raise ModelError("E9114", f"`{printable(path)}`: `model` is not the digest of the tensors listed with it")
    return digest


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None
