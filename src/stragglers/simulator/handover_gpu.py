"""Weights between lanes, models and buckets, in kernels for NVIDIA GPUs that touch only what ends.

    squares[lane]  = |model - params|^2               of lanes that end, of others zero
    bucket[slot]  += weight * (model - params)        lane after lane
    params[lane]   = model of the client that follows

What bounds them is how long memory takes to answer: so a program, which takes some weights through
all lanes, asks for several lanes before it waits for the first, keeps its sum in registers until
the next bucket begins, and one kernel has many leaves. On an H200 a hand-over of the EMNIST network
takes 0.056 ms where one of 27 lanes ends (in plain jax 0.39) and 0.94 ms where 200 of 200 do (2.8).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from stragglers.algorithms.base import Params
from stragglers.tasks.models import pallas

BLOCK = 1024  # weights of one program
STRIDE = 4  # lanes that it asks for at once
TOGETHER = 8  # leaves of one kernel: launches cost, and so do large programs

Leaves = list[jax.Array]  # [rows, weights]


class Walk(NamedTuple):
    """Lanes in the order in which they are taken: those touched first, by bucket; columns."""

    lane: jax.Array
    trial: jax.Array  # whose model its client had
    slot: jax.Array  # of its bucket, or -1: nothing is taken
    weight: jax.Array
    follows: jax.Array  # whose model its next client has, or -1: it stays as it is


def squares(ends: jax.Array, trial: jax.Array, params: Params, models: Params) -> jax.Array:
    """|model - params|^2 of each lane that ends."""
    parts = [_squares(ends, trial, *leaves) for leaves in _groups(params, models)]
    return jnp.concatenate(parts, axis=1).sum(1)


def moved(
    walk: Walk, touched: jax.Array, params: Params, models: Params, sums: Params
) -> tuple[Params, Params]:
    """Params of the lanes and sums of the buckets after the walk; `touched`: how many lanes."""
    # Up to whole strides: what is added takes nothing and gives nothing.
    nothing = {"slot": -1, "follows": -1}
    walk = Walk(
        *(
            jnp.pad(column, (0, -column.size % STRIDE), constant_values=nothing.get(name, 0))
            for name, column in walk._asdict().items()
        )
    )
    done = [_moved(walk, touched, *leaves) for leaves in _groups(params, models, sums)]
    return (
        _like(params, [leaf for group, _ in done for leaf in group]),
        _like(sums, [leaf for _, group in done for leaf in group]),
    )


def _squares(ends: jax.Array, trial: jax.Array, params: Leaves, models: Leaves) -> jax.Array:
    sizes, count = [leaf.shape[1] for leaf in params], len(params)
    shape = (ends.size, sum(pl.cdiv(size, 4 * BLOCK) for size in sizes))

    def kernel(ends_ref: Any, trial_ref: Any, *refs: Any) -> None:
        lane, block, out_ref = pl.program_id(0), pl.program_id(1), refs[-1]

        def of_leaf(leaf: int, column: jax.Array) -> None:
            there = (column < sizes[leaf]) & (ends_ref[lane] > 0)  # else nothing is read
            mine = triton.load(refs[leaf].at[lane, column], mask=there, other=0)
            sent = triton.load(refs[count + leaf].at[trial_ref[lane], column], mask=there, other=0)
            out_ref[lane, block] = jnp.sum(jnp.square(sent - mine))

        _in_its_leaf(block, 4 * BLOCK, sizes, of_leaf)

    return pallas.call(
        kernel,
        grid=shape,
        out_specs=pallas.whole(shape),
        out_shape=jax.ShapeDtypeStruct(shape, jnp.float32),
    )(ends.astype(jnp.int32), trial.astype(jnp.int32), *params, *models)


def _moved(
    walk: Walk, touched: jax.Array, params: Leaves, models: Leaves, sums: Leaves
) -> tuple[Leaves, Leaves]:
    sizes, count = [leaf.shape[1] for leaf in params], len(params)
    # The last of a bucket stores its sum; what is not taken comes after all that is.
    stores = walk.slot != jnp.append(walk.slot[1:], -1)
    columns = [c if c.dtype == jnp.float32 else c.astype(jnp.int32) for c in (*walk, stores)]

    def kernel(touched_ref: Any, *refs: Any) -> None:
        rest = len(columns)
        m_refs = refs[rest : rest + count]
        p_refs, s_refs = refs[-2 * count : -count], refs[-count:]

        def of_leaf(leaf: int, column: jax.Array) -> None:
            m_ref, p_ref, s_ref = m_refs[leaf], p_refs[leaf], s_refs[leaf]
            real = column < sizes[leaf]

            def load(ref: Any, row: jax.Array, mask: jax.Array) -> jax.Array:
                return triton.load(ref.at[jnp.maximum(row, 0), column], mask=real & mask, other=0)

            def stride(s: jax.Array, parts: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
                before, total = parts
                lanes = [[ref[s * STRIDE + i] for ref in refs[:rest]] for i in range(STRIDE)]
                asked = [
                    (
                        load(p_ref, lane, slot >= 0),
                        load(m_ref, trial, slot >= 0),
                        load(m_ref, follows, follows >= 0),
                    )
                    for lane, trial, slot, _, follows, _ in lanes
                ]
                for (lane, _, slot, weight, follows, stores), (mine, sent, new) in zip(
                    lanes, asked, strict=True
                ):
                    begins = (slot >= 0) & (slot != before)
                    total = jnp.where(begins, load(s_ref, slot, begins), total)
                    total += weight * (sent - mine)
                    done = real & (slot >= 0) & (stores > 0)
                    triton.store(s_ref.at[jnp.maximum(slot, 0), column], total, mask=done)
                    triton.store(p_ref.at[lane, column], new, mask=real & (follows >= 0))
                    before = slot
                return before, total

            nothing = jnp.int32(-1), jnp.zeros(BLOCK, jnp.float32)
            jax.lax.fori_loop(0, pl.cdiv(touched_ref[0], STRIDE), stride, nothing)

        _in_its_leaf(pl.program_id(0), BLOCK, sizes, of_leaf)

    changed = [*params, *sums]
    first = 1 + len(columns) + count
    out = pallas.call(
        kernel,
        grid=(sum(pl.cdiv(size, BLOCK) for size in sizes),),
        in_place={first + i: i for i in range(len(changed))},
        out_specs=[pallas.whole(leaf.shape) for leaf in changed],
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in changed],
    )(touched[None], *columns, *models, *changed)
    return out[:count], out[count:]


def _in_its_leaf(
    program: jax.Array, block: int, sizes: list[int], of_leaf: Callable[[int, jax.Array], None]
) -> None:
    """Calls for the leaf in which this program's block lies, with its columns."""
    begin = 0
    for leaf, size in enumerate(sizes):
        end = begin + pl.cdiv(size, block)
        column = (program - begin) * block + jnp.arange(block)
        pl.when((program >= begin) & (program < end))(partial(of_leaf, leaf, column))
        begin = end


def _groups(*each: Params) -> list[tuple[Leaves, ...]]:
    """Leaves of the same place in each tree, as rows, so many at a time."""
    leaves = [[x.reshape(x.shape[0], -1) for x in jax.tree.leaves(tree)] for tree in each]
    return [
        tuple(part[i : i + TOGETHER] for part in leaves) for i in range(0, len(leaves[0]), TOGETHER)
    ]


def _like(tree: Params, rows: Leaves) -> Params:
    leaves, structure = jax.tree.flatten(tree)
    shaped = [row.reshape(leaf.shape) for row, leaf in zip(rows, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)
