"""The benchmark's own parts: the GGUF files it writes, and a comparison that can fail."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from made_checkpoint import Made

from vx.model.shapes import random_model
from vx.model.weights import array

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(autouse=True)
def bench_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


class Reader:
    """A GGUF file read back, written from the format's description alone."""

    FORMATS: ClassVar = {4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q"}

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        magic, version, tensors, pairs = self.take("<4sIQQ")
        assert (magic, version) == (b"GGUF", 3)
        self.pairs = {self.text(): self.value(self.take("<I")[0]) for _ in range(pairs)}
        infos = [self.info() for _ in range(tensors)]
        start = self.at + -self.at % 32
        self.tensors = {name: self.tensor(start + offset, dims, kind) for name, dims, kind, offset in infos}

    def take(self, form: str) -> tuple[Any, ...]:
        self.at += struct.calcsize(form)
        return struct.unpack_from(form, self.data, self.at - struct.calcsize(form))

    def text(self) -> str:
        (length,) = self.take("<Q")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def value(self, kind: int) -> Any:
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.take("<IQ")
            return [self.value(inner) for _ in range(count)]
        return self.take(self.FORMATS[kind])[0]

    def info(self) -> tuple[str, tuple[int, ...], int, int]:
        name, (rank,) = self.text(), self.take("<I")
        return name, self.take(f"<{rank}Q"), *self.take("<IQ")

    def tensor(self, at: int, dims: tuple[int, ...], kind: int) -> np.ndarray[Any, Any]:
        assert at % 32 == 0
        dtype = {0: "<f4", 1: "<f2"}[kind]
        return np.frombuffer(self.data, dtype, int(np.prod(dims)), at).reshape(dims[::-1])


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_gguf_holds_the_same_weights(made_untied: Made, tmp_path: Path, dtype: str) -> None:
    from gguf import LAYER_NAMES, write_gguf

    info = made_untied.load(dtype)
    write_gguf(info, tmp_path / "m.gguf")
    read = Reader((tmp_path / "m.gguf").read_bytes())
    assert read.pairs["llama.attention.head_count_kv"] == 2 and read.pairs["llama.context_length"] == 16
    assert len(read.pairs["tokenizer.ggml.tokens"]) == 259
    for ours, theirs in LAYER_NAMES.items():
        for layer in range(2):
            assert np.array_equal(read.tensors[f"blk.{layer}.{theirs}.weight"], array(info, ours)[layer])
    for ours, theirs in {"emb": "token_embd", "out_norm": "output_norm", "head": "output"}.items():
        assert np.array_equal(read.tensors[f"{theirs}.weight"], array(info, ours))


def test_gguf_scales_rotations_as_llama_3_does(tmp_path: Path) -> None:
    from gguf import _frequency_factors

    factors = _frequency_factors(random_model("llama-3.2-1b", 1, tmp_path / "m").architecture)
    assert factors[0] == 1.0 and factors[-1] == 32.0 and np.all(np.diff(factors) >= 0)


def test_ids_may_part_only_at_a_tie() -> None:
    from cpu import agreement

    peer = {"ids": [1, 5, 6, 7], "margins": [0.5, 0.001, 0.7]}
    assert agreement([1, 5, 6, 7], peer, 0.01) == "all 4 ids agree"
    assert "for 2 positions" in agreement([1, 5, 9, 9], peer, 0.01)
    with pytest.raises(SystemExit, match="position 1"):
        agreement([1, 4, 6, 7], peer, 0.01)
    with pytest.raises(ValueError):
        agreement([1, 5], peer, 0.01)


def test_the_floor_reads_what_it_says(tmp_path: Path) -> None:
    compiler = [sys.executable, "-m", "ziglang", "cc", "-O2", "-pthread"]
    subprocess.run([*compiler, str(BENCH / "read_floor.c"), "-o", str(tmp_path / "floor")], check=True)
    for threads in (1, 2):
        done = subprocess.run(
            [tmp_path / "floor", "8000000", str(threads), "5"], capture_output=True, text=True, check=True
        )
        vectors = 8_000_000 // 64 // threads // 8 * 8 * threads
        share = 8_000_000 // 64 // threads
        read = [i for part in range(threads) for i in range(part * share, part * share + share // 8 * 8)]
        assert len(read) == vectors
        once = sum(i + i + 1 + i + 2 + i + 3 for i in read)
        assert done.stderr == f"sum {once * 6}\n"
        assert len(done.stdout.split()) == 5 and all(float(word) > 0 for word in done.stdout.split())
    assert subprocess.run([tmp_path / "floor", "10", "1", "1"]).returncode == 2
