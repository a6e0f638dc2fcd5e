"""A small dense network for images, for tasks that should be quick on two cores."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from stragglers.models.base import Model, Params


def mlp(hidden: Sequence[int], classes: int, pool: int = 2, side: int = 28) -> Model:
    """Average-pools [batch, side, side] by `pool`, then dense layers with ReLU between them."""
    small = side // pool
    widths = [small * small, *hidden, classes]

    def init(key: jax.Array) -> Params:
        keys = jax.random.split(key, len(widths) - 1)
        return [
            {"w": jax.random.normal(k, (i, o)) * np.sqrt(2 / i), "b": jnp.zeros(o)}
            for k, i, o in zip(keys, widths[:-1], widths[1:], strict=True)
        ]

    def apply(params: Params, x: jax.Array, key: jax.Array | None) -> jax.Array:
        del key
        # The mean as a sum of strided slices: XLA's reductions over short axes are slow on CPUs.
        corners = [x[:, i::pool, j::pool] for i in range(pool) for j in range(pool)]
        x = (sum(corners) / len(corners)).reshape(-1, small * small)
        for layer in params[:-1]:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        return x @ params[-1]["w"] + params[-1]["b"]

    return Model(init, apply)
