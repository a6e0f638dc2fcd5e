"""Limits in which an algorithm becomes another one, or an option nothing; each with its opposite.

Weights are compared at every server step, bit by bit where two runs share their arithmetic and to
1e-12 in double precision where they do not.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from stragglers._core.shuffle import seed_word
from stragglers.algorithms.base import Mean, with_ema
from stragglers.algorithms.fadas import fadas
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.fedavg import fedavg
from stragglers.algorithms.remembering import ca2fl, mifa
from stragglers.planning.policy import Buffer, Rounds
from stragglers.planning.report_weights import report_weights
from stragglers.planning.schedule import Fate
from stragglers.planning.training_rows import rows_of
from tests.support import reference
from tests.support.every import (
    ADAM,
    BUFFERED,
    CLIENT,
    DECAY,
    FARE_DUST,
    FARE_DUST_EMA,
    FEASTS,
    FEDAVG,
    FEDAVG_EMA,
    ORDER,
    OVER_SELECTED,
    REMEMBERS,
    SEED,
    SEMI_ASYNC,
    SIZES,
    STEPS,
    TAUGHT,
    WAITS,
    K,
    assert_close,
    assert_same,
    differ,
    feasting,
    moves,
    plan,
    train,
    without,
)
from tests.support.helpers import linear_task

pytestmark = pytest.mark.usefixtures("double_precision")

# Asynchronous and synchronous.

DELAYS = st.lists(st.sampled_from([0.0, 0.0, 1.0, 1.5, 7.0]), min_size=1, max_size=20)
ORDERS = st.lists(st.integers(0, 8), min_size=6, max_size=30).filter(lambda o: {*o} != {2})


@settings(max_examples=50)
@given(DELAYS, ORDERS, st.sampled_from(["at_update", "at_once"]))
def test_one_client_at_a_time_is_sequential_fedavg_whatever_the_latencies(table, order, refill):
    one_by_one = plan(Buffer(1, 1, refill), table, order=order)
    rounds = plan(Rounds(1, 1), [1.0], order=order)
    a, b = train(one_by_one, FEDAVG), train(rounds, FEDAVG)
    np.testing.assert_array_equal(a.w, b.w)
    assert differ(a.w[-1], a.w[0])


def test_two_clients_at_a_time_are_not_sequential_fedavg():
    two, one = (plan(Buffer(1, slots), order=[0, 4, 1, 5, 8]) for slots in (2, 1))
    assert differ(train(two, FEDAVG).w[-1], train(one, FEDAVG).w[-1])


@settings(max_examples=50)
@given(st.sampled_from([0.0, 0.1, 3.0]), ORDERS, st.sampled_from(["at_update", "at_once"]))
def test_a_buffer_for_all_is_fedavg_when_all_take_equally_long(seconds, order, refill):
    buffered = plan(Buffer(3, 3, refill), [seconds], order=order)
    rounds = plan(Rounds(3, 3), order=order)
    a, b = train(buffered, FEDAVG), train(rounds, FEDAVG)
    np.testing.assert_array_equal(a.w, b.w)
    assert differ(a.w[-1], a.w[0])


def test_a_buffer_for_all_is_not_fedavg_when_the_quick_come_back_before_the_slow():
    buffered, rounds = (plan(p, order=ORDER) for p in (Buffer(3, 3, "at_once"), Rounds(3, 3)))
    assert differ(train(buffered, FEDAVG).w[-1], train(rounds, FEDAVG).w[-1])


# FedAsync.

ALPHA, POLYNOMIAL = 0.6, partial(report_weights, discount="polynomial", exponent=0.5)
FEDASYNC = fedavg(optax.sgd(ALPHA), Mean("count"))


def mixed(given, run):
    """FedAsync's own step from each version of a run: the client's weights mixed into w."""
    task, out = linear_task(), []
    for t, dispatch in enumerate(np.argsort(given.step, kind="stable")[:STEPS]):
        version, who = given.version[dispatch], given.client[dispatch]
        own = slice(task.offsets[who], task.offsets[who + 1])
        delta = reference.local_delta(
            run.w[version],
            run.w[version],
            task.x[own],
            task.y[own],
            dispatch=dispatch,
            seed=seed_word(SEED),
            positions=given.examples[dispatch],
            lr=CLIENT.learning_rate,
            batch=CLIENT.batch_size,
        )
        alpha = ALPHA * (1 + t - version) ** -0.5
        mix = (1 - alpha) * run.w[t] + alpha * (run.w[version] - delta)
        out.append((mix, alpha * (run.w[t] - run.w[version])))
    return np.array(out).swapaxes(0, 1)


@pytest.mark.parametrize("concurrency", [1, 6])
def test_a_buffer_of_one_is_fedasync_but_for_its_pull_towards_the_old_version(concurrency):
    given = plan(Buffer(1, concurrency))
    run = train(given, FEDASYNC, weigh=POLYNOMIAL)
    steps, pull = mixed(given, run)
    assert_close(run.w[1:], steps + pull)
    assert differ(run.w[1:], steps) == (concurrency > 1) and differ(run.w[-1], run.w[0])


# FADAS.

STALEST = 3  # server steps in BUFFERED
FADAS = {
    threshold: fadas(optax.sgd(0.7), learning_rate=0.7, threshold=threshold)
    for threshold in (0, 1, STALEST)
}


def test_fadas_within_its_threshold_is_fedavg():
    given, sgd = plan(BUFFERED), fedavg(optax.sgd(0.7))
    assert (given.step - given.version)[given.fate == Fate.ON_TIME].max() == STALEST
    assert_same(train(given, FADAS[STALEST]), train(given, sgd))
    assert_same(train(plan(OVER_SELECTED), FADAS[0]), train(plan(OVER_SELECTED), sgd))
    assert differ(train(given, FADAS[1]).w[-1], train(given, sgd).w[-1])


def test_fadas_takes_steps_of_at_most_one_over_the_largest_staleness():
    """Under SGD: FedAvg whose reports weigh, without being divided by it, what the step allows."""
    given = plan(BUFFERED)
    used = given.fate == Fate.ON_TIME
    stalest = np.zeros(STEPS)
    np.maximum.at(stalest, given.step[used], (given.step - given.version)[used])
    assert {*stalest} >= {0, 1, STALEST}

    def allowed(reports):
        tau = stalest[reports.step]
        return np.where(tau > 1, np.minimum(0.7, 1 / np.maximum(tau, 1)), 0.7)

    limited = fedavg(optax.sgd(1.0), Mean("count"))
    assert_close(train(given, FADAS[1]).w, train(given, limited, weigh=allowed).w)
    assert differ(train(given, FADAS[1]).w[-1], train(given, FADAS[STALEST]).w[-1])


# CA2FL, FedVARP and MIFA.

CA2FL, MIFA = ca2fl(ADAM, clients=9), mifa(ADAM, clients=9)


@pytest.mark.parametrize("algorithm", [CA2FL, MIFA])
def test_when_all_clients_take_part_in_each_round_memory_is_of_no_use(algorithm):
    everybody = plan(Rounds(9, 9), order=[*range(9)] * STEPS)
    a, b = train(everybody, algorithm), train(everybody, FEDAVG)
    assert_close(a.w, b.w)
    assert moves(a)
    some = plan(Rounds(3, 3), order=ORDER)
    assert differ(train(some, algorithm).w[-1], train(some, FEDAVG).w[-1])


def test_ca2fl_of_a_population_without_end_that_never_comes_back_is_fedavg():
    endless, once = ca2fl(ADAM, clients=10**18), plan(Rounds(3, 3), order=range(9), steps=3)
    assert_close(train(once, endless).w, train(once, FEDAVG).w)
    again = plan(Rounds(3, 3), order=[0, 1, 2], steps=3)
    assert differ(train(again, endless).w[-1], train(again, FEDAVG).w[-1])
    assert differ(train(once, CA2FL).w[-1], train(once, FEDAVG).w[-1])


def test_mifa_of_one_client_that_always_reports_is_fedavg():
    """And one that is heard once goes on to move the weights."""
    alone = mifa(ADAM, clients=1)
    given = plan(Rounds(1, 1), order=[4])
    assert_close(train(given, alone).w, train(given, FEDAVG).w)
    with_another = plan(Rounds(1, 1), order=[0, *[4] * STEPS])
    assert differ(train(with_another, alone).w[-1], train(with_another, FEDAVG).w[-1])


# FeAST.

PATIENCE = [6.0, 1.0, np.inf]


@pytest.mark.parametrize("beta, kappa", FEASTS)
def test_the_auxiliary_model_never_leaks_into_the_main_one(beta, kappa):
    main = train(plan(OVER_SELECTED), FEDAVG)
    for seconds in PATIENCE:
        run = train(plan(structs.replace(WAITS, late_seconds=seconds)), feasting(beta, kappa))
        np.testing.assert_array_equal(run.w, main.w)
        assert moves(run)
    assert differ(run.model[1:], run.w[1:])


@cache
def everybodys_steps():
    """w_plus after each round: FedAvg to that round, and there with the late ones on time."""
    given, steps = plan(WAITS), []
    for t in range(STEPS):
        late = (given.version == t) & (given.fate == Fate.LATE)
        fate, step = given.fate.copy(), given.step.copy()
        fate[late], step[late] = Fate.ON_TIME, t
        steps.append(train(given._replace(fate=fate, step=step), FEDAVG).w[t + 1])
    return np.array(steps)


def test_some_are_late():
    w, w_plus = train(plan(OVER_SELECTED), FEDAVG).w[1:], everybodys_steps()
    assert sum(differ(*pair) for pair in zip(w, w_plus)) > STEPS / 2


def test_feast_without_memory_is_the_step_of_everybody_for_every_kappa():
    for kappa in (0.2, 0.7):
        assert_close(train(plan(WAITS), feasting(0.0, kappa)).model[1:], everybodys_steps())
    some, more = (train(plan(WAITS), feasting(DECAY, kappa)) for kappa in (0.0, 1.0))
    assert differ(some.model[-1], more.model[-1])  # with memory, kappa matters


def averaged(start, sequence, decay=DECAY):
    """Exponential moving average, in NumPy."""
    out = [start]
    for value in sequence:
        out.append(decay * out[-1] + (1 - decay) * value)
    return np.array(out)


def test_feast_with_kappa_zero_averages_the_steps_of_everybody():
    run = train(plan(WAITS), feasting(DECAY, 0.0))
    assert_close(run.model, averaged(run.w[0], everybodys_steps()))


def test_feast_with_kappa_one_takes_the_whole_step_of_everybody():
    run, w_plus = train(plan(WAITS), feasting(DECAY, 1.0)), everybodys_steps()
    a, w = run.model[:-1], run.w[:-1]
    assert_close(run.model[1:], DECAY * a + (1 - DECAY) * w + (w_plus - w))


def test_feast_that_waits_for_nobody_follows_the_main_model():
    beta, kappa = 0.9, 0.3
    hasty = plan(structs.replace(WAITS, late_seconds=0.0))
    assert not np.any(hasty.fate == Fate.LATE)
    run = train(hasty, feasting(beta, kappa))
    a, w, after = run.model[:-1], run.w[:-1], run.w[1:]
    assert_close(run.model[1:], beta * (a + kappa * (after - w)) + (1 - beta) * after)
    assert moves(run) and differ(run.model, train(plan(WAITS), feasting(beta, kappa)).model)


def test_feast_with_nobody_late_and_kappa_zero_is_the_average_of_fedavg():
    everybody = plan(Rounds(3, 3))
    run, average = train(everybody, feasting(DECAY, 0.0)), train(everybody, FEDAVG_EMA)
    np.testing.assert_allclose(run.w, average.w, rtol=0, atol=1e-14)  # two programs, one sum
    assert_close(run.model, average.model)
    late = train(plan(WAITS), feasting(DECAY, 0.0))
    assert differ(late.model[-1], train(plan(WAITS), FEDAVG_EMA).model[-1])


# Late reports that join the next step.


def test_semi_async_with_nobody_late_is_fedavg():
    everybody = plan(Rounds(3, 3, late_rounds=K))
    assert_same(train(everybody, SEMI_ASYNC), train(everybody, FEDAVG))
    assert differ(train(plan(REMEMBERS), SEMI_ASYNC).w[-1], train(plan(REMEMBERS), FEDAVG).w[-1])


def test_semi_async_is_fedavg_of_a_schedule_on_which_late_reports_are_on_time():
    given = plan(REMEMBERS)
    late = given.fate == Fate.LATE
    step = np.where(late, np.maximum(given.step, given.version + 1), given.step).astype(np.int32)
    fate = np.where(late & (step < STEPS), Fate.ON_TIME, given.fate).astype(np.int8)
    assert np.sum(late) > STEPS / 2
    run = train(given, SEMI_ASYNC)
    assert_same(run, train(given._replace(fate=fate, step=step), FEDAVG))


# Weights that are all equal in the end.

CORRECTED = partial(report_weights, participation="corrected")
DIRECTIONS = partial(report_weights, local_steps="normalised")


def test_whoever_always_takes_part_needs_no_correction():
    always = plan(Rounds(3, 3), order=[0, 4, 8] * STEPS)
    a, b = train(always, FEDAVG, weigh=CORRECTED), train(always, FEDAVG)
    np.testing.assert_array_equal(a.w, b.w)
    assert moves(a)
    seldom = plan(Rounds(3, 3), order=ORDER)
    assert differ(train(seldom, FEDAVG, weigh=CORRECTED).w[-1], train(seldom, FEDAVG).w[-1])


def test_equally_many_local_steps_are_only_directions():
    """A power of two of them, with which nothing is rounded."""
    task = linear_task(sizes=(8,) * 9)
    given = plan(OVER_SELECTED, task=task)
    a, b = (train(given, FEDAVG, task=task, **options) for options in ({"weigh": DIRECTIONS}, {}))
    np.testing.assert_array_equal(a.w, b.w)
    assert moves(a)
    unequal = plan(OVER_SELECTED)
    assert differ(train(unequal, FEDAVG, weigh=DIRECTIONS).w[-1], train(unequal, FEDAVG).w[-1])


# FARe-DUST.


@cache
def poisoned(algorithm):
    """Every late report that reaches the history is not a number."""

    def settle(state, opened, late, round):
        nan = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), late.delta)
        return algorithm.settle(state, opened, late._replace(delta=nan), round)

    return algorithm._replace(settle=settle)


def test_without_distillation_fare_dust_is_fedadam_and_its_average():
    baseline = train(plan(OVER_SELECTED), FEDAVG_EMA)
    for algorithm in (FARE_DUST_EMA, poisoned(FARE_DUST_EMA)):
        assert_same(train(plan(REMEMBERS), algorithm), baseline)
    assert differ(train(plan(REMEMBERS), FARE_DUST, TAUGHT).w[-1], baseline.w[-1])


def test_a_poisoned_teacher_reaches_only_those_who_listen():
    deaf = train(plan(REMEMBERS), poisoned(FARE_DUST_EMA))
    assert any(np.isnan(state[0].history.rows.delta["w"]).any() for state in deaf.states)
    assert deaf.dropped[-1] == 0 < train(plan(REMEMBERS), poisoned(FARE_DUST), TAUGHT).dropped[-1]


def first_change(given, dispatch, k):
    """The first version of w that a late report has a say in, through whom its round teaches."""
    rows = rows_of(given, "at_arrival", seed=SEED, teachers=k)
    changed = {dispatch}
    for v in range(given.step[dispatch] + 1, given.steps):
        for d, teacher in zip(rows.dispatch, rows.teacher):
            if given.version[d] != v or SIZES[given.client[d]] == 0 or not v - k <= teacher < v:
                continue
            taught_by = (given.version == teacher) & (given.fate == Fate.LATE) & (given.step < v)
            if changed & set(np.flatnonzero(taught_by)):
                changed.add(d)
                if given.fate[d] == Fate.ON_TIME:
                    return v + 1
    return None


@pytest.mark.parametrize("k", [K, 2])
def test_a_late_report_changes_a_client_iff_its_round_is_in_the_window(k):
    algorithm = FARE_DUST if k == K else fare_dust(ADAM, k=k)
    given = plan(REMEMBERS)  # for k = 2 some arrive that the history has forgotten
    whole = train(given, algorithm, TAUGHT)
    predicted, seen = [], []
    for dispatch in np.flatnonzero(given.fate == Fate.LATE):
        less = train(without(given, [dispatch]), algorithm, TAUGHT)
        changed = np.any(less.w != whole.w, axis=(1, 2))
        seen.append(int(np.argmax(changed)) if changed.any() else None)
        forgotten = given.step[dispatch] - given.version[dispatch] >= k
        predicted.append(None if forgotten else first_change(given, dispatch, k))
        # It arrives in the course of a round, and that round's step does not know it.
        assert seen[-1] is None or seen[-1] > given.step[dispatch] + 1
    assert seen == predicted
    assert None in seen and len(set(seen)) > 3


# Options that do nothing at zero.


def test_an_average_without_memory_is_the_last_model():
    run = train(plan(OVER_SELECTED), with_ema(FEDAVG, 0.0))
    np.testing.assert_array_equal(run.model, run.w)
    assert moves(run) and differ(train(plan(OVER_SELECTED), FEDAVG_EMA).model[-1], run.w[-1])


def test_a_model_that_stands_still_is_its_own_average():
    def nothing(reports):
        return np.zeros(len(reports.examples))

    run = train(plan(OVER_SELECTED), FEDAVG_EMA, weigh=nothing)
    assert_close(run.model, np.broadcast_to(run.w[0], run.w.shape))
    assert not differ(run.w[-1], run.w[0]) and np.abs(run.w[0]).max() > 0.1


def test_terms_of_strength_zero_are_not_there():
    idle = CLIENT._replace(distillation=0.0, distillation_loss="kl", temperature=3.0, proximal=0.0)
    given, baseline = plan(OVER_SELECTED), train(plan(OVER_SELECTED), FEDAVG)
    assert_same(train(given, FEDAVG, idle), baseline)
    for strong in (TAUGHT, CLIENT._replace(proximal=0.4)):
        assert differ(train(given, FEDAVG, strong).w[-1], baseline.w[-1])
