from reproduction.comparisons import NAMES, Compared
from reproduction.rows import Measured, Variant, published
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
    assert held(at.accuracy([table], "fare-dust", "fedadam", above=True)) == [False, True]
    assert held(at.accuracy([table], "fare-dust", "fedadam", above=False)) == [False, False]
    assert held(at.accuracy([table], "fedadam", "fare-dust")) == [True, False]
    assert held(at.accuracy([table], "fedadam", "fare-dust", above=False)) == [False, True]
    assert at.accuracy(["emnist/per-domain"], "fare-dust", "fedadam") == []


def test_the_highest_the_lowest_and_places():
    table = "emnist/per-domain"
    at = Compared(numbers(table, feast=measured(99, 60), fedadam=measured(80, 85),
                          fedavg=measured(70, 83), fare_dust=measured(60, 80)))  # fmt: skip
    assert held(at.extreme([table], "feast", "straggler", highest=True)) == [True]
    assert held(at.extreme([table], "feast", "total", highest=False)) == [True]
    assert held(at.extreme([table], "fedadam", "straggler", highest=True)) == [False]
    assert held(at.rank([table], "fedavg", 3)) == [True]
    assert held(at.rank([table], "fare-dust", 3)) == [False]
    assert at.rank([table], "fare-dust", 3)[0].numbers == "4 of 4"
    near = Compared(numbers(table, feast=measured(99, 60), fedadam=measured(80, 85),
                            fedavg=measured(79.9, 83), fare_dust=measured(79.1, 80)))  # fmt: skip
    # Three are equal.
    assert near.rank([table], "fare-dust", 3)[0].numbers == "2 of 4, with 2 more within a point"


def test_every_row_has_a_name():
    assert {variant.preset.rsplit("/", 1)[1] for variant in published()} == set(NAMES)


def test_times():
    table = "emnist/per-domain"
    at = Compared(numbers(table, fedadam=measured(1, 1, 1000), fedbuff_ema=measured(1, 1, 390)))
    assert held(at.times([table], "fedbuff-ema", "fedadam", 0.4)) == [True]
    assert held(at.times([table], "fedbuff-ema", "fedadam", 0.3)) == [False]
    assert held(at.fastest("fedbuff-ema")) == [True] and held(at.fastest("fedadam")) == [False]
    alike = numbers(table, fedadam=measured(1, 1, 1000), fedbuff_ema=measured(1, 1, 390),
                    fedbuff=measured(1, 1, 380))  # fmt: skip
    assert held(Compared(alike).fastest("fedbuff-ema")) == [True]  # FedBuff itself is no rival


def test_orders_along_an_open_point():
    times = {
        ("concurrency=50",): (300.0, 1.0),
        (): (200.0, 3.0),
        ("concurrency=200",): (100.0, 2.0),
    }

    def found(variant: Variant):
        there = times.get(variant.sets)
        return there and measured(50, 50, *there)

    at = Compared(found)
    (check,) = at.order("chi", "time_s", "{:.0f} s", rising=False)
    assert check.held and check.what == "`chi`: time"
    assert check.numbers == "concurrency=50: 300 s; preset (100): 200 s; concurrency=200: 100 s"
    assert held(at.order("chi", "swing", "{:g}", rising=True)) == [False]
    assert held(at.order("chi", "late_straggler", "{:g} %", rising=True)) == [None]  # all alike
    times[("concurrency=200",)] = (100.0, 2.5)  # back by less than counts
    assert held(at.order("chi", "swing", "{:g}", rising=True)) == [True]
    assert held(at.order("chi", "swing", "{:g}", rising=False)) == [False]
    times.pop(())
    assert at.order("chi", "time_s", "{:g}", rising=False) == []  # two are no order


def test_the_best_over_selection():
    curve = {(): (82, 290), ("over_selection=1.1",): (85, 350), ("over_selection=1.3",): (60, 250),
             ("over_selection=1.5",): (30, 180), "fedadam": (86, 800)}  # fmt: skip

    def found(variant: Variant):
        name = "fedadam" if variant.preset.endswith("fedadam") else variant.sets
        there = curve.get(name)
        return there and measured(there[0], 50, there[1])

    (check,) = Compared(found).trade_off()
    assert check.held and "1.2 is, of 1, 1.1, 1.2, 1.3, 1.5, by " in check.numbers
    curve["over_selection=1.5",] = (79, 180)  # as good, and faster
    (check,) = Compared(found).trade_off()
    assert check.held is False and "1.5 is, of" in check.numbers
    curve["over_selection=1.5",] = (30, 180)
    curve["over_selection=1.1",] = (84, 305)  # and now it is hard to tell
    (check,) = Compared(found).trade_off()
    assert check.held is None
    curve.pop("fedadam")
    assert Compared(found).trade_off() == []


def test_a_smaller_kappa():
    sweep = {
        (): measured(99, 60),
        ("kappa=0.2",): measured(96, 89),
        ("kappa=0.1",): measured(90, 87),
        ("kappa=0.9",): measured(99, 99),  # which is none on CIFAR-100, and EMNIST's own
    }
    checks = Compared(lambda variant: sweep.get(variant.sets)).smaller_kappa()
    assert len(checks) == 2
    for check in checks:
        assert check.held and "89.0 (kappa=0.2), 60.0" in check.numbers


def test_what_is_as_good_and_faster():
    table = "emnist/per-domain"
    there = {"fare_dust": measured(90, 85, 200), "fedbuff": measured(89.5, 84.2, 100),
             "fedadam": measured(99, 99, 201), "feast": measured(99, 99, 1)}  # fmt: skip
    (check,) = Compared(numbers(table, **there)).undominated([table], "fare-dust")
    assert check.held is False
    assert check.numbers == "90.0 / 85.0; FedBuff 89.5 / 84.2 in 50 % of the time"
    there["fedbuff_ema"] = measured(91, 84.5, 150)
    (check,) = Compared(numbers(table, **there)).undominated([table], "fare-dust")
    assert check.numbers.endswith("FedBuff + EMA 91.0 / 84.5 in 75 % of the time, and 1 more")
    slower_or_worse = there | {"fedbuff": measured(88.9, 99, 1), "fedbuff_ema": measured(99, 83, 1)}
    (check,) = Compared(numbers(table, **slower_or_worse)).undominated([table], "fare-dust")
    assert check.held and check.numbers.endswith("; none")
