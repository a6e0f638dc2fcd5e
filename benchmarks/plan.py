"""How fast schedules are made: 10,000,000 dispatches over 10,000 and over 1,000,000 clients.

    python -m benchmarks.plan [DISPATCHES]

Each case runs in a process of its own, so that its peak memory is its own.
"""

import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from stragglers.planning import latency
from stragglers.planning.paper_populations import PAPER_GROUPS
from stragglers.planning.population import Population
from tests.support import plans

CASES = ("over_selected", "at_update", "at_once")


def measure(case: Any, clients: int, dispatches: int) -> tuple[float, float]:
    """Seconds and peak GB of one schedule under the per-domain model."""
    group = (np.arange(clients) % 4 == 0).astype(np.int16)
    fleet = Population(np.full(clients, 100), group, PAPER_GROUPS, "a benchmark")
    began = time.perf_counter()
    delay = latency.latency(fleet, latency.PER_DOMAIN, seed=0)
    if case == "over_selected":
        plan = plans.over_selected(
            clients, delay, seed=0, goal=80, cohort=100, updates=dispatches * 80 // 100
        )
    else:
        plan = plans.buffered(
            clients, delay, seed=0, buffer=100, concurrency=1000, updates=dispatches, refill=case
        )
    seconds = time.perf_counter() - began
    assert len(plan.client) >= dispatches
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(dispatches: int) -> None:
    print(f"{dispatches:,} dispatches")
    for case in CASES:
        seconds = {}
        for clients in (10_000, 1_000_000):
            child = subprocess.run(
                [sys.executable, "-m", "benchmarks.plan", case, str(clients), str(dispatches)],
                check=True,
                capture_output=True,
                text=True,
            )
            seconds[clients], memory = map(float, child.stdout.split())
            print(f"{case:<14}{clients:>10,} clients {seconds[clients]:7.2f} s {memory:6.2f} GB")
        print(f"{'':<14}ratio {seconds[1_000_000] / seconds[10_000]:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in CASES:
        print(*measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 10_000_000)
