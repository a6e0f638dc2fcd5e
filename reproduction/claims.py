"""The paper's claims as comparisons of numbers, wherever both sides of one were measured.

    check     one comparison, with its numbers: it holds, or not, or shows nothing either way
    verdict   held if all checks of a claim hold, not held if none does, else partly held;
              not to be seen if all show nothing, not yet tested without any

Accuracies are means over the last fifth of a curve, medians over trials; within EQUAL points they
are equal.
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
PER_DOMAIN = tuple(table for table in TABLES if table.endswith("per-domain"))
PER_EXAMPLE = tuple(table for table in TABLES if table.endswith("per-example"))
NAMES = {"fedadam": "FedAdam", "fedadam-over-selection": "over-selection", "fare-dust": "FARe-DUST",
         "feast": "FeAST", "fedavg": "FedAvg", "fedavg-time-limit": "with a time limit",
         "fedavg-over-selection": "FedAvg + over-selection",
         "fedbuff": "FedBuff", "fedbuff-ema": "FedBuff + EMA", "fedbuff-kd": "FedBuff + KD",
         "fedbuff-l2": "FedBuff + L2", "fedbuff-ema-adam": "FedBuff + EMA + Adam"}  # fmt: skip

Numbers = Callable[[Variant], Measured | None]


class Check(NamedTuple):
    text: str
    held: bool | None  # None: no difference to be seen


class Claim(NamedTuple):
    text: str
    checks: list[Check]

    @property
    def verdict(self) -> str:
        if not self.checks:
            return "not yet tested"
        held = [check.held for check in self.checks]
        if all(one is None for one in held):
            return "not to be seen here"
        return "held" if all(held) else "partly held" if any(held) else "not held"


def claims(numbers: Numbers) -> list[Claim]:
    at = Compared(numbers)
    dust, over, adam, feast = "fare-dust", "fedadam-over-selection", "fedadam", "feast"
    limited = "fedavg-time-limit"
    buffers = ("fedbuff", "fedbuff-ema", "fedbuff-ema-adam")
    return [
        Claim(
            "FARe-DUST is consistently among the best three on straggler data.",
            at.rank(TABLES, dust, 3),
        ),
        Claim(
            "FARe-DUST is above FedAdam + over-selection, which takes the same time.",
            at.accuracy(TABLES, dust, over, above=True),
        ),
        Claim(
            "FARe-DUST is above FedBuff.",
            [c for row in buffers for c in at.accuracy(TABLES, dust, row, above=True)],
        ),
        Claim(
            "On EMNIST with per-domain latency FARe-DUST is even above FedAdam that waits for all.",
            at.accuracy(("emnist/per-domain",), dust, adam, above=True),
        ),
        Claim(
            "On CIFAR-100 with per-domain latency FARe-DUST is as good on straggler data as "
            "FedAdam that waits for all, 2.5 times as fast.",
            at.accuracy(("cifar100/per-domain",), dust, adam, metrics=("straggler",))
            + at.times(("cifar100/per-domain",), dust, adam, 1 / 2.5),
        ),
        Claim(
            "FeAST has the highest straggler accuracy with per-domain latency.",
            at.extreme(PER_DOMAIN, feast, "straggler", highest=True),
        ),
        Claim(
            "FeAST is no worse than FedAdam + over-selection on EMNIST with per-example latency, "
            "and faster.",
            at.accuracy(("emnist/per-example",), feast, over)
            + at.times(("emnist/per-example",), feast, over, 1.0),
        ),
        Claim(
            "With a large κ FeAST is over-tuned to straggler data: its total accuracy is the "
            "lowest of all, and a smaller κ has more.",
            at.extreme(PER_DOMAIN, feast, "total", highest=False) + at.smaller_kappa(),
        ),
        Claim(
            "FedBuff ends first, at lower accuracy than FedAdam that waits for all.",
            at.fastest("fedbuff-ema") + at.accuracy(TABLES, "fedbuff-ema", adam, above=False),
        ),
        Claim(
            "EMA, distillation and Adam make FedBuff better, and EMA steadier.",
            # Both of the others have EMA as well.
            at.accuracy(TABLES, "fedbuff-ema", "fedbuff", above=True)
            + at.accuracy(TABLES, "fedbuff-kd", "fedbuff-ema", above=True)
            + at.accuracy(TABLES, "fedbuff-ema-adam", "fedbuff-ema", above=True)
            + at.steadier("fedbuff-ema", "fedbuff"),
        ),
        Claim(
            "Over-selection makes FedAdam faster (at most 0.6 times as long).",
            at.times(TABLES, over, adam, 0.6),
        ),
        Claim(
            "With per-example latency over-selection costs no accuracy.",
            at.accuracy(PER_EXAMPLE, over, adam)
            + at.accuracy(PER_EXAMPLE, "fedavg-over-selection", "fedavg"),
        ),
        Claim(
            "With per-domain latency over-selection costs both accuracies.",
            at.accuracy(PER_DOMAIN, over, adam, above=False)
            + at.accuracy(PER_DOMAIN, "fedavg-over-selection", "fedavg", above=False),
        ),
        Claim(
            "With per-domain latency a time limit makes FedAvg faster at the cost of straggler "
            "accuracy. (Rows with a limit over-select as well, so both are beside them.)",
            [
                check
                for other in ("fedavg", "fedavg-over-selection")
                for check in at.times(PER_DOMAIN, limited, other, 1.0)
                + at.accuracy(PER_DOMAIN, limited, other, above=False, metrics=("straggler",))
            ],
        ),
        Claim(
            "The more clients FedBuff has under way (χ), the faster and the noisier it is.",
            at.order("chi", "time_s", "{:,.0f} s", rising=False)
            + at.order("chi", "swing", "a swing of {:.1f} points", rising=True)
            + at.order("chi-no-ema", "swing", "without EMA a swing of {:.1f} points", rising=True),
        ),
        Claim(
            "The longer FeAST waits (τ_max), the higher its straggler accuracy.",
            at.order("tau", "late_straggler", "{:.1f} %", rising=True)
            + at.order("tau-small-kappa", "late_straggler", "{:.1f} %", rising=True),
        ),
        Claim(
            "Over-selection is best near the stragglers' share of clients. (The best has the most "
            "straggler accuracy less logarithm of time, each from 0 to 1 over the sweep.)",
            at.trade_off(),
        ),
    ]


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
                text = f"{title}, {metric}: {NAMES[row]} {a:.1f}, {NAMES[other]} {b:.1f}"
                checks.append(Check(text, held))
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
                text = f"{_title(table)}, {metric}: {NAMES[row]} {a:.1f}, next {NAMES[rival]} "
                checks.append(Check(text + f"{there[rival]:.1f}", held))
        return checks

    def rank(self, tables: Iterable[str], row: str, worst: int) -> list[Check]:
        """A row is at this place of its table, or a better one; equal ones are not before it."""
        checks = []
        for table in tables:
            there = {name: found.late_straggler for name, found in self._table(table).items()}
            if row in there and len(there) > worst:
                place = 1 + sum(value > there[row] + EQUAL for value in there.values())
                ties = sum(abs(value - there[row]) <= EQUAL for value in there.values()) - 1
                text = f"{_title(table)}, straggler: {NAMES[row]} is {place} of {len(there)}"
                text += f", with {ties} more within a point of it" if ties else ""
                checks.append(Check(text, place <= worst))
        return checks

    def times(self, tables: Iterable[str], row: str, other: str, most: float) -> list[Check]:
        """A row takes at most this share of another's time."""
        checks = []
        for title, ours, theirs in self._both(tables, row, other):
            a, b = ours.time_s.median, theirs.time_s.median
            text = f"{title}: {NAMES[row]} {a:,.0f} s, {NAMES[other]} {b:,.0f} s ({b / a:.1f} ×)"
            checks.append(Check(text, a < most * b))
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
                text = f"{_title(table)}: {NAMES[row]} {a:,.0f} s, next {NAMES[rival]} "
                checks.append(Check(text + f"{there[rival]:,.0f} s", a < there[rival]))
        return checks

    def steadier(self, row: str, other: str) -> list[Check]:
        return [
            Check(f"{title}, swing: {a.swing:.1f} against {b.swing:.1f} points", a.swing < b.swing)
            for title, a, b in self._both(TABLES, row, other)
        ]

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
            text = f"{', '.join(best)} {total[best]:.1f}, published κ {total[()]:.1f}"
            title = _title(preset.rsplit("/", 1)[0])
            checks.append(Check(f"{title}, total: {text}", total[best] > total[()] + EQUAL))
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
        if max(values) - min(values) <= EQUAL:
            return [Check(text, None)]
        along = np.array(values) if rising else -np.array(values)
        steady = np.all(along >= np.maximum.accumulate(along) - EQUAL)
        return [Check(text, bool(steady and along[-1] > along[0] + EQUAL))]

    def trade_off(self) -> list[Check]:
        """Straggler accuracy less the logarithm of time, each from 0 to 1 over the sweep, is
        largest within 0.1 of the stragglers' share."""
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
        best = ratios[int(np.argmax(_to_one(accuracy) - _to_one(time)))]
        text = f"EMNIST, per-domain: {best:g} is the best of {', '.join(f'{r:g}' for r in ratios)}"
        held = abs(best - 1 - WRITERS) <= 0.1
        return [Check(f"{text}; stragglers are {100 * WRITERS:.1f} % of clients", held)]

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
