"""Algorithms of one's own: the simulator and the interpreter keep the same contract."""

from typing import NamedTuple

import jax
import numpy as np
import optax
import pytest

from stragglers.algorithms import trees
from stragglers.algorithms.base import BY_WEIGHT, State, descend, nothing_to_settle, with_ema
from stragglers.algorithms.base import Algorithm as Contract
from stragglers.algorithms.fedavg import fedavg
from stragglers.planning.policy import Rounds
from stragglers.planning.schedule import Fate
from stragglers.simulator.local_training import Local
from stragglers.simulator.simulate import simulate
from tests.support.helpers import by_interpreter, linear_task, matrix, plan_for

SEED, STEPS = 3, 12
SGD = optax.sgd(0.7)
LATENCIES = np.random.default_rng(1).integers(0, 9, 60).astype(float)


class Core(NamedTuple):
    params: object
    optimizer: object
    before: object  # w of the step before


def init(params):
    return State(Core(trees.copy(params), SGD.init(params), trees.copy(params)))


def step(state, on_time):
    params, optimizer = descend(SGD, BY_WEIGHT, state.core.params, state.core.optimizer, on_time)
    return State(Core(params, optimizer, state.core.params)), None


def params(state):
    return state.core.params


def ahead(state):
    """Where w goes if it moves once more as it did."""
    return jax.tree.map(lambda w, v: w + 0.5 * (w - v), state.core.params, state.core.before)


def settle(state, opened, late, round):
    """Late reports move the model when they come, a little."""
    moved = trees.subtract(state.core.params, trees.scale(0.1, late.delta))
    return State(state.core._replace(params=moved))


MINE = {
    "starts ahead": Contract(init, step, nothing_to_settle, model=params, params=ahead),
    "teaches the model before": Contract(
        init,
        step,
        nothing_to_settle,
        model=params,
        params=params,
        teach=lambda state, starting: state.core.before,
    ),
    "settles at arrival": Contract(
        init, step, settle, model=params, params=params, settles="at_arrival"
    ),
}
POLICY = Rounds(goal=3, cohort=6, late_rounds=4)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", MINE)
def test_it_is_honoured_everywhere(name, lanes):
    algorithm, client = with_ema(MINE[name], 0.5), Local(0.2, 4, distillation=0.5)
    with jax.enable_x64(True):
        task = linear_task()
        plan = plan_for(task, POLICY, LATENCIES, seed=SEED, steps=STEPS)
        simulated = simulate(task, plan, algorithm, client, seed=SEED, lanes=lanes)
        told = by_interpreter(task, POLICY, LATENCIES, algorithm, client, seed=SEED, steps=STEPS)
        plain = simulate(task, plan, with_ema(fedavg(SGD), 0.5), client, seed=SEED)
    model = matrix(simulated.model)
    np.testing.assert_allclose(model, matrix(algorithm.model(told.state)), rtol=1e-10, atol=1e-10)
    assert np.abs(model - matrix(plain.model)).max() > 1e-3  # it is another algorithm


def test_all_that_is_late_is_settled_where_there_is_no_history():
    task = linear_task(dtype=np.float32)
    plan = plan_for(task, POLICY, LATENCIES, seed=SEED, steps=STEPS)
    result = simulate(task, plan, MINE["settles at arrival"], Local(0.2, 4), seed=SEED)
    late = (plan.fate == Fate.LATE) & (plan.step < plan.steps)
    assert result.curve[-1].late == np.sum(late) > 10
