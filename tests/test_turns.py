import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest

from stragglers import config, device, records, trials, workers
from stragglers.stopping import Wish
from stragglers.turns import turn
from stragglers.workers import News

WAITS = """
import sys, time
from stragglers.turns import turn
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


def test_without_a_file_nobody_waits():
    with turn(None) as take, turn(None) as other:
        take()
        other()


def small(tmp_path, count):
    document = config.read("glyphs/per-domain/fedavg")
    document |= {"updates": 300, "evaluations": 1, "task": {"name": "glyphs", "writers": 30}}
    return trials.jobs_of({"a": document}, count, tmp_path / "runs")


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
    with workers.beside(1, news, workers.USUAL, Wish(), 2, in_turn=True) as submit:
        outcomes = [future.result() for future in [submit([job]) for job in jobs]]
    changes = sum(one != other for one, other in zip(seen, seen[1:]))
    assert set(seen) == {job.label for job in jobs} and changes == 1
    assert all(outcome.seconds for outcome in outcomes)
    assert all(records.is_over(job.folder) for job in jobs)


@pytest.mark.parametrize(("processes", "expected"), [(1, None), (2, "0.450"), (3, "0.300")])
def test_processes_share_the_memory_of_an_accelerator(monkeypatch, processes, expected):
    monkeypatch.delenv(device.FRACTION, raising=False)
    monkeypatch.setattr(device, "on_accelerator", lambda: True)
    device.prepare(1, processes)
    assert device.os.environ.get(device.FRACTION) == expected
    monkeypatch.setenv(device.FRACTION, "0.2")
    device.prepare(1, processes)
    assert device.os.environ[device.FRACTION] == "0.2"  # what the user says holds
