"""Random cases of both kinds of schedules, and what is true of any."""

import numpy as np
from hypothesis import strategies as st

from stragglers._core import random_streams
from stragglers.planning import latency
from stragglers.planning.faults import Fault, Struck
from stragglers.planning.latency import Draw
from stragglers.planning.schedule import Fate, Schedule

NAMES = {
    Fate.ON_TIME: "on_time",
    Fate.LATE: "late",
    Fate.UNUSED: "unused",
    Fate.IN_FLIGHT: "in_flight",
    Fate.LOST: "lost",
}

# Few distinct values make ties the rule; zero and infinity are the traps.
DELAYS = st.one_of(
    st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 3.0, 8.0]),
    st.sampled_from([1.0, np.inf, 2.0, 0.25, 4.0, 0.1, 0.7]),
    st.floats(0, 100),
)

FAULTS = st.lists(
    st.sampled_from([Fault.NONE, Fault.NONE, Fault.DROP_OUT, Fault.CRASH, Fault.DUPLICATE]),
    min_size=1,
    max_size=40,
)
TIMEOUTS = st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0, 8.0])

CYCLE = 12  # seconds; tests have a short day

UNTIMED = "client version examples cut fate step updates"
TIMED = "start report time duration ready"


def table_latency(table):
    """Latencies by dispatch number, repeating the table for as long as anyone asks."""
    table = np.asarray(table, float)

    def latency(first, clients):
        rows = np.arange(first, first + len(clients))
        return Draw(table[rows % len(table)], np.ones(len(clients), np.int64))

    return latency


def table_faults(codes):
    """Faults by dispatch number; a client that crashes does so half way."""
    codes = np.array(codes, np.int8)

    def faults(first, clients):
        fault = codes[np.arange(first, first + len(clients)) % len(codes)]
        worked = np.where(fault == Fault.CRASH, 0.5, fault != Fault.DROP_OUT)
        return Struck(fault, worked)

    return faults


def is_lost(code):
    return code in (Fault.DROP_OUT, Fault.CRASH)


@st.composite
def rounds_cases(draw):
    clients = draw(st.integers(1, 9))
    cohort = draw(st.integers(1, clients))
    goal = draw(st.one_of(st.just(cohort), st.integers(1, cohort)))
    late = draw(st.sampled_from(["none", "seconds", "rounds"]))
    wait = draw(st.sampled_from([0.0, 1.0, 2.5, 8.0, 50.0, np.inf]))
    return dict(
        clients=clients,
        cohort=cohort,
        goal=goal,
        updates=draw(st.integers(goal, goal * 9)),
        late_seconds=wait if late == "seconds" else None,
        late_rounds=draw(st.integers(1, 4)) if late == "rounds" else None,
        count=draw(st.sampled_from(["on_time", "all_returned"])),
        seed=draw(st.integers(0, 99)),
    ), draw(st.lists(DELAYS, min_size=1, max_size=40))


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
    ), draw(st.lists(DELAYS, min_size=1, max_size=40))


def delays(plan, table):
    return np.resize(table, len(plan.client))


def counts_at(plan, step):
    """Where every client started so far is, at the end of a server step."""
    started = plan.version <= step
    on_time = started & (plan.fate == Fate.ON_TIME) & (plan.step <= step)
    late = started & (plan.fate == Fate.LATE) & (plan.step <= step)
    unused = (
        started & ~on_time & ~late & (plan.fate == Fate.UNUSED) & (plan.report <= plan.time[step])
    )
    return started.sum(), on_time.sum(), late.sum(), unused.sum()


def beginning(plan, shorter):
    """As many dispatches and server steps of a plan as a shorter one has."""
    columns = zip(plan[:-1], shorter[:-1], strict=True)
    return Schedule(*(column[: len(short)] for column, short in columns), plan.fleet)


def relabelled(make, who, monkeypatch):
    """A plan, and the same plan when every client goes by another number."""
    number = np.random.default_rng(0).permutation(who.clients).astype(np.int32)
    theirs = who._replace(
        examples=who.examples[np.argsort(number)], group=who.group[np.argsort(number)]
    )
    plan = make(latency.latency(who, latency.PER_DOMAIN, seed=0))
    drawn = random_streams.cohorts
    with monkeypatch.context() as patch:
        patch.setattr(random_streams, "cohorts", lambda *address: number[drawn(*address)])
        return plan, make(latency.latency(theirs, latency.PER_DOMAIN, seed=0)), number


def assert_same(a, b, fields):
    for field in fields.split():
        assert np.array_equal(getattr(a, field), getattr(b, field)), field


def assert_agrees(plan, log):
    assert plan.client.tolist() == [job.client for job in log.jobs]
    assert plan.version.tolist() == [job.version for job in log.jobs]
    assert plan.start.tolist() == [job.start for job in log.jobs]
    assert plan.report.tolist() == [job.report for job in log.jobs]
    assert [NAMES[f] for f in plan.fate] == [job.fate for job in log.jobs]
    assert plan.step.tolist() == [plan.steps if j.step is None else j.step for j in log.jobs]
    assert plan.time.tolist() == log.times


def assert_gives_up(plan, log, case, codes, seconds, timeout):
    """The plan is the witness's, in a bounded time, with every fault at its place."""
    for number, job in enumerate(log.jobs):
        if is_lost(codes[number % len(codes)]):
            assert job.fate in ("unused", "in_flight")
            job.fate = "lost"
    assert not log.stuck
    assert_agrees(plan, log)
    counted = np.bincount(plan.step[plan.fate == Fate.ON_TIME], minlength=plan.steps)
    assert {*np.flatnonzero(counted == 0)} == log.abandoned
    assert counted[counted > 0].min() >= (case["minimum"] or 1)
    assert np.all(plan.duration <= timeout * (1 + 1e-9) + 1e-9 * plan.time)
    assert plan.fault.tolist() == np.resize(codes, len(plan.fault)).tolist()
    works = np.resize(seconds, len(plan.stop))
    works = np.where(
        plan.fault == Fault.DROP_OUT, 0, np.where(plan.fault == Fault.CRASH, works / 2, works)
    )
    assert plan.stop.tolist() == (plan.start + works).tolist()


def assert_scaled(plan, scaled, by):
    assert (plan is None) == (scaled is None)
    if plan is not None:
        assert_same(plan, scaled, UNTIMED)
        times = {name: by * getattr(plan, name) for name in TIMED.split()}
        assert_same(plan._replace(**times), scaled, TIMED)


def seconds_of(given, client):
    """Which whole seconds of a cycle a client is there in."""
    return {
        (begin + k) % CYCLE
        for owner, begin, length in given
        if owner == client
        for k in range(length)
    }


def walked(there, now, work):
    """From now on, second by second: when the client first leaves, and when its work is done."""
    time, leaves = now, None
    while work > 0 or leaves is None:
        upto = np.floor(time) + 1
        if int(time % CYCLE) in there:
            if 0 < work <= upto - time:
                done = time + work
            work -= upto - time
        elif leaves is None:
            leaves = time
        if len(there) == CYCLE and work <= 0:
            return np.inf, done
        time = upto
    return leaves, done
