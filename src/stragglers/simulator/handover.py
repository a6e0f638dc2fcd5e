"""Hand-over: lanes that end a client give its delta away and start their next one.

    delta         = model - params          of a lane that ends; the model that its client was sent
    good          = |delta|^2 is finite     a client without examples is good: its delta is zero
    bucket[slot] += weight * delta          of the good ones, in a fixed order; and bucket[again]
    params        = model                   of the client that the lane starts, if it does

With sizes that differ some lane ends at nearly every tick, while its neighbours are under way.
`all_at_once` reads and writes every lane several times. `in_place`, for NVIDIA GPUs, touches only
the lanes that end: it reads them twice and writes them once (`handover_gpu.py`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from stragglers.algorithms import trees
from stragglers.algorithms.base import Params, Sum
from stragglers.simulator import handover_gpu
from stragglers.tasks.models import pallas


class Ending(NamedTuple):
    """What happens in every lane; columns over lanes."""

    ends: jax.Array  # whether its client ends here
    starts: jax.Array  # whether another one starts: after it, or where the lane has waited
    trial: jax.Array  # whose server the client has its model from
    next_trial: jax.Array
    slot: jax.Array  # of its bucket
    weight: jax.Array
    idle: jax.Array  # it had no examples
    corrupt: jax.Array | None  # what happened to its report; see rows.Rows.corrupt
    again: jax.Array | None = None  # of the bucket that keeps it until it is replaced


def hand_over(
    params: Params, buckets: Sum, models: Params, lanes: Ending
) -> tuple[Params, Sum, jax.Array]:
    """Params of the lanes and buckets after it, and which lanes were good."""
    kernel = pallas.run_here() and lanes.corrupt is None and lanes.again is None
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
    good = lanes.idle | jnp.isfinite(handover_gpu.squares(lanes.ends, lanes.trial, params, models))
    counted = lanes.ends & good
    taken = counted & ~lanes.idle
    # Those that are touched first, by bucket, and in it by lane.
    touched, last = taken | lanes.starts, jnp.iinfo(jnp.int32).max
    key = jnp.where(taken, lanes.slot, jnp.where(touched, last - 1, last))
    order = jnp.argsort(key.astype(jnp.int32), stable=True)
    walk = handover_gpu.Walk(
        lane=order,
        trial=lanes.trial[order],
        slot=jnp.where(taken, lanes.slot, -1)[order],
        weight=lanes.weight[order],
        follows=jnp.where(lanes.starts, lanes.next_trial, -1)[order],
    )
    count = touched.sum(dtype=jnp.int32)
    params, sums = handover_gpu.moved(walk, count, params, models, buckets.delta)
    return params, _counted(buckets, sums, lanes, counted), good


def corrupted(how: jax.Array, delta: Params) -> Params:
    """What arrives of a report that is damaged on its way; see rows.Rows.corrupt."""
    value = jnp.array([0.0, jnp.nan, jnp.inf, 1e38])[how]  # 1e38: finite, its square is not
    return jax.tree.map(lambda x: jnp.where(how > 0, value.astype(x.dtype), x), delta)


def _places(buckets: Sum, lanes: Ending, counted: jax.Array) -> jax.Array:
    """[slots, lanes]: which lane goes into which bucket."""
    slots = jnp.arange(buckets.weight.shape[0])
    places = slots[:, None] == lanes.slot[None]
    if lanes.again is not None:
        places |= slots[:, None] == lanes.again[None]
    return places & counted[None]


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
