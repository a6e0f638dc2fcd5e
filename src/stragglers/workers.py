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
    from stragglers.setup import Start
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
    """What trials tell whoever waits for them; the rest is in their folders."""

    lines: list[str]  # one for each
    seconds: float | None  # of each, if all are finished, and so a measure for others


Update = Callable[[str, float, str], None]  # label, share done, and how it is
Bundle = list[Job]  # trials of one experiment, in one program
Submit = Callable[[Bundle], Future[Outcome]]


@contextmanager
def here(threads: int, update: Update, deadline: float) -> Iterator[Submit]:
    """A trial at a time, in this process."""
    device.prepare(threads)

    def submit(bundle: Bundle) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(_train(bundle, update, deadline))
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

    def submit(bundle: Bundle) -> Future[Outcome]:
        # Ctrl-C is for this process, which ends the others: they are born deaf to it.
        heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return pool.submit(_train_beside, bundle, deadline)
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


def _train_beside(bundle: Bundle, deadline: float) -> Outcome:
    return _train(bundle, lambda *message: _news.put(message), deadline)


class _TooSlow(Exception):
    """A trial will not end in time."""


def _train(bundle: Bundle, update: Update, deadline: float) -> Outcome:
    from stragglers.recording import record  # loads jax

    began = time.time()
    marks: list[tuple[float, float]] = []  # when how much was done: at first, and now
    notes: list[str] = []

    def on_start(start: "Start") -> None:
        notes.append(_setting(start))

    def on_progress(which: int, p: "Progress") -> None:
        marks[1:] = [(time.time(), p.step / p.steps)]
        update(bundle[which].label, p.step / p.steps, f"{_now(p)}, {notes[0]}")
        if too_slow(marks, deadline):
            raise _TooSlow

    name = bundle[0].name
    try:
        with about(name):
            results = record(
                [job.folder for job in bundle], name, [job.experiment for job in bundle],
                on_start=on_start, on_progress=on_progress,
            )  # fmt: skip
    except _TooSlow:
        given_up = f"given up after {time.time() - began:.0f} s: not to be done in time"
        return Outcome([given_up] * len(bundle), None)
    finished = not any(result.diverged for result in results)
    took = (time.time() - began) / len(bundle)
    return Outcome([_line(result) for result in results], took if finished else None)


def too_slow(marks: Sequence[tuple[float, float]], deadline: float) -> bool:
    """Whether a trial is late, or will be by much at the pace it has had since its first mark."""
    (first, done_first), (now, done) = marks[0], marks[-1]
    if now - first < SETTLED_S or done == done_first:
        return done < 1 and now > deadline
    to_go = (1 - done) * (now - first) / (done - done_first)
    return to_go > CAUTION * (deadline - now)


def _setting(start: "Start") -> str:
    """How it is trained: clients at once, trials at once, memory."""
    from stragglers.memory import readable

    lanes = f"{start.lanes} lanes" if start.lanes > 1 else "one client at a time"
    trials = f" for {start.trials} trials" if start.trials > 1 else ""
    return f"{lanes}{trials}, {readable(start.memory.total)} on {start.device}"


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
        f"({result.trained / last.wall_s:,.0f} updates/s, {last.wall_s:.1f} s, "
        f"{_setting(result.start)})"
    )
