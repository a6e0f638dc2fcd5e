"""Whoever works is not asked again: rounds and buffers, looked at client by client."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stragglers._core.errors import BadInput
from stragglers.planning import client_pool, latency, paper_populations
from stragglers.planning.availability import intervals
from stragglers.planning.faults import Fault
from stragglers.planning.latency import Draw
from stragglers.planning.schedule import Fate
from stragglers.planning.summary import waited
from tests.support import events, plans
from tests.support.plans import buffered, over_selected
from tests.support.timetables import (
    CYCLE,
    FAULTS,
    NAMES,
    TIMEOUTS,
    assert_same,
    beginning,
    buffer_cases,
    is_lost,
    rounds_cases,
    seconds_of,
    table_faults,
    table_latency,
    walked,
)

HOURS = st.lists(  # first second and length, of up to two intervals of each client
    st.lists(st.tuples(st.integers(0, CYCLE - 1), st.integers(1, CYCLE)), max_size=2),
    min_size=9,
    max_size=9,
)
LEAVING = st.sampled_from(["lose", "pause", "finish"])
BUSY = st.sampled_from(["again", "skip"])
REFUSED = (
    "never opens",
    "never closes",
    "never ends",
    "are abandoned",
    "less than the",
    "never online together",
    "never comes",
    "are ever online",
)


def there_of(hours, clients, leaving):
    """Intervals of each client; or all are always there."""
    if hours is None:
        return None
    each = [(client, *one) for client, some in enumerate(hours[:clients]) for one in some]
    owner, begin, length = np.array(each, float).reshape(-1, 3).T
    return intervals(
        owner.astype(int),
        begin / 3600,
        length / 3600,
        clients=clients,
        cycle=CYCLE / 3600,
        leaving=leaving,
    )


def pool_of(case, table, codes, busy="skip", there=None):
    faults = table_faults(codes)
    return plans.pool(
        case["clients"], table_latency(table), case["seed"], busy, faults=faults, online=there
    )


class Asked:
    """A plan, looked at dispatch by dispatch: who was idle when, and what leaving did."""

    def __init__(self, plan, clients, table, codes, busy, hours, leaving):
        self.plan, self.clients, self.busy = plan, clients, busy
        each = [(c, *one) for c, some in enumerate(hours or []) for one in some]
        self.hours = hours and [seconds_of(each, client) for client in range(clients)]
        self.table, self.codes, self.leaving = table, codes, leaving

    def until(self, before):
        """When each client is done, as far as dispatches up to a number tell."""
        until = np.zeros(self.clients)
        if self.busy == "skip":
            np.maximum.at(until, self.plan.client[:before], self.plan.stop[:before])
        return until

    def is_there(self, client, time):
        if self.hours is None:
            return True
        return int(time % CYCLE) in self.hours[client]

    def idle(self, before, time):
        until = self.until(before)
        return [c for c in range(self.clients) if until[c] <= time and self.is_there(c, time)]

    def earliest(self, before, size, now):
        """The first moment when so many are idle, by trying all at which one comes or is done."""
        until = self.until(before)
        last = max(now, *(end for end in until if end < np.inf)) + 2 * CYCLE
        seconds = np.arange(np.floor(now), last) if self.hours else []
        moments = {now, *seconds, *until}
        tried = (moment for moment in sorted(moments) if moment >= now)
        return next(moment for moment in tried if len(self.idle(before, moment)) >= size)

    def check(self, number):
        """That a client was idle when it started, and that its report comes when it should."""
        plan = self.plan
        client, start = plan.client[number], plan.start[number]
        assert client in self.idle(number - self.place(number), start)
        code = self.codes[number % len(self.codes)]
        seconds = self.table[number % len(self.table)]
        works = {Fault.DROP_OUT: 0.0, Fault.CRASH: 0.5}.get(code, 1.0)
        works = works * seconds if works else 0.0
        report, stops = np.inf if is_lost(code) else seconds, works
        if self.hours is not None and self.leaving != "finish":
            stay = walked(self.hours[client], start, 1.0)[0] - start
            if self.leaving == "lose" and works > stay:
                assert plan.fate[number] == Fate.LOST
                report, works, stops, code = np.inf, stay, stay, Fault.LEFT
            elif self.leaving == "pause":
                report, stops = (self.paused(client, start, t) for t in (report, works))
        assert plan.fault[number] == code
        np.testing.assert_allclose(plan.report[number] - start, report, atol=1e-6)
        np.testing.assert_allclose(plan.stop[number] - start, stops, atol=1e-6)
        np.testing.assert_allclose(plan.works[number], works, atol=1e-6)

    def paused(self, client, start, work):
        """Seconds until a client has worked so many."""
        if work in (0, np.inf):
            return work
        return walked(self.hours[client], start, work)[1] - start

    def place(self, number):
        """Among those that started together, which are drawn from the same idle ones."""
        together = np.flatnonzero(self.plan.start == self.plan.start[number])
        return int(number - together[0]) if self.busy == "again" else 0


@settings(max_examples=600, deadline=None)
@given(
    rounds_cases(),
    FAULTS,
    st.one_of(st.none(), TIMEOUTS),
    BUSY,
    st.one_of(st.none(), HOURS),
    LEAVING,
)
def test_rounds_open_when_a_cohort_is_idle(case_and_table, codes, timeout, busy, hours, leaving):
    case, table = case_and_table
    case["round_timeout"] = timeout
    clients, cohort, goal = case["clients"], case["cohort"], case["goal"]
    there = there_of(hours, clients, leaving)
    assume(busy == "skip" or there is not None)
    try:
        plan = over_selected(
            latency=table_latency(table), faults=table_faults(codes), busy=busy, there=there, **case
        )
    except BadInput as error:
        assert any(words in str(error) for words in REFUSED)
        return
    asked = Asked(plan, clients, table, codes, busy, hours, leaving)
    opens = plan.start[::cohort]
    pool = pool_of(case, table, codes, busy, there)
    for t in range(plan.steps):
        rows = slice(t * cohort, (t + 1) * cohort)
        assert opens[t] == asked.earliest(t * cohort, cohort, plan.time[t - 1] if t else 0.0)
        assert len({*plan.client[rows]}) == cohort
        pool.until[:], pool.groups = asked.until(t * cohort), t
        assert plan.client[rows].tolist() == pool.draw(cohort, opens[t])[1].tolist()
    for number in range(len(plan.client)):
        asked.check(number)
    delay = plan.report - plan.start
    if not np.array_equal(plan.start + delay, plan.report):
        return  # the witness would round otherwise
    log = events.over_selected(
        lambda t: plan.client[t * cohort : (t + 1) * cohort].tolist(),
        lambda d, c: delay[d],
        goal=goal,
        cohort=cohort,
        rounds=plan.steps,
        late_seconds=case["late_seconds"],
        late_rounds=case["late_rounds"],
        round_timeout=timeout,
        starts=lambda t, now: opens[t],
    )
    assert plan.time.tolist() == log.times
    assert plan.version.tolist() == [job.version for job in log.jobs]
    fates = [NAMES[fate] for fate in plan.fate]
    for number, job in enumerate(log.jobs):
        if fates[number] != "lost":
            assert job.fate == fates[number]
            assert plan.step[number] == (plan.steps if job.step is None else job.step)


@settings(max_examples=600, deadline=None)
@given(
    buffer_cases(),
    FAULTS,
    st.one_of(st.none(), TIMEOUTS),
    BUSY,
    st.one_of(st.none(), HOURS),
    LEAVING,
)
def test_buffers_agree_with_the_witness_of_the_same_clients(
    case_and_table, codes, timeout, busy, hours, leaving
):
    case, table = case_and_table
    case["client_timeout"] = timeout
    there = there_of(hours, case["clients"], leaving)
    assume(busy == "skip" or there is not None)
    try:
        plan = buffered(
            latency=table_latency(table), faults=table_faults(codes), busy=busy, there=there, **case
        )
    except BadInput as error:
        assert any(words in str(error) for words in REFUSED)
        return
    asked = Asked(plan, case["clients"], table, codes, busy, hours, leaving)
    group = case["buffer"] if case["refill"] == "at_update" else 1
    first = case["concurrency"]
    for number in range(len(plan.client)):
        if busy == "again" or number < first or (number - first) % group == 0:
            asked.check(number)
    delay = plan.report - plan.start
    if not np.array_equal(plan.start + delay, plan.report):
        return
    begins = [*range(first, len(plan.client), group)]

    def starts(g, now):
        if g == 0:
            return asked.earliest(0, first, 0.0) if hours is not None else 0.0
        if g > len(begins):
            return np.inf
        moment = plan.start[begins[g - 1]]
        assert moment == asked.earliest(begins[g - 1], group, max(now, moment_before(g)))
        return moment

    def moment_before(g):
        return plan.start[begins[g - 2]] if g > 1 else plan.start[0]

    log = events.buffered(
        plan.client[:first].tolist(),
        lambda g: plan.client[begins[g] : begins[g] + group].tolist() if g < len(begins) else [],
        lambda d, client: delay[d],
        buffer=case["buffer"],
        steps=plan.steps,
        group=group,
        client_timeout=np.inf if timeout is None else timeout,
        starts=starts,
    )
    assert plan.time.tolist() == log.times
    assert plan.version.tolist() == [job.version for job in log.jobs]
    for number, job in enumerate(log.jobs):
        if plan.fate[number] != Fate.LOST:
            assert NAMES[plan.fate[number]] == job.fate
            assert plan.step[number] == (plan.steps if job.step is None else job.step)


def test_a_round_waits_by_hand():
    """Four of five start; one of them works for 10 s, so that the second round has its cohort."""
    table = [1.0, 2.0, 3.0, 10.0, 1.0, 1.0, 1.0, 7.0, 1.0, 1.0, 1.0, 1.0]
    plan = over_selected(5, table_latency(table), seed=0, goal=3, cohort=4, updates=9, busy="skip")
    assert plan.start[::4].tolist() == [0, 3, 10]  # the third: the slow one of round 0, at 10
    assert plan.time.tolist() == [3, 4, 11]
    assert plan.duration.tolist() == [3, 1, 7]  # with the time of waiting
    asked_again = over_selected(5, table_latency(table), seed=0, goal=3, cohort=4, updates=9)
    assert asked_again.start[::4].tolist() == [0, 3, 4]


def test_a_group_waits_for_tomorrow_by_hand():
    """Two are there in the first three seconds of twelve, one of them works until 30."""
    pool = pool_of(
        dict(clients=2, seed=0),
        [1.0],
        [Fault.NONE],
        there=there_of([[(0, 3)], [(0, 3)]], 2, "finish"),
    )
    assert pool.when(2, 2.0) == 2 and pool.when(2, 5.0) == 12 and pool.when(3, 5.0) == np.inf
    assert pool.when(2, 17.0) == 24 and pool.when(3, 17.0) == np.inf
    pool.until[1] = 30.0
    assert pool.when(1, 5.0) == 12 and pool.when(2, 5.0) == 36
    pool.until[1] = 1e9
    assert pool.when(2, 5.0) == 12 * np.ceil(1e9 / 12) and pool.draw(2, 5.0)[0] > 1e9


def test_somebody_is_there_until_the_last_moment_of_a_night():
    """From 23 o'clock until a second after midnight: tenths of seconds round onto its end."""
    hours, length = np.full(3, 23.0), np.full(3, 1 + 1 / 3600)
    for leaving in ("lose", "pause", "finish"):
        there = intervals(np.arange(3), hours, length, clients=3, cycle=24.0, leaving=leaving)
        case = dict(seed=0, goal=2, cohort=2, updates=40, there=there, round_timeout=5.0)
        plan = over_selected(3, table_latency([0.1]), **case)
        opens = plan.start[::2]
        assert plan.steps == 20 and np.all((opens < 1) | (opens >= 23 * 3600))
        assert np.sum(opens < 1) == 11  # ten tenths are a bit less than a second


def test_a_round_that_the_budget_does_not_need_may_never_open():
    table, case = [1.0, 2.0, np.inf, 1.0], dict(seed=0, goal=1, cohort=2, late_seconds=10.0)
    plan = over_selected(
        2, table_latency(table), **case, updates=3, count="all_returned", busy="skip"
    )
    assert plan.steps == 2 and plan.updates.tolist() == [2, 3]
    with pytest.raises(BadInput, match="round 2 never opens: fewer than cohort=2 clients are ever"):
        over_selected(2, table_latency(table), **case, updates=4, count="all_returned", busy="skip")


def test_a_buffer_waits_from_when_clients_are_asked_for():
    """Two of four are there for three seconds of twelve, and steps are made of old reports."""
    there = there_of([[(0, 3)]] * 4, 4, "finish")
    plan = buffered(
        4, table_latency([1.0, 5.0, 7.0]), seed=0, buffer=1, concurrency=3, updates=6, there=there
    )
    waits = {(a, s) for a, s in zip(plan.asked, plan.start, strict=True) if s > a}
    assert waits and waited(plan) == sum(min(s, plan.end) - a for a, s in waits)
    assert all(s % CYCLE == 0 and a % CYCLE >= 3 for a, s in waits)


def test_few_of_many_are_found_one_by_one():
    """Of 100,000 one in fifty is there: a place is not a search through all of them."""
    who = np.arange(100_000)
    there = intervals(
        who,
        who * 24 / 100_000,
        np.full(100_000, 0.48),
        clients=100_000,
        cycle=24.0,
        leaving="finish",
    )
    pool = plans.pool(100_000, table_latency([1.0]), busy="again", online=there)
    counted = []
    pool.idle = lambda now: counted.append(now) or client_pool.Pool.idle(pool, now)
    for group in range(200):
        pool.groups = group
        assert pool.draw(1, 50_000.0 + group)[0] == 50_000.0 + group
    assert len(counted) <= 1


def test_what_comes_while_nobody_waits_any_more_by_hand():
    """Late by half a second, for which the next round waits: known to it, or to nobody."""
    case = dict(seed=0, goal=1, cohort=2, late_rounds=1, count="all_returned", busy="skip")
    one, two = (over_selected(2, table_latency([0.0, 0.5]), updates=n, **case) for n in (2, 3))
    assert (one.steps, two.steps) == (1, 2) and two.start.tolist() == [0, 0, 0.5, 0.5]
    assert one.fate.tolist() == [Fate.ON_TIME, Fate.UNUSED] and one.step.tolist() == [0, 1]
    assert two.fate.tolist() == [Fate.ON_TIME, Fate.LATE, Fate.ON_TIME, Fate.UNUSED]
    assert two.step.tolist() == [0, 0, 1, 2]


def test_all_that_are_idle_are_equally_likely():
    """Of 12 clients 4 are busy, 2 until this moment; weights say how often each comes first."""
    weight = np.array([1.0] * 6 + [2.0] * 6)
    never = plans.pool(12, lambda first, who: Draw(np.ones(len(who)), who), check_in=weight)
    never.until[[0, 1, 6, 7]] = np.inf
    never.until[[2, 8]] = 5.0
    first = np.zeros(12)
    for group in range(3000):
        never.groups = group
        first[never.draw(3, 5.0)[1][0]] += 1
    expected = 3000 * np.where(np.isinf(never.until), 0, weight) / 12
    assert np.all(first[[0, 1, 6, 7]] == 0)
    chi = np.sum((first - expected)[expected > 0] ** 2 / expected[expected > 0])
    assert chi < 24.3  # 7 degrees of freedom, one in a thousand


def test_the_last_idle_ones_are_found():
    """Where nearly all are busy, drawing anew would take for ever."""
    busy = plans.pool(100_000, lambda first, who: Draw(np.ones(len(who)), who))
    busy.until[:] = 9.0
    busy.until[[5, 50_000, 99_999]] = 1.0
    now, who = busy.draw(3, 1.0)
    assert now == 1.0 and {*who.tolist()} == {5, 50_000, 99_999}
    assert busy.draw(4, 1.0)[0] == 9.0
    assert busy.draw(100_001, 1.0)[0] == np.inf


@pytest.mark.parametrize(
    "make, budget",
    [
        (over_selected, dict(goal=10, cohort=13, late_rounds=5)),
        (buffered, dict(buffer=10, concurrency=40)),
        (buffered, dict(buffer=10, concurrency=40, refill="at_once")),
    ],
)
def test_a_longer_budget_begins_with_the_shorter(make, budget):
    who = paper_populations.cifar100()
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
    from stragglers.cli.main import main

    command = ["plan", "cifar100/per-domain/fedbuff", "--updates", "8000"]
    assert main([*command, "--set", "busy=skip"]) == 0
    assert "busy clients are not selected" in capsys.readouterr().out
    who = paper_populations.cifar100()
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
        over_selected(
            4,
            table_latency([1.0, np.inf, np.inf]),
            seed=0,
            goal=1,
            cohort=3,
            updates=9,
            busy="skip",
        )
