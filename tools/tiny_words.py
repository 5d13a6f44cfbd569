"""What every story of the tiny model's text is made of: people, places, things, how to begin and how to end.

Enters: a source of random choices. Leaves: words and sentences for `tiny_stories.py`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

GIRLS = [
    "Mia",
    "Lily",
    "Emma",
    "Nora",
    "Zoe",
    "Anna",
    "Ella",
    "Ruby",
    "Sara",
    "Lucy",
    "Ivy",
    "Rosa",
    "Kate",
    "Amy",
    "Clara",
    "Maya",
]
BOYS = [
    "Tom",
    "Ben",
    "Max",
    "Sam",
    "Leo",
    "Jack",
    "Finn",
    "Tim",
    "Noah",
    "Otto",
    "Paul",
    "Jim",
    "Theo",
    "Luke",
    "Nick",
    "Adam",
]
ANIMALS = [
    "dog",
    "cat",
    "rabbit",
    "bear",
    "fox",
    "mouse",
    "duck",
    "frog",
    "owl",
    "squirrel",
    "hedgehog",
    "turtle",
    "horse",
    "lamb",
    "pig",
    "bird",
]
SMALL = [
    "kitten",
    "puppy",
    "bird",
    "mouse",
    "rabbit",
    "duckling",
    "frog",
    "hedgehog",
    "squirrel",
    "turtle",
    "lamb",
    "bee",
]
PET_NAMES = ["Pip", "Coco", "Dot", "Bobo", "Nibbles", "Fluff", "Pepper", "Sunny", "Biscuit", "Hoppy", "Button", "Momo"]
PLACES = [
    "park",
    "garden",
    "forest",
    "beach",
    "farm",
    "river",
    "lake",
    "hill",
    "meadow",
    "market",
    "playground",
    "yard",
    "barn",
    "pond",
    "library",
    "zoo",
]
COLORS = ["red", "blue", "green", "yellow", "white", "brown", "pink", "golden"]
TOYS = ["ball", "kite", "boat", "doll", "car", "drum", "truck", "train", "robot", "hat", "balloon", "bike"]
FOODS = ["cake", "apple", "cookie", "pie", "banana", "carrot", "sandwich", "berry", "pear", "muffin"]
FAMILY = (("mom", "her"), ("dad", "his"), ("grandma", "her"), ("grandpa", "his"))
GOOD = ["happy", "glad", "proud"]
MORALS = (
    "it is good to help others",
    "sharing makes everyone happy",
    "friends are the best gift",
    "it is good to be kind",
    "it is good to try again",
    "even small friends can do big things",
)


@dataclass(frozen=True, slots=True)
class Hero:
    """Whom a story is about: how to name them, and their pronouns."""

    name: str
    kind: str
    he: str
    him: str
    his: str

    @property
    def He(self) -> str:
        return self.he.capitalize()


class Teller:
    """One story being told: its random choices and small helpers of grammar."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def one(self, options: tuple[str, ...] | list[str]) -> str:
        """One of the options, the first ones more often."""
        weights = [1.0 / (2 + at) for at in range(len(options))]
        return self.rng.choices(options, weights)[0]

    def any(self, words: list[str]) -> str:
        return self.rng.choice(words)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def child(self, other_than: str = "") -> Hero:
        girl = self.chance(0.5)
        name = self.any([n for n in (GIRLS if girl else BOYS) if n != other_than])
        return Hero(name, "girl", "she", "her", "her") if girl else Hero(name, "boy", "he", "him", "his")

    def animal(self) -> Hero:
        name, kind = self.any(PET_NAMES), self.any(ANIMALS)
        return Hero(name, kind, "he", "him", "his") if self.chance(0.5) else Hero(name, kind, "she", "her", "her")


def a(word: str) -> str:
    """The word with its article."""
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


# ---- openings and endings ----------------------------------------------------------------------
def opening(t: Teller, hero: Hero) -> str:
    adjective = t.one(["little", "small", "young", "kind", "happy"])
    who = f"{a(adjective)} {hero.kind} named {hero.name}"
    return t.one(
        [
            f"Once upon a time, there was {who}.",
            f"Once upon a time, there lived {who}.",
            f"There once was {who}.",
            f"{hero.name} was {a(adjective)} {hero.kind}.",
        ]
    )


def liking(t: Teller, hero: Hero, place: str) -> str:
    return t.one(
        [
            f"{hero.He} loved to play in the {place}.",
            f"{hero.He} liked to walk in the {place} and look at the flowers.",
            f"Every day, {hero.he} went to the {place} to play.",
            f"{hero.He} lived near the {place} with {hero.his} family.",
            f"{hero.He} loved to run and jump and sing.",
        ]
    )


def one_day(t: Teller) -> str:
    return t.one(["One day,", "One sunny day,", "One morning,", "One warm day,", "One windy day,"])


def ending(t: Teller, names: str, moral: str) -> str:
    """The last sentences, about two."""
    last = t.one(
        [
            f"From that day on, {names} were best friends.",
            f"{names} learned that {moral}.",
            f"{names} went home with a big smile.",
            f"{names} were very {t.any(GOOD)}.",
            f"And {names} lived happily ever after.",
        ]
    )
    return _capital(last) + evening(t, names[0].lower() + names[1:] if names.startswith("The ") else names)


def _capital(sentence: str) -> str:
    return sentence.replace(", The ", ", the ").replace("And The ", "And the ")


def ending_one(t: Teller, hero: Hero, moral: str) -> str:
    """The last sentences, about one."""
    last = t.one(
        [
            f"{hero.name} learned that {moral}.",
            f"{hero.name} went home with a big smile.",
            f"{hero.name} was very {t.any(GOOD)} that day.",
            f"That night, {hero.name} slept well and had a sweet dream.",
            f"And {hero.name} never forgot that day.",
        ]
    )
    return last + evening(t, hero.name)


def evening(t: Teller, who: str) -> str:
    """Sometimes, a second paragraph."""
    if t.chance(0.6):
        return ""
    place = t.any(PLACES)
    return "\n" + t.one(
        [
            f"The next day, {who} went to the {place} again. The sun was warm and the sky was blue.",
            f"In the evening, {who} looked at the stars. It was a good day.",
            f"When the moon came out, {who} went to bed. It was a long day.",
            f"The next morning, {who} told everyone in the {place} what had happened.",
        ]
    )
