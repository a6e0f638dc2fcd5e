"""A schedule on the device: the columns that a compiled program walks.

Columns are padded to powers of two, and slots of buckets rounded up, so that the trials of one
experiment, whose schedules differ a little, share one program.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from stragglers.algorithms.base import Starting
from stragglers.simulator.local_training import LocalJob
from stragglers.simulator.packing import Lanes
from stragglers.simulator.together import Joint


class Turn(NamedTuple):
    """A server step of one trial."""

    trial: jax.Array
    on_time_slot: jax.Array
    late_begin: jax.Array  # the late buckets that it settles
    late_end: jax.Array
    stalest: jax.Array


class Table(NamedTuple):
    """Columns over the clients of all trials, over turns, and over late buckets."""

    job: LocalJob
    trial: jax.Array
    weight: jax.Array
    starting: Starting
    slot: jax.Array  # among all trials'
    again: jax.Array | None  # the slot that keeps it until it is replaced; past the end for none
    corrupt: jax.Array | None  # None if no report is: then no program asks
    opens: jax.Array  # turns that are over when it may start
    order: jax.Array  # of rows, lane by lane
    lane_begin: jax.Array  # [legs, lanes + 1]
    spans: jax.Array  # ticks from one hand-over to the next
    span_begin: jax.Array  # [turns + 1]
    turn_begin: jax.Array  # [legs + 1]
    turn: Turn
    late_slot: jax.Array
    late_round: jax.Array


class Jobs(NamedTuple):
    """What every row trains on and how much its report counts: columns over the rows of `Joint`."""

    size: NDArray[np.int64]  # the client's examples
    first: NDArray[np.int64]  # the first of them in the data
    steps: NDArray[np.int64]  # local steps
    weight: NDArray[np.floating]
    client: NDArray[np.integer] | None = None  # if its loss depends on its labels (`Data.counts`)


def table_of(joint: Joint, lanes: Lanes, jobs: Jobs) -> Table:
    """Puts the rows on the device."""
    rows, each = joint.rows, rounded(joint.rows.slots)

    def column(values: NDArray[Any]) -> jax.Array:
        values = values.astype(np.int32) if values.dtype.kind == "i" else values
        padding = [(0, power_of_two(len(values)) - len(values))] + [(0, 0)] * (values.ndim - 1)
        return jnp.asarray(np.pad(values, padding))

    def slot(values: NDArray[np.int32], trial: NDArray[np.integer]) -> jax.Array:
        return column(np.where(values == rows.slots, joint.trials * each, trial * each + values))

    again = None
    if (rows.again >= 0).any():
        past = joint.trials * each + 1  # where nothing is written
        again = column(np.where(rows.again < 0, past, joint.trial * each + rows.again))
    turn = lanes.trial, lanes.version  # an index into what has axes [trials, steps]
    return Table(
        job=LocalJob(
            dispatch=column(rows.dispatch),
            first=column(jobs.first),
            size=column(jobs.size),
            positions=column(rows.examples),
            steps=column(jobs.steps),
            client=None if jobs.client is None else column(jobs.client),
        ),
        trial=column(joint.trial),
        weight=column(jobs.weight),
        starting=Starting(column(rows.version), column(rows.teacher)),
        slot=slot(rows.slot, joint.trial),
        again=again,
        corrupt=column(rows.corrupt) if rows.corrupt.any() else None,
        opens=column(lanes.opens),
        order=column(lanes.order),
        lane_begin=column(lanes.begin),
        spans=column(lanes.spans),
        span_begin=column(lanes.span_begin),
        turn_begin=column(lanes.turn_begin),
        turn=Turn(
            trial=column(lanes.trial),
            on_time_slot=slot(rows.on_time_slot[turn], lanes.trial),
            late_begin=column(rows.late_begin[turn]),
            late_end=column(rows.late_begin[:, 1:][turn]),
            stalest=column(rows.stalest[turn]),
        ),
        late_slot=slot(rows.late_slot, joint.late_trial),
        late_round=column(rows.late_round),
    )


def rounded(slots: int) -> int:
    """A few more buckets than needed, so that trials with other schedules fit the same program."""
    return slots if slots <= 2 else power_of_two(slots)


def power_of_two(size: int) -> int:
    """The next one, 2 at least."""
    return 1 << max(size - 1, 1).bit_length()
