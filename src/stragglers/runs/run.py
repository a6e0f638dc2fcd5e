"""Experiments to their trials: missing trials are trained, and all are read."""

import math
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from stragglers._core import memory_limits
from stragglers._core.errors import BadInput, about, check_type, shown
from stragglers._core.files import output_folder
from stragglers.config import checks, documents, task_files
from stragglers.config.settings import Experiment
from stragglers.runs import records, trials
from stragglers.runs.checkpoint import EVERY_MINUTES
from stragglers.runs.results import Runs
from stragglers.runs.signals import Interrupted
from stragglers.runs.workers import Job, Terms


def run(
    experiments: Sequence[Experiment],
    *,
    out: str | Path = "runs",
    trials: int = 1,
    path: str | Path | None = None,
    processes: int = 1,
    together: int | None = None,
    minutes: float = math.inf,
    checkpoint_minutes: float = EVERY_MINUTES,
    allow_drift: bool = False,
) -> Runs:
    """Trains the trials of some experiments that are missing, as `stragglers run` does.

    Each trial has a folder, named by its experiment, the hash of its settings and its seed. A trial
    that is there is not repeated; one that was interrupted resumes from its last checkpoint.

    Args:
        experiments: Presets, or experiments made of them by `replace`.
        out: Folder for run folders.
        trials: Number of trials of each experiment, with seeds seed, seed + 1, ...
        path: Folder of the tasks' data; by default that of the experiment or `$STRAGGLERS_DATA`.
        processes: Number of trials at once. More than one needs `if __name__ == "__main__":` in
            scripts, since each has a process of its own.
        together: Number of seeds in one program; by default what fills an accelerator, 1 on a CPU.
        minutes: Training stops then, with a checkpoint; the same call resumes.
        checkpoint_minutes: Minutes between two checkpoints of a trial.
        allow_drift: Whether checkpoints of other versions or devices are resumed.

    Returns:
        All trials, including existing ones. If `minutes` ended the call, some are `running` or
        missing.

    Raises:
        BadInput: If settings contradict each other, data is missing or not that of the trials that
            are there, one of the folders is damaged, or another process writes it.
        KeyboardInterrupt: After Ctrl-C, when a last checkpoint is written.

    Example:
        >>> import stragglers as st
        >>> experiment = st.preset("glyphs/per-domain/fedadam").replace(
        ...     writers=12, goal=2, updates=40, evaluations=2)
        >>> runs = st.run([experiment], out="runs")
        >>> runs[0].status, len(runs[0].curve["step"])
        ('finished', 2)
    """
    check_type("out", out, (str, Path), "a folder for runs")
    terms = checked_terms(trials, processes, together, minutes, checkpoint_minutes, allow_drift)
    named = [_checked(each, path) for each in _listed(experiments)]
    if (every := len(named) * trials) > memory_limits.TRIALS:
        raise BadInput(f"{every:,} trials given, expected at most {memory_limits.TRIALS:,}")
    for experiment in named:
        with about(experiment.name):
            checks.check_trainable(experiment)
            task_files.prepare_data(experiment.task, experiment.threads)
    jobs = jobs_of(named, trials, output_folder(str(out)))
    try:
        left = train(jobs, processes, terms, together)
    except Interrupted as stopped:
        raise (KeyboardInterrupt if stopped.number == signal.SIGINT else SystemExit)(
            128 + stopped.number
        ) from None
    if left:
        print(f"{len(left)} of {len(jobs)} trials are left; the same call resumes", file=sys.stderr)
    runs = Runs(records.load(job.folder) for job in jobs if (job.folder / "run.json").exists())
    records.say_unsealed(runs)
    return runs


def _listed(experiments: Sequence[Experiment]) -> list[Experiment]:
    if not isinstance(experiments, Iterable) or isinstance(experiments, str):
        raise BadInput(f"experiments = {shown(experiments)}: not a list. Give [experiment].")
    for each in (given := list(experiments)):
        if not isinstance(each, Experiment):
            raise BadInput(f"experiments: {shown(each)} is none. Make them with st.preset.")
    return given


def _checked(experiment: Experiment, path: str | Path | None) -> Experiment:
    """With the folder of its data."""
    if path is not None and not documents.takes_data(experiment.document):
        raise BadInput(f"path = {str(path)!r}: {experiment.name} reads no data. Leave it out.")
    folder = None if path is None else str(path)
    document = documents.with_data(experiment.document, folder)
    return documents.settings_from(document).named(experiment.name)


def jobs_of(experiments: Sequence[Experiment], count: int, out: Path) -> list[Job]:
    """All trials, each once; experiments of one name are told apart by their hashes."""
    names = [experiment.name for experiment in experiments]
    found = {}
    for experiment in experiments:
        for job in trials.jobs_of({experiment.name: experiment}, count, out):
            hashed = f"{job.label}, {experiment.hash}"
            several = names.count(experiment.name) > 1
            found.setdefault(job.folder, job._replace(label=hashed) if several else job)
    return list(found.values())


def train(jobs: list[Job], processes: int | None, terms: Terms, together: int | None) -> list[Job]:
    """Trains what is missing, says how much is there already, and returns what is left."""
    there = len(jobs) - len(trials.missing(jobs))
    if there:
        print(
            f"stragglers: {there} of {len(jobs)} trials are there already; "
            "to repeat one, delete its folder",
            file=sys.stderr,
        )
    return trials.run_missing(jobs, processes, terms, together)


def checked_terms(
    count: int,
    processes: int | None,
    together: int | None,
    minutes: float,
    checkpoint_minutes: float,
    allow_drift: bool,
) -> Terms:
    """On which terms trials run; refuses numbers that make no sense."""
    for name, value in (("trials", count), ("processes", processes), ("together", together)):
        if value is not None and (type(value) is not int or value < 1):
            raise BadInput(f"{name}={shown(value)}, expected at least 1")
    for name, value in (("minutes", minutes), ("checkpoint-minutes", checkpoint_minutes)):
        if not isinstance(value, int | float):
            raise BadInput(f"{name}={shown(value)}, expected a number")
    if not minutes > 0:
        raise BadInput(f"minutes={minutes:g}, expected more than 0")
    if not checkpoint_minutes >= 0:
        raise BadInput(f"checkpoint-minutes={checkpoint_minutes:g}, expected 0 or more")
    return Terms(time.time() + 60 * minutes, 60 * checkpoint_minutes, allow_drift)
