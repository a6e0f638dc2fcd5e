"""The compiled program: takes all servers through a range of legs, with nothing stored in vain.

    row      one client that trains: an index into the columns of the table
    place    an index into `table.order`, where the rows of each lane follow one another
    lane     trains one client after another: the rows at places begin to end
    tick     one local step of every lane
    span     ticks until a client ends; it hands its delta over, and the lane starts the next one
    turn     a server step of one trial; clients that train from its model may start after it
    leg      turns between two meetings of all trials; of a single trial, one turn
    bucket   a sum of deltas that one server step takes
    carry    what is in flight between two legs: servers, buckets, counters

    one_by_one   clients outside, local steps inside: fastest on a CPU
    in_lanes     all lanes at once: a lane that is free starts a client of any trial whose model is
                 there, or waits for that trial's turn

Either way a delta is added to its bucket as soon as it is there, in a fixed order. With
several devices (device_mesh.py) each trains its own lanes into its own buckets.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from stragglers.algorithms import trees
from stragglers.algorithms.base import Algorithm, Download, Params, Sum, download
from stragglers.simulator import device_mesh as devices
from stragglers.simulator.device_table import Table
from stragglers.simulator.handover import Ending, corrupted, hand_over
from stragglers.simulator.local_training import (
    Batch,
    Data,
    Local,
    Trained,
    local_steps_of,
    local_training,
)
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
        row = table.order[place]
        job, starting = trees.row((table.job, table.starting), row)
        sent = download(code.algorithm, server, starting)
        delta = train(feed.data, feed.seed[0], sent, job)
        if table.corrupt is not None:
            delta = corrupted(table.corrupt[row], delta)
        good = trees.finite(delta)
        report = Sum(trees.scale(table.weight[row], delta), table.weight[row], jnp.int32(1))
        report = trees.where(good, report, trees.zeros_like(report))
        slot = table.slot[row]
        if table.again is not None:  # both at once; what is past the end is dropped
            slot = jnp.stack([slot, table.again[row]])
        return add(buckets, slot, report), lost + ~good

    none_lost = jnp.zeros(1, jnp.int32)
    buckets, lost = jax.lax.fori_loop(begin[0], end[0], one_client, (carry.buckets, none_lost))
    dropped = jax.lax.dynamic_update_index_in_dim(carry.dropped, lost, leg, axis=1)
    return server_step(
        code.algorithm, table, leg, carry._replace(buckets=buckets, dropped=dropped), code.mesh
    )


class _Lanes(NamedTuple):
    """What every lane holds between two ticks: leaves [lanes, ...]."""

    runs: jax.Array  # or waits for a model, or is done
    place: jax.Array
    step: jax.Array  # local steps done by its client
    batch: Batch
    trained: Trained
    teacher: Params  # None where clients need no copy of it


def in_lanes(code: Code, feed: Feed, leg: jax.Array, carry: Carry) -> Carry:
    """A leg of all trials: as many clients at once as there are lanes, each trial at its pace."""
    table = feed.table
    begin, end = _own_lanes(code, table, leg)
    row, zero = _row_at(table, begin), jnp.zeros_like(begin)
    first = table.turn_begin[leg]
    params = jax.vmap(partial(_model_of, code, table, carry))(row)
    lanes = _Lanes(
        runs=(begin < end) & (table.opens[row] <= first),
        place=begin,
        step=zero,
        batch=_batches(code, feed, row, zero),
        trained=Trained(params, _optimizers(code, params)),
        teacher=_teachers(code, table, carry, row),
    )
    turn = partial(_turn, code, feed, end)
    if feed.seed.size == 1:  # whose legs have one turn each
        return turn(first, (lanes, carry))[1]
    return jax.lax.fori_loop(first, table.turn_begin[leg + 1], turn, (lanes, carry))[1]


class _Turn(NamedTuple):
    """What lanes read while they train for a turn."""

    number: jax.Array
    end: jax.Array  # [lanes]: the place behind the lane's last one of this leg
    carry: Carry
    models: Params  # leaves [trials, ...]


def _turn(
    code: Code, feed: Feed, end: jax.Array, number: jax.Array, parts: tuple[_Lanes, Carry]
) -> tuple[_Lanes, Carry]:
    """Spans until all reports of a turn are in, and then its server step."""
    lanes, carry = parts
    turn = _Turn(number, end, carry, models_of(code.algorithm, carry))
    lanes, buckets, dropped = jax.lax.fori_loop(
        feed.table.span_begin[number],
        feed.table.span_begin[number + 1],
        partial(_span, code, feed, turn),
        (lanes, carry.buckets, carry.dropped),
    )
    carry = carry._replace(buckets=buckets, dropped=dropped)
    return lanes, server_step(code.algorithm, feed.table, number, carry, code.mesh)


def _span(
    code: Code,
    feed: Feed,
    turn: _Turn,
    number: jax.Array,
    parts: tuple[_Lanes, Sum, jax.Array],
) -> tuple[_Lanes, Sum, jax.Array]:
    """Ticks until a client ends; lanes that end one hand it over, and those that can start one."""
    table, (lanes, buckets, dropped) = feed.table, parts
    tick = partial(_tick, code, feed, turn.carry)
    lanes = jax.lax.fori_loop(0, table.spans[number], tick, lanes)
    row = _row_at(table, lanes.place)
    steps = table.job.steps[row]
    ends = lanes.runs & (lanes.step >= jnp.maximum(steps, 1))
    place = jnp.where(ends, lanes.place + 1, lanes.place)
    following = _row_at(table, place)
    starts = (ends | ~lanes.runs) & (place < turn.end) & (table.opens[following] <= turn.number)
    ending = Ending(
        ends,
        starts,
        trial=table.trial[row],
        next_trial=table.trial[following],
        slot=table.slot[row],
        weight=table.weight[row],
        idle=steps == 0,
        corrupt=None if table.corrupt is None else table.corrupt[row],
        again=None if table.again is None else table.again[row],
    )
    trained, fresh = lanes.trained, ending.starts
    params, buckets, good = hand_over(trained.params, buckets, turn.models, ending)
    # The state of plain SGD has no leaves.
    optimizer = jax.tree.map(
        lambda new, old: jnp.where(fresh.reshape(-1, *[1] * (old.ndim - 1)), new, old),
        _optimizers(code, params),
        trained.optimizer,
    )
    dropped = dropped.at[table.trial[row], table.starting.round[row]].add(ends & ~good)
    step, teacher = jnp.where(starts, 0, lanes.step), lanes.teacher
    if teacher is not None:  # fetched only where a client starts
        fetch = partial(_teachers, code, table, turn.carry)
        teacher = jax.lax.cond(starts.any(), fetch, lambda _: lanes.teacher, following)
    runs = starts | (lanes.runs & ~ends)
    batch = _batches(code, feed, following, step)
    return _Lanes(runs, place, step, batch, Trained(params, optimizer), teacher), buckets, dropped


def _tick(code: Code, feed: Feed, carry: Carry, _: jax.Array, lanes: _Lanes) -> _Lanes:
    """A local step of every lane; what those that wait or are done compute is never used."""
    steps, table = local_steps_of(code.lesson, code.local), feed.table

    @jax.vmap
    def trained(lane: _Lanes, row: jax.Array) -> Trained:
        model, job = _model_of(code, table, carry, row), trees.row(table.job, row)
        sent = Download(model, model if lane.teacher is None else lane.teacher)
        seed = feed.seed[table.trial[row]]
        return steps.step(feed.data, seed, sent, job, lane.step, lane.trained, lane.batch)

    rows = _row_at(table, lanes.place)
    after, step = trained(lanes, rows), lanes.step + 1
    return lanes._replace(trained=after, step=step, batch=_batches(code, feed, rows, step))


def _optimizers(code: Code, params: Params) -> optax.OptState:
    """State of each lane's optimizer before a client's first local step."""
    return jax.vmap(local_steps_of(code.lesson, code.local).begin)(params)


def _row_at(table: Table, place: jax.Array) -> jax.Array:
    return table.order[jnp.minimum(place, table.order.size - 1)]


def _model_of(code: Code, table: Table, carry: Carry, row: jax.Array) -> Params:
    return code.algorithm.params(state_of(carry, table.trial[row]))


def _batches(code: Code, feed: Feed, rows: jax.Array, numbers: jax.Array) -> Batch:
    steps, table = local_steps_of(code.lesson, code.local), feed.table

    def batch(row: jax.Array, step: jax.Array) -> Batch:
        return steps.batch(feed.seed[table.trial[row]], trees.row(table.job, row), step)

    return jax.vmap(batch)(rows, numbers)


def _teachers(code: Code, table: Table, carry: Carry, rows: jax.Array) -> Params:
    """One for each lane where the algorithm has its own; None where the model is the teacher."""
    teach = code.algorithm.teach
    if not (teach and code.local.distillation):
        return None

    def teacher(row: jax.Array) -> Params:
        return teach(state_of(carry, table.trial[row]), trees.row(table.starting, row))

    return jax.vmap(teacher)(rows)


def _own_lanes(code: Code, table: Table, leg: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where each lane of this device begins and ends in a leg."""
    count = (table.lane_begin.shape[1] - 1) // devices.size(code.mesh)
    first = devices.number(code.mesh) * count
    bounds = jax.lax.dynamic_slice(table.lane_begin[leg], (first,), (count + 1,))
    return bounds[:-1], bounds[1:]
