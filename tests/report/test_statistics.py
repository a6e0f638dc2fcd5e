import math

import numpy as np
import pytest
from scipy.stats import binom

from stragglers._core.errors import BadInput
from stragglers.report import statistics
from stragglers.report.statistics import Interval
from stragglers.runs import records
from tests.support.fabricate import run_folder


def trial(tmp_path, accuracies, seed=0, status="finished"):
    """A record whose straggler accuracy is given; its times are 10, 20, ..."""
    found = records.load(run_folder(tmp_path, seed=seed, points=len(accuracies)))
    curve = {**found.curve, "time_s": 10.0 * (1 + np.arange(len(accuracies)))}
    return found._replace(
        curve={**curve, "straggler_accuracy": np.array(accuracies)}, status=status
    )


def test_the_range_is_of_interpolated_percentiles():
    found = statistics.summarise([float(value) for value in range(11)], Interval("range", 0.9))
    assert found[1:] == pytest.approx((5, 0.5, 9.5, 0))
    assert statistics.summarise([0.0, 10.0], Interval("range", 0.5))[1:4] == (5, 2.5, 7.5)


def test_the_interval_of_the_median_holds_it_as_often_as_it_says():
    """Of ten values, those between the second and the ninth: 1 - 2 P(at most one below) = 97.9 %;
    between the third and the eighth it would be 89.1 %, too little."""
    values = [float(value) for value in range(10)]
    found = statistics.summarise(values, Interval("median-ci", 0.9))
    assert (found.median, found.low, found.high) == (4.5, 1, 8)
    assert 1 - 2 * binom.cdf(1, 10, 0.5) > 0.9 > 1 - 2 * binom.cdf(2, 10, 0.5)


def test_three_trials_are_too_few_for_an_interval_of_the_median():
    found = statistics.summarise([1.0, 2.0, 3.0], Interval("median-ci", 0.9))
    assert found.median == 2 and math.isnan(found.low) and math.isnan(found.high)


def test_a_trial_without_a_number_takes_the_median_away():
    found = statistics.summarise([0.5, math.nan, 0.7], Interval())
    assert found.lost == 1 and math.isnan(found.median) and math.isnan(found.high)
    assert found.values[0] == 0.5


def test_methods_and_levels_have_names():
    assert "5–95 % range" in Interval("range", 0.9).text
    assert "95 % confidence interval of the median" in Interval("median-ci", 0.95).text
    with pytest.raises(BadInput, match="level=90, expected a share"):
        statistics.checked_interval("range", 90)


def test_final_and_best(tmp_path):
    one = trial(tmp_path, [0.2, 0.8, 0.6])
    assert one.outcome("straggler_accuracy") == 0.6
    assert one.outcome("straggler_accuracy", best=True) == 0.8
    assert one.outcome("time_s", best=True) == 20  # of the same point
    lost = one._replace(status="diverged")
    assert math.isnan(lost.outcome("straggler_accuracy", best=True))


@pytest.mark.parametrize(
    ("accuracies", "seconds"),
    [
        ([0.2, 0.4, 0.6], 25.0),  # half-way between the second and the third
        ([0.2, 0.5, 0.1], 20.0),  # reached is reached
        ([0.6, 0.7], 10.0),  # at the first point already
        ([math.nan, 0.7], 20.0),  # nothing to interpolate from
        ([0.2, 0.3], math.inf),
    ],
)
def test_time_to_a_target(tmp_path, accuracies, seconds):
    assert statistics.time_to(trial(tmp_path, accuracies), "straggler", 0.5) == seconds


def test_trials_that_never_reach_a_target_count_as_later_than_all(tmp_path):
    fast, slow = [0.5, 0.6], [0.1, 0.2]
    trials = [trial(tmp_path, fast, 0), trial(tmp_path, fast, 1), trial(tmp_path, slow, 2)]
    assert statistics.reached(trials, "straggler", 0.5)[1:] == (10.0, 2)
    assert statistics.reached(trials[1:], "straggler", 0.5)[1:] == (math.inf, 1)
    four = [
        trial(tmp_path / "four", curve, seed)
        for seed, curve in enumerate([[0.0, 0.5], [0.5, 0.5], [0.25, 0.75], [0.1, 0.1]])
    ]
    times = sorted(statistics.reached(four, "straggler", 0.5).times)
    assert statistics.reached(four, "straggler", 0.5).median == (times[1] + times[2]) / 2


def test_pairs_are_of_the_same_seed(tmp_path):
    ours = [trial(tmp_path / "a", [0.1 * seed], seed) for seed in (3, 1, 2)]
    theirs = [trial(tmp_path / "b", [0.2 * seed], seed) for seed in (1, 2, 5)]
    found = statistics.compare(ours, theirs, "straggler_accuracy")
    assert found.seeds == (1, 2) and found.p is None
    assert found.difference == pytest.approx(-0.15)


def test_ten_pairs_that_all_agree_are_as_sure_as_ten_coins(tmp_path):
    """All ten signs equal: p = 2 / 2^10, exactly."""
    ours = [trial(tmp_path / "a", [0.5 + seed / 100], seed) for seed in range(10)]
    theirs = [trial(tmp_path / "b", [0.4], seed) for seed in range(10)]
    assert statistics.compare(ours, theirs, "straggler_accuracy").p == 2 / 2**10
    assert statistics.compare(ours, ours, "straggler_accuracy").p == 1
    assert statistics.compare(ours[:5], theirs, "straggler_accuracy").p is None


def test_a_pair_of_which_one_diverged_is_counted_as_lost(tmp_path):
    ours = [trial(tmp_path / "a", [0.5], seed) for seed in range(2)]
    theirs = [trial(tmp_path / "b", [0.4], 0, "diverged"), trial(tmp_path / "b", [0.4], 1)]
    found = statistics.compare(ours, theirs, "straggler_accuracy")
    assert (found.seeds, found.lost) == ((1,), 1)
