"""Who starts when, from which version, and which server step its report meets: time as data.

A `Schedule` is the whole history of an experiment, decided before any training. Synchronous rounds
(rounds.py) and asynchronous buffers (buffered.py) make the same table by the same rules:

    order      by (time, kind, sequence), reports before dispatches: reports that arrive together
               count in the order in which their clients were started, and a client that starts at
               a time knows every report of that time whose client started before it
    clock      float64 seconds, made by addition only
    clients    one that is still under way may be drawn again, unless whoever is busy is skipped;
               where clients are not always there, a group starts when enough of them are
    patience   nobody knows that a report will never come, so waiting has an end where one is
               declared; a step on fewer than `minimum` reports is abandoned: nobody's report
               counts, version and clock advance
    budget     updates / goal rounds, or updates / buffer steps, whatever becomes of them; fewer
               where late reports count, too
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.planning.availability import Availability
from stragglers.planning.faults import Faults, lost
from stragglers.planning.latency import Latency

Busy = Literal["again", "skip"]  # what becomes of clients that still work when others are drawn
# What becomes of late reports: nothing; they join the next server step's sum; or they are settled,
# after the step during which they arrive, or once for every round when all of its are in.
Settles = Literal["never", "next_step", "at_arrival", "by_round"]
CHUNK = 1 << 20  # dispatches that are drawn or walked together: bounds memory, changes nothing


class Fate(IntEnum):
    """What becomes of a dispatched client's report."""

    ON_TIME = 0  # in the server step that it was meant for
    LATE = 1  # after its round closed, but within the limit for late reports
    UNUSED = 2  # nobody waited for it
    IN_FLIGHT = 3  # not decided when the plan ends
    LOST = 4  # it never comes: the client dropped out or crashed


class Schedule(NamedTuple):
    """Columns over dispatches, in the order of dispatch, and columns over server steps."""

    client: NDArray[np.int32]
    version: NDArray[np.int32]  # server steps behind the model that the client starts from
    asked: NDArray[np.float64]  # seconds; when its group was, to start when enough are idle
    start: NDArray[np.float64]  # seconds
    report: NDArray[np.float64]  # seconds; infinite if it never comes
    stop: NDArray[np.float64]  # when its device is done: at its report, or when it failed
    works: NDArray[np.float64]  # seconds that it works until then
    examples: NDArray[np.int64]  # local work that the client does, or may do under a time limit
    cut: NDArray[np.bool_]  # whether a time limit ends it: only whole batches are done by then
    fault: NDArray[np.int8]  # see faults.Fault
    fate: NDArray[np.int8]
    step: NDArray[np.int32]  # server step whose end first knows the report; `steps` if none does

    time: NDArray[np.float64]  # when each server step is made
    duration: NDArray[np.float64]
    ready: NDArray[np.float64]  # when the step's late reports are in too, in the order of steps
    updates: NDArray[np.int64]  # client updates counted so far against the budget

    clients: int  # of the population that it was made for

    @property
    def steps(self) -> int:
        return len(self.time)

    @property
    def end(self) -> float:
        """When training is over, seconds."""
        return float(self.ready[-1])

    def steps_at(self, *, updates: Sequence[int] = (), times: Sequence[float] = ()) -> list[int]:
        """Server steps made when the budget first reaches each count, and by each time."""
        by_updates = np.minimum(np.searchsorted(self.updates, updates) + 1, self.steps)
        by_times = np.searchsorted(self.ready, times, side="right")
        return sorted({*by_updates.tolist(), *by_times.tolist()})


class Drawn(NamedTuple):
    """Columns over dispatches."""

    seconds: NDArray[np.float64]  # infinite for whoever fails
    examples: NDArray[np.int64]
    cut: NDArray[np.bool_]
    fault: NDArray[np.int8]
    works: NDArray[np.float64]  # seconds that its device works
    stops: NDArray[np.float64]  # seconds until it is done, with those in which it pauses


def drawn(latency: Latency, faults: Faults | None, who: NDArray[np.int32], start: int = 0) -> Drawn:
    """What becomes of every dispatch from number `start` on, part by part."""
    seconds, examples = np.empty(len(who)), np.empty(len(who), np.int64)
    cut = np.empty(len(who), bool)
    for first in range(0, len(who), CHUNK):
        part = slice(first, first + CHUNK)
        seconds[part], examples[part], cut[part] = latency(start + first, who[part])
    _check_drawn(seconds, examples, who, start)
    if faults is None:
        return Drawn(seconds, examples, cut, np.zeros(len(who), np.int8), seconds, seconds)
    fault, worked = np.empty(len(who), np.int8), np.empty(len(who))
    for first in range(0, len(who), CHUNK):
        part = slice(first, first + CHUNK)
        fault[part], worked[part] = faults(start + first, who[part])
    works = np.multiply(seconds, worked, out=np.zeros(len(who)), where=worked > 0)
    return Drawn(np.where(lost(fault), np.inf, seconds), examples, cut, fault, works, works)


def _check_drawn(
    seconds: NDArray[np.float64], examples: NDArray[np.int64], who: NDArray[np.int32], start: int
) -> None:
    """Refuses a clock that would run backwards; a latency is anybody's function."""
    for what, column in (("seconds", seconds), ("examples", examples)):
        sound = column >= 0
        if not sound.all():  # nor is NaN
            first = int(np.argmin(sound))
            raise BadInput(
                f"a latency of {what}={column[first]} for dispatch {start + first}, of "
                f"client {who[first]}; expected a number >= 0"
            )


def chances(
    clients: int, check_in: NDArray[np.float64] | None, there: Availability | None
) -> NDArray[np.float64]:
    """How likely each client is to be drawn, against the others; none that never is there."""
    weight = np.ones(clients) if check_in is None else check_in
    return weight if there is None else np.where(np.diff(there.first) > 0, weight, 0.0)


def check_drawable(
    name: str,
    size: int,
    clients: int,
    check_in: NDArray[np.float64] | None,
    there: Availability | None,
) -> None:
    """Refuses to draw more clients at once than there are, or than ever check in."""
    if check_in is not None and (
        len(check_in) != clients or not (np.isfinite(check_in) & (check_in >= 0)).all()
    ):
        raise BadInput(f"check_in: expected a finite number >= 0 for each of {clients} clients")
    if there is not None and len(there.first) != clients + 1:
        raise BadInput(f"availability of {len(there.first) - 1} clients, expected {clients}")
    drawable = int(np.count_nonzero(chances(clients, check_in, there)))
    if size <= drawable:
        return
    who, remedy = f"a population of {clients}", ""
    if there is not None:
        who, remedy = f"the {drawable} of {clients} that are ever there", " or let more be there"
    elif check_in is not None:
        who, remedy = f"the {drawable} of {clients} that ever check in", " or let more check in"
    raise BadInput(f"{name}={size} clients cannot be drawn from {who}; lower `{name}`{remedy}")


def whole_steps(updates: int, each: int, what: str, name: str) -> int:
    if updates < each:
        raise BadInput(
            f"updates={updates} is less than one {what} of {name}={each}; "
            f"raise `updates` or lower `{name}`"
        )
    return updates // each


def least_reports(
    minimum: int | None, goal: int, name: str, timeout: float | None, timeout_name: str
) -> int:
    """How many reports a step that is given up needs; one if nobody says."""
    if timeout is not None and not 0 < timeout < np.inf:
        raise BadInput(f"{timeout_name}={timeout}, expected a finite number > 0")
    if minimum is None:
        return 1
    check_positive(minimum=minimum)
    if timeout is None:
        raise BadInput(
            f"minimum={minimum} reports of a step that is given up, but none is without "
            f"`{timeout_name}`; set it"
        )
    if minimum > goal:
        raise BadInput(f"minimum={minimum} is more than {name}={goal}; lower `minimum`")
    return minimum


def batches(
    examples: NDArray[np.int64], size: int, whole: NDArray[np.bool_] | bool
) -> NDArray[np.int64]:
    """How many fit, whole ones alone or with what is left."""
    return np.where(whole, examples // size, -(-examples // size))


def check_positive(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise BadInput(f"{name}={value}, expected a whole number >= 1")
