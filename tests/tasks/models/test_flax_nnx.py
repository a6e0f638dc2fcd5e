"""Flax modules as models, with the real library."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import stragglers as st
from stragglers._core.errors import BadInput

nnx = pytest.importorskip("flax.nnx")


class Network(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(4, 8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(nnx.relu(self.first(x))))


def normalised(rngs):
    return nnx.BatchNorm(4, rngs=rngs)


X = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)


def test_it_computes_what_the_module_does():
    model = st.nnx_model(Network)
    assert st.nnx_model(Network) is model
    key = jax.random.key(3)
    params = model.init(key)
    assert {*params} == {"first", "last"} and {*params["first"]} == {"kernel", "bias"}
    module = Network(nnx.Rngs(key))
    module.eval()
    np.testing.assert_array_equal(model.apply(params, X, None), module(jnp.asarray(X)))
    some, others = (model.apply(params, X, jax.random.key(seed)) for seed in (0, 1))
    assert (some != others).any() and (some == model.apply(params, X, jax.random.key(0))).all()


def test_it_trains():
    y = X.argmax(axis=1) % 3
    task = st.task(clients=[(X, y)] * 3, test=(X, y), model=st.nnx_model(Network))
    schedule = st.schedule(
        st.Fleet(task.population, st.PER_EXAMPLE), st.Rounds(goal=3, cohort=3), updates=60
    )
    result = st.simulate(task, schedule, st.fedavg(optax.sgd(1.0)), st.Local(0.3, 10))
    assert result.curve[-1].metrics["total_accuracy"] > 0.6


def test_state_that_no_client_sends_back_is_refused():
    with pytest.raises(BadInput, match=r"besides its parameters \(BatchStat\)"):
        st.nnx_model(normalised).init(jax.random.key(0))
