"""A Llama in numpy, float64, one token at a time: what every other way of running a model is held against."""

from __future__ import annotations

from typing import Any

import numpy as np

from vx.model.info import ModelInfo
from vx.model.weights import array, sources

Array = np.ndarray[Any, Any]


class Reference:
    """A model with its cache; `step` feeds one id and returns the logits."""

    def __init__(self, info: ModelInfo) -> None:
        self.shape = info.architecture
        self.weights: dict[str, Array] = {name: array(info, name).astype(np.float64) for name in sources(info)}
        shape = self.shape
        self.keys = np.zeros((shape.layers, shape.seq, shape.kv_heads, shape.head_dim))
        self.values = np.zeros_like(self.keys)
        turns = shape.rope.theta ** (-np.arange(0, shape.head_dim, 2) / shape.head_dim)
        self.turns = np.exp(1j * np.arange(shape.seq)[:, None] * turns)
        self.at = 0

    def step(self, token: int) -> Array:
        x = self.weights["emb"][token]
        for layer in range(self.shape.layers):
            x = x + self._attention(layer, self._norm(x, self.weights["att_norm"][layer]))
            x = x + self._feed_forward(layer, self._norm(x, self.weights["ffn_norm"][layer]))
        self.at += 1
        head: Array = self.weights.get("head", self.weights["emb"])
        return head @ self._norm(x, self.weights["out_norm"])

    def _norm(self, x: Array, weight: Array) -> Array:
        return x / np.sqrt((x * x).mean() + self.shape.eps) * weight

    def _turned(self, x: Array) -> Array:
        turned = (x[:, 0::2] + 1j * x[:, 1::2]) * self.turns[self.at]
        return np.stack((turned.real, turned.imag), -1).reshape(x.shape)

    def _attention(self, layer: int, x: Array) -> Array:
        shape, weights, at = self.shape, self.weights, self.at
        q = self._turned((weights["wq"][layer] @ x).reshape(shape.heads, shape.head_dim))
        self.keys[layer, at] = self._turned((weights["wk"][layer] @ x).reshape(shape.kv_heads, shape.head_dim))
        self.values[layer, at] = (weights["wv"][layer] @ x).reshape(shape.kv_heads, shape.head_dim)
        group = shape.heads // shape.kv_heads
        k = self.keys[layer, : at + 1].repeat(group, axis=1)
        v = self.values[layer, : at + 1].repeat(group, axis=1)
        scores = np.einsum("hd,phd->hp", q, k) / np.sqrt(shape.head_dim)
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        return weights["wo"][layer] @ np.einsum("hp,phd->hd", shares, v).reshape(-1)

    def _feed_forward(self, layer: int, x: Array) -> Array:
        gate, up = self.weights["w1"][layer] @ x, self.weights["w3"][layer] @ x
        return self.weights["w2"][layer] @ (gate / (1.0 + np.exp(-gate)) * up)


def greedy(info: ModelInfo, prompt: list[int], positions: int) -> list[int]:
    """`positions` ids, the prompt's included, always the likeliest next one."""
    model, ids = Reference(info), list(prompt)
    for at in range(positions - 1):
        logits = model.step(ids[at])
        if at + 1 == len(ids):
            ids.append(int(logits.argmax()))
    return ids
