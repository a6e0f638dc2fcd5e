"""Experiments with one mistake each, made from valid ones, and what the line about it must name.

cases(count, seed)      the same on every machine: kind after kind, each from a preset of chance

A kind is a function of (rng, document) that gives the file's text, or the whole document to write,
and the words that the line must have. Its document is a preset with more sections than it needs.
"""

import copy
import difflib
import math
import random
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from stragglers import config, schema, tomlfile
from stragglers.settings import Experiment

Document = dict[str, Any]
Made = tuple[str | bytes | Document, list[str]]  # what the file has, and what its line must name
KINDS: list[Callable[[random.Random, Document], Made]] = []

MORE = {
    "seed": 3, "lanes": 4, "evaluations": 5, "precision": "float32", "curve_examples": 100,
    "threads": 2,
    "aggregation": {"weight": "examples", "staleness": "polynomial", "exponent": 0.7,
                    "normalise": "count"},
    "faults": {"crash": 0.1, "nan": 0.02},
}  # fmt: skip
SCHEDULE = {"time_limit": {"percentile": 90.0, "scope": "computation", "fill": False}}
CLIENT = {
    "learning_rate": 0.1, "batch_size": 5, "epochs": 2.0, "distillation": 0.1,
    "distillation_loss": "kl", "distillation_term": "sum", "temperature": 2.0, "proximal": 0.01,
    "last_batch": "keep",
}  # fmt: skip
COUNTS = (
    "updates", "goal", "cohort", "buffer", "concurrency", "minimum", "late_rounds", "batch_size",
    "lanes", "evaluations", "curve_examples", "threads", "writers", "clients", "stragglers",
)  # fmt: skip
WORDS = (
    "name", "model", "kind", "optimizer", "precision", "weight", "staleness", "normalise", "scope",
    "count", "refill", "distillation_loss", "distillation_term", "last_batch", "history",
    "teacher_step", "average", "profile",
)  # fmt: skip
POSITIVE = ("learning_rate", "eps", "epochs", "temperature", "round_timeout", "client_timeout")
OUTSIDE: dict[str, list[Any]] = {
    **dict.fromkeys(COUNTS, [0, -1, -(10**6), 10**9, 10**12]),
    **dict.fromkeys(POSITIVE, [0.0, -0.0, -1e-3, -math.inf, math.inf]),
    **dict.fromkeys(("b1", "b2", "ema", "beta", "momentum"), [1.0, 1.5, -0.1, math.inf]),
    **dict.fromkeys(("kappa", "crash", "nan", "drop_out"), [-0.5, 1.01, 2, math.inf]),
    **dict.fromkeys(("seed", "data_seed", "partition_seed"), [-1, -(2**63), 2**63]),
    **dict.fromkeys(("distillation", "proximal", "exponent"), [-1e-9, -3, -math.inf, math.inf]),
    "late_seconds": [-1e-9, -1, -math.inf],
    "over_selection": [0.99, 0, -2, 1e7, math.inf],
    "percentile": [0, 100, -1, 1e9, math.inf],
}
NAMES = ["../../x.toml", "a\nb.toml", "\x1b[31mred.toml", "\u202egnp.toml", "ä ö.toml", "'\".toml"]


class Case(NamedTuple):
    kind: str
    text: bytes
    names: list[str]
    command: str  # run, plan or tune
    options: list[str]
    file: str  # its name, some of which are mistakes of their own


def cases(count: int, seed: int) -> Iterator[Case]:
    valid = {name: enriched(config.read(name)) for name in config.presets()}
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        make = KINDS[number % len(KINDS)]
        made = None
        while made is None:  # a kind that has no place in a document asks for another
            document = copy.deepcopy(valid[rng.choice(sorted(valid))])
            made = make(rng, document)
        content, names = made
        if isinstance(content, dict):
            content = tomlfile.dumps(content)
        text = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        command = COMMANDS.get(make, rng.choice(["run", "plan"]))
        options = ["--reading", "literal"] if make is reading else []
        file = rng.choice(NAMES[1:]) if make is name_of_file else "bad.toml"
        yield Case(make.__name__, text, names, command, options, file)


def enriched(document: Document) -> Document:
    document = {**MORE, **document}
    document["schedule"] = {**SCHEDULE, **document["schedule"]}
    document["client"] = {**CLIENT, **document.get("client", {})}
    config.experiment_from(document)  # still a valid one
    return document


def kind(make: Callable[[random.Random, Document], Made]) -> Callable[..., Made]:
    KINDS.append(make)
    return make


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
    return rng.choice([
        word[:place] + word[place + 1 :],
        word[:place] + letter + word[place:],
        word[:place] + letter + word[place + 1 :],
        word[:place] + word[place : place + 2][::-1] + word[place + 2 :],
        word.upper(),
        word + "s",
        word.replace("_", "-"),
    ])  # fmt: skip


def near(given: str, meant: str) -> list[str]:
    """What is meant must be named where it is near; capitals are far from small letters."""
    return [repr(meant)] if difflib.SequenceMatcher(None, meant, given).ratio() > 0.75 else []


# Keys and sections.


@kind
def key(rng, document):
    path, value = rng.choice(leaves(document))
    if len(path) > 2 and path[-3] in ("drop_out", "table"):
        return None  # names of groups and percentiles are anybody's
    section = at(document, path[:-1])
    wrong = typo(rng, path[-1])
    parent = schema.section_at(Experiment, document, ".".join(path[:-1])) if path[:-1] else None
    known = schema.keys(parent or Experiment)
    if wrong in known or wrong == "" or path[-1] not in known:
        return None
    del section[path[-1]]
    section[wrong] = value
    return document, [".".join((*path[:-1], wrong)), *near(wrong, path[-1])]


@kind
def section(rng, document):
    name = rng.choice([name for name, value in document.items() if isinstance(value, dict)])
    wrong = typo(rng, name)
    if wrong in schema.keys(Experiment) or not wrong:
        return None
    document[wrong] = document.pop(name)
    return document, [repr(wrong), *near(wrong, name)]


@kind
def unknown(rng, document):
    word = rng.choice(["colour", "import", "__class__", "task2", "0", "true", "a b", "..", "é"])
    value = rng.choice([1, "x", {}, {"a": 1}, [1]])
    path = rng.choice([(), *((name,) for name in document if isinstance(document[name], dict))])
    if path in (("readings",), ("faults",)):
        return None
    return put(document, (*path, word), value), [".".join((*path, word))]


@kind
def missing(rng, document):
    path = rng.choice([
        ("task",), ("latency",), ("schedule",), ("updates",), ("task", "name"),
        ("latency", "model"), ("schedule", "kind"), ("schedule", "goal"), ("schedule", "buffer"),
        ("schedule", "concurrency"), ("client", "learning_rate"), ("client", "batch_size"),
        ("server", "optimizer"), ("server", "learning_rate"), ("algorithm", "name"),
        ("algorithm", "beta"), ("algorithm", "kappa"), ("paper", "row"), ("paper", "time_s"),
    ])  # fmt: skip
    try:
        del at(document, path[:-1])[path[-1]]
    except KeyError:
        return None
    return document, [".".join(path), "missing"]


# Values.


@kind
def wrong_type(rng, document):
    path, value = rng.choice(leaves(document))
    other: dict[type, list[Any]] = {
        bool: ["yes", 1, 0.5, [], {}],
        int: ["12", "many", True, 1.5, [7], {}, {"a": 1}],
        float: ["0.1", "some", False, [0.1], {}],
        str: [3, 2.5, True, [], {"a": 1}],
        list: ["x", 3, True, {}],
        dict: [3, "x", [1]],
    }
    wrong = rng.choice(other[type(value)])
    if path[0] == "faults" and wrong == {}:
        return None  # shares by group, of nobody
    return put(document, path, wrong), [".".join(path)]


@kind
def not_a_table(rng, document):
    name = rng.choice([n for n, v in document.items() if isinstance(v, dict) and n != "readings"])
    document[name] = rng.choice([3, 2.5, "x", True, [], [1, 2], [[1]]])
    return document, [name]


@kind
def outside(rng, document):
    path, _ = rng.choice([leaf for leaf in leaves(document) if leaf[0][-1] in OUTSIDE])
    return put(document, path, rng.choice(OUTSIDE[path[-1]])), [".".join(path)]


@kind
def not_a_number(rng, document):
    numbers = [path for path, value in leaves(document) if type(value) in (int, float)]
    path = rng.choice(numbers)
    return put(document, path, rng.choice([math.nan, -math.nan])), [".".join(path), "nan"]


@kind
def huge(rng, document):
    path, _ = rng.choice([leaf for leaf in leaves(document) if leaf[0][-1] in COUNTS])
    digits = rng.choice([19, 20, 40, 400, 4000])
    return put(document, path, rng.choice([1, -1]) * 10**digits), [".".join(path)]


@kind
def too_many_digits(rng, document):
    path, _ = rng.choice([leaf for leaf in leaves(document) if leaf[0][-1] in COUNTS])
    text = tomlfile.dumps(put(document, path, "DIGITS"))
    return text.replace('"DIGITS"', "9" * rng.choice([4301, 15_000])), ["not valid TOML"]


@kind
def word(rng, document):
    """A choice that is none of those allowed."""
    chosen = [leaf for leaf in leaves(document) if leaf[0][-1] in WORDS]
    path, value = rng.choice(chosen)
    wrong = typo(rng, value)
    if wrong == value or (path[-1] == "kind" and len(path) < 2):
        return None
    return put(document, path, wrong), [".".join(path), repr(wrong)]


@kind
def in_a_list(rng, document):
    path, value = rng.choice([leaf for leaf in leaves(document) if not isinstance(leaf[1], list)])
    return put(document, path, rng.choice([[value], [value, value], [[value]], []])), [
        ".".join(path)
    ]


@kind
def bad_classes(rng, document):
    if document["task"]["name"] not in ("emnist", "cifar100"):
        return None
    wrong = rng.choice([[-1], [0, 62], [100], ["0"], [0.5], [[0]], 3, "0", {"a": 1}])
    return put(document, ("task", "straggler_classes"), wrong), ["task.straggler_classes"]


@kind
def together(rng, document):
    """Settings that exclude each other, or can never be met."""
    schedule = document["schedule"]
    rounds = schedule["kind"] == "over_selected"
    ways: list[tuple[Document, str]] = [({"time_limit": {}}, "schedule.time_limit")]
    ways.append(({"time_limit": {"seconds": 3.0, "percentile": 5.0}}, "schedule.time_limit"))
    ways.append(({"minimum": 2, "round_timeout" if rounds else "client_timeout": None}, "minimum"))
    if rounds:
        goal = schedule["goal"]
        ways.append(({"cohort": goal + 1, "over_selection": 1.5}, "over_selection"))
        ways.append(({"cohort": max(goal - 1, 1), "over_selection": None}, "cohort"))
        ways.append(({"late_seconds": 5.0, "late_rounds": 3}, "late_"))
        ways.append(({"minimum": goal + 1, "round_timeout": 60.0}, "minimum"))
        ways.append(({"round_timeout": math.inf}, "round_timeout"))
    else:
        ways.append(({"buffer": schedule["concurrency"] + 1}, "buffer"))
        ways.append(({"client_timeout": math.inf}, "client_timeout"))
    if rng.random() < 0.2:
        return {**document, "updates": 1}, ["updates"]
    change, name = rng.choice(ways)
    document["schedule"] = {**schedule, **change}
    if document["schedule"].get("goal") == 1 and name in ("cohort",):
        return None
    return document, [name]


# Names and places.


@kind
def unlike_letters(rng, document):
    """A key that looks like another: other alphabets, invisible and combining characters."""
    path, value = rng.choice(leaves(document))
    if path[-2:-1] == ("drop_out",):
        return None
    alike = str.maketrans("aeocpxysi", "аеосрхуѕі")
    wrong = rng.choice([
        path[-1].translate(alike), path[-1] + "\u200b", "\u202e" + path[-1], path[-1] + "\u0301",
        path[-1] + "\n", "\t" + path[-1], path[-1] + "\x1b[2J", path[-1].upper() + "ſ", "🐌",
    ])  # fmt: skip
    if wrong == path[-1]:
        return None
    del at(document, path[:-1])[path[-1]]
    parent = ".".join(path[:-1])
    return put(document, (*path[:-1], wrong), value), [parent or "unknown key"]


@kind
def groups(rng, document):
    """Names of groups are anybody's, and so part of the line."""
    name = rng.choice(["../../etc", "a\nb", "\x1b[31m", "\x00", "<b>", "", " ", "x" * 300, "'\""])
    factor = {"kind": "lognormal", "mu": 1.0, "sigma": -1.0}
    each = dict.fromkeys(("communication", "overhead", "per_example"), factor)
    if rng.random() < 0.5:
        each = {**each, "overhead": {"kind": "lognormal", "mu": 1.0, "sgima": 1.0}}
    document["latency"] = {"model": "groups", "groups": {name: each}}
    return document, ["latency.groups"]


@kind
def elsewhere(rng, document):
    """Files that a fleet may name: none is one of clients."""
    place = rng.choice([
        "../../../../../../etc/passwd", "/etc/shadow", "/dev/null", "/dev/zero", "/dev/urandom",
        "/proc/self/mem", "", ".", "..", "~", "nothing.csv", "a\x00b", "a\nb.csv", "x" * 300,
        "/proc/self/environ", "bad.toml",
    ])  # fmt: skip
    document["task"] = {"name": "fleet", "csv": place}
    document["latency"] = {"model": "per-example"}
    return document, [place[:60] if place.strip("./~").isprintable() else ""]


@kind
def name_of_file(rng, document):
    return put(document, ("updates",), -1), ["updates"]


@kind
def reading(rng, document):
    path, value = rng.choice(leaves(document))
    wrong = typo(rng, path[-1])
    parent = schema.section_at(Experiment, document, ".".join(path[:-1])) if path[:-1] else None
    if wrong in schema.keys(parent or Experiment) or not wrong or "." in wrong or len(path) > 2:
        return None
    name = ".".join((*path[:-1], wrong))
    document["readings"] = {"literal": {name: value}}
    return document, [name]


# Text.


@kind
def repeated(rng, document):
    lines = tomlfile.dumps(document).splitlines()
    number = rng.choice([n for n, line in enumerate(lines) if line and not line.startswith("[")])
    lines.insert(number, lines[number])
    return "\n".join(lines), ["not valid TOML", lines[number].split(" = ")[0]]


@kind
def repeated_section(rng, document):
    name = rng.choice([name for name, value in document.items() if isinstance(value, dict)])
    text = tomlfile.dumps(document)
    if f"[{name}]" not in text:
        return None
    return f"{text}\n[{name}]\n", ["not valid TOML", name]


@kind
def broken(rng, document):
    text = tomlfile.dumps(document)
    places = [place for place, letter in enumerate(text) if letter in '="[]{}\n']
    place = rng.choice(places)
    cut = rng.choice([text[:place] + text[place + 1 :], text[:place], text[: place + 1]])
    try:
        tomllib.loads(cut)
    except tomllib.TOMLDecodeError:
        return cut, ["not valid TOML"]
    return None


@kind
def empty(rng, document):
    text = rng.choice(["", "\n", " \n\t\n", "# nothing\n", "\r\n", "\n" * 500, "#" * 5000])
    return text, ["task"]


@kind
def garbage(rng, document):
    text = rng.choice([
        rng.randbytes(50) + b"\xff", b"\xff\xfe" + "a = 1".encode("utf-16-le"), b"\x00" * 20,
        b"\xef\xbb\xbfupdates = 1\n", b"PK\x03\x04", b"\x89PNG\r\n\x1a\n", b"{'updates': 1}\n",
        b"updates: 1\n", b"<xml/>", b'updates = "\xed\xa0\x80"',
    ])  # fmt: skip
    return text, ["not valid TOML"]


@kind
def deep(rng, document):
    depth = rng.choice([30, 200, 3_000, 30_000])
    path, _ = rng.choice([leaf for leaf in leaves(document) if len(leaf[0]) < 3])
    text = tomlfile.dumps(put(document, path, "DEEP"))
    deeper = rng.choice(["[" * depth + "]" * depth, "{a=" * depth + "1" + "}" * depth])
    return text.replace('"DEEP"', deeper), [".".join(path) if depth <= 30 else "bad.toml"]


@kind
def deep_keys(rng, document):
    depth = rng.choice([30, 100, 300])
    dotted = ".".join([rng.choice(["a", "task", "readings", "schedule"])] + ["a"] * depth)
    return f"{dotted} = 1\n{tomlfile.dumps(document)}", ["bad.toml"]


@kind
def long(rng, document):
    size = 10 ** rng.choice([3, 4, 5])
    too_long = ["bad.toml", "characters given"]
    if rng.random() < 0.3:
        names = too_long if size > tomlfile.LONGEST else ["unknown key"]
        return {**document, "x" * size: 1}, [*names, "xxx"]
    path, value = rng.choice(leaves(document))
    wrong = "x" * size if not isinstance(value, str) else [1] * size
    text = tomlfile.dumps(put(document, path, wrong))
    return text, [*too_long, path[-1]] if len(text) > tomlfile.LONGEST else [".".join(path)]


@kind
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


COMMANDS = {grid: "tune", elsewhere: "plan"}
