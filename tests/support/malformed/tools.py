"""Ways through a document, and slips of the pen."""

import difflib
import random
from typing import Any

Document = dict[str, Any]


def leaves(document: Document, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Every value that is checked, by its path."""
    found = []
    for key, value in document.items():
        if key in ("readings", "paper"):
            continue
        inside = leaves(value, (*path, key)) if isinstance(value, dict) else []
        found += inside or [((*path, key), value)]
    return found


def at(document: Document, path: tuple[str, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def put(document: Document, path: tuple[str, ...], value: Any) -> Document:
    at(document, path[:-1])[path[-1]] = value
    return document


def typo(rng: random.Random, word: str) -> str:
    place, letter = rng.randrange(len(word)), rng.choice("aeiounrst")
    return rng.choice(
        [
            word[:place] + word[place + 1 :],
            word[:place] + letter + word[place:],
            word[:place] + letter + word[place + 1 :],
            word[:place] + word[place : place + 2][::-1] + word[place + 2 :],
            word.upper(),
            word + "s",
            word.replace("_", "-"),
        ]
    )


def near(given: str, meant: str) -> list[str]:
    """What is meant must be named where it is near; capitals are far from small letters."""
    return [repr(meant)] if difflib.SequenceMatcher(None, meant, given).ratio() > 0.75 else []
