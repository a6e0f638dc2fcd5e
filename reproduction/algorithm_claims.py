"""The paper's claims on algorithms: FARe-DUST, FeAST and FedBuff (claims.py)."""

from reproduction import sweeps
from reproduction.comparisons import (
    ADAM,
    ALL,
    AVG,
    BUFF,
    BUFF_ADAM,
    BUFF_EMA,
    DUST,
    FEAST,
    OVER,
    Check,
    Compared,
)
from reproduction.verdicts import Claim

EMNIST_DOMAIN, EMNIST_EXAMPLE = ("emnist/per-domain",), ("emnist/per-example",)
CIFAR_DOMAIN, CIFAR_EXAMPLE = ("cifar100/per-domain",), ("cifar100/per-example",)


def fare_dust(at: Compared) -> list[Claim]:
    return [
        Claim(
            "summary 1",
            "FARe-DUST is the most consistently high-performing on straggler data, across tasks "
            "and latencies. (Here: among the best three of every table, and no other row is.)",
            at.rank(ALL, DUST, 3) + at.alone_at_the_top(ALL, DUST, 3),
        ),
        Claim(
            "conclusion",
            "FARe-DUST has better trade-offs of accuracy and time than what was there before. "
            "(Here: nothing of that is no slower and as good in both accuracies.)",
            at.undominated(ALL, DUST),
        ),
        Claim(
            "discussion",
            "FARe-DUST has the best combination of both accuracies on EMNIST with per-domain and "
            "on CIFAR-100 with per-example latency, and on CIFAR-100 with per-domain latency "
            "together with FedAdam. (Here: no other row is as good in both.)",
            at.undominated(EMNIST_DOMAIN + CIFAR_EXAMPLE, DUST, timed=False)
            + at.undominated(CIFAR_DOMAIN, DUST, timed=False, but=[ADAM])
            + at.accuracy(CIFAR_DOMAIN, DUST, ADAM, "equal"),
        ),
        Claim(
            "discussion",
            "Generally FARe-DUST is above FedAdam + over-selection in both accuracies.",
            at.accuracy(ALL, DUST, OVER, "above"),
            most=True,
        ),
        Claim(
            "discussion",
            "Generally FARe-DUST is above FedBuff in both accuracies.",
            _each(at, ALL, DUST, (BUFF, BUFF_EMA, BUFF_ADAM), "above"),
            most=True,
        ),
        Claim(
            "results",
            "On EMNIST with per-domain latency FARe-DUST and FeAST come soonest to the highest "
            "straggler accuracies, and FARe-DUST has the highest total accuracy. (Here: to as "
            "much as FARe-DUST ends with.)",
            at.rank(EMNIST_DOMAIN, FEAST, 1)
            + at.rank(EMNIST_DOMAIN, DUST, 2)
            + at.first_there(EMNIST_DOMAIN[0], FEAST, DUST)
            + at.first_there(EMNIST_DOMAIN[0], DUST, DUST)
            + at.extreme(EMNIST_DOMAIN, DUST, "total", highest=True),
        ),
        Claim(
            "results",
            "On EMNIST with per-domain latency FedAdam and FedAvg, waiting for all, do not reach "
            "FARe-DUST's straggler accuracy.",
            [
                c
                for row in (ADAM, AVG)
                for c in at.accuracy(EMNIST_DOMAIN, row, DUST, "below", ["straggler"])
            ],
        ),
        Claim(
            "results",
            "On CIFAR-100 with per-domain latency FeAST and FARe-DUST have the first and the third "
            "straggler accuracy, in less than 1 / 2.5 of the time of FedAdam, which has the "
            "second.",
            at.rank(CIFAR_DOMAIN, FEAST, 1)
            + at.rank(CIFAR_DOMAIN, ADAM, 2)
            + at.rank(CIFAR_DOMAIN, DUST, 3)
            + at.times(CIFAR_DOMAIN, FEAST, ADAM, 1 / 2.5)
            + at.times(CIFAR_DOMAIN, DUST, ADAM, 1 / 2.5),
        ),
    ]


def feast(at: Compared) -> list[Claim]:
    images = EMNIST_DOMAIN + CIFAR_DOMAIN
    return [
        Claim(
            "summary 2",
            "FeAST has the highest straggler accuracy on most tasks.",
            at.extreme(ALL, FEAST, "straggler", highest=True),
            most=True,
        ),
        Claim(
            "summary 2, conclusion",
            "FeAST has good trade-offs of accuracy and time, better than what was there before. "
            "(Here: nothing of that is no slower and as good in both accuracies.)",
            at.undominated(ALL, FEAST),
        ),
        Claim(
            "summary 2, discussion",
            "FeAST tends to be over-tuned to straggler data: on EMNIST and CIFAR-100 with "
            "per-domain latency its straggler accuracy is the highest of all and its total "
            "accuracy the lowest; large κ explain it, and a smaller κ has more.",
            at.extreme(images, FEAST, "straggler", highest=True)
            + at.extreme(images, FEAST, "total", highest=False)
            + sweeps.smaller_kappa(at.numbers),
        ),
        Claim(
            "discussion",
            "Generally FeAST has higher accuracy than FedBuff.",
            _each(at, ALL, FEAST, (BUFF, BUFF_EMA, BUFF_ADAM), "above"),
            most=True,
        ),
        Claim(
            "discussion",
            "On EMNIST with per-example latency FeAST ties with FedAdam + over-selection for the "
            "best straggler and the best total accuracy.",
            at.rank(EMNIST_EXAMPLE, FEAST, 1) + at.rank(EMNIST_EXAMPLE, FEAST, 1, "total"),
        ),
        Claim(
            "discussion",
            "FARe-DUST and FeAST are faster than FedAdam that waits for all, and take about as "
            "long as one another (here: within a quarter); on EMNIST with per-example latency "
            "FeAST is faster than FedAdam + over-selection, too.",
            at.times(ALL, DUST, ADAM)
            + at.times(ALL, FEAST, ADAM)
            + at.times_alike(ALL, FEAST, DUST, 0.25)
            + at.times(EMNIST_EXAMPLE, FEAST, OVER),
        ),
    ]


def fedbuff(at: Compared) -> list[Claim]:
    terms = ("fedbuff-kd", "fedbuff-l2")
    emnist = EMNIST_DOMAIN + EMNIST_EXAMPLE
    return [
        Claim(
            "summary 3",
            "FedBuff ends before other algorithms on most tasks.",
            at.fastest(ALL, BUFF),
            most=True,
        ),
        Claim(
            "summary 3",
            "FedBuff has lower accuracy than other algorithms on most tasks. (Here: than more "
            "than half of the rows that are no FedBuff.)",
            at.below_most(ALL, BUFF),
            most=True,
        ),
        Claim(
            "results, discussion",
            "FedBuff's accuracy varies much from one round to the next in every task; FedAdam and "
            "FedAvg, waiting for all, are consistent. (Here: FedBuff's straggler accuracy swings "
            "more. Published: the width of an interval.)",
            at.steadier(ALL, ADAM, BUFF) + at.steadier(ALL, AVG, BUFF),
        ),
        Claim(
            "summary 3",
            "EMA raises FedBuff's straggler and total accuracy.",
            at.accuracy(ALL, BUFF_EMA, BUFF, "above"),
        ),
        Claim(
            "discussion",
            "On EMNIST EMA leaves FedBuff's accuracies comparable and makes them vary much less. "
            "(Published: the width of an interval.)",
            at.accuracy(emnist, BUFF_EMA, BUFF, "equal") + at.steadier(emnist, BUFF_EMA, BUFF),
        ),
        Claim(
            "summary 3",
            "Distillation raises FedBuff's straggler and total accuracy.",
            at.accuracy(ALL, "fedbuff-kd", BUFF, "above"),
        ),
        Claim(
            "discussion",
            "Distillation and a proximal term mostly raise FedBuff's accuracies.",
            [c for row in terms for c in at.accuracy(ALL, row, BUFF, "above")],
            most=True,
        ),
        Claim(
            "discussion",
            "Distillation and a proximal term mostly make FedBuff's accuracy vary less. "
            "(Published: the width of an interval.)",
            [c for row in terms for c in at.steadier(ALL, row, BUFF)],
            most=True,
        ),
        Claim(
            "summary 3, discussion",
            "Adam raises FedBuff's straggler and total accuracy. (Both with EMA, EMNIST alone.)",
            at.accuracy(emnist, BUFF_ADAM, BUFF_EMA, "above"),
        ),
    ]


def _each(
    at: Compared, tables: tuple[str, ...], row: str, others: tuple[str, ...], relation: str
) -> list[Check]:
    return [c for other in others for c in at.accuracy(tables, row, other, relation)]
