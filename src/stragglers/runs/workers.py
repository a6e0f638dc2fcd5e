"""Where trials run: in this process or in worker processes, which take turns on an accelerator.

Small models use one core each at best, so trials run in processes of their own (spawned: a fork
after jax has started would hang), which share one cache of compiled programs. They end with this
process, however it ends. A signal is passed on to them; each then makes a checkpoint and ends.
"""

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stragglers._core import jax_env
from stragglers._core.errors import about
from stragglers.config.settings import Experiment
from stragglers.runs import checkpoint
from stragglers.runs.device_lock import turn
from stragglers.runs.signals import Interrupted, Wish
from stragglers.simulator.together import Apart

if TYPE_CHECKING:
    from stragglers.simulator.events import Progressed
    from stragglers.simulator.prepare import Start
    from stragglers.simulator.trial_state import Result

# An idle worker waits this long to be dismissed, while others may write a checkpoint.
PATIENCE_S = 10.0
BEFORE = "stopped before it trained"


class Job(NamedTuple):
    """A trial that was asked for."""

    name: str
    label: str
    folder: Path  # where its run belongs
    experiment: Experiment
    training: str  # names what is trained, but for the seed; see sharing.training


class Outcome(NamedTuple):
    """What trials report to the process that started them; the rest is in their folders."""

    lines: list[str]  # one for each
    seconds: float | None  # of each seed, if all are finished, and so a measure for others


class News(NamedTuple):
    """How trials are heard of while they run."""

    update: Callable[[str, float, str], None]  # label, share done, and how it is
    say: Callable[[str, str], None]  # label, and a line about it


class Terms(NamedTuple):
    """How long trials may run, and what they keep on the way."""

    deadline: float = math.inf  # on the clock of time.time()
    checkpoint_s: float = 60 * checkpoint.EVERY_MINUTES
    allow_drift: bool = False


USUAL = Terms()
Bundle = list[Job]  # trials in one program; models of one training come one after another
Submit = Callable[[Bundle], Future[Outcome]]


@contextmanager
def here(threads: int, news: News, terms: Terms, wish: Wish) -> Iterator[Submit]:
    """A trial at a time, in this process."""
    jax_env.prepare(threads)

    def submit(bundle: Bundle) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(_train(bundle, news, terms, wish))
        return future

    yield submit


@contextmanager
def beside(
    threads: int, news: News, terms: Terms, wish: Wish, processes: int, turns: str | None = None
) -> Iterator[Submit]:
    """As many trials at a time as there are processes, which end with the block at the latest.

    With a file for their turns they prepare at the same time, and train one after another.
    """
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    queue.cancel_join_thread()  # a process that was ended may have taken its lock along
    _kept.append(queue)
    listener = threading.Thread(target=_listen, args=(queue, news), daemon=True)
    listener.start()
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, context, _connect, (threads, queue, processes, turns))

    def submit(bundle: Bundle) -> Future[Outcome]:
        # Ctrl-C is for this process, which tells the others: they are born deaf to it.
        heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return pool.submit(_train_beside, bundle, terms)
        finally:
            signal.signal(signal.SIGINT, heard)

    def pass_on() -> None:
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()  # which they take as a wish

    wish.pass_on = pass_on
    try:
        yield submit
    except BaseException:
        pass_on()
        raise
    finally:
        wish.pass_on = lambda: None
        pool.shutdown(cancel_futures=True)
        queue.put(None)
        # It may wait for a lock that a process took along, so it is not waited for in earnest.
        listener.join(1.0)


# Keeps queues until the process ends: the last thread to release a queue releases its locks. That
# must be the main thread, because Python stops other threads anywhere when it exits.
_kept: list[Any] = []


def _listen(queue: Any, news: News) -> None:
    while True:
        try:
            message = queue.get()
        except Exception:  # half a message, of a process that was ended in it
            return
        if message is None:
            return
        kind, *about_it = message
        getattr(news, kind)(*about_it)


# Of a spawned process: the way to its parent, its turns, what that wishes, whether a trial runs.
_queue: Any = None
_turns: str | None = None
_wish = Wish()
_training = threading.Lock()


def _connect(threads: int, queue: Any, processes: int, turns: str | None) -> None:
    global _queue, _turns
    _queue, _turns = queue, turns
    signal.signal(signal.SIGTERM, _wish.hear)
    jax_env.prepare(threads, processes)
    threading.Thread(target=_end, daemon=True).start()


def _end() -> None:
    """Ends this process with its parent, or by its wish when no trial is under way.

    A pool that has lost a process waits for the others and tells them nothing.
    """
    parent = multiprocessing.parent_process()
    assert parent
    while parent.is_alive():
        parent.join(0.2)
        if _wish.number and _training.acquire(blocking=False):
            parent.join(PATIENCE_S)
            break
    os._exit(1)


def _train_beside(bundle: Bundle, terms: Terms) -> Outcome:
    news = News(
        lambda *message: _queue.put(("update", *message)),
        lambda *message: _queue.put(("say", *message)),
    )
    with _training:
        return _train(bundle, news, terms, _wish, _turns)


def _train(
    bundle: Bundle, news: News, terms: Terms, wish: Wish, turns: str | None = None
) -> Outcome:
    began = time.time()
    name, label = bundle[0].name, bundle[0].label
    share, results = 0.0, []

    # Loads jax. Not interrupted: an exception in the middle of its libraries aborts the process.
    from stragglers.runs.recorder import Kept, Said, record
    from stragglers.simulator.events import Finished, Progressed, Started

    events = record(
        [job.folder for job in bundle],
        [job.name for job in bundle],
        [job.experiment for job in bundle],
        stop=lambda: wish.number is not None or time.time() > terms.deadline,
        checkpoint_s=terms.checkpoint_s,
        allow_drift=terms.allow_drift,
    )
    try:
        with about(name), turn(turns) as take, wish.at_once() as now_wait, closing(events):
            for event in events:
                match event:
                    case Started(start):
                        news.say(label, _setting(start))
                        ready = time.time()
                        take()
                        began += time.time() - ready
                        if turns and time.time() > terms.deadline:
                            return _stopped(bundle, BEFORE)
                        now_wait()  # for a checkpoint, from now on
                    case Said(line):
                        news.say(label, line)
                    case Progressed():
                        share = event.step / event.steps
                        news.update(bundle[event.trial].label, share, _now(event))
                    case Finished(result):
                        results.append(result)
                    case Kept():
                        return _stopped(bundle, f"stopped at {share:.1%}, which is kept")
    except Interrupted:
        return _stopped(bundle, BEFORE)
    except Apart as apart:
        return _train_apart(bundle, apart.steps, news, terms, wish, turns)
    finished = not any(result.diverged for result in results)
    took = (time.time() - began) / seeds_of(bundle)
    return Outcome([_line(result) for result in results], took if finished else None)


def _stopped(bundle: Bundle, why: str) -> Outcome:
    return Outcome([why] * len(bundle), None)


def _train_apart(
    bundle: Bundle, steps: list[int], news: News, terms: Terms, wish: Wish, turns: str | None
) -> Outcome:
    """Trials of equally many server steps in one program, and one program after another."""
    listed = " and ".join(f"{count:,}" for count in sorted(set(steps)))
    news.say(bundle[0].label, f"trials of {listed} server steps are trained apart")
    lines: dict[Path, str] = {}
    took: list[float | None] = []
    for count in dict.fromkeys(steps):
        part = [job for job, own in zip(bundle, steps, strict=True) if own == count]
        if time.time() > terms.deadline:
            outcome = _stopped(part, BEFORE)
        else:
            outcome = _train(part, news, terms, wish, turns)
        lines.update(zip((job.folder for job in part), outcome.lines, strict=True))
        took.append(outcome.seconds)
    known = [seconds for seconds in took if seconds is not None]
    seconds = max(known) if len(known) == len(took) else None
    return Outcome([lines[job.folder] for job in bundle], seconds)


def seeds_of(bundle: Bundle) -> int:
    """How many trainings it takes."""
    return len({job.experiment.seed for job in bundle})


def _setting(start: "Start") -> str:
    """How it is trained, said before the first step: clients at once, trials at once, memory."""
    lanes = f"{start.lanes} lanes" if start.lanes > 1 else "one client at a time"
    trials = f" for {start.trials} trials" if start.trials > 1 else ""
    trials += f" with {start.models} models of each training" if start.models > 1 else ""
    device = f"{start.devices} x {start.device}" if start.devices > 1 else start.device
    return f"{lanes}{trials} on {device}, memory {start.memory}"


def _now(p: "Progressed") -> str:
    rate = f"{p.trained / max(p.wall_s, 1e-9):,.0f} updates/s, {p.time_s / 3600:,.1f} h"
    if p.metrics is None:
        return rate
    straggler, total = p.metrics["straggler_accuracy"], p.metrics["total_accuracy"]
    return f"{rate}, straggler {100 * straggler:.1f} %, total {100 * total:.1f} %"


def _line(result: "Result") -> str:
    if result.diverged:
        return result.diverged
    last = result.curve[-1]
    return (
        f"straggler {100 * last.metrics['straggler_accuracy']:.1f} %, "
        f"total {100 * last.metrics['total_accuracy']:.1f} % at {last.time_s:,.0f} s "
        f"({result.trained / last.wall_s:,.0f} updates/s, {last.wall_s:.1f} s)"
    )
