"""Every algorithm on one small task, and how two runs of one are compared: step by step."""

from contextlib import nullcontext
from functools import cache, partial

import numpy as np
import optax
import pytest

from stragglers.algorithms.base import with_ema
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.feast import feast
from stragglers.algorithms.fedavg import fedavg, semi_async
from stragglers.planning.policy import Buffer, Rounds
from stragglers.planning.report_weights import report_weights
from stragglers.planning.schedule import Fate
from stragglers.simulator.local_training import Local
from tests.support.helpers import linear_task, path, plan_for, traced

SEED, STEPS, K, DECAY = 3, 12, 3, 0.8
ADAM = optax.adam(0.05, b2=0.99, eps=1e-3)
FEDAVG, SEMI_ASYNC, FARE_DUST = fedavg(ADAM), semi_async(ADAM), fare_dust(ADAM, k=K)
FEDAVG_EMA, FARE_DUST_EMA = with_ema(FEDAVG, DECAY), with_ema(FARE_DUST, DECAY)
CLIENT = Local(learning_rate=0.2, batch_size=4)
TAUGHT = CLIENT._replace(distillation=0.5)

OVER_SELECTED = Rounds(goal=3, cohort=5)
WAITS = Rounds(goal=3, cohort=5, late_seconds=6.0)
REMEMBERS = Rounds(goal=3, cohort=5, late_rounds=K)
BUFFERED = Buffer(size=3, concurrency=6)


@cache
def feasting(beta, kappa):
    return feast(ADAM, beta=beta, kappa=kappa)


# beta and kappa: the paper's kind, the two ends of kappa, and no memory at all.
FEASTS = [(0.9, 0.3), (DECAY, 0.0), (DECAY, 1.0), (0.0, 0.2), (0.0, 0.7)]

EVERY = {
    "fedavg": (OVER_SELECTED, FEDAVG, CLIENT),
    "fedbuff": (BUFFERED, FEDAVG, CLIENT),
    "semi-async": (REMEMBERS, SEMI_ASYNC, CLIENT),
    "fare-dust": (REMEMBERS, FARE_DUST, TAUGHT),
    "feast": (WAITS, feasting(0.9, 0.3), CLIENT),
}
BY_EXAMPLES = partial(report_weights, by="examples")
every_algorithm = pytest.mark.parametrize("name", EVERY)


def latencies(seed=1):
    """Ties, zeros and a long tail."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(60) < 0.5, rng.integers(0, 5, 60), rng.lognormal(1, 1, 60))


TASK, TABLE = linear_task(), latencies()
SIZES = TASK.population.examples
ORDER = np.random.default_rng(5).permutation(np.repeat(np.arange(9), 8))  # of clients who start


def plan(policy, table=TABLE, *, order=None, steps=STEPS, seed=SEED, task=TASK):
    """A schedule; `order` says which clients start, one after another."""
    with traced(order) if order is not None else nullcontext():
        return plan_for(task, policy, table, seed=seed, steps=steps)


def train(given, algorithm, client=CLIENT, *, task=TASK, seed=SEED, **options):
    return path(task, given, algorithm, client, seed=seed, **options)


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
