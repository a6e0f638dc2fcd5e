"""Comparisons of rows and of variants, wherever both sides were measured.

    check   what is compared, the numbers, and whether it holds: yes, no, or nothing to be seen

Accuracies are means over the last fifth of a curve, medians over trials; within EQUAL points they
are equal. The same checks are made of other numbers: of last evaluations, of published tables.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from reproduction.rows import TABLES, Measured, Point, Variant, points, published
from stragglers.report.experiments import TASKS
from stragglers.report.statistics import Summary

EQUAL = 1.0  # points
WRITERS = 115 / 489  # of EMNIST's are stragglers
METRICS = ("straggler", "total")
NAMES = {"fedadam": "FedAdam", "fedadam-over-selection": "over-selection", "fare-dust": "FARe-DUST",
         "feast": "FeAST", "fedavg": "FedAvg", "fedavg-time-limit": "with a time limit",
         "fedavg-over-selection": "FedAvg + over-selection",
         "fedbuff": "FedBuff", "fedbuff-ema": "FedBuff + EMA", "fedbuff-kd": "FedBuff + KD",
         "fedbuff-l2": "FedBuff + L2", "fedbuff-ema-adam": "FedBuff + EMA + Adam"}  # fmt: skip
OURS = ("fare-dust", "feast")  # the paper's own
ORDERED = {"time_s": "time", "swing": "swing", "late_straggler": "straggler accuracy"}

Numbers = Callable[[Variant], Measured | None]


class Check(NamedTuple):
    what: str
    numbers: str
    held: bool | None  # None: no difference to be seen


class Compared(NamedTuple):
    """Checks of what was measured; what was not has none."""

    numbers: Numbers

    def accuracy(
        self, tables: Iterable[str], row: str, other: str, *, above: bool | None = None,
        metrics: Iterable[str] = METRICS,
    ) -> list[Check]:  # fmt: skip
        """A row is above another, below it, or (None) at least not below it."""
        checks = []
        for title, ours, theirs in self._both(tables, row, other):
            for metric in metrics:
                a, b = _late(ours, metric), _late(theirs, metric)
                held = {True: a > b + EQUAL, False: a < b - EQUAL, None: a >= b - EQUAL}[above]
                what = f"{title}, {metric}: {NAMES[row]}, {NAMES[other]}"
                checks.append(Check(what, f"{a:.1f}, {b:.1f}", held))
        return checks

    def extreme(
        self, tables: Iterable[str], row: str, metric: str, *, highest: bool
    ) -> list[Check]:
        """A row is the highest, or the lowest, of its table."""
        checks = []
        for table in tables:
            there = {name: _late(found, metric) for name, found in self._table(table).items()}
            if row in there and len(there) > 1:
                a = there.pop(row)
                rival = (max if highest else min)(there, key=lambda name: there[name])
                held = a > there[rival] + EQUAL if highest else a < there[rival] - EQUAL
                what = f"{_title(table)}, {metric}: {NAMES[row]}, the next"
                checks.append(Check(what, f"{a:.1f}, {there[rival]:.1f} ({NAMES[rival]})", held))
        return checks

    def rank(self, tables: Iterable[str], row: str, worst: int) -> list[Check]:
        """A row is at this place of its table, or a better one; equal ones are not before it."""
        checks = []
        for table in tables:
            there = {name: found.late_straggler for name, found in self._table(table).items()}
            if row in there and len(there) > worst:
                place = 1 + sum(value > there[row] + EQUAL for value in there.values())
                ties = sum(abs(value - there[row]) <= EQUAL for value in there.values()) - 1
                what = f"{_title(table)}, straggler: the place of {NAMES[row]}"
                more = f", with {ties} more within a point" if ties else ""
                checks.append(Check(what, f"{place} of {len(there)}{more}", place <= worst))
        return checks

    def times(self, tables: Iterable[str], row: str, other: str, most: float) -> list[Check]:
        """A row takes at most this share of another's time."""
        checks = []
        for title, ours, theirs in self._both(tables, row, other):
            a, b = ours.time_s.median, theirs.time_s.median
            what = f"{title}, time [s]: {NAMES[row]}, {NAMES[other]}"
            checks.append(Check(what, f"{a:,.0f}, {b:,.0f} ({b / a:.1f} ×)", a < most * b))
        return checks

    def fastest(self, row: str) -> list[Check]:
        """A row ends before all others, but for variants of the same algorithm."""
        checks, kin = [], row.split("-")[0]
        for table in TABLES:
            times = {name: found.time_s.median for name, found in self._table(table).items()}
            there = {name: time for name, time in times.items() if not name.startswith(kin)}
            if row in times and there:
                a = times[row]
                rival = min(there, key=lambda name: there[name])
                what = f"{_title(table)}, time [s]: {NAMES[row]}, the next"
                said = f"{a:,.0f}, {there[rival]:,.0f} ({NAMES[rival]})"
                checks.append(Check(what, said, a < there[rival]))
        return checks

    def undominated(self, tables: Iterable[str], row: str) -> list[Check]:
        """No algorithm that was there before is faster and no worse in either accuracy."""
        checks = []
        for table in tables:
            there = self._table(table)
            if row not in there or len(there) < 2:
                continue
            ours = there[row]
            better = {
                name: found for name, found in there.items()
                if name not in OURS and found.time_s.median < ours.time_s.median
                and all(_late(found, metric) >= _late(ours, metric) - EQUAL for metric in METRICS)
            }  # fmt: skip
            said = f"{ours.late_straggler:.1f} / {ours.late_total:.1f}; none"
            if better:
                best = max(better, key=lambda name: better[name].late_straggler)
                found, more = better[best], len(better) - 1
                said = said.removesuffix("none") + (
                    f"{NAMES[best]} {found.late_straggler:.1f} / {found.late_total:.1f} in "
                    f"{100 * found.time_s.median / ours.time_s.median:.0f} % of the time"
                    + (f", and {more} more" if more else "")
                )
            what = f"{_title(table)}: {NAMES[row]}; as good and faster"
            checks.append(Check(what, said, not better))
        return checks

    def steadier(self, row: str, other: str) -> list[Check]:
        return [
            Check(f"{title}, swing: {NAMES[row]}, {NAMES[other]}", f"{a.swing:.1f}, {b.swing:.1f}",
                  a.swing < b.swing)
            for title, a, b in self._both(TABLES, row, other)
        ]  # fmt: skip

    def smaller_kappa(self) -> list[Check]:
        """Somewhere below the published κ total accuracy is higher."""
        checks = []
        for point in ("kappa", "kappa-cifar100"):
            preset, there = _point_named(point).preset, self._point(point)
            total = {sets: _late(found, "total") for sets, found in there.items()}
            kappa = {s: Variant(preset, s).document["algorithm"]["kappa"] for s in ((), *there)}
            smaller = [sets for sets in there if kappa[sets] < kappa[()]]
            if () not in there or not smaller:
                continue
            best = max(smaller, key=lambda sets: total[sets])
            what = f"{_title(preset.rsplit('/', 1)[0])}, total: a smaller κ, the published one"
            said = f"{total[best]:.1f} ({', '.join(best)}), {total[()]:.1f}"
            checks.append(Check(what, said, total[best] > total[()] + EQUAL))
        return checks

    def order(self, point: str, field: str, form: str, *, rising: bool) -> list[Check]:
        """Along the variants of an open point, at least three of them, a number goes one way.

        That is, it ends further than it begins, and falls back by nothing that counts.
        """
        there = self._point(point)
        fields = [getattr(found, field) for found in there.values()]
        values = [float(given.median if isinstance(given, Summary) else given) for given in fields]
        if len(values) < 3:
            return []
        given = _point_named(point)
        names = [given.label(Variant(given.preset, sets)) for sets in there]
        text = "; ".join(f"{n}: {form.format(v)}" for n, v in zip(names, values, strict=True))
        what = f"`{point}`: {ORDERED[field]}"
        if max(values) - min(values) <= EQUAL:
            return [Check(what, text, None)]
        along = np.array(values) if rising else -np.array(values)
        steady = np.all(along >= np.maximum.accumulate(along) - EQUAL)
        return [Check(what, text, bool(steady and along[-1] > along[0] + EQUAL))]

    def trade_off(self) -> list[Check]:
        """Straggler accuracy less the logarithm of time, each from 0 to 1 over the sweep, is
        largest within 0.1 of the stragglers' share; nothing is to be seen within EQUAL points."""
        point, waits = "over-selection", self._table("emnist/per-domain").get("fedadam")
        preset = _point_named(point).preset
        there = {
            float(Variant(preset, sets).document["schedule"]["over_selection"]): found
            for sets, found in self._point(point).items()
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

    def _both(
        self, tables: Iterable[str], row: str, other: str
    ) -> Iterator[tuple[str, Measured, Measured]]:
        """Two rows of every table that has both."""
        for table in tables:
            there = self._table(table)
            if row in there and other in there:
                yield _title(table), there[row], there[other]

    def _table(self, table: str) -> dict[str, Measured]:
        variants = [v for v in published() if v.preset.startswith(f"{table}/")]
        found = {v.preset.rsplit("/", 1)[1]: self.numbers(v) for v in variants}
        return _with_numbers(found)

    def _point(self, name: str) -> dict[tuple[str, ...], Measured]:
        found = {v.sets: self.numbers(v) for v in _point_named(name).variants}
        return _with_numbers(found)


def _point_named(name: str) -> Point:
    (point,) = (point for point in points() if point.name == name)
    return point


def _with_numbers(found: dict[Any, Measured | None]) -> dict[Any, Measured]:
    """What was measured, without what diverged."""
    return {key: one for key, one in found.items() if one and not math.isnan(one.swing)}


def _to_one(values: np.ndarray) -> np.ndarray:
    """From 0 at the least to 1 at the most."""
    return (values - values.min()) / (values.max() - values.min())


def _late(measured: Measured, metric: str) -> float:
    return measured.late_straggler if metric == "straggler" else measured.late_total


def _title(table: str) -> str:
    task, latency = table.split("/")
    return f"{TASKS[task]}, {latency}"
