"""Asynchronous server steps: every `size` reports, with `concurrency` clients always in flight.

    arrival[i]   the i-th report, by (time, sequence);  time[s] = arrival[(s + 1) * size - 1]
    start        of the client that replaces report i: time[i // size], together with the others
                 of its step ("at_update"), or arrival[i], at once ("at_once")
    report       start + latency
    version      (reports before start) // size

or, where busy or offline clients are skipped, once enough are idle (client_pool.py). With a
`client_timeout`, a client times out that long after its start: it is replaced as if it reported,
and its place in the buffer stays empty. Three steps make the table:

    refill   who starts when, and in which order reports and time-outs arrive
    count    reports of each server step, and the steps that are abandoned
    cut      the table at the last report

The rules of order, clock and budget are those of schedule.py.
"""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning import client_pool, schedule
from stragglers.planning.client_pool import Refilled
from stragglers.planning.faults import lost
from stragglers.planning.fleet import DrawnFleet
from stragglers.planning.policy import Buffer
from stragglers.planning.schedule import Fate, Schedule


class _Counted(NamedTuple):
    answers: NDArray[np.bool_]  # of each dispatch: reports before it times out
    reports: NDArray[np.int64]  # [steps], 0 where abandoned


def make(fleet: DrawnFleet, policy: Buffer, *, updates: int, seed: int) -> Schedule:
    """The schedule of as many whole server steps as fit into `updates`."""
    schedule.check_drawable("concurrency", policy.concurrency, fleet)
    steps = updates // policy.size
    refilled = _refill(fleet, policy, steps, seed)
    _check_arrivals(refilled.arrival, policy)
    counted = _count(refilled, policy, steps)
    return _table(refilled, counted, policy, fleet)


def _refill(fleet: DrawnFleet, policy: Buffer, steps: int, seed: int) -> Refilled:
    group, clients, size = policy.group, fleet.population.clients, policy.concurrency
    groups = steps * policy.size // group  # as many as replace every report

    def first() -> NDArray[np.int32]:
        purpose = random_streams.Purpose.FIRST_CLIENTS
        return random_streams.cohorts(seed, purpose, clients, size, 0, 1, fleet.check_in)[0]

    if policy.busy == "skip" or fleet.online is not None:
        pool = client_pool.Pool(fleet, seed, policy.busy)
        at_0 = first() if fleet.online is None else None
        return client_pool.of_buffer(pool, policy, at_0, groups)
    drawn_first = first()
    purpose = random_streams.Purpose.CLIENTS
    refills = random_streams.cohorts(seed, purpose, clients, group, 0, groups, fleet.check_in)
    who = np.concatenate([drawn_first, refills.ravel()])
    drawn = schedule.drawn(fleet.latency, fleet.faults, who)
    delay = np.minimum(drawn.seconds, _timeout(policy))
    if policy.refill == "at_update":
        arrival, source = _group_by_group(delay, size, policy.size, steps * policy.size)
    else:
        arrival, source = _one_for_one(delay, size, steps * policy.size)
    replaced = np.repeat(arrival[group - 1 :: group], group)
    start = np.concatenate([np.zeros(size), replaced])
    return Refilled(who, start, start, drawn, arrival, source)


def _timeout(policy: Buffer) -> float:
    return np.inf if policy.client_timeout is None else policy.client_timeout


def _check_arrivals(arrival: NDArray[np.float64], policy: Buffer) -> None:
    if not np.isfinite(arrival[-1]):
        stuck = int(np.argmax(np.isinf(arrival))) // policy.size
        raise BadInput(
            f"server step {stuck} never comes: fewer than buffer={policy.size} of the "
            f"concurrency={policy.concurrency} clients in flight ever report; set "
            "`client_timeout`, or check the latencies, the faults and the availability"
        )


def _count(refilled: Refilled, policy: Buffer, steps: int) -> _Counted:
    # By times, not by latencies: they may round to one.
    start, least = refilled.start, policy.minimum or 1
    answers = start + refilled.drawn.seconds <= start + _timeout(policy)
    reports = answers[refilled.source].reshape(steps, policy.size).sum(axis=1)
    reports[reports < least] = 0  # abandoned
    if not reports.any():
        raise BadInput(
            f"all {steps} server steps are abandoned: fewer than minimum={least} of "
            f"buffer={policy.size} clients report within client_timeout={policy.client_timeout} s; "
            "raise it, lower `minimum`, or check the faults"
        )
    return _Counted(answers, reports)


def _table(refilled: Refilled, counted: _Counted, policy: Buffer, fleet: DrawnFleet) -> Schedule:
    who, start, asked, drawn, arrival, source = refilled
    steps = len(counted.reports)
    leader = _leaders(len(who), policy)
    # Dispatches before the last report; the others never happen.
    kept = slice(0, int(np.sum((start < arrival[-1]) | (leader <= source[-1]))))
    step = np.full(len(who), steps, np.int32)
    step[source] = np.repeat(np.arange(steps, dtype=np.int32), policy.size)
    made = np.append(counted.reports > 0, False)[step]
    fate = np.where(step < steps, Fate.ON_TIME, Fate.IN_FLIGHT).astype(np.int8)
    fate[(step < steps) & ~(counted.answers & made)] = Fate.UNUSED
    fate[lost(drawn.fault)] = Fate.LOST
    step[fate != Fate.ON_TIME] = steps
    time = arrival[policy.size - 1 :: policy.size]
    return Schedule(
        client=who[kept],
        version=_reports_before(arrival, source, start[kept], leader[kept]) // policy.size,
        asked=asked[kept],
        start=start[kept],
        report=(start + drawn.seconds)[kept],
        stop=(start + drawn.stops)[kept],
        works=drawn.works[kept],
        examples=drawn.examples[kept],
        cut=drawn.cut[kept],
        fault=drawn.fault[kept],
        fate=fate[kept],
        step=step[kept],
        time=time,
        duration=np.diff(time, prepend=0.0),
        ready=time,
        updates=counted.reports.cumsum(),
        fleet=fleet,
    )


def _leaders(dispatches: int, policy: Buffer) -> NDArray[np.int64]:
    """The first dispatch of the group that each dispatch starts with."""
    first = np.zeros(policy.concurrency, np.int64)
    later = np.arange(policy.concurrency, dispatches + policy.group, policy.group)
    return np.concatenate([first, np.repeat(later, policy.group)])[:dispatches]


def _group_by_group(
    delay: NDArray[np.float64], concurrency: int, group: int, reports: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Reports in order, if each `group` of them is replaced together at the last one."""
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
    """Reports in order, if each is replaced when it arrives."""
    arrival, source = np.empty(reports), np.empty(reports, np.int64)
    heap = list(zip(delay[:concurrency].tolist(), range(concurrency), strict=True))
    heapq.heapify(heap)
    for first in range(0, reports, schedule.CHUNK):
        last = min(reports, first + schedule.CHUNK)
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
    place = np.searchsorted(arrival, start)
    at_start = np.append(moment, moment[-1] + 1)[place]
    at_a_report = np.append(arrival, np.inf)[place] == start  # else before any of that moment
    key = at_start * radix + np.where(at_a_report, leader, 0)
    return np.searchsorted(moment * radix + source, key).astype(np.int32)
