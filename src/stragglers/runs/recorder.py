"""Trials into their folders: prepare, claim, train, and write results as they arrive.

A folder is written once everything is ready to train; until then it stays as it was found. With a
checkpoint, the folder starts with the curve of the checkpoint, so that both are of the same moment.
"""

import math
import platform
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax

from stragglers._core.errors import BadInput
from stragglers._core.version import NUMERICS
from stragglers.algorithms import trees
from stragglers.config import step_weights, task_files
from stragglers.config.settings import Experiment, settings_hash
from stragglers.planning.summary import summarise
from stragglers.runs import checkpoint, run_folder, train
from stragglers.runs.curve import evaluations
from stragglers.runs.curve import line as curve_line
from stragglers.runs.train import Prepared, prepare
from stragglers.simulator.events import ChunkEnded, Evaluated, Event, Finished, Snapshot, Started
from stragglers.simulator.prepare import Start
from stragglers.simulator.simulate import Simulation
from stragglers.simulator.together import Apart
from stragglers.simulator.trial_state import Point, Result
from stragglers.tasks.base import checksum


class Said(NamedTuple):
    """A line about how a run is resumed."""

    line: str


class Kept(NamedTuple):
    """Training has stopped on request, with a checkpoint: no event follows."""


def record(
    folders: Sequence[Path],
    names: Sequence[str],
    experiments: Sequence[Experiment],
    *,
    stop: Callable[[], bool] = lambda: False,
    checkpoint_s: float = math.inf,
    allow_drift: bool = False,
) -> Generator[Event | Said | Kept]:
    """Trains what fits into one program (`train.simulation`), each trial into its folder.

    Yields what happens, once it is written. Resumes from the last checkpoint that is whole, and
    makes one every `checkpoint_s` seconds and when `stop` says so, which is then the end. Schedules
    of different lengths raise `Apart` before any folder is touched: how long they are is known
    here, where the data is.
    """
    facts = {"started": _now(), "spent_s": 0.0, "drift": []}
    began, hashes = time.perf_counter(), _hashes(experiments)
    trials = _prepared(experiments)
    steps = [trial.schedule.steps for trial in trials]
    if len(set(steps)) > 1:
        raise Apart(steps)
    known = _known(names, trials)
    with ExitStack() as claims:
        for folder in folders:
            claims.enter_context(run_folder.claim(folder))
        simulation = train.simulation(trials)
        ready = time.perf_counter()
        yield Started(simulation.start)
        began += time.perf_counter() - ready  # others may have trained meanwhile
        fingerprint = _fingerprint(trials, known[0], simulation.start)
        snapshot = yield from _resumed(folders, simulation, fingerprint, facts, allow_drift)
        if _hashes(experiments) != hashes:
            raise BadInput(
                f"{folders[0]}: a file that its settings name has changed since it was "
                "read, so that its copy would be of another run; run again"
            )
        runs = _begun(folders, trials, known, facts, _curves(snapshot))
        events, saved = simulation.events(snapshot), time.perf_counter()
        del snapshot  # whose memory is needed
        began -= facts["spent_s"]
        for event in events:
            now = time.perf_counter()
            _write(event, folders, runs, now - began)
            if isinstance(event, ChunkEnded):
                stopping = stop()
                if stopping or now - saved >= checkpoint_s:
                    facts["spent_s"], curves = now - began, _curves(event.snapshot)
                    checkpoint.save(folders[0], event.snapshot, curves, fingerprint, facts)
                    saved = time.perf_counter()
                if stopping:
                    yield Kept()
                    return
            yield event
        for folder in folders:
            checkpoint.clear(folder)


def _resumed(
    folders: Sequence[Path],
    simulation: Simulation,
    fingerprint: dict[str, Any],
    facts: dict[str, Any],
    allow_drift: bool,
) -> Generator[Said, None, Snapshot]:
    """What training begins from: the last checkpoint, whose facts are taken over, or nothing."""
    found = yield from _last_checkpoint(folders, fingerprint)
    if not found:
        return simulation.first()
    facts |= found.manifest.facts
    facts["drift"] = facts["drift"] + checkpoint.drift(found, fingerprint, allow_drift)
    snapshot = _with_curves(checkpoint.restore(found, simulation.first()), found.curves)
    yield Said(f"resumes from server step {snapshot.step} of {simulation.steps}")
    return snapshot


def _begun(
    folders: Sequence[Path],
    trials: Sequence[Prepared],
    known: Sequence[dict[str, Any]],
    facts: dict[str, Any],
    curves: Sequence[bytes],
) -> list[dict[str, Any]]:
    """Begins every folder with its curve up to here; returns what each run.json says."""
    checkpoint.bind(folders)
    given = {"started": facts["started"], "finished": None}
    given |= {"drift": facts["drift"]} if facts["drift"] else {}
    return [
        run_folder.begin(folder, trial.experiment.document, given | own, curve)
        for folder, trial, own, curve in zip(folders, trials, known, curves, strict=True)
    ]


def _write(
    event: Event, folders: Sequence[Path], runs: Sequence[dict[str, Any]], wall_s: float
) -> None:
    """Writes an event into the folder of its trial."""
    match event:
        case Evaluated(point, trial):
            run_folder.append(folders[trial], _row(point))
        case Finished(result, trial):
            _finish(folders[trial], runs[trial], result, wall_s)


def _finish(folder: Path, run: dict[str, Any], result: Result, wall_s: float) -> None:
    arrays = trees.named(result.params, "w") | trees.named(result.model, "model")
    start = result.start
    facts = {
        "status": "diverged" if result.diverged else "finished",
        "diverged": result.diverged,
        "finished": _now(),
        "trained": result.trained,
        "dropped": result.dropped,
        "clients": result.clients,
        "wall_s": wall_s,
        "device": {
            **run["device"],
            "devices": start.devices,
            "lanes": start.lanes,
            "trials_together": start.trials,
            "models_together": start.models,
        },
        "memory": start.memory._asdict(),
    }
    run_folder.finish(folder, run, arrays, facts)


def _prepared(experiments: Sequence[Experiment]) -> list[Prepared]:
    """Each seed once: what an algorithm has aside changes no schedule."""
    seeds = {experiment.seed: experiment for experiment in experiments}
    once = {seed: prepare(experiment, len(seeds)) for seed, experiment in seeds.items()}
    return [once[experiment.seed]._replace(experiment=experiment) for experiment in experiments]


def _hashes(experiments: Sequence[Experiment]) -> list[str]:
    """Hashes by what the files that settings name hold now: never those computed before."""
    return [settings_hash(experiment.document) for experiment in experiments]


def _last_checkpoint(
    folders: Sequence[Path], fingerprint: dict[str, Any]
) -> Generator[Said, None, checkpoint.Found | None]:
    """What there is to resume from; why it is not used is said."""
    found, damaged = checkpoint.newest(folders[0])
    yield from map(Said, damaged)
    if found and checkpoint.is_left(found, fingerprint):
        others = len(found.manifest.trials) - 1
        yield Said(
            f"{found.folder.parent} is shared with trials that went on apart or are gone "
            f"({others} others): starts anew"
        )
        checkpoint.discard(folders[0])
        return None
    if damaged and not found:
        yield Said("no checkpoint is whole: starts anew")
    elif not found and (shared := checkpoint.bound(folders[0])):
        yield Said(f"leaves the checkpoint that it shares with {shared[0]}: starts anew")
    return found


def _fingerprint(trials: Sequence[Prepared], facts: dict[str, Any], start: Start) -> dict[str, Any]:
    """What the bits of a result depend on: a run resumes only if it is equal."""
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


def _known(names: Sequence[str], trials: Sequence[Prepared]) -> list[dict[str, Any]]:
    """What each run was made with and of; of one seed it is found out once."""
    by_seed = {trial.experiment.seed: trial for trial in trials}
    facts = {seed: _facts(trial) for seed, trial in by_seed.items()}
    return [
        {"name": name, **facts[trial.experiment.seed]}
        for name, trial in zip(names, trials, strict=True)
    ]


def _facts(trial: Prepared) -> dict[str, Any]:
    """What a run was made with and of, known before it trains."""
    experiment, task, schedule = trial
    local_steps = step_weights.local_steps(experiment, schedule)
    part = step_weights.parts(experiment, schedule)
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
            "files": task_files.data_digest(experiment.task),
        },
        "schedule": summarise(schedule, local_steps, part),
    }


def _with_curves(snapshot: Snapshot, curves: Sequence[bytes]) -> Snapshot:
    states = (
        state._replace(curve=tuple(map(_point, evaluations(curve))))
        for state, curve in zip(snapshot.trials, curves, strict=True)
    )
    return snapshot._replace(trials=tuple(states))


def _curves(snapshot: Snapshot) -> list[bytes]:
    return [b"".join(curve_line(_row(point)) for point in state.curve) for state in snapshot.trials]


def _row(point: Point) -> dict[str, Any]:
    return {**point._asdict(), **point.metrics}


def _point(row: dict[str, Any]) -> Point:
    known = {name: row.pop(name) for name in Point._fields if name in row}
    return Point(**known, metrics=row)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
