"""Lines with bands, for figures and for the page.

The k-th evaluations of all finished trials form one point: median and interval of the accuracy
over the median of their times. Trials that diverged or still run are lines of their own.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers.report.grouping import Experiment, Section
from stragglers.report.statistics import GROUPS, Interval
from stragglers.runs.records import Record

AXES = ("time_s", "updates")
LINES = (*GROUPS, "matched_straggler", "matched_total")  # accuracies, as the curve's columns begin


class Band(NamedTuple):
    x: dict[str, NDArray[np.float64]]  # by AXES
    median: dict[str, NDArray[np.float64]]  # by LINES, shares
    low: dict[str, NDArray[np.float64]]
    high: dict[str, NDArray[np.float64]]
    trials: int


def band(experiment: Experiment, interval: Interval) -> Band | None:
    """The middle of an experiment's finished trials, as far as all of them go."""
    good = [t for t in experiment.trials if t.status == "finished" and not t.is_cut]
    points = min((len(trial.curve["step"]) for trial in good), default=0)
    if not points:
        return None
    tail = 50 * (1 - interval.level)

    def stacked(key: str) -> NDArray[np.float64]:
        return np.array([trial.curve[key][:points] for trial in good], np.float64)

    levels = {
        group: np.percentile(stacked(f"{group}_accuracy"), (50, tail, 100 - tail), axis=0)
        for group in LINES
    }
    median, low, high = ({g: levels[g][index] for g in LINES} for index in range(3))
    x = {axis: np.median(stacked(axis), axis=0) for axis in AXES}
    return Band(x, median, low, high, len(good))


def loners(experiment: Experiment) -> list[Record]:
    """Trials outside the band, which must be seen all the same."""
    outside = (t for t in experiment.trials if t.status != "finished" or t.is_cut)
    return [trial for trial in outside if len(trial.curve["step"])]


def caption(experiment: Experiment) -> str:
    """The label, and what a line or point cannot show by itself."""
    lost = sum(trial.status == "diverged" for trial in experiment.trials)
    going = sum(trial.status == "running" for trial in experiment.trials)
    cut = sum(trial.is_cut for trial in experiment.trials)
    counts = {"diverged": lost, "unfinished": going, "cut short": cut}
    said = [f"{count} {what}" for what, count in counts.items() if count]
    return (
        f"{experiment.label} ({', '.join(said)} of {len(experiment.trials)})"
        if said
        else (experiment.label)
    )


def longest(section: Section) -> float:
    """Simulated seconds of the longest trial."""
    return max(
        (trial.curve["time_s"].max(initial=0.0) for e in section.experiments for trial in e.trials),
        default=0.0,
    )


def time_unit(seconds: float) -> tuple[float, str]:
    """What to divide by, so that an axis has numbers of a few digits."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 4 * size:
            return size, unit
    return 1, "s"


def front(points: list[tuple[float, float]], less_x: bool = False) -> list[int]:
    """The Pareto front: points that no other one beats in both, by rising x.

    More is better in y; in x too, unless `less_x`.
    """
    sign = -1 if less_x else 1
    order = sorted(range(len(points)), key=lambda i: (-sign * points[i][0], -points[i][1]))
    best, found = -np.inf, []
    for index in order:
        if points[index][1] > best:
            best = points[index][1]
            found.append(index)
    return sorted(found, key=lambda i: points[i])
