"""Comparisons of rows of a table, wherever both sides were measured.

    check   what is compared, the numbers, and whether it holds: yes, no, or nothing to be seen

Accuracies are means over the last fifth of a curve, medians over trials; within `equal` points they
are equal, and times within SAME_TIME. The same checks are made of other numbers: of last
evaluations, of published tables.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from reproduction.rows import TABLES, Found, Measured, Variant, first_time
from stragglers.config import catalog
from stragglers.report.grouping import TASKS

STACKOVERFLOW = ("stackoverflow/per-domain", "stackoverflow/per-example")
ALL = (*TABLES, *STACKOVERFLOW)  # tables of the paper
PER_DOMAIN = tuple(table for table in ALL if table.endswith("per-domain"))
PER_EXAMPLE = tuple(table for table in ALL if table.endswith("per-example"))
EQUAL = 1.0  # points
# Of StackOverflow's straggler accuracies: published intervals are some 0.3 points wide there.
EQUAL_STACKOVERFLOW = 0.2
SAME_TIME = 0.01  # of it
METRICS = ("straggler", "total")
MARKS = {True: "✓", False: "✗", None: "–"}
NAMES = {
    "fedadam": "FedAdam",
    "fedadam-over-selection": "over-selection",
    "fare-dust": "FARe-DUST",
    "feast": "FeAST",
    "fedavg": "FedAvg",
    "fedavg-time-limit": "with a time limit",
    "fedavg-over-selection": "FedAvg + over-selection",
    "fedbuff": "FedBuff",
    "fedbuff-ema": "FedBuff + EMA",
    "fedbuff-kd": "FedBuff + KD",
    "fedbuff-l2": "FedBuff + L2",
    "fedbuff-ema-adam": "FedBuff + EMA + Adam",
}
ADAM, OVER, DUST, FEAST = "fedadam", "fedadam-over-selection", "fare-dust", "feast"
AVG, AVG_OVER, LIMITED = "fedavg", "fedavg-over-selection", "fedavg-time-limit"
BUFF, BUFF_EMA, BUFF_ADAM = "fedbuff", "fedbuff-ema", "fedbuff-ema-adam"
OURS = (DUST, FEAST)  # the paper's own
RELATIONS: dict[str, Callable[[float, float], bool]] = {  # of a gap in points, and what is none
    "above": lambda gap, equal: gap > equal,
    "below": lambda gap, equal: gap < -equal,
    "no worse": lambda gap, equal: gap >= -equal,
    "equal": lambda gap, equal: abs(gap) <= equal,
}

Numbers = Callable[[Variant], Measured | None]


class Check(NamedTuple):
    what: str
    numbers: str
    held: bool | None  # None: no difference to be seen
    of_time: bool = False  # rather than of accuracy

    @property
    def said(self) -> str:
        return f"{MARKS[self.held]} {self.numbers}"


class Compared(NamedTuple):
    """Checks of what was measured; what was not has none."""

    numbers: Numbers
    there: Found | None = None  # our trials; none if the numbers are published ones

    def accuracy(
        self,
        tables: Iterable[str],
        row: str,
        other: str,
        relation: str,
        metrics: Iterable[str] = METRICS,
        equal: float | None = None,
    ) -> list[Check]:
        """A row stands so to another."""
        checks = []
        for table, ours, theirs in self._both(tables, row, other):
            for metric in metrics:
                a, b = late(ours, metric), late(theirs, metric)
                none = tolerance(table, metric) if equal is None else equal
                what = f"{title(table)}, {metric}: {NAMES[row]}, {NAMES[other]}"
                held = RELATIONS[relation](gap(a, b), none)
                checks.append(Check(what, f"{a:.1f}, {b:.1f}", held))
        return checks

    def extreme(
        self, tables: Iterable[str], row: str, metric: str, *, highest: bool
    ) -> list[Check]:
        """A row is the highest, or the lowest, of its table; with an equal it is hard to tell."""
        checks = []
        for table in tables:
            there = {name: late(found, metric) for name, found in self.table(table).items()}
            if row in there and len(there) > 1:
                a = there.pop(row)
                rival = (max if highest else min)(there, key=lambda name: there[name])
                ahead = gap(a, there[rival]) if highest else gap(there[rival], a)
                held = None if abs(ahead) <= tolerance(table, metric) else ahead > 0
                what = f"{title(table)}, {metric}: {NAMES[row]}, the next"
                checks.append(Check(what, f"{a:.1f}, {there[rival]:.1f} ({NAMES[rival]})", held))
        return checks

    def rank(
        self, tables: Iterable[str], row: str, worst: int, metric: str = "straggler"
    ) -> list[Check]:
        """A row is at this place of its table, or a better one; equal ones are not before it."""
        checks = []
        for table in tables:
            there = self.table(table)
            if row in there and len(there) > worst:
                place, ties = _place(table, there, row, metric)
                what = f"{title(table)}, {metric}: the place of {NAMES[row]}"
                more = f", with {ties} more as good" if ties else ""
                checks.append(Check(what, f"{place} of {len(there)}{more}", place <= worst))
        return checks

    def alone_at_the_top(self, tables: Iterable[str], row: str, worst: int) -> list[Check]:
        """No other row that is in all tables has such a place in each."""
        there = {table: found for table in tables if row in (found := self.table(table))}
        if not there:
            return []
        common = set.intersection(*(set(found) for found in there.values())) - {row}
        others = [
            NAMES[name]
            for name in NAMES
            if name in common
            and all(_place(t, found, name, "straggler")[0] <= worst for t, found in there.items())
        ]
        what = f"all tables, straggler: others that are always among the best {worst}"
        return [Check(what, ", ".join(others) or "none", not others)] if common else []

    def below_most(self, tables: Iterable[str], row: str) -> list[Check]:
        """A row is below more than half of the other algorithms of its table."""
        checks = []
        for table in tables:
            there = self.table(table)
            others = _strangers(there, row)
            for metric in METRICS if row in there and others else ():
                a, none = late(there[row], metric), tolerance(table, metric)
                below = sum(gap(a, late(found, metric)) < -none for found in others.values())
                what = f"{title(table)}, {metric}: {NAMES[row]}, below how many others"
                held = 2 * below > len(others)
                checks.append(Check(what, f"{a:.1f}, {below} of {len(others)}", held))
        return checks

    def undominated(
        self, tables: Iterable[str], row: str, *, timed: bool = True, but: Iterable[str] = ()
    ) -> list[Check]:
        """No algorithm that was there before is no slower and no worse in either accuracy.

        Or (not `timed`) no other algorithm is no worse in either accuracy, at whatever time.
        """
        checks = []
        for table in tables:
            there = self.table(table)
            if row not in there or len(there) < 2:
                continue
            ours = there[row]
            aside = {row, *but, *(OURS if timed else ())}
            as_good = {
                name: found
                for name, found in there.items()
                if name not in aside
                and (not timed or _no_slower(found, ours))
                and all(
                    gap(late(found, metric), late(ours, metric)) >= -tolerance(table, metric)
                    for metric in METRICS
                )
            }
            what = f"{title(table)}: {NAMES[row]}; as good{' and no slower' if timed else ''}"
            checks.append(Check(what, _against(ours, as_good, timed), not as_good))
        return checks

    def beaten(self, tables: Iterable[str], row: str) -> list[Check]:
        """Some other algorithm is no slower and no worse in either accuracy."""
        return [check._replace(held=not check.held) for check in self.undominated(tables, row)]

    def times(self, tables: Iterable[str], row: str, other: str, most: float = 1.0) -> list[Check]:
        """A row takes less than this share of another's time."""
        checks = []
        for table in tables:
            there = self.seconds(table)
            if row in there and other in there:
                a, b = there[row], there[other]
                what = f"{title(table)}, time [s]: {NAMES[row]}, {NAMES[other]}"
                said = f"{a:,.0f}, {b:,.0f} ({b / a:.1f} ×)"
                checks.append(Check(what, said, a < most * b, of_time=True))
        return checks

    def times_alike(
        self, tables: Iterable[str], row: str, other: str, within: float
    ) -> list[Check]:
        return [
            check._replace(held=abs(there[row] / there[other] - 1) <= within)
            for table in tables
            for there in [self.seconds(table)]
            for check in self.times([table], row, other)
        ]

    def fastest(self, tables: Iterable[str], row: str) -> list[Check]:
        """A row ends before all others, but for variants of the same algorithm."""
        checks = []
        for table in tables:
            times = self.seconds(table)
            others = _strangers(times, row)
            if row in times and others:
                a, rival = times[row], min(others, key=lambda name: others[name])
                what = f"{title(table)}, time [s]: {NAMES[row]}, the fastest other"
                said = f"{a:,.0f}, {others[rival]:,.0f} ({NAMES[rival]})"
                checks.append(Check(what, said, a < others[rival], of_time=True))
        return checks

    def first_there(self, table: str, row: str, goal: str) -> list[Check]:
        """Nothing that was there before has as much straggler accuracy as `goal` ends with sooner.

        From curves, so there are none of published numbers.
        """
        rows = self.table(table)
        if self.there is None or row not in rows or goal not in rows:
            return []
        level = rows[goal].late_straggler - tolerance(table, "straggler")
        times = {
            name: time
            for name in rows
            if name == row or name not in OURS
            if (time := first_time(Variant(f"{table}/{name}"), self.there, level)) is not None
        }
        a = times.pop(row, math.inf)
        said = f"{a:,.0f}" if a < math.inf else "never"
        rival = min(times, key=lambda name: times[name], default="")
        said += f", {times[rival]:,.0f} ({NAMES[rival]})" if rival else ", none"
        what = (
            f"{title(table)}, time [s] to as much as {NAMES[goal]}: {NAMES[row]}, the first other"
        )
        return [
            Check(what, f"{said}, to {level:.1f} %", a < times.get(rival, math.inf), of_time=True)
        ]

    def steadier(self, tables: Iterable[str], row: str, other: str) -> list[Check]:
        return [
            Check(
                f"{title(table)}, swing: {NAMES[row]}, {NAMES[other]}",
                f"{a.swing:.1f}, {b.swing:.1f}",
                a.swing < b.swing,
            )
            for table, a, b in self._both(tables, row, other)
        ]

    def table(self, table: str) -> dict[str, Measured]:
        """Rows with accuracies."""
        return with_numbers({v.preset.rsplit("/", 1)[1]: self.numbers(v) for v in _rows(table)})

    def seconds(self, table: str) -> dict[str, float]:
        """Times of the rows that were trained, or that have a plan."""
        found = {v.preset.rsplit("/", 1)[1]: self.numbers(v) for v in _rows(table)}
        plans = {row: one for row, one in found.items() if one and not one.trials}
        return {row: one.time_s.median for row, one in (with_numbers(found) | plans).items()}

    def _both(
        self, tables: Iterable[str], row: str, other: str
    ) -> Iterator[tuple[str, Measured, Measured]]:
        """Two rows of every table that has both."""
        for table in tables:
            there = self.table(table)
            if row in there and other in there:
                yield table, there[row], there[other]


def gap(a: float, b: float) -> float:
    """Without what floating point adds to published numbers."""
    return round(a - b, 6)


def tolerance(table: str, metric: str) -> float:
    """Points within which accuracies count as equal."""
    return EQUAL_STACKOVERFLOW if table in STACKOVERFLOW and metric == "straggler" else EQUAL


def late(measured: Measured, metric: str) -> float:
    return measured.late_straggler if metric == "straggler" else measured.late_total


def title(table: str) -> str:
    task, latency = table.split("/")
    return f"{TASKS[task]}, {latency}"


def with_numbers(found: dict[Any, Measured | None]) -> dict[Any, Measured]:
    """What was measured, without what diverged."""
    return {key: one for key, one in found.items() if one and not math.isnan(one.swing)}


@cache
def _rows(table: str) -> tuple[Variant, ...]:
    """Of the paper."""
    variants = (Variant(name) for name in catalog.presets() if name.startswith(f"{table}/"))
    return tuple(variant for variant in variants if variant.paper)


def _place(table: str, there: dict[str, Measured], row: str, metric: str) -> tuple[int, int]:
    """From 1, and how many others are as good."""
    gaps = [gap(late(found, metric), late(there[row], metric)) for found in there.values()]
    none = tolerance(table, metric)
    return 1 + sum(one > none for one in gaps), sum(abs(one) <= none for one in gaps) - 1


def _strangers(there: dict[str, Any], row: str) -> dict[str, Any]:
    """Rows but for variants of the same algorithm."""
    return {name: one for name, one in there.items() if not name.startswith(row.split("-")[0])}


def _no_slower(found: Measured, ours: Measured) -> bool:
    return found.time_s.median <= (1 + SAME_TIME) * ours.time_s.median


def _against(ours: Measured, others: dict[str, Measured], timed: bool) -> str:
    said = f"{ours.late_straggler:.1f} / {ours.late_total:.1f}; "
    if not others:
        return f"{said}none"
    best = max(others, key=lambda name: others[name].late_straggler)
    found, more = others[best], len(others) - 1
    said += f"{NAMES[best]} {found.late_straggler:.1f} / {found.late_total:.1f}"
    if timed:
        said += f" in {100 * found.time_s.median / ours.time_s.median:.0f} % of the time"
    return said + (f", and {more} more" if more else "")
