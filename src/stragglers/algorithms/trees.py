"""Pytrees as words: the few operations that algorithms are written in.

`rows` means trees whose leaves have one more leading axis.

Example:
    >>> import stragglers as st
    >>> st.trees.blend(0.75, {"w": 4.0}, {"w": 8.0})  # decay * old + (1 - decay) * new
    {'w': 5.0}
"""

from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Tree = TypeVar("Tree")
Index: TypeAlias = "jax.Array | int | tuple[jax.Array, Index]"


def zeros_like(tree: Tree) -> Tree:
    return jax.tree.map(jnp.zeros_like, tree)


def add(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(jnp.add, a, b)


def subtract(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(jnp.subtract, a, b)


def scale(factor: jax.Array | float, tree: Tree) -> Tree:
    return jax.tree.map(lambda x: jnp.asarray(factor, x.dtype) * x, tree)


def blend(decay: float, old: Tree, new: Tree) -> Tree:
    """decay * old + (1 - decay) * new."""
    return jax.tree.map(lambda a, b: decay * a + (1 - decay) * b, old, new)


def where(condition: jax.Array, yes: Tree, no: Tree) -> Tree:
    """One tree or the other, whole; a NaN in the one not taken stays there."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def cast(tree: Tree, dtype: jax.typing.DTypeLike) -> Tree:
    """Its floating-point leaves in another precision."""

    def one(x: jax.Array) -> jax.Array:
        return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x

    return jax.tree.map(one, tree)


def finite(tree: Any) -> jax.Array:
    """Whether its sum of squares is, in float32: what overflows there is not worth keeping."""
    leaves = [
        jnp.sum(jnp.square(x.astype(jnp.promote_types(x.dtype, jnp.float32))))
        for x in jax.tree.leaves(tree)
    ]
    return jnp.isfinite(jnp.asarray(sum(leaves)).astype(jnp.float32))


class Shelf(NamedTuple):
    """Rows that each trial has of its own, too many to be copied out to it and back."""

    rows: Any  # leaves [rows, ...]; of several trials [trials, rows, ...]
    trial: jax.Array | None = None  # of several, the one that looks

    def place(self, index: Index) -> Index:
        return index if self.trial is None else (self.trial, index)


def zero_rows(tree: Tree, rows: int) -> Tree:
    return jax.tree.map(lambda x: jnp.zeros((rows, *x.shape), x.dtype), tree)


def row(rows: Any, index: Index) -> Any:
    if isinstance(rows, Shelf):
        rows, index = rows.rows, rows.place(index)
    return jax.tree.map(lambda x: x[index], rows)


def set_row(rows: Tree, index: Index, tree: Any) -> Tree:
    if isinstance(rows, Shelf):
        return rows._replace(rows=set_row(rows.rows, rows.place(index), tree))
    return jax.tree.map(lambda x, y: x.at[index].set(y), rows, tree)


def of_trial(tree: Tree, trial: jax.Array) -> Tree:
    """What one of several trials has; of a shelf, a view."""
    return jax.tree.map(
        lambda x: Shelf(x.rows, trial) if isinstance(x, Shelf) else x[trial],
        tree,
        is_leaf=lambda x: isinstance(x, Shelf),
    )


def set_trial(tree: Tree, trial: jax.Array, own: Tree) -> Tree:
    return jax.tree.map(
        lambda x, y: Shelf(y.rows) if isinstance(x, Shelf) else x.at[trial].set(y),
        tree,
        own,
        is_leaf=lambda x: isinstance(x, Shelf),
    )


def index_after(index: jax.Array, count: jax.Array) -> jax.Array:
    """The index itself, but only known once a count is; the count is never negative.

    XLA updates rows in place where it sees that all reads come before the write, and else copies
    them. What the count depends on has read the rows, and so they are not copied.
    """
    return index + jnp.minimum(count, 0)


def named(tree: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Every leaf on the host, by its path: prefix/dense/kernel."""
    leaves, _ = jax.tree.flatten_with_path(tree)
    begins = f"{prefix}/" if prefix else ""
    return {
        begins + jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf)
        for path, leaf in leaves
    }


def from_named(arrays: dict[str, np.ndarray], like: Tree, prefix: str = "") -> Tree:
    """A tree as `like` is, of its leaves by path."""
    return jax.tree.unflatten(
        jax.tree.structure(like), [jnp.asarray(arrays[name]) for name in named(like, prefix)]
    )


def copy(tree: Tree) -> Tree:
    """Fresh buffers: a donated buffer may be named once only."""
    return jax.tree.map(jnp.copy, tree)
