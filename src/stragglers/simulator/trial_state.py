"""What has become of a trial so far: its curve, who was dropped, and whether it diverged.

It is told between chunks, but server step by server step: chunks go by the clock, which decides
nothing. A trial has diverged when its weights are not finite, or when nothing but bad reports came
from the clients of one server step after another: HOPELESS in a row, or all that there are.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import tables
from stragglers.algorithms.base import Params
from stragglers.planning.schedule import Schedule
from stragglers.simulator.metrics import Metrics, TestData
from stragglers.simulator.prepare import Start, Work

HOPELESS = 100  # clients dropped in a row after which training is given up


class Point(NamedTuple):
    """A point of the curve: what one evaluation measures."""

    step: int  # server steps made
    time_s: float  # simulated
    updates: int  # counted against the budget
    local_steps: int
    examples: int  # gone through, those that fill a last batch included
    wall_s: float
    dropped: int
    late: int  # reports of closed rounds that were used
    test_examples: int  # behind the metrics: some of them on the way, all of them at the end
    metrics: Metrics


class Result(NamedTuple):
    """What comes of a trial: its curve, weights and counters. It prints as its curve.

    Attributes:
        curve: A `Point` for each evaluation, the last one at the end of training.
        params: The weights w; None if training diverged, which is seen when a chunk ends.
        model: What the algorithm evaluates, such as an average of w; if training diverged, as it
            was last evaluated.
        trained: Number of clients that trained.
        dropped: Number of those whose report was not finite and counts nowhere.
        diverged: What happened, if training diverged; else None.
        start: The device, the lanes and the memory that the trial had.
        clients: Percentiles of accuracy over each group's clients at the end; None if no test
            example belongs to a client.

    Example:
        >>> result.curve[-1].metrics["total_accuracy"] > 0.1  # as in `st.simulate`
        True
        >>> result  # doctest: +ELLIPSIS
        8 clients have trained, 0 dropped
        <BLANKLINE>
         step   time [s]   updates   straggler accuracy [%]   ...
    """

    curve: tuple[Point, ...]
    params: Params
    model: Params
    trained: int
    dropped: int
    diverged: str | None
    start: Start
    clients: dict[str, list[float]] | None = None

    def _parts(self) -> Iterator[str | tables.Block]:
        if self.diverged:
            yield self.diverged
        yield f"{self.trained:,} clients have trained, {self.dropped:,} dropped"
        if self.curve:
            yield tables.of_curve(self._columns())

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html

    def to_pandas(self) -> Any:
        """A row for each evaluation: a pandas frame.

        Raises:
            BadInput: If pandas is not installed.
        """
        return tables.frame(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        rows = [point._asdict() | point.metrics for point in self.curve]
        names = [name for row in rows[:1] for name in row if name != "metrics"]
        return {name: [row[name] for row in rows] for name in names}


class TrialState(NamedTuple):
    """What has become of a trial so far."""

    model: Params  # as it was last evaluated; before, the first one
    curve: tuple[Point, ...] = ()
    trained: int = 0
    dropped: int = 0
    diverged: str | None = None

    def after(self, work: Work, step: int, dropped: NDArray[np.int32], finite: int) -> "TrialState":
        """At a later server step: who was dropped in each, and how many left finite weights."""
        trained, sound = np.diff(work.trained)[:step], np.diff(work.sound)[:step]
        # Reports that faults corrupt are dropped as they were meant to be, and tell nothing.
        streak = _streak(dropped[:step] - (trained - sound), sound)
        limit = max(1, min(HOPELESS, work.sound[-1]))
        hopeless = next(iter(np.flatnonzero(streak >= limit) + 1), np.inf)
        end = int(min(step, finite + 1, hopeless))
        diverged = _overflowed(end) if end > finite else None
        if end == hopeless:
            diverged = _all_dropped(int(streak[end - 1]), end)
        return self._replace(
            trained=int(trained[:end].sum()), dropped=int(dropped[:end].sum()), diverged=diverged
        )

    def point(
        self,
        work: Work,
        schedule: Schedule,
        step: int,
        batch_size: int,
        wall_s: float,
        test: TestData,
        metrics: Metrics,
    ) -> Point:
        """What an evaluation after a server step adds to the curve."""
        local_steps = int(work.local_steps[step])
        return Point(
            step=step,
            time_s=float(schedule.ready[step - 1]) if step else 0.0,
            updates=int(schedule.updates[step - 1]) if step else 0,
            local_steps=local_steps,
            examples=local_steps * batch_size,
            wall_s=wall_s,
            dropped=self.dropped,
            late=int(work.late[step]),
            test_examples=int(test.real.sum()),
            metrics=metrics,
        )


def _streak(lost: NDArray[np.integer], clients: NDArray[np.integer]) -> NDArray[np.integer]:
    """After each server step, clients lost since one that did not lose all of its own."""
    total = lost.cumsum()
    return total - np.maximum.accumulate(np.where(lost < clients, total, 0))


def _overflowed(step: int) -> str:
    return (
        f"the weights are not finite after server step {step}; lower the client or the server "
        "learning rate"
    )


def _all_dropped(clients: int, step: int) -> str:
    return (
        f"every client diverged: the last {clients} reports up to server step {step} were not "
        "finite; lower the client or the server learning rate"
    )
