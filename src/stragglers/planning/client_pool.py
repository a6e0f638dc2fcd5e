"""Who starts, where not everybody can be asked: whoever still works, or is not there.

    busy[c]     from the start of client c until its device stops, whatever becomes of its report
    idle        there (availability.py), and not busy if whoever is busy is skipped
    a group     is drawn from those who are idle, each of them as likely as its weight says
    starts[g]   when group g is asked for and enough are idle; of rounds these are opens[t]

What leaving does to a client that works for s seconds and stays for less:

    lose        its report never comes; its device stops when it leaves
    pause       it goes on whenever it is there again
    finish      nothing

rounds.py and buffered.py then make their schedules of these groups as of any others. Draws have the
address (seed, group), and depend on who is idle: schedules with other latencies share none.
"""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning import availability, schedule
from stragglers.planning.availability import Availability
from stragglers.planning.faults import Fault, Faults
from stragglers.planning.latency import Latency
from stragglers.planning.schedule import Busy, Drawn

TRIES = 20  # draws for each place, after which those who are left are counted
AT_ONCE = 64  # of them at least: a call costs more than they do


class Pool:
    """Clients, when each is idle again, and what becomes of those who start."""

    def __init__(
        self,
        clients: int,
        latency: Latency,
        faults: Faults | None,
        seed: int,
        check_in: NDArray[np.float64] | None,
        busy: Busy = "skip",
        there: Availability | None = None,
    ) -> None:
        self.latency, self.faults, self.seed = latency, faults, seed
        self.busy, self.there = busy, there
        self.weight = schedule.chances(clients, check_in, there)
        upto = self.weight.cumsum()
        self.shares = upto / upto[-1]
        self.until = np.zeros(clients)  # busy so long, seconds
        self.dispatches = self.groups = 0
        self.parts: list[Drawn] = []
        self.asked: list[float] = []  # when each dispatch's group was

    def start(self, who: NDArray[np.int32], now: float, asked: float) -> NDArray[np.float64]:
        """Has clients start together that were asked for; the seconds that each takes to report."""
        drawn = schedule.drawn(self.latency, self.faults, who, start=self.dispatches)
        if self.there is not None:
            drawn = _while_there(self.there, drawn, who, now)
        if self.busy == "skip":
            self.until[who] = now + drawn.stops
        self.dispatches += len(who)
        self.groups += 1
        self.parts.append(drawn)
        self.asked += [asked] * len(who)
        return drawn.seconds

    def drawn(self) -> Drawn:
        """What became of all who have started, in the order of dispatch."""
        return Drawn(*map(np.concatenate, zip(*self.parts, strict=True)))

    def draw(self, size: int, now: float) -> tuple[float, NDArray[np.int32]]:
        """The next group, and when it starts: at once, or when so many are idle, if ever."""
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
        # Few are idle: the next is each of those who are left in proportion to its weight.
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
            if self.there is None
            else free & (availability.stays(self.there, clients, now) > 0)
        )

    def idle(self, now: float) -> NDArray[np.int64]:
        clients = np.flatnonzero(self.weight)
        return clients[self._is_idle(clients, now)]

    def when(self, size: int, now: float) -> float:
        """The first moment from now on when so many are idle; infinite if there is none."""
        drawable = self.weight > 0
        if self.there is None:
            free = np.sort(np.maximum(self.until[drawable], now))
            return float(free[size - 1]) if size <= len(free) else np.inf
        pending = np.sort(self.until[drawable & (self.until < np.inf)])
        if size > len(pending):
            return np.inf
        first = window = int(max(now, pending[size - 1]) // self.there.cycle)
        while True:
            found = self._when_within(window, size, now)
            if found is not None:
                return found
            # Cycles are all alike once nobody's work ends in them.
            window += 1
            if window > first + 1:
                ends = pending[np.searchsorted(pending, (window - 1) * self.there.cycle) :]
                if not len(ends):
                    return np.inf
                window = max(window, int(ends[0] // self.there.cycle))

    def _when_within(self, window: int, size: int, now: float) -> float | None:
        """The same in one cycle, or none."""
        assert self.there is not None
        there = self.there
        owner = np.repeat(np.arange(len(self.weight)), np.diff(there.first))
        idle_from, drawable = np.maximum(self.until[owner], now), self.weight[owner] > 0
        comes, goes = [], []
        for cycle in (window - 1, window):  # whose last interval may end in the next
            since = np.maximum(cycle * there.cycle + there.begin, idle_from)
            until = cycle * there.cycle + there.end
            counts = (since < until) & drawable
            comes.append(since[counts])
            goes.append(until[counts])
        arrive, leave = np.sort(np.concatenate(comes)), np.sort(np.concatenate(goes))
        moments = arrive[arrive < (window + 1) * there.cycle]
        idle = np.searchsorted(arrive, moments, side="right")
        idle -= np.searchsorted(leave, moments, side="right")
        enough = np.flatnonzero(idle >= size)
        return float(moments[enough[0]]) if len(enough) else None


def _while_there(there: Availability, drawn: Drawn, who: NDArray[np.int32], now: float) -> Drawn:
    """What becomes of clients that may leave before they are done."""
    if there.leaving == "pause":
        seconds, stops = (
            availability.takes(there, who, now, time) for time in (drawn.seconds, drawn.works)
        )
        return drawn._replace(seconds=seconds, stops=stops)
    if there.leaving == "finish":
        return drawn
    stay = availability.stays(there, who, now)
    left, works = drawn.works > stay, np.minimum(drawn.works, stay)
    return drawn._replace(
        seconds=np.where(left, np.inf, drawn.seconds),
        works=works,
        stops=works,
        fault=np.where(left, Fault.LEFT, drawn.fault).astype(np.int8),
    )


class Rounds(NamedTuple):
    who: NDArray[np.int32]  # [rounds, cohort]
    opens: NDArray[np.float64]  # [rounds]
    asked: NDArray[np.float64]  # when each dispatch's cohort was, and waits from then on
    drawn: Drawn


def of_rounds(
    pool: Pool, *, goal: int, cohort: int, rounds: int, round_timeout: float | None
) -> Rounds:
    """Rounds that open when their cohort is idle; after one that never does there is none."""
    who, opens = [], []
    asked = 0.0
    while len(opens) < rounds and asked < np.inf:
        now, cohort_now = pool.draw(cohort, asked)
        if now == np.inf and not opens:
            raise BadInput(never_opens(0, cohort))
        if now == np.inf:
            break
        opens.append(now)
        who.append(cohort_now)
        seconds = np.partition(pool.start(cohort_now, now, asked), goal - 1)[goal - 1]
        asked = now + (seconds if round_timeout is None else min(seconds, round_timeout))
    return Rounds(np.stack(who), np.array(opens), np.array(pool.asked), pool.drawn())


def never_opens(round: int, cohort: int) -> str:
    return (
        f"round {round} never opens: fewer than cohort={cohort} clients are ever idle together "
        "again; lower `cohort`, or check the latencies and who is there"
    )


class Buffer(NamedTuple):
    who: NDArray[np.int32]  # in the order of dispatch
    start: NDArray[np.float64]
    asked: NDArray[np.float64]
    drawn: Drawn
    arrival: NDArray[np.float64]  # of reports, and of clients that are given up, in order
    source: NDArray[np.int64]  # the dispatch of each


def of_buffer(
    pool: Pool,
    first: NDArray[np.int32] | None,
    *,
    size: int,
    group: int,
    groups: int,
    patience: float,
) -> Buffer:
    """Clients in the order of dispatch: the first `size`, then a group for every so many reports.

    Where so many are never idle together again, nobody starts any more.
    """
    who: list[NDArray[np.int32]] = []
    starts: list[float] = []
    under_way: list[tuple[float, int]] = []
    arrived: list[tuple[float, int]] = []

    def begin(clients: NDArray[np.int32], now: float, asked: float) -> None:
        number = pool.dispatches
        for seconds in np.minimum(pool.start(clients, now, asked), patience).tolist():
            heapq.heappush(under_way, (now + seconds, number))
            number += 1
        who.append(clients)
        starts.extend([now] * len(clients))

    now, clients = (0.0, first) if first is not None else pool.draw(size, 0.0)
    if now == np.inf:
        raise BadInput(
            f"concurrency={size} clients are never there together; lower it, or let more be there"
        )
    begin(clients, now, 0.0)
    for _ in range(groups):
        if len(under_way) < group:
            break
        arrived += [heapq.heappop(under_way) for _ in range(group)]
        asked = now = max(now, arrived[-1][0])  # infinite once nobody can start
        if now < np.inf:
            now, clients = pool.draw(group, asked)
        if now < np.inf:
            begin(clients, now, asked)
    arrived += [(np.inf, 0)] * (groups * group - len(arrived))
    arrival, source = zip(*arrived, strict=True)
    return Buffer(
        np.concatenate(who),
        np.array(starts),
        np.array(pool.asked),
        pool.drawn(),
        np.array(arrival),
        np.array(source, np.int64),
    )
