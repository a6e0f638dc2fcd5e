"""The layers, as plain functions over parameter dicts, in the form that compiled loops run fast.

    windows(x)[i, j]  = x[i::stride, j::stride]         images are [batch, height, width, channel]
    convolution       = concatenate(windows) @ kernel   [pixels, kh*kw*in] @ [kh*kw*in, out]
    max_pool          = maximum of the windows
    group_norm        = scale * (x - mean) / sqrt(variance + 1e-3) + bias      per image and group
    dropout           = x / (1 - rate) where kept, else 0
    lstm:  i, g, f, o = x @ input + h @ recurrent + bias
           c          = sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(g)
           h          = sigmoid(o) * tanh(c)

Inside a loop XLA's own convolution is about forty times slower than this one on a CPU, and under
`vmap` with a kernel for each client three times slower on a GPU.
"""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import initializers

from stragglers._core.shuffle import hashed
from stragglers.tasks.models.lstm_scan import states

Layer = dict[str, jax.Array]
Initializer = Callable[..., jax.Array]  # (key, shape, dtype)
Padding = Literal["SAME", "VALID"]

EPSILON = 1e-3  # of group_norm

# Keras: the truncated normals are widened so that the truncation leaves the variance as stated.
glorot_uniform: Initializer = initializers.glorot_uniform()
he_normal: Initializer = initializers.he_normal()
orthogonal: Initializer = initializers.orthogonal()


def small_uniform(key: jax.Array, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    """Keras's embedding: uniform on [-0.05, 0.05)."""
    return jax.random.uniform(key, shape, dtype, minval=-0.05, maxval=0.05)


def small_normal(key: jax.Array, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    """The ResNet's head: N(0, 0.01^2)."""
    return jnp.asarray(0.01, dtype) * jax.random.normal(key, shape, dtype)


def truncated_normal(key: jax.Array, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    """Haiku's embedding: N(0, 1) cut at two standard deviations."""
    return jax.random.truncated_normal(key, -2.0, 2.0, shape, dtype)


def haiku(key: jax.Array, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    """Haiku's default: N(0, 1/fan_in) cut at two sd, and not widened for it (sd 0.88 of stated)."""
    fan_in = math.prod(shape[:-1])
    return truncated_normal(key, shape, dtype) / jnp.sqrt(jnp.asarray(fan_in, dtype))


def weights(kernel: Initializer, key: jax.Array, *shape: int, bias: bool = True) -> Layer:
    """Parameters of a dense layer [in, out] or a convolution [height, width, in, out]."""
    layer = {"kernel": kernel(key, shape, jnp.float32)}
    return layer | {"bias": jnp.zeros(shape[-1], jnp.float32)} if bias else layer


def norm_weights(channels: int) -> Layer:
    return {"scale": jnp.ones(channels, jnp.float32), "bias": jnp.zeros(channels, jnp.float32)}


def dense(layer: Layer, x: jax.Array) -> jax.Array:
    """[..., in] -> [..., out]."""
    y = x.reshape(-1, x.shape[-1]) @ layer["kernel"]
    y = y.reshape(*x.shape[:-1], y.shape[-1])
    return y + layer["bias"] if "bias" in layer else y


def windows(
    x: jax.Array, height: int, width: int, stride: int, padding: Padding, fill: float = 0.0
) -> list[jax.Array]:
    """What each place of the window sees: height * width of [batch, rows, columns, channel]."""
    if padding == "SAME":
        pads = [_same(x.shape[1], height, stride), _same(x.shape[2], width, stride)]
        x = jnp.pad(x, [(0, 0), *pads, (0, 0)], constant_values=fill)
    rows, columns = x.shape[1] - height + 1, x.shape[2] - width + 1  # where a window may begin
    return [
        x[:, i : i + rows : stride, j : j + columns : stride]
        for i in range(height)
        for j in range(width)
    ]


def _same(size: int, window: int, stride: int) -> tuple[int, int]:
    """TensorFlow's SAME: ceil(size / stride) outputs, the odd pixel of padding at the end."""
    total = max((-(-size // stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def convolution(
    layer: Layer, x: jax.Array, *, stride: int = 1, padding: Padding = "VALID"
) -> jax.Array:
    """[batch, height, width, in] -> [batch, rows, columns, out]."""
    height, width, _, outputs = layer["kernel"].shape
    patches = jnp.concatenate(windows(x, height, width, stride, padding), axis=-1)
    return dense(layer | {"kernel": layer["kernel"].reshape(-1, outputs)}, patches)


def max_pool(x: jax.Array, window: int, stride: int, padding: Padding = "VALID") -> jax.Array:
    """The largest of each window; outside the image nothing is large."""
    return reduce(jnp.maximum, windows(x, window, window, stride, padding, fill=-np.inf))


def group_norm(layer: Layer, x: jax.Array, groups: int) -> jax.Array:
    """Normalises each image over height, width and each group of neighbouring channels."""
    grouped = x.reshape(*x.shape[:-1], groups, -1)
    centred = grouped - grouped.mean((1, 2, 4), keepdims=True)
    variance = jnp.square(centred).mean((1, 2, 4), keepdims=True)
    normal = (centred * jax.lax.rsqrt(variance + EPSILON)).reshape(x.shape)
    return normal * layer["scale"] + layer["bias"]


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
    """Zeroes a share `rate` of x and scales up the rest; without a key, x itself.

    One byte of a hash decides about one value. It is computed where it is used, while the words of
    `jax.random.bits` go through memory: on an H200 that is 2 % of the CNN's training step.
    """
    threshold = round(rate * 256)
    if threshold != rate * 256 or not 0 <= rate < 1:
        raise ValueError(f"dropout rate {rate}; expected a multiple of 1/256 from 0 to below 1")
    if key is None:
        return x
    place = jnp.arange(x.size, dtype=jnp.uint32).reshape(x.shape)
    return dropped(x, rate, jax.random.key_data(key), place)


def dropped(x: jax.Array, rate: float, words: Any, place: jax.Array) -> jax.Array:
    """Dropout of values at these places of an array, by a key's words."""
    draws = hashed(*words, place >> 2) >> (8 * (place & 3)) & 0xFF
    return jnp.where(draws >= round(rate * 256), x / (1 - rate), jnp.zeros((), x.dtype))


def lstm(
    layer: Layer, x: jax.Array, *, forget_bias: float = 0.0, mask: jax.Array | None = None
) -> jax.Array:
    """[batch, time, in] -> [batch, time, units]; the state stands still where `mask` is off.

    The inputs of all times go through one matrix product; only the recurrent one is in the loop.
    """
    inputs = dense({"kernel": layer["input"], "bias": layer["bias"]}, x)
    moving = None if mask is None else mask.T
    h: Any = states(forget_bias, inputs.swapaxes(0, 1), layer["recurrent"], moving)
    return h.swapaxes(0, 1)
