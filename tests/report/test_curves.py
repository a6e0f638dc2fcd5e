import numpy as np
import pytest

from stragglers.report import curves
from stragglers.report.grouping import sections
from stragglers.report.statistics import Interval
from stragglers.runs import records
from tests.support.fabricate import run_folder


def experiment(tmp_path):
    return sections(records.find([tmp_path]))[0].experiments[0]


def test_a_band_is_over_finished_trials(tmp_path):
    for seed in range(3):
        run_folder(tmp_path, seed=seed, height=0.5 + 0.1 * seed)
    run_folder(tmp_path, seed=3, height=0.0, status="diverged", diverged="x")
    run_folder(tmp_path, seed=4, height=0.0, status="running")
    found = experiment(tmp_path)
    band = curves.band(found, Interval("range", 0.5))
    last = sorted(trial.curve["straggler_accuracy"][-1] for trial in found.trials[:3])
    assert band.trials == 3 and band.median["straggler"][-1] == last[1]
    assert band.low["straggler"][-1] == pytest.approx((last[0] + last[1]) / 2)
    assert band.high["straggler"][-1] == pytest.approx((last[1] + last[2]) / 2)
    assert [trial.seed for trial in curves.loners(found)] == [3, 4]
    assert curves.caption(found) == "fedadam (1 diverged, 1 unfinished of 5)"


def test_a_band_goes_as_far_as_all_trials_do(tmp_path):
    run_folder(tmp_path, seed=0, points=10)
    run_folder(tmp_path, seed=1, points=7)
    assert len(curves.band(experiment(tmp_path), Interval()).x["time_s"]) == 7


def test_nothing_finished_is_no_band(tmp_path):
    run_folder(tmp_path, status="running")
    assert curves.band(experiment(tmp_path), Interval()) is None


@pytest.mark.parametrize(
    ("seconds", "unit"), [(90, "s"), (1000, "min"), (20_000, "h"), (3_600_000, "d")]
)
def test_axes_have_numbers_of_a_few_digits(seconds, unit):
    size, name = curves.time_unit(seconds)
    assert name == unit and 4 <= seconds / size < 300


def test_the_front_is_what_nothing_else_beats():
    rng = np.random.default_rng(0)
    points = [tuple(point) for point in rng.integers(0, 12, (40, 2)).astype(float)]
    for sign, less in ((1, False), (-1, True)):
        beaten = {
            one
            for one in points
            for other in points
            if sign * other[0] >= sign * one[0] and other[1] >= one[1] and other != one
        }
        front = [points[i] for i in curves.front(points, less)]
        assert front == sorted(set(points) - beaten)
