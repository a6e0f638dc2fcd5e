"""What a model is, and models of the user's own."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple

import jax

from stragglers._core.errors import BadInput, shown

Params = Any
# The two code bases that published these networks. They differ in how weights are drawn, and the
# LSTM in a few details: FedJAX, and the TensorFlow one of "Adaptive Federated Optimization".
Profile = Literal["fedjax", "afo"]


class Model(NamedTuple):
    init: Callable[[jax.Array], Params]  # from a key
    # Logits of a batch [batch, ...]; a key switches dropout on, None is evaluation.
    apply: Callable[[Params, jax.Array, jax.Array | None], jax.Array]


def model(init: Callable[..., Params], apply: Callable[..., jax.Array]) -> Model:
    """Makes a classifier of two pure functions.

    Args:
        init: Function of a key that draws the parameters, a tree of arrays.
        apply: Function of parameters and inputs [batch, ...] that returns logits [batch, classes].
            A third argument is a key for dropout, or None during evaluation.

    Returns:
        The model; equal functions give equal models, which share their compiled programs.

    Raises:
        BadInput: If one of them is no function, or `apply` has neither two nor three arguments.

    Example:
        >>> import jax
        >>> import stragglers as st
        >>> linear = st.model(
        ...     init=lambda key: {"w": jax.random.normal(key, (8, 3))},
        ...     apply=lambda params, x: x @ params["w"],
        ... )
        >>> linear.apply(linear.init(jax.random.key(0)), jax.numpy.ones((2, 8)), None).shape
        (2, 3)
    """
    for name, function in (("init", init), ("apply", apply)):
        if not callable(function):
            raise BadInput(f"{name} = {shown(function)}: expected a function.")
    try:
        signature = inspect.signature(apply)
    except (TypeError, ValueError):  # of a builtin: nothing is known
        return Model(init, apply)
    for number, made in ((3, apply), (2, _without_key(apply))):
        try:
            signature.bind(*range(number))
        except TypeError:
            continue
        return Model(init, made)
    raise BadInput(
        f"apply{signature}: expected arguments (params, x) or (params, x, key). Change its "
        "parameters."
    )


@cache  # equal functions give the same object, and so the same program
def _without_key(apply: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    def keyless(params: Params, x: jax.Array, key: jax.Array | None) -> jax.Array:
        del key
        return apply(params, x)

    return keyless
