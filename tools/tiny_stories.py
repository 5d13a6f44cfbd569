"""Children's stories from a grammar: the text that our tiny model learns from.

Enters: a seed. Leaves: any number of short stories, the same for the same seed. Every story picks its people,
animals, places and things first and keeps to them, so that a model has something to remember.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from tiny_words import (
    ANIMALS,
    COLORS,
    FAMILY,
    FOODS,
    MORALS,
    PLACES,
    SMALL,
    TOYS,
    Teller,
    a,
    ending,
    ending_one,
    liking,
    one_day,
    opening,
)


def lost_toy(t: Teller) -> str:
    hero, place = t.child(), t.any(PLACES)
    toy = f"{t.any(COLORS)} {t.any(TOYS)}"
    friend = t.any(ANIMALS)
    noun = toy.split()[1]
    found = t.one(["under a bush", "behind a big tree", "in the tall grass", "next to a big rock", "under a bench"])
    parts = [
        opening(t, hero),
        t.one([f"{hero.He} had {a(toy)}.", f"{hero.He} loved {hero.his} {toy} very much."]),
        f"{one_day(t)} {hero.he} took the {noun} to the {place}.",
        t.one(
            [f"But then the wind blew and the {noun} was gone.", f"But when {hero.he} looked up, the {noun} was gone."]
        ),
        f"{hero.name} was very sad. "
        + t.one([f'"Where is my {noun}?" {hero.he} cried.', f"{hero.He} started to cry."]),
        f"A friendly {friend} came by. " + f'"Why are you sad?" asked the {friend}.',
        f'"I lost my {toy}," said {hero.name}.',
        t.one(
            [f'"I will help you," said the {friend}.', f'"Do not cry. We can look for it together," said the {friend}.']
        ),
        t.one(
            ["They looked and looked.", f"They looked all over the {place}.", "They looked here and they looked there."]
        ),
        f"At last, they found the {noun} {found}.",
        f'"Thank you!" said {hero.name}. {hero.He} gave the {friend} a big hug.',
        ending(t, f"{hero.name} and the {friend}", MORALS[0]),
    ]
    return " ".join(parts)


def helped_animal(t: Teller) -> str:
    hero, place, small = t.child(), t.any(PLACES), t.any(SMALL)
    trouble, remedy = t.rng.choice(
        [
            ("was hungry", f"gave the {small} some food"),
            ("was cold", f"put the {small} in a warm blanket"),
            ("was stuck under a branch", "lifted the branch and pulled"),
            ("was lost and alone", f"took the {small} back to its mother"),
            ("had a hurt leg", "put a soft bandage on its leg"),
            ("was thirsty", f"gave the {small} some water"),
        ]
    )
    parts = [
        opening(t, hero),
        liking(t, hero, place),
        f"{one_day(t)} {hero.name} saw a little {small} in the {place}. The {small} {trouble}.",
        t.one(
            [
                f'"Oh no! Poor little {small}," said {hero.name}.',
                f'"Do not be afraid," said {hero.name}. "I will help you."',
            ]
        ),
        f"{hero.name} {remedy}.",
        t.one([f"Soon the {small} felt better.", f"The {small} looked up and was not sad any more."]),
        t.one(
            [
                f'"Thank you, {hero.name}," said the {small}.',
                f"The {small} was so happy that it danced around {hero.him}.",
            ]
        ),
        t.one(
            [
                f"They played in the {place} all day.",
                "They played until the sun went down.",
                "They ran and jumped and laughed.",
            ]
        ),
        ending(t, f"{hero.name} and the {small}", MORALS[3]),
    ]
    return " ".join(parts)


def shared(t: Teller) -> str:
    first = t.child()
    second = t.child(first.name)
    toy, place = t.any(TOYS), t.any(PLACES)
    parts = [
        t.one(
            [
                f"{first.name} and {second.name} went to the {place}.",
                f"Once upon a time, there were two friends named {first.name} and {second.name}.",
                f"One day, {first.name} and {second.name} went to the {place} to play.",
            ]
        ),
        f"They saw a big {t.any(COLORS)} {toy}.",
        f'"Look at the {toy}!" said {first.name}. "I want to play with it."',
        f'"No, I saw it first," said {second.name}.',
        t.one(
            [f"They both pulled the {toy} and they were angry.", f"{first.name} was sad, and {second.name} was angry."]
        ),
        t.one(
            [
                f'Then {first.name} said, "I am sorry. We can share the {toy}."',
                f'Then {second.name} had an idea. "Let us play with the {toy} together," {second.he} said.',
                f'Then {first.name}\'s mom came. "You can take turns," she said.',
            ]
        ),
        t.one([f"So they took turns with the {toy}.", f"So they played with the {toy} together."]),
        t.one(["It was so much fun.", "They laughed and laughed.", f"They had a lot of fun in the {place}."]),
        ending(t, f"{first.name} and {second.name}", MORALS[1]),
    ]
    return " ".join(parts)


def rainy_day(t: Teller) -> str:
    hero, place = t.child(), t.any(PLACES)
    parent, _ = t.rng.choice(FAMILY)
    idea, doing = t.rng.choice(
        [
            ("bake a cake", "They mixed the eggs, the milk and the sugar. The cake was sweet and warm."),
            ("build a house of pillows", "They put pillows on the floor and sat inside. It was a cozy little house."),
            ("paint a picture", "They painted a big yellow sun and a green tree."),
            ("read a book", "The book was about a brave mouse who sailed over the sea."),
            ("make paper boats", "They folded the paper and put the boats in the water."),
            ("sing songs", "They sang all the songs they knew, and they danced too."),
        ]
    )
    parts = [
        opening(t, hero),
        f"{one_day(t)} {hero.name} wanted to go to the {place}. But it started to rain.",
        t.one(
            [
                f"{hero.name} looked out of the window and was sad.",
                f'"I can not go out," {hero.he} said. "I am so sad."',
            ]
        ),
        f'"Do not be sad," said {hero.his} {parent}. "We can {idea}."',
        t.one([f'"That is a good idea!" said {hero.name}.', f"{hero.name} smiled and said yes."]),
        doing,
        t.one(
            [
                f"Then the rain stopped and the sun came out. {hero.name} saw a rainbow in the sky.",
                f"{hero.name} forgot all about the rain.",
            ]
        ),
        t.one([f'"This was the best day," said {hero.name}.', f"{hero.name} gave {hero.his} {parent} a big hug."]),
        ending_one(t, hero, "a rainy day can be fun"),
    ]
    return " ".join(parts)


def brave(t: Teller) -> str:
    hero = t.child() if t.chance(0.6) else t.animal()
    friend = t.any(ANIMALS)
    fear, place, act, after = t.rng.choice(
        [
            ("afraid of the water", "lake", "put one foot into the water. Then the other foot", "swam like a fish"),
            ("afraid of the dark", "forest", "took a small lamp and walked into the dark", "saw a thousand stars"),
            (
                "afraid to climb the tall tree",
                "garden",
                "put one foot on the tree. Then the other foot",
                "saw the whole garden from the top",
            ),
            (
                "afraid of the big slide",
                "playground",
                "sat down on the slide and closed both eyes",
                "went down as fast as the wind",
            ),
            (
                "afraid to jump over the stream",
                "meadow",
                "took a deep breath and ran very fast",
                "jumped to the other side",
            ),
        ]
    )
    parts = [
        opening(t, hero),
        f"{hero.He} was {fear}.",
        f"{one_day(t)} {hero.name} went to the {place} with {hero.his} friend, the {friend}.",
        f'"Come with me," said the {friend}. "It is fun!"',
        f'"I can not do it," said {hero.name}. "I am scared."',
        t.one(
            [
                f'"You can do it," said the {friend}. "I am with you."',
                f'"Just try," said the {friend}. "I will hold your hand."',
            ]
        ),
        f"So {hero.name} {act}.",
        t.one([f"And then {hero.he} {after}!", f"It was not so bad. Soon {hero.he} {after}."]),
        t.one([f'"I did it!" said {hero.name}.', f"{hero.name} laughed and wanted to do it again."]),
        ending_one(t, hero, "it is good to be brave"),
    ]
    return " ".join(parts)


def try_again(t: Teller) -> str:
    hero, place = t.animal(), t.any(PLACES)
    goal, first, second, last = t.rng.choice(
        [
            (
                "eat the big apple on the tree",
                "jumped, but the tree was too tall",
                "threw a stone, but it missed",
                "stood on a box",
            ),
            ("fly a kite", "ran, but the kite fell down", "ran faster, but the kite fell again", "waited for the wind"),
            (
                "cross the river",
                "stepped into the water, but it was too deep",
                "tried to jump, but it was too far",
                "built a small bridge",
            ),
            (
                "build a house",
                "used leaves, but the wind blew them away",
                "used sticks, but they broke",
                "used strong stones",
            ),
            (
                "catch the red ball",
                "ran left, but the ball went right",
                "ran right, but the ball went left",
                "stood still and waited",
            ),
        ]
    )
    helper = t.any([animal for animal in ANIMALS if animal != hero.kind])
    parts = [
        opening(t, hero),
        liking(t, hero, place),
        f"{one_day(t)} {hero.name} wanted to {goal}.",
        f"{hero.He} {first}.",
        f"{hero.He} {second}.",
        t.one([f"{hero.name} was sad and sat down.", f'"It is too hard," said {hero.name}.']),
        f'A wise old {helper} said, "Do not give up, {hero.name}. Try one more time."',
        f"So {hero.name} {last}. And it worked!",
        t.one(
            [
                f'"Hooray!" said {hero.name}.',
                f"{hero.name} was so happy that {hero.he} danced.",
                f'"Thank you," said {hero.name}.',
            ]
        ),
        ending_one(t, hero, MORALS[4]),
    ]
    return " ".join(parts)


def gift(t: Teller) -> str:
    hero, food = t.child(), t.any(FOODS)
    parent, _ = t.rng.choice(FAMILY)
    animal = t.any(ANIMALS)
    parts = [
        opening(t, hero),
        f"{one_day(t)} {hero.name} had {a(food)}. It was for {hero.his} {parent}.",
        f"{hero.He} walked down the road with the {food}. On the way, {hero.he} met a hungry {animal}.",
        f'"That {food} looks so good," said the {animal}. "I have not eaten all day."',
        t.one([f"{hero.name} thought for a while.", f"{hero.name} looked at the {food} and then at the {animal}."]),
        t.one([f'"You can have half of it," {hero.he} said.', f'"Here, take some," said {hero.name}.']),
        f"The {animal} ate and was full. "
        + t.one([f'"You are very kind," said the {animal}.', f'"Thank you," said the {animal}.']),
        f"When {hero.name} came home, {hero.his} {parent} smiled.",
        f'"You shared your {food}. That is the best gift of all," said {hero.his} {parent}.',
        ending_one(t, hero, MORALS[1]),
    ]
    return " ".join(parts)


def seed(t: Teller) -> str:
    hero = t.child()
    plant = t.any(["flower", "tree", "pumpkin", "carrot", "sunflower", "bean"])
    parent, _ = t.rng.choice(FAMILY)
    parts = [
        opening(t, hero),
        f"{one_day(t)} {hero.his} {parent} gave {hero.him} a tiny seed.",
        f'"Put it in the ground and give it water," said {hero.his} {parent}.',
        f"{hero.name} put the seed in the garden. Every day, {hero.he} gave it water.",
        t.one(
            [
                "But nothing happened.",
                f"But the {plant} did not grow.",
                "The days went by, and there was nothing to see.",
            ]
        ),
        f'"Why does it not grow?" asked {hero.name}.',
        f'"You have to wait," said {hero.his} {parent}.',
        f"{hero.name} waited and waited. Then, one morning, {hero.he} saw a small green leaf.",
        t.one([f"Soon there was a big {plant} in the garden.", f"The leaf grew and grew. It was a beautiful {plant}."]),
        t.one([f'"Look at my {plant}!" said {hero.name}.', f"All the bees and birds came to see the {plant}."]),
        ending_one(t, hero, "good things take time"),
    ]
    return " ".join(parts)


def shiny_thing(t: Teller) -> str:
    hero, place = t.child(), t.any(PLACES)
    thing = t.any(["key", "ring", "coin", "shell", "stone", "bell"])
    owner = t.any(["old man", "old woman", "baker", "farmer", "king", "queen"])
    parts = [
        opening(t, hero),
        liking(t, hero, place),
        f"{one_day(t)} {hero.name} found a shiny {thing} in the {place}.",
        t.one([f'"What a pretty {thing}!" {hero.he} said.', f'"Whose {thing} is this?" {hero.he} asked.']),
        f"{hero.He} put it in {hero.his} pocket. Then {hero.he} saw a sad {owner}.",
        f'"I lost my {thing}," said the {owner}. "I can not find it."',
        t.one(
            [
                f"{hero.name} wanted to keep the {thing}. But {hero.he} knew what to do.",
                f"{hero.name} felt the {thing} in {hero.his} pocket.",
            ]
        ),
        f'"Here is your {thing}," said {hero.name}.',
        f"The {owner} was so happy. "
        + t.one(
            [f'"You are a good {hero.kind}," said the {owner}.', f"The {owner} gave {hero.name} {a(t.any(FOODS))}."]
        ),
        ending_one(t, hero, "it is good to tell the truth"),
    ]
    return " ".join(parts)


def sad_animal(t: Teller) -> str:
    kind, other = t.rng.sample(ANIMALS, 2)
    place = t.any(PLACES)
    why, speech = t.rng.choice(
        [
            ("it had no friends", "Then I will be your friend"),
            ("it could not find its home", "I know the way"),
            ("it wanted to sing but had no voice", "You can play the drum while I sing"),
            ("it was too small to see the sea", "Sit on my back, and you will see it"),
            ("it had lost its hat", "You can have one of mine"),
            ("nobody wanted to play", "I want to play with you"),
        ]
    )
    parts = [
        t.one(
            [
                f"The little {kind} was sad because {why}.",
                f"Once upon a time, there was a little {kind}. The {kind} was sad because {why}.",
            ]
        ),
        f"It sat in the {place} all day and did not smile.",
        f"{one_day(t)} a big {other} came to the {place}. " + f'"Why are you so sad?" asked the {other}.',
        f"The little {kind} told the {other} everything.",
        f'"{speech}," said the {other}.',
        t.one([f"The little {kind} was not sad any more.", f"The little {kind} smiled for the first time that day."]),
        t.one(
            [
                f"They went to the {place} every day.",
                "They played until the moon came out.",
                "They danced and sang all day.",
            ]
        ),
        ending(t, f"The {kind} and the {other}", MORALS[2]),
    ]
    return " ".join(parts)


def big_and_small(t: Teller) -> str:
    big, small = (
        t.any(["bear", "horse", "fox", "dog"]),
        t.any(["mouse", "frog", "bird", "hedgehog", "squirrel", "duck"]),
    )
    place = t.any(PLACES)
    trouble, rescue = t.rng.choice(
        [
            ("fell into a deep hole", "brought a long rope and tied it to a tree"),
            ("got stuck in a net", "bit the net until it broke"),
            ("had a thorn in one foot", "pulled the thorn out, very slowly"),
            ("could not open the gate", "went under the gate and opened it from the other side"),
        ]
    )
    parts = [
        t.one(
            [
                f"One day, a big {big} met a little {small} in the {place}.",
                f"Once upon a time, a big {big} and a little {small} lived in the {place}.",
            ]
        ),
        f'"You are so small," said the {big}. "You can not help anyone."',
        t.one([f"The {small} was sad and went away.", f'"Wait and see," said the {small}.']),
        f"The next day, the {big} {trouble}.",
        t.one([f'"Help! Help!" cried the {big}.', f"The {big} called for help, but nobody came."]),
        f"The little {small} heard it and ran to the {big}.",
        f"The {small} {rescue}.",
        f'"Thank you," said the {big}. "I am sorry. You are small, but you are a big friend."',
        ending(t, f"The {big} and the {small}", MORALS[5]),
    ]
    return " ".join(parts)


PLOTS: tuple[Callable[[Teller], str], ...] = (
    lost_toy,
    helped_animal,
    shared,
    rainy_day,
    brave,
    try_again,
    gift,
    seed,
    shiny_thing,
    sad_animal,
    big_and_small,
)


def stories(seed_: int) -> Iterator[str]:
    """Stories without end, a function of the seed."""
    rng = random.Random(seed_)
    while True:
        yield rng.choice(PLOTS)(Teller(rng))
