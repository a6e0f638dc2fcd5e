"""The pages in docs/results: templates, filled from results/ and controls.json alone.

A sentence that is true of some results alone stands in `says(condition, ...)`, so that new trials
cannot make it wrong unseen: pages have a list of those whose condition failed. The conclusion from
an open point is to be read again when it has more trials than it was drawn from.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from reproduction import costs, planned, prior, tables
from reproduction.claims import judged
from reproduction.comparisons import EQUAL, EQUAL_STACKOVERFLOW, Numbers
from reproduction.rows import (
    EXCHANGE,
    FIFTHS,
    HERE,
    TABLES,
    Found,
    Measured,
    Point,
    Variant,
    by_fifths,
    found,
    measured,
    points,
    published,
)
from reproduction.tables import Table, percent
from stragglers.config.settings import Paper

# In docs/results, each from a template beside this file; names.j2 has what templates share.
PAGES = (
    "reproduction.md",
    "reproduction-tables.md",
    "reproduction-claims.md",
    "reproduction-differences.md",
    "open-points.md",
)
PRIOR = "straggler-accuracy.md"
COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Pages(NamedTuple):
    text: dict[str, str]  # by file
    wrong: list[str]  # sentences that are not true of these results


def pages() -> Pages:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    there = found()
    wrong: list[str] = []

    @cache
    def numbers(variant: Variant) -> Measured | None:
        return measured(variant, there)

    def says(condition: bool, text: str) -> str:
        if not condition:
            wrong.append(text)
        return text

    environment = Environment(
        loader=FileSystemLoader(HERE),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["table"] = Table.markdown
    environment.globals |= {
        "says": says,
        "counts": COUNTS,
        "equal": EQUAL,
        "equal_stackoverflow": EQUAL_STACKOVERFLOW,
        "tables": [one for name in TABLES if (one := tables.table(name, numbers)).rows],
        "claims": (claims := judged(numbers, there)),
        "claim_that": lambda begins: next(one for one in claims if one.text.startswith(begins)),
        "shown": [tables.point(one, numbers) for one in points() if tables.shown(one, numbers)],
        "waiting": [one for one in points() if not tables.shown(one, numbers)],
        "concluded": lambda point: says(
            _trials_of(point, there) == point.concluded_from,
            point.conclusion or f"`{point.name}` has no conclusion",
        ),
        "on_cpu": lambda point: [
            point.label(variant)
            for variant in point.variants
            if any(map(costs.is_on_a_cpu, there.get(variant.key, [])))
        ],
        "exchange": tables.exchanged(numbers, there),
        "on_the_way": tables.on_the_way(there),
        "digits": tables.digits(numbers),
        "remedies": tables.remedies(numbers),
        "costs": Table(*costs.costs(there)),
        "ran": costs.ran(
            {key: some for key, some in there.items() if not key[0].startswith("glyphs/")}
        ),
        "fewer": tables.FEWER,
        "slower": tables.SLOWER,
        "shape": EXCHANGE,
        "at": lambda preset, *sets: numbers(Variant(preset, sets)),
        "paper": tables.paper_of,
        "both": tables.both,
        "ends": tables.ends,
        "points": percent,
        "few": tables.few,
        "above": tables.above,
        "ahead": tables.ahead,
        "paper_both": tables.paper_both,
        "paper_above": tables.paper_apart,
        "paper_ahead": tables.paper_ahead,
        "missed": tables.missed,
        "trials": _trials,
        "lead": lambda *what: _lead(there, *what),
        "agreeing": lambda of="": _agreeing(of, numbers),
        "times_off": lambda task, anomalous=False: _times_off(task, anomalous, numbers),
        "apart": lambda preset, other: _apart(there, preset, other),
        "trained_on": lambda preset: tables.clients(there[Variant(preset).key][0].run["schedule"]),
        "planned_on": lambda preset: tables.clients(planned.summary(Variant(preset))),
        "idle": lambda preset, *sets: _idle(there, Variant(preset, sets)),
        "fifths": lambda preset, *sets: _by_fifths(there, Variant(preset, sets)),
        "budget": lambda preset: Variant(preset).document["updates"],
        "untrained": tables.untrained(points(), numbers),
        "share": lambda preset, *sets: _straggler_share(there, Variant(preset, sets)),
        "scatter": lambda preset, *sets: _scatter(Variant(preset, sets)),
        "expected": lambda preset, of="used", *sets: _expected_share(Variant(preset, sets), of),
        "off": lambda preset, *sets: _off(Variant(preset, sets)),
        "longer": lambda preset, other, *sets: _longer(Variant(preset), Variant(other, sets)),
    }
    text = {name: environment.get_template(f"{name}.j2").render() for name in PAGES}
    template = environment.get_template(f"{PRIOR}.j2")
    text[PRIOR] = template.render(prior.on_the_page(there))
    return Pages(text, wrong)


# Trials side by side.


def _trials_of(point: Point, there: Found) -> int:
    return sum(len(there.get(variant.key, [])) for variant in point.variants)


def _trials(*ours: Measured) -> str:
    """How many there are, in words."""
    least, most = min(one.trials for one in ours), max(one.trials for one in ours)
    if least != most:
        return f"{COUNTS[least]} to {COUNTS[most]} trials each"
    return f"{COUNTS[most]} trial{'s' if most > 1 else ''}{' each' if len(ours) > 1 else ''}"


def _lead(there: Found, preset: str, other: str, metric: str, *sets: str) -> list[float]:
    """How far a row is above another in each fifth of the budget, in points."""
    curves = (by_fifths(Variant(name, sets), there, metric) for name in (preset, other))
    ours, theirs = (curve or [math.nan] * FIFTHS for curve in curves)
    return [a - b for a, b in zip(ours, theirs, strict=True)]


class Agreeing(NamedTuple):
    """Rows that agree with published ones at the end of training."""

    rows: list[str]
    straggler: list[str]  # inside the published interval
    straggler_end: list[str]  # the same by the end of the curve
    near: list[str]  # straggler accuracy within 5 points
    near_end: list[str]
    total: list[str]  # total accuracy within 3 points
    total_end: list[str]


def _agreeing(of: str, numbers: Numbers) -> Agreeing:
    """Of presets whose names begin so."""
    pairs = {
        v.preset: (v.paper, ours)
        for v in published()
        if v.preset.startswith(of) and v.paper and (ours := numbers(v))
    }

    def those(holds: Callable[[Paper, Measured], bool]) -> list[str]:
        return [preset for preset, (paper, ours) in pairs.items() if holds(paper, ours)]

    def between(value: float, interval: tuple[float, float]) -> bool:
        return interval[0] <= value <= interval[1]

    return Agreeing(
        [*pairs],
        those(lambda paper, ours: between(ours.straggler.median, paper.straggler_interval)),
        those(lambda paper, ours: between(ours.late_straggler, paper.straggler_interval)),
        those(lambda paper, ours: abs(ours.straggler.median - paper.straggler) <= 5),
        those(lambda paper, ours: abs(ours.late_straggler - paper.straggler) <= 5),
        those(lambda paper, ours: abs(ours.total.median - paper.total) <= 3),
        those(lambda paper, ours: abs(ours.late_total - paper.total) <= 3),
    )


def _times_off(task: str, anomalous: bool, numbers: Numbers) -> list[float]:
    """Of rows whose published time is, or is not, marked as an anomaly: percent of that."""
    return [
        100 * (ours.time_s.median / variant.paper.time_s - 1)
        for variant in published()
        if variant.preset.startswith(f"{task}/")
        and variant.paper
        and bool(variant.paper.anomaly) == anomalous
        and (ours := numbers(variant))
    ]


def _straggler_share(there: Found, variant: Variant) -> float:
    """Percent of the reports on time that come from stragglers."""
    trial = there[variant.key][0]
    return 100 * trial.run["schedule"]["share"]["straggler"]["used"]


def _idle(there: Found, variant: Variant) -> float:
    """Percent of the stragglers' reports on time that come without a local step."""
    return 100 * there[variant.key][0].run["schedule"]["groups"]["straggler"]["untrained"]


def _by_fifths(there: Found, variant: Variant) -> list[str]:
    """Straggler and total accuracy in each fifth of the budget."""
    curves = [by_fifths(variant, there, metric) for metric in ("straggler", "total")]
    straggler, total = (curve or [math.nan] * FIFTHS for curve in curves)
    return [f"{percent(a)} / {percent(b)}" for a, b in zip(straggler, total, strict=True)]


def _apart(there: Found, preset: str, other: str) -> float:
    """How far trials of equal seeds are from one another at the end, at most, in points."""
    ends = [
        {trial.seed: trial.curve["straggler_accuracy"][-1] for trial in there[Variant(name).key]}
        for name in (preset, other)
    ]
    return 100 * max(abs(ends[0][seed] - ends[1][seed]) for seed in ends[0].keys() & ends[1])


# Schedules, which take no training.


@cache
def _scatter(variant: Variant) -> float:
    """How much they differ from seed to seed, in percent."""
    times = [planned.seconds(variant, seed) for seed in range(10)]
    return 100 * float(np.std(times) / np.mean(times))


@cache
def _longer(variant: Variant, other: Variant) -> float:
    """How much more another variant has, in percent."""
    return 100 * (planned.seconds(other, 0) / planned.seconds(variant, 0) - 1)


@cache
def _off(variant: Variant) -> float:
    """How much longer than published, in percent, with clients of the published sizes."""
    times = [planned.seconds(variant, seed) for seed in range(5)]
    paper = tables.paper_of(variant.preset)
    return 100 * (float(np.median(times)) / paper.time_s - 1)


def _expected_share(variant: Variant, of: str = "used") -> float:
    """Of stragglers, among reports on time or others, in percent: clients of published sizes."""
    return 100 * planned.summary(variant)["share"]["straggler"][of]
