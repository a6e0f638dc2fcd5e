"""docs/reproduction.md: the template, and numbers as cells.

Percent and points throughout, seconds of simulated time. A number of one trial has no interval.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from reproduction import costs
from reproduction.claims import EQUAL, claims
from reproduction.rows import (
    FIFTHS,
    HERE,
    TABLES,
    Found,
    Measured,
    Point,
    Variant,
    by_fifths,
    exchange,
    found,
    measured,
)
from reproduction.rows import points as open_points
from reproduction.rows import published as published_rows
from stragglers import build, config
from stragglers.commands.plan import summarised
from stragglers.report.cells import NOTHING, seconds
from stragglers.report.experiments import TASKS
from stragglers.report.statistics import Summary


class Table(NamedTuple):
    title: str
    names: list[str]
    rows: list[list[str]]
    left: list[str]  # what it has no row of yet


def document() -> str:
    """The whole text, from what is in results/ alone."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    there = found()

    @cache
    def numbers(variant: Variant) -> Measured | None:
        return measured(variant, there)

    environment = Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, trim_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["table"] = _markdown
    return environment.get_template("template.md").render(
        tables=[table for name in TABLES if (table := _table(name, numbers)).rows],
        claims=claims(numbers),
        points=[_point(point, numbers) for point in open_points() if _shown(point, numbers)],
        waiting=[point for point in open_points() if not _shown(point, numbers)],
        costs=Table("", *costs.costs(there), []),
        ran=costs.ran(there),
        at=lambda preset, *sets: numbers(Variant(preset, sets)),
        apart=lambda preset, other: _apart(there, preset, other),
        share=lambda preset, *sets: _straggler_share(there, Variant(preset, sets)),
        scatter=lambda preset, *sets: _scatter(Variant(preset, sets)),
        expected=lambda preset: _expected_share(Variant(preset)),
        off=lambda preset, *sets: _off(Variant(preset, sets)),
        longer=lambda preset, other, *sets: _longer(Variant(preset), Variant(other, sets)),
        both=lambda ours: f"{_accuracy(ours.straggler)} / {_accuracy(ours.total)}",
        exchange=_exchange(numbers, there),
        on_the_way=_on_the_way(there),
        most_off=lambda task: max(map(abs, _times_off(task, numbers))),
        paper_apart=_paper_apart,
        lead=lambda *what: _lead(there, *what),
        ends=lambda ours: f"{_percent(ours.late_straggler)} / {_percent(ours.late_total)}",
    )


# Cells.


def _accuracy(summary: Summary) -> str:
    if math.isnan(summary.median):
        return "diverged"
    if len(summary.values) == 1:
        return f"{summary.median:.1f}"
    return f"{summary.median:.1f} [{summary.low:.1f}, {summary.high:.1f}]"


def _accuracies(ours: Measured) -> list[str]:
    """Of stragglers and of all, each at the end of training and as a mean over the curve's end."""
    late = _percent(ours.late_straggler), _percent(ours.late_total)
    return [_accuracy(ours.straggler), late[0], _accuracy(ours.total), late[1]]


def _percent(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:.1f}"


def _difference(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:+.1f}"


def _published(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.1f} [{interval[0]:.1f}, {interval[1]:.1f}]"


def _markdown(table: Table) -> str:
    lines = [table.names, ["---", *["---:"] * (len(table.names) - 1)], *table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# Tables.


def _table(name: str, numbers: Any) -> Table:
    """A table of the paper beside ours; highest published straggler accuracy first."""
    variants = [v for v in published_rows() if v.preset.startswith(f"{name}/")]
    variants.sort(key=lambda v: -v.paper.straggler if v.paper else 0)
    rows, left = [], []
    for variant in variants:
        paper, ours = variant.paper, numbers(variant)
        assert paper
        if ours is None:
            left.append(paper.row)
            continue
        rows.append([
            paper.row,
            _published(paper.straggler, paper.straggler_interval),
            _accuracy(ours.straggler),
            _percent(ours.late_straggler),
            _difference(ours.straggler.median - paper.straggler),
            _published(paper.total, paper.total_interval),
            _accuracy(ours.total),
            _percent(ours.late_total),
            _difference(ours.total.median - paper.total),
            f"{paper.time_s:,.0f}{' *' if paper.anomaly else ''}",
            seconds(ours.time_s.median),
            f"{_difference(100 * (ours.time_s.median / paper.time_s - 1))} %",
            str(ours.trials),
        ])  # fmt: skip
    names = ["", "straggler: paper", "here", "end", "Δ", "total: paper", "here", "end", "Δ",
             "time [s]: paper", "here", "Δ", "trials"]  # fmt: skip
    task, latency = name.split("/")
    return Table(f"{TASKS[task]}, {latency} latency", names, rows, left)


def _point(point: Point, numbers: Any) -> tuple[Point, Table, str]:
    """An open point as a table, and what it says."""
    beside = numbers(point.beside)
    rows, left, there = [], [], {}
    for variant in point.variants:
        label = point.label(variant)
        if (ours := numbers(variant)) is None:
            left.append(label)
            continue
        if not math.isnan(ours.swing):
            there[label] = ours
        rows.append([
            label,
            *_accuracies(ours),
            _difference(ours.late_straggler - beside.late_straggler) if beside else NOTHING,
            _difference(ours.late_total - beside.late_total) if beside else NOTHING,
            seconds(ours.time_s.median), str(ours.trials),
        ])  # fmt: skip
    row = Variant(point.beside.preset).paper
    against = f"vs {row.row}: " if row else ""
    names = ["", "straggler", "end", "total", "end", f"{against}straggler", "total",
             "time [s]", "trials"]  # fmt: skip
    said = _sentence(there, beside, row) if len(point.variants) > 1 else ""
    return point, Table(point.question, names, rows, left), said


def _sentence(there: dict[str, Measured], beside: Measured | None, row: Any) -> str:
    if not there:
        return "All of them diverged."
    straggler = max(there, key=lambda label: there[label].late_straggler)
    total = max(there, key=lambda label: there[label].late_total)
    said = f"Most straggler accuracy: {straggler}; most total accuracy: {total}."
    if beside is None or row is None:
        return said
    above = [
        label
        for label, ours in there.items()
        if min(ours.late_straggler - beside.late_straggler,
               ours.late_total - beside.late_total) > EQUAL
    ]  # fmt: skip
    return f"{said} Above {row.row} in both by more than a point: {'; '.join(above) or 'none'}."


SLOWER = "server.learning_rate=0.2"
ON_THE_WAY = (
    *(Variant(f"cifar100/per-domain/{row}") for row in
      ("fedadam", "fedadam-over-selection", "fare-dust", "fedavg", "fedavg-over-selection")),
    *(Variant(f"cifar100/per-domain/{row}", (SLOWER,)) for row in
      ("fedadam", "fedadam-over-selection", "fare-dust")),
)  # fmt: skip


def _on_the_way(there: Found) -> Table:
    """CIFAR-100 by fifths of the budget: straggler and total accuracy."""
    rows = []
    for variant in ON_THE_WAY:
        straggler, total = (by_fifths(variant, there, one) for one in ("straggler", "total"))
        paper = Variant(variant.preset).paper
        if straggler and total and paper:
            label = ", ".join([paper.row, *variant.sets])
            cells = [f"{a:.1f} / {b:.1f}" for a, b in zip(straggler, total, strict=True)]
            published = f"{paper.straggler:.1f} / {paper.total:.1f}"
            rows.append([label, *cells, published, str(len(there[variant.key]))])
    names = ["", "first fifth", "second", "third", "fourth", "last", "paper, end", "trials"]
    return Table("", names, rows, [])


def _lead(there: Found, preset: str, other: str, metric: str, *sets: str) -> list[str]:
    """How far a row is above another in each fifth of the budget, in points."""
    curves = (by_fifths(Variant(name, sets), there, metric) for name in (preset, other))
    ours, theirs = (curve or [math.nan] * FIFTHS for curve in curves)
    return [_percent(a - b) for a, b in zip(ours, theirs, strict=True)]


def _paper_apart(preset: str, other: str) -> str:
    """How far a row is above another in the paper, in points."""
    ours, theirs = Variant(preset).paper, Variant(other).paper
    assert ours and theirs
    return f"{ours.straggler - theirs.straggler:+.1f} / {ours.total - theirs.total:+.1f}"


def _times_off(task: str, numbers: Any) -> list[float]:
    """Of every row of a task whose published time is no anomaly, in percent of that."""
    return [
        100 * (ours.time_s.median / variant.paper.time_s - 1)
        for variant in published_rows()
        if variant.preset.startswith(f"{task}/") and variant.paper and not variant.paper.anomaly
        and (ours := numbers(variant))
    ]  # fmt: skip


class Exchange(NamedTuple):
    """StackOverflow's rows on Stack Exchange users."""

    table: Table  # highest straggler accuracy at the end of the curves first
    published: list[str]  # rows and their straggler accuracies, likewise
    updates: int
    rate: float  # sentences per second of real time, of the first row that was trained


def _exchange(numbers: Any, there: Found) -> Exchange | None:
    """None before the first trial."""
    variants = [variant for variant in exchange() if numbers(variant)]
    if not variants:
        return None
    papers = {v: Variant(v.preset).paper for v in exchange()}
    rows, names = [], ["", "straggler", "end", "total", "end", "time [s]", "trials"]
    for variant in sorted(variants, key=lambda v: -numbers(v).late_straggler):
        ours, paper = numbers(variant), papers[variant]
        assert paper
        rows.append([
            paper.row,
            *_accuracies(ours),
            seconds(ours.time_s.median), str(ours.trials),
        ])  # fmt: skip
    left = [paper.row for variant, paper in papers.items() if paper and variant not in variants]
    trial = there[variants[0].key][0]
    together = trial.run["device"]["trials_together"]
    ranked = sorted((paper for paper in papers.values() if paper), key=lambda p: -p.straggler)
    return Exchange(
        Table("", names, rows, left),
        [f"{paper.row} {paper.straggler:.1f}" for paper in ranked],
        trial.settings["updates"],
        together * float(trial.curve["examples"][-1] / trial.curve["wall_s"][-1]),
    )


def _shown(point: Point, numbers: Any) -> bool:
    """Once there are two to compare, or the only one."""
    done = sum(numbers(variant) is not None for variant in point.variants)
    return done >= min(2, len(point.variants))


# Trials side by side.


def _straggler_share(there: Found, variant: Variant) -> float:
    """Percent of the reports on time that come from stragglers."""
    trial = there[variant.key][0]
    return 100 * trial.run["schedule"]["share"]["straggler"]["used"]


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
    times = [_time(variant, seed) for seed in range(10)]
    return 100 * float(np.std(times) / np.mean(times))


@cache
def _longer(variant: Variant, other: Variant) -> float:
    """How much more another variant has, in percent."""
    return 100 * (_time(other, 0) / _time(variant, 0) - 1)


@cache
def _off(variant: Variant) -> float:
    """How much longer than published, in percent, with clients of the published sizes."""
    times = [_time(variant, seed) for seed in range(5)]
    return 100 * (float(np.median(times)) / Variant(variant.preset).document["paper"]["time_s"] - 1)


@cache
def _expected_share(variant: Variant) -> float:
    """Of stragglers among reports on time, in percent, with clients of the published sizes."""
    return 100 * summarised(variant.document)[0]["share"]["straggler"]["used"]


def _time(variant: Variant, seed: int) -> float:
    experiment = config.experiment_from(config.override(variant.document, f"seed={seed}"))
    return build.timetable(experiment, build.clients(experiment.task, experiment.seed)).end
