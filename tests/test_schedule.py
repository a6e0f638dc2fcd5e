import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stragglers import draws, schedule
from stragglers.errors import BadInput
from stragglers.latency import Draw
from stragglers.schedule import Fate
from tests import events

NAMES = {Fate.ON_TIME: "on_time", Fate.LATE: "late", Fate.UNUSED: "unused", Fate.IN_FLIGHT: "in_flight"}

# Few distinct values make ties the rule; zero and infinity are the traps.
DELAYS = st.one_of(
    st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 3.0, 8.0]),
    st.sampled_from([1.0, np.inf, 2.0, 0.25, 4.0, 0.1, 0.7]),
    st.floats(0, 100),
)


ONE_OF_TWO = dict(
    clients=2, cohort=2, goal=1, updates=2, seed=0,
    late_seconds=None, late_rounds=None, count="on_time",
)  # fmt: skip


def table_latency(table):
    """Latencies by dispatch number, repeating the table for as long as anyone asks."""
    table = np.asarray(table, float)

    def latency(first, clients):
        rows = np.arange(first, first + len(clients))
        return Draw(table[rows % len(table)], np.ones(len(clients), np.int64))

    return latency


@st.composite
def rounds_cases(draw):
    clients = draw(st.integers(1, 9))
    cohort = draw(st.integers(1, clients))
    goal = draw(st.one_of(st.just(cohort), st.integers(1, cohort)))
    late = draw(st.sampled_from(["none", "seconds", "rounds"]))
    return dict(
        clients=clients,
        cohort=cohort,
        goal=goal,
        updates=draw(st.integers(goal, goal * 9)),
        late_seconds=draw(st.sampled_from([0.0, 1.0, 2.5, 8.0, 50.0])) if late == "seconds" else None,
        late_rounds=draw(st.integers(1, 4)) if late == "rounds" else None,
        count=draw(st.sampled_from(["on_time", "all_returned"])),
        seed=draw(st.integers(0, 99)),
    ), draw(st.lists(DELAYS, min_size=1, max_size=40))  # fmt: skip


@st.composite
def buffer_cases(draw):
    clients = draw(st.integers(1, 9))
    concurrency = draw(st.integers(1, clients))
    buffer = draw(st.one_of(st.just(concurrency), st.integers(1, concurrency)))
    return dict(
        clients=clients,
        concurrency=concurrency,
        buffer=buffer,
        updates=draw(st.integers(buffer, buffer * 9)),
        refill=draw(st.sampled_from(["at_update", "at_once"])),
        seed=draw(st.integers(0, 99)),
    ), draw(st.lists(DELAYS, min_size=1, max_size=40))  # fmt: skip


def witness_rounds(case, table, rounds):
    row = draws.cohorts(case["seed"], draws.Purpose.CLIENTS, case["clients"], case["cohort"], 0, rounds)
    return events.over_selected(
        lambda t: row[t].tolist(), lambda d, client: table[d % len(table)],
        goal=case["goal"], cohort=case["cohort"], rounds=rounds,
        late_seconds=case["late_seconds"], late_rounds=case["late_rounds"],
    )  # fmt: skip


def witness_buffer(case, table):
    group = case["buffer"] if case["refill"] == "at_update" else 1
    steps = case["updates"] // case["buffer"]
    first = draws.cohorts(
        case["seed"], draws.Purpose.FIRST_CLIENTS, case["clients"], case["concurrency"], 0, 1
    )
    rows = draws.cohorts(
        case["seed"], draws.Purpose.CLIENTS, case["clients"], group, 0, steps * case["buffer"] + 1
    )
    return events.buffered(
        first[0].tolist(), lambda g: rows[g].tolist(), lambda d, client: table[d % len(table)],
        buffer=case["buffer"], steps=steps, group=group,
    )  # fmt: skip


def assert_agrees(plan, log):
    assert plan.client.tolist() == [job.client for job in log.jobs]
    assert plan.version.tolist() == [job.version for job in log.jobs]
    assert plan.start.tolist() == [job.start for job in log.jobs]
    assert plan.report.tolist() == [job.report for job in log.jobs]
    assert [NAMES[f] for f in plan.fate] == [job.fate for job in log.jobs]
    assert plan.step.tolist() == [plan.steps if j.step is None else j.step for j in log.jobs]
    assert plan.time.tolist() == log.times


def counts_at(plan, step):
    """Where every client started so far is, at the end of a server step."""
    started = plan.version <= step
    on_time = started & (plan.fate == Fate.ON_TIME) & (plan.step <= step)
    late = started & (plan.fate == Fate.LATE) & (plan.step <= step)
    unused = started & ~on_time & ~late & (plan.fate == Fate.UNUSED) & (plan.report <= plan.time[step])
    return started.sum(), on_time.sum(), late.sum(), unused.sum()


@settings(max_examples=600, deadline=None)
@given(rounds_cases())
@example((ONE_OF_TWO, [0.5, 0.5, 1e-20, 0.0]))  # two delays, one time of arrival
def test_rounds_agree_with_the_event_by_event_witness(case_and_table):
    case, table = case_and_table
    try:
        plan = schedule.over_selected(latency=table_latency(table), **case)
    except BadInput as error:
        if "never closes" in str(error):
            assert witness_rounds(case, table, case["updates"] // case["goal"]).stuck
        else:  # the first round alone returns more than the budget
            assert "less than the" in str(error) and case["count"] == "all_returned"
        return
    log = witness_rounds(case, table, plan.steps)
    assert not log.stuck
    assert_agrees(plan, log)

    returned = sum(job.fate in ("on_time", "late") for job in log.jobs)
    if case["count"] == "on_time" or case["late_seconds"] is not None:
        counted = returned if case["count"] == "all_returned" else plan.steps * case["goal"]
        assert plan.updates[-1] == counted <= case["updates"]
    # Not one round more would have fitted.
    if plan.steps < case["updates"] // case["goal"] and case["late_rounds"] is None:
        longer = witness_rounds(case, table, plan.steps + 1)
        more = sum(job.fate in ("on_time", "late") for job in longer.jobs)
        assert longer.stuck or more > case["updates"]


@settings(max_examples=600, deadline=None)
@given(buffer_cases())
def test_buffers_agree_with_the_event_by_event_witness(case_and_table):
    case, table = case_and_table
    log = witness_buffer(case, table)
    if log.stuck:
        with pytest.raises(BadInput, match="never comes"):
            schedule.buffered(latency=table_latency(table), **case)
        return
    plan = schedule.buffered(latency=table_latency(table), **case)
    assert_agrees(plan, log)
    assert plan.updates[-1] == plan.steps * case["buffer"] <= case["updates"]
