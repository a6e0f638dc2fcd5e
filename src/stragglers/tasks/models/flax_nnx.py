"""Modules of Flax's `nnx` as models: parameters as a plain tree, and everything else built anew.

    init(key)             the parameters of build(rngs)
    apply(params, x, key) build(rngs) with these parameters, in evaluation mode if key is None

A client sends back its parameters and nothing else, so a module may hold no other state that
training changes, such as batch statistics.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax

from stragglers._core.errors import BadInput, shown
from stragglers.tasks.models.base import Model, Params


@cache  # equal functions give the same object, and so the same program
def nnx_model(build: Callable[[Any], Any]) -> Model:
    """Makes a model of a Flax `nnx` module.

    Args:
        build: Function of an `nnx.Rngs` that returns the module, such as its class.

    Returns:
        The model; the same function gives the same model.

    Raises:
        BadInput: If Flax is not installed, or the module has state besides its parameters.

    Example:
        >>> import stragglers as st
        >>> from flax import nnx  # doctest: +SKIP
        >>> model = st.nnx_model(lambda rngs: nnx.Linear(8, 3, rngs=rngs))  # doctest: +SKIP
    """
    try:
        from flax import nnx  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise BadInput("nnx_model needs Flax: pip install 'stragglers[flax]'") from None
    if not callable(build):
        raise BadInput(f"build = {shown(build)}: expected a function of nnx.Rngs.")

    def init(key: jax.Array) -> Params:
        _, params, _, rest = nnx.split(build(nnx.Rngs(key)), nnx.Param, nnx.RngState, ...)
        if kinds := sorted({type(leaf).__name__ for _, leaf in nnx.to_flat_state(rest)}):
            raise BadInput(
                f"build: the module has state besides its parameters ({', '.join(kinds)}), which "
                "no client sends back. Use layers without it, such as nnx.GroupNorm."
            )
        return nnx.to_pure_dict(params)

    def apply(params: Params, x: jax.Array, key: jax.Array | None) -> jax.Array:
        module = build(nnx.Rngs(0 if key is None else key))
        nnx.update(module, params)
        module.eval() if key is None else module.train()
        return module(x)

    return Model(init, apply)
