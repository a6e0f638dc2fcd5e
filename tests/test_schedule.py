import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from stragglers import draws, latency, population, schedule
from stragglers.errors import BadInput
from stragglers.faults import Fault, Struck
from stragglers.latency import Draw
from stragglers.schedule import Fate
from tests import events

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
    row = draws.cohorts(
        case["seed"], draws.Purpose.CLIENTS, case["clients"], case["cohort"], 0, rounds
    )
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
    unused = (
        started & ~on_time & ~late & (plan.fate == Fate.UNUSED) & (plan.report <= plan.time[step])
    )
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
        elif "never ends" in str(error):
            assert case["late_seconds"] == np.inf in table
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


# Faults, and steps that are given up.

FAULTS = st.lists(
    st.sampled_from([Fault.NONE, Fault.NONE, Fault.DROP_OUT, Fault.CRASH, Fault.DUPLICATE]),
    min_size=1, max_size=40,
)  # fmt: skip
TIMEOUTS = st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0, 8.0])


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
    works = np.where(plan.fault == Fault.DROP_OUT, 0, np.where(plan.fault == Fault.CRASH,
                                                              works / 2, works))  # fmt: skip
    assert plan.stop.tolist() == (plan.start + works).tolist()


@settings(max_examples=400, deadline=None)
@given(rounds_cases(), FAULTS, TIMEOUTS, st.data())
def test_rounds_that_are_given_up_agree_with_the_witness(case_and_table, codes, timeout, data):
    case, table = case_and_table
    case["minimum"] = data.draw(st.one_of(st.none(), st.integers(1, case["goal"])))
    case["round_timeout"] = timeout

    def witness(rounds):
        row = draws.cohorts(
            case["seed"], draws.Purpose.CLIENTS, case["clients"], case["cohort"], 0, rounds
        )
        return events.over_selected(
            lambda t: row[t].tolist(),
            lambda d, client: np.inf if is_lost(codes[d % len(codes)]) else table[d % len(table)],
            goal=case["goal"], cohort=case["cohort"], rounds=rounds,
            late_seconds=case["late_seconds"], late_rounds=case["late_rounds"],
            round_timeout=timeout, minimum=case["minimum"],
            twice=lambda d: codes[d % len(codes)] == Fault.DUPLICATE,
        )  # fmt: skip

    try:
        plan = schedule.over_selected(
            latency=table_latency(table), faults=table_faults(codes), **case
        )
    except BadInput as error:
        rounds = case["updates"] // case["goal"]
        if "are abandoned" in str(error):
            assert witness(rounds).abandoned == {*range(rounds)}
        elif "never ends" in str(error):
            assert case["late_seconds"] == np.inf
            assert np.inf in table or any(map(is_lost, codes))
        else:
            assert "less than the" in str(error) and case["count"] == "all_returned"
        return
    if case["count"] == "on_time":
        assert plan.steps == case["updates"] // case["goal"]  # the declared bound
        assert plan.updates[-1] == np.sum(plan.fate == Fate.ON_TIME)
    assert_gives_up(plan, witness(plan.steps), case, codes, table, timeout)


@settings(max_examples=400, deadline=None)
@given(buffer_cases(), FAULTS, TIMEOUTS, st.data())
def test_buffers_that_are_given_up_agree_with_the_witness(case_and_table, codes, timeout, data):
    case, table = case_and_table
    case["minimum"] = data.draw(st.one_of(st.none(), st.integers(1, case["buffer"])))
    group = case["buffer"] if case["refill"] == "at_update" else 1
    steps = case["updates"] // case["buffer"]
    address = case["seed"], draws.Purpose.FIRST_CLIENTS, case["clients"], case["concurrency"]
    first = draws.cohorts(*address, 0, 1)
    address = case["seed"], draws.Purpose.CLIENTS, case["clients"], group
    rows = draws.cohorts(*address, 0, steps * case["buffer"] + 1)
    log = events.buffered(
        first[0].tolist(), lambda g: rows[g].tolist(),
        lambda d, client: np.inf if is_lost(codes[d % len(codes)]) else table[d % len(table)],
        buffer=case["buffer"], steps=steps, group=group, client_timeout=timeout,
        minimum=case["minimum"], twice=lambda d: codes[d % len(codes)] == Fault.DUPLICATE,
    )  # fmt: skip

    def make():
        return schedule.buffered(
            latency=table_latency(table), faults=table_faults(codes), client_timeout=timeout, **case
        )

    if log.abandoned == {*range(steps)}:
        with pytest.raises(BadInput, match=f"all {steps} server steps are abandoned"):
            make()
        return
    plan = make()
    assert_gives_up(plan, log, case, codes, table, timeout)
    assert plan.steps == steps and plan.updates[-1] == np.sum(plan.fate == Fate.ON_TIME)


def test_a_round_is_given_up_by_hand():
    """2 of 3 within 5 s, or else at least 2: reached, abandoned with one report, reached."""
    table = [1, 2, 9, 1, 9, 9, 3, 3, 3]
    options = dict(seed=0, goal=2, cohort=3, updates=6, round_timeout=5.0)
    strict = schedule.over_selected(3, table_latency(table), minimum=2, **options)
    assert strict.time.tolist() == [2, 7, 10] and strict.updates.tolist() == [2, 2, 4]
    assert [NAMES[fate] for fate in strict.fate] == [
        "on_time", "on_time", "unused", "unused", "unused", "unused", "on_time", "on_time", "unused"
    ]  # fmt: skip
    lenient = schedule.over_selected(3, table_latency(table), **options)
    assert lenient.updates.tolist() == [2, 3, 5] and NAMES[lenient.fate[3]] == "on_time"
    assert_same(strict, lenient, "client version start report time duration")


def test_a_client_of_a_buffer_is_given_up_by_hand():
    """Buffer 2 of 2 under way within 5 s: the second step has one report and an empty place."""
    table = [1, 2, 1, 9, 1, 1]
    options = dict(seed=0, buffer=2, concurrency=2, updates=6, client_timeout=5.0)
    plan = schedule.buffered(3, table_latency(table), **options)
    assert plan.time.tolist() == [2, 7, 8] and plan.updates.tolist() == [2, 3, 5]
    assert [NAMES[fate] for fate in plan.fate] == ["on_time"] * 3 + ["unused"] + ["on_time"] * 2
    strict = schedule.buffered(3, table_latency(table), minimum=2, **options)
    assert strict.updates.tolist() == [2, 2, 4] and NAMES[strict.fate[2]] == "unused"


def over_selected(case, table, **changes):
    """The plan, or None where there is none."""
    try:
        return schedule.over_selected(latency=table_latency(table), **{**case, **changes})
    except BadInput:
        return None


def buffered(case, table, **changes):
    try:
        return schedule.buffered(latency=table_latency(table), **{**case, **changes})
    except BadInput:
        return None


def delays(plan, table):
    return np.resize(table, len(plan.client))


def assert_same(a, b, fields):
    for field in fields.split():
        assert np.array_equal(getattr(a, field), getattr(b, field)), field


def beginning(plan, shorter):
    """As many dispatches and server steps of a plan as a shorter one has."""
    return schedule.Schedule(
        *(column[: len(short)] for column, short in zip(plan, shorter, strict=True))
    )


def waits_for(case, late_seconds=None, late_rounds=None):
    return {**case, "late_seconds": late_seconds, "late_rounds": late_rounds}


@settings(max_examples=150, deadline=None)
@given(rounds_cases())
def test_every_client_of_a_round_is_somewhere_exactly_once(case_and_table):
    case, table = case_and_table
    plan = over_selected(case, table)
    assume(plan is not None)
    log = witness_rounds(case, table, plan.steps)
    for step, now in enumerate(plan.time):
        started, on_time, late, unused = counts_at(plan, step)
        under_way = np.sum((plan.version <= step) & (plan.report > now))
        assert started == (step + 1) * case["cohort"] == on_time + late + unused + under_way
        assert on_time == (step + 1) * case["goal"]
        # The witness counts at the very report that closes a round, before others of that time.
        if not np.any((plan.report == now) & (plan.fate != Fate.ON_TIME)):
            seen = {"on_time": on_time, "late": late, "unused": unused, "in_flight": under_way}
            assert log.counts[step] == {fate: count for fate, count in seen.items() if count}


@settings(max_examples=150, deadline=None)
@given(buffer_cases())
def test_every_client_of_a_buffered_run_is_somewhere_exactly_once(case_and_table):
    case, table = case_and_table
    plan = buffered(case, table)
    assume(plan is not None)
    log = witness_buffer(case, table)
    for step in range(plan.steps):
        started, on_time, late, unused = counts_at(plan, step)
        under_way = np.sum((plan.version <= step) & (plan.step > step))
        assert started == on_time + under_way and late == unused == 0
        assert on_time == (step + 1) * case["buffer"] and under_way <= case["concurrency"]
        seen = {"on_time": on_time, "in_flight": under_way}
        assert log.counts[step] == {fate: count for fate, count in seen.items() if count}


@settings(max_examples=150, deadline=None)
@given(rounds_cases())
def test_a_round_lasts_as_long_as_its_goal_th_report_and_no_longer(case_and_table):
    case, table = case_and_table
    plan = over_selected(case, table)
    assume(plan is not None)
    delay = delays(plan, table)
    assert plan.report.tolist() == (plan.start + delay).tolist()
    ordered = np.sort(delay.reshape(plan.steps, -1), axis=1)
    assert plan.duration.tolist() == ordered[:, case["goal"] - 1].tolist()
    assert plan.start.reshape(plan.steps, -1)[1:, 0].tolist() == plan.time[:-1].tolist()
    assert np.all(np.diff(plan.time, prepend=0) >= 0)


def test_a_larger_cohort_around_the_same_clients_closes_no_later():
    table = np.random.default_rng(0).lognormal(3, 1, (50, 20))
    durations = []
    for cohort in range(5, 21):

        def nested(first, clients, cohort=cohort):
            rows = table[first // cohort :][: len(clients) // cohort, :cohort]
            return Draw(rows.ravel(), np.ones(len(clients), np.int64))

        plan = schedule.over_selected(30, nested, seed=0, goal=5, cohort=cohort, updates=250)
        durations.append(plan.duration)
    assert np.all(np.diff(durations, axis=0) <= 0) and plan.steps == 50


@settings(max_examples=150, deadline=None)
@given(rounds_cases())
def test_a_plan_of_rounds_is_the_beginning_of_a_longer_one(case_and_table):
    case, table = case_and_table
    short, long = (
        over_selected(case, table),
        over_selected(case, table, updates=2 * case["updates"]),
    )
    assume(short is not None and long is not None)
    first = beginning(long, short)
    assert_same(short, first, "client version start report examples time duration ready updates")
    assert np.array_equal(short.step, np.minimum(first.step, short.steps))
    open_still = short.fate == Fate.IN_FLIGHT
    assert np.array_equal(short.fate[~open_still], first.fate[~open_still])
    assert not np.any(first.fate[open_still] == Fate.ON_TIME)
    if case["late_rounds"] is None:
        assert not open_still.any()


@settings(max_examples=150, deadline=None)
@given(buffer_cases())
def test_a_buffered_plan_is_the_beginning_of_a_longer_one(case_and_table):
    case, table = case_and_table
    short, long = buffered(case, table), buffered(case, table, updates=2 * case["updates"])
    assume(short is not None and long is not None)
    first = beginning(long, short)
    assert_same(short, first, "client version start report examples time duration ready updates")
    assert np.array_equal(short.step, np.minimum(first.step, short.steps))
    assert np.array_equal(short.fate == Fate.ON_TIME, first.step < short.steps)
    # Only who starts at the very end, or after it, is missing.
    assert np.all(long.start[len(short.start) :] >= short.time[-1])


UNTIMED = "client version examples fate step updates"
TIMED = "start report time duration ready"


def assert_scaled(plan, scaled, by):
    assert (plan is None) == (scaled is None)
    if plan is not None:
        assert_same(plan, scaled, UNTIMED)
        times = {name: by * getattr(plan, name) for name in TIMED.split()}
        assert_same(plan._replace(**times), scaled, TIMED)


@settings(max_examples=120, deadline=None)
@given(rounds_cases(), st.integers(1, 60))
def test_slower_clocks_change_nothing_but_the_times_of_rounds(case_and_table, k):
    case, table = case_and_table
    wait = case["late_seconds"]
    scaled = over_selected(
        case, 2.0**k * np.array(table), late_seconds=None if wait is None else 2.0**k * wait
    )
    assert_scaled(over_selected(case, table), scaled, 2.0**k)


@settings(max_examples=120, deadline=None)
@given(buffer_cases(), st.integers(1, 60))
def test_slower_clocks_change_nothing_but_the_times_of_a_buffered_run(case_and_table, k):
    case, table = case_and_table
    assert_scaled(buffered(case, table), buffered(case, 2.0**k * np.array(table)), 2.0**k)


def relabelled(make, who, monkeypatch):
    """A plan, and the same plan when every client goes by another number."""
    number = np.random.default_rng(0).permutation(who.clients).astype(np.int32)
    theirs = who._replace(
        examples=who.examples[np.argsort(number)], group=who.group[np.argsort(number)]
    )
    plan = make(latency.latency(who, latency.PER_DOMAIN, seed=0))
    drawn = draws.cohorts
    with monkeypatch.context() as patch:
        patch.setattr(draws, "cohorts", lambda *address: number[drawn(*address)])
        return plan, make(latency.latency(theirs, latency.PER_DOMAIN, seed=0)), number


@pytest.mark.parametrize("late", [{}, {"late_seconds": 300.0}, {"late_rounds": 5}])
def test_a_clients_number_means_nothing_in_rounds(monkeypatch, late):
    def make(seconds):
        return schedule.over_selected(
            3400, seconds, seed=0, goal=20, cohort=26, updates=2000, **late
        )

    plan, renamed, number = relabelled(make, population.emnist(), monkeypatch)
    assert np.array_equal(number[plan.client], renamed.client)
    assert_same(plan, renamed, f"{UNTIMED.removeprefix('client')} {TIMED}")


@pytest.mark.parametrize("refill", ["at_update", "at_once"])
def test_a_clients_number_means_nothing_in_a_buffered_run(monkeypatch, refill):
    def make(seconds):
        return schedule.buffered(
            3400, seconds, seed=0, buffer=10, concurrency=50, updates=2000, refill=refill
        )

    plan, renamed, number = relabelled(make, population.emnist(), monkeypatch)
    assert np.array_equal(number[plan.client], renamed.client)
    assert_same(plan, renamed, f"{UNTIMED.removeprefix('client')} {TIMED}")


@settings(max_examples=120, deadline=None)
@given(rounds_cases(), st.integers(1, 5), st.integers(1, 5), st.floats(0, 20), st.floats(0, 20))
def test_whoever_waits_longer_uses_every_report_that_the_hasty_one_uses(
    case_and_table, rounds, more_rounds, seconds, more_seconds
):
    case, table = case_and_table
    case["count"] = "on_time"  # otherwise late reports shorten the plan
    for hasty, patient in [
        (waits_for(case, late_rounds=rounds), waits_for(case, late_rounds=rounds + more_rounds)),
        (waits_for(case, seconds), waits_for(case, seconds + more_seconds)),
        (waits_for(case), waits_for(case, seconds)),
    ]:
        less, more = over_selected(hasty, table), over_selected(patient, table)
        if less is None or more is None:
            assert less is more  # waiting for late reports neither closes nor blocks a round
            return
        assert np.all(more.fate[less.fate == Fate.LATE] == Fate.LATE)
        assert np.array_equal(less.fate == Fate.ON_TIME, more.fate == Fate.ON_TIME)
        assert_same(less, more, "client version start report time duration")
        assert np.all(less.ready <= more.ready)


@settings(max_examples=120, deadline=None)
@given(rounds_cases())
def test_a_step_is_ready_when_its_last_awaited_report_is_in(case_and_table):
    case, table = case_and_table
    plan = over_selected(case, table)
    assume(plan is not None)
    assert np.all(plan.ready[1:] >= plan.ready[:-1]) and np.all(plan.ready >= plan.time)
    assert plan.end == plan.ready[-1]
    wait = case["late_seconds"]
    if wait is None:
        assert np.array_equal(plan.ready, plan.time)
        return
    used = (plan.fate == Fate.ON_TIME) | (plan.fate == Fate.LATE)
    awaited = np.where(used, plan.report, plan.start + wait).reshape(plan.steps, -1).max(axis=1)
    expected = [max(plan.time[step], *awaited[: step + 1]) for step in range(plan.steps)]
    assert plan.ready.tolist() == expected


def test_whoever_waits_without_end_uses_every_report_that_ever_comes():
    options = dict(seed=0, goal=1, cohort=3, updates=4, late_seconds=np.inf, count="all_returned")
    table = [1, 100, 7, 1, 3, 2]  # the second round is complete long before the first
    plan = schedule.over_selected(3, table_latency(table), **{**options, "updates": 6})
    assert [NAMES[fate] for fate in plan.fate] == ["on_time", "late", "late"] * 2
    assert plan.time.tolist() == [1, 2] and plan.ready.tolist() == [100, 100]
    with pytest.raises(BadInput, match="never ends"):  # a report that never comes
        schedule.over_selected(3, table_latency([1, np.inf, 7]), **options)


@pytest.mark.parametrize("refill", ["at_update", "at_once"])
def test_one_slot_and_a_buffer_of_one_are_sequential(refill):
    table = [3.0, 0.0, 0.0, 1.5, 8.0]
    plan = schedule.buffered(
        5, table_latency(table), seed=0, buffer=1, concurrency=1, updates=12, refill=refill
    )
    assert plan.time.tolist() == plan.report.tolist() == np.cumsum(np.resize(table, 12)).tolist()
    assert plan.start.tolist() == [0, *plan.report[:-1]]
    assert plan.version.tolist() == plan.step.tolist() == list(range(12))


@pytest.mark.parametrize("refill", ["at_update", "at_once"])
@pytest.mark.parametrize("seconds", [0.0, 0.1, 3.0])
def test_equal_latencies_and_a_buffer_for_all_leave_nothing_stale(refill, seconds):
    plan = schedule.buffered(
        9, table_latency([seconds]), seed=0, buffer=4, concurrency=4, updates=40, refill=refill
    )
    assert np.array_equal(plan.step, plan.version) and np.all(plan.fate == Fate.ON_TIME)


@settings(max_examples=100, deadline=None)
@given(buffer_cases())
def test_a_buffer_for_all_that_is_refilled_at_its_update_is_never_stale(case_and_table):
    case, table = case_and_table
    plan = buffered(case, table, concurrency=case["buffer"], refill="at_update")
    assume(plan is not None)
    assert np.array_equal(plan.step, plan.version)


@settings(max_examples=150, deadline=None)
@given(buffer_cases())
def test_every_report_is_replaced_and_no_more_are_under_way_than_allowed(case_and_table):
    case, table = case_and_table
    plan = buffered(case, table)
    assume(plan is not None)
    assert plan.report.tolist() == (plan.start + delays(plan, table)).tolist()
    assert np.all(np.diff(plan.start) >= 0) and np.all(np.diff(plan.time, prepend=0) >= 0)
    group = case["buffer"] if case["refill"] == "at_update" else 1
    for now in {*plan.start.tolist(), *plan.report.tolist()}:
        started, reported = np.sum(plan.start <= now), np.sum(plan.report <= now)
        assert started - reported <= case["concurrency"]
        if now < plan.time[-1]:
            assert started == case["concurrency"] + reported // group * group


ROUNDS = dict(clients=9, goal=2, cohort=4, updates=10)
BUFFER = dict(clients=9, buffer=2, concurrency=4, updates=10)


@pytest.mark.parametrize(
    "changes, complaint",
    [
        (dict(goal=5), "goal=5 .* cohort=4"),
        (dict(cohort=10), "cohort=10 .* population of 9"),
        (dict(updates=1), "updates=1 .* goal=2"),
        (dict(goal=0), "goal=0"),
        (dict(goal=-1), "goal=-1"),
        (dict(cohort=0), "cohort=0"),
        (dict(updates=0), "updates=0"),
        (dict(updates=-5), "updates=-5"),
        (dict(late_seconds=-1.0), "late_seconds=-1.0"),
        (dict(late_seconds=np.nan), "late_seconds=nan"),
        (dict(late_rounds=0), "late_rounds=0"),
        (dict(late_rounds=-3), "late_rounds=-3"),
        (dict(late_seconds=1.0, late_rounds=1), "late_seconds=1.0 and late_rounds=1"),
        (dict(late_seconds=9.0, count="all_returned", updates=3), "updates=3 .* the 4 that"),
        (dict(round_timeout=0.0), "round_timeout=0.0"),
        (dict(round_timeout=np.inf), "round_timeout=inf"),
        (dict(round_timeout=9.0, minimum=0), "minimum=0"),
        (dict(round_timeout=9.0, minimum=3), "minimum=3 .* goal=2"),
        (dict(minimum=2), "minimum=2 .* `round_timeout`"),
        (dict(round_timeout=0.5), "all 5 rounds are abandoned"),
    ],
)
def test_impossible_rounds_are_one_line(changes, complaint):
    with pytest.raises(BadInput, match=complaint) as error:
        schedule.over_selected(latency=table_latency([1.0]), seed=0, **{**ROUNDS, **changes})
    assert "\n" not in str(error.value)


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
    ],
)
@pytest.mark.parametrize("refill", ["at_update", "at_once"])
def test_impossible_buffers_are_one_line(changes, complaint, refill):
    with pytest.raises(BadInput, match=complaint) as error:
        schedule.buffered(
            latency=table_latency([1.0]), seed=0, refill=refill, **{**BUFFER, **changes}
        )
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("late", [{}, {"late_seconds": np.inf}, {"late_rounds": 2}])
def test_rounds_of_clients_that_never_report_are_an_error_and_not_a_hang(late):
    with pytest.raises(BadInput, match="round 0 never closes"):
        schedule.over_selected(latency=table_latency([np.inf]), seed=0, **{**ROUNDS, **late})


@pytest.mark.parametrize("refill", ["at_update", "at_once"])
def test_a_buffer_of_clients_that_never_report_is_an_error_and_not_a_hang(refill):
    with pytest.raises(BadInput, match="server step 0 never comes"):
        schedule.buffered(latency=table_latency([np.inf]), seed=0, refill=refill, **BUFFER)


def test_latencies_drawn_in_parts_are_the_latencies_drawn_at_once(monkeypatch):
    who = population.emnist()
    seconds = latency.latency(who, latency.PER_DOMAIN, seed=0)

    def plans():
        return [
            schedule.over_selected(3400, seconds, seed=0, goal=20, cohort=26, updates=2000),
            *(
                schedule.buffered(
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
    plan = schedule.over_selected(
        3, table_latency([1.0, 2.0, 4.0]), seed=0, goal=2, cohort=3, updates=10, late_seconds=9.0
    )
    assert plan.time.tolist() == [2, 4, 6, 8, 10] and plan.ready.tolist() == [4, 6, 8, 10, 12]
    assert plan.steps_at(updates=[1, 2, 3, 10, 99]) == [1, 2, 5]
    assert plan.steps_at(times=[3.9, 4.0, 9.0, 50.0]) == [0, 1, 3, 5]
    assert plan.steps_at(updates=[4], times=[9.0]) == [2, 3]


def test_a_round_that_never_closes_is_told_unless_the_budget_is_met_before():
    """Two clients a round; from the fourth round on nobody reports."""
    stuck = table_latency([1.0] * 6 + [np.inf] * 100)
    for updates in (8, 10, 40):
        with pytest.raises(BadInput, match="round 3 never closes"):
            schedule.over_selected(9, stuck, seed=0, goal=2, cohort=2, updates=updates)
    # Late reports count, too: three rounds of two are the budget, and nobody waits for a fourth.
    late = dict(seed=0, goal=1, cohort=2, late_seconds=5.0, count="all_returned")
    plan = schedule.over_selected(9, stuck, **late, updates=6)
    assert plan.steps == 3 and plan.updates.tolist() == [2, 4, 6]
    with pytest.raises(BadInput, match="round 3 never closes"):
        schedule.over_selected(9, stuck, **late, updates=7)
