"""Trials into their folders: prepare, claim, train, and keep what comes out as it comes.

A trial that was interrupted starts anew: its folder is claimed and begun again. Continuing it
from a checkpoint belongs between `begin` and `train`.
"""

import platform
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from stragglers import __version__, build, config, records, trees
from stragglers.plan import summarise
from stragglers.run import Prepared, prepare, train
from stragglers.settings import Experiment
from stragglers.setup import Start
from stragglers.simulate import Point, Progress, Result
from stragglers.tasks.base import checksum


def record(
    folders: Sequence[Path],
    name: str,
    experiments: Sequence[Experiment],
    *,
    on_start: Callable[[Start], None],
    on_progress: Callable[[int, Progress], None],
) -> list[Result]:
    """Trains trials of one experiment in one program, each into its folder.

    What `on_progress` raises leaves the folders as of an interrupted run.
    """
    began, started = time.perf_counter(), _now()
    trials = [prepare(experiment, len(experiments)) for experiment in experiments]
    with ExitStack() as claims:
        for folder in folders:
            claims.enter_context(records.claim(folder))
        facts = {"name": name, "started": started, "finished": None}
        runs = [
            records.begin(folder, config.resolved(trial.experiment), facts | _facts(trial))
            for folder, trial in zip(folders, trials, strict=True)
        ]
        results = train(
            trials,
            on_start=on_start,
            on_progress=on_progress,
            on_point=lambda trial, point: records.append(folders[trial], _row(point)),
        )
        for folder, run, result in zip(folders, runs, results, strict=True):
            arrays = trees.named(result.params, "w") | trees.named(result.model, "model")
            records.finish(folder, run, arrays, {
                "status": "diverged" if result.diverged else "finished",
                "diverged": result.diverged,
                "finished": _now(),
                "trained": result.trained,
                "dropped": result.dropped,
                "clients": result.clients,
                "wall_s": time.perf_counter() - began,
                "device": {
                    **run["device"],
                    "lanes": result.start.lanes,
                    "trials_together": result.start.trials,
                },
                "memory": result.start.memory._asdict(),
            })  # fmt: skip
    return results


def _facts(trial: Prepared) -> dict[str, Any]:
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
