from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from stragglers.tasks.models.cnn import cnn
from tests.support.numerics import check_gradient, close, drawn, output, parameters

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)


def reference(params, x):
    """The network by the library's own convolution and pooling, ReLU before the pool."""

    def convolution(layer, x):
        numbers = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(x, layer["kernel"], (1, 1), "VALID", dimension_numbers=numbers)
        return y + layer["bias"]

    x = jax.nn.relu(convolution(params["conv1"], x[..., None]))
    x = jax.nn.relu(convolution(params["conv2"], x))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(len(x), 9216) @ params["dense1"]["kernel"] + params["dense1"]["bias"]
    return jax.nn.relu(x) @ params["dense2"]["kernel"] + params["dense2"]["bias"]


@pytest.mark.parametrize("profile", ["fedjax", "afo"])
def test_parameters_and_shape(profile):
    assert parameters(cnn(profile)) == 1_206_590
    assert output(cnn(profile), jax.ShapeDtypeStruct((5, 28, 28), np.float32)) == (5, 62)


def test_is_the_library_network():
    model = cnn()
    params = drawn(model)
    x = jnp.asarray(RNG.random((3, 28, 28)), jnp.float32)

    @partial(jax.jit, static_argnums=0)
    def both_ways(network, params):
        logits, back = jax.vjp(lambda params: network(params, x), params)
        return logits, back(jnp.sin(jnp.arange(logits.size, dtype=x.dtype)).reshape(logits.shape))

    close(both_ways(lambda p, x: model.apply(p, x, None), params), both_ways(reference, params))


@pytest.mark.parametrize("key", [None, jax.random.key(3)])
def test_gradient(key):
    check_gradient(cnn(), RNG.random((2, 28, 28)), np.array([0, 61]), key)


def test_dropout_only_with_a_key():
    model = cnn()
    params = drawn(model)
    x = jnp.asarray(RNG.random((2, 28, 28)), jnp.float32)
    one, two = jax.random.split(KEY)
    evaluate = jax.jit(lambda: model.apply(params, x, None))
    train = jax.jit(lambda key: model.apply(params, x, key))
    assert (evaluate() == evaluate()).all()
    assert (train(one) == train(one)).all()
    assert (train(one) != evaluate()).any()
    assert (train(one) != train(two)).any()


def test_profiles_draw_different_weights():
    fedjax, afo = cnn("fedjax").init(KEY), cnn("afo").init(KEY)
    assert fedjax["dense1"]["kernel"].std() == pytest.approx(0.8796 / 96, rel=0.01)
    assert afo["dense1"]["kernel"].std() == pytest.approx((2 / (9216 + 128)) ** 0.5, rel=0.01)
    for params in (fedjax, afo):
        assert all(not layer["bias"].any() for layer in params.values())
