"""Kernels for GPUs against the plain form, run by Pallas's interpreter."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers.tasks.models import cnn_gpu, layers, pallas
from stragglers.tasks.models.cnn import cnn, plain
from tests.support.helpers import kernels_for_a_gpu

pytestmark = pytest.mark.usefixtures("hasty_compiler")
LANES, SIDE = 2, 10  # 4x4 pooled pixels an image: a tile of 64 holds several, and is not filled


def drawn(batch, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return jnp.asarray(rng.standard_normal((LANES, *shape)), jnp.float32)

    first = {"kernel": normal(3, 3, 1, 16), "bias": normal(16)}
    second = {"kernel": normal(3, 3, 16, 32) / 12, "bias": normal(32)}
    return first, second, normal(batch, SIDE + 2, SIDE + 2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("batch", [3, 20])
def test_values_and_gradients_of_every_lane(monkeypatch, batch, drops):
    monkeypatch.setattr(pallas, "INTERPRET", True)
    given = drawn(batch)
    shape = (LANES, batch, SIDE // 2 - 1, SIDE // 2 - 1, 32)
    dy = jnp.asarray(np.random.default_rng(1).standard_normal(shape), jnp.float32)
    keys = jax.random.split(jax.random.key(2), LANES)

    def expected_of(first, second, x, key):
        y = jax.nn.relu(plain(first, second["kernel"], x) + second["bias"])
        return layers.dropout(y, 0.5, key if drops else None)

    def found_of(first, second, x, key):
        return cnn_gpu.stem(0.5, first, second, jax.random.key_data(key) if drops else None, x)

    def both_ways(function):
        y, pull = jax.vjp(lambda *given: jax.vmap(function)(*given, keys), *given)
        return y, pull(dy)

    expected, wanted = jax.jit(both_ways, static_argnums=0)(expected_of)
    found, gradients = jax.jit(both_ways, static_argnums=0)(found_of)
    assert (expected == 0).mean() > (0.5 if drops else 0.1)
    np.testing.assert_array_equal(found == 0, expected == 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    for a, b in zip(jax.tree.leaves(gradients[:2]), jax.tree.leaves(wanted[:2]), strict=True):
        assert np.abs(b).max() > 0.1
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert not np.any(gradients[2])  # the images get none


@pytest.mark.slow
def test_the_network_is_the_same_with_the_kernels(monkeypatch):
    model = cnn()
    params = jax.jit(model.init)(jax.random.key(0))
    x = jnp.asarray(np.random.default_rng(0).random((2, 28, 28)), jnp.float32)

    def loss(params):
        return jnp.sum(jnp.square(model.apply(params, x, jax.random.key(1))))

    expected = jax.jit(jax.value_and_grad(loss))(params)
    monkeypatch.setattr(pallas, "INTERPRET", True)
    monkeypatch.setattr(pallas, "run_here", lambda: True)
    found = jax.jit(jax.value_and_grad(lambda params: loss(params)))(params)  # traced anew
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected
    )


def test_a_cpu_takes_the_plain_form():
    if jax.default_backend() == "cpu":
        assert not pallas.run_here()


def test_the_kernels_can_be_lowered_for_a_gpu():
    def loss(first, second, x):
        words = jnp.ones((LANES, 2), jnp.uint32)
        return jnp.sum(jnp.square(jax.vmap(partial(cnn_gpu.stem, 0.25))(first, second, words, x)))

    # activated, pooled, kernel_gradient, first_gradient
    assert kernels_for_a_gpu(jax.grad(loss, argnums=(0, 1)), *drawn(3)) == 4
