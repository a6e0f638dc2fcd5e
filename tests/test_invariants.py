"""What must hold whatever the numbers are: identities between runs, each with its opposite.

Weights are compared at every server step, bit by bit where two runs share their arithmetic and to
1e-12 in double precision where they do not.
"""

from contextlib import contextmanager, nullcontext
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stragglers import setup, table
from stragglers.algorithms.base import Mean, with_ema
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.feast import feast
from stragglers.algorithms.fedavg import fedavg
from stragglers.client import Client
from stragglers.coordinator import Buffer, Coordinator, Rounds
from stragglers.faults import Fault
from stragglers.interpret import interpret
from stragglers.rows import rows_of
from stragglers.schedule import Fate
from stragglers.weights import report_weights
from tests.helpers import by_interpreter, linear_task, matrix, path, plan_for, table_latency, traced

SEED, STEPS, K, DECAY = 3, 12, 3, 0.8
ADAM = optax.adam(0.05, b2=0.99, eps=1e-3)
FEDAVG, FARE_DUST = fedavg(ADAM), fare_dust(ADAM, k=K)
FEDAVG_EMA, FARE_DUST_EMA = with_ema(FEDAVG, DECAY), with_ema(FARE_DUST, DECAY)
CLIENT = Client(learning_rate=0.2, batch_size=4)
TAUGHT = CLIENT._replace(distillation=0.5)

OVER_SELECTED = Rounds(goal=3, cohort=5)
WAITS = Rounds(goal=3, cohort=5, late_seconds=6.0)
REMEMBERS = Rounds(goal=3, cohort=5, late_rounds=K)
BUFFERED = Buffer(buffer=3, concurrency=6)


@cache
def feasting(beta, kappa):
    return feast(ADAM, beta=beta, kappa=kappa)


# beta and kappa: the paper's kind, the two ends of kappa, and no memory at all.
FEASTS = [(0.9, 0.3), (DECAY, 0.0), (DECAY, 1.0), (0.0, 0.2), (0.0, 0.7)]

EVERY = {
    "fedavg": (OVER_SELECTED, FEDAVG, CLIENT),
    "fedbuff": (BUFFERED, FEDAVG, CLIENT),
    "fare-dust": (REMEMBERS, FARE_DUST, TAUGHT),
    "feast": (WAITS, feasting(0.9, 0.3), CLIENT),
}
every_algorithm = pytest.mark.parametrize("name", EVERY)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def latencies(seed=1):
    """Ties, zeros and a long tail."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(60) < 0.5, rng.integers(0, 5, 60), rng.lognormal(1, 1, 60))


TASK, TABLE = linear_task(), latencies()
SIZES = TASK.population.examples


def plan(policy, table=TABLE, *, order=None, steps=STEPS, seed=SEED, task=TASK):
    """A schedule; `order` says which clients start, one after another."""
    with traced(order) if order is not None else nullcontext():
        return plan_for(task, policy, table, seed=seed, steps=steps)


def train(given, algorithm, client=CLIENT, *, task=TASK, seed=SEED, **options):
    return path(task, given, algorithm, client, seed=seed, **{"teachers": K, **options})


def train_every(name, given=None, **options):
    policy, algorithm, client = EVERY[name]
    return train(plan(policy) if given is None else given, algorithm, client, **options)


def moves(run):
    """Not an identity of runs that stand still."""
    return np.all(np.abs(np.diff(run.w, axis=0)).max(axis=(1, 2)) > 1e-6)


def assert_same(a, b):
    """Bit by bit, at every server step."""
    np.testing.assert_array_equal(a.w, b.w)
    np.testing.assert_array_equal(a.model, b.model)
    assert moves(a) and a.dropped == b.dropped


def assert_close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def differ(a, b):
    return np.abs(np.asarray(a) - np.asarray(b)).max() > 1e-6


def without(given, dispatches):
    """Nobody waits for these clients' reports."""
    fate = given.fate.copy()
    fate[dispatches] = Fate.UNUSED
    return given._replace(fate=fate)


# Asynchronous and synchronous.

ORDER = np.random.default_rng(5).permutation(np.repeat(np.arange(9), 8))
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


# FeAST.

PATIENCE = [6.0, 1.0, np.inf]


@pytest.mark.parametrize("beta, kappa", FEASTS)
def test_the_auxiliary_model_never_leaks_into_the_main_one(beta, kappa):
    main = train(plan(OVER_SELECTED), FEDAVG)
    for seconds in PATIENCE:
        run = train(plan(WAITS._replace(late_seconds=seconds)), feasting(beta, kappa))
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
    hasty = plan(WAITS._replace(late_seconds=0.0))
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
    assert any(np.isnan(state[0].history.delta["w"]).any() for state in deaf.states)
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
    whole = train(given, algorithm, TAUGHT, teachers=k)
    predicted, seen = [], []
    for dispatch in np.flatnonzero(given.fate == Fate.LATE):
        less = train(without(given, [dispatch]), algorithm, TAUGHT, teachers=k)
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
    def nothing(staleness, sizes):
        return np.zeros(len(sizes))

    run = train(plan(OVER_SELECTED), FEDAVG_EMA, weigh=nothing)
    assert_close(run.model, np.broadcast_to(run.w[0], run.w.shape))
    assert not differ(run.w[-1], run.w[0]) and np.abs(run.w[0]).max() > 0.1


def test_terms_of_strength_zero_are_not_there():
    idle = CLIENT._replace(distillation=0.0, distillation_loss="kl", temperature=3.0, proximal=0.0)
    given, baseline = plan(OVER_SELECTED), train(plan(OVER_SELECTED), FEDAVG)
    assert_same(train(given, FEDAVG, idle), baseline)
    for strong in (TAUGHT, CLIENT._replace(proximal=0.4)):
        assert differ(train(given, FEDAVG, strong).w[-1], baseline.w[-1])


# Centralised training.

WHOLE = Client(learning_rate=0.3, batch_size=9, last_batch="keep")  # one batch is all of a client
PLAIN = fedavg(optax.sgd(1.0))
BY_EXAMPLES = partial(report_weights, by="examples")


def centralised(task, w, steps):
    """Gradient descent on all examples, by hand."""
    a, out = np.c_[task.x, np.ones(len(task.x))], [w]
    for _ in range(steps):
        e = np.exp(a @ out[-1])
        error = e / e.sum(axis=1, keepdims=True) - np.eye(w.shape[1])[task.y]
        out.append(out[-1] - 0.3 * a.T @ error / len(a))
    return np.array(out)


@pytest.mark.parametrize(
    "sizes, weigh, agrees",
    [
        ((6, 6, 6, 6), report_weights, True),
        ((3, 9, 4, 8), BY_EXAMPLES, True),
        ((3, 9, 4, 8), report_weights, False),
    ],
)
def test_one_full_step_of_everybody_is_gradient_descent_if_weights_are_right(sizes, weigh, agrees):
    task = linear_task(sizes)
    given = plan(Rounds(4, 4), steps=5, task=task)
    run = train(given, PLAIN, WHOLE, task=task, weigh=weigh)
    expected = centralised(task, run.w[0], 5)
    assert np.allclose(run.w, expected, rtol=1e-12, atol=1e-13) == agrees
    assert moves(run) and differ(run.w[-1], expected[-1]) != agrees


def training_loss(w):
    logits = np.c_[TASK.x, np.ones(len(TASK.x))] @ w
    return np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(TASK.y)), TASK.y])


@every_algorithm
def test_the_first_step_lowers_the_loss(name):
    for seed in range(5):
        run = train_every(name, plan(EVERY[name][0], seed=seed), seed=seed)
        before, after = training_loss(run.w[0]), training_loss(run.w[1])
        assert after < before - 1e-3 and training_loss(run.model[1]) < before - 1e-3


# What must not matter.


@every_algorithm
def test_a_clients_number_means_nothing(name):
    number = np.random.default_rng(0).permutation(9)  # client c is called number[c]
    old = np.argsort(number)
    mine = np.concatenate([np.arange(TASK.offsets[c], TASK.offsets[c + 1]) for c in old])
    theirs = TASK._replace(
        population=TASK.population._replace(examples=SIZES[old], group=TASK.population.group[old]),
        x=TASK.x[mine], y=TASK.y[mine], offsets=np.concatenate([[0], np.cumsum(SIZES[old])]),
    )  # fmt: skip
    policy = EVERY[name][0]
    ours = train_every(name, plan(policy, order=ORDER))
    renamed, others = (plan(policy, task=theirs, order=o) for o in (number[ORDER], ORDER))
    assert_same(ours, train_every(name, renamed, task=theirs))
    assert differ(ours.w[-1], train_every(name, others, task=theirs).w[-1])


@settings(max_examples=20)
@given(st.sampled_from(sorted(EVERY)), st.integers(-30, 60))
def test_slower_clocks_change_no_weight(name, k):
    policy, by = EVERY[name][0], 2.0**k
    if policy is WAITS:
        policy = WAITS._replace(late_seconds=WAITS.late_seconds * by)
    scaled = plan(policy, by * TABLE)
    assert_same(train_every(name), train_every(name, scaled))
    assert scaled.time.tolist() == (by * plan(EVERY[name][0]).time).tolist()


def test_slower_clients_that_nobody_waits_longer_for_do_change_weights():
    assert differ(
        train_every("feast").model[-1], train_every("feast", plan(WAITS, 4 * TABLE)).model[-1]
    )


@every_algorithm
def test_clients_that_never_start_change_nothing(name):
    more = linear_task((*SIZES, 4, 0, 11), seed=8)
    n = len(TASK.x)
    more = more._replace(x=np.r_[TASK.x, more.x[n:]], y=np.r_[TASK.y, more.y[n:]])
    policy = EVERY[name][0]
    ours = train_every(name, plan(policy, order=ORDER))
    assert_same(ours, train_every(name, plan(policy, order=ORDER, task=more), task=more))
    started = plan(policy, order=np.where(ORDER == 0, 11, ORDER), task=more)
    assert differ(ours.w[-1], train_every(name, started, task=more).w[-1])


def test_clients_that_never_report_and_are_not_waited_for_change_nothing():
    given = plan(OVER_SELECTED)
    never = np.resize(TABLE, len(given.client))
    never[given.fate != Fate.ON_TIME] = np.inf
    silent = plan(OVER_SELECTED, never)
    assert np.isinf(silent.report).sum() == 2 * STEPS
    assert_same(train(given, FEDAVG), train(silent, FEDAVG))


@every_algorithm
def test_looking_at_the_model_changes_nothing(name):
    always, once = train_every(name), train_every(name, evaluate_at=[])
    assert len(always.states) == STEPS + 1 and len(once.states) == 1 and moves(always)
    jax.tree.map(np.testing.assert_array_equal, always.states[-1], once.states[-1])


@every_algorithm
def test_a_run_is_the_beginning_of_a_longer_one(name):
    policy = EVERY[name][0]
    short, long = train_every(name, plan(policy, steps=STEPS // 2)), train_every(name)
    np.testing.assert_array_equal(short.w, long.w[: STEPS // 2 + 1])
    np.testing.assert_array_equal(short.model, long.model[: STEPS // 2 + 1])
    assert moves(long)


# Bad reports.

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
        made = table.table_of(*given)
        return made if made.corrupt is not None else made._replace(corrupt=0 * made.slot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "table_of", table_of)
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
    impatient = {BUFFERED: {"client_timeout": 4.0}, WAITS: {"late_seconds": 3.0},
                 REMEMBERS: {"late_rounds": 1}}.get(policy, {})  # fmt: skip
    given = plan(policy._replace(**impatient))
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
    told = by_interpreter(
        task, policy, TABLE, algorithm, client, seed=SEED, steps=STEPS, teachers=K
    )
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
        by_interpreter(TASK, policy, TABLE, algorithm, client, seed=SEED, steps=STEPS, teachers=K,
                       coordinator=kind)
        for kind in (Coordinator, Echo)
    )  # fmt: skip
    jax.tree.map(np.testing.assert_array_equal, once.state, twice.state)
    assert once.step_times == twice.step_times and once.counts["duplicate"] == 0
    reports = sum(once.counts.values())
    assert twice.counts == {**once.counts, "duplicate": reports} and reports > 2 * STEPS


@pytest.mark.parametrize("policy", [OVER_SELECTED, WAITS, REMEMBERS, BUFFERED])
def test_the_interpreter_counts_the_fates_of_the_schedule(policy):
    given, zero, delay = plan(policy), {"w": jnp.zeros(())}, table_latency(TABLE, SIZES)
    first, then = (
        (policy.concurrency, policy.buffer) if policy is BUFFERED else (policy.cohort,) * 2
    )

    def choose(group):
        start = first + (group - 1) * then if group else 0
        return given.client[start : first + group * then].tolist()

    told = interpret(
        Coordinator(fedavg(optax.sgd(0.0)), policy, zero, choose,
                    lambda staleness, client: 1.0, lambda dispatch, version: -1),
        lambda order: zero, lambda d, c: float(delay(d, np.array([c])).seconds[0]), STEPS,
    )  # fmt: skip
    counts = {fate.name.lower(): int(np.sum(given.fate == fate)) for fate in Fate}
    assert told.dispatches == len(given.client) and told.step_times == given.time.tolist()
    assert told.counts["on_time"] == counts["on_time"] > 0
    assert told.counts["late"] == counts["late"] and (counts["late"] > 0) == (
        policy in (WAITS, REMEMBERS)
    )
