"""Reports that are damaged, empty, too old or there twice: as if they had never come.

Runs are compared at every server step, bit by bit.
"""

from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from msgspec import structs

from stragglers.algorithms.base import Mean, with_ema
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.fedavg import fedavg
from stragglers.planning.faults import Fault
from stragglers.planning.report_weights import report_weights
from stragglers.planning.schedule import Fate
from stragglers.planning.training_rows import rows_of
from stragglers.simulator import device_table, prepare
from stragglers.simulator.coordinator import Coordinator
from stragglers.simulator.interpreter import interpret
from tests.support.every import (
    ADAM,
    BUFFERED,
    BY_EXAMPLES,
    DECAY,
    EVERY,
    FARE_DUST_EMA,
    FEDAVG_EMA,
    OVER_SELECTED,
    REMEMBERS,
    SEED,
    SIZES,
    STEPS,
    TABLE,
    TASK,
    WAITS,
    K,
    assert_close,
    differ,
    every_algorithm,
    feasting,
    moves,
    plan,
    train,
    train_every,
    without,
)
from tests.support.helpers import by_interpreter, matrix, table_latency

pytestmark = pytest.mark.usefixtures("double_precision")

BAD = 4  # a client with many examples


def spoiled(clients, value):
    """The task, with the first example of each of some clients damaged."""
    x = TASK.x.copy()
    x[TASK.offsets[clients]] = value
    return TASK._replace(x=x)


def assert_dropped(name, value, algorithm, weigh=report_weights):
    policy, _, client = EVERY[name]
    given = plan(policy)
    bad = np.flatnonzero(given.client == BAD)
    run = train(given, algorithm, client, task=spoiled([BAD], value), weigh=weigh)
    fair = train(without(given, bad), algorithm, client, weigh=weigh)
    np.testing.assert_array_equal(run.w, fair.w)
    np.testing.assert_array_equal(run.model, fair.model)
    rows = rows_of(given, algorithm.settles, seed=SEED, teachers=K)
    expected = [np.sum((rows.client == BAD) & (rows.version < v)) for v in range(STEPS + 1)]
    assert run.dropped == expected and expected[-1] > 2 and fair.dropped[-1] == 0
    assert np.isfinite(run.model).all() and moves(run)
    assert differ(run.w[-1], train(given, algorithm, client, weigh=weigh).w[-1])


# 1e200: the gradient is finite, its square is not.
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
@every_algorithm
def test_a_bad_client_is_as_if_it_had_never_reported(name, value):
    assert_dropped(name, value, EVERY[name][1])


def test_a_bad_client_is_not_in_the_count_either():
    assert_dropped("fedavg", np.nan, fedavg(ADAM, Mean("count")), BY_EXAMPLES)


CORRUPT = [Fault.NAN, Fault.INF, Fault.HUGE]


def corrupted(given, dispatches, how):
    fault = given.fault.copy()
    fault[dispatches] = how
    return given._replace(fault=fault)


AVERAGED = {
    "fedavg": FEDAVG_EMA,
    "fedbuff": FEDAVG_EMA,
    "fare-dust": FARE_DUST_EMA,
    "fare-dust, all": with_ema(fare_dust(ADAM, k=K, history="all"), DECAY),
    "feast": with_ema(feasting(0.9, 0.3), DECAY),
}
every_average = pytest.mark.parametrize("name", AVERAGED)


def kind_of(name):
    policy, _, client = EVERY[name.partition(",")[0]]
    return policy, AVERAGED[name], client


@contextmanager
def one_program():
    """Runs with and without corrupted reports share their program, and so every bit."""

    def table_of(*given):
        made = device_table.table_of(*given)
        return made if made.corrupt is not None else made._replace(corrupt=0 * made.slot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "table_of", table_of)
        yield


def same_states(a, b):
    """Weights, optimizer, averages, history: bit by bit, at every server step."""
    jax.tree.map(np.testing.assert_array_equal, a.states, b.states)


@pytest.mark.parametrize("which", ["first", "middle", "last"])
@every_average
def test_a_bad_report_is_as_if_it_had_never_come(name, which):
    policy, algorithm, client = kind_of(name)
    given = plan(policy)
    rows = rows_of(given, algorithm.settles, seed=SEED, teachers=K)
    place = {"first": 0, "middle": len(rows.dispatch) // 2, "last": -1}[which]
    bad, version = rows.dispatch[[place]], rows.version[place]
    counted = [int(v > version) for v in range(STEPS + 1)]
    with one_program():
        whole, fair = (train(each, algorithm, client) for each in (given, without(given, bad)))
        for how in CORRUPT:
            run = train(corrupted(given, bad, how), algorithm, client)
            same_states(run, fair)
            assert run.dropped == counted and np.isfinite(run.model).all()
            lanes = train(corrupted(given, bad, how), algorithm, client, lanes=3)
            assert_close(lanes.model, fair.model)
            assert lanes.dropped == counted
        twice = train(corrupted(given, bad, Fault.DUPLICATE), algorithm, client)
    same_states(twice, whole)
    assert fair.dropped[-1] == twice.dropped[-1] == 0 and moves(fair)
    late = given.fate[bad[0]] == Fate.LATE
    taught_nobody = name.startswith("fare-dust") and which == "last" and late
    assert taught_nobody or differ([fair.w, fair.model], [whole.w, whole.model])


@pytest.mark.parametrize("which", ["first", "middle", "last"])
@every_average
def test_a_report_of_no_examples_weighs_nothing_where_examples_weigh(name, which):
    """By count it is a client that stood still; see test_simulate.py."""
    policy, algorithm, client = kind_of(name)
    given = plan(policy)
    rows = rows_of(given, algorithm.settles, seed=SEED, teachers=K)
    bad = rows.dispatch[{"first": 0, "middle": len(rows.dispatch) // 2, "last": -1}[which]]
    who, examples = given.client.copy(), given.examples.copy()
    who[bad], examples[bad] = 2, 0
    empty = given._replace(client=who, examples=examples)
    run = train(empty, algorithm, client, weigh=BY_EXAMPLES)
    fair = train(without(empty, [bad]), algorithm, client, weigh=BY_EXAMPLES)
    np.testing.assert_array_equal(run.w, fair.w)
    np.testing.assert_array_equal(run.model, fair.model)
    assert run.dropped[-1] == fair.dropped[-1] == 0 and moves(run)
    if given.fate[bad] == Fate.ON_TIME:
        assert differ(run.w, train(empty, algorithm, client).w)


@every_average
def test_a_report_that_is_too_old_is_not_even_looked_at(name):
    policy, algorithm, client = kind_of(name)
    impatient = {
        BUFFERED: {"client_timeout": 4.0},
        WAITS: {"late_seconds": 3.0},
        REMEMBERS: {"late_rounds": 1},
    }.get(policy, {})
    given = plan(structs.replace(policy, **impatient))
    rows = rows_of(given, algorithm.settles, seed=SEED, teachers=K)
    came = np.isfinite(given.report) & (given.report <= given.time[-1])
    old = np.setdiff1d(np.flatnonzero(came), rows.dispatch)
    assert len(old) >= 3
    same_states(
        train(given, algorithm, client),
        train(corrupted(given, old, np.resize(CORRUPT, len(old))), algorithm, client),
    )


@pytest.mark.parametrize("lanes", [1, 3])
def test_corrupted_reports_in_lanes_even_of_clients_without_examples(lanes):
    policy, algorithm, client = EVERY["feast"]
    given = plan(policy)
    rows = rows_of(given, algorithm.settles, seed=SEED, teachers=K)
    empty = rows.dispatch[rows.client == 2]  # it has no examples
    bad = np.union1d(empty, rows.dispatch[::5])
    assert len(empty) > 1 and SIZES[2] == 0
    fair = train(without(given, bad), algorithm, client)
    spread = corrupted(given, bad, np.resize(CORRUPT, len(bad)))
    run = train(spread, algorithm, client, lanes=lanes)
    np.testing.assert_allclose(run.model, fair.model, rtol=1e-10, atol=1e-10)
    assert run.dropped == [np.sum(given.version[bad] < v) for v in range(STEPS + 1)]


@pytest.mark.parametrize("name", ["fare-dust", "feast"])
def test_a_bad_client_spoils_no_other_lane(name):
    task = spoiled([BAD], np.nan)
    alone, together = (train_every(name, task=task, lanes=lanes) for lanes in (1, 3))
    assert_close(together.w, alone.w)
    assert_close(together.model, alone.model)
    assert together.dropped == alone.dropped and alone.dropped[-1] > 2


@pytest.mark.parametrize("how", ["trained on damaged data", "corrupted", "without examples"])
@every_average
def test_a_step_on_bad_reports_only_leaves_everything_as_it_was(name, how):
    bad_step, bad = 4, [0, 3, 5, 6, 8]  # in rounds, they start in this one only
    cohorts = [bad if t == bad_step else [1, 2, 4, 7, 1] for t in range(STEPS)]
    policy, algorithm, _ = kind_of(name)
    given, options = plan(policy, order=np.ravel(cohorts)), {}
    on_time = (given.fate == Fate.ON_TIME) & (given.step == bad_step)
    settled = (given.version == bad_step) & (given.fate == Fate.LATE)  # with it, by FeAST
    theirs = np.flatnonzero(on_time | settled)
    if how == "corrupted":
        given = corrupted(given, theirs, np.resize(CORRUPT, len(theirs)))
    elif how == "without examples":
        who, examples = given.client.copy(), given.examples.copy()
        who[theirs], examples[theirs] = 2, 0
        given, options = given._replace(client=who, examples=examples), {"weigh": BY_EXAMPLES}
    else:  # those of this step are nobody else's
        who = np.where(np.isin(given.client, bad), 1, given.client).astype(np.int32)
        who[theirs] = 0
        given = given._replace(client=who, examples=SIZES[who])
        options = {"task": spoiled([0], np.nan)}
    run = train(given, algorithm, **options)
    before, after = run.states[bad_step], run.states[bad_step + 1]
    if name.startswith("fare-dust"):  # the round is over all the same
        (now, average), (then, average_then) = after, before
        assert now.round == then.round + 1
        before = (then.params, then.optimizer, average_then)
        after = (now.params, now.optimizer, average)
    jax.tree.map(np.testing.assert_array_equal, after, before)
    rows = rows_of(given, algorithm.settles, seed=SEED, teachers=K)
    lost = np.intersect1d(rows.dispatch, theirs)
    assert run.dropped[-1] == (0 if how == "without examples" else len(lost)) and len(lost) >= 3
    moved = np.abs(np.diff(run.w, axis=0)).max(axis=(1, 2)) > 1e-6
    assert moved.tolist() == [t != bad_step for t in range(STEPS)]


def test_the_interpreter_drops_the_same_clients():
    policy, algorithm, client = EVERY["feast"]
    task = spoiled([BAD], np.nan)
    told = by_interpreter(task, policy, TABLE, algorithm, client, seed=SEED, steps=STEPS)
    run = train(plan(policy), algorithm, client, task=task)
    assert_close(matrix(algorithm.params(told.state)), run.w[-1])
    assert_close(matrix(algorithm.model(told.state)), run.model[-1])
    assert told.dropped == run.dropped[-1] > 0


@every_algorithm
def test_the_interpreter_counts_a_report_once(name):
    policy, algorithm, client = EVERY[name]

    class Echo(Coordinator):
        def receive(self, number, delta, now):
            may_start = super().receive(number, delta, now)
            return super().receive(number, delta, now) or may_start

    once, twice = (
        by_interpreter(
            TASK, policy, TABLE, algorithm, client, seed=SEED, steps=STEPS, coordinator=kind
        )
        for kind in (Coordinator, Echo)
    )
    jax.tree.map(np.testing.assert_array_equal, once.state, twice.state)
    assert once.step_times == twice.step_times and once.counts["duplicate"] == 0
    reports = sum(once.counts.values())
    assert twice.counts == {**once.counts, "duplicate": reports} and reports > 2 * STEPS


@pytest.mark.parametrize("policy", [OVER_SELECTED, WAITS, REMEMBERS, BUFFERED])
def test_the_interpreter_counts_the_fates_of_the_schedule(policy):
    given, zero, delay = plan(policy), {"w": jnp.zeros(())}, table_latency(TABLE, SIZES)
    first, then = (
        (policy.concurrency, policy.size) if policy is BUFFERED else (policy.cohort_size,) * 2
    )

    def choose(group):
        start = first + (group - 1) * then if group else 0
        return given.client[start : first + group * then].tolist()

    told = interpret(
        Coordinator(
            fedavg(optax.sgd(0.0)),
            policy,
            zero,
            choose,
            lambda arrival: 1.0,
            lambda dispatch, version: -1,
        ),
        lambda order: zero,
        lambda d, c: float(delay(d, np.array([c])).seconds[0]),
        STEPS,
    )
    counts = {fate.name.lower(): int(np.sum(given.fate == fate)) for fate in Fate}
    assert told.dispatches == len(given.client) and told.step_times == given.time.tolist()
    assert told.counts["on_time"] == counts["on_time"] > 0
    assert told.counts["late"] == counts["late"] and (counts["late"] > 0) == (
        policy in (WAITS, REMEMBERS)
    )
