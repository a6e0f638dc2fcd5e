"""Whoever works is not asked again: rounds and buffers, looked at client by client."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stragglers import draws, idle, latency, population
from stragglers.buffer import buffered
from stragglers.errors import BadInput
from stragglers.faults import Fault
from stragglers.latency import Draw
from stragglers.rounds import over_selected
from stragglers.schedule import Fate
from tests import events
from tests.timetables import (
    FAULTS,
    TIMEOUTS,
    assert_agrees,
    assert_same,
    beginning,
    buffer_cases,
    rounds_cases,
    table_faults,
    table_latency,
)


def pool_of(case, table, codes):
    return idle.Pool(case["clients"], table_latency(table), table_faults(codes), case["seed"], None)


def busy_until(plan, clients, before):
    """When each client is idle again, as far as dispatches up to a number tell."""
    until = np.zeros(clients)
    np.maximum.at(until, plan.client[:before], plan.stop[:before])
    return until


def earliest(until, size, now):
    """The first moment at which so many are idle, by trying all at which one becomes so."""
    moments = [now, *sorted(end for end in until if end > now)]
    return next(moment for moment in moments if np.sum(until <= moment) >= size)


@settings(max_examples=400, deadline=None)
@given(rounds_cases(), FAULTS, st.one_of(st.none(), TIMEOUTS))
def test_rounds_open_when_a_cohort_is_idle(case_and_table, codes, timeout):
    case, table = case_and_table
    case["round_timeout"] = timeout
    try:
        plan = over_selected(latency=table_latency(table), faults=table_faults(codes),
                             busy="skip", **case)  # fmt: skip
    except BadInput as error:
        told = ("never opens", "never closes", "never ends", "are abandoned", "less than the")
        assert any(words in str(error) for words in told)
        return
    clients, cohort, goal = case["clients"], case["cohort"], case["goal"]
    opens = plan.start[::cohort]
    pool = pool_of(case, table, codes)
    for t in range(plan.steps):
        rows = slice(t * cohort, (t + 1) * cohort)
        until = busy_until(plan, clients, t * cohort)
        assert opens[t] == earliest(until, cohort, plan.time[t - 1] if t else 0.0)
        assert len({*plan.client[rows]}) == cohort
        assert np.all(until[plan.client[rows]] <= opens[t])
        pool.until[:], pool.groups = until, t
        assert plan.client[rows].tolist() == pool.draw(cohort, opens[t]).tolist()
        took = np.sort(plan.report[rows])[goal - 1]
        assert plan.time[t] == (took if timeout is None else min(took, opens[t] + timeout))
    late = plan.fate == Fate.LATE
    if case["late_rounds"] is not None:
        met = np.searchsorted(plan.time, plan.report[late])
        assert plan.step[late].tolist() == np.maximum(met, plan.version[late]).tolist()


@settings(max_examples=400, deadline=None)
@given(buffer_cases(), st.one_of(st.none(), TIMEOUTS))
def test_buffers_agree_with_the_witness_of_the_same_clients(case_and_table, timeout):
    case, table = case_and_table
    case["client_timeout"] = timeout
    try:
        plan = buffered(latency=table_latency(table), busy="skip", **case)
    except BadInput as error:
        assert any(words in str(error) for words in ("never comes", "are abandoned", "are idle at"))
        return
    group = case["buffer"] if case["refill"] == "at_update" else 1
    steps = case["updates"] // case["buffer"]
    pool = pool_of(case, table, [Fault.NONE])
    first = draws.cohorts(
        case["seed"], draws.Purpose.FIRST_CLIENTS, case["clients"], case["concurrency"], 0, 1
    )[0]
    patience = np.inf if timeout is None else timeout
    who = idle.of_buffer(pool, first, group=group, groups=steps * case["buffer"] // group,
                         patience=patience)  # fmt: skip
    refills = who[case["concurrency"] :].reshape(-1, group)
    log = events.buffered(
        first.tolist(), lambda g: refills[g].tolist() if g < len(refills) else [0] * group,
        lambda d, client: table[d % len(table)], buffer=case["buffer"], steps=steps, group=group,
        client_timeout=patience,
    )  # fmt: skip
    assert_agrees(plan, log)
    for number, client in enumerate(plan.client):
        assert busy_until(plan, case["clients"], number)[client] <= plan.start[number]


def test_a_round_waits_by_hand():
    """Four of five start; one of them works for 10 s, so that the second round has its cohort."""
    table = [1.0, 2.0, 3.0, 10.0, 1.0, 1.0, 1.0, 7.0, 1.0, 1.0, 1.0, 1.0]
    plan = over_selected(5, table_latency(table), seed=0, goal=3, cohort=4, updates=9, busy="skip")
    assert plan.start[::4].tolist() == [0, 3, 10]  # the third: the slow one of round 0, at 10
    assert plan.time.tolist() == [3, 4, 11]
    assert plan.duration.tolist() == [3, 1, 7]  # with the time of waiting
    asked_again = over_selected(5, table_latency(table), seed=0, goal=3, cohort=4, updates=9)
    assert asked_again.start[::4].tolist() == [0, 3, 4]


def test_all_that_are_idle_are_equally_likely():
    """Of 12 clients 4 are busy, 2 until this moment; weights say how often each comes first."""
    weight = np.array([1.0] * 6 + [2.0] * 6)
    never = idle.Pool(12, lambda first, who: Draw(np.ones(len(who)), who), None, 0, weight)
    never.until[[0, 1, 6, 7]] = np.inf
    never.until[[2, 8]] = 5.0
    first = np.zeros(12)
    for group in range(3000):
        never.groups = group
        first[never.draw(3, 5.0)[0]] += 1
    expected = 3000 * np.where(np.isinf(never.until), 0, weight) / 12
    assert np.all(first[[0, 1, 6, 7]] == 0)
    chi = np.sum((first - expected)[expected > 0] ** 2 / expected[expected > 0])
    assert chi < 24.3  # 7 degrees of freedom, one in a thousand


def test_the_last_idle_ones_are_found():
    """Where nearly all are busy, drawing anew would take for ever."""
    busy = idle.Pool(100_000, lambda first, who: Draw(np.ones(len(who)), who), None, 0, None)
    busy.until[:] = 9.0
    busy.until[[5, 50_000, 99_999]] = 1.0
    assert {*busy.draw(3, 1.0).tolist()} == {5, 50_000, 99_999}
    with pytest.raises(BadInput, match="3 clients are idle at 1 s and 4 shall start; lower"):
        busy.draw(4, 1.0)


@pytest.mark.parametrize("make, budget", [
    (over_selected, dict(goal=10, cohort=13, late_rounds=5)),
    (buffered, dict(buffer=10, concurrency=40)),
    (buffered, dict(buffer=10, concurrency=40, refill="at_once")),
])  # fmt: skip
def test_a_longer_budget_begins_with_the_shorter(make, budget):
    who = population.cifar100()
    delay = latency.latency(who, latency.PER_DOMAIN, seed=0)
    short, long = (
        make(who.clients, delay, seed=1, updates=updates, busy="skip", **budget)
        for updates in (200, 400)
    )
    if make is over_selected:  # a buffer's last reports have others behind them
        assert_same(beginning(long, short), short, "client version start report")
    steps = short.steps
    np.testing.assert_array_equal(long.time[:steps], short.time)
    assert short.client.tolist() == long.client[: len(short.client)].tolist()


def test_the_plan_says_it_and_slow_clients_take_part_less(capsys):
    from stragglers.cli import main

    command = ["plan", "cifar100/per-domain/fedbuff", "--updates", "8000"]
    assert main([*command, "--set", "busy=skip"]) == 0
    assert "nobody asked again while it works" in capsys.readouterr().out
    who = population.cifar100()
    delay = latency.latency(who, latency.PER_DOMAIN, seed=0)
    again, skip = (
        buffered(who.clients, delay, seed=0, buffer=20, concurrency=150, updates=20_000, busy=busy)
        for busy in ("again", "skip")
    )
    shares = [np.mean(who.group[plan.client] == 1) for plan in (again, skip)]
    assert shares[0] == pytest.approx(0.25, abs=0.01) and shares[1] < 0.22
    assert skip.end < again.end


def test_a_round_that_never_opens_is_one_line():
    with pytest.raises(BadInput, match="round 1 never opens: fewer than cohort=3 clients are ever"):
        over_selected(4, table_latency([1.0, np.inf, np.inf]), seed=0, goal=1, cohort=3, updates=9,
                      busy="skip")  # fmt: skip
