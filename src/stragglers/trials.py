"""Trials of experiments, several at once where the machine has room, with their progress shown.

Small models use one core each at best, so trials run in processes of their own (spawned: a fork
after jax has started would hang), which share one cache of compiled programs.
"""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from stragglers import config

if TYPE_CHECKING:
    from stragglers.simulate import Progress, Result

ACCELERATORS = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm60_plugin", "libtpu")


class Job(NamedTuple):
    name: str
    document: dict[str, Any]
    label: str


def run_trials(
    documents: dict[str, dict[str, Any]],
    trials: int,
    processes: int,
    save: Callable[[dict[str, list[dict[str, Any]]]], None],
) -> dict[str, list[dict[str, Any]]]:
    """Trains each with seeds seed, seed + 1, ...; saves after each, in order, ready for JSON."""
    jobs = []
    for name, document in documents.items():
        first = config.experiment_from(document).seed
        for trial in range(trials):
            seeded = {**document, "seed": first + trial}
            jobs.append(Job(name, seeded, f"{name} {trial + 1}/{trials}"))
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in documents}
    run_all = _one_by_one if processes == 1 else _side_by_side
    for job, result in zip(jobs, run_all(jobs, processes), strict=True):
        results[job.name].append(result)
        save(results)
    return results


def processes_for(jobs: int, threads: int) -> int:
    """As many as the cores hold; one on an accelerator, which a trial has to itself."""
    if any(find_spec(name) for name in ACCELERATORS):
        return 1
    return max(1, min(jobs, len(os.sched_getaffinity(0)) // threads))


class _Shown:
    """Bars on a terminal, plain lines elsewhere; fed from this process or from others."""

    def __init__(self, total: int) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(20),
            TextColumn("{task.fields[now]}"),
            TimeRemainingColumn(),
        )
        console = Console(stderr=True)
        self.bar = Bar(*columns, console=console, disable=not sys.stderr.isatty())
        self.all = self.bar.add_task("all trials", now="", total=float(total))
        self.bars: dict[str, Any] = {}
        self.part: dict[str, float] = {}

    def update(self, label: str, done: float, now: str) -> None:
        if label not in self.bars:
            self.bars[label] = self.bar.add_task(label, now="", total=1.0)
        self.part[label] = done
        self.bar.update(self.bars[label], completed=done, now=now)
        self.bar.update(self.all, completed=sum(self.part.values()))

    def finish(self, label: str, line: str) -> None:
        self.update(label, 1.0, "")
        self.bar.remove_task(self.bars[label])
        console = self.bar.console  # a plain print would be painted over by the bars
        console.print(f"{label}: {line}", markup=False, highlight=False, soft_wrap=True)


def _one_by_one(jobs: list[Job], processes: int) -> Iterator[dict[str, Any]]:
    del processes
    shown = _Shown(len(jobs))
    with shown.bar:
        for job in jobs:
            record, line = _train(job, shown.update)
            shown.finish(job.label, line)
            yield record


def _side_by_side(jobs: list[Job], processes: int) -> Iterator[dict[str, Any]]:
    context = multiprocessing.get_context("spawn")
    news = context.Queue()
    shown = _Shown(len(jobs))

    def listen() -> None:
        while (message := news.get()) is not None:
            shown.update(*message)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    pool = ProcessPoolExecutor(processes, context, _connect, (news,))
    try:
        with shown.bar:
            futures: list[Future[tuple[dict[str, Any], str]]] = [
                pool.submit(_train_elsewhere, job) for job in jobs
            ]
            for job, future in zip(jobs, futures, strict=True):
                record, line = future.result()
                shown.finish(job.label, line)
                yield record
    finally:
        pool.shutdown(cancel_futures=True)
        news.put(None)
        listener.join()


_news: Any = None  # of a spawned process: the way back to its parent


def _connect(news: Any) -> None:
    global _news
    _news = news


def _train_elsewhere(job: Job) -> tuple[dict[str, Any], str]:
    return _train(job, lambda *message: _news.put(message))


def _train(job: Job, update: Callable[[str, float, str], None]) -> tuple[dict[str, Any], str]:
    """One trial's record, and the line that sums it up."""
    from stragglers.run import run  # loads jax

    def on_progress(p: "Progress") -> None:
        update(job.label, p.step / p.steps, _now(p))

    experiment = config.experiment_from(job.document)
    result = run(experiment, on_progress)
    return {"seed": experiment.seed, **_record(result)}, _line(result)


def _now(p: "Progress") -> str:
    rate = f"{p.trained / max(p.wall_s, 1e-9):,.0f} updates/s, {p.time_s / 3600:,.1f} h"
    if p.metrics is None:
        return rate
    straggler, total = p.metrics.straggler_accuracy, p.metrics.total_accuracy
    return f"{rate}, straggler {100 * straggler:.1f} %, total {100 * total:.1f} %"


def _line(result: "Result") -> str:
    if result.diverged:
        return result.diverged
    last = result.curve[-1]
    return (
        f"straggler {100 * last.metrics.straggler_accuracy:.1f} %, "
        f"total {100 * last.metrics.total_accuracy:.1f} % at {last.time_s:,.0f} s "
        f"({result.trained / last.wall_s:,.0f} updates/s, {last.wall_s:.1f} s)"
    )


def _record(result: "Result") -> dict[str, Any]:
    curve = []
    for point in result.curve:
        row = point._asdict()
        metrics = row.pop("metrics")
        curve.append({**row, **metrics._asdict()})
    return {
        "curve": curve,
        "trained": result.trained,
        "dropped": result.dropped,
        "diverged": result.diverged,
        "clients": result.clients,
    }
