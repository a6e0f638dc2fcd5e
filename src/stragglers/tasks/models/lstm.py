"""The StackOverflow next-word network: 4,050,748 parameters.

    [batch, time] int32                  token ids, 0 is padding; time is 20
    embedding   10,004 x 96
    lstm        670 units                [batch, time, 670]
    project     670 -> 96
    predict     96 -> 10,004             logits of the next token, [batch, time, 10004]

                       fedjax                                 afo
    before projecting  tanh                                   nothing
    forget gate        constant +1                            its bias starts at 1
    padding            runs through the LSTM                  leaves its state as it is
    embedding          N(0, 1) cut at 2 sd                    U(-0.05, 0.05)
    kernels            Haiku's default                        Glorot uniform, orthogonal recurrent

Gates are stored as i, g, f, o. Haiku multiplies [x, h] by one matrix, so its fan-in is 96 + 670.
"""

import jax
import jax.numpy as jnp

from stragglers.tasks.models import layers
from stragglers.tasks.models.base import Model, Params, Profile

PAD = 0
KERNELS = {"fedjax": layers.haiku, "afo": layers.glorot_uniform}
EMBEDDINGS = {"fedjax": layers.truncated_normal, "afo": layers.small_uniform}


def lstm(
    profile: Profile = "fedjax", vocabulary: int = 10_004, embedding: int = 96, units: int = 670
) -> Model:
    """Builds the network."""
    kernel = KERNELS[profile]
    published_by_fedjax = profile == "fedjax"

    def init(key: jax.Array) -> Params:
        embed, cell, project, predict = jax.random.split(key, 4)
        return {
            "embedding": EMBEDDINGS[profile](embed, (vocabulary, embedding), jnp.float32),
            "lstm": haiku_cell(cell) if published_by_fedjax else keras_cell(cell),
            "project": layers.weights(kernel, project, units, embedding),
            "predict": layers.weights(kernel, predict, embedding, vocabulary),
        }

    def haiku_cell(key: jax.Array) -> layers.Layer:
        joint = kernel(key, (embedding + units, 4 * units), jnp.float32)
        bias = jnp.zeros(4 * units, jnp.float32)
        return {"input": joint[:embedding], "recurrent": joint[embedding:], "bias": bias}

    def keras_cell(key: jax.Array) -> layers.Layer:
        input_key, recurrent_key = jax.random.split(key)
        zero, one = jnp.zeros(units, jnp.float32), jnp.ones(units, jnp.float32)
        return {
            "input": kernel(input_key, (embedding, 4 * units), jnp.float32),
            "recurrent": layers.orthogonal(recurrent_key, (units, 4 * units), jnp.float32),
            "bias": jnp.concatenate([zero, zero, one, zero]),
        }

    def apply(params: Params, x: jax.Array, key: jax.Array | None) -> jax.Array:
        del key  # nothing is dropped
        embedded = params["embedding"][x]
        if published_by_fedjax:
            states = jnp.tanh(layers.lstm(params["lstm"], embedded, forget_bias=1.0))
        else:
            states = layers.lstm(params["lstm"], embedded, mask=x != PAD)
        return layers.dense(params["predict"], layers.dense(params["project"], states))

    return Model(init, apply)
