"""What plans say, by numbers that can be told without them."""

import math

from reproduction import planned
from reproduction.rows import Variant
from tests.reproduction.test_comparisons import held, measured


def test_stackoverflow_has_the_times_of_its_plans_where_nothing_was_trained():
    row, trained = Variant("stackoverflow/per-domain/fedadam"), measured(1, 1, 7.0)
    plan = planned.or_planned(lambda variant: None)(row)
    assert plan and plan.trials == 0 and math.isnan(plan.late_straggler)
    assert abs(plan.time_s.median / row.paper.time_s - 1) < 0.03
    assert planned.or_planned(lambda variant: trained)(row) == trained
    nothing = planned.or_planned(lambda variant: None)
    assert nothing(row._replace(sets=("updates=24_000",))) is None
    assert nothing(Variant("emnist/per-domain/fedadam")) is None


def test_who_is_on_time():
    """With per-domain latency fewer stragglers than there are, but some."""
    (check,) = planned.nobody_slow(["cifar100/per-domain"], "fedadam-over-selection")
    assert check.held is False and check.numbers == "14.5 %, of clients 25.0 %"


def test_epochs_under_a_time_limit():
    slow, fast = (
        planned.epochs(Variant(f"cifar100/{latency}/fedavg-time-limit"))
        for latency in ("per-domain", "per-example")
    )
    assert slow["straggler"] < 1 < slow["standard"]
    assert fast["straggler"] == fast["standard"] > 1  # which are alike there
    assert planned.epochs(Variant("cifar100/per-domain/fedavg"))["straggler"] == 1
    assert (
        held(planned.part_of_an_epoch(["cifar100/per-domain"], "fedavg-time-limit")) == [True] * 2
    )


def test_a_larger_buffer_takes_longer_and_more_clients_under_way_less():
    buffers = planned.slower_by(["cifar100/per-domain"], "fedbuff", "buffer", (5, 20))
    assert held(buffers) == [True] and buffers[0].of_time
    assert held(
        planned.slower_by(["cifar100/per-domain"], "fedbuff", "concurrency", (60, 100))
    ) == [False]
