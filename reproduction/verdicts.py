"""A claim as checks of numbers, and what comes of it.

    verdict   held if all checks hold, not held if none does, else partly held; where the paper
              says most or generally: held if more than half hold, else not held;
              not to be seen if all show nothing, not yet tested without any

Each is judged three times: by the ends of our curves, by our last evaluations, which is what the
paper's tables have, and by these tables themselves.
"""

from collections.abc import Callable
from typing import NamedTuple

from reproduction.comparisons import Check, Compared, Numbers
from reproduction.planned import or_planned
from reproduction.rows import Found, Measured, Variant
from stragglers.report.statistics import Summary


class Claim(NamedTuple):
    where: str  # in the paper
    text: str
    checks: list[Check]
    most: bool = False  # it says most, or generally

    @property
    def verdict(self) -> str:
        if not self.checks:
            return "not yet tested"
        held = [check.held for check in self.checks]
        if all(one is None for one in held):
            return "not to be seen"
        if self.most:
            return "held" if 2 * self.holding > len(held) else "not held"
        return "held" if all(held) else "partly held" if any(held) else "not held"

    @property
    def holding(self) -> int:
        return sum(check.held is True for check in self.checks)


class Judged(NamedTuple):
    """A claim by the ends of curves, by last evaluations and by the paper's tables."""

    where: str
    text: str
    verdicts: tuple[str, str, str]
    holding: tuple[tuple[int, int], ...]  # how many checks hold, and all, in each way
    rows: list[list[str]]  # what is compared, and each one's mark and numbers
    accuracies: tuple[int, int]  # with one outcome at the ends and in the paper, and all
    times: tuple[int, int]  # likewise
    of_time: bool  # all that was checked

    def said(self, way: int) -> str:
        held, checks = self.holding[way]
        return f"{self.verdicts[way]}, {held} of {checks}" if checks else "–"

    @property
    def agreeing(self) -> int:
        return self.accuracies[0] + self.times[0]

    @property
    def shared(self) -> int:
        return self.accuracies[1] + self.times[1]


def judge(
    claims: Callable[[Compared], list[Claim]], numbers: Numbers, there: Found
) -> list[Judged]:
    ours = or_planned(numbers)
    ways = (
        Compared(ours, there),
        Compared(lambda variant: _last(ours(variant)), there),
        Compared(_published),
    )
    return [_side_by_side(*some) for some in zip(*map(claims, ways), strict=True)]


def _side_by_side(ends: Claim, last: Claim, paper: Claim) -> Judged:
    three = (ends, last, paper)
    by_what = [{check.what: check for check in claim.checks} for claim in three]
    rows = [
        [
            what,
            *(check.said if (check := some.get(what)) else "" for some in by_what),
        ]
        for what in by_what[0] | by_what[1] | by_what[2]
    ]
    both = [(check, by_what[2][what]) for what, check in by_what[0].items() if what in by_what[2]]

    def agreeing(of_time: bool) -> tuple[int, int]:
        same = [a.held == b.held for a, b in both if a.of_time == of_time]
        return sum(same), len(same)

    return Judged(
        ends.where,
        ends.text,
        (ends.verdict, last.verdict, paper.verdict),
        tuple((claim.holding, len(claim.checks)) for claim in three),
        rows,
        agreeing(of_time=False),
        agreeing(of_time=True),
        all(check.of_time for claim in three for check in claim.checks),
    )


def _last(measured: Measured | None) -> Measured | None:
    """With last evaluations in place of means over the end of a curve."""
    return measured and measured._replace(
        late_straggler=measured.straggler.median, late_total=measured.total.median
    )


def _published(variant: Variant) -> Measured | None:
    """A row of the paper; for the swing of a curve stands the width of its interval."""
    paper = variant.paper
    if variant.sets or paper is None:
        return None
    straggler, total, time_s = (
        Summary((x,), x, x, x, 0) for x in (paper.straggler, paper.total, paper.time_s)
    )
    low, high = paper.straggler_interval
    return Measured(10, straggler, total, time_s, paper.straggler, paper.total, high - low)
