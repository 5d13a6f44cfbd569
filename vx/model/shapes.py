"""Shapes of well-known models, and random models of any shape.

Enters: a name, a `config.json` or a model directory. Leaves: an `Architecture`, a directory whose weights
are a seed, or such a directory's weights written out.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from vx.model.architecture import Architecture, Rope, architecture_from_config, check_architecture, read_json
from vx.model.container import Spec, write_container
from vx.model.directory import Progress, configuration, replacing, write_json, write_model
from vx.model.errors import ModelError, printable
from vx.model.info import (
    CONFIG_FILE,
    SEED_LIMIT,
    WEIGHTS_FILE,
    ModelInfo,
    load_model,
)
from vx.model.llama2c import require_elem, require_tokens
from vx.model.tokenizer import byte_vocabulary, pack, read_vocabulary
from vx.model.weights import read_tokenizer, sources

LLAMA3_ROPE = Rope(500000.0, True, 32.0, 1.0, 4.0, 8192)

KNOWN: Mapping[str, Architecture] = MappingProxyType(
    {
        "stories260K": Architecture(64, 172, 5, 8, 4, 512, 512, True, "f32"),
        "stories15M": Architecture(288, 768, 6, 6, 6, 32000, 256, True, "f32"),
        "stories42M": Architecture(512, 1376, 8, 8, 8, 32000, 1024, True, "f32"),
        "stories110M": Architecture(768, 2048, 12, 12, 12, 32000, 1024, True, "f32"),
        "llama-3.2-1b": Architecture(
            2048, 8192, 16, 32, 8, 128256, 131072, True, "bf16", 1e-5, 128000, 128001, LLAMA3_ROPE
        ),
        "llama-3.1-8b": Architecture(
            4096,
            14336,
            32,
            32,
            8,
            128256,
            131072,
            False,
            "bf16",
            1e-5,
            128000,
            128001,
            replace(LLAMA3_ROPE, factor=8.0),
        ),
    }
)
"""Published shapes: `dim, hidden, layers, heads, KV heads, vocabulary, positions, tied, dtype`."""


def shape_like(like: str | Path) -> Architecture:
    """The shape of a known model, a `config.json` or a model directory. E9112 if it is none of them."""
    if str(like) in KNOWN:
        return KNOWN[str(like)]
    path = Path(like)
    path = path / CONFIG_FILE if path.is_dir() else path
    if not path.exists():
        close = difflib.get_close_matches(str(like), KNOWN, n=1)
        helps = [f"did you mean `{close[0]}`?"] if close else []
        helps.append(f"known shapes: {', '.join(KNOWN)}; or give a config.json or a model directory")
        raise ModelError("E9112", f"`{printable(like)}` is no known shape and no file", helps)
    return architecture_from_config(read_json(path, "model configuration"), f"`{printable(path)}`")


def random_model(
    like: str | Path,
    seed: int,
    out: str | Path,
    dtype: str | None = None,
    seq: int | None = None,
    tokenizer: str | Path | None = None,
) -> ModelInfo:
    """Make a directory whose weights are `random(seed)`: the runtime generates them, no file holds them.

    `dtype` and `seq` override the shape's. Its tokenizer is `tokenizer` (a llama2.c file), else that of the
    model directory `like`, else one token per byte. E9108, E9112, and what reading `like` raises.
    """
    shape = shape_like(like)
    shape = replace(shape, elem=require_elem(dtype or shape.elem), seq=shape.seq if seq is None else seq)
    check_architecture(shape, f"the shape of `{printable(like)}`")
    if not 0 <= seed <= SEED_LIMIT:
        raise ModelError("E9112", f"the seed {seed} is not between 0 and {SEED_LIMIT}")
    packed = _tokenizer_for(like, shape, tokenizer)
    target = Path(out)
    with replacing(target) as partial:
        with (partial / WEIGHTS_FILE).open("wb") as file:
            write_container(file, [Spec("tokenizer", "u8", (len(packed),))], {"tokenizer": [packed]})
        write_json(partial / CONFIG_FILE, configuration(shape, f"random({seed})", len(packed), {}))
    return load_model(target)


def _tokenizer_for(like: str | Path, shape: Architecture, tokenizer: str | Path | None) -> bytes:
    if tokenizer is not None:
        vocabulary = read_vocabulary(Path(tokenizer))
        require_tokens(vocabulary, shape, Path(tokenizer))
        return pack(vocabulary)
    if str(like) not in KNOWN and (Path(like) / WEIGHTS_FILE).exists():
        return read_tokenizer(load_model(like))
    return pack(byte_vocabulary(shape.bos, shape.eos))


def materialise(directory: str | Path, out: str | Path, progress: Progress | None = None) -> ModelInfo:
    """Write a random model's weights out as files, for programs that cannot generate them."""
    info = load_model(directory)
    if info.random_seed is None:
        raise ModelError(
            "E9112", f"the weights of `{printable(info.dir)}` are not random: there is nothing to write out"
        )
    origin = {"materialised": f"random({info.random_seed})"}
    write_model(Path(out), info.architecture, sources(info), read_tokenizer(info), origin, progress)
    return load_model(out)
