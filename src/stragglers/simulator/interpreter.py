"""The same algorithms, driven report by report: the oracle of the tests.

One heap of (time, kind, number) drives a coordinator under simulated latencies. Reports of one
moment come before time-outs, those before dispatches, dispatches before deadlines.
"""

import heapq
from collections.abc import Callable

import numpy as np

from stragglers.algorithms.base import Params
from stragglers.planning.policy import Buffer, Rounds
from stragglers.simulator.coordinator import Coordinator, Order

REPORT, TIMEOUT, DISPATCH, DEADLINE = range(4)


def interpret(
    coordinator: Coordinator,
    train: Callable[[Order], Params],
    latency: Callable[[int, int], float],  # dispatch, client: seconds
    steps: int,
    starts: Callable[[int, float], float] = lambda group, now: now,  # once it may start
) -> Coordinator:
    """Runs a coordinator for a number of server steps under simulated latencies."""
    policy = coordinator.policy
    late_seconds = policy.late_seconds if isinstance(policy, Rounds) else None
    round_timeout = policy.round_timeout if isinstance(policy, Rounds) else None
    patience = policy.client_timeout if isinstance(policy, Buffer) else None
    deltas: dict[int, Params] = {}
    overdue: dict[int, float] = {}  # when clients that are given up before will report
    events: list[tuple[float, int, int]] = [(starts(0, 0.0), DISPATCH, 0)]
    groups = 1

    def start(now: float) -> None:
        if round_timeout is not None:
            heapq.heappush(events, (now + round_timeout, TIMEOUT, coordinator.version))
        for order in coordinator.dispatch(now):
            report = now + latency(order.dispatch, order.client)
            deltas[order.dispatch] = train(order)
            if patience is not None and report > now + patience:
                overdue[order.dispatch], report = report, now + patience
            heapq.heappush(events, (report, REPORT, order.dispatch))
        if late_seconds is not None:
            heapq.heappush(events, (now + late_seconds, DEADLINE, coordinator.groups))

    def may_start_after(now: float, kind: int, number: int) -> bool:
        """Tells the coordinator what happens, and whether another group may start then."""
        if kind == REPORT and number in overdue:
            heapq.heappush(events, (overdue.pop(number), REPORT, number))
            return coordinator.give_up(number, now)
        if kind == REPORT:
            return coordinator.receive(number, deltas.pop(number), now)
        if kind == TIMEOUT:
            return coordinator.time_out(number, now)
        if kind == DEADLINE:
            coordinator.expire(now)
        elif coordinator.version < steps:
            start(now)
        return False

    while events and events[0][0] < np.inf:
        now, kind, number = events[0]
        if coordinator.version == steps and now > coordinator.step_times[-1]:
            coordinator.over = True
            if late_seconds is None:
                break
        heapq.heappop(events)
        if may_start_after(now, kind, number):
            heapq.heappush(events, (starts(groups, now), DISPATCH, number))
            groups += 1
    coordinator.finish()
    return coordinator
