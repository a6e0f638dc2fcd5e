"""Trials and models of one program: what they keep together, and what becomes of who leaves."""

import signal
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.runs import bundles, records, run_folder, trials, workers
from stragglers.runs.signals import Wish
from stragglers.runs.workers import Job, News, Outcome, Terms
from stragglers.simulator import simulate
from tests.runs.test_checkpoint import SMALL, after, experiment, outcome, record, record_jobs
from tests.runs.test_trials import jobs_of


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0)  # a server step each


@pytest.mark.slow
def test_trials_of_one_program_go_on_together(tmp_path):
    two = [experiment("feast", "lanes=4", f"seed={seed}") for seed in (0, 1)]
    record(tmp_path / "whole", two)
    assert record(tmp_path / "parts", two, after(3)) == ["kept"]  # they meet at 2, 3, 4 and 6
    jobs = [Job("a", "a", tmp_path / "parts" / str(trial), two[trial], "t") for trial in (0, 1)]
    other = jobs[0]._replace(folder=tmp_path / "parts" / "2")
    bundled = bundles.bundles([other, *jobs], together=1)
    assert bundled == [jobs, [other]]
    with pytest.raises(BadInput, match=r"seeds: \[0, 1\] in the checkpoint, \[0\] now"):
        record(tmp_path / "parts", two[:1], allow_drift=True)
    assert record(tmp_path / "parts", two)[0].startswith("resumes from server step 4")
    for trial in "01":
        assert outcome(tmp_path / "parts" / trial) == outcome(tmp_path / "whole" / trial)
    assert bundles.bundles(jobs, together=1) == [[job] for job in jobs]


@pytest.mark.slow
def test_models_of_one_training_go_on_together_asked_for_or_not(tmp_path, monkeypatch):
    """Presets of their own, and so folders of their own; in parts of a second each."""
    monkeypatch.chdir(tmp_path)
    by_name = {
        name: documents.override_all(
            catalog.read("glyphs/per-domain/feast"), [*SMALL["feast"], given]
        )
        for name, given in {"one": "kappa=0.1", "of/two": "kappa=0.9"}.items()
    }
    by_name["alone"] = by_name["one"]
    jobs = jobs_of(by_name, 1, Path("runs"))
    for job in jobs[:2]:
        record_jobs([job._replace(folder=Path("whole") / job.name)])
    one, two, alone = jobs
    assert bundles.bundles(jobs, together=1) == [jobs]
    assert record_jobs([one, two], after(3)) == ["kept"]
    assert not records.is_over(two.folder)
    ((first, second),) = bundles.bundles([two], together=1)
    assert second is two and first._replace(label=one.label) == one
    (steps,) = {record.run["schedule"]["server_steps"] for record in records.find(["runs"])}
    assert record_jobs([first, second]) == [f"resumes from server step 3 of {steps}"]
    for job in (one, two):
        together, whole = outcome(job.folder), outcome(Path("whole") / job.name)
        assert together[0]["device"].pop("models_together") == 2
        assert whole[0]["device"].pop("models_together") == 1
        assert together[0].pop("memory") != whole[0].pop("memory")
        assert together == whole
    assert bundles.bundles([alone], together=1) == [[alone]]


@pytest.mark.slow
def test_models_of_one_training_that_went_on_apart_start_anew(tmp_path):
    each = [experiment("feast", f"kappa={kappa}") for kappa in (0.1, 0.2, 0.3)]
    jobs = [
        Job("a", str(number), tmp_path / str(number), one, "t") for number, one in enumerate(each)
    ]
    assert record_jobs(jobs[:2], after(3)) == ["kept"]
    assert record_jobs(jobs[1:2])[0].startswith("leaves the checkpoint that it shares with")
    (anew,) = record_jobs([jobs[0], jobs[2]])
    assert "is shared with trials that went on apart or are gone (1 others)" in anew
    assert all(records.is_over(job.folder) for job in jobs)


def test_a_process_that_ends_between_two_finished_models_loses_nothing(tmp_path, monkeypatch):
    """The folder that has the checkpoint is over; the others go on from it."""
    by_name = {
        name: documents.override_all(
            catalog.read("glyphs/per-domain/feast"), [*SMALL["feast"], given]
        )
        for name, given in {"one": "kappa=0.1", "two": "kappa=0.9"}.items()
    }
    by_name["two"]["paper"] = {
        "row": "of two alone",
        "straggler": 1.0,
        "straggler_interval": [0.0, 2.0],
        "total": 1.0,
        "total_interval": [0.0, 2.0],
        "time_s": 1.0,
    }
    one, two = jobs = jobs_of(by_name, 1, tmp_path / "runs")
    finish = run_folder.finish

    def fails(folder, *given):
        if folder == two.folder:
            raise OSError("no more of it")
        finish(folder, *given)

    monkeypatch.setattr(run_folder, "finish", fails)
    with pytest.raises(OSError, match="no more of it"):
        record_jobs(jobs, checkpoint_s=0)
    monkeypatch.setattr(run_folder, "finish", finish)
    assert records.is_over(one.folder) and not records.is_over(two.folder)
    said = []
    monkeypatch.setattr(trials, "here", here_saying(said))
    assert trials.run_missing(jobs, processes=1) == []
    (went_on,) = (line for line in said if "resumes from server step" in line)
    assert went_on.endswith(" 6 of 6")
    own = [records.load(job.folder).settings.get("paper", {}).get("row") for job in jobs]
    assert own == [None, "of two alone"]
    for job in jobs:
        record_jobs([job._replace(folder=tmp_path / "whole" / job.name)])
        assert outcome(job.folder)[1:] == outcome(tmp_path / "whole" / job.name)[1:]


@pytest.mark.slow
def test_trials_of_more_server_steps_than_others_are_trained_apart(tmp_path, monkeypatch):
    """Interrupted, those of one program go on together; what has not begun is trained as before."""
    given = [*SMALL["feast"], "late_seconds=60", "lanes=4"]  # 9, 10 and 9 server steps
    by_name = {
        name: documents.override_all(
            catalog.read("glyphs/per-domain/feast"), [*given, f"kappa={name}"]
        )
        for name in ("0.1", "0.9")
    }
    whole, jobs = (jobs_of(by_name, 3, tmp_path / place) for place in ("whole", "parts"))
    said, apart = [], "trials of 9 and 10 server steps are trained apart"
    monkeypatch.setattr(trials, "here", here_saying(said))
    assert trials.run_missing(whole, processes=1, together=3) == []
    assert said[0] == apart and len(said) == 3
    together = [records.load(job.folder).run["device"]["trials_together"] for job in whole]
    assert together == [2, 1, 2, 2, 1, 2]

    wish, told = Wish(), []

    def update(label, done, now):
        wish.number = signal.SIGTERM if done > 0.4 else None  # while the first ones train

    (bundle,) = bundles.bundles(jobs, together=3)
    news = News(update, lambda label, line: told.append(line))
    lines = workers._train(bundle, news, workers.USUAL, wish).lines
    assert told[0] == apart and lines[2:4] == [workers.BEFORE] * 2
    assert all(line.startswith("stopped at 44") for line in lines[:2] + lines[4:])
    said.clear()
    assert trials.run_missing(jobs, processes=1, together=3) == []
    assert [line for line in said if "resumes" in line] == ["resumes from server step 4 of 9"]
    assert apart not in said
    for one, other in zip(whole, jobs, strict=True):
        assert outcome(one.folder) == outcome(other.folder)


def test_no_program_of_them_begins_when_the_time_is_over(tmp_path, monkeypatch):
    jobs = [Job("a", str(n), tmp_path / str(n), experiment("feast"), "t") for n in range(3)]
    clock = [0.0]

    def trained(part, *given):
        clock[0] = 2.0
        return Outcome([f"{job.label} is trained" for job in part], 1.0)

    monkeypatch.setattr(workers, "_train", trained)
    monkeypatch.setattr(workers.time, "time", lambda: clock[0])
    news = News(print, print)
    in_time = workers._train_apart(jobs, [9, 10, 9], news, Terms(1.0), Wish(), None)
    assert in_time.lines == ["0 is trained", workers.BEFORE, "2 is trained"]
    assert in_time.seconds is None


def here_saying(said):
    @contextmanager
    def here(threads, news, terms, wish):
        def submit(bundle):
            future = Future()
            told = news._replace(say=lambda label, line: said.append(line))
            future.set_result(workers._train(bundle, told, terms, wish))
            return future

        yield submit

    return here


def test_trials_of_one_program_that_went_on_apart_start_anew(tmp_path):
    two = [experiment("feast", "lanes=4", f"seed={seed}") for seed in (0, 1)]
    first, second = tmp_path / "parts" / "0", tmp_path / "parts" / "1"
    for each in two:
        record(tmp_path / "whole", [each])
    assert record(tmp_path / "parts", two, after(3), checkpoint_s=0) == ["kept"]
    left = f"leaves the checkpoint that it shares with {first}: starts anew"
    assert record(tmp_path / "parts", two[1:], after(2)) == [left, "kept"]
    jobs = [Job("a", "a", folder, each, "t") for folder, each in zip((first, second), two)]
    assert bundles.bundles(jobs, together=2) == [[jobs[1]], [jobs[0]]]
    assert record(tmp_path / "parts", two[1:]) == ["resumes from server step 2 of 6"]
    anew = (
        f"{first / 'checkpoints'} is shared with trials that went on apart or are gone "
        "(1 others): starts anew"
    )
    assert record(tmp_path / "parts", two[:1], after(1)) == [anew, "kept"]
    assert record(tmp_path / "parts", two[:1]) == ["resumes from server step 1 of 6"]
    for trial in "01":
        assert outcome(tmp_path / "parts" / trial) == outcome(tmp_path / "whole" / trial)
