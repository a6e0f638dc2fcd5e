"""The compiled program: takes the server through a range of steps, with nothing stored in vain.

    one_by_one      clients outside, local steps inside: what a CPU likes
    in_lanes        a tick is one local step of every lane; a lane that ends a client hands its
                    delta over and starts the next

Either way a delta is added into its bucket as soon as it is there, in a fixed order. Between two
server steps everything is in one immutable `Carry`.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from stragglers import trees
from stragglers.algorithms.base import Algorithm, Download, Params, Starting, State, Sum
from stragglers.client import Batch, Client, Data, Job, local_sgd, local_training
from stragglers.lanes import Lanes
from stragglers.rows import Rows
from stragglers.tasks.base import Task


class Carry(NamedTuple):
    """All that is in flight between two server steps."""

    server: State
    buckets: Sum  # leaves [slots + 1, ...]; the last one stays empty
    dropped: jax.Array  # clients whose delta was not finite


class Table(NamedTuple):
    """The rows on the device, padded so that trials of one experiment share a program."""

    job: Job
    weight: jax.Array
    starting: Starting
    slot: jax.Array
    begin: jax.Array
    order: jax.Array  # of rows, lane by lane
    lane_begin: jax.Array  # [steps, lanes + 1]
    ticks: jax.Array
    on_time_slot: jax.Array
    late_begin: jax.Array
    late_slot: jax.Array
    late_round: jax.Array


def start(algorithm: Algorithm, params: Params, slots: int) -> Carry:
    """The state before the first server step."""
    zero = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
    empty = Sum(params, zero, jnp.zeros((), jnp.int32))
    buckets = trees.zero_rows(empty, rounded(slots) + 1)
    return Carry(algorithm.init(params), buckets, jnp.zeros((), jnp.int32))


class _Program(NamedTuple):
    """The part of a task that is code: two trials' tasks share it, and so their program."""

    model: Any
    prepare: Any
    loss: Any
    penalty: Any
    position_weight: Any


def advance(task: Task, algorithm: Algorithm, client: Client, carry: Carry, *rest: Any) -> Carry:
    """Takes the server through a range of steps; the old carry is given away."""
    program = _Program(task.model, task.prepare, task.loss, task.penalty, task.position_weight)
    return _advance(program, algorithm, client, carry, *rest)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(3,))
def _advance(
    program: Any,
    algorithm: Algorithm,
    client: Client,
    carry: Carry,
    table: Table,
    data: Data,
    seed: jax.Array,
    first: jax.Array,
    last: jax.Array,
) -> Carry:
    lanes = table.lane_begin.shape[1] - 1
    train = one_by_one if lanes == 1 else in_lanes
    train = partial(train, program, algorithm, client, table, data, seed)

    def server_step(v: jax.Array, carry: Carry) -> Carry:
        buckets, dropped = train(v, carry)
        on_time, buckets = _take(buckets, table.on_time_slot[v])
        server, opened = algorithm.step(carry.server, on_time)
        if algorithm.settles == "by_round":
            late, buckets = _take(buckets, table.late_slot[v])
            server = algorithm.settle(server, opened, late, v)
        elif algorithm.settles == "at_arrival":

            def one_bucket(b: jax.Array, parts: tuple[State, Sum]) -> tuple[State, Sum]:
                server, buckets = parts
                late, buckets = _take(buckets, table.late_slot[b])
                return algorithm.settle(server, None, late, table.late_round[b]), buckets

            server, buckets = jax.lax.fori_loop(
                table.late_begin[v], table.late_begin[v + 1], one_bucket, (server, buckets)
            )
        return Carry(server, buckets, dropped)

    return jax.lax.fori_loop(first, last, server_step, carry)


def one_by_one(
    program: Any,
    algorithm: Algorithm,
    client: Client,
    table: Table,
    data: Data,
    seed: jax.Array,
    v: jax.Array,
    carry: Carry,
) -> tuple[Sum, jax.Array]:
    """Trains the clients of version v in the order of dispatch."""
    train = local_training(program, client)

    def one_client(i: jax.Array, parts: tuple[Sum, jax.Array]) -> tuple[Sum, jax.Array]:
        buckets, dropped = parts
        job, starting = trees.row((table.job, table.starting), i)
        delta = train(data, seed, algorithm.broadcast(carry.server, starting), job)
        good = jnp.isfinite(trees.sum_of_squares(delta))
        report = Sum(trees.scale(table.weight[i], delta), table.weight[i], jnp.int32(1))
        report = trees.where(good, report, trees.zeros_like(report))
        return _add(buckets, table.slot[i], report), dropped + ~good

    return jax.lax.fori_loop(
        table.begin[v], table.begin[v + 1], one_client, (carry.buckets, carry.dropped)
    )


class _Lane(NamedTuple):
    """One lane, or all of them: leaves [lanes, ...]."""

    place: jax.Array  # in the order of rows
    step: jax.Array  # local steps done by its client
    batch: Batch
    params: Params
    teacher: Params


def in_lanes(
    program: Any,
    algorithm: Algorithm,
    client: Client,
    table: Table,
    data: Data,
    seed: jax.Array,
    v: jax.Array,
    carry: Carry,
) -> tuple[Sum, jax.Array]:
    """Trains the clients of version v, as many at once as there are lanes."""
    local = local_sgd(program, client)
    server = carry.server
    model = algorithm.params(server)
    begin, end = table.lane_begin[v, :-1], table.lane_begin[v, 1:]

    def row_at(place: jax.Array) -> jax.Array:
        return table.order[jnp.minimum(place, table.order.size - 1)]

    def batch_at(row: jax.Array, step: jax.Array) -> Batch:
        return jax.vmap(partial(local.batch, seed))(trees.row(table.job, row), step)

    def teachers(row: jax.Array) -> Params:
        """One for each lane where the algorithm has its own; else nobody needs a copy."""
        if not (algorithm.teaches and client.distillation):
            return None
        each = jax.vmap(lambda starting: algorithm.broadcast(server, starting).teacher)
        return each(trees.row(table.starting, row))

    def sgd(lane: _Lane, row: jax.Array) -> Params:
        def one(job: Job, step: jax.Array, params: Params, batch: Batch, teacher: Params) -> Params:
            # Lanes that are done go on with anything: nobody takes what they make.
            sent = Download(model, model if teacher is None else teacher)
            return local.sgd(data, seed, sent, job, step, params, batch)

        job = trees.row(table.job, row)
        return jax.vmap(one)(job, lane.step, lane.params, lane.batch, lane.teacher)

    def tick(_: jax.Array, parts: tuple[_Lane, Sum, jax.Array]) -> tuple[_Lane, Sum, jax.Array]:
        lane, buckets, dropped = parts
        row = row_at(lane.place)
        params = sgd(lane, row)
        step = lane.step + 1
        ends = (lane.place < end) & (step >= table.job.steps[row])

        def hand_over(parts: Any) -> Any:
            params, teacher, buckets, dropped = parts
            delta = jax.tree.map(lambda w0, w: w0 - w, model, params)
            idle = table.job.steps[row] == 0  # it had nothing to train on, and says so
            good = idle | jnp.isfinite(jax.vmap(trees.sum_of_squares)(delta))
            delta = _choose(ends & good & ~idle, delta, trees.zeros_like(delta))  # 0 * NaN is NaN
            buckets = _add_lanes(buckets, table.slot[row], table.weight[row], delta, ends & good)
            params = _choose(ends, _spread(model, len(begin)), params)
            following = row_at(jnp.where(ends, lane.place + 1, lane.place))
            return (
                params,
                teachers(following),
                buckets,
                dropped + jnp.sum(ends & ~good, dtype=jnp.int32),
            )

        params, teacher, buckets, dropped = jax.lax.cond(
            jnp.any(ends), hand_over, lambda parts: parts, (params, lane.teacher, buckets, dropped)
        )
        place, step = jnp.where(ends, lane.place + 1, lane.place), jnp.where(ends, 0, step)
        lane = _Lane(place, step, batch_at(row_at(place), step), params, teacher)
        return lane, buckets, dropped

    row, zero = row_at(begin), jnp.zeros_like(begin)
    lane = _Lane(begin, zero, batch_at(row, zero), _spread(model, len(begin)), teachers(row))
    parts = (lane, carry.buckets, carry.dropped)
    _, buckets, dropped = jax.lax.fori_loop(0, table.ticks[v], tick, parts)
    return buckets, dropped


def _add(buckets: Sum, slot: jax.Array, report: Sum) -> Sum:
    return trees.set_row(buckets, slot, trees.add(trees.row(buckets, slot), report))


def _add_lanes(
    buckets: Sum, slot: jax.Array, weight: jax.Array, delta: Params, counts: jax.Array
) -> Sum:
    """Adds the lanes that count into their slots: one matrix product, in a fixed order."""
    slots = buckets.weight.shape[0]
    place = (jnp.arange(slots)[:, None] == slot[None]) & counts[None]  # [slots, lanes]
    weights = jnp.where(place, weight[None], 0)

    def add(bucket: jax.Array, each: jax.Array) -> jax.Array:
        total = jnp.tensordot(weights, each, 1, precision=jax.lax.Precision.HIGHEST)
        return bucket + total.astype(bucket.dtype)

    return Sum(
        jax.tree.map(add, buckets.delta, delta),
        buckets.weight + weights.sum(1),
        buckets.reports + place.sum(1, dtype=jnp.int32),
    )


def _choose(lanes: jax.Array, yes: Params, no: Params) -> Params:
    """Lane by lane, one tree or the other."""
    return jax.tree.map(
        lambda a, b: jnp.where(lanes.reshape(-1, *[1] * (a.ndim - 1)), a, b), yes, no
    )


def _spread(tree: Params, lanes: int) -> Params:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (lanes, *x.shape)), tree)


def _take(buckets: Sum, slot: jax.Array) -> tuple[Sum, Sum]:
    """A bucket's sum, and the buckets with that one empty again."""
    taken = trees.row(buckets, slot)
    return taken, trees.set_row(buckets, slot, trees.zeros_like(taken))


def table_of(
    rows: Rows,
    lanes: Lanes,
    sizes: NDArray[np.int64],
    first: NDArray[np.int64],
    steps: NDArray[np.int64],
    weight: NDArray[Any],
) -> Table:
    """Puts the rows on the device; `first` is where each client's examples begin."""

    def column(values: NDArray[Any]) -> jax.Array:
        values = values.astype(np.int32) if values.dtype.kind == "i" else values
        padding = [(0, power_of_two(len(values)) - len(values))] + [(0, 0)] * (values.ndim - 1)
        return jnp.asarray(np.pad(values, padding))

    def slot(values: NDArray[np.int32]) -> jax.Array:
        return column(np.where(values == rows.slots, rounded(rows.slots), values))

    return Table(
        job=Job(*map(column, (rows.dispatch, first, sizes, rows.examples, steps))),
        weight=column(weight),
        starting=Starting(column(rows.version), column(rows.teacher)),
        slot=column(rows.slot),
        begin=column(rows.begin),
        order=column(lanes.order),
        lane_begin=column(lanes.begin),
        ticks=column(lanes.ticks),
        on_time_slot=slot(rows.on_time_slot),
        late_begin=column(rows.late_begin),
        late_slot=slot(rows.late_slot),
        late_round=column(rows.late_round),
    )


def rounded(slots: int) -> int:
    """A few more buckets than needed, so that trials with other schedules fit the same program."""
    return slots if slots <= 2 else power_of_two(slots)


def power_of_two(size: int) -> int:
    """The next one, 2 at least."""
    return 1 << max(size - 1, 1).bit_length()
