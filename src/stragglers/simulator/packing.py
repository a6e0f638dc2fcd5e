"""Packing clients into lanes: each lane trains one client after another, all lanes at once.

Clients differ in size by orders of magnitude, so training a cohort side by side, padded to its
largest client, would waste most of an accelerator. A trial's server step waits for all of its
clients, but not for those of other trials: each goes at its own pace, and they meet only where a
*leg* ends. With lanes a leg takes

    ticks >= max(total steps / lanes, longest way of a trial)      way: its longest clients' sum

local steps of all lanes together. Of the clients whose model is there, a lane that is free takes
the one with the longest way still to go. For one trial that is longest first, which comes within a
third of the best packing at worst, and in practice next to the bound; as it does for several.

engine.py defines lane, tick, span, turn and leg. A span has no ticks where lanes only start what
the turn before brought.
"""

import heapq
from collections.abc import Iterable, Iterator, Sized
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Load(NamedTuple):
    """What there is to train: columns over clients, by version and then by trial."""

    trial: NDArray[np.int32]
    version: NDArray[np.int32]
    cost: NDArray[np.int64]  # local steps, 1 at least: no client is free of charge
    legs: NDArray[np.int64]  # [legs + 1]: leg u is the server steps legs[u] to legs[u + 1]
    trials: int


class Lanes(NamedTuple):
    order: NDArray[np.int32]  # clients, regrouped by leg and lane
    begin: NDArray[np.int32]  # [legs, lanes + 1]: lane l takes order[begin[l]:begin[l + 1]]
    opens: NDArray[np.int32]  # of each client: turns that must be over before it starts
    turn_begin: NDArray[np.int32]  # [legs + 1]: leg u has turns turn_begin[u] to ...
    trial: NDArray[np.int32]  # whose turn it is
    version: NDArray[np.int32]  # and which of its server steps
    span_begin: NDArray[np.int32]  # [turns + 1]: before turn e, spans span_begin[e] to ...
    spans: NDArray[np.int32]  # their ticks
    ticks: NDArray[np.int64]  # [legs]
    bound: NDArray[np.int64]  # [legs]: the fewest ticks that any packing could reach

    @property
    def efficiency(self) -> float:
        """How near the packing comes to its bound, over all legs."""
        return float(self.bound.sum() / max(self.ticks.sum(), 1))


def lengths(load: Load) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each leg: local steps in total, and the longest way of a trial."""
    total = np.zeros(len(load.legs) - 1, np.int64)
    np.add.at(total, np.searchsorted(load.legs, load.version, side="right") - 1, load.cost)
    ways = np.add.reduceat(_longest(load), load.legs[:-1], axis=1) if len(total) else total[None]
    return total, ways.max(axis=0)


def pack(load: Load, lanes: int) -> Lanes:
    """Every client's lane and place in it, and the order of all that happens."""
    cost = load.cost.tolist()
    legs = [_walk(cost, way, lanes) for way in _ways(load)]
    turns = [turn for leg in legs for turn in leg.turns]
    queues = [queue for leg in legs for queue in leg.queues]

    def begins(parts: Iterable[Sized]) -> NDArray[np.int32]:
        return np.cumsum([0, *map(len, parts)]).astype(np.int32)

    turn_begin, place = begins([leg.turns for leg in legs]), begins(queues)
    opens = np.zeros(len(cost), np.int32)
    for leg, before in zip(legs, turn_begin[:-1], strict=True):
        for cohort, turn in leg.opens:
            opens[cohort.start : cohort.stop] = before + turn
    total, way = lengths(load)
    return Lanes(
        order=np.fromiter(chain.from_iterable(queues), np.int32),
        begin=place[lanes * np.arange(len(legs))[:, None] + np.arange(lanes + 1)],
        opens=opens,
        turn_begin=turn_begin,
        trial=np.array([turn.trial for turn in turns], np.int32),
        version=np.array([turn.version for turn in turns], np.int32),
        span_begin=begins([turn.spans for turn in turns]),
        spans=np.fromiter(chain.from_iterable(turn.spans for turn in turns), np.int32),
        ticks=np.array([leg.ticks for leg in legs], np.int64),
        bound=np.maximum(-(-total // lanes), way),
    )


class _Cohort(NamedTuple):
    version: int
    clients: range
    to_go: int  # ticks of its trial's longest clients in the rest of the leg


class _Turn(NamedTuple):
    trial: int
    version: int
    spans: list[int]  # before it


class _Leg(NamedTuple):
    queues: list[list[int]]  # clients of each lane
    opens: list[tuple[range, int]]  # clients, and the turns of this leg before they start
    turns: list[_Turn]
    ticks: int


def _ways(load: Load) -> Iterator[list[list[_Cohort]]]:
    """The cohorts of each trial in each leg."""
    key = load.version.astype(np.int64) * load.trials + load.trial
    begin = np.searchsorted(key, np.arange(load.legs[-1] * load.trials + 1))
    start, end = begin[:-1].reshape(-1, load.trials), begin[1:].reshape(-1, load.trials)
    longest = _longest(load)
    for first, last in pairwise(load.legs.tolist()):
        way = longest[:, first:last]
        to_go = way.sum(1, keepdims=True) - way.cumsum(1)
        yield [
            [
                _Cohort(v, range(start[v, trial], end[v, trial]), int(to_go[trial, v - first]))
                for v in range(first, last)
            ]
            for trial in range(load.trials)
        ]


def _walk(cost: list[int], way: list[list[_Cohort]], lanes: int) -> _Leg:
    """Plays a leg through: what happens at one tick after the other where anything does."""
    queues, opens, turns = [[] for _ in range(lanes)], [], []
    coming, now = [iter(cohorts) for cohorts in way], 0
    at: list[_Cohort | None] = [None] * len(way)  # where each trial is
    left = [0] * len(way)  # clients that it waits for
    ready: list[tuple[int, int, int]] = []  # clients that wait for a lane
    busy: list[tuple[int, int, int]] = []
    idle, spans, due = list(range(lanes)), [], list(range(len(way)))
    while due or ready or busy:
        while due:  # trials of which no client is missing
            for trial in due:
                if cohort := at[trial]:
                    turns.append(_Turn(trial, cohort.version, spans))
                    spans = []
                at[trial] = next(coming[trial], None)
            for trial in due:
                if cohort := at[trial]:
                    opens.append((cohort.clients, len(turns)))
                    left[trial] = len(cohort.clients)
                    for row in cohort.clients:  # a single lane keeps their order
                        order = -(cost[row] + cohort.to_go) if lanes > 1 else 0
                        heapq.heappush(ready, (order, row, trial))
            due = [trial for trial in due if at[trial] and not left[trial]]
        if turns and ready and idle and not spans:
            spans.append(0)
        while ready and idle:
            _, row, trial = heapq.heappop(ready)
            lane = heapq.heappop(idle)
            queues[lane].append(row)
            heapq.heappush(busy, (now + cost[row], lane, trial))
        if busy:
            spans.append(busy[0][0] - now)
            now = busy[0][0]
        while busy and busy[0][0] == now:
            _, lane, trial = heapq.heappop(busy)
            heapq.heappush(idle, lane)
            left[trial] -= 1
            due += [] if left[trial] else [trial]
    return _Leg(queues, opens, turns, now)


def _longest(load: Load) -> NDArray[np.int64]:
    """[trials, steps]: the longest client of each server step."""
    longest = np.zeros((load.trials, int(load.legs[-1])), np.int64)
    np.maximum.at(longest, (load.trial, load.version), load.cost)
    return longest
