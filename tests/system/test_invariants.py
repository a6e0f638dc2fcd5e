"""What must hold whatever the numbers are: gradient descent, and what must not matter.

Weights are compared at every server step, bit by bit where two runs share their arithmetic and to
1e-12 in double precision where they do not; each identity has its opposite.
"""

import jax
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from stragglers.algorithms.fedavg import fedavg
from stragglers.planning.policy import Rounds
from stragglers.planning.report_weights import report_weights
from stragglers.planning.schedule import Fate
from stragglers.simulator.local_training import Local
from tests.support.every import (
    BY_EXAMPLES,
    EVERY,
    FEDAVG,
    ORDER,
    OVER_SELECTED,
    SIZES,
    STEPS,
    TABLE,
    TASK,
    WAITS,
    assert_same,
    differ,
    every_algorithm,
    moves,
    plan,
    train,
    train_every,
)
from tests.support.helpers import linear_task

pytestmark = pytest.mark.usefixtures("double_precision")

# Centralised training.

WHOLE = Local(learning_rate=0.3, batch_size=9, last_batch="keep")  # one batch is all of a client
PLAIN = fedavg(optax.sgd(1.0))


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
        x=TASK.x[mine],
        y=TASK.y[mine],
        offsets=np.concatenate([[0], np.cumsum(SIZES[old])]),
    )
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
        policy = structs.replace(WAITS, late_seconds=WAITS.late_seconds * by)
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
