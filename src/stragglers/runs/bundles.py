"""Which trials share a program, and which also share a training.

    seeds    of one experiment fill an accelerator together
    models   of experiments that differ in what their algorithm has aside, such as FeAST's kappa or
             the decay of an average, come from one training (algorithms/base.all_of)

A bundle is a list of jobs for one program: seed after seed, each with the same models. Trials that
share a checkpoint stay a bundle. Seeds whose schedules differ in length, once their data is
read, are trained separately (workers.py).
"""

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TypeVar

import msgspec

from stragglers._core import jax_env
from stragglers._core.errors import BadInput
from stragglers.config import documents
from stragglers.config.settings import ASIDE, Experiment, settings_hash
from stragglers.planning.policy import Buffer
from stragglers.runs import checkpoint, records
from stragglers.runs.workers import Bundle, Job

Item = TypeVar("Item")

FULL = 512  # clients at once that an accelerator is filled with
MODELS = 32  # of one training at most: each takes about the room of two on the device


def training(experiment: Experiment) -> str:
    """Names a training and its data, without the seed: equal for models of one training."""
    given = experiment.document
    core = {k: v for k, v in given.get("algorithm", {}).items() if k not in ASIDE}
    name = settings_hash({**given, "algorithm": core})
    return f"{name} {given['task'].get('path', '')}"  # the hash ignores it


def bundles(jobs: list[Job], together: int | None) -> list[Bundle]:
    """What shares a program: the models of a training, and on an accelerator as many seeds of it
    as fill it. What shares a checkpoint comes first."""
    found = _shared(jobs)
    there = {job.folder for bundle in found for job in bundle}
    rest = [job for job in jobs if job.folder not in there]
    for same in _grouped(rest, lambda job: job.training):
        most = together or (_width(same[0]) if jax_env.on_accelerator() else 1)
        by_seed = [
            models
            for every in _grouped(same, lambda job: job.experiment.seed)
            for models in _parts(every, MODELS)
        ]
        for seeds in _grouped(by_seed, lambda models: [*map(_experiment, models)]):
            found += [list(chain(*part)) for part in _parts(seeds, most)]
    return found


def _parts(items: list[Item], most: int) -> list[list[Item]]:
    """At most so many in each, and about as many: of ten not 8 and 2, but 5 and 5."""
    size = -(-len(items) // -(-len(items) // most))
    return [items[first : first + size] for first in range(0, len(items), size)]


def _grouped(items: list[Item], key: Callable[[Item], object]) -> list[list[Item]]:
    """Items of equal keys, in the order in which they come first."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(str(key(item)), []).append(item)
    return list(groups.values())


def _shared(jobs: list[Job]) -> list[Bundle]:
    """Trials that share checkpoints, which only all of them together can resume from.

    Trials of them that were not requested resume as well, and lose nothing.
    """
    by_folder, found = {job.folder: job for job in jobs}, []
    for folders in dict.fromkeys(tuple(checkpoint.bound(job.folder)) for job in jobs):
        asked = [by_folder[folder] for folder in folders if folder in by_folder]
        if len({job.training for job in asked}) == 1:  # and not on other data since
            found.append([by_folder.get(f) or _beside(f, asked[0]) for f in folders])
    return found


def _beside(folder: Path, job: Job) -> Job:
    """A trial that shares a checkpoint with one that was asked for, on the same data."""
    try:
        name, settings = records.origin(folder)
        there = documents.settings_from(settings)
    except BadInput as error:
        raise BadInput(
            f"{error}; {job.label} shares a checkpoint with it, delete {folder} to start anew"
        ) from None
    own = msgspec.structs.replace(there, task=job.experiment.task)
    label = f"{name}, seed {own.seed}, in one program with {job.label}"
    return Job(name, label, folder, own, job.training)


def _width(job: Job) -> int:
    """How many trials have enough clients at once for an accelerator."""
    given = job.experiment.schedule
    at_once = given.size if isinstance(given, Buffer) else given.cohort_size
    return max(1, FULL // at_once)


def _experiment(job: Job) -> str:
    return str(job.folder).rsplit("-", 1)[0]  # without the seed
