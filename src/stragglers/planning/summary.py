"""What a schedule means: how long it takes, which clients participate, what is wasted.

share[g].used     group g's share of all reports that are on time and hold finite numbers
share[g].late     ... of all reports that are late and still count
share[g].unused   ... of all reports that arrive and do not count
share[g].weight   ... of the mean of a server step, averaged over steps; none where all reports on
                  time count the same, or where a user's own algorithm decides
always_late       share of the clients of g that started and never counted
untrained         share of the reports of g that counted without a local step
device seconds    work from start to report or failure, or to the end of training if that is
                  earlier, without pauses; a client that pauses at the end counts in full
faults            dispatches that each fault struck
corrupted         reports on time or late that the server drops for their numbers; it sees that too
                  late, so they count towards goals and budgets, and are wasted
abandoned         server steps on too few reports, which leave the weights as they are
waited            seconds from when groups are due until they start, once enough clients are idle
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stragglers.planning.faults import STRIKES, corrupted
from stragglers.planning.population import Population
from stragglers.planning.schedule import Fate, Schedule

PERCENTILES = (50, 95, 99)


def summarise(
    schedule: Schedule,
    local_steps: NDArray[np.int64] | None = None,
    part: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """All figures of a schedule, ready for JSON.

    `local_steps` and `part` (of its server step) are columns over dispatches; by default every
    example is a local step, and parts are unknown.
    """
    population = schedule.population
    latencies = schedule.fleet.one_epoch() if schedule.fleet.one_epoch else None
    local_steps = schedule.examples if local_steps is None else local_steps
    used = (schedule.fate == Fate.ON_TIME) | (schedule.fate == Fate.LATE)
    dropped = used & corrupted(schedule.fault)
    sound, in_flight = used & ~dropped, schedule.fate == Fate.IN_FLIGHT
    busy = np.minimum(schedule.works, schedule.end - schedule.start)
    return {
        "time_s": schedule.end,
        "server_steps": schedule.steps,
        "client_updates": int(schedule.updates[-1]),
        "abandoned": schedule.steps - len(np.unique(schedule.step[schedule.fate == Fate.ON_TIME])),
        "dispatches": len(schedule.client),
        "faults": {name: int((schedule.fault == fault).sum()) for name, fault in STRIKES.items()},
        "reports": {fate.name.lower(): int((schedule.fate == fate).sum()) for fate in Fate},
        "corrupted": int(dropped.sum()),
        "round_s": _spread(schedule.duration),
        "waited_s": waited(schedule),
        "staleness": _spread((schedule.step - schedule.version)[used]),
        "share": _shares(population, schedule, sound, part),
        "groups": _groups(population, schedule, sound, latencies, local_steps == 0),
        "device_s": {
            "used": float(busy[sound].sum()),
            "wasted": float(busy[~sound & ~in_flight].sum()),
            "in_flight": float(busy[in_flight].sum()),
        },
        "clients": population.clients,
        "population": population.origin,
    }


def waited(schedule: Schedule) -> float:
    """Seconds that groups wait for idle clients."""
    late = np.minimum(schedule.start, schedule.end) - schedule.asked
    first = np.append(True, np.diff(schedule.start) > 0)  # of the clients that start together
    return float(np.maximum(late[first], 0).sum())


def _shares(
    population: Population,
    schedule: Schedule,
    sound: NDArray[np.bool_],
    part: NDArray[np.float64] | None,
) -> dict[str, dict[str, float | None]]:
    size = len(population.groups)
    group = population.group[schedule.client]
    counts = {
        "population": np.bincount(population.group, minlength=size),
        "used": np.bincount(group[sound & (schedule.fate == Fate.ON_TIME)], minlength=size),
        "late": np.bincount(group[sound & (schedule.fate == Fate.LATE)], minlength=size),
        "unused": np.bincount(group[schedule.fate == Fate.UNUSED], minlength=size),
        "weight": np.zeros(size) if part is None else np.bincount(group, part, minlength=size),
    }
    return {
        name: {
            what: float(count[index] / count.sum()) if count.sum() else None
            for what, count in counts.items()
        }
        for index, name in enumerate(population.groups)
    }


def _groups(
    population: Population,
    schedule: Schedule,
    sound: NDArray[np.bool_],
    latencies: NDArray[np.float64] | None,
    untrained: NDArray[np.bool_],
) -> dict[str, dict[str, Any]]:
    started = np.bincount(schedule.client, minlength=population.clients) > 0
    took_part = np.bincount(schedule.client[sound], minlength=population.clients) > 0
    table = {}
    for index, name in enumerate(population.groups):
        members = population.group == index
        tried = int((started & members).sum())
        idle = untrained[sound & members[schedule.client]]
        table[name] = {
            "clients": int(members.sum()),
            "started": tried,
            "took_part": int((took_part & members).sum()),
            "always_late": 1 - int((took_part & members).sum()) / tried if tried else None,
            "untrained": float(np.mean(idle)) if len(idle) else None,
            "examples": _spread(population.examples[members]),
            "latency_s": _spread(np.empty(0) if latencies is None else latencies[members]),
        }
    return table


def _spread(values: NDArray[Any]) -> dict[str, float | None]:
    """Mean, median, tail and maximum. Plain order statistics, so that infinity stays infinity."""
    if not len(values):  # of a group without clients
        return dict.fromkeys(["mean", *(f"p{level}" for level in PERCENTILES), "max"])
    middle = np.percentile(values, PERCENTILES, method="inverted_cdf")
    return {
        "mean": float(values.mean()),
        **{f"p{level}": float(value) for level, value in zip(PERCENTILES, middle, strict=True)},
        "max": float(values.max()),
    }
