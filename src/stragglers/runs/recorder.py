"""Trials into their folders: prepare, claim, train, and keep what comes out as it comes.

A folder is begun when everything is ready to train: until then it stays as it is found. One that
has a checkpoint is begun with the curve of it, so that both are of the same moment.
"""

import math
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from stragglers._core.errors import BadInput
from stragglers._core.version import NUMERICS
from stragglers.algorithms import trees
from stragglers.config import build, influence, loading
from stragglers.config.settings import Experiment
from stragglers.planning.summary import summarise
from stragglers.runs import checkpoint, run_folder
from stragglers.runs.curve import evaluations
from stragglers.runs.curve import line as curve_line
from stragglers.runs.train import Prepared, prepare, train
from stragglers.simulator.metrics import Metrics
from stragglers.simulator.prepare import Start
from stragglers.simulator.simulate import Moment
from stragglers.simulator.together import Apart
from stragglers.simulator.trial_state import Point, Progress, Result
from stragglers.tasks.base import checksum


def record(
    folders: Sequence[Path],
    names: Sequence[str],
    experiments: Sequence[Experiment],
    *,
    on_start: Callable[[Start], None],
    on_progress: Callable[[int, Progress], None],
    say: Callable[[str], None],
    stop: Callable[[], bool] = lambda: False,
    checkpoint_s: float = math.inf,
    allow_drift: bool = False,
) -> list[Result]:
    """Trains what fits into one program (see `run.train`), each into its folder.

    Goes on from the last checkpoint that is whole, and makes one every `checkpoint_s` seconds and
    when `stop` says so, which then raises `checkpoint.Kept`. Schedules of different lengths raise
    `Apart` before any folder is touched: how long they are is known here, where the data is.
    """
    facts: dict[str, Any] = {"started": _now(), "spent_s": 0.0, "drift": []}
    began = saved = time.perf_counter()
    hashes = _hashes(experiments)
    trials = _prepared(experiments)
    steps = [trial.schedule.steps for trial in trials]
    if len(set(steps)) > 1:
        raise Apart(steps)
    by_seed = {trial.experiment.seed: trial for trial in trials}
    same = {seed: _facts(trial) for seed, trial in by_seed.items()}
    known = [
        {"name": name, **same[experiment.seed]}
        for name, experiment in zip(names, experiments, strict=True)
    ]
    fingerprint: dict[str, Any] = {}
    runs: list[dict[str, Any]] = []

    def started(start: Start) -> None:
        nonlocal began
        fingerprint.update(_fingerprint(trials, known[0], start))
        ready = time.perf_counter()
        on_start(start)
        began += time.perf_counter() - ready  # what was waited there, others have trained

    def spent_s() -> float:
        return facts["spent_s"] + time.perf_counter() - began

    def resume(first: Moment) -> Moment:
        nonlocal saved
        found = _last_checkpoint(folders, fingerprint, say)
        moment, curves = first, [b""] * len(trials)
        if found:
            drift = checkpoint.drift(found, fingerprint, allow_drift)
            moment, curves = checkpoint.restore(found, first), found.curves
            for course, curve in zip(moment.courses, curves, strict=True):
                course.curve = list(map(_point, evaluations(curve)))
            facts.update(found.manifest.facts)
            facts["drift"] = [*facts["drift"], *drift]
            say(f"goes on from server step {moment.step} of {steps[0]}")
        if _hashes(experiments) != hashes:
            raise BadInput(
                f"{folders[0]}: a file that its settings name has changed since it was "
                "read, so that its copy would be of another run; run again"
            )
        checkpoint.bind(folders)
        given = {"started": facts["started"], "finished": None}
        given |= {"drift": facts["drift"]} if facts["drift"] else {}
        runs[:] = [
            run_folder.begin(folder, loading.resolved(trial.experiment), given | each, curve)
            for folder, trial, each, curve in zip(folders, trials, known, curves, strict=True)
        ]
        saved = time.perf_counter()
        return moment

    def on_chunk(moment: Moment) -> None:
        nonlocal saved
        stopping = stop()
        if stopping or time.perf_counter() - saved >= checkpoint_s:
            curves = [
                b"".join(curve_line(_row(point)) for point in course.curve)
                for course in moment.courses
            ]
            now = {**facts, "spent_s": spent_s()}
            checkpoint.save(folders[0], moment, curves, fingerprint, now)
            saved = time.perf_counter()
        if stopping:
            raise checkpoint.Kept

    with ExitStack() as claims:
        for folder in folders:
            claims.enter_context(run_folder.claim(folder))
        results = train(
            trials,
            on_start=started,
            on_progress=on_progress,
            on_point=lambda trial, point: run_folder.append(folders[trial], _row(point)),
            resume=resume,
            on_chunk=on_chunk,
        )
        for folder, run, result in zip(folders, runs, results, strict=True):
            arrays = trees.named(result.params, "w") | trees.named(result.model, "model")
            run_folder.finish(
                folder,
                run,
                arrays,
                {
                    "status": "diverged" if result.diverged else "finished",
                    "diverged": result.diverged,
                    "finished": _now(),
                    "trained": result.trained,
                    "dropped": result.dropped,
                    "clients": result.clients,
                    "wall_s": spent_s(),
                    "device": {
                        **run["device"],
                        "devices": result.start.devices,
                        "lanes": result.start.lanes,
                        "trials_together": result.start.trials,
                        "models_together": result.start.models,
                    },
                    "memory": result.start.memory._asdict(),
                },
            )
        for folder in folders:
            checkpoint.clear(folder)
    return results


def _prepared(experiments: Sequence[Experiment]) -> list[Prepared]:
    """Each seed once: what an algorithm has aside changes no schedule."""
    seeds = {experiment.seed: experiment for experiment in experiments}
    once = {seed: prepare(experiment, len(seeds)) for seed, experiment in seeds.items()}
    return [once[experiment.seed]._replace(experiment=experiment) for experiment in experiments]


def _hashes(experiments: Sequence[Experiment]) -> list[str]:
    """Of what the files that settings name hold now, among others."""
    return [run_folder.settings_hash(loading.resolved(experiment)) for experiment in experiments]


def _last_checkpoint(
    folders: Sequence[Path], fingerprint: dict[str, Any], say: Callable[[str], None]
) -> checkpoint.Found | None:
    """What there is to go on from; why it is not used is said."""
    found, damaged = checkpoint.newest(folders[0])
    for line in damaged:
        say(line)
    if found and checkpoint.is_left(found, fingerprint):
        others = len(found.manifest.trials) - 1
        say(
            f"{found.folder.parent} is shared with trials that went on apart or are gone "
            f"({others} others): starts anew"
        )
        checkpoint.discard(folders[0])
        return None
    if damaged and not found:
        say("no checkpoint is whole: starts anew")
    elif not found and (shared := checkpoint.bound(folders[0])):
        say(f"leaves the checkpoint that it shares with {shared[0]}: starts anew")
    return found


def _fingerprint(trials: Sequence[Prepared], facts: dict[str, Any], start: Start) -> dict[str, Any]:
    """What the bits of a result depend on: equal, or it is another run that would go on."""
    versions = {name: facts["versions"][name] for name in ("stragglers", "jax", "jaxlib")}
    experiment = trials[0].experiment
    return {
        "format": checkpoint.FORMAT,
        "settings": _hashes([trial.experiment for trial in trials]),
        "seeds": [trial.experiment.seed for trial in trials],
        "data": facts["data"]["checksum"],
        **versions,
        "platform": facts["device"]["platform"],
        "device": facts["device"]["kind"],
        "precision": experiment.precision,
        "devices": start.devices,
        "lanes": start.lanes,
    }


def _facts(trial: Prepared) -> dict[str, Any]:
    """What a run was made with and of, known before it trains."""
    experiment, task, schedule = trial
    latencies = build.latencies(experiment, task.population)
    local_steps = influence.local_steps(experiment, schedule)
    part = influence.parts(experiment, task.population, schedule)
    device = jax.devices()[0]
    return {
        "versions": {
            "stragglers": NUMERICS,
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
            "files": build.data_digest(experiment.task),
        },
        "schedule": summarise(task.population, schedule, latencies, local_steps, part),
    }


def _row(point: Point) -> dict[str, Any]:
    return {**point._asdict(), **point.metrics._asdict()}


def _point(row: dict[str, Any]) -> Point:
    metrics = Metrics(**{name: row.pop(name) for name in Metrics._fields})
    return Point(**row, metrics=metrics)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
