"""The paper's claims on over-selection, time limits and other settings, and on StackOverflow."""

from reproduction import planned, sweeps
from reproduction.comparisons import (
    ADAM,
    ALL,
    AVG,
    AVG_OVER,
    BUFF,
    DUST,
    FEAST,
    LIMITED,
    OVER,
    PER_DOMAIN,
    PER_EXAMPLE,
    STACKOVERFLOW,
    Compared,
)
from reproduction.verdicts import Claim


def over_selection(at: Compared) -> list[Claim]:
    pairs = (OVER, ADAM), (AVG_OVER, AVG)
    images = "emnist/per-example", "cifar100/per-example"
    return [
        Claim(
            "summary 4",
            "Over-selection makes synchronous algorithms faster.",
            [c for pair in pairs for c in at.times(ALL, *pair)],
        ),
        Claim(
            "summary 4",
            "With per-example latency over-selection even raises accuracy.",
            [c for pair in pairs for c in at.accuracy(PER_EXAMPLE, *pair, "above")],
        ),
        Claim(
            "summary 4",
            "With per-domain latency over-selection generally costs both accuracies.",
            [c for pair in pairs for c in at.accuracy(PER_DOMAIN, *pair, "below")],
            most=True,
        ),
        Claim(
            "discussion",
            "FedAdam + over-selection has the highest straggler accuracy of EMNIST and CIFAR-100 "
            "with per-example latency.",
            at.extreme(images, OVER, "straggler", highest=True),
        ),
        Claim(
            "discussion",
            "With per-domain latency over-selection drops all clients with straggler data: they "
            "are never aggregated. (By plans.)",
            planned.nobody_slow(PER_DOMAIN, OVER) if at.there is not None else [],
        ),
    ]


def time_limit(at: Compared) -> list[Claim]:
    return [
        Claim(
            "summary 5",
            "A time limit makes FedAvg faster. (Rows with a limit over-select as well, so both are "
            "beside them.)",
            at.times(ALL, LIMITED, AVG) + at.times(ALL, LIMITED, AVG_OVER),
        ),
        Claim(
            "summary 5",
            "With per-domain latency a time limit costs FedAvg straggler accuracy. (Both again.)",
            at.accuracy(PER_DOMAIN, LIMITED, AVG, "below", ["straggler"])
            + at.accuracy(PER_DOMAIN, LIMITED, AVG_OVER, "below", ["straggler"]),
        ),
        Claim(
            "summary 5",
            "With per-domain latency and a time limit stragglers train for a fraction of an epoch, "
            "others for more than one. (By plans: medians of reports on time.)",
            planned.part_of_an_epoch(PER_DOMAIN, LIMITED) if at.there is not None else [],
        ),
        Claim(
            "discussion",
            "With per-example latency a time limit often costs FedAvg no accuracy.",
            at.accuracy(PER_EXAMPLE, LIMITED, AVG, "no worse"),
        ),
        Claim(
            "discussion",
            "A time limit does not compete with other remedies such as over-selection, on most "
            "tasks. (Here: a row of before is no slower and as good in both accuracies.)",
            at.beaten(ALL, LIMITED),
            most=True,
        ),
    ]


def dials(at: Compared) -> list[Claim]:
    numbers = at.numbers
    return [
        Claim(
            "discussion",
            "The more clients FedBuff has under way (χ), the faster and the noisier it is.",
            sweeps.order(numbers, "chi", "time_s", "{:,.0f} s", rising=False)
            + sweeps.order(numbers, "chi", "swing", "{:.1f} points", rising=True)
            + sweeps.order(numbers, "chi-no-ema", "swing", "{:.1f} points", rising=True),
        ),
        Claim(
            "discussion",
            "The larger FedBuff's buffer (B), the longer it takes. (By plans.)",
            planned.slower_by(ALL, BUFF, "buffer", (5, 10, 20, 50)) if at.there is not None else [],
        ),
        Claim(
            "discussion",
            "The longer FeAST waits (τ_max), the higher its straggler accuracy.",
            sweeps.order(numbers, "tau", "late_straggler", "{:.1f} %", rising=True)
            + sweeps.order(numbers, "tau-small-kappa", "late_straggler", "{:.1f} %", rising=True),
        ),
        Claim(
            "discussion",
            "FeAST's wait (τ_max) costs next to no time.",
            sweeps.costs_no_time(numbers, "tau"),
        ),
        Claim(
            "discussion",
            "With per-domain latency more over-selection is faster and has less straggler "
            "accuracy.",
            sweeps.order(numbers, "over-selection", "time_s", "{:,.0f} s", rising=False)
            + sweeps.order(numbers, "over-selection", "late_straggler", "{:.1f} %", rising=False),
        ),
        Claim(
            "discussion",
            "Over-selection is best near the stragglers' share of clients. (The best has the most "
            "straggler accuracy less logarithm of time, each from 0 to 1 over the sweep.)",
            sweeps.trade_off(numbers),
        ),
    ]


def stackoverflow(at: Compared) -> list[Claim]:
    """Accuracies are of the paper's tables alone."""
    return [
        Claim(
            "results, discussion",
            "StackOverflow: FARe-DUST and FeAST take a tenth of the time of FedAdam.",
            at.times(STACKOVERFLOW, DUST, ADAM, 1 / 10)
            + at.times(STACKOVERFLOW, FEAST, ADAM, 1 / 10),
        ),
        Claim(
            "results, discussion",
            "StackOverflow: FedAdam has the highest straggler accuracy.",
            at.extreme(STACKOVERFLOW, ADAM, "straggler", highest=True),
        ),
        Claim(
            "results, discussion",
            "StackOverflow: FARe-DUST has the second straggler and total accuracy with per-domain "
            "latency; FeAST has the second straggler accuracy with per-example latency, and the "
            "best combination. (Here: no other row is as good in both.)",
            at.rank(STACKOVERFLOW[:1], DUST, 2)
            + at.rank(STACKOVERFLOW[:1], DUST, 2, "total")
            + at.rank(STACKOVERFLOW[1:], FEAST, 2)
            + at.undominated(STACKOVERFLOW[1:], FEAST, timed=False),
        ),
        Claim(
            "results",
            "StackOverflow: with per-example latency over-selection does not hurt synchronous "
            "algorithms.",
            at.accuracy(STACKOVERFLOW[1:], OVER, ADAM, "no worse")
            + at.accuracy(STACKOVERFLOW[1:], AVG_OVER, AVG, "no worse"),
        ),
        Claim(
            "discussion",
            "StackOverflow: FedAdam + over-selection takes about as long as FeAST and FARe-DUST. "
            "(Here: within a quarter.)",
            at.times_alike(STACKOVERFLOW, OVER, FEAST, 0.25)
            + at.times_alike(STACKOVERFLOW, OVER, DUST, 0.25),
        ),
        Claim(
            "discussion",
            "StackOverflow: the straggler accuracy of FedAdam + over-selection is only modestly "
            "lower. (Here: at most a point below FedAdam's.)",
            at.accuracy(STACKOVERFLOW, OVER, ADAM, "no worse", ["straggler"], equal=1.0),
        ),
        Claim(
            "discussion",
            "StackOverflow: FedBuff is slower than synchronous algorithms with over-selection.",
            at.times(STACKOVERFLOW, OVER, BUFF) + at.times(STACKOVERFLOW, AVG_OVER, BUFF),
        ),
    ]
