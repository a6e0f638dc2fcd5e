"""Several trials of one experiment as one table: they walk the server steps side by side.

Each trial keeps its own schedule, clients, randomness and server; what they share is the device. A
server step trains the clients of all trials at once, which fills lanes that one trial would leave
waiting for its longest client.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers.errors import BadInput
from stragglers.rows import Rows


class Joint(NamedTuple):
    """The columns of `Rows`, over the clients of all trials by version, then by trial."""

    trial: NDArray[np.int32]
    dispatch: NDArray[np.int32]
    client: NDArray[np.int32]
    examples: NDArray[np.int64]
    version: NDArray[np.int32]
    staleness: NDArray[np.int32]
    teacher: NDArray[np.int32]
    slot: NDArray[np.int32]  # among its own trial's
    corrupt: NDArray[np.int32]

    begin: NDArray[np.int32]  # [steps + 1]
    on_time_slot: NDArray[np.int32]  # [steps, trials]
    late_begin: NDArray[np.int32]  # [steps + 1]
    late_slot: NDArray[np.int32]  # [late buckets, trials]
    late_round: NDArray[np.int32]  # [late buckets, trials]
    slots: int  # of each trial; slot number `slots` is always empty
    trials: int


def join(each: Sequence[Rows]) -> Joint:
    """Joins trials with equally many server steps; where one has no late bucket, it is empty."""
    lengths = sorted({len(rows.on_time_slot) for rows in each})
    if len(lengths) != 1:
        raise BadInput(f"trials of {lengths} server steps cannot run together; run them apart")
    slots = max(rows.slots for rows in each)
    order = np.argsort(np.concatenate([rows.version for rows in each]), kind="stable")

    def column(name: str) -> NDArray:
        return np.concatenate([getattr(rows, name) for rows in each])[order]

    def empty_as_one(rows: Rows, values: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.where(values == rows.slots, slots, values).astype(np.int32)

    late = np.stack([np.diff(rows.late_begin) for rows in each])  # [trials, steps]
    late_begin = np.concatenate([[0], np.cumsum(late.max(axis=0))])
    late_slot = np.full((late_begin[-1], len(each)), slots, np.int32)
    late_round = np.zeros_like(late_slot)
    for which, rows in enumerate(each):
        step = np.repeat(np.arange(late.shape[1]), late[which])
        place = late_begin[step] + np.arange(len(step)) - rows.late_begin[step]
        late_slot[place, which] = empty_as_one(rows, rows.late_slot)
        late_round[place, which] = rows.late_round
    return Joint(
        trial=np.repeat(np.arange(len(each), dtype=np.int32), [len(r.version) for r in each])[
            order
        ],
        **{name: column(name) for name in Joint._fields[1:9]},
        begin=np.stack([rows.begin for rows in each]).sum(axis=0, dtype=np.int32),
        on_time_slot=np.stack([empty_as_one(rows, rows.on_time_slot) for rows in each], axis=1),
        late_begin=late_begin.astype(np.int32),
        late_slot=late_slot,
        late_round=late_round,
        slots=slots,
        trials=len(each),
    )
