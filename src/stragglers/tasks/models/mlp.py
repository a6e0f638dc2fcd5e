"""A small dense network for 28x28 images, quick enough for a demonstration on a laptop.

    [batch, 28, 28] -> mean of pool x pool pixels -> [batch, (28/pool)^2]
                    -> dense, ReLU   for each of `hidden`
                    -> dense         [batch, classes]

With pool 2, hidden (256, 160) and 62 classes: 101,534 parameters.
"""

from collections.abc import Sequence
from functools import reduce

import jax
import jax.numpy as jnp

from stragglers.tasks.models import layers
from stragglers.tasks.models.base import Model, Params

SIDE = 28


def mlp(hidden: Sequence[int] = (256, 160), classes: int = 62, pool: int = 2) -> Model:
    """Builds the network; `pool` divides 28."""
    if pool < 1 or SIDE % pool:
        raise ValueError(f"pool={pool}; expected a divisor of {SIDE}")
    side = SIDE // pool
    widths = [side * side, *hidden, classes]

    def init(key: jax.Array) -> Params:
        keys = jax.random.split(key, len(widths) - 1)
        return [
            layers.weights(layers.he_normal, key, inputs, outputs)
            for key, inputs, outputs in zip(keys, widths[:-1], widths[1:], strict=True)
        ]

    def apply(params: Params, x: jax.Array, key: jax.Array | None) -> jax.Array:
        del key  # nothing is dropped
        # A sum of strided slices: XLA's reductions over short axes are slow on CPUs.
        corners = [x[:, i::pool, j::pool] for i in range(pool) for j in range(pool)]
        x = (reduce(jnp.add, corners) / len(corners)).reshape(-1, side * side)
        for layer in params[:-1]:
            x = jax.nn.relu(layers.dense(layer, x))
        return layers.dense(params[-1], x)

    return Model(init, apply)
