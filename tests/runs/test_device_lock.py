import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from stragglers._core import jax_env
from stragglers.config import catalog
from stragglers.runs import records, trials, workers
from stragglers.runs.device_lock import shared, turn
from stragglers.runs.progress import Shown
from stragglers.runs.signals import Wish
from stragglers.runs.workers import News
from tests.runs.test_trials import jobs_of

WAITS = """
import sys, time
from stragglers.runs.device_lock import turn
with turn(sys.argv[1]) as take:
    take()
    print("mine", flush=True)
    time.sleep(60)
"""


def test_one_at_a_time_in_whatever_order(tmp_path):
    file, inside, most = str(tmp_path / "turns"), [], []

    def work(number):
        with turn(file) as take:
            take()
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.02)
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 5


def test_whoever_dies_gives_its_turn_back(tmp_path):
    file = str(tmp_path / "turns")
    with subprocess.Popen([sys.executable, "-c", WAITS, file], stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline() == b"mine\n"
        threading.Timer(0.3, other.kill).start()
        began = time.perf_counter()
        with turn(file) as take:
            take()
        assert time.perf_counter() - began > 0.2 and other.wait() == -signal.SIGKILL


def test_without_an_accelerator_nobody_waits(on_cpu):
    with shared() as file, turn(file) as take, turn(file) as other:
        take()
        other()


def small(tmp_path, count):
    document = catalog.read("glyphs/per-domain/fedavg")
    document |= {"updates": 300, "evaluations": 1, "task": {"name": "glyphs", "writers": 30}}
    return jobs_of({"a": document}, count, tmp_path / "runs")


def test_a_wait_is_ended_at_once_and_begins_nothing(tmp_path):
    (job,) = small(tmp_path, 1)
    wish, file = Wish(), str(tmp_path / "turns")

    def say(label, line):
        threading.Timer(0.2, signal.raise_signal, [signal.SIGUSR1]).start()

    before = signal.signal(signal.SIGUSR1, wish.hear)
    try:
        with turn(file) as take:
            take()
            said = News(lambda *_: None, say)
            outcome = workers._train([job], said, workers.USUAL, wish, file)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert outcome.lines == ["stopped before it trained"]
    assert not (job.folder / "run.json").exists()


def test_what_is_waited_is_no_time_of_its_own(tmp_path):
    (job,) = small(tmp_path, 1)
    file, other = str(tmp_path / "turns"), ExitStack()
    other.enter_context(turn(file))()
    news = News(lambda *_: None, lambda *_: threading.Timer(1.0, other.close).start())
    began = time.time()
    outcome = workers._train([job], news, workers.USUAL, Wish(), file)
    own = time.time() - began - 0.95
    assert outcome.seconds is not None and outcome.seconds < own
    assert 0 < records.load(job.folder).run["wall_s"] < own


@pytest.mark.slow
def test_trials_of_two_processes_train_in_turn(tmp_path):
    jobs, seen = small(tmp_path, 2), []
    news = News(lambda label, share, how: seen.append(label), lambda *_: None)
    with workers.beside(1, news, workers.USUAL, Wish(), 2, str(tmp_path / "turns")) as submit:
        outcomes = [future.result() for future in [submit([job]) for job in jobs]]
    changes = sum(one != other for one, other in zip(seen, seen[1:]))
    assert set(seen) == {job.label for job in jobs} and changes == 1
    assert all(outcome.seconds for outcome in outcomes)
    assert all(records.is_over(job.folder) for job in jobs)


def test_a_turn_that_comes_too_late_begins_nothing(tmp_path):
    (job,) = small(tmp_path, 1)
    file, terms = str(tmp_path / "turns"), workers.Terms(deadline=time.time() - 1)
    outcome = workers._train([job], News(lambda *_: None, lambda *_: None), terms, Wish(), file)
    assert outcome.lines == ["stopped before it trained"] and outcome.seconds is None
    assert not (job.folder / "run.json").exists()


@pytest.fixture
def accelerator(monkeypatch):
    monkeypatch.setattr(jax_env, "on_accelerator", lambda: True)
    for name in jax_env.FRACTIONS:  # set before they are deleted, so that both are restored
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.parametrize(("processes", "expected"), [(1, None), (2, "0.450"), (3, "0.300")])
def test_processes_share_the_memory_of_an_accelerator(accelerator, processes, expected):
    jax_env.prepare(1, processes)
    assert os.environ.get("XLA_CLIENT_MEM_FRACTION") == expected


@pytest.mark.parametrize("name", jax_env.FRACTIONS)
def test_what_the_user_says_of_memory_holds(accelerator, monkeypatch, name):
    monkeypatch.setenv(name, "0.2")
    jax_env.prepare(1, 2)
    assert [os.environ.get(each) for each in jax_env.FRACTIONS if each != name] == [None]
    assert os.environ[name] == "0.2"


@contextmanager
def pretended(asked, threads, news, terms, wish, processes, file):
    """Trials that do nothing and are said to have taken a second each."""
    asked.append((processes, os.path.exists(file)))

    def submit(bundle):
        asked.append(bundle[0].label)
        future = Future()
        threading.Timer(0.1, future.set_result, [workers.Outcome(["done"], 1.0)]).start()
        return future

    yield submit


def test_an_accelerator_is_taken_in_turn_by_no_more_than_there_are(
    accelerator, tmp_path, monkeypatch
):
    asked = []
    monkeypatch.setattr(trials, "beside", partial(pretended, asked))
    jobs = small(tmp_path, 3)
    assert len(trials.run_missing(jobs, 8, together=1)) == 3  # pretended: nothing is over
    assert asked == [(3, True), *(job.label for job in jobs)]


def test_what_is_ahead_counts_when_time_is_short(accelerator, tmp_path):
    """Of a long and a short one the short comes first, if the long one would wait too long."""
    asked, jobs, updates = [], [], (300, 300, 30)
    for name, count in zip("abc", updates):
        document = catalog.read("glyphs/per-domain/fedavg")
        document |= {"updates": count, "task": {"name": "glyphs", "writers": 30}}
        jobs += jobs_of({name: document}, 1, tmp_path / "runs")
    took = [trials.Took(jobs[0], 10.0)]
    a, b, c = ([job] for job in jobs)
    with pretended(asked, 1, None, None, None, 2, "") as submit:
        trials._run([a, b, c], submit, 2, took, Shown(3, 0), time.time() + 20, Wish())
    assert asked[1:] == [jobs[0].label, jobs[2].label, jobs[1].label]
