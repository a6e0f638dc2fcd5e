"""Mistakes in the text of a file, and in the grids of `tune`."""

import math
import tomllib

from stragglers._core import toml_files
from tests.support.malformed.tools import Document, leaves, put


def repeated(rng, document):
    lines = toml_files.dumps(document).splitlines()
    number = rng.choice([n for n, line in enumerate(lines) if line and not line.startswith("[")])
    lines.insert(number, lines[number])
    return "\n".join(lines), ["not valid TOML", lines[number].split(" = ")[0]]


def repeated_section(rng, document):
    name = rng.choice([name for name, value in document.items() if isinstance(value, dict)])
    text = toml_files.dumps(document)
    if f"[{name}]" not in text:
        return None
    return f"{text}\n[{name}]\n", ["not valid TOML", name]


def broken(rng, document):
    text = toml_files.dumps(document)
    places = [place for place, letter in enumerate(text) if letter in '="[]{}\n']
    place = rng.choice(places)
    cut = rng.choice([text[:place] + text[place + 1 :], text[:place], text[: place + 1]])
    try:
        tomllib.loads(cut)
    except tomllib.TOMLDecodeError:
        return cut, ["not valid TOML"]
    return None


def empty(rng, document):
    text = rng.choice(["", "\n", " \n\t\n", "# nothing\n", "\r\n", "\n" * 500, "#" * 5000])
    return text, ["task"]


def garbage(rng, document):
    text = rng.choice(
        [
            rng.randbytes(50) + b"\xff",
            b"\xff\xfe" + "a = 1".encode("utf-16-le"),
            b"\x00" * 20,
            b"\xef\xbb\xbfupdates = 1\n",
            b"PK\x03\x04",
            b"\x89PNG\r\n\x1a\n",
            b"{'updates': 1}\n",
            b"updates: 1\n",
            b"<xml/>",
            b'updates = "\xed\xa0\x80"',
        ]
    )
    return text, ["not valid TOML"]


def deep(rng, document):
    depth = rng.choice([30, 200, 3_000, 30_000])
    path, _ = rng.choice([leaf for leaf in leaves(document) if len(leaf[0]) < 3])
    text = toml_files.dumps(put(document, path, "DEEP"))
    deeper = rng.choice(["[" * depth + "]" * depth, "{a=" * depth + "1" + "}" * depth])
    return text.replace('"DEEP"', deeper), [".".join(path) if depth <= 30 else "bad.toml"]


def deep_keys(rng, document):
    depth = rng.choice([30, 100, 300])
    dotted = ".".join([rng.choice(["a", "task", "readings", "schedule"])] + ["a"] * depth)
    return f"{dotted} = 1\n{toml_files.dumps(document)}", ["bad.toml"]


def long(rng, document):
    size = 10 ** rng.choice([3, 4, 5])
    too_long = ["bad.toml", "characters given"]
    if rng.random() < 0.3:
        names = too_long if size > toml_files.LONGEST else ["unknown key"]
        return {**document, "x" * size: 1}, [*names, "xxx"]
    path, value = rng.choice(leaves(document))
    wrong = "x" * size if not isinstance(value, str) else [1] * size
    text = toml_files.dumps(put(document, path, wrong))
    return text, [*too_long, path[-1]] if len(text) > toml_files.LONGEST else [".".join(path)]


def grid(rng, document):
    """Searches of `tune`."""
    wrong: list[tuple[Document | str, str]] = [
        ({"search": [{"algorithm.emma": [0.1]}]}, "algorithm.emma"),
        ({"search": [{"lerning_rate": [0.1]}]}, "lerning_rate"),
        ({"search": [{"batch_size": [0]}]}, "client.batch_size"),
        ({"search": [{"batch_size": [20, "x"]}]}, "client.batch_size"),
        ({"search": [{"server.learning_rate": [math.nan]}]}, "server.learning_rate"),
        ({"search": [{"server.learning_rate": [math.inf]}]}, "server.learning_rate"),
        ({"search": [{"batch_size": []}]}, "batch_size"),
        ({"search": [{"batch_size": 3}]}, "batch_size"),
        ({"search": [{}]}, "search"),
        ({"search": []}, "search"),
        ({"search": 3}, "search"),
        ({"saerch": [{"batch_size": [3]}]}, "saerch"),
        ({"search": [{"batch_size": [3]}], "extra": 1}, "extra"),
        ("", "search"),
        ("[[search]]\nbatch_size = [1\n", "not valid TOML"),
        ("[[search]]\nbatch_size = [1]\nbatch_size = [2]\n", "batch_size"),
        ("[[search]]\nbatch_size = " + "[" * 3000 + "]" * 3000, "bad.toml"),
        ("[[search]]\nbatch_size = [" + "9" * 5000 + "]", "bad.toml"),
        ({"search": [{"batch_size": [10**30]}]}, "batch_size"),
        ({"search": [{"batch_size": [[1]]}]}, "client.batch_size"),
    ]
    content, name = rng.choice(wrong)
    return content, [name]


KINDS = [repeated, repeated_section, broken, empty, garbage, deep, deep_keys, long, grid]
