"""Figures of run folders, in the look of `colours.py`: every function takes records.

accuracy_figure    straggler and total accuracy over simulated time: median and band
trade_off_figure   straggler accuracy over total accuracy and over time, with the Pareto front
result_figures     all of them, and the paper's comparison sets, by file name
"""

import math
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from stragglers._core import files
from stragglers.report import curves, result_table
from stragglers.report.colours import DASHES, MARKERS, Look, looks
from stragglers.report.grouping import Experiment, Section, comparison_sets, sections
from stragglers.report.statistics import USUAL, Interval
from stragglers.runs.records import Record

MOST = 24  # entries of a legend
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.6,
}


@matplotlib.rc_context(STYLE)
def accuracy_figure(records: Iterable[Record], interval: Interval = USUAL) -> Figure:
    """One row of axes for each task and latency model."""
    found = sections(records)
    figure = Figure(figsize=(8, 3.6 * len(found)), layout="constrained")
    for part, section in zip(
        figure.subfigures(len(found), squeeze=False)[:, 0], found, strict=True
    ):
        part.suptitle(f"{as_it_is(section.title)}\nmedian and {interval.text}", fontsize=9)
        left, right = part.subplots(1, 2)
        style = looks(section.experiments)
        size, unit = curves.time_unit(curves.longest(section))
        for axes, group in ((left, "straggler"), (right, "total")):
            for experiment in section.experiments:
                line(axes, experiment, group, style[experiment.label], size, interval)
            axes.set(xlabel=f"simulated time [{unit}]", ylabel=f"{group} accuracy [%]")
            axes.set_xlim(left=0)
        _legend(part, left)
    return figure


def line(
    axes: Axes, experiment: Experiment, group: str, look: Look, size: float, interval: Interval
) -> None:
    """Median and band; a trial that diverged ends in a cross, one that still runs is thin."""
    style = {"color": look.colour, "linestyle": DASHES[look.dash]}
    label = as_it_is(curves.caption(experiment))
    if band := curves.band(experiment, interval):
        x = band.x["time_s"] / size
        axes.plot(x, 100 * band.median[group], label=label, **style)
        if band.trials > 1:
            low, high = 100 * band.low[group], 100 * band.high[group]
            axes.fill_between(x, low, high, color=look.colour, alpha=0.15, linewidth=0)
        label = None
    for trial in curves.loners(experiment):
        time, accuracy = trial.curve["time_s"] / size, 100 * trial.curve[f"{group}_accuracy"]
        axes.plot(time, accuracy, label=label, linewidth=0.8, **style)
        if trial.status == "diverged":
            axes.plot(time[-1:], accuracy[-1:], "x", color=look.colour)
        label = None


@matplotlib.rc_context(STYLE)
def trade_off_figure(
    records: Iterable[Record], best: bool = False, interval: Interval = USUAL
) -> Figure:
    """Final values, or those at each trial's best straggler accuracy, with their intervals."""
    found = result_table.tables(records, result_table.Options(interval, best=best))
    figure = Figure(figsize=(8, 3.8 * len(found)), layout="constrained")
    what = "best straggler accuracy of each trial" if best else "end of training"
    for part, table in zip(figure.subfigures(len(found), squeeze=False)[:, 0], found, strict=True):
        part.suptitle(
            f"{as_it_is(table.section.title)}: {what}\nmedian and {interval.text}", fontsize=9
        )
        left, right = part.subplots(1, 2, sharey=True)
        style = looks(table.section.experiments)
        size, unit = curves.time_unit(curves.longest(table.section))
        _points(left, table.rows, style, "total_accuracy", 0.01)
        _points(right, table.rows, style, "time_s", size)
        left.set(xlabel="total accuracy [%]", ylabel="straggler accuracy [%]")
        right.set(xlabel=f"simulated time [{unit}]")
        right.set_xlim(left=0)
        _legend(part, left)
    return figure


def _points(
    axes: Axes, rows: Sequence[result_table.Row], style: dict[str, Look], key: str, size: float
) -> None:
    """A cross of intervals for each experiment, and a line through those that none beats."""
    lost = [row for row in rows if math.isnan(row.metrics["straggler_accuracy"].median)]
    middles = []
    for row in rows:
        if row in lost:
            continue
        x, y = row.metrics[key], row.metrics["straggler_accuracy"]
        look = style[row.experiment.label]
        middles.append((x.median / size, 100 * y.median))
        axes.errorbar(
            *middles[-1],
            xerr=np.nan_to_num([[x.median - x.low], [x.high - x.median]]) / size,
            yerr=np.nan_to_num([[y.median - y.low], [y.high - y.median]]) * 100,
            color=look.colour,
            marker=MARKERS[look.marker],
            markersize=5,
            elinewidth=1,
            linestyle="none",
            label=as_it_is(row.experiment.label),
        )
    for row in lost:
        look = style[row.experiment.label]
        axes.plot([], [], "x", color=look.colour, label=as_it_is(curves.caption(row.experiment)))
    front = [middles[i] for i in curves.front(middles, less_x=key == "time_s")]
    axes.plot(*np.array(front).reshape(-1, 2).T, color="0.6", linewidth=1, zorder=0)


def _legend(part: SubFigure, axes: Axes) -> None:
    """Below the axes, unless it would be larger than they are."""
    handles, labels = axes.get_legend_handles_labels()
    if 0 < len(labels) <= MOST:
        part.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


def as_it_is(given: str) -> str:
    """Text as it is: matplotlib takes $ for mathematics and hides labels that begin with _."""
    return given.replace("$", r"\$").replace("_", " _", given.startswith("_"))


def result_figures(records: Iterable[Record]) -> dict[str, Figure]:
    """Everything that results alone can show, by the name of its file."""
    drawn = {}
    for section in sections(records):
        trials = [trial for experiment in section.experiments for trial in experiment.trials]
        drawn[slug(section, "accuracy")] = accuracy_figure(trials)
        drawn[slug(section, "trade-off")] = trade_off_figure(trials)
        drawn[slug(section, "trade-off-best")] = trade_off_figure(trials, best=True)
        for name, members in comparison_sets(section).items():
            chosen = [trial for experiment in members for trial in experiment.trials]
            drawn[slug(section, name)] = accuracy_figure(chosen)
    return drawn


def to_plan(records: Iterable[Record]) -> dict[str, Record]:
    """The trial whose latencies and schedule stand for each experiment, by the figure's name."""
    found: dict[str, Record] = {}
    for section in sections(records):
        for experiment in section.experiments:
            name = slug(section, f"plan-{experiment.label}")
            name = f"{name}-{experiment.hash[:6]}" if name in found else name
            found[name] = experiment.trials[0]
    return found


def slug(section: Section, what: str) -> str:
    """A name for a file: lower-case letters, digits, dots and hyphens."""
    text = f"{section.task}-{section.latency}-{what}".lower()
    return re.sub(r"[^a-z0-9.=]+", "-", text).strip("-.")[:120]


def save(figure: Figure, path: Path) -> None:
    """Writes a figure whole, without a date or a random name: the same runs give the same bytes."""
    dateless = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    metadata = dateless.get(path.suffix.lower(), {})
    fixed: dict[Any, Any] = {"svg.hashsalt": "stragglers", "pdf.fonttype": 42}
    with matplotlib.rc_context(fixed), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script without font
        files.write(path, lambda temporary: figure.savefig(temporary, dpi=200, metadata=metadata))
