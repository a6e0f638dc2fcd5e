"""Sums, means and averages, on numbers that are seen through."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from stragglers.algorithms.base import Mean, Sum, with_ema
from stragglers.algorithms.fedavg import fedavg


def summed(delta, weight, reports):
    return Sum({"w": jnp.array([delta])}, jnp.array(weight), jnp.int32(reports))


@pytest.mark.parametrize("weight", [0.25, 1.0, 3.0])  # stale reports may weigh less than one
def test_a_mean_is_divided_by_what_it_says(weight):
    total = summed(6.0, weight, 2)
    means = {by: float(Mean(by)(total)["w"][0]) for by in ("weight", "count", "sum")}
    assert means == {"weight": 6.0 / weight, "count": 3.0, "sum": 6.0}


@pytest.mark.parametrize("by", ["weight", "count", "sum"])
def test_the_mean_of_nobody_is_zero(by):
    assert float(Mean(by)(summed(0.0, 0.0, 0))["w"][0]) == 0


def test_an_average_moves_with_one_report_and_not_with_none():
    algorithm = with_ema(fedavg(optax.sgd(1.0)), 0.75)
    state = algorithm.init({"w": jnp.array([8.0])})
    state, _ = algorithm.step(state, summed(4.0, 1.0, 1))
    np.testing.assert_allclose(algorithm.params(state)["w"], 4.0)
    np.testing.assert_allclose(algorithm.model(state)["w"], 0.75 * 8 + 0.25 * 4)
    again, _ = algorithm.step(state, summed(0.0, 0.0, 0))
    np.testing.assert_array_equal(algorithm.model(again)["w"], algorithm.model(state)["w"])
