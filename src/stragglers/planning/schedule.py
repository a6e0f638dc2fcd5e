"""Schedules: who starts when, from which version, and which server step each report meets.

A `Schedule` is the whole history of a training, decided before it begins: time as data. Rounds
(rounds.py) and buffers (buffered.py) make the same table by the same rules:

    order      by (time, kind, sequence), reports before dispatches: reports that arrive together
               count in the order in which their clients started, and a client that starts at a time
               knows every report of that time whose client started before it
    clock      float64 seconds, made by addition only
    clients    a client in flight may be selected again, unless busy clients are skipped; where
               clients go offline, a group starts when enough of them are idle
    patience   no server knows that a report will never arrive, so waiting ends where a time-out is
               declared; a step on fewer than `minimum` reports is abandoned: none of them counts,
               version and clock advance
    budget     updates / goal rounds, or updates / buffer steps; fewer where late reports count too
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import tables
from stragglers._core.errors import BadInput
from stragglers.planning.faults import DrawFaults, Fault, lost
from stragglers.planning.fleet import DrawnFleet
from stragglers.planning.latency import DrawLatency
from stragglers.planning.population import Population

# What becomes of late reports: nothing; they join the next server step's sum; or they are settled,
# after the step during which they arrive, or once for every round when all of its are in. With
# `replaced` nothing, but reports on time are remembered until their client's next one.
Settles = Literal["never", "next_step", "at_arrival", "by_round", "replaced"]
CHUNK = 1 << 20  # dispatches that are drawn or walked together: bounds memory, changes nothing


class Fate(IntEnum):
    """What becomes of a dispatched client's report.

    Attributes:
        ON_TIME: It is in the server step that it was meant for.
        LATE: It arrives after its round closed, but within the limit for late reports.
        UNUSED: It arrives after that limit, or there is none.
        IN_FLIGHT: It has not arrived when training ends.
        LOST: It never arrives: the client dropped out, crashed or went offline.

    Example:
        >>> import stragglers as st
        >>> fleet = st.Fleet(st.clients(100, examples=st.Constant(50)), st.PER_EXAMPLE)
        >>> schedule = st.schedule(fleet, st.Rounds(goal=10, cohort=12), updates=100)
        >>> int((schedule.fate == st.Fate.UNUSED).sum())
        20
    """

    ON_TIME = 0
    LATE = 1
    UNUSED = 2
    IN_FLIGHT = 3
    LOST = 4


class Schedule(NamedTuple):
    """Who starts when, and which server step each report meets: what `schedule` returns.

    Columns over dispatches, in the order of dispatch, and columns over server steps. It prints as
    a table.

    Example:
        >>> import stragglers as st
        >>> latency = st.Latency(st.Constant(8), st.Constant(2), per_example=st.Constant(0.1))
        >>> fleet = st.Fleet(st.clients(100, examples=st.Constant(50)), latency)
        >>> schedule = st.schedule(fleet, st.Rounds(goal=2), updates=4)
        >>> schedule  # doctest: +ELLIPSIS
        2 server steps in 30 s on 4 dispatches of 100 clients
        <BLANKLINE>
         dispatch   client   version   start [s]   report [s]   examples      fate   step
         ...
        >>> schedule.report - schedule.start
        array([15., 15., 15., 15.])
    """

    client: NDArray[np.int32]
    version: NDArray[np.int32]  # server steps behind the model that the client starts from
    asked: NDArray[np.float64]  # seconds; when its group was due, to start once enough are idle
    start: NDArray[np.float64]  # seconds
    report: NDArray[np.float64]  # seconds; infinite if it never arrives
    stop: NDArray[np.float64]  # when its device stops: at its report, or when it failed
    works: NDArray[np.float64]  # seconds of work until then
    examples: NDArray[np.int64]  # local work that the client does, or may do under a time limit
    cut: NDArray[np.bool_]  # whether a time limit ends it: only whole batches are done by then
    fault: NDArray[np.int8]  # see faults.Fault
    fate: NDArray[np.int8]
    step: NDArray[np.int32]  # server step whose end first knows the report; `steps` if none does

    time: NDArray[np.float64]  # when each server step is made
    duration: NDArray[np.float64]
    ready: NDArray[np.float64]  # when the step's late reports are in too, in the order of steps
    updates: NDArray[np.int64]  # client updates counted so far against the budget

    fleet: DrawnFleet  # as its seed drew it

    @property
    def population(self) -> Population:
        return self.fleet.population

    @property
    def clients(self) -> int:
        return self.population.clients

    @property
    def steps(self) -> int:
        return len(self.time)

    @property
    def end(self) -> float:
        """Seconds until training is over."""
        return float(self.ready[-1])

    def _parts(self) -> Iterator[str | tables.Block]:
        yield (
            f"{self.steps:,} server steps in {self.end:,.0f} s on {len(self.client):,} dispatches "
            f"of {self.clients:,} clients"
        )
        rows = [["..."] * 8 if n is None else self._row(n) for n in tables.ends(len(self.client))]
        names = [
            "dispatch",
            "client",
            "version",
            "start[s]",
            "report[s]",
            "examples",
            "fate",
            "step",
        ]
        yield tables.Block([name.replace("[", " [") for name in names], rows)

    def _row(self, n: int) -> list[str]:
        return [
            f"{n:,}",
            *(f"{column[n]:,}" for column in (self.client, self.version)),
            *(f"{column[n]:,.1f}" for column in (self.start, self.report)),
            f"{self.examples[n]:,}",
            _words(Fate(self.fate[n])),
            f"{self.step[n]:,}" if self.step[n] < self.steps else "",
        ]

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html

    def to_pandas(self) -> Any:
        """A row for each dispatch: a pandas frame.

        Raises:
            BadInput: If pandas is not installed.
        """
        kinds = {"fault": Fault, "fate": Fate}
        columns = {name: getattr(self, name) for name in self._fields[: self._fields.index("time")]}
        for name, kind in kinds.items():
            columns[name] = np.array([_words(one) for one in kind])[columns[name]]
        group = np.array(self.population.groups)[self.population.group[self.client]]
        return tables.frame({"group": group, **columns})

    def steps_at(self, *, updates: Sequence[int] = (), times: Sequence[float] = ()) -> list[int]:
        """Server steps made when the budget first reaches each count, and by each time."""
        by_updates = np.minimum(np.searchsorted(self.updates, updates) + 1, self.steps)
        by_times = np.searchsorted(self.ready, times, side="right")
        return sorted({*by_updates.tolist(), *by_times.tolist()})


def _words(member: IntEnum) -> str:
    return member.name.lower().replace("_", " ")


class Drawn(NamedTuple):
    """Columns over dispatches."""

    seconds: NDArray[np.float64]  # infinite for a client that fails
    examples: NDArray[np.int64]
    cut: NDArray[np.bool_]
    fault: NDArray[np.int8]
    works: NDArray[np.float64]  # seconds of work of its device
    stops: NDArray[np.float64]  # seconds until it stops, pauses included


def drawn(
    latency: DrawLatency, faults: DrawFaults | None, who: NDArray[np.int32], start: int = 0
) -> Drawn:
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
    """Refuses a clock that would run backwards: a latency may be the user's own function."""
    for what, column in (("seconds", seconds), ("examples", examples)):
        sound = column >= 0
        if not sound.all():  # nor is NaN
            first = int(np.argmin(sound))
            raise BadInput(
                f"a latency of {what}={column[first]} for dispatch {start + first}, of "
                f"client {who[first]}; expected a number >= 0"
            )


def chances(fleet: DrawnFleet) -> NDArray[np.float64]:
    """How likely each client is to be selected, relative to others; 0 if it is never online."""
    weight = np.ones(fleet.population.clients) if fleet.check_in is None else fleet.check_in
    return (
        weight if fleet.online is None else np.where(np.diff(fleet.online.first) > 0, weight, 0.0)
    )


def check_drawable(name: str, size: int, fleet: DrawnFleet) -> None:
    """Refuses to draw more clients at once than there are, or than ever check in."""
    clients, check_in, online = fleet.population.clients, fleet.check_in, fleet.online
    if check_in is not None and (
        len(check_in) != clients or not (np.isfinite(check_in) & (check_in >= 0)).all()
    ):
        raise BadInput(f"check_in: expected a finite number >= 0 for each of {clients} clients")
    if online is not None and len(online.first) != clients + 1:
        raise BadInput(f"availability of {len(online.first) - 1} clients, expected {clients}")
    drawable = int(np.count_nonzero(chances(fleet)))
    if size <= drawable:
        return
    who, remedy = f"a population of {clients}", ""
    if online is not None:
        who, remedy = f"the {drawable} of {clients} that are ever online", " or extend the hours"
    elif check_in is not None:
        who, remedy = f"the {drawable} of {clients} that ever check in", " or let more check in"
    raise BadInput(f"{name}={size} clients cannot be drawn from {who}; lower `{name}`{remedy}")


def batches(
    examples: NDArray[np.int64], size: int, whole: NDArray[np.bool_] | bool
) -> NDArray[np.int64]:
    """Number of batches, with or without the last incomplete one."""
    return np.where(whole, examples // size, -(-examples // size))
