"""A plan's numbers, from a schedule that is made by hand."""

import numpy as np
import pytest

from stragglers.planning.latency import Draw
from stragglers.planning.population import Population
from stragglers.planning.summary import summarise
from tests.support.helpers import table_latency
from tests.support.plans import buffered, over_selected

CLIENTS = Population(np.full(6, 10), np.array([0, 0, 0, 0, 1, 1], np.int16), ("quick", "slow"), "")


def summary(table, **policy):
    plan = buffered(CLIENTS, table_latency(table, CLIENTS.examples), seed=0, **policy)
    return summarise(plan)


def test_staleness_is_how_many_steps_a_model_is_behind():
    # Alone, nobody is stale; of two that take turns, everybody but the first is by one step.
    alone = summary([1.0], buffer=1, concurrency=1, updates=5)["staleness"]
    assert alone == dict.fromkeys(("mean", "p50", "p95", "p99", "max"), 0.0)
    two = summary([2.0, 3.0] + [2.0] * 20, buffer=1, concurrency=2, updates=8, refill="at_once")
    assert two["staleness"] == {"mean": 7 / 8, "p50": 1, "p95": 1, "p99": 1, "max": 1}


def test_devices_work_until_they_report_or_training_ends():
    # One client is slow; the other makes three reports of two seconds, and that is the end.
    found = summary([2.0, 50.0] + [2.0] * 20, buffer=1, concurrency=2, updates=3, refill="at_once")
    assert found["time_s"] == 6 and found["reports"]["in_flight"] == 1
    assert found["device_s"] == {"used": 6, "wasted": 0, "in_flight": 6}


def test_untrained_is_a_share_of_the_reports_that_count():
    late_one = Draw(np.array([1.0, 1.0, 2.0, 9.0]), np.array([19, 20, 3, 1]))
    plan = over_selected(4, lambda first, who: late_one, seed=0, goal=3, cohort=4, updates=3)
    found = summarise(plan, plan.examples // 20)["groups"]
    assert found["all"]["untrained"] == 2 / 3


def test_weight_is_a_share_of_server_steps():
    plan = buffered(
        CLIENTS, table_latency([1.0], CLIENTS.examples), seed=0, buffer=2, concurrency=2, updates=6
    )
    part = np.array([0.9, 0.1, 0.5, 0.5, 0.2, 0.8, 0, 0])[: len(plan.client)]
    slow = CLIENTS.group[plan.client] == 1
    share = summarise(plan, plan.examples, part)["share"]
    assert share["slow"]["weight"] == pytest.approx(np.sum(part[slow]) / 3) != 0
    assert share["slow"]["weight"] + share["quick"]["weight"] == pytest.approx(1)
    alike = summarise(plan)["share"]
    assert alike["slow"]["weight"] is None
