"""The paper's claims, in our words, as checks of numbers (comparisons.py).

    verdict   held if all checks of a claim hold, not held if none does, else partly held;
              not to be seen if all show nothing, not yet tested without any

Each is judged three times: by the ends of our curves, by our last evaluations, which is what the
paper's tables have, and by these tables themselves.
"""

from typing import NamedTuple

from reproduction.comparisons import Check, Compared, Numbers
from reproduction.rows import TABLES, Measured, Variant
from stragglers.report.statistics import Summary

PER_DOMAIN = tuple(table for table in TABLES if table.endswith("per-domain"))
PER_EXAMPLE = tuple(table for table in TABLES if table.endswith("per-example"))
MARKS = {True: "✓", False: "✗", None: "–"}


class Claim(NamedTuple):
    text: str
    checks: list[Check]

    @property
    def verdict(self) -> str:
        if not self.checks:
            return "not yet tested"
        held = [check.held for check in self.checks]
        if all(one is None for one in held):
            return "not to be seen"
        return "held" if all(held) else "partly held" if any(held) else "not held"


class Judged(NamedTuple):
    """A claim by the ends of curves, by last evaluations and by the paper's tables."""

    text: str
    verdicts: tuple[str, str, str]
    rows: list[list[str]]  # what is compared, and each one's mark and numbers
    agreeing: int  # checks with one outcome at the ends and in the paper
    shared: int  # checks that both have


def judged(numbers: Numbers) -> list[Judged]:
    ways = (numbers, lambda variant: _last(numbers(variant)), _published)
    return [_side_by_side(*some) for some in zip(*map(claims, ways), strict=True)]


def _side_by_side(ends: Claim, last: Claim, paper: Claim) -> Judged:
    by_what = [{check.what: check for check in claim.checks} for claim in (ends, last, paper)]
    rows = [
        [
            what,
            *(f"{MARKS[c.held]} {c.numbers}" if (c := some.get(what)) else "" for some in by_what),
        ]
        for what in by_what[0]
    ]
    both = [(check.held, by_what[2][what].held) for what, check in by_what[0].items()
            if what in by_what[2]]  # fmt: skip
    return Judged(
        ends.text,
        (ends.verdict, last.verdict, paper.verdict),
        rows,
        sum(ours == theirs for ours, theirs in both),
        len(both),
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


def claims(numbers: Numbers) -> list[Claim]:
    at = Compared(numbers)
    dust, over, adam, feast = "fare-dust", "fedadam-over-selection", "fedadam", "feast"
    limited = "fedavg-time-limit"
    buffers = ("fedbuff", "fedbuff-ema", "fedbuff-ema-adam")
    return [
        Claim(
            "FARe-DUST is the most consistently high-performing on straggler data. (Here: among "
            "the best three of every table.)",
            at.rank(TABLES, dust, 3),
        ),
        Claim(
            "FARe-DUST and FeAST have better trade-offs of accuracy and time than what was there "
            "before. (Here: nothing of that is faster and as good in both accuracies.)",
            at.undominated(TABLES, dust) + at.undominated(TABLES, feast),
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
            "EMA makes FedBuff better, and steadier. (Published: the width of an interval.)",
            at.accuracy(TABLES, "fedbuff-ema", "fedbuff", above=True)
            + at.steadier("fedbuff-ema", "fedbuff"),
        ),
        Claim(
            "Distillation and a proximal term make FedBuff better.",
            at.accuracy(TABLES, "fedbuff-kd", "fedbuff", above=True)
            + at.accuracy(TABLES, "fedbuff-l2", "fedbuff", above=True),
        ),
        Claim(
            "Adam makes FedBuff better.",  # both with EMA
            at.accuracy(TABLES, "fedbuff-ema-adam", "fedbuff-ema", above=True),
        ),
        Claim(
            "Over-selection makes synchronous algorithms faster.",
            at.times(TABLES, over, adam, 1.0)
            + at.times(TABLES, "fedavg-over-selection", "fedavg", 1.0),
        ),
        Claim(
            "With per-example latency over-selection costs no accuracy.",
            at.accuracy(PER_EXAMPLE, over, adam)
            + at.accuracy(PER_EXAMPLE, "fedavg-over-selection", "fedavg"),
        ),
        Claim(
            "There it even raises accuracy.",
            at.accuracy(PER_EXAMPLE, over, adam, above=True)
            + at.accuracy(PER_EXAMPLE, "fedavg-over-selection", "fedavg", above=True),
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
