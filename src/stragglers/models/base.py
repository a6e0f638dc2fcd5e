"""What a model is."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

Params = Any


class Model(NamedTuple):
    init: Callable[[jax.Array], Params]  # from a key
    # Logits of a batch [batch, ...]; a key switches dropout on, None is evaluation.
    apply: Callable[[Params, jax.Array, jax.Array | None], jax.Array]
