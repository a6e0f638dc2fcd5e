"""Mistakes in names, groups, folders and readings."""

from stragglers._core import schema
from stragglers.config.settings import Experiment
from tests.support.malformed.tools import at, leaves, put, typo


def unlike_letters(rng, document):
    """A key that looks like another: other alphabets, invisible and combining characters."""
    path, value = rng.choice(leaves(document))
    if path[-2:-1] == ("drop_out",):
        return None
    alike = str.maketrans("aeocpxysi", "аеосрхуѕі")
    wrong = rng.choice(
        [
            path[-1].translate(alike),
            path[-1] + "\u200b",
            "\u202e" + path[-1],
            path[-1] + "\u0301",
            path[-1] + "\n",
            "\t" + path[-1],
            path[-1] + "\x1b[2J",
            path[-1].upper() + "ſ",
            "🐌",
        ]
    )
    if wrong == path[-1]:
        return None
    del at(document, path[:-1])[path[-1]]
    parent = ".".join(path[:-1])
    return put(document, (*path[:-1], wrong), value), [parent or "unknown key"]


def groups(rng, document):
    """Names of groups are anybody's, and so part of the line."""
    name = rng.choice(["../../etc", "a\nb", "\x1b[31m", "\x00", "<b>", "", " ", "x" * 300, "'\""])
    factor = {"kind": "lognormal", "mu": 1.0, "sigma": -1.0}
    each = dict.fromkeys(("communication", "overhead", "per_example"), factor)
    if rng.random() < 0.5:
        each = {**each, "overhead": {"kind": "lognormal", "mu": 1.0, "sgima": 1.0}}
    document["latency"] = {"model": "groups", "groups": {name: each}}
    return document, ["latency.groups"]


def elsewhere(rng, document):
    """Files that a fleet may name: none is one of clients."""
    place = rng.choice(
        [
            "../../../../../../etc/passwd",
            "/etc/shadow",
            "/dev/null",
            "/dev/zero",
            "/dev/urandom",
            "/proc/self/mem",
            "",
            ".",
            "..",
            "~",
            "nothing.csv",
            "a\x00b",
            "a\nb.csv",
            "x" * 300,
            "/proc/self/environ",
            "bad.toml",
        ]
    )
    document["task"] = {"name": "fleet", "csv": place}
    document["latency"] = {"model": "per-example"}
    return document, [place[:60] if place.strip("./~").isprintable() else ""]


def name_of_file(rng, document):
    return put(document, ("updates",), -1), ["updates"]


def reading(rng, document):
    path, value = rng.choice(leaves(document))
    wrong = typo(rng, path[-1])
    parent = schema.section_at(Experiment, document, ".".join(path[:-1])) if path[:-1] else None
    if wrong in schema.keys(parent or Experiment) or not wrong or "." in wrong or len(path) > 2:
        return None
    name = ".".join((*path[:-1], wrong))
    document["readings"] = {"literal": {name: value}}
    return document, [name]


KINDS = [unlike_letters, groups, elsewhere, name_of_file, reading]
