"""Tokenizers: from a vocabulary with scores to the tensor `tokenizer` that programs read.

Enters: a tokenizer file of llama2.c (i32 longest token; per token f32 score, i32 length, bytes) or a
`Vocabulary` made elsewhere. Leaves: the packed bytes below, and back. `encode` and `decode` say in
Python what the Vx tokenizer does; the tests hold the two against each other.

**The packed layout** needs no sorting and no floating point at run time. Everything is u32, little-endian;
offsets count from the start of the tensor.

| at | field | |
|---|---|---|
| 0 | magic | `VXTK` (0x4B545856) |
| 4 | version | 1 |
| 8 | tokens | how many, N; ids at or beyond N print as nothing |
| 12 | texts | how many of them can be found by text, M |
| 16 | longest | bytes of the longest such text |
| 20 | flags | bit 0: a prompt that is not empty gets a space in front |
| 24, 28, 32 | unk, bos, eos | ids |
| 36 | records | offset of N records (64) |
| 40 | sorted | offset of M ids, ascending by text (bytes compared as u8, a prefix before what it begins) |
| 44 | bytes | offset of 256 ids: the token that stands for that byte, or 0xFFFFFFFF |
| 48 | text | offset of all texts, one after the other |
| 52 | size | bytes of the whole tensor |
| 56 | | 8 bytes of zeros |

A record is `{start, length, priority, kind}`, 16 bytes: `start` is the offset of what the token prints.
Of the pairs of neighbours whose joined text is a token, the one with the highest priority merges first,
the leftmost of equals. Kinds: 0 text; 1 control, which prints nothing; 2 byte, which prints its one
byte. Only texts are in `sorted`.

**Encoding**: bos; then, if there is text and flag 0, a space; then each UTF-8 character that is a text
becomes its token, any other its bytes' tokens (unk where there is none); then pairs merge while any can. The
space and a character each stand alone before merging. Broken UTF-8 needs no rule of its own: a
character is a byte and up to three continuation bytes (10xxxxxx) after it.
**Decoding**: each token prints its bytes; with flag 0, a space that begins the token after bos is left out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from pathlib import Path

from vx.model.errors import ModelError, printable, reading

MAGIC, VERSION, HEADER_BYTES, RECORD_BYTES = 0x4B545856, 1, 64, 16
NO_ID = 0xFFFFFFFF
TEXT, CONTROL, BYTE = 0, 1, 2
FILE_LIMIT = 128 << 20
"""Bytes of the largest tokenizer file read."""
TOKEN_LIMIT = 1024
"""Bytes of the longest token believed."""


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is what the token prints (one byte for kind `BYTE`); of two merges the higher score goes first."""

    text: bytes
    score: float
    kind: int = TEXT


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens by id, with the special ids. `space_first`: prompts get a space in front."""

    tokens: tuple[Token, ...]
    unk: int = 0
    bos: int = 1
    eos: int = 2
    space_first: bool = True


# ---- llama2.c's file ---------------------------------------------------------------------------
def read_vocabulary(path: Path) -> Vocabulary:
    """Read a llama2.c tokenizer file: ids 0, 1, 2 are unk, bos, eos. E9101, E9107, E9111."""
    with reading(path, "tokenizer"), path.open("rb") as file:
        data = file.read(FILE_LIMIT + 1)
    pieces = _pieces(data, path)
    tokens = [_token(text, score) for score, text in pieces]
    for special in range(min(3, len(tokens))):
        tokens[special] = Token(tokens[special].text, 0.0, CONTROL)
    if len(tokens) < 3:
        raise ModelError(
            "E9107", f"the tokenizer `{printable(path)}` has {len(tokens)} tokens; it needs unk, bos and eos"
        )
    return Vocabulary(tuple(tokens))


def _pieces(data: bytes, path: Path) -> list[tuple[float, bytes]]:
    def refuse(message: str) -> ModelError:
        return ModelError("E9107", f"the tokenizer `{printable(path)}` {message}")

    if len(data) > FILE_LIMIT:
        raise refuse(f"is larger than {FILE_LIMIT} bytes")
    if len(data) < 4:
        raise refuse(f"is only {len(data)} bytes long")
    longest = int.from_bytes(data[:4], "little", signed=True)
    if not 1 <= longest <= TOKEN_LIMIT:
        raise refuse(f"claims tokens of up to {longest} bytes: not a llama2.c tokenizer")
    pieces: list[tuple[float, bytes]] = []
    at = 4
    while at < len(data):
        if at + 8 > len(data):
            raise refuse(f"is truncated in token {len(pieces)}")
        score, length = struct.unpack_from("<fi", data, at)
        at += 8
        if not 0 <= length <= longest or not isfinite(score):
            raise refuse(f"is damaged at token {len(pieces)}: length {length}, score {score}")
        if at + length > len(data):
            raise refuse(f"is truncated in token {len(pieces)}")
        pieces.append((score, data[at : at + length]))
        at += length
    return pieces


def _token(text: bytes, score: float) -> Token:
    if re.fullmatch(rb"<0x[0-9A-F]{2}>", text):
        return Token(bytes([int(text[3:5], 16)]), score, BYTE)
    return Token(text, score)


def write_vocabulary(path: Path, vocabulary: Vocabulary) -> None:
    """Write a llama2.c tokenizer file: the inverse of `read_vocabulary`."""
    names = {vocabulary.bos: b"\n<s>\n", vocabulary.eos: b"\n</s>\n", vocabulary.unk: b"<unk>"}
    texts = [
        names.get(id_, f"<0x{token.text[0]:02X}>".encode() if token.kind == BYTE else token.text)
        for id_, token in enumerate(vocabulary.tokens)
    ]
    parts = [struct.pack("<i", max(map(len, texts)))]
    for token, text in zip(vocabulary.tokens, texts, strict=True):
        parts += [struct.pack("<fi", token.score, len(text)), text]
    path.write_bytes(b"".join(parts))


def byte_vocabulary(bos: int = 1, eos: int = 2) -> Vocabulary:
    """One token per byte after unk, bos and eos: what a model without a tokenizer gets.

    `bos` and `eos` are the model's ids, which may lie beyond these 259 tokens.
    """
    tokens = [Token(name, 0.0, CONTROL) for name in (b"<unk>", b"<s>", b"</s>")]
    tokens += [Token(bytes([value]), 0.0, BYTE) for value in range(256)]
    return Vocabulary(tuple(tokens), bos=bos, eos=eos, space_first=False)


# ---- packing -----------------------------------------------------------------------------------
def pack(vocabulary: Vocabulary) -> bytes:
    """The tensor `tokenizer` of a vocabulary, in the layout above."""
    tokens = vocabulary.tokens
    order = _by_text(tokens)
    priorities = {score: rank for rank, score in enumerate(sorted({token.score for token in tokens}))}
    byte_ids = [NO_ID] * 256
    for id_, token in reversed(list(enumerate(tokens))):
        if token.kind == BYTE:
            byte_ids[token.text[0]] = id_
    at_sorted = HEADER_BYTES + RECORD_BYTES * len(tokens)
    at_bytes = at_sorted + 4 * len(order)
    at_text = at_bytes + 4 * 256
    records, start = [], at_text
    for token in tokens:
        records += [start, len(token.text), priorities[token.score], token.kind]
        start += len(token.text)
    header = [MAGIC, VERSION, len(tokens), len(order), max((len(tokens[i].text) for i in order), default=0)]
    header += [int(vocabulary.space_first), vocabulary.unk, vocabulary.bos, vocabulary.eos]
    header += [HEADER_BYTES, at_sorted, at_bytes, at_text, start, 0, 0]
    numbers = [*header, *records, *order, *byte_ids]
    return struct.pack(f"<{len(numbers)}I", *numbers) + b"".join(token.text for token in tokens)


def _by_text(tokens: Sequence[Token]) -> list[int]:
    """Ids of the distinct texts in ascending order; of equal texts the lowest id."""
    first: dict[bytes, int] = {}
    for id_, token in enumerate(tokens):
        if token.kind == TEXT and token.text:
            first.setdefault(token.text, id_)
    return [first[text] for text in sorted(first)]


def unpack(data: bytes) -> Vocabulary:
    """The vocabulary of a tensor `tokenizer`; scores are its priorities. E9107 if it is not one."""

    def refuse(message: str) -> ModelError:
        return ModelError("E9107", f"the packed tokenizer {message}")

    if len(data) < HEADER_BYTES:
        raise refuse("is too short")
    head = struct.unpack_from("<16I", data)
    magic, version, count, _, _, flags, unk, bos, eos, at = head[:10]
    if (magic, version, at) != (MAGIC, VERSION, HEADER_BYTES) or head[13] != len(data):
        raise refuse("has a damaged header or another version")
    if at + RECORD_BYTES * count > len(data):
        raise refuse(f"is too short for its {count} tokens")
    tokens: list[Token] = []
    for start, length, priority, kind in struct.iter_unpack("<4I", data[at : at + RECORD_BYTES * count]):
        if start + length > len(data) or kind > BYTE or (kind == BYTE and length != 1):
            raise refuse(f"is damaged at token {len(tokens)}")
        tokens.append(Token(data[start : start + length], float(priority), kind))
    return Vocabulary(tuple(tokens), unk, bos, eos, bool(flags & 1))


# ---- what the Vx tokenizer does, in Python -----------------------------------------------------
def encode(vocabulary: Vocabulary, text: bytes) -> list[int]:
    """The ids of a prompt, bos first."""
    tokens = vocabulary.tokens
    by_text = {tokens[id_].text: id_ for id_ in _by_text(tokens)}
    characters = re.findall(rb"[\x00-\xff][\x80-\xbf]{0,3}", text)
    if text and vocabulary.space_first:
        characters.insert(0, b" ")
    ids = _merged(list(_first_ids(vocabulary, by_text, characters)), tokens, by_text)
    return [vocabulary.bos, *ids]


def _first_ids(vocabulary: Vocabulary, by_text: Mapping[bytes, int], characters: Iterable[bytes]) -> Iterator[int]:
    byte_ids = {token.text[0]: id_ for id_, token in reversed(list(enumerate(vocabulary.tokens))) if token.kind == BYTE}
    for character in characters:
        if character in by_text:
            yield by_text[character]
        else:
            yield from (byte_ids.get(byte, vocabulary.unk) for byte in character)


def _merged(ids: list[int], tokens: Sequence[Token], by_text: Mapping[bytes, int]) -> list[int]:
    texts = [token.text if token.kind == TEXT else None for token in tokens]
    while True:
        best = None
        for at, (left, right) in enumerate(pairwise(ids)):
            a, b = texts[left], texts[right]
            merged = None if a is None or b is None else by_text.get(a + b)
            if merged is not None and (best is None or tokens[merged].score > best[0]):
                best = (tokens[merged].score, at, merged)
        if best is None:
            return ids
        ids[best[1] : best[1] + 2] = [best[2]]


def decode(vocabulary: Vocabulary, ids: Iterable[int]) -> bytes:
    """What the ids print."""
    out, previous = [], None
    for id_ in ids:
        token = vocabulary.tokens[id_] if id_ < len(vocabulary.tokens) else None
        text = b"" if token is None or token.kind == CONTROL else token.text
        first = previous == vocabulary.bos and vocabulary.space_first
        out.append(text.removeprefix(b" ") if first else text)
        previous = id_
    return b"".join(out)
