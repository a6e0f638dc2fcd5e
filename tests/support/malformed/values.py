"""Mistakes in values."""

import math
from typing import Any

from stragglers._core import toml_files
from tests.support.malformed.tools import Document, leaves, put, typo

COUNTS = (
    "updates",
    "goal",
    "cohort",
    "buffer",
    "concurrency",
    "minimum",
    "late_rounds",
    "batch_size",
    "lanes",
    "evaluations",
    "curve_examples",
    "threads",
    "writers",
    "clients",
    "stragglers",
)
WORDS = (
    "name",
    "model",
    "kind",
    "optimizer",
    "precision",
    "weight",
    "staleness",
    "normalise",
    "scope",
    "count",
    "refill",
    "distillation_loss",
    "distillation_term",
    "last_batch",
    "history",
    "teacher_step",
    "average",
    "profile",
)
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


def not_a_table(rng, document):
    name = rng.choice([n for n, v in document.items() if isinstance(v, dict) and n != "readings"])
    document[name] = rng.choice([3, 2.5, "x", True, [], [1, 2], [[1]]])
    return document, [name]


def outside(rng, document):
    path, _ = rng.choice([leaf for leaf in leaves(document) if leaf[0][-1] in OUTSIDE])
    return put(document, path, rng.choice(OUTSIDE[path[-1]])), [".".join(path)]


def not_a_number(rng, document):
    numbers = [path for path, value in leaves(document) if type(value) in (int, float)]
    path = rng.choice(numbers)
    return put(document, path, rng.choice([math.nan, -math.nan])), [".".join(path), "nan"]


def huge(rng, document):
    path, _ = rng.choice([leaf for leaf in leaves(document) if leaf[0][-1] in COUNTS])
    digits = rng.choice([19, 20, 40, 400, 4000])
    return put(document, path, rng.choice([1, -1]) * 10**digits), [".".join(path)]


def too_many_digits(rng, document):
    path, _ = rng.choice([leaf for leaf in leaves(document) if leaf[0][-1] in COUNTS])
    text = toml_files.dumps(put(document, path, "DIGITS"))
    return text.replace('"DIGITS"', "9" * rng.choice([4301, 10_000])), ["not valid TOML"]


def word(rng, document):
    """A choice that is none of those allowed."""
    chosen = [leaf for leaf in leaves(document) if leaf[0][-1] in WORDS]
    path, value = rng.choice(chosen)
    wrong = typo(rng, value)
    if wrong == value or (path[-1] == "kind" and len(path) < 2):
        return None
    return put(document, path, wrong), [".".join(path), repr(wrong)]


def in_a_list(rng, document):
    path, value = rng.choice([leaf for leaf in leaves(document) if not isinstance(leaf[1], list)])
    return put(document, path, rng.choice([[value], [value, value], [[value]], []])), [
        ".".join(path)
    ]


def bad_classes(rng, document):
    if document["task"]["name"] not in ("emnist", "cifar100"):
        return None
    wrong = rng.choice([[-1], [0, 62], [100], ["0"], [0.5], [[0]], 3, "0", {"a": 1}])
    return put(document, ("task", "straggler_classes"), wrong), ["task.straggler_classes"]


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


KINDS = [
    wrong_type,
    not_a_table,
    outside,
    not_a_number,
    huge,
    too_many_digits,
    word,
    in_a_list,
    bad_classes,
    together,
]
