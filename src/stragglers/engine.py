"""The compiled program: takes the server through a range of steps, with nothing stored in vain.

    one_by_one      clients outside, local steps inside: what a CPU likes
    in_lanes        a tick is one local step of every lane, a span some ticks until a client ends;
                    lanes that end one then hand its delta over and start the next, of any trial
                    whose model for it is there; others wait for that trial's turn

Either way a delta is added into its bucket as soon as it is there, in a fixed order. After its last
one a trial has its turn: a server step of its own. Between two legs (see lanes.py) everything is in
one immutable `Carry`. Servers have a leading axis of trials. With several devices each trains its
own lanes into its own buckets (see mesh.py).
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
    """All that is in flight between two legs."""

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
    """(carry, feed, first, last) -> carry after legs first to last; the old one is gone."""
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
    lanes = (feed.table.lane_begin.shape[1] - 1) // devices.size(code.mesh)
    leg = one_by_one if lanes == feed.seed.size == 1 else in_lanes
    return jax.lax.fori_loop(first, last, partial(leg, code, feed), carry)


def server_step(code: Code, table: Table, turn: jax.Array, carry: Carry) -> Carry:
    """Of the trial whose turn it is, on what its buckets hold."""
    algorithm, total = code.algorithm, partial(devices.total, code.mesh)
    trial, slot, late_begin, late_end = trees.row(table.turn, turn)
    on_time, buckets = _take(carry.buckets, slot)
    state, opened = algorithm.step(_state_of(carry, trial), total(on_time))
    if algorithm.settles == "by_round":
        late, buckets = _take(buckets, table.late_slot[late_begin])
        state = algorithm.settle(state, opened, total(late), table.late_round[late_begin])
    elif algorithm.settles == "at_arrival":

        def one_bucket(b: jax.Array, parts: tuple[State, Sum]) -> tuple[State, Sum]:
            state, buckets = parts
            late, buckets = _take(buckets, table.late_slot[b])
            return algorithm.settle(state, None, total(late), table.late_round[b]), buckets

        state, buckets = jax.lax.fori_loop(late_begin, late_end, one_bucket, (state, buckets))
    if carry.dropped.size == 1:
        return Carry(jax.tree.map(lambda x: x[None], state), buckets, carry.dropped)
    return Carry(trees.set_trial(carry.server, trial, state), buckets, carry.dropped)


def one_by_one(code: Code, feed: Feed, leg: jax.Array, carry: Carry) -> Carry:
    """A server step of a single trial: trains its clients in the order of dispatch."""
    table, server = feed.table, trees.row(carry.server, 0)
    begin, end = _own_lanes(code, table, leg)
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
    buckets, lost = jax.lax.fori_loop(begin[0], end[0], one_client, (carry.buckets, nobody))
    dropped = carry.dropped + devices.total(code.mesh, lost)
    return server_step(code, table, leg, carry._replace(buckets=buckets, dropped=dropped))


class _Lane(NamedTuple):
    """One lane, or all of them: leaves [lanes, ...]."""

    runs: jax.Array  # or waits for a model, or is done
    place: jax.Array  # in the order of rows
    step: jax.Array  # local steps done by its client
    batch: Batch
    params: Params
    teacher: Params


def in_lanes(code: Code, feed: Feed, leg: jax.Array, carry: Carry) -> Carry:
    """A leg of all trials: as many clients at once as there are lanes, each trial at its pace."""
    client, table, data, trials = code.client, feed.table, feed.data, feed.seed.size
    algorithm, local = code.algorithm, local_sgd(code.lesson, client)
    begin, end = _own_lanes(code, table, leg)

    def model_of(carry: Carry, row: jax.Array) -> Params:
        return algorithm.params(_state_of(carry, table.trial[row]))

    def seed_of(row: jax.Array) -> jax.Array:
        return feed.seed[table.trial[row]]

    def row_at(place: jax.Array) -> jax.Array:
        return table.order[jnp.minimum(place, table.order.size - 1)]

    @jax.vmap
    def batches(row: jax.Array, step: jax.Array) -> Batch:
        return local.batch(seed_of(row), trees.row(table.job, row), step)

    def teachers(carry: Carry, rows: jax.Array) -> Params:
        """One for each lane where the algorithm has its own; else nobody needs a copy."""
        if not (algorithm.teaches and client.distillation):
            return None

        def one(row: jax.Array) -> Params:
            state = _state_of(carry, table.trial[row])
            return algorithm.broadcast(state, trees.row(table.starting, row)).teacher

        return jax.vmap(one)(rows)

    def turn(e: jax.Array, parts: tuple[_Lane, Carry]) -> tuple[_Lane, Carry]:
        lane, carry = parts
        models = _for_each(algorithm.params, trials)(carry.server)

        @jax.vmap
        def sgd(lane: _Lane, row: jax.Array) -> Params:
            # Lanes that wait or are done go on with anything: nobody takes what they make.
            model, job = model_of(carry, row), trees.row(table.job, row)
            sent = Download(model, model if lane.teacher is None else lane.teacher)
            return local.sgd(data, seed_of(row), sent, job, lane.step, lane.params, lane.batch)

        def tick(_: jax.Array, lane: _Lane) -> _Lane:
            row = row_at(lane.place)
            params, step = sgd(lane, row), lane.step + 1
            return lane._replace(params=params, step=step, batch=batches(row, step))

        def span(s: jax.Array, parts: tuple[_Lane, Sum, jax.Array]) -> Any:
            lane, buckets, lost = parts
            lane = jax.lax.fori_loop(0, table.spans[s], tick, lane)
            row = row_at(lane.place)
            steps = table.job.steps[row]
            ends = lane.runs & (lane.step >= jnp.maximum(steps, 1))
            place = jnp.where(ends, lane.place + 1, lane.place)
            following = row_at(place)
            starts = (ends | ~lane.runs) & (place < end) & (table.opens[following] <= e)
            params, buckets, good = hand_over(lane.params, buckets, models, Ending(
                ends, starts, table.trial[row], table.trial[following], table.slot[row],
                table.weight[row], steps == 0,
                None if table.corrupt is None else table.corrupt[row],
            ))  # fmt: skip
            bad = (jnp.arange(trials)[:, None] == table.trial[row]) & ends & ~good
            step = jnp.where(starts, 0, lane.step)
            if (teacher := lane.teacher) is not None:  # where nobody starts, none is fetched
                fetch = partial(teachers, carry)
                teacher = jax.lax.cond(starts.any(), fetch, lambda _: lane.teacher, following)
            runs = starts | (lane.runs & ~ends)
            lane = _Lane(runs, place, step, batches(following, step), params, teacher)
            return lane, buckets, lost + bad.sum(1, dtype=jnp.int32)

        lane, buckets, lost = jax.lax.fori_loop(
            table.span_begin[e], table.span_begin[e + 1], span,
            (lane, carry.buckets, jnp.zeros_like(carry.dropped)),
        )  # fmt: skip
        dropped = carry.dropped + devices.total(code.mesh, lost)
        carry = carry._replace(buckets=buckets, dropped=dropped)
        return lane, server_step(code, table, e, carry)

    row, zero = row_at(begin), jnp.zeros_like(begin)
    first = table.turn_begin[leg]
    lane = _Lane(
        (begin < end) & (table.opens[row] <= first), begin, zero, batches(row, zero),
        jax.vmap(partial(model_of, carry))(row), teachers(carry, row),
    )  # fmt: skip
    if trials == 1:  # whose legs have one turn each
        return turn(first, (lane, carry))[1]
    return jax.lax.fori_loop(first, table.turn_begin[leg + 1], turn, (lane, carry))[1]


def _own_lanes(code: Code, table: Table, leg: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where each lane of this device begins and ends in a leg."""
    count = (table.lane_begin.shape[1] - 1) // devices.size(code.mesh)
    first = devices.number(code.mesh) * count
    bounds = jax.lax.dynamic_slice(table.lane_begin[leg], (first,), (count + 1,))
    return bounds[:-1], bounds[1:]


def _state_of(carry: Carry, trial: jax.Array) -> State:
    """A trial's own; of one that is alone a slice, which a CPU reads faster than a gather."""
    if carry.dropped.size == 1:
        return trees.row(carry.server, 0)
    return trees.of_trial(carry.server, trial)


def _for_each(function: Callable[..., Any], trials: int) -> Callable[..., Any]:
    """A function of one trial's state, over all of them."""
    if trials > 1:
        return jax.vmap(function)
    return lambda server: jax.tree.map(lambda x: x[None], function(trees.row(server, 0)))


def _take(buckets: Sum, slot: jax.Array) -> tuple[Sum, Sum]:
    """The sum in a slot, and the buckets with that empty again."""
    taken = trees.row(buckets, slot)
    return taken, trees.set_row(buckets, slot, trees.zeros_like(taken))


def _add(buckets: Sum, slot: jax.Array, report: Sum) -> Sum:
    return trees.set_row(buckets, slot, trees.add(trees.row(buckets, slot), report))
