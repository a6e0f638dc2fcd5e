"""A trial into its folder: prepare, claim, train, and keep what comes out as it comes.

A trial that was interrupted starts anew: its folder is claimed and begun again. Continuing it
from a checkpoint belongs between `begin` and `train`.
"""

import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from stragglers import __version__, build, config, records, trees
from stragglers.plan import summarise
from stragglers.run import Trial, prepare, train
from stragglers.settings import Experiment
from stragglers.simulate import Point, Progress, Result
from stragglers.tasks.base import checksum


def record(
    folder: Path, name: str, experiment: Experiment, on_progress: Callable[[Progress], None]
) -> Result:
    """Trains one trial; what `on_progress` raises leaves the folder as of an interrupted run."""
    began, started = time.perf_counter(), _now()
    trial = prepare(experiment)
    with records.claim(folder):
        facts = {"name": name, "started": started, "finished": None, **_facts(trial)}
        run = records.begin(folder, config.resolved(experiment), facts)
        result = train(trial, on_progress, lambda point: records.append(folder, _row(point)))
        arrays = trees.named(result.params, "w") | trees.named(result.model, "model")
        records.finish(folder, run, arrays, {
            "status": "diverged" if result.diverged else "finished",
            "diverged": result.diverged,
            "finished": _now(),
            "trained": result.trained,
            "dropped": result.dropped,
            "wall_s": time.perf_counter() - began,
            "device": {**run["device"], "lanes": result.lanes},
        })  # fmt: skip
    return result


def _facts(trial: Trial) -> dict[str, Any]:
    """What a run was made with and of, known before it trains."""
    experiment, task, schedule = trial
    latencies = build.latencies(experiment, task.population)
    device = jax.devices()[0]
    return {
        "versions": {
            "stragglers": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("jax", "jaxlib", "numpy")},
        },
        "device": {
            "platform": device.platform,
            "kind": device.device_kind,
            "threads": experiment.threads,
        },
        "data": {
            "task": task.name,
            "origin": task.population.origin,
            "checksum": checksum(task),
        },
        "schedule": summarise(task.population, schedule, latencies),
    }


def _row(point: Point) -> dict[str, Any]:
    return {**point._asdict(), **point.metrics._asdict()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
