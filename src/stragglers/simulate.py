"""Training along a schedule: one compiled program walks it from server step to server step.

    for version v:   clients that start from v:  delta -> its bucket
                     step(v) on the bucket of reports that are on time
                     settle what is late and due

engine.py has the program; here it is fed and watched. A chunk is a range of server steps given as
dynamic bounds: long enough to amortise its launch, short enough for progress and evaluation in
between, and of no influence on any bit of the result.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from stragglers import engine, metrics, trees
from stragglers.algorithms.base import Algorithm, Params
from stragglers.client import Client, Data, local_steps, on_device
from stragglers.errors import BadInput
from stragglers.lanes import pack
from stragglers.metrics import Metrics
from stragglers.rows import Rows, rows_of
from stragglers.schedule import Schedule
from stragglers.shuffle import hashed
from stragglers.tasks.base import Task, check
from stragglers.weights import Weigh, report_weights

CHUNK_SECONDS = 1.0
MOST_LANES = 256  # the widest that was measured is 200
HOPELESS = 100  # clients dropped in a row after which training is given up


class Point(NamedTuple):
    """A point of the curve."""

    step: int  # server steps made
    time_s: float  # simulated
    updates: int  # counted against the budget
    local_steps: int
    examples: int  # gone through, those that fill a last batch included
    wall_s: float
    dropped: int
    test_examples: int  # behind the metrics: some of them on the way, all of them at the end
    metrics: Metrics


class Result(NamedTuple):
    curve: list[Point]
    params: Params  # w
    model: Params  # what the algorithm evaluates; the last finite one if training diverged
    trained: int  # clients
    dropped: int
    diverged: str | None  # what happened, if training ended early
    # Percentiles of accuracy over each group's clients, at the end (see metrics.per_client).
    clients: dict[str, list[float]] | None = None


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
    lanes: int | None = None,
    curve_examples: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    chunk: int | None = None,
) -> Result:
    """Trains and evaluates after the given server steps (default: the last).

    `schedule.steps_at` turns update counts and times into server steps.

    `lanes` clients train at once (default: one on a CPU, what the sizes fill on an accelerator).
    `curve_examples` limits the test set for all points but the last; `chunk` fixes the number of
    server steps between two looks at the clock.
    """
    run = _set_up(task, schedule, algorithm, client, seed, weigh, teachers, time_limited, lanes)
    every = metrics.test_data(task)
    some = every if curve_examples is None else metrics.test_data(task, curve_examples)
    stops = sorted({*(evaluate_at or ()), schedule.steps})
    if stops[0] < 0 or stops[-1] > schedule.steps:
        raise BadInput(f"evaluate_at={stops}, expected server steps from 0 to {schedule.steps}")

    carry, begin = run.carry, run.rows.begin
    began, step, length = time.perf_counter(), 0, chunk or 1
    curve: list[Point] = []
    streak, diverged = 0, None  # clients dropped in a row, chunk by chunk
    model = trees.copy(algorithm.params(carry.server))
    for stop in stops:
        while step < stop and not diverged:
            first, step = step, min(stop, step + length)
            ticked, before = time.perf_counter(), int(carry.dropped)
            carry = engine.advance(
                task, algorithm, client, carry, run.table, run.data, seed_word(seed), first, step
            )
            lost = int(carry.dropped) - before  # waits for the device
            streak = streak + lost if lost == begin[step] - begin[first] else 0
            if streak >= HOPELESS or 0 < streak == begin[-1]:
                diverged = _diverged(streak, step)
            elif not _finite(algorithm.params(carry.server)):
                diverged = _overflowed(step)
            if chunk is None:
                length = _next_length(length, time.perf_counter() - ticked)
            if on_progress:
                on_progress(Progress(
                    step, schedule.steps, int(begin[step]), time.perf_counter() - began,
                    float(schedule.ready[step - 1]), curve[-1].metrics if curve else None,
                ))  # fmt: skip
        if diverged:
            break
        # A copy: the carry's buffers are given away to the next chunk.
        model = trees.copy(algorithm.model(carry.server))
        test = every if step == schedule.steps else some
        local = int(run.steps[: begin[step]].sum())
        curve.append(Point(
            step=step,
            time_s=float(schedule.ready[step - 1]) if step else 0.0,
            updates=int(schedule.updates[step - 1]) if step else 0,
            local_steps=local,
            examples=local * client.batch_size,
            wall_s=time.perf_counter() - began,
            dropped=int(carry.dropped),
            test_examples=int(test.real.sum()),
            metrics=metrics.evaluate(task, model, test),
        ))  # fmt: skip
    trained, dropped = int(begin[step]), int(carry.dropped)
    clients = None if diverged else metrics.per_client(task, model, every)
    return Result(curve, algorithm.params(carry.server), model, trained, dropped, diverged, clients)


class _Run(NamedTuple):
    """A run before its first step."""

    rows: Rows
    steps: NDArray[np.int64]  # local steps of each row
    table: engine.Table
    carry: engine.Carry
    data: Data


def _set_up(
    task: Task,
    schedule: Schedule,
    algorithm: Algorithm,
    client: Client,
    seed: int,
    weigh: Weigh,
    teachers: int,
    time_limited: bool,
    lanes: int | None,
) -> _Run:
    check(task)
    rows = rows_of(schedule, algorithm.settles, seed=seed, teachers=teachers)
    sizes = task.population.examples[rows.client]
    steps = np.where(sizes > 0, local_steps(rows.examples, client, time_limited), 0)
    weight = weigh(rows.staleness, sizes)
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise BadInput("weights of reports must be finite and not negative")
    params = jax.jit(task.model.init)(jax.random.key(seed_word(seed)))
    weight = weight.astype(jnp.result_type(*jax.tree.leaves(params)))
    packing = pack(rows.begin, steps, lanes or default_lanes(rows.begin, steps))
    table = engine.table_of(rows, packing, sizes, task.offsets[rows.client], steps, weight)
    carry = engine.start(algorithm, params, rows.slots)
    return _Run(rows, steps, table, carry, on_device(task))


def default_lanes(begin: NDArray[np.int32], steps: NDArray[np.int64]) -> int:
    """One lane on a CPU, where nested loops are fastest; else as many as have work to the end.

    A server step lasts as long as its longest client at least, so that more lanes than
    total / longest would only wait for it; a quarter more leaves the packing some play.
    """
    if jax.default_backend() == "cpu":
        return 1
    cost = np.maximum(steps, 1)
    busy = [part.sum() / part.max() for part in np.split(cost, begin[1:-1]) if len(part)]
    clients = np.diff(begin).max(initial=1)
    return int(np.clip(round(1.25 * float(np.median(busy or [1]))), 1, min(clients, MOST_LANES)))


def seed_word(seed: int) -> np.uint32:
    """A seed of any size as the 32 bits that programs take."""
    words = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32)
    return np.uint32(hashed(words[:1], words[1:])[0])


def _next_length(length: int, seconds: float) -> int:
    """Steers a chunk towards CHUNK_SECONDS."""
    return max(1, min(4 * length, round(length * CHUNK_SECONDS / max(seconds, 1e-3))))


@jax.jit
def _finite(params: Params) -> jax.Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(params)]))


def _overflowed(step: int) -> str:
    return (
        f"the weights are not finite after server step {step}; lower the client or the server "
        "learning rate"
    )


def _diverged(clients: int, step: int) -> str:
    return (
        f"every client diverged: the last {clients} reports up to server step {step} were not "
        "finite; lower the client or the server learning rate"
    )
