"""What belongs to the reproduction, and the trials that there are of it.

    published   presets with a row of the paper, in the order in which they are worth their time
    points      open_points.toml and class_prior.toml: variants of a preset that differ in what the
                paper leaves open
    exchange    StackOverflow's rows on a small population of Stack Exchange users
    glyphs      the demo's algorithms on the embedded task, each with every loss of LOSSES
    measured    a variant's numbers over its trials, in percent and seconds

A trial belongs to a variant if their settings are equal once today's defaults are filled in, so
that results outlive a new setting. Trials of one task are all on the same data.
"""

import math
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduction import data
from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.config.settings import Paper
from stragglers.report import grouping, statistics
from stragglers.report.statistics import Summary
from stragglers.runs import records
from stragglers.runs.records import Record

HERE = Path(__file__).parent
RESULTS = HERE / "results"
POINTS = ("open_points.toml", "class_prior.toml")
EVALUATIONS = 50  # of a trial; presets have 20, too few to see how much accuracy swings
EVALUATIONS_GLYPHS = 20  # as in its presets: there are many trials
FIFTHS = 5  # of a curve; the last is its end

TABLES = ("cifar100/per-domain", "emnist/per-domain", "emnist/per-example", "cifar100/per-example")
FIRST = ("fedadam", "fedadam-over-selection", "fare-dust", "feast", "fedbuff-ema")
# Tags that make stragglers of a quarter of the users, as the published ones do, and a budget that
# 1,257 users do not yet wear out: 19 times each.
EXCHANGE = ('straggler_tags=["quantum-computer", "taste"]', "updates=24_000")

DAMPED = ("label_skew.kind=damped", "label_skew.alpha=0.1")
RESTRICTED = ("label_skew.kind=damped", "label_skew.alpha=0.0")
LOSSES = ((), DAMPED, RESTRICTED)  # of clients, for classes that they have no examples of
GLYPHS = (
    "fedadam",
    "fedadam-over-selection",
    "semi-async",
    "fare-dust",
    "feast",
    "fedbuff-ema",
    "fedavg",
)


class Variant(NamedTuple):
    preset: str
    sets: tuple[str, ...] = ()

    @property
    def evaluations(self) -> int:
        return EVALUATIONS_GLYPHS if self.preset.startswith("glyphs/") else EVALUATIONS

    @property
    def document(self) -> dict[str, Any]:
        document = documents.override_all(catalog.read(self.preset), self.sets)
        return documents.override(document, f"evaluations={self.evaluations}")

    @property
    def paper(self) -> Paper | None:
        return _paper(self)

    @property
    def key(self) -> tuple[str, str]:
        return _variant_key(self)


class Point(NamedTuple):
    """An open point: variants to compare with one another and with a row."""

    name: str
    question: str
    preset: str
    beside: Variant  # the row
    variants: tuple[Variant, ...]
    common: tuple[str, ...] = ()  # what all of them change, the row as well
    conclusion: str = ""
    concluded_from: int = 0  # so many trials of the variants

    def label(self, variant: Variant) -> str:
        """What a variant changes; of the preset, what the others change in it, if one thing."""
        own = [given for given in variant.sets if given not in self.common]
        if own:
            return ", ".join(own)
        changes = {given for other in self.variants for given in other.sets} - {*self.common}
        names = {given.partition("=")[0] for given in changes}
        if len(names) != 1:
            return "preset"
        document = documents.completed(variant.document)
        value: Any = document
        for key in documents.full_path(document, names.pop()).split("."):
            value = value.get(key, "not set")
        return f"preset ({value:g})" if isinstance(value, float) else f"preset ({value})"


class Measured(NamedTuple):
    """Over trials: at the end of training, and as a mean over the end of the curve."""

    trials: int
    straggler: Summary  # percent
    total: Summary
    time_s: Summary
    late_straggler: float  # median over trials, percent
    late_total: float
    swing: float  # standard deviation of straggler accuracy there, likewise


Found = dict[tuple[str, str], list[Record]]  # finished trials by a variant's key


@cache
def published() -> tuple[Variant, ...]:
    """Those of EMNIST and CIFAR-100: table after table, the rows that carry the claims first."""
    known = catalog.presets()
    names = [f"{table}/{row}" for table in TABLES for row in FIRST]
    others = [
        name
        for table in TABLES
        for name in known
        if name.startswith(f"{table}/") and "paper" in catalog.read(name)
    ]
    return tuple(Variant(name) for name in dict.fromkeys(names + others))


def exchange() -> list[Variant]:
    return [Variant(f"stackoverflow/per-domain/{row}", EXCHANGE) for row in FIRST]


def glyphs() -> list[Variant]:
    return [Variant(f"glyphs/per-domain/{row}", sets) for sets in LOSSES for row in GLYPHS]


def points() -> list[Point]:
    texts = [(HERE / name).read_text(encoding="utf-8") for name in POINTS]
    return [_point(**given) for text in texts for given in tomllib.loads(text)["point"]]


def _point(
    name: str,
    question: str,
    preset: str,
    beside: str,
    variants: list[list[str]],
    common: Sequence[str] = (),
    conclusion: str = "",
    concluded_from: int = 0,
) -> Point:
    variations = tuple(Variant(preset, (*common, *sets)) for sets in variants)
    row = Variant(beside, tuple(common))
    return Point(name, question, preset, row, variations, tuple(common), conclusion, concluded_from)


def chosen(names: Sequence[str]) -> list[Variant]:
    """What names ask for: beginnings of presets, open points; nothing: all of it."""
    by_point = {
        point.name: (*point.variants, point.beside) if point.common else point.variants
        for point in points()
    }
    every = [*published(), *exchange(), *glyphs()]
    wanted: list[Variant] = []
    for name in names:
        rows = [v for v in every if f"{v.preset}/".startswith(f"{name.rstrip('/')}/")]
        if not rows and name not in by_point:
            raise BadInput(
                f"{name!r} is no row of the reproduction; expected the beginning of a "
                f"preset, or one of {', '.join(by_point)}"
            )
        wanted += [*rows, *by_point.get(name, ())]
    if not names:
        wanted = [*every, *(v for variants in by_point.values() for v in variants)]
    once: dict[tuple[str, str], Variant] = {}
    for variant in wanted:
        once.setdefault(variant.key, variant)
    return list(once.values())


def found() -> Found:
    by_key: Found = {}
    trials = records.find([RESULTS] if any(RESULTS.rglob("run.json")) else [])
    if trials.damaged:  # a page without them would have other medians
        raise BadInput(trials.damaged[0])
    data.checksums(trials)  # refuses other data
    for record in trials:
        by_key.setdefault(key_of(record), []).append(record)
    return by_key


def key_of(record: Record) -> tuple[str, str]:
    """The key of the variant that a trial is of."""
    return record.name, grouping.today(record)[0]


def measured(variant: Variant, there: Found, kind: str = "") -> Measured | None:
    """`kind`: what the accuracies' columns begin with, such as matched_."""
    trials = there.get(variant.key)
    if not trials:
        return None

    def final(key: str, scale: float) -> Summary:
        values = [trial.outcome(key) for trial in trials]
        ours = statistics.summarise(values, statistics.USUAL)
        low, middle, high = (scale * value for value in (ours.low, ours.median, ours.high))
        return ours._replace(
            values=tuple(scale * value for value in values), low=low, median=middle, high=high
        )

    def late(key: str, what: Callable[[np.ndarray], float] = np.mean) -> float:
        if math.isnan(final(key, 1).median):
            return math.nan  # a trial diverged
        return float(np.median([100 * what(_fifths(trial.curve[key])[-1]) for trial in trials]))

    return Measured(
        len(trials),
        final(f"{kind}straggler_accuracy", 100),
        final(f"{kind}total_accuracy", 100),
        final("time_s", 1),
        late(f"{kind}straggler_accuracy"),
        late(f"{kind}total_accuracy"),
        late(f"{kind}straggler_accuracy", np.std),
    )


def by_fifths(variant: Variant, there: Found, metric: str) -> list[float] | None:
    """Percent in each fifth of the budget: the mean over its evaluations, median over trials.

    None if nothing was trained, or something diverged.
    """
    trials, key = there.get(variant.key, []), f"{metric}_accuracy"
    if not trials or any(math.isnan(trial.outcome(key)) for trial in trials):
        return None
    means = [[part.mean() for part in _fifths(trial.curve[key])] for trial in trials]
    return (100 * np.median(means, axis=0)).tolist()


def first_time(variant: Variant, there: Found, straggler: float) -> float | None:
    """Seconds until an evaluation first has this straggler accuracy, in percent: median.

    None if nothing was trained, or if half of the trials never have it.
    """
    times = []
    for trial in there.get(variant.key, []):
        enough = np.flatnonzero(100 * trial.curve["straggler_accuracy"] >= straggler)
        times.append(trial.curve["time_s"][enough[0]] if len(enough) else math.inf)
    median = float(np.median(times)) if times else math.inf
    return median if math.isfinite(median) else None


def _fifths(curve: np.ndarray) -> list[np.ndarray]:
    return np.array_split(curve, min(FIFTHS, len(curve)))


@cache
def _paper(variant: Variant) -> Paper | None:
    return documents.settings_from(variant.document).paper


@cache
def _variant_key(variant: Variant) -> tuple[str, str]:
    return variant.preset, documents.settings_from(variant.document).hash
