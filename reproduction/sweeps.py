"""Comparisons along an open point (open_points.toml): does a number go one way, where is the best?

Checks as in comparisons.py; a sweep that was not trained, or of too few variants, has none.
"""

import numpy as np

from reproduction.comparisons import (
    EQUAL,
    SAME_TIME,
    Check,
    Numbers,
    late,
    title,
    with_numbers,
)
from reproduction.rows import Measured, Point, Variant, points
from stragglers.report.statistics import Summary

WRITERS = 115 / 489  # of EMNIST's are stragglers
ORDERED = {"time_s": "time", "swing": "swing", "late_straggler": "straggler accuracy"}


def order(numbers: Numbers, point: str, field: str, form: str, *, rising: bool) -> list[Check]:
    """Along the variants of an open point, at least three of them, a number goes one way.

    That is, it ends further than it begins, and falls back by nothing that counts.
    """
    values, text = _along(numbers, point, field, form)
    if len(values) < 3:
        return []
    what, of_time = f"`{point}`: {ORDERED[field]}", field == "time_s"
    if np.ptp(values) <= EQUAL:
        return [Check(what, text, None, of_time)]
    along = values if rising else -values
    steady = np.all(along >= np.maximum.accumulate(along) - EQUAL)
    return [Check(what, text, bool(steady and along[-1] > along[0] + EQUAL), of_time)]


def costs_no_time(numbers: Numbers, point: str) -> list[Check]:
    """The last variant of an open point takes no more time than any other."""
    times, text = _along(numbers, point, "time_s", "{:,.0f} s")
    if len(times) < 3:
        return []
    held = bool(times[-1] <= (1 + SAME_TIME) * times.min())
    return [Check(f"`{point}`: time", text, held, of_time=True)]


def smaller_kappa(numbers: Numbers) -> list[Check]:
    """Somewhere below the published κ total accuracy is higher."""
    checks = []
    for point in ("kappa", "kappa-cifar100"):
        preset, there = _named(point).preset, _measured(numbers, point)
        total = {sets: late(found, "total") for sets, found in there.items()}
        kappa = {s: Variant(preset, s).document["algorithm"]["kappa"] for s in ((), *there)}
        smaller = [sets for sets in there if kappa[sets] < kappa[()]]
        if () not in there or not smaller:
            continue
        best = max(smaller, key=lambda sets: total[sets])
        what = f"{title(preset.rsplit('/', 1)[0])}, total: a smaller κ, the published one"
        said = f"{total[best]:.1f} ({', '.join(best)}), {total[()]:.1f}"
        checks.append(Check(what, said, total[best] > total[()] + EQUAL))
    return checks


def trade_off(numbers: Numbers) -> list[Check]:
    """Straggler accuracy less the logarithm of time, each from 0 to 1 over the sweep, is largest
    within 0.1 of the stragglers' share; nothing is to be seen within EQUAL points."""
    point = "over-selection"
    preset, waits = _named(point).preset, numbers(Variant("emnist/per-domain/fedadam"))
    there = {
        float(Variant(preset, sets).document["schedule"]["over_selection"]): found
        for sets, found in _measured(numbers, point).items()
    }
    if waits is None or len(there) < 3:
        return []
    ratios, found = zip(*sorted(({1.0: waits} | there).items()), strict=True)
    accuracy = np.array([one.late_straggler for one in found])
    time = np.log([one.time_s.median for one in found])
    score = _to_one(accuracy) - _to_one(time)
    near = np.abs(np.array(ratios) - 1 - WRITERS) <= 0.1
    if not near.any() or near.all():
        return []
    # Points of straggler accuracy that the best near that share is above the best elsewhere.
    lead = (score[near].max() - score[~near].max()) * float(np.ptp(accuracy))
    best = ratios[int(np.argmax(score))]
    said = f"{best:g} is, of {', '.join(f'{r:g}' for r in ratios)}, by {abs(lead):.1f} points"
    what = f"EMNIST, per-domain: the best, at {100 * WRITERS:.1f} % stragglers"
    return [Check(what, said, None if abs(lead) <= EQUAL else bool(lead > 0))]


def _along(numbers: Numbers, point: str, field: str, form: str) -> tuple[np.ndarray, str]:
    """A number of every variant, and all of them in words."""
    there, given = _measured(numbers, point), _named(point)
    fields = [getattr(found, field) for found in there.values()]
    values = [float(one.median if isinstance(one, Summary) else one) for one in fields]
    names = [given.label(Variant(given.preset, sets)) for sets in there]
    text = "; ".join(f"{n}: {form.format(v)}" for n, v in zip(names, values, strict=True))
    return np.array(values), text


def _measured(numbers: Numbers, point: str) -> dict[tuple[str, ...], Measured]:
    return with_numbers({v.sets: numbers(v) for v in _named(point).variants})


def _named(name: str) -> Point:
    (point,) = (point for point in points() if point.name == name)
    return point


def _to_one(values: np.ndarray) -> np.ndarray:
    """From 0 at the least to 1 at the most."""
    return (values - values.min()) / (values.max() - values.min())
