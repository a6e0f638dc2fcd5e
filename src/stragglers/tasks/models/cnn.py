"""The EMNIST network: 1,206,590 parameters.

    [batch, 28, 28]                      pixels as the task prepared them
    conv1    3x3, 32       26x26x32      ReLU
    conv2    3x3, 64       24x24x64
    max-pool 2x2           12x12x64      ReLU, dropout 0.25
    dense1   9,216 -> 128                ReLU, dropout 0.5
    dense2   128 -> 62                   logits

The profiles draw weights differently (Haiku's default or Glorot uniform); biases start at zero.
"""

import jax

from stragglers.tasks.models import cnn_cpu, cnn_gpu, layers
from stragglers.tasks.models.base import Model, Params, Profile

DROPPED = 0.25  # of the pooled images
KERNELS = {"fedjax": layers.haiku, "afo": layers.glorot_uniform}


def cnn(profile: Profile = "fedjax", classes: int = 62) -> Model:
    """Builds the network."""
    kernel = KERNELS[profile]

    def init(key: jax.Array) -> Params:
        conv1, conv2, dense1, dense2 = jax.random.split(key, 4)
        return {
            "conv1": layers.weights(kernel, conv1, 3, 3, 1, 32),
            "conv2": layers.weights(kernel, conv2, 3, 3, 32, 64),
            "dense1": layers.weights(kernel, dense1, 12 * 12 * 64, 128),
            "dense2": layers.weights(kernel, dense2, 128, classes),
        }

    def apply(params: Params, x: jax.Array, key: jax.Array | None) -> jax.Array:
        first, second = (None, None) if key is None else jax.random.split(key)
        x = pooled(params["conv1"], params["conv2"], x[..., None], first)
        x = x.reshape(x.shape[0], -1)
        x = jax.nn.relu(layers.dense(params["dense1"], x))
        return layers.dense(params["dense2"], layers.dropout(x, 0.5, second))

    return Model(init, apply)


def pooled(
    first: layers.Layer, second: layers.Layer, x: jax.Array, key: jax.Array | None
) -> jax.Array:
    """Both convolutions, the pool and what follows it, in the form that is fastest here."""
    x = jax.lax.stop_gradient(x)
    if cnn_gpu.serves(x):
        words = None if key is None else jax.random.key_data(key)
        return cnn_gpu.stem(DROPPED, first, second, words, x)
    form = cnn_cpu.stem if cnn_cpu.serves(x) else plain
    # Bias and ReLU commute with the maximum, and after it they are a quarter of the work.
    y = jax.nn.relu(form(first, second["kernel"], x) + second["bias"])
    return layers.dropout(y, DROPPED, key)


def plain(first: layers.Layer, kernel: jax.Array, x: jax.Array) -> jax.Array:
    x = jax.nn.relu(layers.convolution(first, x))
    return layers.max_pool(layers.convolution({"kernel": kernel}, x), window=2, stride=2)
