"""Plans and fits as pictures: how slow each group is, and what the server waits for."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

from stragglers.planning.availability import HOUR
from stragglers.planning.population import Population
from stragglers.planning.schedule import Fate, Schedule
from stragglers.report.colours import DASHES
from stragglers.report.colours import GROUPS as COLOURS
from stragglers.report.figures import STYLE, as_it_is


def plan_figure(schedule: Schedule, title: str) -> Figure:
    """Latency histograms (stacked) and CDFs of each group, and the first server steps in time.

    Where clients have hours, also who starts when in a cycle.
    """
    population = schedule.population
    latencies = schedule.fleet.one_epoch() if schedule.fleet.one_epoch else np.empty(0)
    online = schedule.fleet.online
    cycle = online.cycle / HOUR if online else None
    figure = Figure(figsize=(11, 6.5 if cycle is None else 9), layout="constrained")
    grid = figure.add_gridspec(2 if cycle is None else 3, 2, width_ratios=(2, 3))
    density, cumulative = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
    timeline = figure.add_subplot(grid[:2, 1])
    if cycle is not None:
        _hours(figure.add_subplot(grid[2, :]), population, schedule, cycle)
    figure.suptitle(title, parse_math=False)  # a name is a name, $ and all

    finite = latencies[np.isfinite(latencies) & (latencies > 0)]
    if finite.size:
        low, high = finite.min(), max(finite.max(), finite.min() * 1.01)
        bins = np.geomspace(low, high, 60)
        by_group = [latencies[population.group == i] for i in range(len(population.groups))]
        density.hist(
            by_group, bins, stacked=True, color=_colours(population), label=population.groups
        )
        for index, values in enumerate(by_group):
            cumulative.plot(
                np.sort(values),
                (np.arange(len(values)) + 1) / len(values),
                color=_colours(population)[index],
                label=population.groups[index],
            )
        for axes in (density, cumulative):
            logarithmic(axes)
            axes.set_xlim(low, high)
        density.legend(frameon=False)
    density.set_ylabel("clients (stacked)")
    cumulative.set(xlabel="latency [s]", ylabel="share of the group")
    cumulative.grid(alpha=0.3)
    _timeline(timeline, population, schedule)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _hours(axes: Axes, population: Population, schedule: Schedule, cycle: float) -> None:
    """Who starts in each part of a cycle, over all of them; `cycle` in hours."""
    hour, group = np.mod(schedule.start / HOUR, cycle), population.group[schedule.client]
    axes.hist(
        [hour[group == index] for index in range(len(population.groups))],
        [*np.linspace(0, cycle, 49)],
        stacked=True,
        color=_colours(population),
        label=population.groups,
    )
    axes.set(xlim=(0, cycle), xlabel=f"hour of {cycle:g}", ylabel="clients that start (stacked)")


def logarithmic(axes: Axes) -> None:
    """Seconds from left to right, with numbers as people write them."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda value, _: "")


def _timeline(axes, population: Population, schedule: Schedule) -> None:
    """A bar for each client of the first steps; reports that count end in a dot."""
    rows, steps = _first_rows(schedule)
    right = 1.15 * max(schedule.time[min(steps, schedule.steps) - 1], 1e-9)
    colours = np.array(_colours(population))[population.group[schedule.client[rows]]]
    counted = np.isin(schedule.fate[rows], (Fate.ON_TIME, Fate.LATE))
    ends = np.minimum(schedule.stop[rows], right * 2)
    axes.hlines(
        np.arange(len(rows)),
        schedule.start[rows],
        ends,
        colors=colours,
        alpha=np.where(counted, 0.9, 0.3),
        linewidth=1.6,
    )
    marks = {
        Fate.ON_TIME: ("o", "on time"),
        Fate.LATE: ("D", "late"),
        Fate.UNUSED: ("x", "unused"),
        Fate.LOST: ("v", "lost"),
    }
    for fate, (marker, label) in marks.items():
        which = schedule.fate[rows] == fate
        if which.any():
            axes.scatter(
                ends[which], np.flatnonzero(which), c=colours[which], marker=marker, s=14, zorder=3
            )
            axes.scatter([], [], c="grey", marker=marker, s=14, label=label)
    for time in schedule.time[:steps]:
        axes.axvline(time, color="black", linewidth=0.7, alpha=0.6)
    axes.plot([], [], color="black", linewidth=0.7, label="server step")
    axes.set(xlim=(0, right), ylim=(len(rows), -1), title="The first server steps")
    axes.set(xlabel="time [s]", ylabel="clients in the order of their start")
    axes.set_yticks([])
    axes.legend(frameon=True, loc="lower left")


def _first_rows(schedule: Schedule, most: int = 120, each: int = 40) -> tuple[NDArray, int]:
    """Dispatches to show, at most `each` from one version, and how many versions they span."""
    rows: list[int] = []
    version = 0
    while len(rows) < most and version < schedule.steps:
        first, last = np.searchsorted(schedule.version, [version, version + 1])
        rows += range(first, min(last, first + each, first + most - len(rows)))
        version += 1
    return np.array(rows), version


def _colours(population: Population) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(len(population.groups))]


Times = Mapping[str, NDArray[np.float64]]  # of a group, seconds: "log" and "fitted"


@matplotlib.rc_context(STYLE)
def fit_figure(times: Mapping[str, Times], percent: Sequence[int], title: str) -> Figure:
    """Percent of reports by the time that they took, of each group: measured, and as fitted."""
    figure = Figure(figsize=(6, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, parse_math=False)
    for index, (name, found) in enumerate(times.items()):
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(found["log"], percent, color=colour, label=as_it_is(name))
        axes.plot(found["fitted"], percent, color=colour, linestyle=DASHES["dash"])
    axes.plot([], [], color="grey", label="measured")
    axes.plot([], [], color="grey", linestyle=DASHES["dash"], label="fitted")
    if all(found["log"][0] > 0 for found in times.values()):
        logarithmic(axes)
    axes.set(xlabel="T [s]", ylabel="reports [%], each client once", ylim=(0, 100))
    axes.legend(frameon=False)
    return figure
