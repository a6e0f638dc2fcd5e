"""What has become of a trial so far: its curve, who was dropped, and whether it diverged.

It is told between chunks, but server step by server step: chunks go by the clock, which decides
nothing. A trial has diverged when its weights are not finite, or when nothing but bad reports came
from the clients of one server step after another: HOPELESS in a row, or all that there are.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers.algorithms.base import Params
from stragglers.simulator.metrics import Metrics, TestData
from stragglers.simulator.prepare import Start, Trial, Work

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
    late: int  # reports of closed rounds that were used
    test_examples: int  # behind the metrics: some of them on the way, all of them at the end
    metrics: Metrics


class Result(NamedTuple):
    curve: list[Point]
    params: Params  # w; None if training diverged, of which nothing is seen before a chunk ends
    model: Params  # what the algorithm evaluates; the last finite one if training diverged
    trained: int  # clients
    dropped: int
    diverged: str | None  # what happened, if training ended early
    start: Start
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


@dataclass
class Course:
    """What has become of a trial so far."""

    trial: Trial
    work: Work
    curve: list[Point] = field(default_factory=list)
    dropped: int = 0
    diverged: str | None = None
    model: Params = None
    params: Params = None
    trained: int = 0
    clients: dict[str, list[float]] | None = None

    def goes_on(self, step: int, dropped: NDArray[np.int32], finite: int) -> None:
        """To a server step: who was dropped in each, and how many of them left finite weights."""
        trained, sound = np.diff(self.work.trained)[:step], np.diff(self.work.sound)[:step]
        # Reports that faults corrupt are dropped as they were meant to be, and tell nothing.
        streak = _streak(dropped[:step] - (trained - sound), sound)
        limit = max(1, min(HOPELESS, self.work.sound[-1]))
        hopeless = next(iter(np.flatnonzero(streak >= limit) + 1), np.inf)
        end = int(min(step, finite + 1, hopeless))
        self.trained, self.dropped = int(trained[:end].sum()), int(dropped[:end].sum())
        if end == hopeless:
            self.diverged = _all_dropped(int(streak[end - 1]), end)
        elif end > finite:
            self.diverged = _overflowed(end)

    def reaches(
        self, step: int, batch_size: int, wall_s: float, test: TestData, at: Metrics
    ) -> None:
        schedule, local = self.trial.schedule, int(self.work.local_steps[step])
        self.curve.append(
            Point(
                step=step,
                time_s=float(schedule.ready[step - 1]) if step else 0.0,
                updates=int(schedule.updates[step - 1]) if step else 0,
                local_steps=local,
                examples=local * batch_size,
                wall_s=wall_s,
                dropped=self.dropped,
                late=int(self.work.late[step]),
                test_examples=int(test.real.sum()),
                metrics=at,
            )
        )

    def progress(self, step: int, wall_s: float) -> Progress:
        schedule, known = self.trial.schedule, self.curve[-1].metrics if self.curve else None
        return Progress(
            step, schedule.steps, self.trained, wall_s, float(schedule.ready[step - 1]), known
        )

    def result(self, start: Start) -> Result:
        return Result(
            self.curve,
            self.params,
            self.model,
            self.trained,
            self.dropped,
            self.diverged,
            start,
            self.clients,
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
