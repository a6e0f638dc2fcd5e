"""Servers of all trials: what is in flight between two legs, and the server step of one trial.

    on time    what its bucket holds -> step
    late       at arrival: every bucket that is due -> settle; by round: the round's own
    replaced   what the clients of the reports on time had reported before -> step

Servers have a leading axis of trials. With several devices each has its own buckets, and what they
hold is summed where it is taken (see device_mesh.py).
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from stragglers.algorithms import trees
from stragglers.algorithms.base import Algorithm, Params, State, Sum
from stragglers.algorithms.trees import Tree
from stragglers.simulator import device_mesh as devices
from stragglers.simulator.device_table import Table, power_of_two, rounded
from stragglers.simulator.memory import check_buckets


class Carry(NamedTuple):
    """All that is in flight between two legs."""

    server: State  # leaves [trials, ...]
    buckets: Sum  # leaves [devices * (trials * slots + 1), ...]; the last of each stays empty
    # By server step, so that what they tell does not depend on when a run is looked at.
    dropped: jax.Array  # [devices * trials, steps]: clients of each whose delta was not finite
    finite: jax.Array  # [trials]: how many left finite weights; after one that does not, none does


def start(
    algorithm: Algorithm, params: Params, slots: int, steps: int, mesh: Mesh | None = None
) -> Carry:
    """The state before the first of `steps`; leaves of `params` are [trials, ...]."""
    one = trees.row(params, 0)
    zero = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
    trials = jax.tree.leaves(params)[0].shape[0]
    empty = Sum(one, zero, jnp.zeros((), jnp.int32))
    each = trials * rounded(slots) + 1
    check_buckets(each, one)
    buckets = trees.zero_rows(empty, devices.size(mesh) * each)
    dropped = jnp.zeros((devices.size(mesh) * trials, power_of_two(steps)), jnp.int32)
    return Carry(
        server=devices.on_all(mesh, jax.vmap(algorithm.init)(params)),
        buckets=devices.split(mesh, buckets),
        dropped=devices.split(mesh, dropped),
        finite=devices.on_all(mesh, jnp.zeros(trials, jnp.int32)),
    )


def server_step(
    algorithm: Algorithm, table: Table, turn: jax.Array, carry: Carry, mesh: Mesh | None
) -> Carry:
    """Of the trial whose turn it is, on what its buckets hold."""
    total = partial(devices.total, mesh)
    trial, slot, late_begin, late_end, stalest = trees.row(table.turn, turn)
    if algorithm.settles == "replaced":  # both at once: the buckets are copied once at most
        slot = jnp.stack([slot, table.late_slot[late_begin]])
    taken, buckets = _take(carry.buckets, slot)
    on_time = total(taken)
    if algorithm.staleness:
        on_time = on_time._replace(staleness=stalest)
    if algorithm.settles == "replaced":
        on_time, before = trees.row(on_time, 0), trees.row(on_time, 1)
        on_time = on_time._replace(replaced=before.delta)
    state, opened = algorithm.step(state_of(carry, trial), on_time)
    if algorithm.settles == "by_round":
        late, buckets = _take(buckets, table.late_slot[late_begin])
        state = algorithm.settle(state, opened, total(late), table.late_round[late_begin])
    after = _with_state(carry._replace(buckets=buckets), trial, state)

    def one_bucket(b: jax.Array, carry: Carry) -> Carry:
        late, buckets = _take(carry.buckets, table.late_slot[b])
        state = algorithm.settle(state_of(carry, trial), None, total(late), table.late_round[b])
        return _with_state(carry._replace(buckets=buckets), trial, state)

    if algorithm.settles == "at_arrival":
        after = jax.lax.fori_loop(late_begin, late_end, one_bucket, after)
    finite = _all_finite(algorithm.params(state_of(after, trial)))
    return after._replace(finite=after.finite.at[trial].add(finite))


def state_of(carry: Carry, trial: jax.Array) -> State:
    """A trial's own; of one that is alone a slice, which a CPU reads faster than a gather."""
    if carry.finite.size == 1:
        return trees.row(carry.server, 0)
    return trees.of_trial(carry.server, trial)


def _with_state(carry: Carry, trial: jax.Array, state: State) -> Carry:
    if carry.finite.size == 1:
        return carry._replace(server=_with_axis(state))
    return carry._replace(server=trees.set_trial(carry.server, trial, state))


def models_of(algorithm: Algorithm, carry: Carry) -> Params:
    """What clients of each trial start from; leaves [trials, ...]."""
    if carry.finite.size == 1:
        return _with_axis(algorithm.params(trees.row(carry.server, 0)))
    return jax.vmap(algorithm.params)(carry.server)


def _all_finite(tree: Params) -> jax.Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))


def _take(buckets: Sum, slot: jax.Array) -> tuple[Sum, Sum]:
    """The sum in a slot, and the buckets with that empty again."""
    taken = trees.row(buckets, slot)
    return taken, trees.set_row(buckets, slot, trees.zeros_like(taken))


def add(buckets: Sum, slot: jax.Array, report: Sum) -> Sum:
    return trees.set_row(buckets, slot, trees.add(trees.row(buckets, slot), report))


def _with_axis(tree: Tree) -> Tree:
    return jax.tree.map(lambda x: x[None], tree)
