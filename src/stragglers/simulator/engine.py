"""The compiled program: takes all servers through a range of legs, with nothing stored in vain.

    one_by_one      clients outside, local steps inside: what a CPU likes
    in_lanes        a tick is one local step of every lane, a span some ticks until a client ends;
                    lanes that end one then hand its delta over and start the next, of any trial
                    whose model for it is there; others wait for that trial's turn

Either way a delta is added into its bucket as soon as it is there, in a fixed order. After its last
one a trial has its turn: a server step of its own. Between two legs (see packing.py) everything is
in one immutable `Carry`. With several devices each trains its own lanes into its own buckets.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from stragglers.algorithms import trees
from stragglers.algorithms.base import Algorithm, Download, Params, Sum, download
from stragglers.simulator import device_mesh as devices
from stragglers.simulator.device_table import Table
from stragglers.simulator.handover import Ending, corrupted, hand_over
from stragglers.simulator.local_training import Batch, Data, Local, local_sgd, local_training
from stragglers.simulator.programs import compiled
from stragglers.simulator.server_step import Carry, add, models_of, server_step, state_of
from stragglers.tasks.base import Lesson, Task


class Feed(NamedTuple):
    """What a program reads and never changes."""

    table: Table
    data: Data
    seed: jax.Array  # [trials]


class Code(NamedTuple):
    """What a program is made of."""

    lesson: Lesson
    algorithm: Algorithm
    local: Local
    mesh: Mesh | None = None


def program(
    task: Task,
    algorithm: Algorithm,
    local: Local,
    carry: Carry,
    feed: Feed,
    mesh: Mesh | None = None,
) -> jax.stages.Compiled:
    """(carry, feed, first, last) -> carry after legs first to last; the old one is gone."""
    code = Code(task.lesson, algorithm, local, mesh)
    return compiled(_advance, (code,), carry, feed, np.int32(0), np.int32(0))


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def _advance(code: Code, carry: Carry, feed: Feed, first: jax.Array, last: jax.Array) -> Carry:
    same, split = devices.SAME, devices.SPLIT
    pieces = Carry(same, split, split, same)  # pyright: ignore[reportArgumentType]
    arguments = (pieces, same, same, same)
    return devices.everywhere(code.mesh, partial(_walk, code), arguments, pieces)(
        carry, feed, first, last
    )


def _walk(code: Code, carry: Carry, feed: Feed, first: jax.Array, last: jax.Array) -> Carry:
    lanes = (feed.table.lane_begin.shape[1] - 1) // devices.size(code.mesh)
    leg = one_by_one if lanes == feed.seed.size == 1 else in_lanes
    return jax.lax.fori_loop(first, last, partial(leg, code, feed), carry)


def one_by_one(code: Code, feed: Feed, leg: jax.Array, carry: Carry) -> Carry:
    """A server step of a single trial: trains its clients in the order of dispatch."""
    table, server = feed.table, trees.row(carry.server, 0)
    begin, end = _own_lanes(code, table, leg)
    train = local_training(code.lesson, code.local)

    def one_client(place: jax.Array, parts: tuple[Sum, jax.Array]) -> tuple[Sum, jax.Array]:
        buckets, lost = parts
        i = table.order[place]
        job, starting = trees.row((table.job, table.starting), i)
        sent = download(code.algorithm, server, starting)
        delta = train(feed.data, feed.seed[0], sent, job)
        if table.corrupt is not None:
            delta = corrupted(table.corrupt[i], delta)
        good = trees.finite(delta)
        report = Sum(trees.scale(table.weight[i], delta), table.weight[i], jnp.int32(1))
        report = trees.where(good, report, trees.zeros_like(report))
        return add(buckets, table.slot[i], report), lost + ~good

    nobody = jnp.zeros(1, jnp.int32)
    buckets, lost = jax.lax.fori_loop(begin[0], end[0], one_client, (carry.buckets, nobody))
    dropped = jax.lax.dynamic_update_index_in_dim(carry.dropped, lost, leg, axis=1)
    return server_step(
        code.algorithm, table, leg, carry._replace(buckets=buckets, dropped=dropped), code.mesh
    )


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
    local, table, data, trials = code.local, feed.table, feed.data, feed.seed.size
    algorithm, sgd = code.algorithm, local_sgd(code.lesson, local)
    begin, end = _own_lanes(code, table, leg)

    def model_of(carry: Carry, row: jax.Array) -> Params:
        return algorithm.params(state_of(carry, table.trial[row]))

    def seed_of(row: jax.Array) -> jax.Array:
        return feed.seed[table.trial[row]]

    def row_at(place: jax.Array) -> jax.Array:
        return table.order[jnp.minimum(place, table.order.size - 1)]

    @jax.vmap
    def batches(row: jax.Array, step: jax.Array) -> Batch:
        return sgd.batch(seed_of(row), trees.row(table.job, row), step)

    def teachers(carry: Carry, rows: jax.Array) -> Params:
        """One for each lane where the algorithm has its own; else nobody needs a copy."""
        teach = algorithm.teach
        if not (teach and local.distillation):
            return None

        def one(row: jax.Array) -> Params:
            state = state_of(carry, table.trial[row])
            return teach(state, trees.row(table.starting, row))

        return jax.vmap(one)(rows)

    def turn(e: jax.Array, parts: tuple[_Lane, Carry]) -> tuple[_Lane, Carry]:
        lane, carry = parts
        models = models_of(algorithm, carry)

        @jax.vmap
        def trained(lane: _Lane, row: jax.Array) -> Params:
            # Lanes that wait or are done go on with anything: nobody takes what they make.
            model, job = model_of(carry, row), trees.row(table.job, row)
            sent = Download(model, model if lane.teacher is None else lane.teacher)
            return sgd.step(data, seed_of(row), sent, job, lane.step, lane.params, lane.batch)

        def tick(_: jax.Array, lane: _Lane) -> _Lane:
            row = row_at(lane.place)
            params, step = trained(lane, row), lane.step + 1
            return lane._replace(params=params, step=step, batch=batches(row, step))

        def span(s: jax.Array, parts: tuple[_Lane, Sum, jax.Array]) -> Any:
            lane, buckets, dropped = parts
            lane = jax.lax.fori_loop(0, table.spans[s], tick, lane)
            row = row_at(lane.place)
            steps = table.job.steps[row]
            ends = lane.runs & (lane.step >= jnp.maximum(steps, 1))
            place = jnp.where(ends, lane.place + 1, lane.place)
            following = row_at(place)
            starts = (ends | ~lane.runs) & (place < end) & (table.opens[following] <= e)
            params, buckets, good = hand_over(
                lane.params,
                buckets,
                models,
                Ending(
                    ends,
                    starts,
                    table.trial[row],
                    table.trial[following],
                    table.slot[row],
                    table.weight[row],
                    steps == 0,
                    None if table.corrupt is None else table.corrupt[row],
                ),
            )
            dropped = dropped.at[table.trial[row], table.starting.round[row]].add(ends & ~good)
            step = jnp.where(starts, 0, lane.step)
            if (teacher := lane.teacher) is not None:  # where nobody starts, none is fetched
                fetch = partial(teachers, carry)
                teacher = jax.lax.cond(starts.any(), fetch, lambda _: lane.teacher, following)
            runs = starts | (lane.runs & ~ends)
            lane = _Lane(runs, place, step, batches(following, step), params, teacher)
            return lane, buckets, dropped

        lane, buckets, dropped = jax.lax.fori_loop(
            table.span_begin[e],
            table.span_begin[e + 1],
            span,
            (lane, carry.buckets, carry.dropped),
        )
        carry = carry._replace(buckets=buckets, dropped=dropped)
        return lane, server_step(algorithm, table, e, carry, code.mesh)

    row, zero = row_at(begin), jnp.zeros_like(begin)
    first = table.turn_begin[leg]
    lane = _Lane(
        (begin < end) & (table.opens[row] <= first),
        begin,
        zero,
        batches(row, zero),
        jax.vmap(partial(model_of, carry))(row),
        teachers(carry, row),
    )
    if trials == 1:  # whose legs have one turn each
        return turn(first, (lane, carry))[1]
    return jax.lax.fori_loop(first, table.turn_begin[leg + 1], turn, (lane, carry))[1]


def _own_lanes(code: Code, table: Table, leg: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where each lane of this device begins and ends in a leg."""
    count = (table.lane_begin.shape[1] - 1) // devices.size(code.mesh)
    first = devices.number(code.mesh) * count
    bounds = jax.lax.dynamic_slice(table.lane_begin[leg], (first,), (count + 1,))
    return bounds[:-1], bounds[1:]
