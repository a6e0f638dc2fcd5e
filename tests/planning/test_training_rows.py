import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from scipy import stats

from stragglers._core.errors import BadInput
from stragglers.config import build, catalog, documents, settings
from stragglers.planning import paper_populations
from stragglers.planning.latency import PER_DOMAIN, latency
from stragglers.planning.policy import Buffer
from stragglers.planning.schedule import Fate
from stragglers.planning.training_rows import rows_of
from tests.support.plans import buffered, over_selected
from tests.support.timetables import buffer_cases, rounds_cases, table_latency

SETTLES = ["never", "next_step", "at_arrival", "by_round", "replaced"]


@st.composite
def plans(draw):
    """Any schedule that can be made, with ties, zeros and infinities."""
    if draw(st.booleans()):
        make, (case, table) = over_selected, draw(rounds_cases())
    else:
        make, (case, table) = buffered, draw(buffer_cases())
    try:
        return make(latency=table_latency(table), **case)
    except BadInput:
        return make(latency=table_latency([1.0, 0.0, 2.5]), **{**case, "updates": 99})


def used(plan, settles, k):
    """Dispatches that an algorithm learns from, one by one."""
    for d in range(len(plan.client)):
        late = plan.fate[d] == Fate.LATE
        arrives = plan.step[d] < plan.steps and plan.step[d] - plan.version[d] < k
        learns = {
            "never": False,
            "replaced": False,
            "by_round": True,
            "at_arrival": arrives,
            "next_step": joins(plan, d) < plan.steps,
        }
        if plan.fate[d] == Fate.ON_TIME or late and learns[settles]:
            yield d


def replaced(plan):
    """By server step: the last reports that its own ones take the place of, one after another."""
    remembered, found = {}, [set() for _ in range(plan.steps)]
    dispatches = range(len(plan.client))
    for d in sorted(dispatches, key=lambda d: (plan.step[d], plan.report[d], d)):
        if plan.fate[d] == Fate.ON_TIME:
            if plan.client[d] in remembered:
                found[plan.step[d]].add(remembered[plan.client[d]])
            remembered[plan.client[d]] = d
    return found


def known(plan, d, settles):
    """The server step that knows a report first; a late one that joins is for the next at least."""
    late = plan.fate[d] == Fate.LATE
    return max(plan.step[d], plan.version[d] + (late and settles == "next_step"))


def joins(plan, d):
    """The step, among those that are not abandoned, whose sum a report is in."""
    step = known(plan, d, "next_step")
    while step < plan.steps and not np.any((plan.fate == Fate.ON_TIME) & (plan.step == step)):
        step += 1
    return step


@profile(max_examples=200)
@given(plans(), st.sampled_from(SETTLES), st.integers(1, 4))
def test_the_rows_are_the_clients_that_somebody_learns_from(plan, settles, k):
    rows = rows_of(plan, settles, seed=0, teachers=k)
    assert rows.dispatch.tolist() == list(used(plan, settles, k))
    for name in ("client", "version", "examples"):
        assert np.array_equal(getattr(rows, name), getattr(plan, name)[rows.dispatch])
    step = [known(plan, d, settles) for d in rows.dispatch]
    assert rows.step.tolist() == step
    assert np.array_equal(rows.staleness, step - rows.version)
    assert rows.before.tolist() == [
        sum(rows.client[j] == rows.client[i] and step[j] < step[i] for j in range(len(step)))
        for i in range(len(step))
    ]
    assert np.array_equal(np.repeat(np.arange(plan.steps), np.diff(rows.begin)), rows.version)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_report_older_than_the_history_is_left_out(k):
    table = np.random.default_rng(0).lognormal(0, 1.5, 200)
    plan = over_selected(
        9, table_latency(table), seed=0, goal=2, cohort=5, updates=80, late_rounds=4
    )
    rows = rows_of(plan, "at_arrival", seed=0, teachers=k)
    late = plan.fate == Fate.LATE
    age = (plan.step - plan.version)[late]
    assert set(age) == {1, 2, 3}
    assert np.sum(plan.fate[rows.dispatch] == Fate.LATE) == np.sum(age < k)
    assert rows.dispatch.tolist() == list(used(plan, "at_arrival", k))


def test_an_abandoned_step_takes_nobody_along():
    """What comes during it joins the one after, at the staleness that it came with."""
    plan = over_selected(
        9,
        table_latency([1.0, 2, 5, 1, 9, 9, 1, 1, 1]),
        seed=0,
        goal=2,
        cohort=3,
        updates=6,
        late_rounds=3,
        round_timeout=4.0,
        minimum=2,
    )
    assert plan.time.tolist() == [2, 6, 7] and plan.fate[2] == Fate.LATE and plan.step[2] == 1
    rows = rows_of(plan, "next_step", seed=0)
    assert rows.dispatch.tolist() == [0, 1, 2, 6, 7]
    assert rows.slot[2] == rows.slot[3] == rows.on_time_slot[2]
    assert rows.on_time_slot[1] == rows.slots
    assert rows.step[2] == rows.staleness[2] == 1


def test_a_report_beyond_the_goal_joins_the_next_step_not_the_one_of_its_moment():
    plan = over_selected(
        9, table_latency([1.0, 2, 2, 1, 2, 3]), seed=0, goal=2, cohort=3, updates=4, late_rounds=3
    )
    assert plan.fate[2] == Fate.LATE and plan.step[2] == plan.version[2] == 0
    rows = rows_of(plan, "next_step", seed=0)
    assert rows.dispatch.tolist() == [0, 1, 2, 3, 4]
    assert rows.slot[2] == rows.on_time_slot[1] and rows.step[2] == rows.staleness[2] == 1


@profile(max_examples=200)
@given(plans(), st.sampled_from(SETTLES), st.integers(1, 4))
def test_walking_the_rows_empties_every_bucket_into_its_own_step(plan, settles, k):
    """The simulator's walk with sets of clients for sums: nobody is mixed, lost or used twice."""
    rows = rows_of(plan, settles, seed=0, teachers=k)
    buckets = [set() for _ in range(rows.slots + 1)]
    for v in range(plan.steps):
        for i in range(rows.begin[v], rows.begin[v + 1]):
            assert rows.slot[i] < rows.slots
            buckets[rows.slot[i]].add(int(rows.dispatch[i]))
            if rows.again[i] >= 0:
                buckets[rows.again[i]].add(int(rows.dispatch[i]))
        on_time, buckets[rows.on_time_slot[v]] = buckets[rows.on_time_slot[v]], set()
        expected = set(np.flatnonzero((plan.fate == Fate.ON_TIME) & (plan.step == v)))
        if settles == "next_step":
            late = (d for d in used(plan, settles, k) if plan.fate[d] == Fate.LATE)
            expected |= {d for d in late if joins(plan, d) == v}
        assert on_time == expected
        settled = {}
        for b in range(rows.late_begin[v], rows.late_begin[v + 1]):
            assert rows.late_round[b] not in settled
            settled[int(rows.late_round[b])] = buckets[rows.late_slot[b]]
            buckets[rows.late_slot[b]] = set()
        late = [d for d in used(plan, settles, k) if plan.fate[d] == Fate.LATE]
        if settles == "by_round":
            assert settled == {v: {d for d in late if plan.version[d] == v}}
        elif settles == "replaced":
            assert settled == {v: replaced(plan)[v]}
        elif settles == "next_step":
            assert not settled
        else:
            due = [d for d in late if plan.step[d] == v]
            rounds = {int(plan.version[d]) for d in due}
            assert settled == {r: {d for d in due if plan.version[d] == r} for r in rounds}
    assert not any(buckets)


@profile(max_examples=100)
@given(plans(), st.sampled_from(SETTLES))
def test_there_are_no_more_slots_than_buckets_open_at_once(plan, settles):
    rows = rows_of(plan, settles, seed=0, teachers=3)
    late = plan.fate[rows.dispatch] == Fate.LATE
    closes = rows.version + np.where(late & (settles == "by_round"), 0, rows.staleness)
    if settles == "next_step":
        closes = np.array([joins(plan, d) for d in rows.dispatch])
    kind = np.where(late & (settles != "next_step"), rows.version + 1, 0)
    opens = {}  # by bucket: the step that empties it, and what it holds
    for bucket, version in zip(zip(closes, kind), rows.version):
        opens[bucket] = min(version, opens.get(bucket, version))
    if settles == "replaced":
        for step, members in enumerate(replaced(plan)):
            for d in members:
                opens[step, -1] = min(plan.version[d], opens.get((step, -1), plan.steps))
    spans = [(start, bucket[0]) for bucket, start in opens.items()]
    most = max(sum(a <= v <= b for a, b in spans) for v in range(plan.steps))
    assert rows.slots == most


def test_over_selected_fedavg_trains_exactly_the_goal():
    who = paper_populations.emnist()
    plan = over_selected(
        3400, latency(who, PER_DOMAIN, seed=0), seed=0, goal=20, cohort=26, updates=2000
    )
    rows = rows_of(plan, "never", seed=0)
    assert np.all(np.diff(rows.begin) == 20) and rows.slots == 1
    assert len(plan.client) == 2600 and np.all(rows.staleness == 0)


HOW = {settings.FareDust: "at_arrival", settings.Feast: "by_round"}
# Of FedAvg, FeAST, FARe-DUST and FedBuff: on EMNIST as the paper sets it.
MOST_SLOTS = {"never": 1, "by_round": 2, "at_arrival": 12, "buffered": 24}


@pytest.mark.parametrize("name", [name for name in catalog.presets() if name.startswith("emnist/")])
def test_few_buckets_are_open_at_once_with_the_papers_settings(name):
    experiment = documents.settings_from(catalog.read(name))
    plan = build.schedule_of(experiment, paper_populations.emnist())
    settles = HOW.get(type(experiment.algorithm), "never")
    k = getattr(experiment.schedule, "late_rounds", None) or 1
    rows = rows_of(plan, settles, seed=experiment.seed, teachers=k)
    buffered = isinstance(experiment.schedule, Buffer)
    most = MOST_SLOTS["buffered" if buffered else settles]
    assert most / 2 <= rows.slots <= most
    assert (settles == "never") == (np.sum(plan.fate[rows.dispatch] == Fate.LATE) == 0)


@given(plans(), st.sampled_from(SETTLES), st.integers(1, 4))
def test_late_reports_are_counted_with_the_step_that_settles_them(plan, settles, k):
    rows = rows_of(plan, settles, seed=0, teachers=k)
    late = plan.fate[rows.dispatch] == Fate.LATE
    if settles == "by_round":
        settled = plan.version[rows.dispatch][late]
    elif settles == "next_step":
        settled = np.array([joins(plan, d) for d in rows.dispatch[late]])
    else:
        settled = plan.step[rows.dispatch][late]
    assert rows.late.tolist() == [np.sum(settled <= step) for step in range(plan.steps)]


K = 5


def test_teachers_are_drawn_evenly_from_the_last_rounds():
    plan = over_selected(
        30, table_latency([3.0, 1.0, 2.0]), seed=0, goal=20, cohort=20, updates=20_000
    )
    rows = rows_of(plan, "at_arrival", seed=0, teachers=K)
    assert np.array_equal(rows.teacher == -1, rows.version == 0)
    age = rows.version - rows.teacher
    assert age.min() == 1 and age.max() == K
    assert np.all(rows.teacher[rows.version > 0] >= 0)
    for version in range(1, K):  # as far back as there are rounds
        assert set(age[rows.version == version]) == set(range(1, version + 1))
    counts = np.bincount(age[rows.version >= K])[1:]
    assert stats.chisquare(counts).pvalue > 1e-4
    other = rows_of(plan, "at_arrival", seed=1, teachers=K)
    assert np.mean(other.teacher == rows.teacher) < 0.3


def test_a_teacher_belongs_to_a_dispatch_whoever_else_is_used():
    plan = over_selected(
        30,
        table_latency([3.0, 1.0, 2.0, 9.0]),
        seed=0,
        goal=2,
        cohort=4,
        updates=400,
        late_rounds=3,
    )
    few, many = (rows_of(plan, settles, seed=0, teachers=3) for settles in ("never", "by_round"))
    assert len(few.dispatch) < len(many.dispatch)
    assert np.array_equal(few.teacher, many.teacher[np.isin(many.dispatch, few.dispatch)])
