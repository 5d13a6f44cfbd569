"""Byte-pair encoding with byte fallback: the tiny model's tokenizer.

Enters: text. Leaves: a `Vocabulary` in the scheme of llama2.c: unk, bos, eos, 256 bytes, then merges in the
order they were learned (score 0, -1, …), then the characters, which nothing merges into.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from vx.model.tokenizer import BYTE, CONTROL, Token, Vocabulary

PIECE = re.compile(r" ?[A-Za-z]+|[^A-Za-z]")
"""A merge stays inside a word, with the blank before it, or is a single other character."""

Word = tuple[str, ...]


def pieces(text: str) -> Iterator[str]:
    """The parts that are encoded independently: no token spans two of them."""
    return (match.group() for match in PIECE.finditer(" " + text))


def learn(texts: Iterable[str], size: int) -> Vocabulary:
    """Learn a vocabulary of exactly `size` tokens. Newlines are left to the byte tokens."""
    counts = Counter(piece for text in texts for piece in pieces(text))
    words: dict[Word, int] = {tuple(word): count for word, count in counts.items() if word != "\n"}
    characters = sorted({character for word in words for character in word})
    merges = _merges(words, size - 3 - 256 - len(characters))
    tokens = [Token(name, 0.0, CONTROL) for name in (b"<unk>", b"\n<s>\n", b"\n</s>\n")]
    tokens += [Token(bytes([value]), 0.0, BYTE) for value in range(256)]
    texts_ = merges + characters
    tokens += [Token(text.encode(), -float(rank)) for rank, text in enumerate(texts_)]
    return Vocabulary(tuple(tokens))


def _merges(words: dict[Word, int], wanted: int) -> list[str]:
    merges: list[str] = []
    while len(merges) < wanted:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        (left, right), _ = min(pairs.items(), key=lambda item: (-item[1], item[0]))
        merges.append(left + right)
        words = {_joined(word, left, right): count for word, count in words.items()}
    return merges


def _joined(word: Word, left: str, right: str) -> Word:
    out: list[str] = []
    for part in word:
        if out and out[-1] == left and part == right:
            out[-1] = left + right
        else:
            out.append(part)
    return tuple(out)
