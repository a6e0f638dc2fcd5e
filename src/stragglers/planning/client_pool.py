"""Who starts where not every client can be selected: some are busy, others offline.

    busy[c]     from the start of client c until its device stops, whatever becomes of its report
    idle        online (availability.py), and not busy if busy clients are skipped
    group       clients that start together, drawn from the idle ones by weight
    starts[g]   when group g is due and enough clients are idle; of rounds these are opens[t]

Going offline affects a client that needs s seconds of work and stays for less:

    lose        its report never arrives; its device stops when it goes offline
    pause       it resumes whenever it is online again
    finish      nothing changes

rounds.py and buffered.py make their schedules of these groups as of any others. Draws have the
address (seed, group), and depend on who is idle: schedules with other latencies share none.
"""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning import availability, schedule
from stragglers.planning.availability import Online
from stragglers.planning.faults import Fault
from stragglers.planning.fleet import DrawnFleet
from stragglers.planning.policy import Buffer, Busy, Rounds
from stragglers.planning.schedule import Drawn

TRIES = 20  # rounds of draws, after which the remaining idle clients are listed
AT_ONCE = 64  # draws at least: a call costs more than the draws


class Pool:
    """Clients of a fleet: when each is idle again, and what becomes of each dispatch."""

    def __init__(self, fleet: DrawnFleet, seed: int, busy: Busy) -> None:
        self.latency, self.faults, self.online = fleet.latency, fleet.faults, fleet.online
        self.seed, self.busy = seed, busy
        self.weight = schedule.chances(fleet)
        upto = self.weight.cumsum()
        self.shares = upto / upto[-1]
        self.until = np.zeros(len(self.weight))  # seconds until which each client is busy
        self.dispatches = self.groups = 0
        self.parts: list[Drawn] = []
        self.asked: list[float] = []  # when each dispatch's group was due

    def start(self, who: NDArray[np.int32], now: float, asked: float) -> NDArray[np.float64]:
        """Starts a group that was due at `asked`; returns the seconds until each client reports."""
        drawn = schedule.drawn(self.latency, self.faults, who, start=self.dispatches)
        if self.online is not None:
            drawn = _while_online(self.online, drawn, who, now)
        if self.busy == "skip":
            self.until[who] = now + drawn.stops
        self.dispatches += len(who)
        self.groups += 1
        self.parts.append(drawn)
        self.asked += [asked] * len(who)
        return drawn.seconds

    def drawn(self) -> Drawn:
        """What became of all clients that have started, in the order of dispatch."""
        return Drawn(*map(np.concatenate, zip(*self.parts, strict=True)))

    def draw(self, size: int, now: float) -> tuple[float, NDArray[np.int32]]:
        """The next group, and when it starts: now, or once enough clients are idle, or never."""
        who = self._from_idle(size, now)
        if who is None:
            now = self.when(size, now)
            who = self._from_idle(size, now) if now < np.inf else np.empty(0, np.int32)
        assert who is not None and (now == np.inf or len(who) == size)
        return now, who

    def _from_idle(self, size: int, now: float) -> NDArray[np.int32] | None:
        chance = random_streams.generator(self.seed, random_streams.Purpose.IDLE, self.groups)
        chosen: dict[int, None] = {}  # in the order of drawing
        for _ in range(TRIES):
            some = chance.random(max(size, AT_ONCE))
            places = np.searchsorted(self.shares, some, side="right")
            chosen |= dict.fromkeys(places[self._is_idle(places, now)].tolist())
            if len(chosen) >= size:
                return np.array([*chosen][:size], np.int32)
        # Few are idle: draw among those not chosen yet, in proportion to their weights.
        left = np.setdiff1d(self.idle(now), [*chosen])
        if len(chosen) + len(left) < size:
            return None
        share = self.weight[left] / self.weight[left].sum()
        rest = chance.choice(left, size - len(chosen), replace=False, p=share)
        return np.array([*chosen, *rest.tolist()], np.int32)

    def _is_idle(self, clients: NDArray[np.int64], now: float) -> NDArray[np.bool_]:
        free = self.until[clients] <= now
        return (
            free
            if self.online is None
            else free & (availability.stays(self.online, clients, now) > 0)
        )

    def idle(self, now: float) -> NDArray[np.int64]:
        clients = np.flatnonzero(self.weight)
        return clients[self._is_idle(clients, now)]

    def when(self, size: int, now: float) -> float:
        """The first moment from now on at which so many are idle; infinite if there is none."""
        drawable = self.weight > 0
        if self.online is None:
            free = np.sort(np.maximum(self.until[drawable], now))
            return float(free[size - 1]) if size <= len(free) else np.inf
        pending = np.sort(self.until[drawable & (self.until < np.inf)])
        if size > len(pending):
            return np.inf
        first = window = int(max(now, pending[size - 1]) // self.online.cycle)
        while True:
            found = self._when_within(window, size, now)
            if found is not None:
                return found
            # Cycles are all alike once no work ends in them.
            window += 1
            if window > first + 1:
                ends = pending[np.searchsorted(pending, (window - 1) * self.online.cycle) :]
                if not len(ends):
                    return np.inf
                window = max(window, int(ends[0] // self.online.cycle))

    def _when_within(self, window: int, size: int, now: float) -> float | None:
        """The same in one cycle, or none."""
        assert self.online is not None
        online = self.online
        owner = np.repeat(np.arange(len(self.weight)), np.diff(online.first))
        idle_from, drawable = np.maximum(self.until[owner], now), self.weight[owner] > 0
        comes, goes = [], []
        for cycle in (window - 1, window):  # whose last interval may end in the next
            since = np.maximum(cycle * online.cycle + online.begin, idle_from)
            until = cycle * online.cycle + online.end
            counts = (since < until) & drawable
            comes.append(since[counts])
            goes.append(until[counts])
        arrive, leave = np.sort(np.concatenate(comes)), np.sort(np.concatenate(goes))
        moments = arrive[arrive < (window + 1) * online.cycle]
        idle = np.searchsorted(arrive, moments, side="right")
        idle -= np.searchsorted(leave, moments, side="right")
        enough = np.flatnonzero(idle >= size)
        return float(moments[enough[0]]) if len(enough) else None


def _while_online(online: Online, drawn: Drawn, who: NDArray[np.int32], now: float) -> Drawn:
    """What becomes of clients that may go offline before they finish."""
    if online.leaving == "pause":
        seconds, stops = (
            availability.takes(online, who, now, time) for time in (drawn.seconds, drawn.works)
        )
        return drawn._replace(seconds=seconds, stops=stops)
    if online.leaving == "finish":
        return drawn
    stay = availability.stays(online, who, now)
    left, works = drawn.works > stay, np.minimum(drawn.works, stay)
    return drawn._replace(
        seconds=np.where(left, np.inf, drawn.seconds),
        works=works,
        stops=works,
        fault=np.where(left, Fault.LEFT, drawn.fault).astype(np.int8),
    )


class Cohorts(NamedTuple):
    who: NDArray[np.int32]  # [rounds, cohort]
    drawn: Drawn
    asked: NDArray[np.float64]  # when each dispatch's cohort was due
    opens: NDArray[np.float64]  # [rounds]


def of_rounds(pool: Pool, policy: Rounds, rounds: int) -> Cohorts:
    """Rounds that open once their cohort is idle; after one that never does there is none."""
    who, opens = [], []
    asked, size, goal = 0.0, policy.cohort_size, policy.goal
    while len(opens) < rounds and asked < np.inf:
        now, cohort = pool.draw(size, asked)
        if now == np.inf and not opens:
            raise BadInput(never_opens(0, size))
        if now == np.inf:
            break
        opens.append(now)
        who.append(cohort)
        seconds = np.partition(pool.start(cohort, now, asked), goal - 1)[goal - 1]
        timeout = np.inf if policy.round_timeout is None else policy.round_timeout
        asked = now + min(seconds, timeout)
    return Cohorts(np.stack(who), pool.drawn(), np.array(pool.asked), np.array(opens))


def never_opens(round: int, cohort: int) -> str:
    return (
        f"round {round} never opens: fewer than cohort={cohort} clients are ever idle together "
        "again; lower `cohort`, or check the latencies and the availability"
    )


class Refilled(NamedTuple):
    who: NDArray[np.int32]  # in the order of dispatch
    start: NDArray[np.float64]
    asked: NDArray[np.float64]
    drawn: Drawn
    arrival: NDArray[np.float64]  # of reports, and of clients that time out, in order
    source: NDArray[np.int64]  # the dispatch of each


def of_buffer(pool: Pool, policy: Buffer, first: NDArray[np.int32] | None, groups: int) -> Refilled:
    """Clients in the order of dispatch: the first ones, then a group for each group of reports.

    Once a group never finds enough idle clients, no further client starts.
    """
    who: list[NDArray[np.int32]] = []
    starts: list[float] = []
    in_flight: list[tuple[float, int]] = []
    arrived: list[tuple[float, int]] = []
    timeout = np.inf if policy.client_timeout is None else policy.client_timeout
    group = policy.group

    def begin(clients: NDArray[np.int32], now: float, asked: float) -> None:
        number = pool.dispatches
        for seconds in np.minimum(pool.start(clients, now, asked), timeout).tolist():
            heapq.heappush(in_flight, (now + seconds, number))
            number += 1
        who.append(clients)
        starts.extend([now] * len(clients))

    size = policy.concurrency
    now, clients = (0.0, first) if first is not None else pool.draw(size, 0.0)
    if now == np.inf:
        raise BadInput(
            f"concurrency={size} clients are never online together; lower it, or extend the hours"
        )
    begin(clients, now, 0.0)
    for _ in range(groups):
        if len(in_flight) < group:
            break
        arrived += [heapq.heappop(in_flight) for _ in range(group)]
        asked = now = max(now, arrived[-1][0])  # infinite once no client can start
        if now < np.inf:
            now, clients = pool.draw(group, asked)
        if now < np.inf:
            begin(clients, now, asked)
    arrived += [(np.inf, 0)] * (groups * group - len(arrived))
    arrival, source = zip(*arrived, strict=True)
    return Refilled(
        np.concatenate(who),
        np.array(starts),
        np.array(pool.asked),
        pool.drawn(),
        np.array(arrival),
        np.array(source, np.int64),
    )
