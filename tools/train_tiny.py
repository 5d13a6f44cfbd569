"""Trains the model in `models/tiny` from nothing: text, tokenizer, weights.

    pip install torch==2.13.0
    python tools/train_tiny.py --out models/tiny

Enters: a seed. Leaves: a model directory, made through `vx model import` like any other checkpoint. Runs on one
CPU thread; the text and the tokenizer are a function of the seed alone, the weights also of torch's version
and the processor. PyTorch is the only dependency that Vx itself does not have.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import platform
import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tiny_bpe import learn, pieces
from tiny_stories import stories
from torch import Tensor, nn
from torch.nn import functional

from vx.model.directory import write_json
from vx.model.llama2c import import_llama2c
from vx.model.tokenizer import Vocabulary, decode, encode, write_vocabulary

DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ = 96, 256, 4, 6, 3, 768, 256
HEAD_DIM = DIM // HEADS
EPS = 1e-5
SIZES = ("DIM", "HIDDEN", "LAYERS", "HEADS", "KV_HEADS", "VOCAB", "SEQ")
PROMPTS = ("", "One day, a big bear", "Lily and Tom", "The little dog was sad because")

README = """\
# The tiny model

A Llama of {parameters:,} parameters (f32; dim {DIM}, hidden {HIDDEN}, {LAYERS} layers, {HEADS} heads, {KV_HEADS} KV heads, {VOCAB} tokens,
{SEQ} positions, tied embedding) that tells children's stories, so that a fresh clone has something to run. It
knows nothing but the grammar in `tools/tiny_stories.py`, from which its text comes, and its tokenizer was learned
from the same text (`tools/tiny_bpe.py`). Nothing in it comes from elsewhere; it has the project's license.

| | |
|---|---|
| made by | `{command}` |
| seed | {seed} |
| steps | {steps:,} of 16 × 256 tokens, {tokens:,} tokens in all |
| loss | {loss} (mean of the last 50 steps), {loss_on_unseen_stories} on stories it has not seen |
| with | PyTorch {torch}, one CPU thread, {processor}; about a quarter of an hour |

The text and the tokenizer follow from the seed alone; the weights also from PyTorch's version and the
processor, so training again gives a model that is as good, not the same bits.

What it tells without a prompt, and after "One day, a big bear", "Lily and Tom" and "The little dog was sad because",
always taking the likeliest token:

{samples}
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train; everything that the result depends on."""

    seed: int
    minutes: float
    max_steps: int
    batch: int = 16
    rate: float = 4e-3
    warmup: int = 60
    weight_decay: float = 0.05


# ---- data --------------------------------------------------------------------------------------
class Encoder:
    """`encode` of whole stories, remembering every piece it has seen."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.plain = Vocabulary(vocabulary.tokens, space_first=False)
        self.known: dict[str, list[int]] = {}

    def story(self, text: str) -> list[int]:
        ids = [self.vocabulary.bos]
        for piece in pieces(text):
            if piece not in self.known:
                self.known[piece] = encode(self.plain, piece.encode())[1:]
            ids += self.known[piece]
        return [*ids, self.vocabulary.eos]


def batches(encoder: Encoder, texts: Iterator[str], batch: int) -> Iterator[Tensor]:
    """`[batch, SEQ + 1]` ids: each row begins with a story; what is left over is thrown away."""
    while True:
        rows = []
        for _ in range(batch):
            row: list[int] = []
            while len(row) <= SEQ:
                row += encoder.story(next(texts))
            rows.append(row[: SEQ + 1])
        yield torch.tensor(rows)


# ---- the model ---------------------------------------------------------------------------------
class Block(nn.Module):
    """One layer: attention and feed-forward, both on normed input, both added to it."""

    def __init__(self) -> None:
        super().__init__()
        self.att_norm, self.ffn_norm = nn.Parameter(torch.ones(DIM)), nn.Parameter(torch.ones(DIM))
        self.wq, self.wo = _matrix(DIM, DIM), _matrix(DIM, DIM)
        self.wk, self.wv = _matrix(KV_HEADS * HEAD_DIM, DIM), _matrix(KV_HEADS * HEAD_DIM, DIM)
        self.w1, self.w3, self.w2 = _matrix(HIDDEN, DIM), _matrix(HIDDEN, DIM), _matrix(DIM, HIDDEN)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = norm(x, self.att_norm)
        q = rotate(heads(y @ self.wq.T, HEADS), cos, sin)
        k = rotate(heads(y @ self.wk.T, KV_HEADS), cos, sin)
        v = heads(y @ self.wv.T, KV_HEADS)
        groups = HEADS // KV_HEADS
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + o.transpose(1, 2).flatten(2) @ self.wo.T
        y = norm(x, self.ffn_norm)
        return x + (functional.silu(y @ self.w1.T) * (y @ self.w3.T)) @ self.w2.T


class Llama(nn.Module):
    """Ids `[batch, positions]` to logits; the embedding is also the head."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Parameter(torch.randn(VOCAB, DIM) * 0.05)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.out_norm = nn.Parameter(torch.ones(DIM))
        angles = torch.arange(SEQ)[:, None] * 10000.0 ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x, count = self.emb[ids], ids.shape[1]
        for block in self.blocks:
            x = block(x, self.cos[:count], self.sin[:count])
        return norm(x, self.out_norm) @ self.emb.T


def _matrix(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * columns**-0.5 * 0.7)


def norm(x: Tensor, weight: Tensor) -> Tensor:
    """RMS norm."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight


def heads(x: Tensor, count: int) -> Tensor:
    """`[batch, positions, count · HEAD_DIM]` to `[batch, count, positions, HEAD_DIM]`."""
    return x.unflatten(-1, (count, HEAD_DIM)).transpose(1, 2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of neighbouring pairs."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


# ---- training ----------------------------------------------------------------------------------
def train(model: Llama, data: Iterator[Tensor], recipe: Recipe) -> tuple[int, float]:
    """Train for at most `minutes` and `max_steps`; returns steps taken and the mean of the last losses."""
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98))
    begin, losses = time.monotonic(), []
    for step in range(recipe.max_steps):
        spent = max((time.monotonic() - begin) / (60 * recipe.minutes), step / recipe.max_steps)
        if spent >= 1.0:
            break
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * min(
                (step + 1) / recipe.warmup, max(0.02, 0.5 + 0.5 * math.cos(math.pi * spent))
            )
        rows = next(data)
        loss = functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
        if step % 50 == 0:
            print(
                f"step {step:5}  loss {sum(losses[-50:]) / len(losses[-50:]):.4f}  {time.monotonic() - begin:.0f} s",
                flush=True,
            )
    return len(losses), sum(losses[-50:]) / len(losses[-50:])


@torch.no_grad()
def validate(model: Llama, data: Iterator[Tensor], rows: int) -> float:
    """Mean loss on stories that training has not seen."""
    total = 0.0
    for _ in range(rows):
        ids = next(data)
        total += functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).item()
    return total / rows


@torch.no_grad()
def greedy(model: Llama, vocabulary: Vocabulary, prompt: str) -> str:
    """The story that a prompt leads to."""
    ids = encode(vocabulary, prompt.encode())
    while len(ids) < SEQ:
        best = int(model(torch.tensor([ids]))[0, -1].argmax())
        if best in (vocabulary.bos, vocabulary.eos):
            break
        ids.append(best)
    return decode(vocabulary, ids).decode("utf-8", "replace")


# ---- the result --------------------------------------------------------------------------------
def write_checkpoint(path: Path, model: Llama) -> None:
    """Write a llama2.c checkpoint, with its two tables of rotations as zeros."""
    stacked = {
        name: torch.stack([getattr(block, name) for block in model.blocks]) for name in vars(Block())["_parameters"]
    }
    order = ("att_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w2", "w3")
    tensors = [model.emb, *(stacked[name] for name in order), model.out_norm, torch.zeros(SEQ, HEAD_DIM)]
    with path.open("wb") as file:
        file.write(struct.pack("<7i", DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ))
        for tensor in tensors:
            file.write(tensor.detach().contiguous().numpy().astype("<f4").tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the model directory to write")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=15.0, help="stop after this time at the latest")
    parser.add_argument("--steps", type=int, default=3000, help="stop after so many steps")
    options = parser.parse_args()
    recipe = Recipe(options.seed, options.minutes, options.steps)
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    vocabulary = learn(itertools.islice(stories(recipe.seed), 4000), VOCAB)
    encoder, model = Encoder(vocabulary), Llama()
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    steps, loss = train(model, batches(encoder, stories(recipe.seed), recipe.batch), recipe)
    unseen = validate(model, batches(encoder, stories(recipe.seed + 1), recipe.batch), 20)
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint, tokenizer = Path(scratch, "tiny.bin"), Path(scratch, "tokenizer.bin")
        write_checkpoint(checkpoint, model)
        write_vocabulary(tokenizer, vocabulary)
        info = import_llama2c(checkpoint, tokenizer, options.out)
    record = {
        "command": f"python tools/train_tiny.py --out models/tiny --seed {recipe.seed} --steps {recipe.max_steps}",
        "seed": recipe.seed,
        "steps": steps,
        "tokens": steps * recipe.batch * SEQ,
        "loss": round(loss, 4),
        "loss_on_unseen_stories": round(unseen, 4),
        "torch": torch.__version__,
        "processor": platform.machine(),
    }
    stories_told = {prompt: greedy(model, vocabulary, prompt) for prompt in PROMPTS}
    describe(options.out, record, sum(p.numel() for p in model.parameters()), stories_told)
    print(info.digest, record)


def describe(out: Path, record: dict[str, Any], parameters: int, told: dict[str, str]) -> None:
    """Write down, in the configuration and for people, how the model came to be."""
    config = json.loads((out / "config.json").read_text())
    del config["vx"]["imported"]
    config["vx"]["training"] = record
    write_json(out / "config.json", config)
    samples = "\n\n".join(f"> {text.replace(chr(10), chr(10) + '> ')}" for text in told.values())
    (out / "README.md").write_text(
        README.format(parameters=parameters, samples=samples, **record, **{n: globals()[n] for n in SIZES}),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
