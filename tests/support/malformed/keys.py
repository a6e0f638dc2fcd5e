"""Mistakes in keys and sections."""

from stragglers._core import schema
from stragglers.config.settings import Experiment
from tests.support.malformed.tools import at, leaves, near, put, typo


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


def section(rng, document):
    name = rng.choice([name for name, value in document.items() if isinstance(value, dict)])
    wrong = typo(rng, name)
    if wrong in schema.keys(Experiment) or not wrong:
        return None
    document[wrong] = document.pop(name)
    return document, [repr(wrong), *near(wrong, name)]


def unknown(rng, document):
    word = rng.choice(["colour", "import", "__class__", "task2", "0", "true", "a b", "..", "é"])
    value = rng.choice([1, "x", {}, {"a": 1}, [1]])
    path = rng.choice([(), *((name,) for name in document if isinstance(document[name], dict))])
    if path in (("readings",), ("faults",)):
        return None
    return put(document, (*path, word), value), [".".join((*path, word))]


def missing(rng, document):
    path = rng.choice(
        [
            ("task",),
            ("latency",),
            ("schedule",),
            ("updates",),
            ("task", "name"),
            ("latency", "model"),
            ("schedule", "kind"),
            ("schedule", "goal"),
            ("schedule", "buffer"),
            ("schedule", "concurrency"),
            ("client", "learning_rate"),
            ("client", "batch_size"),
            ("server", "optimizer"),
            ("server", "learning_rate"),
            ("algorithm", "name"),
            ("algorithm", "beta"),
            ("algorithm", "kappa"),
            ("paper", "row"),
            ("paper", "time_s"),
        ]
    )
    try:
        del at(document, path[:-1])[path[-1]]
    except KeyError:
        return None
    return document, [".".join(path), "missing"]


KINDS = [key, section, unknown, missing]
