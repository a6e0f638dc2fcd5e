"""Numbers as cells, and cells as tables.

Percent and points throughout, seconds of simulated time. A number of one trial has no interval.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from reproduction.comparisons import Numbers
from reproduction.rows import (
    Found,
    Measured,
    Point,
    Variant,
    by_fifths,
    exchange,
    published,
)
from stragglers.config.settings import Paper
from stragglers.report.cells import NOTHING, seconds
from stragglers.report.grouping import TASKS
from stragglers.report.statistics import Summary

FEWER = "digits=0.511"  # of EMNIST's, as many as published
SLOWER = "server.learning_rate=0.2"  # on CIFAR-100: a fifth
TRIALS = 3  # of a row, as a rule


class Table(NamedTuple):
    names: list[str]
    rows: list[list[str]]
    title: str = ""
    left: tuple[str, ...] = ()  # what it has no row of yet
    note: str = ""

    def markdown(self) -> str:
        lines = [self.names, ["---", *["---:"] * (len(self.names) - 1)], *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# Cells.


def both(ours: Measured, unit: str = "") -> str:
    """Straggler and total accuracy at the end of training, and the number of trials if small."""
    return f"{_accuracy(ours.straggler)} / {_accuracy(ours.total)}{unit}{few(ours)}"


def ends(ours: Measured, unit: str = "") -> str:
    """The same as means over the end of the curve."""
    return f"{percent(ours.late_straggler)} / {percent(ours.late_total)}{unit}{few(ours)}"


def few(*ours: Measured) -> str:
    """In parentheses, the smallest number of trials, where there are fewer than usual."""
    least = min(one.trials for one in ours)
    return f" ({least})" if least < TRIALS else ""


def above(ours: Measured, theirs: Measured) -> str:
    """How far both accuracies are above another row's at the end of the curves."""
    return apart(ours, theirs) + few(ours, theirs)


def ahead(ours: Measured, theirs: Measured) -> str:
    """How far straggler accuracy alone is."""
    return percent(ours.late_straggler - theirs.late_straggler) + few(ours, theirs)


def apart(ours: Measured, theirs: Measured) -> str:
    return _pair(ours.late_straggler - theirs.late_straggler, ours.late_total - theirs.late_total)


def paper_both(preset: str) -> str:
    paper = paper_of(preset)
    return f"{percent(paper.straggler)} / {percent(paper.total)}"


def paper_ahead(preset: str, other: str) -> str:
    return percent(paper_of(preset).straggler - paper_of(other).straggler)


def missed(ours: Measured, theirs: Measured, preset: str, other: str) -> float:
    """How far our difference in straggler accuracy is from the published one, in points."""
    said = paper_of(preset).straggler - paper_of(other).straggler
    return abs(ours.late_straggler - theirs.late_straggler - said)


def paper_apart(preset: str, other: str) -> str:
    ours, theirs = paper_of(preset), paper_of(other)
    return _pair(ours.straggler - theirs.straggler, ours.total - theirs.total)


def paper_of(preset: str) -> Paper:
    paper = Variant(preset).paper
    assert paper, preset
    return paper


def percent(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:.1f}"


def _pair(straggler: float, total: float) -> str:
    return f"{_difference(straggler)} / {_difference(total)}"


def _difference(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:+.1f}"


def _accuracy(summary: Summary) -> str:
    if math.isnan(summary.median):
        return "diverged"
    if len(summary.values) == 1:
        return f"{summary.median:.1f}"
    return f"{summary.median:.1f} [{summary.low:.1f}, {summary.high:.1f}]"


def _accuracies(ours: Measured) -> list[str]:
    """Of stragglers and of all, each at the end of training and as a mean over the curve's end."""
    late = percent(ours.late_straggler), percent(ours.late_total)
    return [_accuracy(ours.straggler), late[0], _accuracy(ours.total), late[1]]


def _published(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.1f} [{interval[0]:.1f}, {interval[1]:.1f}]"


# Tables.


def table(name: str, numbers: Numbers) -> Table:
    """A table of the paper beside ours; highest published straggler accuracy first."""
    variants = [v for v in published() if v.preset.startswith(f"{name}/")]
    variants.sort(key=lambda v: -paper_of(v.preset).straggler)
    budgets = {v: v.document["updates"] for v in variants}
    most, least = max(budgets.values()), min(budgets.values())
    rows, left = [], []
    for variant in variants:
        paper, ours = paper_of(variant.preset), numbers(variant)
        if ours is None:
            left.append(paper.row)
            continue
        rows.append(
            [
                paper.row + (" †" if budgets[variant] < most else ""),
                _published(paper.straggler, paper.straggler_interval),
                _accuracy(ours.straggler),
                percent(ours.late_straggler),
                _difference(ours.straggler.median - paper.straggler),
                _published(paper.total, paper.total_interval),
                _accuracy(ours.total),
                percent(ours.late_total),
                _difference(ours.total.median - paper.total),
                f"{paper.time_s:,.0f}{' *' if paper.anomaly else ''}",
                seconds(ours.time_s.median),
                f"{_difference(100 * (ours.time_s.median / paper.time_s - 1))} %",
                str(ours.trials),
            ]
        )
    names = [
        "",
        "straggler: paper",
        "here",
        "end",
        "Δ",
        "total: paper",
        "here",
        "end",
        "Δ",
        "time [s]: paper",
        "here",
        "Δ",
        "trials",
    ]
    task, latency = name.split("/")
    note = f"† {least:,} updates; all others {most:,}." if least < most else ""
    return Table(names, rows, f"{TASKS[task]}, {latency} latency", tuple(left), note)


def point(given: Point, numbers: Numbers) -> tuple[Point, Table]:
    """An open point as a table."""
    beside = numbers(given.beside)
    rows, left = [], []
    for variant in given.variants:
        label = given.label(variant)
        if (ours := numbers(variant)) is None:
            left.append(label)
            continue
        rows.append(
            [
                label,
                *_accuracies(ours),
                _difference(ours.late_straggler - beside.late_straggler) if beside else NOTHING,
                _difference(ours.late_total - beside.late_total) if beside else NOTHING,
                seconds(ours.time_s.median),
                str(ours.trials),
            ]
        )
    row = Variant(given.beside.preset).paper
    against = f"vs {row.row}: " if row else ""
    names = [
        "",
        "straggler",
        "end",
        "total",
        "end",
        f"{against}straggler",
        "total",
        "time [s]",
        "trials",
    ]
    return given, Table(names, rows, given.question, tuple(left))


def shown(given: Point, numbers: Numbers) -> bool:
    """Once there are two to compare, or the only one."""
    done = sum(numbers(variant) is not None for variant in given.variants)
    return done >= min(2, len(given.variants))


def untrained(given: Iterable[Point], numbers: Numbers) -> dict[str, list[str]]:
    """What open points have no trial of yet, by row."""
    left: dict[str, list[str]] = {}
    for one in given:
        sets = [f"`{', '.join(v.sets)}`" for v in one.variants if numbers(v) is None]
        if sets:
            left.setdefault(one.preset, []).append(f"{', '.join(sets)} ({one.name})")
    return left


ON_THE_WAY = (
    *(
        Variant(f"cifar100/per-domain/{row}")
        for row in (
            "fedadam",
            "fedadam-over-selection",
            "fare-dust",
            "fedavg",
            "fedavg-over-selection",
        )
    ),
    *(
        Variant(f"cifar100/per-domain/{row}", (SLOWER,))
        for row in ("fedadam", "fedadam-over-selection", "fare-dust")
    ),
)


def on_the_way(there: Found) -> Table:
    """CIFAR-100 by fifths of the budget: straggler and total accuracy."""
    rows = []
    for variant in ON_THE_WAY:
        straggler, total = (by_fifths(variant, there, one) for one in ("straggler", "total"))
        paper = paper_of(variant.preset)
        if straggler and total:
            label = ", ".join([paper.row, *variant.sets])
            cells = [f"{a:.1f} / {b:.1f}" for a, b in zip(straggler, total, strict=True)]
            last = f"{paper.straggler:.1f} / {paper.total:.1f}"
            rows.append([label, *cells, last, str(len(there[variant.key]))])
    names = ["", "first fifth", "second", "third", "fourth", "last", "paper, end", "trials"]
    return Table(names, rows)


MEAN = "distillation_term=mean"
DIGITS = (  # latency, row, what else it changes, how it is called
    ("per-domain", "fedavg", (), "FedAvg"),
    ("per-domain", "fedbuff-ema", (), "FedBuff + EMA"),
    ("per-domain", "fedadam-over-selection", (), "FedAdam + over-sel."),
    ("per-domain", "fare-dust", (), "FARe-DUST, a sum"),
    ("per-domain", "fare-dust", (MEAN,), "FARe-DUST, a mean"),
    ("per-example", "fedadam-over-selection", (), "FedAdam + over-sel."),
    ("per-example", "fare-dust", (), "FARe-DUST, a sum"),
    ("per-example", "fare-dust", (MEAN,), "FARe-DUST, a mean"),
)


def digits(numbers: Numbers) -> Table:
    """EMNIST's rows against FedAdam that waits for all, with all digits and with fewer.

    FedAdam with fewer digits was trained once for both latencies, which it does not depend on.
    """
    rows = []
    for latency, row, sets, label in DIGITS:
        preset, adam = f"emnist/{latency}/{row}", f"emnist/{latency}/fedadam"
        beside = Variant(adam), Variant("emnist/per-domain/fedadam", (FEWER,))
        ours = Variant(preset, sets), Variant(preset, (FEWER, *sets))
        cells = [_against(numbers, a, b) for a, b in zip(ours, beside, strict=True)]
        rows.append([f"{latency}: {label}", paper_apart(preset, adam), *sum(cells, [])])
    names = ["", "paper", "all digits", "trials", "as many as published", "trials"]
    return Table(names, rows)


def _against(numbers: Numbers, variant: Variant, beside: Variant) -> list[str]:
    ours, theirs = numbers(variant), numbers(beside)
    return [apart(ours, theirs), str(ours.trials)] if ours and theirs else [NOTHING, "0"]


JOINS = ("algorithm.name=semi-async", "late_rounds=50")
REMEDIES = (  # row, what it changes, how it is called: all on EMNIST with per-domain latency
    ("fedadam", (), "FedAdam, waiting for all"),
    ("fedadam-over-selection", (), "FedAdam + over-sel."),
    ("fare-dust", ("distillation=0.0", MEAN), "… EMA"),
    ("fedadam-over-selection", ("participation=corrected",), "… who seldom takes part counts more"),
    ("fedadam-over-selection", ("participation=corrected", "ema=0.99"), "… the same, EMA"),
    ("fedadam-over-selection", JOINS, "… late reports join the next step"),
    ("fedadam-over-selection", (*JOINS, "ema=0.99"), "… the same, EMA"),
    (
        "fedadam-over-selection",
        (*JOINS, "ema=0.99", "time_limit.percentile=75.0"),
        "… the same, EMA, a time limit",
    ),
    (
        "fedadam-over-selection",
        (*JOINS, "ema=0.99", "time_limit.percentile=75.0", "local_steps=normalised"),
        "… the same, EMA, a time limit, reports divided by local steps",
    ),
    ("fedadam-over-selection", ("tiers=4",), "… each round of one of four tiers"),
    ("fedadam-over-selection", ("tiers=4", "ema=0.99"), "… the same, EMA"),
    ("feast", ("kappa=0.2",), "FeAST, κ = 0.2"),
    ("fare-dust", (), "FARe-DUST"),
    ("fedbuff-ema-adam", (), "FedBuff + EMA + Adam"),
)


def remedies(numbers: Numbers) -> Table:
    """What hears of stragglers without waiting for all: accuracies at the end, and the time."""
    waiting = numbers(Variant("emnist/per-domain/fedadam"))
    rows = []
    for row, sets, label in REMEDIES:
        ours = numbers(Variant(f"emnist/per-domain/{row}", sets))
        if ours and waiting:
            time = f"{100 * ours.time_s.median / waiting.time_s.median:.0f} %"
            cells = percent(ours.late_straggler), percent(ours.late_total), percent(ours.swing)
            rows.append([label, *cells, time, str(ours.trials)])
    return Table(["", "straggler", "total", "swing", "time", "trials"], rows)


class Clients(NamedTuple):
    """Of a population, by its schedule."""

    all: int
    stragglers: int
    examples: float  # of all
    of_stragglers: float  # percent of them
    largest: float  # of one client
    median: dict[str, float]  # examples of a client, by group


def clients(schedule: dict[str, Any]) -> Clients:
    groups = schedule["groups"]
    examples = {name: one["clients"] * one["examples"]["mean"] for name, one in groups.items()}
    every = sum(examples.values())
    return Clients(
        sum(one["clients"] for one in groups.values()),
        groups["straggler"]["clients"],
        every,
        100 * examples["straggler"] / every,
        max(one["examples"]["max"] for one in groups.values()),
        {name: one["examples"]["p50"] for name, one in groups.items()},
    )


class Exchange(NamedTuple):
    """StackOverflow's rows on Stack Exchange users."""

    table: Table  # highest straggler accuracy at the end of the curves first
    ranked: list[str]  # rows, likewise
    published: list[str]  # rows by their published straggler accuracies
    updates: int
    clients: Clients
    rate: float  # sentences per second of real time, of the first row that was trained


def exchanged(numbers: Callable, there: Found) -> Exchange | None:
    """None before the first trial."""
    variants = [variant for variant in exchange() if numbers(variant)]
    if not variants:
        return None
    papers = {v: paper_of(v.preset) for v in exchange()}
    names = [
        "",
        "straggler: paper",
        "here",
        "end",
        "total: paper",
        "here",
        "end",
        "time [s]: paper",
        "here",
        "trials",
    ]
    rows = []
    for variant in sorted(variants, key=lambda v: -numbers(v).late_straggler):
        ours, paper = numbers(variant), papers[variant]
        straggler, end, total, total_end = _accuracies(ours)
        rows.append(
            [
                paper.row,
                _published(paper.straggler, paper.straggler_interval),
                straggler,
                end,
                _published(paper.total, paper.total_interval),
                total,
                total_end,
                f"{paper.time_s:,.0f}",
                seconds(ours.time_s.median),
                str(ours.trials),
            ]
        )
    left = tuple(paper.row for variant, paper in papers.items() if variant not in variants)
    trial = there[variants[0].key][0]
    together = trial.run["device"]["trials_together"]
    return Exchange(
        Table(names, rows, left=left),
        [row[0] for row in rows],
        [paper.row for paper in sorted(papers.values(), key=lambda paper: -paper.straggler)],
        trial.settings["updates"],
        clients(trial.run["schedule"]),
        together * float(trial.curve["examples"][-1] / trial.curve["wall_s"][-1]),
    )
