"""Who starts when, from which version, and which server step its report meets: time as data.

`over_selected`: round t starts `cohort` clients together and closes at report number `goal`.

    opens[0] = 0,  closes[t] = opens[t] + (goal-th smallest latency),  opens[t+1] = closes[t]

`buffered`: `concurrency` clients are always under way; every `buffer` reports make a server step
and are replaced, all together at that step ("at_update") or each at its report ("at_once").

Nobody knows that a report will never come, so waiting has an end where it is declared: a round is
closed `round_timeout` after its opening, with the reports that are in; a client under way is given
up `client_timeout` after its start, and its place in the buffer stays empty. A step on fewer than
`minimum` reports is abandoned: nobody's report counts, version and clock advance. A budget makes
updates / goal rounds, or updates / buffer steps, whatever becomes of them.

Both give one `Schedule`. Events are ordered by (time, kind, sequence), reports before dispatches,
so reports that arrive together count in the order in which their clients were started, and a
client that starts at a time knows every report of that time whose client started before it.
A client still under way may be drawn again. Times are float64 seconds, made by addition only.
"""

import heapq
from collections.abc import Sequence
from enum import IntEnum
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers import draws
from stragglers.errors import BadInput
from stragglers.faults import Faults, lost
from stragglers.latency import Latency

CHUNK = 1 << 20  # dispatches whose latencies are drawn together: bounds memory, changes nothing


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
    start: NDArray[np.float64]  # seconds
    report: NDArray[np.float64]  # seconds; infinite if it never comes
    stop: NDArray[np.float64]  # when its device is done: at its report, or when it failed
    examples: NDArray[np.int64]  # local work that the client does, or may do under a time limit
    fault: NDArray[np.int8]  # see faults.Fault
    fate: NDArray[np.int8]
    step: NDArray[np.int32]  # server step whose end first knows the report; `steps` if none does

    time: NDArray[np.float64]  # when each server step is made
    duration: NDArray[np.float64]
    ready: NDArray[np.float64]  # when the step's late reports are in too, in the order of steps
    updates: NDArray[np.int64]  # client updates counted so far against the budget

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


def over_selected(
    clients: int,
    latency: Latency,
    *,
    seed: int,
    goal: int,
    cohort: int,
    updates: int,
    late_seconds: float | None = None,
    late_rounds: int | None = None,
    count: Literal["on_time", "all_returned"] = "on_time",
    round_timeout: float | None = None,
    minimum: int | None = None,
    faults: Faults | None = None,
) -> Schedule:
    """Synchronous rounds that close at the goal-th report of their cohort.

    Late reports are dropped, or tracked for `late_seconds` from their round's opening (FeAST's
    tau_max; the plan then ends when the last of them is in), or for `late_rounds` rounds
    (FARe-DUST's k). As many whole rounds are made as fit into `updates`.
    """
    rounds, least = check_rounds(
        goal=goal, cohort=cohort, updates=updates, late_seconds=late_seconds,
        late_rounds=late_rounds, round_timeout=round_timeout, minimum=minimum,
    )  # fmt: skip
    if cohort > clients:
        raise BadInput(f"cohort={cohort} clients cannot be drawn from a population of {clients}; "
                       "lower `cohort`")  # fmt: skip

    who = draws.cohorts(seed, draws.Purpose.CLIENTS, clients, cohort, 0, rounds)
    drawn = _drawn(latency, faults, who.ravel())
    delay = drawn.seconds.reshape(rounds, cohort)

    duration = np.partition(delay, goal - 1, axis=1)[:, goal - 1]
    if round_timeout is not None:
        duration = np.minimum(duration, round_timeout)
    stuck = int(np.argmax(np.append(duration, np.inf) == np.inf))  # no round closes from here on
    duration, delay = duration[:stuck], delay[:stuck]
    closes = np.cumsum(duration)
    opens = np.concatenate([[0.0], closes[:-1]])
    report = opens[:, None] + delay
    on_time = _until(closes, report, goal)
    kept_up = on_time.sum(axis=1, keepdims=True) >= least  # rounds that are not abandoned
    on_time &= kept_up
    origin = np.broadcast_to(np.arange(stuck, dtype=np.int32)[:, None], report.shape)
    step = origin.copy()
    step[~on_time] = np.maximum(np.searchsorted(closes, report[~on_time]), origin[~on_time])

    late = np.zeros_like(on_time)
    if late_seconds is not None:
        late = ~on_time & kept_up & (delay <= late_seconds) & (delay < np.inf)
    elif late_rounds is not None:
        late = ~on_time & kept_up & (step - origin < late_rounds) & (step < stuck)

    counted = on_time.sum(axis=1)
    if count == "all_returned":
        # Whoever waits in seconds waits for all of a round's reports, so they count with their
        # round; whoever waits in rounds counts them as they come.
        counted += np.bincount((origin if late_seconds is not None else step)[late],
                               minlength=stuck)  # fmt: skip
    total = counted.cumsum()
    steps = int(np.searchsorted(total, updates, side="right"))
    if steps == stuck < rounds and total[-1:].sum() + goal <= updates:
        raise BadInput(f"round {stuck} never closes: fewer than goal={goal} of its cohort={cohort} "
                       "clients ever report; set `round_timeout`, lower `goal`, raise `cohort` or "
                       "check the latencies")  # fmt: skip
    if steps == 0:
        raise BadInput(f"updates={updates} is less than the {counted[0]} that the first round "
                       "returns; raise `updates` or lower `cohort`")  # fmt: skip

    if not total[steps - 1]:
        raise BadInput(f"all {steps} rounds are abandoned: fewer than minimum={least} of their "
                       f"cohort={cohort} clients report within round_timeout={round_timeout} s; "
                       "raise it or `cohort`, lower `minimum`, or check the faults")  # fmt: skip

    kept = slice(0, steps)
    fate = np.full((steps, cohort), Fate.UNUSED, np.int8)
    fate[late[kept]] = Fate.LATE
    fate[on_time[kept]] = Fate.ON_TIME
    ready = closes[kept]
    if late_seconds is not None:
        # Nobody knows that a report will never come before the time for it is over.
        last = np.where(on_time | late, report, opens[:, None] + late_seconds)[kept]
        last[~kept_up[kept, 0]] = 0.0  # abandoned: nobody is waited for
        ready = np.maximum.accumulate(np.maximum(ready, last.max(axis=1)))
        if np.isinf(ready[-1]):
            raise BadInput(f"training never ends: late_seconds={late_seconds} waits for a client "
                           "that never reports; give a finite `late_seconds`")  # fmt: skip
    elif late_rounds is not None:
        missing = kept_up[kept] & (step[kept] >= steps)
        fate[missing] = Fate.UNUSED
        fate[missing & (steps - origin[kept] < late_rounds)] = Fate.IN_FLIGHT
    dispatches = slice(0, steps * cohort)
    fate[lost(drawn.fault[dispatches]).reshape(fate.shape)] = Fate.LOST
    used = (fate == Fate.ON_TIME) | (fate == Fate.LATE)
    start = np.repeat(opens[kept], cohort)
    return Schedule(
        client=who[kept].ravel(),
        version=origin[kept].ravel(),
        start=start,
        report=report[kept].ravel(),
        stop=start + drawn.works[dispatches],
        examples=drawn.examples[dispatches],
        fault=drawn.fault[dispatches],
        fate=fate.ravel(),
        step=np.where(used, np.minimum(step[kept], steps), steps).astype(np.int32).ravel(),
        time=closes[kept],
        duration=duration[kept],
        ready=ready,
        updates=total[kept],
    )


def check_rounds(
    *,
    goal: int,
    cohort: int,
    updates: int,
    late_seconds: float | None,
    late_rounds: int | None,
    round_timeout: float | None,
    minimum: int | None,
) -> tuple[int, int]:
    """Refuses what no population makes good; how many rounds, and how many reports each needs."""
    _positive(goal=goal, cohort=cohort, updates=updates)
    least = _least(minimum, goal, "goal", round_timeout, "round_timeout")
    if goal > cohort:
        raise BadInput(f"goal={goal} reports can never arrive from cohort={cohort} clients; "
                       "lower `goal` or raise `cohort`")  # fmt: skip
    if late_seconds is not None and late_rounds is not None:
        raise BadInput(f"late_seconds={late_seconds} and late_rounds={late_rounds}, expected one")
    if late_seconds is not None and not late_seconds >= 0:
        raise BadInput(f"late_seconds={late_seconds}, expected a number >= 0")
    if late_rounds is not None and late_rounds < 1:
        raise BadInput(f"late_rounds={late_rounds}, expected a whole number >= 1")
    return _whole_steps(updates, goal, "round", "goal"), least


def check_buffer(
    *,
    buffer: int,
    concurrency: int,
    updates: int,
    client_timeout: float | None,
    minimum: int | None,
) -> tuple[int, int]:
    """The same of a buffer: how many server steps, and how many reports each needs."""
    _positive(buffer=buffer, concurrency=concurrency, updates=updates)
    least = _least(minimum, buffer, "buffer", client_timeout, "client_timeout")
    if buffer > concurrency:
        raise BadInput(f"buffer={buffer} reports can never come from concurrency={concurrency} "
                       "clients; lower `buffer` or raise `concurrency`")  # fmt: skip
    return _whole_steps(updates, buffer, "server step", "buffer"), least


def _until(
    closes: NDArray[np.float64], report: NDArray[np.float64], goal: int
) -> NDArray[np.bool_]:
    """Each round's first `goal` reports; those that arrive together count by slot."""
    # Asks for reports, not delays: two that differ may still round to one time of arrival.
    before = report < closes[:, None]
    ties = report == closes[:, None]
    room = goal - before.sum(axis=1, keepdims=True)
    return before | (ties & (ties.cumsum(axis=1) <= room))


def buffered(
    clients: int,
    latency: Latency,
    *,
    seed: int,
    buffer: int,
    concurrency: int,
    updates: int,
    refill: Literal["at_update", "at_once"] = "at_update",
    client_timeout: float | None = None,
    minimum: int | None = None,
    faults: Faults | None = None,
) -> Schedule:
    """Asynchronous server steps on every `buffer` reports, with `concurrency` clients under way.

    As many whole steps are made as fit into `updates`.
    """
    steps, least = check_buffer(
        buffer=buffer, concurrency=concurrency, updates=updates, client_timeout=client_timeout,
        minimum=minimum,
    )  # fmt: skip
    if concurrency > clients:
        raise BadInput(f"concurrency={concurrency} clients cannot be drawn from a population of "
                       f"{clients}; lower `concurrency`")  # fmt: skip
    group = buffer if refill == "at_update" else 1

    groups = steps * buffer // group  # as many as replace every report
    dispatches = concurrency + groups * group
    who = np.empty(dispatches, np.int32)
    who[:concurrency] = draws.cohorts(
        seed, draws.Purpose.FIRST_CLIENTS, clients, concurrency, 0, 1
    )[0]
    who[concurrency:] = draws.cohorts(
        seed, draws.Purpose.CLIENTS, clients, group, 0, groups
    ).ravel()
    drawn = _drawn(latency, faults, who)
    patience = np.inf if client_timeout is None else client_timeout
    delay = np.minimum(drawn.seconds, patience)

    # `source[i]` is the dispatch that comes i-th, as a report or given up, at time `arrival[i]`.
    if refill == "at_update":
        arrival, source = _group_by_group(delay, concurrency, buffer, steps * buffer)
    else:
        arrival, source = _one_for_one(delay, concurrency, steps * buffer)
    if not np.isfinite(arrival[-1]):
        stuck = int(np.argmax(np.isinf(arrival))) // buffer
        raise BadInput(
            f"server step {stuck} never comes: fewer than buffer={buffer} of the "
            f"concurrency={concurrency} clients under way ever report; set `client_timeout` or "
            "check the latencies"
        )
    time = arrival[buffer - 1 :: buffer]
    start = np.concatenate([np.zeros(concurrency), np.repeat(arrival[group - 1 :: group], group)])
    leader = np.concatenate([  # number of the first dispatch of the group that starts together
        np.zeros(concurrency, np.int64),
        np.repeat(np.arange(concurrency, dispatches, group), group),
    ])  # fmt: skip
    # Dispatches that come before the last report; the others never happen.
    started = int(np.sum((start < arrival[-1]) | (leader <= source[-1])))

    # Of two times, not of two delays: they may round to one.
    answers = start + drawn.seconds <= start + patience
    counted = answers[source].reshape(steps, buffer).sum(axis=1)
    counted[counted < least] = 0  # abandoned
    if not counted.any():
        raise BadInput(f"all {steps} server steps are abandoned: fewer than minimum={least} of "
                       f"buffer={buffer} clients report within client_timeout={client_timeout} s; "
                       "raise it, lower `minimum`, or check the faults")  # fmt: skip
    step = np.full(dispatches, steps, np.int32)
    step[source] = np.repeat(np.arange(steps, dtype=np.int32), buffer)
    fate = np.where(step < steps, Fate.ON_TIME, Fate.IN_FLIGHT).astype(np.int8)
    fate[(step < steps) & ~(answers & np.append(counted > 0, False)[step])] = Fate.UNUSED
    fate[lost(drawn.fault)] = Fate.LOST
    step[fate != Fate.ON_TIME] = steps
    kept = slice(0, started)
    return Schedule(
        client=who[kept],
        version=_reports_before(arrival, source, start[kept], leader[kept]) // buffer,
        start=start[kept],
        report=(start + drawn.seconds)[kept],
        stop=(start + drawn.works)[kept],
        examples=drawn.examples[kept],
        fault=drawn.fault[kept],
        fate=fate[kept],
        step=step[kept],
        time=time,
        duration=np.diff(time, prepend=0.0),
        ready=time,
        updates=counted.cumsum(),
    )


def _group_by_group(
    delay: NDArray[np.float64], concurrency: int, group: int, reports: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Reports in order, when each `group` of them is replaced together at its last one."""
    arrival, source = np.empty(reports), np.empty(reports, np.int64)
    sequence = np.argsort(delay[:concurrency], kind="stable")
    waiting = delay[sequence]  # sorted by (time, sequence) throughout
    places = np.arange(group)
    for first in range(0, reports, group):
        now = waiting[group - 1]
        arrival[first : first + group], source[first : first + group] = (
            waiting[:group],
            sequence[:group],
        )
        next_one = concurrency + first
        fresh = now + delay[next_one : next_one + group]
        order = np.argsort(fresh, kind="stable")
        # Merge: at equal times the older dispatch stays in front.
        place = np.searchsorted(waiting[group:], fresh[order], side="right") + places
        old = np.ones(concurrency, bool)
        old[place] = False
        merged, numbers = np.empty(concurrency), np.empty(concurrency, np.int64)
        merged[place], merged[old] = fresh[order], waiting[group:]
        numbers[place], numbers[old] = next_one + order, sequence[group:]
        waiting, sequence = merged, numbers
    return arrival, source


def _one_for_one(
    delay: NDArray[np.float64], concurrency: int, reports: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Reports in order, when each is replaced at its own time."""
    arrival, source = np.empty(reports), np.empty(reports, np.int64)
    heap = list(zip(delay[:concurrency].tolist(), range(concurrency), strict=True))
    heapq.heapify(heap)
    for first in range(0, reports, CHUNK):
        last = min(reports, first + CHUNK)
        times, numbers = [], []
        extras = delay[concurrency + first : concurrency + last].tolist()
        for number, extra in enumerate(extras, concurrency + first):
            now, which = heap[0]
            times.append(now)
            numbers.append(which)
            heapq.heapreplace(heap, (now + extra, number))
        arrival[first:last], source[first:last] = times, numbers
    return arrival, source


def _reports_before(
    arrival: NDArray[np.float64],
    source: NDArray[np.int64],
    start: NDArray[np.float64],
    leader: NDArray[np.int64],
) -> NDArray[np.int32]:
    """How many reports precede each dispatch: those with a smaller (time, sequence)."""
    # Reports are sorted by (time, sequence); one integer that sorts the same makes the search
    # a plain one. `moment` numbers the distinct times, the sequence rides in the low digits.
    moment = np.cumsum(np.diff(arrival, prepend=-1.0) > 0)
    radix = int(max(source.max(), leader.max())) + 1
    at_start = np.concatenate([moment, [moment[-1] + 1]])[np.searchsorted(arrival, start)]
    at_zero = start < arrival[0]  # before any report
    key = np.where(at_zero, 0, at_start * radix + leader)
    return np.searchsorted(moment * radix + source, key).astype(np.int32)


class _Drawn(NamedTuple):
    """Columns over dispatches."""

    seconds: NDArray[np.float64]  # infinite for whoever fails
    examples: NDArray[np.int64]
    fault: NDArray[np.int8]
    works: NDArray[np.float64]  # seconds that its device works


def _drawn(latency: Latency, faults: Faults | None, who: NDArray[np.int32]) -> _Drawn:
    """What becomes of every dispatch, part by part."""
    seconds, examples = np.empty(len(who)), np.empty(len(who), np.int64)
    for first in range(0, len(who), CHUNK):
        part = slice(first, first + CHUNK)
        seconds[part], examples[part] = latency(first, who[part])
    if faults is None:
        return _Drawn(seconds, examples, np.zeros(len(who), np.int8), seconds)
    fault, worked = np.empty(len(who), np.int8), np.empty(len(who))
    for first in range(0, len(who), CHUNK):
        part = slice(first, first + CHUNK)
        fault[part], worked[part] = faults(first, who[part])
    works = np.multiply(seconds, worked, out=np.zeros(len(who)), where=worked > 0)
    return _Drawn(np.where(lost(fault), np.inf, seconds), examples, fault, works)


def _least(
    minimum: int | None, goal: int, name: str, timeout: float | None, timeout_name: str
) -> int:
    """How many reports a step that is given up needs; one if nobody says."""
    if timeout is not None and not 0 < timeout < np.inf:
        raise BadInput(f"{timeout_name}={timeout}, expected a finite number > 0")
    if minimum is None:
        return 1
    _positive(minimum=minimum)
    if timeout is None:
        raise BadInput(f"minimum={minimum} reports of a step that is given up, but none is without "
                       f"`{timeout_name}`; set it")  # fmt: skip
    if minimum > goal:
        raise BadInput(f"minimum={minimum} is more than {name}={goal}; lower `minimum`")
    return minimum


def _whole_steps(updates: int, each: int, what: str, name: str) -> int:
    if updates < each:
        raise BadInput(f"updates={updates} is less than one {what} of {name}={each}; "
                       f"raise `updates` or lower `{name}`")  # fmt: skip
    return updates // each


def _positive(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise BadInput(f"{name}={value}, expected a whole number >= 1")
