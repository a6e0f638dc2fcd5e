"""Training along a schedule, compiled: one program walks the table from server step to server step.

    for version v:   clients that start from v:  delta -> its bucket
                     step(v) on the bucket of reports that are on time
                     settle what is late and due

Every quantity that a loop carries is in one immutable `Carry`. A chunk is a range of server steps
given as dynamic bounds: long enough to amortise its launch, short enough for progress and
evaluation in between, and of no influence on any bit of the result.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from stragglers import metrics, trees
from stragglers.algorithms.base import Algorithm, Params, Starting, State, Sum
from stragglers.client import Client, Data, Job, local_steps, local_training
from stragglers.errors import BadInput
from stragglers.metrics import Metrics
from stragglers.rows import Rows, rows_of
from stragglers.schedule import Schedule
from stragglers.shuffle import hashed
from stragglers.tasks.base import Task, check
from stragglers.weights import Weigh, report_weights

CHUNK_SECONDS = 1.0
HOPELESS = 100  # clients dropped in a row after which training is given up


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
    on_time_slot: jax.Array
    late_begin: jax.Array
    late_slot: jax.Array
    late_round: jax.Array


class Point(NamedTuple):
    """A point of the curve."""

    step: int  # server steps made
    time_s: float  # simulated
    updates: int  # counted against the budget
    local_steps: int
    examples: int
    wall_s: float
    dropped: int
    metrics: Metrics


class Result(NamedTuple):
    curve: list[Point]
    params: Params  # w
    model: Params  # what the algorithm evaluates; the last finite one if training diverged
    trained: int  # clients
    dropped: int
    diverged: str | None  # what happened, if training ended early


class Progress(NamedTuple):
    """What a progress bar shows."""

    step: int
    steps: int
    trained: int
    wall_s: float
    time_s: float
    metrics: Metrics | None


def simulate(
    task: Task,
    schedule: Schedule,
    algorithm: Algorithm,
    client: Client,
    *,
    seed: int = 0,
    evaluate_at: Sequence[int] | None = None,
    weigh: Weigh = report_weights,
    teachers: int = 1,
    time_limited: bool = False,
    curve_examples: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    chunk: int | None = None,
) -> Result:
    """Trains and evaluates after the given server steps (default: the last).

    `curve_examples` limits the test set for all points but the last; `chunk` fixes the number of
    server steps between two looks at the clock.
    """
    check(task)
    rows = rows_of(schedule, algorithm.settles, seed=seed, teachers=teachers)
    sizes = task.population.examples[rows.client]
    steps_of = np.where(sizes > 0, local_steps(rows.examples, client, time_limited), 0)
    weight = weigh(rows.staleness, sizes)
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise BadInput("weights of reports must be finite and not negative")

    params = jax.jit(task.model.init)(jax.random.key(seed_word(seed)))
    dtype = jnp.result_type(*jax.tree.leaves(params))
    table = _table(rows, sizes, task.offsets[rows.client], steps_of, weight.astype(dtype))
    slots = _rounded(rows.slots)
    carry = start(algorithm, params, slots)
    data = Data(jnp.asarray(task.x), jnp.asarray(task.y))
    every = metrics.test_data(task)
    some = every if curve_examples is None else metrics.test_data(task, curve_examples)

    stops = sorted({*(evaluate_at or ()), schedule.steps})
    if stops[0] < 0 or stops[-1] > schedule.steps:
        raise BadInput(f"evaluate_at={stops}, expected server steps from 0 to {schedule.steps}")
    local = np.concatenate([[0], np.cumsum(steps_of)])
    curve: list[Point] = []
    began, step, length = time.perf_counter(), 0, chunk or 1
    streak, diverged = 0, None  # clients dropped in a row, chunk by chunk
    model = trees.copy(params)
    for stop in stops:
        while step < stop:
            until = min(stop, step + length)
            ticked = time.perf_counter()
            before = int(carry.dropped)
            carry = advance(
                task, algorithm, client, carry, table, data, seed_word(seed), step, until
            )
            lost = int(carry.dropped) - before  # waits for the device
            taken = time.perf_counter() - ticked
            streak = streak + lost if lost == rows.begin[until] - rows.begin[step] else 0
            step = until
            if streak >= HOPELESS or 0 < streak == rows.begin[-1]:
                diverged = _diverged(streak, step)
                break
            if chunk is None:
                length = _next_length(length, taken)
            if on_progress:
                on_progress(Progress(
                    step, schedule.steps, int(rows.begin[step]), time.perf_counter() - began,
                    float(schedule.ready[step - 1]), curve[-1].metrics if curve else None,
                ))  # fmt: skip
        if diverged:
            break
        model = algorithm.model(carry.server)
        last = step == schedule.steps
        done = int(rows.begin[step])
        curve.append(Point(
            step=step,
            time_s=float(schedule.ready[step - 1]) if step else 0.0,
            updates=int(schedule.updates[step - 1]) if step else 0,
            local_steps=int(local[done]),
            examples=int(local[done]) * client.batch_size,
            wall_s=time.perf_counter() - began,
            dropped=int(carry.dropped),
            metrics=metrics.evaluate(task, model, every if last else some),
        ))  # fmt: skip
        model = trees.copy(model)  # the carry's buffers are given away to the next chunk
    return Result(
        curve, algorithm.params(carry.server), model, int(rows.begin[step]), int(carry.dropped),
        diverged,
    )  # fmt: skip


def start(algorithm: Algorithm, params: Params, slots: int) -> Carry:
    """The state before the first server step."""
    zero = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
    empty = Sum(params, zero, jnp.zeros((), jnp.int32))
    return Carry(
        algorithm.init(params), trees.zero_rows(empty, slots + 1), jnp.zeros((), jnp.int32)
    )


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(3,))
def _advance(
    task: Any,
    algorithm: Algorithm,
    client: Client,
    carry: Carry,
    table: Table,
    data: Data,
    seed: jax.Array,
    first: jax.Array,
    last: jax.Array,
) -> Carry:
    train = local_training(task, client)
    begin, late_begin = table.begin, table.late_begin

    def server_step(v: jax.Array, carry: Carry) -> Carry:
        server = carry.server

        def one_client(i: jax.Array, parts: tuple[Sum, jax.Array]) -> tuple[Sum, jax.Array]:
            buckets, dropped = parts
            job, starting = trees.row((table.job, table.starting), i)
            delta = train(data, seed, algorithm.broadcast(server, starting), job)
            good = jnp.isfinite(trees.sum_of_squares(delta))
            report = Sum(trees.scale(table.weight[i], delta), table.weight[i], jnp.int32(1))
            report = trees.where(good, report, trees.zeros_like(report))
            return _add(buckets, table.slot[i], report), dropped + ~good

        buckets, dropped = jax.lax.fori_loop(
            begin[v], begin[v + 1], one_client, (carry.buckets, carry.dropped)
        )
        on_time, buckets = _take(buckets, table.on_time_slot[v])
        server, opened = algorithm.step(server, on_time)
        if algorithm.settles == "by_round":
            late, buckets = _take(buckets, table.late_slot[v])
            server = algorithm.settle(server, opened, late, v)
        elif algorithm.settles == "at_arrival":

            def one_bucket(b: jax.Array, parts: tuple[State, Sum]) -> tuple[State, Sum]:
                server, buckets = parts
                late, buckets = _take(buckets, table.late_slot[b])
                return algorithm.settle(server, None, late, table.late_round[b]), buckets

            server, buckets = jax.lax.fori_loop(
                late_begin[v], late_begin[v + 1], one_bucket, (server, buckets)
            )
        return Carry(server, buckets, dropped)

    return jax.lax.fori_loop(first, last, server_step, carry)


class _Program(NamedTuple):
    """The part of a task that is code: two trials' tasks share it, and so their program."""

    model: Any
    prepare: Any
    loss: Any


def advance(task: Task, algorithm: Algorithm, client: Client, carry: Carry, *rest: Any) -> Carry:
    """Takes the server through a range of steps; the old carry is given away."""
    program = _Program(task.model, task.prepare, task.loss)
    return _advance(program, algorithm, client, carry, *rest)


def _add(buckets: Sum, slot: jax.Array, report: Sum) -> Sum:
    return trees.set_row(buckets, slot, trees.add(trees.row(buckets, slot), report))


def _take(buckets: Sum, slot: jax.Array) -> tuple[Sum, Sum]:
    """A bucket's sum, and the buckets with that one empty again."""
    taken = trees.row(buckets, slot)
    return taken, trees.set_row(buckets, slot, trees.zeros_like(taken))


def _table(
    rows: Rows,
    sizes: NDArray[np.int64],
    first: NDArray[np.int64],
    steps: NDArray[np.int64],
    weight: NDArray[Any],
) -> Table:
    def column(values: NDArray[Any]) -> jax.Array:
        values = values.astype(np.int32) if values.dtype.kind == "i" else values
        return jnp.asarray(np.pad(values, (0, _power_of_two(len(values)) - len(values))))

    return Table(
        job=Job(*map(column, (rows.dispatch, first, sizes, rows.examples, steps))),
        weight=column(weight),
        starting=Starting(column(rows.version), column(rows.teacher)),
        slot=column(rows.slot),
        begin=column(rows.begin),
        on_time_slot=column(np.where(rows.on_time_slot == rows.slots, _rounded(rows.slots),
                                     rows.on_time_slot)),
        late_begin=column(rows.late_begin),
        late_slot=column(np.where(rows.late_slot == rows.slots, _rounded(rows.slots),
                                  rows.late_slot)),
        late_round=column(rows.late_round),
    )  # fmt: skip


def seed_word(seed: int) -> np.uint32:
    """A seed of any size as the 32 bits that programs take."""
    words = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32)
    return np.uint32(hashed(words[:1], words[1:])[0])


def _rounded(slots: int) -> int:
    """A few more buckets than needed, so that trials with other schedules fit the same program."""
    return slots if slots <= 2 else -(-slots // 4) * 4


def _power_of_two(size: int) -> int:
    return 1 << max(size - 1, 1).bit_length()


def _next_length(length: int, seconds: float) -> int:
    """Steers a chunk towards CHUNK_SECONDS."""
    return max(1, min(4 * length, round(length * CHUNK_SECONDS / max(seconds, 1e-3))))


def _diverged(clients: int, step: int) -> str:
    return (
        f"every client diverged: the last {clients} reports up to server step {step} were not "
        "finite; lower the client or the server learning rate"
    )
