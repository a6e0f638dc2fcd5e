import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning import paper_populations
from stragglers.planning.faults import Fault
from stragglers.planning.schedule import Fate
from tests.support import events
from tests.support.plans import buffered
from tests.support.timetables import (
    FAULTS,
    NAMES,
    TIMED,
    TIMEOUTS,
    UNTIMED,
    assert_agrees,
    assert_gives_up,
    assert_same,
    assert_scaled,
    beginning,
    buffer_cases,
    counts_at,
    delays,
    is_lost,
    relabelled,
    table_faults,
    table_latency,
)

BUFFER = dict(clients=9, buffer=2, concurrency=4, updates=10)


def witness(case, table, codes=(Fault.NONE,)):
    group = case["buffer"] if case["refill"] == "at_update" else 1
    steps = case["updates"] // case["buffer"]
    first = random_streams.cohorts(
        case["seed"],
        random_streams.Purpose.FIRST_CLIENTS,
        case["clients"],
        case["concurrency"],
        0,
        1,
    )
    rows = random_streams.cohorts(
        case["seed"],
        random_streams.Purpose.CLIENTS,
        case["clients"],
        group,
        0,
        steps * case["buffer"] + 1,
    )
    return events.buffered(
        first[0].tolist(),
        lambda g: rows[g].tolist(),
        lambda d, client: np.inf if is_lost(codes[d % len(codes)]) else table[d % len(table)],
        buffer=case["buffer"],
        steps=steps,
        group=group,
        client_timeout=case.get("client_timeout", np.inf),
        minimum=case.get("minimum"),
        twice=lambda d: codes[d % len(codes)] == Fault.DUPLICATE,
    )


def plan_of(case, table, **changes):
    """The plan, or None where there is none."""
    try:
        return buffered(latency=table_latency(table), **{**case, **changes})
    except BadInput:
        return None


@settings(max_examples=600, deadline=None)
@given(buffer_cases())
def test_buffers_agree_with_the_event_by_event_witness(case_and_table):
    case, table = case_and_table
    log = witness(case, table)
    if log.stuck:
        with pytest.raises(BadInput, match="never comes"):
            buffered(latency=table_latency(table), **case)
        return
    plan = buffered(latency=table_latency(table), **case)
    assert_agrees(plan, log)
    assert plan.updates[-1] == plan.steps * case["buffer"] <= case["updates"]


@settings(max_examples=400, deadline=None)
@given(buffer_cases(), FAULTS, TIMEOUTS, st.data())
def test_buffers_that_are_given_up_agree_with_the_witness(case_and_table, codes, timeout, data):
    case, table = case_and_table
    case["minimum"] = data.draw(st.one_of(st.none(), st.integers(1, case["buffer"])))
    case["client_timeout"] = timeout
    steps = case["updates"] // case["buffer"]
    log = witness(case, table, codes)

    def make():
        return buffered(latency=table_latency(table), faults=table_faults(codes), **case)

    if log.abandoned == {*range(steps)}:
        with pytest.raises(BadInput, match=f"all {steps} server steps are abandoned"):
            make()
        return
    plan = make()
    assert_gives_up(plan, log, case, codes, table, timeout)
    assert plan.steps == steps and plan.updates[-1] == np.sum(plan.fate == Fate.ON_TIME)


def test_a_client_of_a_buffer_is_given_up_by_hand():
    """Buffer 2 of 2 under way within 5 s: the second step has one report and an empty place."""
    table = [1, 2, 1, 9, 1, 1]
    options = dict(seed=0, buffer=2, concurrency=2, updates=6, client_timeout=5.0)
    plan = buffered(3, table_latency(table), **options)
    assert plan.time.tolist() == [2, 7, 8] and plan.updates.tolist() == [2, 3, 5]
    assert [NAMES[fate] for fate in plan.fate] == ["on_time"] * 3 + ["unused"] + ["on_time"] * 2
    strict = buffered(3, table_latency(table), minimum=2, **options)
    assert strict.updates.tolist() == [2, 2, 4] and NAMES[strict.fate[2]] == "unused"


@settings(max_examples=150, deadline=None)
@given(buffer_cases())
def test_every_client_of_a_buffered_run_is_somewhere_exactly_once(case_and_table):
    case, table = case_and_table
    plan = plan_of(case, table)
    assume(plan is not None)
    log = witness(case, table)
    for step in range(plan.steps):
        started, on_time, late, unused = counts_at(plan, step)
        under_way = np.sum((plan.version <= step) & (plan.step > step))
        assert started == on_time + under_way and late == unused == 0
        assert on_time == (step + 1) * case["buffer"] and under_way <= case["concurrency"]
        seen = {"on_time": on_time, "in_flight": under_way}
        assert log.counts[step] == {fate: count for fate, count in seen.items() if count}


@settings(max_examples=150, deadline=None)
@given(buffer_cases())
def test_a_buffered_plan_is_the_beginning_of_a_longer_one(case_and_table):
    case, table = case_and_table
    short, long = plan_of(case, table), plan_of(case, table, updates=2 * case["updates"])
    assume(short is not None and long is not None)
    first = beginning(long, short)
    assert_same(short, first, "client version start report examples time duration ready updates")
    assert np.array_equal(short.step, np.minimum(first.step, short.steps))
    assert np.array_equal(short.fate == Fate.ON_TIME, first.step < short.steps)
    # Only who starts at the very end, or after it, is missing.
    assert np.all(long.start[len(short.start) :] >= short.time[-1])


@settings(max_examples=120, deadline=None)
@given(buffer_cases(), st.integers(1, 60))
def test_slower_clocks_change_nothing_but_the_times_of_a_buffered_run(case_and_table, k):
    case, table = case_and_table
    assert_scaled(plan_of(case, table), plan_of(case, 2.0**k * np.array(table)), 2.0**k)


@pytest.mark.parametrize("refill", ["at_update", "at_once"])
def test_a_clients_number_means_nothing_in_a_buffered_run(monkeypatch, refill):
    def make(seconds):
        return buffered(
            3400, seconds, seed=0, buffer=10, concurrency=50, updates=2000, refill=refill
        )

    plan, renamed, number = relabelled(make, paper_populations.emnist(), monkeypatch)
    assert np.array_equal(number[plan.client], renamed.client)
    assert_same(plan, renamed, f"{UNTIMED.removeprefix('client')} {TIMED}")


@pytest.mark.parametrize("refill", ["at_update", "at_once"])
def test_one_slot_and_a_buffer_of_one_are_sequential(refill):
    table = [3.0, 0.0, 0.0, 1.5, 8.0]
    plan = buffered(
        5, table_latency(table), seed=0, buffer=1, concurrency=1, updates=12, refill=refill
    )
    assert plan.time.tolist() == plan.report.tolist() == np.cumsum(np.resize(table, 12)).tolist()
    assert plan.start.tolist() == [0, *plan.report[:-1]]
    assert plan.version.tolist() == plan.step.tolist() == list(range(12))


@pytest.mark.parametrize("refill", ["at_update", "at_once"])
@pytest.mark.parametrize("seconds", [0.0, 0.1, 3.0])
def test_equal_latencies_and_a_buffer_for_all_leave_nothing_stale(refill, seconds):
    plan = buffered(
        9, table_latency([seconds]), seed=0, buffer=4, concurrency=4, updates=40, refill=refill
    )
    assert np.array_equal(plan.step, plan.version) and np.all(plan.fate == Fate.ON_TIME)


@settings(max_examples=100, deadline=None)
@given(buffer_cases())
def test_a_buffer_for_all_that_is_refilled_at_its_update_is_never_stale(case_and_table):
    case, table = case_and_table
    plan = plan_of(case, table, concurrency=case["buffer"], refill="at_update")
    assume(plan is not None)
    assert np.array_equal(plan.step, plan.version)


@settings(max_examples=150, deadline=None)
@given(buffer_cases())
def test_every_report_is_replaced_and_no_more_are_under_way_than_allowed(case_and_table):
    case, table = case_and_table
    plan = plan_of(case, table)
    assume(plan is not None)
    assert plan.report.tolist() == (plan.start + delays(plan, table)).tolist()
    assert np.all(np.diff(plan.start) >= 0) and np.all(np.diff(plan.time, prepend=0) >= 0)
    group = case["buffer"] if case["refill"] == "at_update" else 1
    for now in {*plan.start.tolist(), *plan.report.tolist()}:
        started, reported = np.sum(plan.start <= now), np.sum(plan.report <= now)
        assert started - reported <= case["concurrency"]
        if now < plan.time[-1]:
            assert started == case["concurrency"] + reported // group * group


@pytest.mark.parametrize("refill", ["at_update", "at_once"])
def test_who_checks_in_less_often_takes_part_less_often(refill):
    weights = np.r_[np.full(50, 0.25), np.ones(50), np.zeros(20)]
    plan = buffered(
        120,
        table_latency([1.0, 3.0, 2.0]),
        seed=0,
        buffer=2,
        concurrency=4,
        updates=40_000,
        refill=refill,
        check_in=weights,
    )
    rare, usual, never = np.split(np.bincount(plan.client, minlength=120), [50, 100])
    assert not never.any() and usual.sum() / rare.sum() == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(
    "changes, complaint",
    [
        (dict(buffer=5), "buffer=5 .* concurrency=4"),
        (dict(concurrency=10), "concurrency=10 .* population of 9"),
        (dict(updates=1), "updates=1 .* buffer=2"),
        (dict(buffer=0), "buffer=0"),
        (dict(buffer=-1), "buffer=-1"),
        (dict(concurrency=0), "concurrency=0"),
        (dict(updates=0), "updates=0"),
        (dict(client_timeout=-1.0), "client_timeout=-1.0"),
        (dict(client_timeout=9.0, minimum=3), "minimum=3 .* buffer=2"),
        (dict(minimum=1), "minimum=1 .* `client_timeout`"),
        (dict(client_timeout=0.5), "all 5 server steps are abandoned"),
        (dict(check_in=np.r_[np.zeros(6), 1, 1, 1]), "concurrency=4 .* the 3 of 9 that ever"),
    ],
)
@pytest.mark.parametrize("refill", ["at_update", "at_once"])
def test_impossible_buffers_are_one_line(changes, complaint, refill):
    with pytest.raises(BadInput, match=complaint) as error:
        buffered(latency=table_latency([1.0]), seed=0, refill=refill, **{**BUFFER, **changes})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("refill", ["at_update", "at_once"])
def test_a_buffer_of_clients_that_never_report_is_an_error_and_not_a_hang(refill):
    with pytest.raises(BadInput, match="server step 0 never comes"):
        buffered(latency=table_latency([np.inf]), seed=0, refill=refill, **BUFFER)
