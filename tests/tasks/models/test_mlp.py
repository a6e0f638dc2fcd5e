import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers.tasks.models.mlp import mlp
from tests.support.numerics import check_gradient, close, drawn, output, parameters

RNG = np.random.default_rng(0)


def test_parameters_and_shape():
    assert parameters(mlp()) == 101_534
    assert output(mlp(), jax.ShapeDtypeStruct((3, 28, 28), np.float32)) == (3, 62)
    assert parameters(mlp([], classes=10, pool=4)) == 49 * 10 + 10


def test_pools_before_the_first_layer():
    model = mlp([], classes=5, pool=7)
    params = drawn(model)
    x = RNG.random((2, 28, 28), np.float32)
    means = np.stack(
        [x[:, i : i + 7, j : j + 7].mean((1, 2)) for i in (0, 7, 14, 21) for j in (0, 7, 14, 21)],
        axis=1,
    )
    close(
        model.apply(params, jnp.asarray(x), None), means @ params[0]["kernel"] + params[0]["bias"]
    )


def test_gradient():
    check_gradient(mlp([12, 8], classes=5), RNG.random((3, 28, 28)), np.array([0, 4, 2]))


def test_refuses_a_pool_that_does_not_fit():
    with pytest.raises(ValueError, match="pool=3; expected a divisor of 28"):
        mlp(pool=3)
