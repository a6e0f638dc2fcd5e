from reproduction.rows import Variant
from reproduction.sweeps import costs_no_time, order, smaller_kappa, trade_off
from tests.reproduction.test_comparisons import held, measured


def test_orders_along_an_open_point():
    times = {
        ("concurrency=50",): (300.0, 1.0),
        (): (200.0, 3.0),
        ("concurrency=200",): (100.0, 2.0),
    }

    def found(variant: Variant):
        there = times.get(variant.sets)
        return there and measured(50, 50, *there)

    (check,) = order(found, "chi", "time_s", "{:.0f} s", rising=False)
    assert check.held and check.what == "`chi`: time"
    assert check.numbers == "concurrency=50: 300 s; preset (100): 200 s; concurrency=200: 100 s"
    assert held(order(found, "chi", "swing", "{:g}", rising=True)) == [False]
    assert held(order(found, "chi", "late_straggler", "{:g} %", rising=True)) == [None]  # all alike
    times[("concurrency=200",)] = (100.0, 2.5)  # back by less than counts
    assert held(order(found, "chi", "swing", "{:g}", rising=True)) == [True]
    assert held(order(found, "chi", "swing", "{:g}", rising=False)) == [False]
    times.pop(())
    assert order(found, "chi", "time_s", "{:g}", rising=False) == []  # two are no order


def test_the_best_over_selection():
    curve = {
        (): (82, 290),
        ("over_selection=1.1",): (85, 350),
        ("over_selection=1.3",): (60, 250),
        ("over_selection=1.5",): (30, 180),
        "fedadam": (86, 800),
    }

    def found(variant: Variant):
        name = "fedadam" if variant.preset.endswith("fedadam") else variant.sets
        there = curve.get(name)
        return there and measured(there[0], 50, there[1])

    (check,) = trade_off(found)
    assert check.held and "1.2 is, of 1, 1.1, 1.2, 1.3, 1.5, by " in check.numbers
    curve["over_selection=1.5",] = (79, 180)  # as good, and faster
    (check,) = trade_off(found)
    assert check.held is False and "1.5 is, of" in check.numbers
    curve["over_selection=1.5",] = (30, 180)
    curve["over_selection=1.1",] = (84, 305)  # and now it is hard to tell
    (check,) = trade_off(found)
    assert check.held is None
    curve.pop("fedadam")
    assert trade_off(found) == []


def test_a_smaller_kappa():
    sweep = {
        (): measured(99, 60),
        ("kappa=0.2",): measured(96, 89),
        ("kappa=0.1",): measured(90, 87),
        ("kappa=0.9",): measured(99, 99),  # which is none on CIFAR-100, and EMNIST's own
    }
    checks = smaller_kappa(lambda variant: sweep.get(variant.sets))
    assert len(checks) == 2
    for check in checks:
        assert check.held and "89.0 (kappa=0.2), 60.0" in check.numbers


def test_the_last_of_a_sweep_costs_no_time():
    times = {("late_seconds=200",): 110.0, ("late_seconds=500",): 100.0, (): 100.9}

    def found(variant: Variant):
        there = times.get(variant.sets)
        return there and measured(50, 50, there)

    (check,) = costs_no_time(found, "tau")
    assert check.held and check.of_time and check.numbers.endswith("preset (100000): 101 s")
    times[()] = 101.1
    assert held(costs_no_time(found, "tau")) == [False]
    times.pop(())
    assert costs_no_time(found, "tau") == []
