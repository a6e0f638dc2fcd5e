"""Asynchronous server steps on every `buffer` reports; `concurrency` clients are always under way.

    arrival[i]   the i-th report, by (time, sequence);  time[s] = arrival[(s + 1) * buffer - 1]
    start        of the client that replaces report i: time[i // buffer], together with the others
                 of its step ("at_update"), or arrival[i], at once ("at_once")
    report       start + latency
    version      (reports before start) // buffer

or, where not everybody can be asked, when enough are idle after that (client_pool.py). With a
`client_timeout` a client is given up so long after its start: it is replaced as if it had reported,
and its place in the buffer stays empty. The rules of order, clock and budget are those of
schedule.py.
"""

import heapq
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning import client_pool, schedule
from stragglers.planning.availability import Availability
from stragglers.planning.faults import Faults, lost
from stragglers.planning.latency import Latency
from stragglers.planning.schedule import Busy, Fate, Schedule


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
    check_in: NDArray[np.float64] | None = None,
    busy: Busy = "again",
    there: Availability | None = None,
) -> Schedule:
    """Asynchronous server steps on every `buffer` reports, with `concurrency` clients under way.

    As many whole steps are made as fit into `updates`. `check_in`, `busy` and `there` as in
    rounds.py.
    """
    steps, least = check(
        buffer=buffer,
        concurrency=concurrency,
        updates=updates,
        client_timeout=client_timeout,
        minimum=minimum,
    )
    schedule.check_drawable("concurrency", concurrency, clients, check_in, there)
    group = buffer if refill == "at_update" else 1

    groups = steps * buffer // group  # as many as replace every report
    dispatches = concurrency + groups * group
    patience = np.inf if client_timeout is None else client_timeout

    def first() -> NDArray[np.int32]:
        of = random_streams.Purpose.FIRST_CLIENTS
        return random_streams.cohorts(seed, of, clients, concurrency, 0, 1, check_in)[0]

    # `source[i]` is the dispatch that comes i-th, as a report or given up, at time `arrival[i]`.
    if busy == "skip" or there is not None:
        pool = client_pool.Pool(clients, latency, faults, seed, check_in, busy, there)
        who, start, asked, drawn, arrival, source = client_pool.of_buffer(
            pool,
            first() if there is None else None,
            size=concurrency,
            group=group,
            groups=groups,
            patience=patience,
        )
    else:
        drawn_first = first()
        refills = random_streams.cohorts(
            seed, random_streams.Purpose.CLIENTS, clients, group, 0, groups, check_in
        )
        who = np.concatenate([drawn_first, refills.ravel()])
        drawn = schedule.drawn(latency, faults, who)
        delay = np.minimum(drawn.seconds, patience)
        if refill == "at_update":
            arrival, source = _group_by_group(delay, concurrency, buffer, steps * buffer)
        else:
            arrival, source = _one_for_one(delay, concurrency, steps * buffer)
        replaced = np.repeat(arrival[group - 1 :: group], group)
        asked = start = np.concatenate([np.zeros(concurrency), replaced])
    if not np.isfinite(arrival[-1]):
        stuck = int(np.argmax(np.isinf(arrival))) // buffer
        raise BadInput(
            f"server step {stuck} never comes: fewer than buffer={buffer} of the "
            f"concurrency={concurrency} clients under way ever report; set `client_timeout` or "
            "check the latencies, the faults and who is there"
        )
    time = arrival[buffer - 1 :: buffer]
    leader = np.concatenate(
        [  # number of the first dispatch of the group that starts together
            np.zeros(concurrency, np.int64),
            np.repeat(np.arange(concurrency, dispatches, group), group),
        ]
    )[: len(who)]
    # Dispatches that come before the last report; the others never happen.
    started = int(np.sum((start < arrival[-1]) | (leader <= source[-1])))

    # Of two times, not of two delays: they may round to one.
    answers = start + drawn.seconds <= start + patience
    counted = answers[source].reshape(steps, buffer).sum(axis=1)
    counted[counted < least] = 0  # abandoned
    if not counted.any():
        raise BadInput(
            f"all {steps} server steps are abandoned: fewer than minimum={least} of "
            f"buffer={buffer} clients report within client_timeout={client_timeout} s; "
            "raise it, lower `minimum`, or check the faults"
        )
    step = np.full(len(who), steps, np.int32)
    step[source] = np.repeat(np.arange(steps, dtype=np.int32), buffer)
    fate = np.where(step < steps, Fate.ON_TIME, Fate.IN_FLIGHT).astype(np.int8)
    fate[(step < steps) & ~(answers & np.append(counted > 0, False)[step])] = Fate.UNUSED
    fate[lost(drawn.fault)] = Fate.LOST
    step[fate != Fate.ON_TIME] = steps
    kept = slice(0, started)
    return Schedule(
        client=who[kept],
        version=_reports_before(arrival, source, start[kept], leader[kept]) // buffer,
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
        updates=counted.cumsum(),
        clients=clients,
    )


def check(
    *,
    buffer: int,
    concurrency: int,
    updates: int,
    client_timeout: float | None,
    minimum: int | None,
) -> tuple[int, int]:
    """Refuses what no population makes good; how many server steps, and how many reports each."""
    schedule.check_positive(buffer=buffer, concurrency=concurrency, updates=updates)
    least = schedule.least_reports(minimum, buffer, "buffer", client_timeout, "client_timeout")
    if buffer > concurrency:
        raise BadInput(
            f"buffer={buffer} reports can never come from concurrency={concurrency} "
            "clients; lower `buffer` or raise `concurrency`"
        )
    return schedule.whole_steps(updates, buffer, "server step", "buffer"), least


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
