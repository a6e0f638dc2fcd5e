import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning import paper_populations
from stragglers.planning.faults import Fault
from stragglers.planning.latency import Draw
from stragglers.planning.schedule import Fate
from tests.support import events
from tests.support.plans import over_selected
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
    counts_at,
    delays,
    is_lost,
    relabelled,
    rounds_cases,
    table_faults,
    table_latency,
)

ONE_OF_TWO = dict(
    clients=2,
    cohort=2,
    goal=1,
    updates=2,
    seed=0,
    late_seconds=None,
    late_rounds=None,
    count="on_time",
)
ROUNDS = dict(clients=9, goal=2, cohort=4, updates=10)


def witness(case, table, rounds, codes=(Fault.NONE,)):
    row = random_streams.cohorts(
        case["seed"], random_streams.Purpose.CLIENTS, case["clients"], case["cohort"], 0, rounds
    )
    return events.over_selected(
        lambda t: row[t].tolist(),
        lambda d, client: np.inf if is_lost(codes[d % len(codes)]) else table[d % len(table)],
        goal=case["goal"],
        cohort=case["cohort"],
        rounds=rounds,
        late_seconds=case["late_seconds"],
        late_rounds=case["late_rounds"],
        round_timeout=case.get("round_timeout"),
        minimum=case.get("minimum"),
        twice=lambda d: codes[d % len(codes)] == Fault.DUPLICATE,
    )


def plan_of(case, table, **changes):
    """The plan, or None where there is none."""
    try:
        return over_selected(latency=table_latency(table), **{**case, **changes})
    except BadInput:
        return None


def waits_for(case, late_seconds=None, late_rounds=None):
    return {**case, "late_seconds": late_seconds, "late_rounds": late_rounds}


@settings(max_examples=600, deadline=None)
@given(rounds_cases())
@example((ONE_OF_TWO, [0.5, 0.5, 1e-20, 0.0]))  # two delays, one time of arrival
@example((ONE_OF_TWO | {"late_seconds": 0.3}, [1e6, 1e6, 0.2, 0.1 + 0.2]))  # one end of waiting
def test_rounds_agree_with_the_event_by_event_witness(case_and_table):
    case, table = case_and_table
    try:
        plan = over_selected(latency=table_latency(table), **case)
    except BadInput as error:
        if "never closes" in str(error):
            assert witness(case, table, case["updates"] // case["goal"]).stuck
        elif "never ends" in str(error):
            assert case["late_seconds"] == np.inf in table
        else:  # the first round alone returns more than the budget
            assert "less than the" in str(error) and case["count"] == "all_returned"
        return
    log = witness(case, table, plan.steps)
    assert not log.stuck
    assert_agrees(plan, log)

    returned = sum(job.fate in ("on_time", "late") for job in log.jobs)
    if case["count"] == "on_time" or case["late_seconds"] is not None:
        counted = returned if case["count"] == "all_returned" else plan.steps * case["goal"]
        assert plan.updates[-1] == counted <= case["updates"]
    # Not one round more would have fitted.
    if plan.steps < case["updates"] // case["goal"] and case["late_rounds"] is None:
        longer = witness(case, table, plan.steps + 1)
        more = sum(job.fate in ("on_time", "late") for job in longer.jobs)
        assert longer.stuck or more > case["updates"]


@settings(max_examples=400, deadline=None)
@given(rounds_cases(), FAULTS, TIMEOUTS, st.data())
def test_rounds_that_are_given_up_agree_with_the_witness(case_and_table, codes, timeout, data):
    case, table = case_and_table
    case["minimum"] = data.draw(st.one_of(st.none(), st.integers(1, case["goal"])))
    case["round_timeout"] = timeout

    try:
        plan = over_selected(latency=table_latency(table), faults=table_faults(codes), **case)
    except BadInput as error:
        rounds = case["updates"] // case["goal"]
        if "are abandoned" in str(error):
            assert witness(case, table, rounds, codes).abandoned == {*range(rounds)}
        elif "never ends" in str(error):
            assert case["late_seconds"] == np.inf
            assert np.inf in table or any(map(is_lost, codes))
        else:
            assert "less than the" in str(error) and case["count"] == "all_returned"
        return
    if case["count"] == "on_time":
        assert plan.steps == case["updates"] // case["goal"]  # the declared bound
        assert plan.updates[-1] == np.sum(plan.fate == Fate.ON_TIME)
    log = witness(case, table, plan.steps, codes)
    assert_gives_up(plan, log, case, codes, table, timeout)


def test_a_round_is_given_up_by_hand():
    """2 of 3 within 5 s, or else at least 2: reached, abandoned with one report, reached."""
    table = [1, 2, 9, 1, 9, 9, 3, 3, 3]
    options = dict(seed=0, goal=2, cohort=3, updates=6, round_timeout=5.0)
    strict = over_selected(3, table_latency(table), minimum=2, **options)
    assert strict.time.tolist() == [2, 7, 10] and strict.updates.tolist() == [2, 2, 4]
    assert [NAMES[fate] for fate in strict.fate] == [
        "on_time",
        "on_time",
        "unused",
        "unused",
        "unused",
        "unused",
        "on_time",
        "on_time",
        "unused",
    ]
    lenient = over_selected(3, table_latency(table), **options)
    assert lenient.updates.tolist() == [2, 3, 5] and NAMES[lenient.fate[3]] == "on_time"
    assert_same(strict, lenient, "client version start report time duration")


@settings(max_examples=150, deadline=None)
@given(rounds_cases())
def test_every_client_of_a_round_is_somewhere_exactly_once(case_and_table):
    case, table = case_and_table
    plan = plan_of(case, table)
    assume(plan is not None)
    log = witness(case, table, plan.steps)
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
@given(rounds_cases())
def test_a_round_lasts_as_long_as_its_goal_th_report_and_no_longer(case_and_table):
    case, table = case_and_table
    plan = plan_of(case, table)
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

        plan = over_selected(30, nested, seed=0, goal=5, cohort=cohort, updates=250)
        durations.append(plan.duration)
    assert np.all(np.diff(durations, axis=0) <= 0) and plan.steps == 50


@settings(max_examples=150, deadline=None)
@given(rounds_cases())
def test_a_plan_of_rounds_is_the_beginning_of_a_longer_one(case_and_table):
    case, table = case_and_table
    short, long = (
        plan_of(case, table),
        plan_of(case, table, updates=2 * case["updates"]),
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


@settings(max_examples=120, deadline=None)
@given(rounds_cases(), st.integers(1, 60))
def test_slower_clocks_change_nothing_but_the_times_of_rounds(case_and_table, k):
    case, table = case_and_table
    wait = case["late_seconds"]
    scaled = plan_of(
        case, 2.0**k * np.array(table), late_seconds=None if wait is None else 2.0**k * wait
    )
    assert_scaled(plan_of(case, table), scaled, 2.0**k)


@pytest.mark.parametrize("late", [{}, {"late_seconds": 300.0}, {"late_rounds": 5}])
def test_a_clients_number_means_nothing_in_rounds(monkeypatch, late):
    def make(seconds):
        return over_selected(3400, seconds, seed=0, goal=20, cohort=26, updates=2000, **late)

    plan, renamed, number = relabelled(make, paper_populations.emnist(), monkeypatch)
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
        less, more = plan_of(hasty, table), plan_of(patient, table)
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
    plan = plan_of(case, table)
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
    plan = over_selected(3, table_latency(table), **{**options, "updates": 6})
    assert [NAMES[fate] for fate in plan.fate] == ["on_time", "late", "late"] * 2
    assert plan.time.tolist() == [1, 2] and plan.ready.tolist() == [100, 100]
    with pytest.raises(BadInput, match="never ends"):  # a report that never comes
        over_selected(3, table_latency([1, np.inf, 7]), **options)


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
        (dict(check_in=np.r_[np.zeros(6), 1, 1, 1]), "cohort=4 .* the 3 of 9 that ever check in"),
        (dict(check_in=np.ones(8)), "check_in: expected .* each of 9 clients"),
        (dict(check_in=-np.ones(9)), "check_in: expected a finite number >= 0"),
        (dict(check_in=np.full(9, np.nan)), "check_in: expected a finite number >= 0"),
    ],
)
def test_impossible_rounds_are_one_line(changes, complaint):
    with pytest.raises(BadInput, match=complaint) as error:
        over_selected(latency=table_latency([1.0]), seed=0, **{**ROUNDS, **changes})
    assert "\n" not in str(error.value)


def test_who_checks_in_less_often_takes_part_less_often():
    weights = np.r_[np.full(50, 0.25), np.ones(50), np.zeros(20)]
    plan = over_selected(
        120, table_latency([1.0]), seed=0, goal=2, cohort=2, updates=40_000, check_in=weights
    )
    rare, usual, never = np.split(np.bincount(plan.client, minlength=120), [50, 100])
    assert not never.any() and usual.sum() / rare.sum() == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize("late", [{}, {"late_seconds": np.inf}, {"late_rounds": 2}])
def test_rounds_of_clients_that_never_report_are_an_error_and_not_a_hang(late):
    with pytest.raises(BadInput, match="round 0 never closes"):
        over_selected(latency=table_latency([np.inf]), seed=0, **{**ROUNDS, **late})


def test_a_round_that_never_closes_is_told_unless_the_budget_is_met_before():
    """Two clients a round; from the fourth round on nobody reports."""
    stuck = table_latency([1.0] * 6 + [np.inf] * 100)
    for updates in (8, 10, 40):
        with pytest.raises(BadInput, match="round 3 never closes"):
            over_selected(9, stuck, seed=0, goal=2, cohort=2, updates=updates)
    # Late reports count, too: three rounds of two are the budget, and nobody waits for a fourth.
    late = dict(seed=0, goal=1, cohort=2, late_seconds=5.0, count="all_returned")
    plan = over_selected(9, stuck, **late, updates=6)
    assert plan.steps == 3 and plan.updates.tolist() == [2, 4, 6]
    with pytest.raises(BadInput, match="round 3 never closes"):
        over_selected(9, stuck, **late, updates=7)
