import math

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.planning import latency, paper_populations, schedule
from stragglers.planning.latency import Draw
from tests.support.plans import buffered, over_selected
from tests.support.timetables import TIMED, UNTIMED, assert_same, table_latency


def test_latencies_drawn_in_parts_are_the_latencies_drawn_at_once(monkeypatch):
    who = paper_populations.emnist()
    seconds = latency.latency(who, latency.PER_DOMAIN, seed=0)

    def plans():
        return [
            over_selected(3400, seconds, seed=0, goal=20, cohort=26, updates=2000),
            *(
                buffered(
                    3400, seconds, seed=0, buffer=10, concurrency=50, updates=2000, refill=refill
                )
                for refill in ("at_update", "at_once")
            ),
        ]

    whole = plans()
    monkeypatch.setattr(schedule, "CHUNK", 100)
    for at_once, in_parts in zip(whole, plans(), strict=True):
        assert_same(at_once, in_parts, f"{UNTIMED} {TIMED}")


def test_points_of_a_curve_by_updates_and_by_time():
    plan = over_selected(
        3, table_latency([1.0, 2.0, 4.0]), seed=0, goal=2, cohort=3, updates=10, late_seconds=9.0
    )
    assert plan.time.tolist() == [2, 4, 6, 8, 10] and plan.ready.tolist() == [4, 6, 8, 10, 12]
    assert plan.steps_at(updates=[1, 2, 3, 10, 99]) == [1, 2, 5]
    assert plan.steps_at(times=[3.9, 4.0, 9.0, 50.0]) == [0, 1, 3, 5]
    assert plan.steps_at(updates=[4], times=[9.0]) == [2, 3]


@pytest.mark.parametrize("seconds", [-5.0, -1e-300, -math.inf, math.nan])
@pytest.mark.parametrize("kind", ["rounds", "buffer"])
def test_no_clock_runs_backwards(kind, seconds):
    latency = table_latency([1.0, 2.0, seconds, 3.0])
    with pytest.raises(BadInput, match=f"seconds={seconds} for dispatch 2, of client .* >= 0"):
        if kind == "rounds":
            over_selected(5, latency, seed=0, goal=2, cohort=3, updates=10)
        else:
            buffered(5, latency, seed=0, buffer=2, concurrency=3, updates=10)


def test_nobody_has_less_than_no_examples():
    def latency(first, clients):
        return Draw(np.ones(len(clients)), np.resize([3, -1, 2], len(clients)))

    with pytest.raises(BadInput, match="examples=-1 for dispatch 1, of client"):
        over_selected(5, latency, seed=0, goal=4, cohort=4, updates=4)


def test_a_schedule_knows_how_many_clients_it_was_made_for():
    latency = table_latency([1.0, 2.0, 4.0])
    assert over_selected(7, latency, seed=0, goal=2, cohort=3, updates=10).clients == 7
    assert buffered(7, latency, seed=0, buffer=2, concurrency=3, updates=10).clients == 7
