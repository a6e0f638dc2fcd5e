"""What a model is."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax

Params = Any
# The two code bases that published these networks. They differ in how weights are drawn, and the
# LSTM in a few details: FedJAX, and the TensorFlow one of "Adaptive Federated Optimization".
Profile = Literal["fedjax", "afo"]


class Model(NamedTuple):
    init: Callable[[jax.Array], Params]  # from a key
    # Logits of a batch [batch, ...]; a key switches dropout on, None is evaluation.
    apply: Callable[[Params, jax.Array, jax.Array | None], jax.Array]
