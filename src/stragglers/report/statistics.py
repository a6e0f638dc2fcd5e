"""Trials as numbers.

    final       a trial's last point; best: its point of highest straggler accuracy
    range       percentiles (1 - level) / 2 and (1 + level) / 2 over trials, interpolated linearly:
                a level of 0.9 is the 5-95 % range
    median-ci   confidence interval of the median, by inverting the binomial test (scipy)
    target      when a curve first reaches an accuracy, interpolated linearly between its points;
                the time of its first point if that is there already
    pairs       trials of two experiments with the same seed; Wilcoxon's signed-rank test (scipy)

A trial without a number (it diverged) takes the median away: it is counted and shown, never
averaged over.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.runs.records import Record

Method = Literal["range", "median-ci"]
GROUPS = ("straggler", "standard", "total")
FEWEST_PAIRS = 6  # with 5, the smallest two-sided p is 0.06


class Interval(NamedTuple):
    method: Method = "range"
    level: float = 0.9

    @property
    def text(self) -> str:
        if self.method == "median-ci":
            return f"{100 * self.level:g} % confidence interval of the median (binomial)"
        low, high = (50 * (1 - self.level), 50 * (1 + self.level))
        return f"{low:g}\N{EN DASH}{high:g} % range over trials (interpolated percentiles)"


USUAL = Interval()  # what the paper's intervals seem to be


class Summary(NamedTuple):
    """NaN stands for what there is not: a median over lost trials, an interval of too few."""

    values: tuple[float, ...]  # of each trial that is over, by seed
    median: float
    low: float
    high: float
    lost: int  # trials without a number


class Reached(NamedTuple):
    times: tuple[float, ...]  # seconds of each trial that is over; infinity: never
    median: float  # with those that never got there counted as later than all others
    there: int  # how many reach it


class Pairs(NamedTuple):
    seeds: tuple[int, ...]
    lost: int  # shared seeds of which a trial diverged; left out
    difference: float  # median of (experiment - reference) over the pairs
    p: float | None  # None with too few pairs


def checked_interval(method: Method, level: float) -> Interval:
    if not 0 < level < 1:
        raise BadInput(f"level={level:g}, expected a share between 0 and 1, such as 0.9")
    return Interval(method, level)


def summarise(values: Sequence[float], interval: Interval) -> Summary:
    numbers = np.array(values, np.float64)
    lost = int((~np.isfinite(numbers)).sum())
    if lost or not numbers.size:
        return Summary(tuple(values), math.nan, math.nan, math.nan, lost)
    low, high = bounds(numbers, interval)
    return Summary(tuple(values), float(np.median(numbers)), low, high, 0)


def bounds(numbers: NDArray[np.float64], interval: Interval) -> tuple[float, float]:
    if interval.method == "range":
        tail = 50 * (1 - interval.level)
        low, high = np.percentile(numbers, (tail, 100 - tail))
        return float(low), float(high)
    from scipy.stats import quantile_test  # half a second to load

    test = quantile_test(numbers, q=np.median(numbers), p=0.5)  # pyright: ignore[reportArgumentType]
    low, high = test.confidence_interval(interval.level)
    return float(low), float(high)


def time_to(trial: Record, group: str, target: float) -> float:
    """Simulated seconds until a trial's curve first reaches the target; infinity: never."""
    accuracy, time = trial.curve[f"{group}_accuracy"], trial.curve["time_s"]
    there = np.flatnonzero(accuracy >= target)
    if not there.size:
        return math.inf
    first = there[0]
    if first == 0 or not np.isfinite(accuracy[first - 1]):
        return float(time[first])
    before, after = accuracy[first - 1], accuracy[first]
    share = (target - before) / (after - before)
    return float(time[first - 1] + share * (time[first] - time[first - 1]))


def reached(trials: Sequence[Record], group: str, target: float) -> Reached:
    times = [time_to(trial, group, target) for trial in trials]
    middle = float(np.median(times)) if times else math.nan  # half-way to infinity is infinity
    return Reached(tuple(times), middle, sum(map(math.isfinite, times)))


def compare(
    trials: Sequence[Record], reference: Sequence[Record], key: str, best: bool = False
) -> Pairs:
    """Differences over the seeds that both have."""
    beside = {trial.seed: trial.outcome(key, best) for trial in reference}
    shared = {
        trial.seed: trial.outcome(key, best) - beside[trial.seed]
        for trial in trials
        if trial.seed in beside
    }
    found = {seed: value for seed, value in shared.items() if math.isfinite(value)}
    lost = len(shared) - len(found)
    if not found:
        return Pairs((), lost, math.nan, None)
    differences = np.array(list(found.values()))
    middle = float(np.median(differences))
    return Pairs(tuple(found), lost, middle, _signed_rank(differences))


def _signed_rank(differences: NDArray[np.float64]) -> float | None:
    if len(differences) < FEWEST_PAIRS:
        return None
    if not differences.any():
        return 1.0
    from scipy.stats import wilcoxon

    _, p = wilcoxon(differences)  # exact for as few as ten trials
    return float(p)  # pyright: ignore[reportArgumentType]
