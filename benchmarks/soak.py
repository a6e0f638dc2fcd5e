"""100,000 updates of every algorithm on a linear model: does anything grow, does Python cost?

    python -m benchmarks.soak [--updates N]

Python's share is the CPU time of the main thread, which only feeds the compiled program, over the
wall time from the first server step to the last. Memory is the resident set after every chunk; its
slope is fitted without the first fifth, in which allocators fill up.
"""

import argparse
import logging
import os
import sys
import time

import jax
import numpy as np
import optax

from stragglers.algorithms.base import Algorithm, with_ema
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.feast import feast
from stragglers.algorithms.fedavg import fedavg
from stragglers.planning.latency import PER_DOMAIN, latency
from stragglers.planning.paper_populations import PAPER_GROUPS
from stragglers.planning.population import Population
from stragglers.planning.schedule import Schedule
from stragglers.simulator.events import Progressed, Started
from stragglers.simulator.local_training import Local
from stragglers.simulator.simulate import simulate_events
from stragglers.tasks.base import Task
from stragglers.tasks.glyphs import cross_entropy, is_right
from stragglers.tasks.models.base import Model
from tests.support.plans import buffered, over_selected

CLIENTS, FEATURES, CLASSES, K = 1000, 32, 10, 20
ADAM = optax.adam(0.01, eps=1e-3)


def linear_task() -> Task:
    rng = np.random.default_rng(0)
    sizes = rng.integers(10, 60, CLIENTS)
    x = rng.standard_normal((sizes.sum(), FEATURES)).astype(np.float32)
    y = np.argmax(x @ rng.standard_normal((FEATURES, CLASSES)), axis=1).astype(np.int32)
    who = Population(sizes, np.arange(CLIENTS, dtype=np.int16) % 4 // 3, PAPER_GROUPS, "a soak")
    model = Model(
        lambda key: {"w": 0.01 * jax.random.normal(key, (FEATURES, CLASSES))},
        lambda params, x, key: x @ params["w"],
    )
    return Task(
        "linear",
        who,
        x,
        y,
        np.concatenate([[0], np.cumsum(sizes)]),
        x[:1000],
        y[:1000],
        y[:1000] < 3,
        model,
        lambda x, key: x,
        cross_entropy,
        is_right,
    )


def kinds(task: Task, updates: int) -> dict[str, tuple[Algorithm, Local, Schedule]]:
    who = task.population
    delay = latency(who, PER_DOMAIN, seed=0)

    def rounds(
        cohort: int, late_rounds: int | None = None, late_seconds: float | None = None
    ) -> Schedule:
        return over_selected(
            CLIENTS,
            delay,
            seed=0,
            updates=updates,
            goal=20,
            cohort=cohort,
            late_rounds=late_rounds,
            late_seconds=late_seconds,
        )

    plain, taught = Local(0.1, 20), Local(0.1, 20, distillation=0.1)
    return {
        "fedavg": (fedavg(optax.sgd(1.0)), plain, rounds(20)),
        "fedadam + over-selection": (fedavg(ADAM), plain, rounds(24)),
        "fedbuff + ema": (
            with_ema(fedavg(ADAM), 0.9),
            plain,
            buffered(CLIENTS, delay, seed=0, updates=updates, buffer=20, concurrency=60),
        ),
        "fare-dust": (fare_dust(ADAM, k=K), taught, rounds(24, late_rounds=K)),
        "feast": (feast(ADAM, beta=0.9, kappa=0.5), plain, rounds(24, late_seconds=1e5)),
    }


class Watch:
    """Readings between chunks."""

    def __init__(self) -> None:
        self.readings: list[tuple[int, float, int, int]] = []
        self.began = self.cpu_began = 0.0

    def start(self) -> None:
        self.began, self.cpu_began = time.perf_counter(), time.thread_time()

    def look(self, progress: Progressed) -> None:
        files = len(os.listdir("/proc/self/fd"))
        self.readings.append(
            (progress.trained, resident(), files, len(os.listdir("/proc/self/task")))
        )


def resident() -> float:
    """MB of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def soak(name: str, task: Task, algorithm: Algorithm, client: Local, plan: Schedule) -> bool:
    watch = Watch()
    compiled: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: compiled.append(record.getMessage())  # pyright: ignore
    logging.getLogger("jax").addHandler(handler)

    stops = np.linspace(0, plan.steps, 21)[1:].astype(int).tolist()
    for event in simulate_events(task, plan, algorithm, client, evaluate_at=stops):
        match event:
            case Started():
                watch.start()
                compiled.clear()
            case Progressed():
                watch.look(event)
    wall = time.perf_counter() - watch.began
    share = (time.thread_time() - watch.cpu_began) / wall
    logging.getLogger("jax").removeHandler(handler)
    again = sum("XLA compilation" in message and "_advance" in message for message in compiled)

    trained, memory, files, threads = np.array(watch.readings).T
    settled = trained > trained[-1] / 5
    slope = np.polyfit(trained[settled], memory[settled], 1)[0] * 10_000
    good = share <= 0.05 and slope < 1 and not again
    good = good and np.ptp(files[settled]) == np.ptp(threads[settled]) == 0
    print(
        f"{name:26} {int(trained[-1]):>8,} updates, {plan.steps:,} steps in {wall:5.1f} s "
        f"({trained[-1] / wall:,.0f}/s): Python {share:.1%}, memory {memory[-1]:,.0f} MB "
        f"{slope:+.2f} MB per 10,000, files {int(files[-1])}, threads {int(threads[-1])}, "
        f"recompiled {again} {'' if good else '  <-- FAILED'}",
        flush=True,
    )
    return good


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=100_000)
    options = parser.parse_args()
    jax.config.update("jax_log_compiles", True)
    logging.getLogger("jax").propagate = False
    task = linear_task()
    return (
        0
        if all([soak(name, task, *kind) for name, kind in kinds(task, options.updates).items()])
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
