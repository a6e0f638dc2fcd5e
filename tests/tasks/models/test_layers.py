import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from stragglers.tasks.models import layers
from tests.support.numerics import close

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)


def normal(*shape: int) -> jax.Array:
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


def same_both_ways(ours, reference, *inputs: jax.Array) -> None:
    """Outputs agree, and so do gradients with respect to every input."""
    gradient = normal(*jax.eval_shape(reference, *inputs).shape)

    @partial(jax.jit, static_argnums=0)
    def both_ways(layer, *inputs):
        output, back = jax.vjp(layer, *inputs)
        return output, back(gradient)

    close(both_ways(ours, *inputs), both_ways(reference, *inputs))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("size", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2), (7, 2)])
@pytest.mark.parametrize("side", [9, 10])
def test_convolution_is_the_library_one(padding, size, stride, side):
    x, kernel, bias = normal(2, side, side, 3), normal(size, size, 3, 4), normal(4)

    def ours(x, kernel, bias):
        layer = {"kernel": kernel, "bias": bias}
        return layers.convolution(layer, x, stride=stride, padding=padding)

    def reference(x, kernel, bias):
        numbers = ("NHWC", "HWIO", "NHWC")
        strides = (stride, stride)
        y = lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=numbers)
        return y + bias

    same_both_ways(ours, reference, x, kernel, bias)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("window", "stride"), [(2, 2), (3, 2)])
@pytest.mark.parametrize("side", [6, 7])
def test_max_pool_is_the_library_one(padding, window, stride, side):
    x = normal(2, side, side, 3) - 5  # negative, so that padding with zeros would show

    def ours(x):
        return layers.max_pool(x, window, stride, padding)

    def reference(x):
        dims, strides = (1, window, window, 1), (1, stride, stride, 1)
        return lax.reduce_window(x, -jnp.inf, lax.max, dims, strides, padding)

    same_both_ways(ours, reference, x)


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_group_norm_standardises_each_group_of_each_image(groups):
    x = 3 * normal(2, 5, 5, 8) + 1
    layer = {"scale": normal(8), "bias": normal(8)}
    expected = np.empty(x.shape)
    for image in range(2):
        for group in np.split(np.arange(8), groups):
            values = np.asarray(x, np.float64)[image][..., group]
            expected[image][..., group] = (values - values.mean()) / np.sqrt(values.var() + 1e-3)
    expected = expected * np.asarray(layer["scale"]) + np.asarray(layer["bias"])
    close(layers.group_norm(layer, x, groups), expected)


def numpy_lstm(layer, x, forget_bias=0.0, mask=None):
    """One time step after the other, float64."""
    weights = {name: np.asarray(value, np.float64) for name, value in layer.items()}
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    batch, time, _ = x.shape
    h = c = np.zeros((batch, weights["recurrent"].shape[0]))
    outputs = []
    for t in range(time):
        gates = x[:, t] @ weights["input"] + h @ weights["recurrent"] + weights["bias"]
        i, g, f, o = np.split(gates, 4, axis=1)
        new_c = sigmoid(f + forget_bias) * c + sigmoid(i) * np.tanh(g)
        new_h = sigmoid(o) * np.tanh(new_c)
        moves = np.ones((batch, 1), bool) if mask is None else np.asarray(mask)[:, t, None]
        h, c = np.where(moves, new_h, h), np.where(moves, new_c, c)
        outputs.append(h)
    return np.stack(outputs, axis=1)


@pytest.mark.parametrize("forget_bias", [0.0, 1.0])
@pytest.mark.parametrize("masked", [False, True])
def test_lstm_step_by_step(forget_bias, masked):
    layer = {"input": normal(3, 20), "recurrent": normal(5, 20), "bias": normal(20)}
    x = normal(2, 6, 3)
    mask = jnp.asarray(RNG.random((2, 6)) < 0.6) if masked else None
    actual = layers.lstm(layer, x, forget_bias=forget_bias, mask=mask)
    close(actual, numpy_lstm(layer, np.asarray(x), forget_bias, mask))


def test_dropout_is_off_without_a_key_and_its_own_with_each():
    x = jnp.ones((3, 7, 5))  # 105 values: not a multiple of the four that share a word
    one, two = jax.random.split(KEY)
    dropped = layers.dropout(x, 0.25, one)
    assert layers.dropout(x, 0.25, None) is x
    assert (dropped == layers.dropout(x, 0.25, one)).all()
    assert (dropped != layers.dropout(x, 0.25, two)).any()


@pytest.mark.parametrize("rate", [0.0, 0.25, 0.5])
def test_dropout_keeps_the_expectation(rate):
    x = jnp.ones((400, 1000))
    dropped = layers.dropout(x, rate, KEY)
    close(np.unique(dropped), np.array([1.0] if rate == 0 else [0, 1 / (1 - rate)]), 1e-7)
    deviation = math.sqrt(rate / (1 - rate))  # of one value
    assert abs(dropped.mean() - 1) <= 4 * deviation / math.sqrt(x.size)
    # No column, and no place in the word that four values share, is favoured.
    assert abs(dropped.mean(0) - 1).max() <= 5 * deviation / math.sqrt(400)
    shares = dropped.reshape(-1, 4).mean(0)
    assert abs(shares - 1).max() <= 4 * deviation / math.sqrt(x.size / 4)


def test_dropout_draws_are_independent():
    """Of their neighbours, those of the word beside included, and of other keys' at the place."""
    keys = jax.random.split(KEY, 64)
    kept = np.asarray(jax.vmap(lambda key: layers.dropout(jnp.ones(4096), 0.5, key))(keys)) - 1
    for shift in (1, 2, 3, 4, 5, 8, 64, 128):
        agreement = (kept[:, shift:] * kept[:, :-shift]).mean()
        assert abs(agreement) <= 4 / math.sqrt(kept[:, shift:].size)
    between = kept @ kept.T / 4096  # of two keys
    assert abs(between[~np.eye(64, dtype=bool)]).max() <= 5 / math.sqrt(4096)


@pytest.mark.parametrize("rate", [-0.25, 0.1, 1.0])
def test_dropout_refuses_what_a_byte_cannot_decide(rate):
    with pytest.raises(ValueError, match=f"dropout rate {rate}"):
        layers.dropout(jnp.ones(3), rate, KEY)


CUT = 0.87962566103423978  # sd of N(0, 1) cut at two sd


@pytest.mark.parametrize(
    ("initializer", "deviation", "largest"),
    [
        (layers.glorot_uniform, math.sqrt(2 / (900 + 1800)), math.sqrt(6 / (900 + 1800))),
        (layers.he_normal, math.sqrt(2 / 900), 2 / CUT * math.sqrt(2 / 900)),
        (layers.haiku, CUT / math.sqrt(900), 2 / math.sqrt(900)),
        (layers.truncated_normal, CUT, 2.0),
        (layers.small_uniform, 0.1 / math.sqrt(12), 0.05),
        (layers.small_normal, 0.01, 0.06),
    ],
)
def test_initializers(initializer, deviation, largest):
    kernel = initializer(KEY, (3, 3, 100, 200), jnp.float32)  # fan-in 900, fan-out 1800
    assert kernel.dtype == jnp.float32
    assert abs(kernel.mean()) < 4 * deviation / math.sqrt(kernel.size)
    assert kernel.std() == pytest.approx(deviation, rel=0.01)
    assert abs(kernel).max() <= largest * (1 + 1e-6)
    if initializer is not layers.small_normal:
        assert abs(kernel).max() >= largest * 0.99


def test_orthogonal_has_orthonormal_rows():
    kernel = layers.orthogonal(KEY, (30, 120), jnp.float32)
    close(kernel @ kernel.T, np.eye(30))
