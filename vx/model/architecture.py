"""The shape of a Llama: what `config.json` says, checked.

Enters: a configuration in the field names of Hugging Face's Llama models (our own directories use the
same names and add a section `vx`). Leaves: an `Architecture`, whose figures every tensor follows from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

from vx.model.errors import ModelError, printable, reading

CONFIG_LIMIT = 4 << 20
"""Bytes of the largest configuration read."""

ELEMENTS: Mapping[str, int] = {"f32": 4, "f16": 2, "bf16": 2}
"""Element types that matrices may have, and their bytes."""

TORCH_NAMES: Mapping[str, str] = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
"""Hugging Face's names of them."""

LIMITS: Mapping[str, int] = {
    "dim": 1 << 17,
    "hidden": 1 << 20,
    "layers": 1 << 12,
    "heads": 1 << 12,
    "kv_heads": 1 << 12,
    "vocab": 1 << 22,
    "seq": 1 << 24,
}
"""The largest figure of each kind that is believed."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding: base `theta`; `scaled` is Llama 3's rule with its four figures."""

    theta: float = 10000.0
    scaled: bool = False
    factor: float = 1.0
    low: float = 1.0
    high: float = 1.0
    original: int = 0


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes are counts of elements; `elem` is the matrices' element type (norms are f32)."""

    dim: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    seq: int
    tied: bool
    elem: str
    eps: float = 1e-5
    bos: int = 1
    eos: int = 2
    rope: Rope = Rope()

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads

    @property
    def kv_dim(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def head_rows(self) -> int:
        """Rows of `head`: the vocabulary, or one unused row where the embedding serves as the head."""
        return 1 if self.tied else self.vocab


def check_architecture(shape: Architecture, source: str) -> Architecture:
    """Return `shape` if its figures fit together. `source` names where they came from; E9103 otherwise."""

    def refuse(message: str) -> ModelError:
        return ModelError("E9103", f"{source}: {message}")

    for name, limit in LIMITS.items():
        value = getattr(shape, name)
        if not 1 <= value <= limit:
            raise refuse(f"{name} = {value}, which is not between 1 and {limit}")
    if shape.dim % shape.heads:
        raise refuse(f"dim = {shape.dim} is not a multiple of heads = {shape.heads}")
    if shape.head_dim % 2:
        raise refuse(f"the head dimension {shape.head_dim} is odd; rotary embedding needs pairs")
    if shape.heads % shape.kv_heads:
        raise refuse(f"heads = {shape.heads} is not a multiple of kv_heads = {shape.kv_heads}")
    for name, value in (("bos", shape.bos), ("eos", shape.eos)):
        if not 0 <= value < shape.vocab:
            raise refuse(f"the {name} id {value} is outside the vocabulary of {shape.vocab}")
    if not (isfinite(shape.eps) and 0.0 <= shape.eps < 1.0):
        raise refuse(f"eps = {shape.eps} is not a small non-negative number")
    _check_rope(shape.rope, refuse)
    return shape


def _check_rope(rope: Rope, refuse: Any) -> None:
    if not (isfinite(rope.theta) and rope.theta > 0.0):
        raise refuse(f"rope theta = {rope.theta} is not a positive number")
    if not rope.scaled:
        return
    if not all(isfinite(value) and value > 0.0 for value in (rope.factor, rope.low, rope.high)):
        raise refuse("rope scaling factors are not positive numbers")
    if rope.high <= rope.low or not 1 <= rope.original <= LIMITS["seq"]:
        raise refuse("rope scaling needs high_freq_factor > low_freq_factor and a positive original length")


# ---- JSON --------------------------------------------------------------------------------------
def parse_json(text: bytes, source: str, code: str = "E9102") -> dict[str, Any]:
    """A JSON object without repeated keys; anything else is `code` naming `source`."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = dict(pairs)
        if len(keys) != len(pairs):
            raise ValueError("a key appears twice in one object")
        return keys

    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ModelError(code, f"{source} is not valid JSON: {reason}") from error
    if not isinstance(value, dict):
        raise ModelError(code, f"{source} is not a JSON object")
    return value


def read_json(path: Path, what: str, limit: int = CONFIG_LIMIT) -> dict[str, Any]:
    """Read a JSON object of at most `limit` bytes. E9101, E9102, E9111."""
    with reading(path, what), path.open("rb") as file:
        text = file.read(limit + 1)
    if len(text) > limit:
        raise ModelError("E9102", f"`{printable(path)}` is larger than {limit} bytes, too large for a {what}")
    return parse_json(text, f"`{printable(path)}`")


@dataclass(frozen=True, slots=True)
class _Fields:
    """Typed access to one JSON object; a wrong type is E9102 naming the field."""

    values: Mapping[str, Any]
    source: str

    def _get(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        if value is None:
            value = default
        if value is None:
            raise ModelError("E9102", f"{self.source} has no `{name}`")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        value = self._get(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(name, "an integer", value)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, "a number", value)
        try:
            return float(value)
        except OverflowError as error:
            raise self._wrong(name, "a number", value) from error

    def boolean(self, name: str, default: bool) -> bool:
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self._get(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "text", value)
        return value

    def section(self, name: str) -> _Fields:
        value = self._get(name, {})
        if not isinstance(value, dict):
            raise self._wrong(name, "an object", value)
        return _Fields(value, f"{self.source}: `{name}`")

    def _wrong(self, name: str, want: str, value: Any) -> ModelError:
        return ModelError("E9102", f"{self.source}: `{name}` must be {want}, not `{str(value)[:40]}`")


def architecture_from_config(values: Mapping[str, Any], source: str) -> Architecture:
    """Check a `config.json` (Hugging Face's names). E9102, E9103; E9110 for models that are not plain Llamas."""
    fields = _Fields(values, source)
    _refuse_other_models(fields)
    dim, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    shape = Architecture(
        dim=dim,
        hidden=fields.integer("intermediate_size"),
        layers=fields.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=fields.integer("num_key_value_heads", heads),
        vocab=fields.integer("vocab_size"),
        seq=fields.integer("max_position_embeddings"),
        tied=fields.boolean("tie_word_embeddings", False),
        elem=_element(fields),
        eps=fields.number("rms_norm_eps"),
        bos=_first_id(fields, "bos_token_id"),
        eos=_first_id(fields, "eos_token_id"),
        rope=_rope(fields),
    )
    check_architecture(shape, source)
    head_dim = fields.integer("head_dim", shape.head_dim)
    if head_dim != shape.head_dim:
        raise ModelError(
            "E9110",
            f"{source}: head_dim = {head_dim}, but only hidden_size / num_attention_heads = {shape.head_dim} is supported",
        )
    return shape


def _refuse_other_models(fields: _Fields) -> None:
    for name, allowed in (("model_type", "llama"), ("hidden_act", "silu")):
        value = fields.text(name, allowed)
        if value != allowed:
            raise ModelError("E9110", f"{fields.source}: {name} `{value}` is not supported, only `{allowed}`")
    for name in ("attention_bias", "mlp_bias"):
        if fields.boolean(name, False):
            raise ModelError("E9110", f"{fields.source}: `{name}` is not supported: our Llamas have no biases")


def _element(fields: _Fields) -> str:
    name = fields.text("dtype", fields.text("torch_dtype", "none given"))
    if name not in TORCH_NAMES:
        raise ModelError(
            "E9102", f"{fields.source}: `dtype` must be one of {', '.join(TORCH_NAMES)}, not `{name[:40]}`"
        )
    return TORCH_NAMES[name]


def _first_id(fields: _Fields, name: str) -> int:
    """An id, or the first of a list of alternatives."""
    value = fields.values.get(name)
    if isinstance(value, list) and value:
        return _Fields({name: value[0]}, fields.source).integer(name)
    return fields.integer(name)


def _rope(fields: _Fields) -> Rope:
    newer = fields.section("rope_parameters")
    theta = newer.number("rope_theta", fields.number("rope_theta", 10000.0))
    scaling = newer if newer.values else fields.section("rope_scaling")
    kind = scaling.text("rope_type", scaling.text("type", "default"))
    if kind == "default":
        return Rope(theta)
    if kind != "llama3":
        raise ModelError("E9110", f"{fields.source}: rope scaling `{kind[:40]}` is not supported, only `llama3`")
    return Rope(
        theta,
        True,
        scaling.number("factor"),
        scaling.number("low_freq_factor"),
        scaling.number("high_freq_factor"),
        scaling.integer("original_max_position_embeddings"),
    )


def config_of(shape: Architecture) -> dict[str, Any]:
    """The `config.json` fields of a shape: the inverse of `architecture_from_config`."""
    rope = shape.rope
    scaling = {
        "rope_type": "llama3",
        "factor": rope.factor,
        "low_freq_factor": rope.low,
        "high_freq_factor": rope.high,
        "original_max_position_embeddings": rope.original,
    }
    return {
        "model_type": "llama",
        "hidden_size": shape.dim,
        "intermediate_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "vocab_size": shape.vocab,
        "max_position_embeddings": shape.seq,
        "tie_word_embeddings": shape.tied,
        "torch_dtype": next(name for name, elem in TORCH_NAMES.items() if elem == shape.elem),
        "rms_norm_eps": shape.eps,
        "bos_token_id": shape.bos,
        "eos_token_id": shape.eos,
        "rope_theta": rope.theta,
        "rope_scaling": scaling if rope.scaled else None,
    }


def architecture_digest(shape: Architecture) -> str:
    """SHA-256 (hex) of the configuration without its element type: equal for every conversion of one model."""
    config = config_of(shape)
    del config["torch_dtype"]
    return sha256(json.dumps(config, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
