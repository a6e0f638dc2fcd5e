"""Compiled programs, one for every shape of their arguments, made before they run.

So the memory of a program is known before its first step, and running it compiles nothing.
"""

from functools import cache
from typing import Any

import jax


def compiled(function: Any, code: tuple[Any, ...], *arguments: Any) -> jax.stages.Compiled:
    """A jitted function for static arguments `code` and arrays of these shapes."""
    shapes = jax.tree.map(_shape, arguments)
    leaves, structure = jax.tree.flatten(shapes)
    precision = jax.config.jax_default_matmul_precision  # pyright: ignore
    return _compiled(function, code, structure, tuple(leaves), precision)


@cache
def _compiled(
    function: Any, code: tuple[Any, ...], structure: Any, leaves: tuple[Any, ...], precision: Any
) -> jax.stages.Compiled:
    del precision  # part of the key alone
    return function.lower(*code, *jax.tree.unflatten(structure, leaves)).compile()


def forget() -> None:
    """Lets go of all programs, and of JAX's own."""
    _compiled.cache_clear()
    jax.clear_caches()


def _shape(array: Any) -> jax.ShapeDtypeStruct:
    placed = getattr(array, "sharding", None)  # matters where there is more than one place
    several = placed is not None and len(placed.device_set) > 1
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=placed if several else None)


def temporaries(program: jax.stages.Compiled) -> int:
    """Bytes that a program needs besides its arguments and what it gives back in their place."""
    needs = program.memory_analysis()
    if needs is None:  # a backend that does not tell
        return 0
    given_back = needs.output_size_in_bytes - needs.alias_size_in_bytes
    return int(needs.temp_size_in_bytes + given_back)
