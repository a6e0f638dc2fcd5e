"""Several trials of one experiment as one table: they walk their server steps side by side.

Each trial keeps its own schedule, clients, randomness and server; what they share is the device,
where one fills the lanes that another leaves waiting for its longest client. They need not make the
same server step at the same time: only where one is evaluated, or a run may be interrupted, do all
of them meet.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.planning.training_rows import Rows

LEG = 16  # server steps at most from one meeting to the next; waiting there costs a few percent


class Apart(Exception):
    """Trials of different numbers of server steps: these cannot be joined."""

    def __init__(self, steps: list[int]) -> None:
        super().__init__(steps)
        self.steps = steps  # of each trial


COLUMNS = (  # of `Rows`, over clients
    "dispatch",
    "client",
    "examples",
    "cut",
    "version",
    "staleness",
    "step",
    "before",
    "joins",
    "teacher",
    "slot",
    "again",
    "corrupt",
)


class Joint(NamedTuple):
    """The rows of all trials as one table."""

    # Clients by version, then by trial; columns over server steps have axes [trials, ...].
    rows: Rows
    trial: NDArray[np.int32]  # of each client
    late_trial: NDArray[np.int32]  # of each late bucket: one trial after another
    trials: int


def join(each: Sequence[Rows]) -> Joint:
    """Joins trials with equally many server steps."""
    lengths = sorted({len(rows.on_time_slot) for rows in each})
    if len(lengths) != 1:
        raise BadInput(f"trials of {lengths} server steps cannot run together; run them apart")
    slots = max(rows.slots for rows in each)
    order = np.argsort(np.concatenate([rows.version for rows in each]), kind="stable")

    def empty_as_one(own: Rows, values: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.where(values == own.slots, slots, values).astype(np.int32)

    late = np.array([len(rows.late_slot) for rows in each])
    number = np.arange(len(each), dtype=np.int32)
    return Joint(
        rows=Rows(
            **{
                name: np.concatenate([getattr(rows, name) for rows in each])[order]
                for name in COLUMNS
            },
            begin=np.stack([rows.begin for rows in each]),
            on_time_slot=np.stack([empty_as_one(rows, rows.on_time_slot) for rows in each]),
            stalest=np.stack([rows.stalest for rows in each]),
            late_begin=np.stack([rows.late_begin for rows in each])
            + (late.cumsum() - late)[:, None],
            late_slot=np.concatenate([empty_as_one(rows, rows.late_slot) for rows in each]),
            late_round=np.concatenate([rows.late_round for rows in each]),
            late=np.stack([rows.late for rows in each]),
            slots=slots,
        ),
        trial=np.repeat(number, [len(rows.version) for rows in each])[order],
        late_trial=np.repeat(number, late),
        trials=len(each),
    )


def legs_of(stops: Sequence[int], trials: int) -> NDArray[np.int64]:
    """The server steps where trials meet: 0, all stops, and some between; one has no need to."""
    most = LEG if trials > 1 else 1
    ways = [
        np.linspace(start, stop, -(-(stop - start) // most), endpoint=False)
        for start, stop in pairwise([0, *stops])
    ]
    return np.concatenate([*ways, [stops[-1]]]).astype(np.int64)
