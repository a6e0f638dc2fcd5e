"""Packing clients into lanes: each lane trains one client after another, all lanes at once.

Clients differ in size by orders of magnitude, so training a cohort side by side, padded to its
largest client, would waste most of an accelerator. With lanes a server step takes

    ticks >= max(total steps / lanes, longest client)

local steps of all lanes together. Longest first, each to the lane that is free soonest, comes
within a third of the best packing at worst, and in practice next to the bound.

A *span* is the time from one hand-over to the next: some lane ends a client there, nobody before.
"""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Lanes(NamedTuple):
    order: NDArray[np.int32]  # rows, regrouped by server step and lane
    begin: NDArray[np.int32]  # [server steps, lanes + 1]: lane l takes order[begin[l]:begin[l+1]]
    spans: NDArray[np.int32]  # ticks of each span, server step after server step
    span_begin: NDArray[np.int32]  # [server steps + 1]: step v has spans span_begin[v] to ...
    ticks: NDArray[np.int32]  # [server steps]
    bound: NDArray[np.int32]  # [server steps]: the fewest ticks that any packing could reach

    @property
    def efficiency(self) -> float:
        """How near the packing comes to its bound, over all server steps."""
        return float(self.bound.sum() / max(self.ticks.sum(), 1))


def pack(begin: NDArray[np.int32], steps: NDArray[np.int64], lanes: int) -> Lanes:
    """Packs rows begin[v] to begin[v + 1] of each server step v; no client is free of charge."""
    cost = np.maximum(steps, 1)
    order = np.empty(len(steps), np.int32)
    first = np.empty((len(begin) - 1, lanes + 1), np.int32)
    ticks, bound = np.zeros(len(begin) - 1, np.int32), np.zeros(len(begin) - 1, np.int32)
    spans: list[list[int]] = []
    for v, (start, end) in enumerate(zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True)):
        mine: list[list[int]] = [[] for _ in range(lanes)]
        if lanes == 1:
            mine[0] = list(range(start, end))
            ends = set(np.cumsum(cost[start:end]).tolist())
        else:
            free, ends = [(0, lane) for lane in range(lanes)], set()
            for row in (start + np.argsort(-cost[start:end], kind="stable")).tolist():
                busy, lane = heapq.heappop(free)
                mine[lane].append(row)
                ends.add(busy := busy + int(cost[row]))
                heapq.heappush(free, (busy, lane))
        spans.append(np.diff(sorted(ends), prepend=0).tolist())
        ticks[v] = max(ends, default=0)
        order[start:end] = [row for lane in mine for row in lane]
        first[v] = start + np.cumsum([0, *map(len, mine)])
        if end > start:
            bound[v] = max(-(-int(cost[start:end].sum()) // lanes), int(cost[start:end].max()))
    span_begin = np.cumsum([0, *map(len, spans)]).astype(np.int32)
    flat = np.array([ticks for step in spans for ticks in step], np.int32)
    return Lanes(order, first, flat, span_begin, ticks, bound)
