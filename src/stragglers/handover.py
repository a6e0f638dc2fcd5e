"""Hand-over: lanes that end a client give its delta away and start their next one.

    delta         = model - params          of a lane that ends; the model that its client was sent
    good          = |delta|^2 is finite     a client without examples is good: its delta is zero
    bucket[slot] += weight * delta          of the good ones, in a fixed order
    params        = model                   of the lane's next client, if it has one

With sizes that differ some lane ends at nearly every tick, while its neighbours are under way.
`all_at_once` reads and writes every lane several times. `in_place`, for NVIDIA GPUs, touches only
the lanes that end: it reads them twice and writes them once.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jax.flatten_util import ravel_pytree

from stragglers import kernels, trees
from stragglers.algorithms.base import Params, Sum

BLOCK = 1024  # weights of one program


class Ending(NamedTuple):
    """What happens in every lane; columns over lanes."""

    ends: jax.Array  # whether its client ends here
    starts: jax.Array  # whether another one follows
    trial: jax.Array  # whose server the client has its model from
    next_trial: jax.Array
    slot: jax.Array  # of its bucket
    weight: jax.Array
    idle: jax.Array  # it had no examples
    corrupt: jax.Array | None  # what happened to its report; see rows.Rows.corrupt


def hand_over(
    params: Params, buckets: Sum, models: Params, lanes: Ending
) -> tuple[Params, Sum, jax.Array]:
    """Params of the lanes and buckets after it, and which lanes were good."""
    kernel = kernels.run_here() and lanes.corrupt is None
    fits = all(leaf.dtype == jnp.float32 and leaf.size < 2**31 for leaf in jax.tree.leaves(params))
    return (in_place if kernel and fits else all_at_once)(params, buckets, models, lanes)


def all_at_once(
    params: Params, buckets: Sum, models: Params, lanes: Ending
) -> tuple[Params, Sum, jax.Array]:
    """One product for all lanes, in plain jax."""
    # All leaves in one row: one product and one sum, however many they are.
    delta = jax.vmap(lambda tree: ravel_pytree(tree)[0])(
        trees.subtract(_of(models, lanes.trial), params)
    )
    idle = lanes.idle
    if lanes.corrupt is not None:
        delta, idle = jax.vmap(corrupted)(lanes.corrupt, delta), idle & (lanes.corrupt == 0)
    good = idle | jax.vmap(trees.finite)(delta)
    counted = lanes.ends & good
    delta = jnp.where((counted & ~idle)[:, None], delta, 0)  # 0 * NaN is NaN
    weights = jnp.where(_places(buckets, lanes, counted), lanes.weight[None], 0)
    total = jnp.matmul(weights.astype(delta.dtype), delta, precision=jax.lax.Precision.HIGHEST)
    _, unflat = ravel_pytree(trees.row(buckets.delta, 0))
    sums = trees.add(buckets.delta, jax.vmap(unflat)(total))
    return (
        _choose(lanes.starts, _of(models, lanes.next_trial), params),
        _counted(buckets, sums, lanes, counted),
        good,
    )


def in_place(
    params: Params, buckets: Sum, models: Params, lanes: Ending
) -> tuple[Params, Sum, jax.Array]:
    """Kernels that walk the lanes that end."""
    structure = jax.tree.structure(params)
    leaves = [
        [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(tree)]
        for tree in (params, models, buckets.delta)
    ]
    squares = sum(_squares(lanes.ends, lanes.trial, p, m) for p, m, _ in zip(*leaves, strict=True))
    good = lanes.idle | jnp.isfinite(squares)
    counted = lanes.ends & good
    columns = (
        lanes.ends.sum(dtype=jnp.int32)[None],
        jnp.argsort(~lanes.ends, stable=True).astype(jnp.int32),  # first those that end
        lanes.trial,
        jnp.where(counted & ~lanes.idle, lanes.slot, -1).astype(jnp.int32),
        lanes.weight,
        jnp.where(lanes.starts, lanes.next_trial, -1).astype(jnp.int32),
    )
    pairs = [_moved(columns, *three) for three in zip(*leaves, strict=True)]
    flat = (jax.tree.unflatten(structure, part) for part in zip(*pairs, strict=True))
    params, sums = jax.tree.map(
        lambda new, old: new.reshape(old.shape), tuple(flat), (params, buckets.delta)
    )
    return params, _counted(buckets, sums, lanes, counted), good


def _squares(ends: jax.Array, trial: jax.Array, params: jax.Array, models: jax.Array) -> jax.Array:
    """|delta|^2 of the lanes that end, of others zero."""
    count, size = params.shape
    blocks = pl.cdiv(size, 4 * BLOCK)

    def kernel(ends_ref: Any, trial_ref: Any, p_ref: Any, m_ref: Any, out_ref: Any) -> None:
        lane, block = pl.program_id(0), pl.program_id(1)
        column = block * 4 * BLOCK + jnp.arange(4 * BLOCK)
        there = (column < size) & (ends_ref[lane] > 0)  # nothing is read where that is false
        sent = triton.load(m_ref.at[trial_ref[lane], column], mask=there, other=0)
        delta = sent - triton.load(p_ref.at[lane, column], mask=there, other=0)
        out_ref[lane, block] = jnp.sum(jnp.square(delta))

    shape = (count, blocks)
    parts = kernels.call(
        kernel, grid=shape, out_specs=kernels.whole(shape),
        out_shape=jax.ShapeDtypeStruct(shape, params.dtype),
    )(ends.astype(jnp.int32), trial, params, models)  # fmt: skip
    return parts.sum(1)


def _moved(
    columns: tuple[jax.Array, ...], params: jax.Array, models: jax.Array, buckets: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """One leaf of the lanes and of the buckets: a program takes its weights through all lanes."""
    size = params.shape[1]

    def kernel(
        count_ref: Any, ended_ref: Any, trial_ref: Any, takes_ref: Any, weight_ref: Any,
        gives_ref: Any, m_ref: Any, _p: Any, _b: Any, p_ref: Any, b_ref: Any,
    ) -> None:  # fmt: skip
        column = pl.program_id(0) * BLOCK + jnp.arange(BLOCK)
        real = column < size

        def one(i: jax.Array, nothing: jax.Array) -> jax.Array:
            lane = ended_ref[i]
            slot, follows = takes_ref[lane], gives_ref[lane]
            taken, given = real & (slot >= 0), real & (follows >= 0)
            sent = triton.load(m_ref.at[trial_ref[lane], column], mask=taken, other=0)
            mine = triton.load(p_ref.at[lane, column], mask=taken, other=0)
            bucket = b_ref.at[jnp.maximum(slot, 0), column]
            before = triton.load(bucket, mask=taken, other=0)
            triton.store(bucket, before + weight_ref[lane] * (sent - mine), mask=taken)
            sends = triton.load(m_ref.at[jnp.maximum(follows, 0), column], mask=given, other=0)
            triton.store(p_ref.at[lane, column], sends, mask=given)
            return nothing

        jax.lax.fori_loop(0, count_ref[0], one, jnp.int32(0))

    given = (*columns, models, params, buckets)
    lanes, sums = len(given) - 2, len(given) - 1
    return kernels.call(
        kernel, grid=(pl.cdiv(size, BLOCK),), in_place={lanes: 0, sums: 1},
        out_specs=[kernels.whole(params.shape), kernels.whole(buckets.shape)],
        out_shape=[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (params, buckets)],
    )(*given)  # fmt: skip


def corrupted(how: jax.Array, delta: Params) -> Params:
    """What arrives of a report that is damaged on its way; see rows.Rows.corrupt."""
    value = jnp.array([0.0, jnp.nan, jnp.inf, 1e38])[how]  # 1e38: finite, its square is not
    return jax.tree.map(lambda x: jnp.where(how > 0, value.astype(x.dtype), x), delta)


def _places(buckets: Sum, lanes: Ending, counted: jax.Array) -> jax.Array:
    """[slots, lanes]: which lane goes into which bucket."""
    slots = jnp.arange(buckets.weight.shape[0])
    return (slots[:, None] == lanes.slot[None]) & counted[None]


def _counted(buckets: Sum, delta: Params, lanes: Ending, counted: jax.Array) -> Sum:
    """The buckets with new deltas, and weights and reports of those that count."""
    places = _places(buckets, lanes, counted)
    weight = jnp.where(places, lanes.weight[None], 0).sum(1).astype(buckets.weight.dtype)
    return Sum(delta, buckets.weight + weight, buckets.reports + places.sum(1, dtype=jnp.int32))


def _of(models: Params, trial: jax.Array) -> Params:
    """Each lane's model; with one trial all have the same, and nothing is gathered."""
    one = jax.tree.leaves(models)[0].shape[0] == 1
    return jax.tree.map(
        lambda m: jnp.broadcast_to(m, (trial.size, *m.shape[1:])) if one else m[trial], models
    )


def _choose(lanes: jax.Array, yes: Params, no: Params) -> Params:
    """Lane by lane, one tree or the other."""
    return jax.tree.map(
        lambda a, b: jnp.where(lanes.reshape(-1, *[1] * (a.ndim - 1)), a, b), yes, no
    )
