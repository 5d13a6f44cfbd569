"""The packed tokenizer: it says the same as the file it came from, and encodes as llama2.c does."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vx.model.errors import ModelError
from vx.model.tokenizer import (
    BYTE,
    CONTROL,
    NO_ID,
    Token,
    Vocabulary,
    byte_vocabulary,
    decode,
    encode,
    pack,
    read_vocabulary,
    unpack,
    write_vocabulary,
)


def small() -> Vocabulary:
    """unk, bos, eos, 256 bytes, then a few texts of which some merge."""
    texts = [
        (b"ab", -1.0),
        (b"bc", 0.0),
        (b"abab", -2.0),
        (b" ", -9.0),
        (b"a", -9.0),
        (b"b", -9.0),
        (b"c", -9.0),
        ("é".encode(), -9.0),
    ]
    tokens = [*byte_vocabulary().tokens, *(Token(text, score) for text, score in texts)]
    return Vocabulary(tuple(tokens))


def names(vocabulary: Vocabulary, text: bytes) -> list[bytes]:
    return [vocabulary.tokens[id_].text for id_ in encode(vocabulary, text)[1:]]


def test_golden_prompts(shared: Callable[..., Path], golden: Any) -> None:
    vocabulary = read_vocabulary(shared("models", "tok512.bin"))
    for which in (vocabulary, unpack(pack(vocabulary))):
        for case in golden["cases"]:
            assert encode(which, case["prompt"].encode()) == case["prompt_ids"]
            printed = decode(which, case["ids"]).decode()
            assert printed == case["text"].replace("<0x0A>", "\n").replace("\n<s>\n ", "").replace("\n</s>\n", "")


def test_the_higher_score_merges_first_then_the_leftmost() -> None:
    vocabulary = small()
    assert names(vocabulary, b"abc") == [b" ", b"a", b"bc"]
    assert names(vocabulary, b"ababab") == [b" ", b"abab", b"ab"]
    assert encode(vocabulary, b"") == [1]


def test_what_is_no_token_becomes_bytes() -> None:
    vocabulary = small()
    assert names(vocabulary, "é中".encode()) == [b" ", "é".encode(), b"\xe4", b"\xb8", b"\xad"]
    assert names(vocabulary, b"\xc3") == [b" ", b"\xc3"]
    assert names(vocabulary, b"\x80\x80\x80\x80\x80a") == [b" "] + [b"\x80"] * 5 + [b"a"]


def test_a_vocabulary_without_bytes_uses_unk() -> None:
    vocabulary = Vocabulary(
        (Token(b"<unk>", 0.0, CONTROL), Token(b"", 0.0, CONTROL), Token(b"", 0.0, CONTROL), Token(b" ", 0.0))
    )
    assert encode(vocabulary, b"x") == [1, 3, 0]


@given(st.binary(max_size=60))
def test_any_bytes_round_trip(text: bytes) -> None:
    vocabulary = small()
    assert decode(vocabulary, encode(vocabulary, text)) == text
    plain = byte_vocabulary()
    assert decode(plain, encode(plain, text)) == text


def test_the_layout_is_what_its_description_says() -> None:
    vocabulary = small()
    data = pack(vocabulary)
    head = struct.unpack_from("<16I", data)
    assert head[:9] == (0x4B545856, 1, 267, 8, 4, 1, 0, 1, 2) and head[13] == len(data)
    records = [struct.unpack_from("<4I", data, head[9] + 16 * id_) for id_ in range(267)]
    for token, (start, length, _, kind) in zip(vocabulary.tokens, records, strict=True):
        assert data[start : start + length] == token.text and kind == token.kind
    by_priority = sorted(range(259, 267), key=lambda id_: records[id_][2])
    assert by_priority == sorted(range(259, 267), key=lambda id_: vocabulary.tokens[id_].score)
    order = struct.unpack_from("<8I", data, head[10])
    texts = [vocabulary.tokens[id_].text for id_ in order]
    assert texts == sorted(texts) and set(order) == set(range(259, 267))
    ids = struct.unpack_from("<256I", data, head[11])
    assert ids == tuple(range(3, 259))


def test_equal_texts_are_found_once_by_their_lowest_id() -> None:
    tokens = (*byte_vocabulary().tokens, Token(b"a", 0.0), Token(b"a", 5.0), Token(b"", 0.0))
    data = pack(Vocabulary(tokens))
    assert struct.unpack_from("<I", data, 12) == (1,)
    assert encode(Vocabulary(tokens, space_first=False), b"a") == [1, 259]


def test_a_byte_without_a_token_has_no_id() -> None:
    data = pack(Vocabulary(byte_vocabulary().tokens[:5]))
    at = struct.unpack_from("<I", data, 44)[0]
    assert struct.unpack_from("<3I", data, at) == (3, 4, NO_ID)


def test_files_round_trip(tmp_path: Path, shared: Callable[..., Path]) -> None:
    source = shared("models", "tokenizer.bin")
    vocabulary = read_vocabulary(source)
    assert len(vocabulary.tokens) == 32000 and sum(token.kind == BYTE for token in vocabulary.tokens) == 256
    write_vocabulary(tmp_path / "copy.bin", vocabulary)
    assert (tmp_path / "copy.bin").read_bytes() == source.read_bytes()


@given(st.integers(0, 63), st.integers(0, 255))
def test_a_damaged_header_is_refused_or_harmless(at: int, value: int) -> None:
    data = bytearray(pack(small()))
    data[at] = value
    try:
        unpack(bytes(data))
    except ModelError as error:
        assert error.code == "E9107"


def test_a_short_tensor_is_refused() -> None:
    for size in (0, 63, 200):
        with pytest.raises(ModelError, match="E9107"):
            unpack(pack(small())[:size])
