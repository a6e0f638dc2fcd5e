"""Who starts, where whoever still works is not asked again: one group after another.

    busy[c]    from the start of client c until its device stops, whatever becomes of its report
    a group    is drawn from those who are not, each of them as likely as its weight says
    opens[t]   when round t - 1 has closed and `cohort` clients are idle; the first at 0

rounds.py and buffer.py then make their schedules of these clients as of any others; a late report
that comes while a round waits to open meets that round's step. Draws have the address (seed,
group), and depend on who is idle: schedules with other latencies share none.
"""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers import draws, schedule
from stragglers.errors import BadInput
from stragglers.faults import Faults
from stragglers.latency import Latency

TRIES = 20  # draws for each place, after which those who are left are counted


class Pool:
    """Clients, when each is idle again, and what becomes of those who start."""

    def __init__(
        self, clients: int, latency: Latency, faults: Faults | None, seed: int,
        check_in: NDArray[np.float64] | None,
    ) -> None:  # fmt: skip
        self.latency, self.faults, self.seed = latency, faults, seed
        self.weight = np.ones(clients) if check_in is None else check_in
        self.shares = self.weight.cumsum() / self.weight.sum()
        self.until = np.zeros(clients)  # busy so long, seconds
        self.dispatches = self.groups = 0

    def start(self, who: NDArray[np.int32], now: float) -> NDArray[np.float64]:
        """Has clients start together; the seconds that each takes to report."""
        drawn = schedule.drawn(self.latency, self.faults, who, start=self.dispatches)
        self.until[who] = now + drawn.works
        self.dispatches += len(who)
        self.groups += 1
        return drawn.seconds

    def draw(self, size: int, now: float) -> NDArray[np.int32]:
        """Clients who are idle now."""
        chance = draws.generator(self.seed, draws.Purpose.IDLE, self.groups)
        chosen: dict[int, None] = {}  # in the order of drawing
        for _ in range(TRIES):
            places = np.searchsorted(self.shares, chance.random(size), side="right")
            chosen |= dict.fromkeys(places[self.until[places] <= now].tolist())
            if len(chosen) >= size:
                return np.array([*chosen][:size], np.int32)
        # Most are busy: the next is each of those who are left in proportion to its weight.
        left = np.setdiff1d(self.idle(now), [*chosen])
        if len(chosen) + len(left) < size:
            there = len(chosen) + len(left)
            raise BadInput(f"{there} clients are idle at {now:,.0f} s and {size} shall start; "
                           "lower `concurrency` or raise `client_timeout`")  # fmt: skip
        share = self.weight[left] / self.weight[left].sum()
        rest = chance.choice(left, size - len(chosen), replace=False, p=share)
        return np.array([*chosen, *rest.tolist()], np.int32)

    def idle(self, now: float) -> NDArray[np.int64]:
        return np.flatnonzero((self.until <= now) & (self.weight > 0))

    def when(self, size: int, now: float) -> float:
        """The first moment from now on when so many are idle."""
        missing = size - len(self.idle(now))
        if missing <= 0:
            return now
        ends = np.sort(self.until[(self.until > now) & (self.weight > 0)])
        return float(ends[missing - 1]) if missing <= len(ends) else np.inf


class Rounds(NamedTuple):
    who: NDArray[np.int32]  # [rounds, cohort]
    opens: NDArray[np.float64]  # [rounds]


def of_rounds(
    pool: Pool, *, goal: int, cohort: int, rounds: int, round_timeout: float | None
) -> Rounds:
    """Rounds that open when their cohort is idle; after one that never closes nobody is drawn."""
    who, opens = np.zeros((rounds, cohort), np.int32), np.full(rounds, np.inf)
    now = 0.0
    for t in range(rounds):
        now = pool.when(cohort, now)
        if now == np.inf:
            raise BadInput(f"round {t} never opens: fewer than cohort={cohort} clients are ever "
                           "idle again; lower `cohort` or check the latencies")  # fmt: skip
        opens[t], who[t] = now, pool.draw(cohort, now)
        seconds = np.partition(pool.start(who[t], now), goal - 1)[goal - 1]
        now += seconds if round_timeout is None else min(seconds, round_timeout)
        if now == np.inf:
            break
    return Rounds(who, opens)


def of_buffer(
    pool: Pool, first: NDArray[np.int32], *, group: int, groups: int, patience: float
) -> NDArray[np.int32]:
    """Clients in the order of dispatch: `first`, then a group for every so many that report."""
    who = [first]
    under_way = [(seconds, number) for number, seconds in
                 enumerate(np.minimum(pool.start(first, 0.0), patience).tolist())]  # fmt: skip
    heapq.heapify(under_way)
    for done in range(groups):
        now = max(heapq.heappop(under_way)[0] for _ in range(group))
        if now == np.inf:  # such a schedule is refused, whoever would start
            who.append(np.zeros((groups - done) * group, np.int32))
            break
        following, number = pool.draw(group, now), pool.dispatches
        who.append(following)
        for seconds in np.minimum(pool.start(following, now), patience).tolist():
            heapq.heappush(under_way, (now + seconds, number))
            number += 1
    return np.concatenate(who)
