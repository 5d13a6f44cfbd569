"""The model that ships: small, sound, and able to tell a story."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest
from llama_reference import greedy

from vx.model.info import load_model
from vx.model.tokenizer import Vocabulary, decode, encode, unpack
from vx.model.weights import read_tokenizer

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "models" / "tiny"


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return unpack(read_tokenizer(load_model(TINY)))


def tell(vocabulary: Vocabulary, prompt: str) -> str:
    ids = greedy(load_model(TINY), encode(vocabulary, prompt.encode()), 256)
    return decode(vocabulary, ids[: ids.index(vocabulary.eos)]).decode()


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in TINY.iterdir()) <= 2_000_000


def test_it_says_how_it_was_made() -> None:
    training = json.loads((TINY / "config.json").read_text())["vx"]["training"]
    readme = (TINY / "README.md").read_text()
    assert training["command"] in readme and str(training["loss_on_unseen_stories"]) in readme


@pytest.mark.parametrize("prompt", ["", "One day, a big bear", "Lily and Tom", "The little dog was sad because"])
def test_it_tells_the_stories_of_its_readme(vocabulary: Vocabulary, prompt: str) -> None:
    story = tell(vocabulary, prompt)
    assert story.startswith(prompt or "Once upon a time") and len(story) > 200
    assert f"> {story}\n" in (TINY / "README.md").read_text()


def test_its_tokenizer_follows_from_the_grammar_in_tools(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from tiny_bpe import learn
    from tiny_stories import stories

    learned = learn(itertools.islice(stories(7), 4000), len(vocabulary.tokens))
    assert [token.text for token in learned.tokens] == [token.text for token in vocabulary.tokens]
    for text in itertools.islice(stories(99), 20):
        assert encode(learned, text.encode()) == encode(vocabulary, text.encode())
        assert decode(vocabulary, encode(vocabulary, text.encode())).decode() == text
    for name in ("tiny_bpe", "tiny_stories", "tiny_words"):
        sys.modules.pop(name, None)
