"""Trials of experiments: missing trials are trained, existing ones are not repeated.

    jobs_of      every requested trial, and its folder
    run_missing  trains the trials whose folder is not finished

With a deadline, trials that are expected to finish in time come first, by the time that similar
trials took. Trials that still run at the deadline write a checkpoint, as at a signal; the next run
resumes from it.
"""

import os
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from stragglers._core import jax_env
from stragglers._core.errors import BadInput
from stragglers.config import task_files
from stragglers.config.settings import Experiment, OwnTask, Task
from stragglers.runs import checkpoint, device_lock, records, run_folder
from stragglers.runs.bundles import bundles, training
from stragglers.runs.progress import Shown
from stragglers.runs.signals import Interrupted, Wish, heeded
from stragglers.runs.workers import (
    USUAL,
    Bundle,
    Job,
    News,
    Outcome,
    Submit,
    Terms,
    beside,
    here,
    seeds_of,
)

CAUTION = 1.2  # what is expected to take a second may take so many


class Took(NamedTuple):
    """How long a trial took, as a measure for others."""

    job: Job
    seconds: float


def jobs_of(by_name: dict[str, Experiment], trials: int, out: Path) -> list[Job]:
    """Trials of each experiment, with seeds seed, seed + 1, ..."""
    jobs = []
    for name, experiment in by_name.items():
        for trial in range(trials):
            one = msgspec.structs.replace(experiment, seed=experiment.seed + trial)
            label, folder = f"{name} {trial + 1}/{trials}", run_folder.folder_of(out, name, one)
            jobs.append(Job(name, label, folder, one, training(one)))
    return jobs


def missing(jobs: list[Job]) -> list[Job]:
    """Jobs that are neither finished nor diverged.

    Raises an error if another process writes a trial, or if a trial is over, but damaged or trained
    on other data.
    """
    over = {job.folder for job in jobs if records.is_over(job.folder)}
    wanted = [job for job in jobs if job.folder not in over]
    _check_data([job for job in jobs if job.folder in over])
    for job in wanted:
        run_folder.check_free(job.folder)
    return wanted


def _check_data(over: list[Job]) -> None:
    """The name of a folder is free of where the data lies, so what is there may be of other data.

    What is not over is refused by its checkpoint, or starts anew.
    """
    asked: dict[Task, str | None] = {}
    for job in over:
        then, task = records.files_digest(job.folder), job.experiment.task
        if then is None:
            continue
        if task not in asked:
            asked[task] = task_files.data_digest(task)
        if (now := asked[task]) and now != then:
            asked_of = records.origin(job.folder)[1]["task"]
            place = asked_of.get("path", asked_of.get("function", "files elsewhere"))
            here = task.function if isinstance(task, OwnTask) else task_files.data_folder(task)
            raise BadInput(
                f"{job.folder}: trained on the data of {place} ({then[:12]}), but {here} has other "
                f"data ({now[:12]}); choose another --out, or delete this folder"
            )


def run_missing(
    jobs: list[Job],
    processes: int | None = None,
    terms: Terms = USUAL,
    together: int | None = None,
) -> list[Job]:
    """Trains what is missing; returns the jobs that are left."""
    wanted = missing(jobs)
    for folder in {job.folder for job in jobs} - {job.folder for job in wanted}:
        if all(map(records.is_over, checkpoint.bound(folder))):
            checkpoint.clear(folder)  # of a process that ended just before it would
    took = [
        Took(job, seconds) for job in jobs if (seconds := records.seconds(job.folder)) is not None
    ]
    groups = [(n, list(group)) for n, group in groupby(sorted(wanted, key=_threads), _threads)]
    for threads, _ in groups:
        jax_env.check(threads)
    shown = Shown(len(jobs), len(jobs) - len(wanted))
    news = News(shown.update, shown.say)
    with heeded() as wish, shown.bar, device_lock.shared() as file:
        for threads, group in groups:
            waiting = bundles(group, together)
            shown.expect(sum(map(len, waiting)) - len(group))
            at_once = min(processes or processes_for(len(group), threads), len(waiting))
            # This process can have one number of threads only; for several, it takes others.
            if at_once == len(groups) == 1:
                workers = here(threads, news, terms, wish)
            else:
                workers = beside(threads, news, terms, wish, at_once, file)
            with workers as submit:
                _run(waiting, submit, at_once, took, shown, terms.deadline, wish)
    if wish.number:
        raise Interrupted(wish.number)
    return [job for job in wanted if not records.is_over(job.folder)]


def processes_for(jobs: int, threads: int) -> int:
    """As many as the cores hold; one on an accelerator, which it has to itself."""
    if jax_env.on_accelerator():
        return 1
    return max(1, min(jobs, len(os.sched_getaffinity(0)) // threads))


def _threads(job: Job) -> int:
    return job.experiment.threads


def _run(
    waiting: list[Bundle],
    submit: Submit,
    at_once: int,
    took: list[Took],
    shown: Shown,
    deadline: float,
    wish: Wish,
) -> None:
    """Keeps the workers busy until the deadline or a stop request."""
    running: dict[Future[Outcome], Bundle] = {}

    def late(bundle: Bundle) -> bool:
        ahead = running.values() if jax_env.on_accelerator() else ()  # whose turns come first
        takes = (seeds_of(one) * expected_s(one[0], took) for one in (*ahead, bundle))
        return time.time() + sum(takes) > deadline

    while True:
        while waiting and len(running) < at_once and time.time() < deadline and not wish.number:
            bundle = min(waiting, key=late)  # the first that ends in time, if any does
            waiting.remove(bundle)
            running[submit(bundle)] = bundle
        if wish.number:
            wish.pass_on()  # also to workers that were starting when it came
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            bundle = running.pop(future)
            try:
                outcome = future.result()
            except BrokenProcessPool:
                if wish.number:
                    continue  # it had not yet begun to listen
                raise BadInput(
                    f"{bundle[0].label}: a process was killed, perhaps for want of memory; "
                    "lower --processes and run again"
                ) from None
            for job, line in zip(bundle, outcome.lines, strict=True):
                shown.finish(job.label, line)
                if outcome.seconds is not None:
                    took.append(Took(job, outcome.seconds))


def expected_s(job: Job, took: list[Took]) -> float:
    """How long a trial may take: as others of its training, or by updates, of its task."""
    same = [seconds for other, seconds in took if other.training == job.training]
    alike = [
        seconds / other.experiment.updates * job.experiment.updates
        for other, seconds in took
        if other.experiment.task == job.experiment.task
    ]
    return CAUTION * max(same or alike or [0.0])  # of the first, nothing is known: it is tried
