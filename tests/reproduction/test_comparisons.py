import math

from reproduction.comparisons import NAMES, Compared
from reproduction.rows import Measured, found, published
from stragglers.report.statistics import Summary


def value(number):
    return Summary((number,), number, number, number, 0)


def measured(straggler, total, time_s=1.0, swing=1.0):
    return Measured(1, value(straggler), value(total), value(time_s), straggler, total, swing)


def numbers(table, **rows):
    there = {f"{table}/{row.replace('_', '-')}": found for row, found in rows.items()}
    return lambda variant: there.get(variant.preset) if not variant.sets else None


def held(checks):
    return [check.held for check in checks]


def test_accuracies_within_a_point_are_equal():
    table = "cifar100/per-domain"
    at = Compared(numbers(table, fedadam=measured(50, 40), fare_dust=measured(50.9, 41.1)))
    pair, back = ("fare-dust", "fedadam"), ("fedadam", "fare-dust")
    assert held(at.accuracy([table], *pair, "above")) == [False, True]
    assert held(at.accuracy([table], *pair, "below")) == [False, False]
    assert held(at.accuracy([table], *back, "no worse")) == [True, False]
    assert held(at.accuracy([table], *back, "below")) == [False, True]
    assert held(at.accuracy([table], *pair, "equal")) == [True, False]
    assert at.accuracy(["emnist/per-domain"], *pair, "above") == []


def test_a_difference_of_exactly_a_point_is_none():
    """Published numbers have one digit: 25.4 - 25.2 is more than 0.2 by floating point alone."""
    for table, apart in (("cifar100/per-domain", 1.0), ("stackoverflow/per-domain", 0.2)):
        for low in (25.2, 41.7, 44.3):
            high = round(low + apart, 1)
            at = Compared(numbers(table, fedadam=measured(low, 1), feast=measured(high, 1)))
            above = at.accuracy([table], "feast", "fedadam", "above", ["straggler"])
            assert held(above) == [False]
            assert held(at.extreme([table], "feast", "straggler", highest=True)) == [None]
            assert at.rank([table], "fedadam", 1)[0].numbers == "1 of 2, with 1 more as good"


def test_stackoverflows_straggler_accuracies_are_nearer_to_one_another():
    table = "stackoverflow/per-example"
    at = Compared(numbers(table, fedadam=measured(25.6, 25.4), feast=measured(25.2, 26.1)))
    assert held(at.accuracy([table], "feast", "fedadam", "below")) == [True, False]
    modestly = at.accuracy([table], "feast", "fedadam", "no worse", ["straggler"], equal=1.0)
    assert held(modestly) == [True]


def test_the_highest_the_lowest_and_places():
    table = "emnist/per-domain"
    at = Compared(
        numbers(
            table,
            feast=measured(99, 60),
            fedadam=measured(80, 85),
            fedavg=measured(70, 83),
            fare_dust=measured(60, 80),
        )
    )
    assert held(at.extreme([table], "feast", "straggler", highest=True)) == [True]
    assert held(at.extreme([table], "feast", "total", highest=False)) == [True]
    assert held(at.extreme([table], "fedadam", "straggler", highest=True)) == [False]
    assert at.rank([table], "feast", 3, "total")[0].numbers == "4 of 4"
    assert held(at.rank([table], "fedavg", 3)) == [True]
    assert held(at.rank([table], "fare-dust", 3)) == [False]
    assert at.rank([table], "fare-dust", 3)[0].numbers == "4 of 4"
    near = Compared(
        numbers(
            table,
            feast=measured(99, 60),
            fedadam=measured(80, 85),
            fedavg=measured(79.9, 83),
            fare_dust=measured(79.1, 80),
        )
    )
    # Three are equal.
    assert near.rank([table], "fare-dust", 3)[0].numbers == "2 of 4, with 2 more as good"


def test_others_that_are_always_at_the_top():
    here, there = "cifar100/per-domain", "emnist/per-domain"
    both = {
        f"{here}/fare-dust": 50,
        f"{here}/feast": 60,
        f"{here}/fedadam": 40,
        f"{there}/fare-dust": 90,
        f"{there}/feast": 80,
        f"{there}/fedbuff-ema-adam": 99,
    }

    def at(**more: int) -> Compared:
        rows = both | {f"{there}/{row}": value for row, value in more.items()}
        return Compared(
            lambda v: measured(rows[v.preset], 1) if v.preset in rows and not v.sets else None
        )

    (check,) = at().alone_at_the_top([here, there], "fare-dust", 2)
    assert check.held and check.numbers == "none"  # FeAST is third of EMNIST
    (check,) = at(feast=99.5).alone_at_the_top([here, there], "fare-dust", 2)
    assert not check.held and check.numbers == "FeAST"
    (check,) = at(fedadam=99).alone_at_the_top([here, there], "fare-dust", 3)
    assert check.numbers == "FedAdam"  # FedBuff + EMA + Adam is in one table alone
    assert Compared(lambda v: None).alone_at_the_top([here], "fare-dust", 3) == []


def test_below_most_others():
    table = "emnist/per-domain"
    at = Compared(
        numbers(
            table,
            fedbuff=measured(70, 80),
            fedbuff_ema=measured(99, 99),
            fedadam=measured(80, 80.9),
            fedavg=measured(71.1, 82),
            feast=measured(60, 79),
        )
    )
    checks = at.below_most([table], "fedbuff")
    assert held(checks) == [True, False]
    assert [check.numbers for check in checks] == ["70.0, 2 of 3", "80.0, 1 of 3"]


def test_every_row_has_a_name():
    assert {variant.preset.rsplit("/", 1)[1] for variant in published()} == set(NAMES)


def test_times():
    table = "emnist/per-domain"
    at = Compared(numbers(table, fedadam=measured(1, 1, 1000), fedbuff_ema=measured(1, 1, 390)))
    assert held(at.times([table], "fedbuff-ema", "fedadam", 0.4)) == [True]
    assert held(at.times([table], "fedbuff-ema", "fedadam", 0.3)) == [False]
    assert held(at.times_alike([table], "fedbuff-ema", "fedadam", 0.6)) == [False]
    assert held(at.times_alike([table], "fedbuff-ema", "fedadam", 0.62)) == [True]
    assert held(at.fastest([table], "fedbuff-ema")) == [True]
    assert held(at.fastest([table], "fedadam")) == [False]
    alike = numbers(
        table,
        fedadam=measured(1, 1, 1000),
        fedbuff_ema=measured(1, 1, 390),
        fedbuff=measured(1, 1, 380),
    )
    assert held(Compared(alike).fastest([table], "fedbuff-ema")) == [True]  # FedBuff is no rival


def test_what_diverged_has_no_time_and_a_plan_has():
    table, lost = "stackoverflow/per-domain", measured(math.nan, math.nan, 5.0, math.nan)
    at = Compared(numbers(table, fedadam=lost, feast=lost._replace(trials=0)))
    assert at.seconds(table) == {"feast": 5.0} and at.table(table) == {}


def test_who_is_first_to_an_accuracy():
    """FedBuff + EMA + Adam has what FARe-DUST ends with before it does, FeAST sooner still."""
    there, table = found(), "emnist/per-domain"
    from reproduction.rows import measured as of

    at = Compared(lambda variant: of(variant, there), there)
    (feast,) = at.first_there(table, "feast", "fare-dust")
    (dust,) = at.first_there(table, "fare-dust", "fare-dust")
    assert feast.held and dust.held is False and feast.of_time
    assert "(FedBuff + EMA + Adam), to 91.8 %" in dust.numbers
    (never,) = at.first_there(table, "fedavg", "fare-dust")
    assert never.held is False and never.numbers.startswith("never, ")
    assert Compared(at.numbers).first_there(table, "feast", "fare-dust") == []  # published


def test_what_is_as_good_and_no_slower():
    table = "emnist/per-domain"
    there = {
        "fare_dust": measured(90, 85, 200),
        "fedbuff": measured(89.5, 84.2, 100),
        "fedadam": measured(99, 99, 203),
        "feast": measured(99, 99, 1),
    }
    (check,) = Compared(numbers(table, **there)).undominated([table], "fare-dust")
    assert check.held is False
    assert check.numbers == "90.0 / 85.0; FedBuff 89.5 / 84.2 in 50 % of the time"
    there["fedbuff_ema"] = measured(91, 84.5, 150)
    (check,) = Compared(numbers(table, **there)).undominated([table], "fare-dust")
    assert check.numbers.endswith("FedBuff + EMA 91.0 / 84.5 in 75 % of the time, and 1 more")
    slower_or_worse = there | {"fedbuff": measured(88.9, 99, 1), "fedbuff_ema": measured(99, 83, 1)}
    (check,) = Compared(numbers(table, **slower_or_worse)).undominated([table], "fare-dust")
    assert check.held and check.numbers.endswith("; none")
    same_time = slower_or_worse | {"fedadam_over_selection": measured(89.1, 84.1, 201.9)}
    (check,) = Compared(numbers(table, **same_time)).undominated([table], "fare-dust")
    assert (
        check.held is False and "over-selection 89.1 / 84.1 in 101 % of the time" in check.numbers
    )
    (check,) = Compared(numbers(table, **same_time)).beaten([table], "fare-dust")
    assert check.held


def test_what_is_as_good_at_whatever_time():
    table = "emnist/per-domain"
    there = {"fare_dust": measured(90, 85, 200), "fedadam": measured(90, 85, 999)}
    at = Compared(numbers(table, **there))
    (check,) = at.undominated([table], "fare-dust", timed=False)
    assert check.held is False and check.numbers == "90.0 / 85.0; FedAdam 90.0 / 85.0"
    assert held(at.undominated([table], "fare-dust", timed=False, but=["fedadam"])) == [True]
    assert held(at.undominated([table], "fare-dust")) == [True]  # which is slower
