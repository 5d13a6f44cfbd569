"""Small made-up checkpoints, with every figure open to damage."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from vx.model.info import ModelInfo
from vx.model.llama2c import import_llama2c
from vx.model.tokenizer import byte_vocabulary, write_vocabulary


class Made:
    """A small made-up checkpoint on disk: `header` is its seven figures."""

    def __init__(self, folder: Path, tied: bool) -> None:
        self.checkpoint, self.tokenizer, self.out = folder / "made.bin", folder / "made.tok", folder / "out"
        vocab = 259
        self.header = [24, 40, 2, 6, 2, vocab if tied else -vocab, 16]
        kv = 8
        counts = [vocab * 24, 2 * 24, 2 * 24 * 24, 2 * kv * 24, 2 * kv * 24, 2 * 24 * 24, 2 * 24]
        counts += [2 * 40 * 24] * 3 + [24, 16 * 4] + ([] if tied else [vocab * 24])
        rng = np.random.default_rng(5)
        self.parts = [rng.normal(0.0, 0.5, count).astype("<f4") for count in counts]
        write_vocabulary(self.tokenizer, byte_vocabulary())
        self.write()

    def write(self) -> None:
        data = struct.pack("<7i", *self.header) + b"".join(part.tobytes() for part in self.parts)
        self.checkpoint.write_bytes(data)

    def load(self, dtype: str = "f32") -> ModelInfo:
        return import_llama2c(self.checkpoint, self.tokenizer, self.out, dtype)
