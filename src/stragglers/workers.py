"""Where trials run: in this process, or in others beside it.

Small models use one core each at best, so trials run in processes of their own (spawned: a fork
after jax has started would hang), which share one cache of compiled programs. They end with this
process, however it ends; what they were writing is then as after any interruption.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stragglers import device
from stragglers.errors import about
from stragglers.settings import Experiment

if TYPE_CHECKING:
    from stragglers.simulate import Progress, Result

CAUTION = 1.2  # what is expected to take a second may take so many
SETTLED_S = 10.0  # of training, after which its pace is believed


class Job(NamedTuple):
    """A trial that was asked for."""

    name: str
    label: str
    folder: Path  # where its run belongs
    experiment: Experiment


class Outcome(NamedTuple):
    """What a trial tells whoever waits for it; the rest is in its folder."""

    line: str
    seconds: float | None  # if it is finished, and so a measure for others


Update = Callable[[str, float, str], None]  # label, share done, and how it is
Submit = Callable[[Job], Future[Outcome]]


@contextmanager
def here(threads: int, update: Update, deadline: float) -> Iterator[Submit]:
    """A trial at a time, in this process."""
    device.prepare(threads)

    def submit(job: Job) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(_train(job, update, deadline))
        return future

    yield submit


@contextmanager
def beside(threads: int, update: Update, deadline: float, processes: int) -> Iterator[Submit]:
    """As many trials at a time as there are processes, which end with the block at the latest."""
    context = multiprocessing.get_context("spawn")
    news = context.Queue()
    news.cancel_join_thread()  # a process that was ended may have taken its lock along
    threading.Thread(target=_listen, args=(news, update), daemon=True).start()
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, context, _connect, (threads, news))

    def submit(job: Job) -> Future[Outcome]:
        # Ctrl-C is for this process, which ends the others: they are born deaf to it.
        heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return pool.submit(_train_beside, job, deadline)
        finally:
            signal.signal(signal.SIGINT, heard)

    try:
        yield submit
    except BaseException:
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        news.put(None)


def _listen(news: Any, update: Update) -> None:
    while (message := news.get()) is not None:
        update(*message)


_news: Any = None  # of a spawned process: the way back to its parent


def _connect(threads: int, news: Any) -> None:
    global _news
    _news = news
    device.prepare(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent
    parent.join()
    os._exit(1)


def _train_beside(job: Job, deadline: float) -> Outcome:
    return _train(job, lambda *message: _news.put(message), deadline)


class _TooSlow(Exception):
    """A trial will not end in time."""


def _train(job: Job, update: Update, deadline: float) -> Outcome:
    from stragglers.recording import record  # loads jax

    began = time.time()
    marks: list[tuple[float, float]] = []  # when how much was done: at first, and now

    def on_progress(p: "Progress") -> None:
        marks[1:] = [(time.time(), p.step / p.steps)]
        update(job.label, p.step / p.steps, _now(p))
        if too_slow(marks, deadline):
            raise _TooSlow

    try:
        with about(job.name):
            result = record(job.folder, job.name, job.experiment, on_progress)
    except _TooSlow:
        return Outcome(f"given up after {time.time() - began:.0f} s: not to be done in time", None)
    return Outcome(_line(result), None if result.diverged else time.time() - began)


def too_slow(marks: Sequence[tuple[float, float]], deadline: float) -> bool:
    """Whether a trial is late, or will be by much at the pace it has had since its first mark."""
    (first, done_first), (now, done) = marks[0], marks[-1]
    if now - first < SETTLED_S or done == done_first:
        return done < 1 and now > deadline
    to_go = (1 - done) * (now - first) / (done - done_first)
    return to_go > CAUTION * (deadline - now)


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
