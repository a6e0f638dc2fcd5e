"""The compiled program: takes the server through a range of steps, with nothing stored in vain.

    one_by_one      clients outside, local steps inside: what a CPU likes
    in_lanes        a tick is one local step of every lane, a span some ticks until a client ends;
                    lanes that end one then hand its delta over and start the next, of any trial

Either way a delta is added into its bucket as soon as it is there, in a fixed order. Between two
server steps everything is in one immutable `Carry`. Servers have a leading axis of trials. With
several devices each trains its own lanes into its own buckets (see mesh.py).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from stragglers import mesh as devices
from stragglers import trees
from stragglers.algorithms.base import Algorithm, Download, Params, State, Sum
from stragglers.client import Batch, Client, Data, local_sgd, local_training
from stragglers.handover import Ending, corrupted, hand_over
from stragglers.programs import compiled
from stragglers.table import Table, rounded
from stragglers.tasks.base import Lesson, Task


class Carry(NamedTuple):
    """All that is in flight between two server steps."""

    server: State  # leaves [trials, ...]
    buckets: Sum  # leaves [devices * (trials * slots + 1), ...]; the last of each stays empty
    dropped: jax.Array  # [trials]: clients whose delta was not finite


class Feed(NamedTuple):
    """What a program reads and never changes."""

    table: Table
    data: Data
    seed: jax.Array  # [trials]


class Code(NamedTuple):
    """What a program is made of."""

    lesson: Lesson
    algorithm: Algorithm
    client: Client
    mesh: Mesh | None = None


def start(algorithm: Algorithm, params: Params, slots: int, mesh: Mesh | None = None) -> Carry:
    """The state before the first server step; leaves of `params` are [trials, ...]."""
    one = trees.row(params, 0)
    zero = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
    trials = jax.tree.leaves(params)[0].shape[0]
    empty = Sum(one, zero, jnp.zeros((), jnp.int32))
    buckets = trees.zero_rows(empty, devices.size(mesh) * (trials * rounded(slots) + 1))
    server, dropped = jax.vmap(algorithm.init)(params), jnp.zeros(trials, jnp.int32)
    return Carry(
        devices.on_all(mesh, server), devices.split(mesh, buckets), devices.on_all(mesh, dropped)
    )


def program(
    task: Task,
    algorithm: Algorithm,
    client: Client,
    carry: Carry,
    feed: Feed,
    mesh: Mesh | None = None,
) -> jax.stages.Compiled:
    """(carry, feed, first, last) -> carry after server steps first to last; the old one is gone."""
    code = Code(task.lesson, algorithm, client, mesh)
    return compiled(_advance, (code,), carry, feed, np.int32(0), np.int32(0))


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def _advance(code: Code, carry: Carry, feed: Feed, first: jax.Array, last: jax.Array) -> Carry:
    same, split = devices.SAME, devices.SPLIT
    pieces = Carry(same, split, same)  # pyright: ignore[reportArgumentType]
    arguments = (pieces, same, same, same)
    return devices.everywhere(code.mesh, partial(_walk, code), arguments, pieces)(
        carry, feed, first, last
    )


def _walk(code: Code, carry: Carry, feed: Feed, first: jax.Array, last: jax.Array) -> Carry:
    table, algorithm = feed.table, code.algorithm
    trials, total = feed.seed.size, partial(devices.total, code.mesh)
    lanes = (table.lane_begin.shape[1] - 1) // devices.size(code.mesh)
    train = one_by_one if lanes == trials == 1 else in_lanes
    step, settle = _for_each(algorithm.step, trials), _for_each(algorithm.settle, trials)

    def server_step(v: jax.Array, carry: Carry) -> Carry:
        buckets, lost = train(code, feed, v, carry)
        dropped = carry.dropped + total(lost)
        on_time, buckets = _take(buckets, table.on_time_slot[v])
        server, opened = step(carry.server, total(on_time))
        if algorithm.settles == "by_round":
            late, buckets = _take(buckets, table.late_slot[v])
            server = settle(server, opened, total(late), table.late_round[v])
        elif algorithm.settles == "at_arrival":

            def one_bucket(b: jax.Array, parts: tuple[State, Sum]) -> tuple[State, Sum]:
                server, buckets = parts
                late, buckets = _take(buckets, table.late_slot[b])
                return settle(server, None, total(late), table.late_round[b]), buckets

            server, buckets = jax.lax.fori_loop(
                table.late_begin[v], table.late_begin[v + 1], one_bucket, (server, buckets)
            )
        return Carry(server, buckets, dropped)

    return jax.lax.fori_loop(first, last, server_step, carry)


def one_by_one(code: Code, feed: Feed, v: jax.Array, carry: Carry) -> tuple[Sum, jax.Array]:
    """Trains the clients of version v, of one trial, in the order of dispatch; counts the lost."""
    table, server = feed.table, trees.row(carry.server, 0)
    begin, end = _own_lanes(code, table, v)
    train = local_training(code.lesson, code.client)

    def one_client(place: jax.Array, parts: tuple[Sum, jax.Array]) -> tuple[Sum, jax.Array]:
        buckets, lost = parts
        i = table.order[place]
        job, starting = trees.row((table.job, table.starting), i)
        sent = code.algorithm.broadcast(server, starting)
        delta = train(feed.data, feed.seed[0], sent, job)
        if table.corrupt is not None:
            delta = corrupted(table.corrupt[i], delta)
        good = trees.finite(delta)
        report = Sum(trees.scale(table.weight[i], delta), table.weight[i], jnp.int32(1))
        report = trees.where(good, report, trees.zeros_like(report))
        return _add(buckets, table.slot[i], report), lost + ~good

    nobody = jnp.zeros_like(carry.dropped)
    return jax.lax.fori_loop(begin[0], end[0], one_client, (carry.buckets, nobody))


class _Lane(NamedTuple):
    """One lane, or all of them: leaves [lanes, ...]."""

    place: jax.Array  # in the order of rows
    step: jax.Array  # local steps done by its client
    batch: Batch
    params: Params
    teacher: Params


def in_lanes(code: Code, feed: Feed, v: jax.Array, carry: Carry) -> tuple[Sum, jax.Array]:
    """Trains the clients of version v, as many at once as there are lanes; counts the lost."""
    algorithm, client, table, data = code.algorithm, code.client, feed.table, feed.data
    local = local_sgd(code.lesson, client)
    trials = feed.seed.size
    begin, end = _own_lanes(code, table, v)

    def server_of(row: jax.Array) -> State:
        return trees.row(carry.server, table.trial[row] if trials > 1 else 0)

    def model_of(row: jax.Array) -> Params:
        return algorithm.params(server_of(row))

    def seed_of(row: jax.Array) -> jax.Array:
        return feed.seed[table.trial[row]]

    def row_at(place: jax.Array) -> jax.Array:
        return table.order[jnp.minimum(place, table.order.size - 1)]

    @jax.vmap
    def batches(row: jax.Array, step: jax.Array) -> Batch:
        return local.batch(seed_of(row), trees.row(table.job, row), step)

    @jax.vmap
    def teachers(row: jax.Array) -> Params:
        """One for each lane where the algorithm has its own; else nobody needs a copy."""
        if not (algorithm.teaches and client.distillation):
            return None
        return algorithm.broadcast(server_of(row), trees.row(table.starting, row)).teacher

    @jax.vmap
    def sgd(lane: _Lane, row: jax.Array) -> Params:
        # Lanes that are done go on with anything: nobody takes what they make.
        model, job = model_of(row), trees.row(table.job, row)
        sent = Download(model, model if lane.teacher is None else lane.teacher)
        return local.sgd(data, seed_of(row), sent, job, lane.step, lane.params, lane.batch)

    def tick(_: jax.Array, lane: _Lane) -> _Lane:
        row = row_at(lane.place)
        params, step = sgd(lane, row), lane.step + 1
        return lane._replace(params=params, step=step, batch=batches(row, step))

    def span(s: jax.Array, parts: tuple[_Lane, Sum, jax.Array]) -> tuple[_Lane, Sum, jax.Array]:
        lane, buckets, lost = parts
        lane = jax.lax.fori_loop(0, table.spans[s], tick, lane)
        row = row_at(lane.place)
        steps = table.job.steps[row]
        ends = (lane.place < end) & (lane.step >= steps)
        place, step = jnp.where(ends, lane.place + 1, lane.place), jnp.where(ends, 0, lane.step)
        following, starts = row_at(place), ends & (place < end)
        params, buckets, good = hand_over(lane.params, buckets, models, Ending(
            ends, starts, table.trial[row], table.trial[following], table.slot[row],
            table.weight[row], steps == 0, None if table.corrupt is None else table.corrupt[row],
        ))  # fmt: skip
        bad = (jnp.arange(trials)[:, None] == table.trial[row]) & ends & ~good
        lost = lost + bad.sum(1, dtype=jnp.int32)
        if (teacher := lane.teacher) is not None:  # where nobody starts, none is fetched
            teacher = jax.lax.cond(starts.any(), teachers, lambda _: lane.teacher, following)
        return _Lane(place, step, batches(following, step), params, teacher), buckets, lost

    row, zero = row_at(begin), jnp.zeros_like(begin)
    models = _for_each(algorithm.params, trials)(carry.server)
    lane = _Lane(begin, zero, batches(row, zero), jax.vmap(model_of)(row), teachers(row))
    parts = (lane, carry.buckets, jnp.zeros_like(carry.dropped))
    first, last = table.span_begin[v], table.span_begin[v + 1]
    _, buckets, lost = jax.lax.fori_loop(first, last, span, parts)
    return buckets, lost


def _own_lanes(code: Code, table: Table, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where each lane of this device begins and ends in version v."""
    count = (table.lane_begin.shape[1] - 1) // devices.size(code.mesh)
    first = devices.number(code.mesh) * count
    bounds = jax.lax.dynamic_slice(table.lane_begin[v], (first,), (count + 1,))
    return bounds[:-1], bounds[1:]


def _for_each(function: Callable[..., Any], trials: int) -> Callable[..., Any]:
    """A function of one trial, over all of them."""
    if trials > 1:
        return jax.vmap(function)

    def alone(*arguments: Any) -> Any:  # a slice, which a CPU reads faster than vmap's gather
        return _with_axis(function(*trees.row(arguments, 0)))

    return alone


def _with_axis(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[None], tree)


def _take(buckets: Sum, slot: jax.Array) -> tuple[Sum, Sum]:
    """Each trial's sum in the slot it names, and the buckets with those empty again."""
    if slot.size > 1:
        taken = trees.row(buckets, slot)
        return taken, trees.set_row(buckets, slot, trees.zeros_like(taken))
    taken = trees.row(buckets, slot[0])
    return _with_axis(taken), trees.set_row(buckets, slot[0], trees.zeros_like(taken))


def _add(buckets: Sum, slot: jax.Array, report: Sum) -> Sum:
    return trees.set_row(buckets, slot, trees.add(trees.row(buckets, slot), report))
