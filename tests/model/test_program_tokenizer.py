"""`programs/tokenizer.vx` and `printer.vx` against their Python descriptions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import vx
from vx.model.info import ModelInfo
from vx.model.tokenizer import Vocabulary, decode, encode, unpack
from vx.model.weights import read_tokenizer

PROGRAMS = Path(__file__).resolve().parents[2] / "programs"

ENCODE = """
import printer;
import tokenizer;
import std::env;

fn main() -> i32 {
  let ids = encode(arg(0));
  let mut out = Printer::new(arg_count() > 1);
  for i in 0..ids.len() { out.put(ids.get(i)); }
  out.finish();
  0
}
"""

TEXTS = [
    b"",
    b"Once upon a time",
    b" ",
    b"  two  spaces ",
    b"Lily's caf\xc3\xa9, \xe2\x80\x9cquoted\xe2\x80\x9d \xf0\x9f\x98\x80!",
    b"tab\tand\nnewline",
    b"\xff\xfe broken \xc3",
    b"\x80\x81\x82\x83\x84\x85 stray",
    b"\xe2\x82",
    b"\xed\xa0\x80 surrogate",
    b"<0x41><s></s>",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    bytes(range(1, 256)),
]


@pytest.fixture(scope="module")
def program(stories: ModelInfo, tmp_path_factory: pytest.TempPathFactory) -> vx.Program:
    folder = tmp_path_factory.mktemp("tokenizer")
    for name in ("tokenizer.vx", "printer.vx"):
        shutil.copy(PROGRAMS / name, folder)
    (folder / "encode.vx").write_text(ENCODE)
    return vx.compile(folder / "encode.vx", model=stories.dir)


@pytest.fixture(scope="module")
def vocabulary(stories: ModelInfo) -> Vocabulary:
    return unpack(read_tokenizer(stories))


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_encodes_as_described(program: vx.Program, vocabulary: Vocabulary, text: bytes) -> None:
    result = program.run([text, "ids"], timeout=20)
    assert [int(word) for word in result.stdout.split()] == encode(vocabulary, text)


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_prints_what_was_encoded_as_utf8(program: vx.Program, vocabulary: Vocabulary, text: bytes) -> None:
    printed = program.run([text], timeout=20).output
    expected = decode(vocabulary, encode(vocabulary, text)).decode("utf-8", "replace")
    assert printed.decode("utf-8") == expected + "\n"


def test_a_long_prompt_takes_no_quadratic_time(program: vx.Program, vocabulary: Vocabulary) -> None:
    text = b"Once upon a time there was a caf\xc3\xa9. " * 2000
    ids = [int(word) for word in program.run([text, "ids"], timeout=5).stdout.split()]
    assert len(ids) < len(text) // 2
    assert decode(vocabulary, ids) == text
