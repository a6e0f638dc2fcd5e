"""Experiments with one mistake each, made from valid ones, and what the line about it must name.

cases(count, seed)      the same on every machine: kind after kind, each from a preset of chance

A kind is a function of (rng, document) that gives the file's text, or the whole document to write,
and the words that the line must have; None if its mistake has no place there. Its document is a
preset with more sections than it needs.
"""

import copy
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from stragglers._core import toml_files
from stragglers.config import catalog, documents
from tests.support.malformed import keys, places, text, values
from tests.support.malformed.tools import Document

Made = tuple[str | bytes | Document, list[str]]  # what the file has, and what its line must name
KINDS: list[Callable[[random.Random, Document], Made | None]] = [
    *keys.KINDS,
    *values.KINDS,
    *places.KINDS,
    *text.KINDS,
]
COMMANDS = {text.grid: "tune", places.elsewhere: "plan"}

MORE = {
    "seed": 3,
    "lanes": 4,
    "evaluations": 5,
    "precision": "float32",
    "curve_examples": 100,
    "threads": 2,
    "aggregation": {
        "weight": "examples",
        "staleness": "polynomial",
        "exponent": 0.7,
        "normalise": "count",
    },
    "faults": {"crash": 0.1, "nan": 0.02},
}
SCHEDULE = {"time_limit": {"percentile": 90.0, "scope": "computation", "fill": False}}
CLIENT = {
    "learning_rate": 0.1,
    "batch_size": 5,
    "epochs": 2.0,
    "distillation": 0.1,
    "distillation_loss": "kl",
    "distillation_term": "sum",
    "temperature": 2.0,
    "proximal": 0.01,
    "last_batch": "keep",
}
UNWEIGHTED = ("ca2fl", "fedvarp", "mifa")  # algorithms without weights of reports
NAMES = ["../../x.toml", "a\nb.toml", "\x1b[31mred.toml", "\u202egnp.toml", "ä ö.toml", "'\".toml"]


class Case(NamedTuple):
    kind: str
    text: bytes
    names: list[str]
    command: str  # run, plan or tune
    options: list[str]
    file: str  # its name, some of which are mistakes of their own


def cases(count: int, seed: int) -> Iterator[Case]:
    valid = {name: enriched(catalog.read(name)) for name in catalog.presets()}
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        make = KINDS[number % len(KINDS)]
        made = None
        while made is None:  # a kind that has no place in a document asks for another
            document = copy.deepcopy(valid[rng.choice(sorted(valid))])
            made = make(rng, document)
        content, names = made
        if isinstance(content, dict):
            content = toml_files.dumps(content)
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogatepass")
        command = COMMANDS.get(make, rng.choice(["run", "plan"]))
        options = ["--reading", "literal"] if make is places.reading else []
        file = rng.choice(NAMES[1:]) if make is places.name_of_file else "bad.toml"
        yield Case(make.__name__, content, names, command, options, file)


def enriched(document: Document) -> Document:
    document = {**MORE, **document}
    if document.get("algorithm", {}).get("name") in UNWEIGHTED:
        del document["aggregation"]
    document["schedule"] = {**SCHEDULE, **document["schedule"]}
    document["client"] = {**CLIENT, **document.get("client", {})}
    documents.settings_from(document)  # still a valid one
    return document
