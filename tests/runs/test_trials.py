import math
import signal
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from stragglers._core import jax_env
from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.runs import records, run_folder, trials
from stragglers.runs.signals import Interrupted
from stragglers.runs.workers import Outcome, Terms

FEAST, FEDAVG = "glyphs/per-domain/feast", "glyphs/per-domain/fedavg"


def jobs(out, names=(FEAST, FEDAVG), count=2, **changes):
    return jobs_of({name: {**catalog.read(name), **changes} for name in names}, count, out)


def jobs_of(by_name, count, out):
    """Trials of the experiments that documents describe."""
    experiments = {name: documents.settings_from(given) for name, given in by_name.items()}
    return trials.jobs_of(experiments, count, out)


def write(job, status="finished", seconds=1.0):
    with run_folder.claim(job.folder):
        settings = job.experiment.document
        run = run_folder.begin(job.folder, settings, {"name": job.name})
        if status != "running":
            run_folder.finish(job.folder, run, {}, {"status": status, "wall_s": seconds})


@pytest.fixture
def trained(monkeypatch, on_cpu):
    """Jobs that were trained: a stand-in that needs `minutes` of a clock of its own for each."""
    done, clock = [], [0.0]
    monkeypatch.setattr(trials.time, "time", lambda: clock[0])

    @contextmanager
    def here(threads, news, terms, wish, *processes):
        def submit(bundle):
            future = Future()
            clock[0] += 60 * trained.minutes * len(bundle)
            in_time = clock[0] <= terms.deadline
            for job in bundle:
                write(job, "finished" if in_time else "running", 60 * trained.minutes)
                done.append(job.label)
            lines = [""] * len(bundle)
            future.set_result(Outcome(lines, 60 * trained.minutes if in_time else None))
            trained.bundles.append([job.label for job in bundle])
            return future

        yield submit

    def trained(*arguments, minutes=1, deadline=math.inf, **options):
        trained.minutes, trained.bundles = minutes, []
        done.clear()
        clock[0] = 0.0
        left = trials.run_missing(*arguments, terms=Terms(deadline), **options)
        return done.copy(), [job.label for job in left]

    monkeypatch.setattr(trials, "here", here)
    monkeypatch.setattr(trials, "beside", here)
    return trained


def test_each_trial_has_its_seed_and_its_folder(tmp_path):
    four = jobs(tmp_path, seed=5)
    assert [job.experiment.seed for job in four] == [5, 6, 5, 6]
    assert [job.label for job in four[:2]] == [f"{FEAST} 1/2", f"{FEAST} 2/2"]
    assert len({job.folder for job in four}) == 4
    assert all(job.folder.parent == tmp_path / job.name for job in four)


def test_only_what_is_missing_is_trained(tmp_path, trained):
    first = jobs(tmp_path, count=1)
    assert trained(first) == ([f"{FEAST} 1/1", f"{FEDAVG} 1/1"], [])
    assert trained(first) == ([], [])
    assert trained(jobs(tmp_path)) == ([f"{FEAST} 2/2", f"{FEDAVG} 2/2"], [])
    assert trained(jobs(tmp_path, updates=400, count=1))[0] == [f"{FEAST} 1/1", f"{FEDAVG} 1/1"]


def test_what_diverged_is_over_and_what_was_interrupted_is_not(tmp_path, trained):
    diverged, interrupted, new, _ = jobs(tmp_path)
    write(diverged, "diverged")
    write(interrupted, "running")
    assert trained([diverged, interrupted, new])[0] == [interrupted.label, new.label]


def test_a_folder_that_is_being_written_is_refused_before_any_training(tmp_path, trained):
    first, second = jobs(tmp_path, (FEAST,))
    with run_folder.claim(second.folder), pytest.raises(BadInput, match="another process"):
        trained([first, second])
    assert not first.folder.exists()


def test_numbers_of_threads_take_turns(tmp_path, trained, monkeypatch):
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    mixed = jobs(tmp_path, (FEAST,), threads=2) + jobs(tmp_path, (FEDAVG,), threads=1)
    assert trained(mixed)[0] == [f"{FEDAVG} 1/2", f"{FEDAVG} 2/2", f"{FEAST} 1/2", f"{FEAST} 2/2"]
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")
    with pytest.raises(BadInput, match="JAX_NUM_CPU_DEVICES=1"):
        trained(jobs(tmp_path, (FEAST,), threads=2, updates=300))


def test_time_that_is_left_goes_to_what_will_not_end_in_it(tmp_path, trained):
    five = jobs(tmp_path, (FEAST,), count=5)
    assert trained(five, deadline=60 * 3.5) == (
        [f"{FEAST} {trial}/5" for trial in (1, 2, 3, 4)],
        [f"{FEAST} {trial}/5" for trial in (4, 5)],
    )
    assert trained(five, deadline=0.0) == ([], [f"{FEAST} 4/5", f"{FEAST} 5/5"])
    assert trained(five, deadline=60 * 9) == ([f"{FEAST} 4/5", f"{FEAST} 5/5"], [])


def test_what_ends_in_time_comes_first(tmp_path, trained):
    short, long = jobs(tmp_path, (FEAST,)), jobs(tmp_path, (FEDAVG,))
    write(short[0], seconds=60)
    write(long[0], seconds=600)
    assert trained([*long, *short], deadline=60 * 2) == ([short[1].label, long[1].label], [])


def test_a_signal_ends_it_when_what_runs_has_ended(tmp_path, trained, monkeypatch):
    two, wished = jobs(tmp_path, (FEAST,)), trials.here

    @contextmanager
    def here(threads, news, terms, wish):
        with wished(threads, news, terms, wish) as submit:

            def submit_and_wish(bundle):
                wish.hear(signal.SIGTERM)
                return submit(bundle)

            yield submit_and_wish

    monkeypatch.setattr(trials, "here", here)
    with pytest.raises(Interrupted) as interrupted:
        trained(two, processes=1)
    assert interrupted.value.number == signal.SIGTERM
    assert [records.is_over(job.folder) for job in two] == [True, False]


def test_checkpoints_of_what_is_over_are_removed(tmp_path, trained):
    (job, _) = jobs(tmp_path, (FEAST,))
    write(job)
    (job.folder / "checkpoints" / "one").mkdir(parents=True)
    trained([job])
    assert not (job.folder / "checkpoints").exists()


def test_of_what_nothing_is_known_one_is_tried(tmp_path, trained):
    two = jobs(tmp_path, (FEAST,))
    done, left = trained(two, minutes=10, deadline=60)
    assert done == [f"{FEAST} 1/2"] and left == [f"{FEAST} 1/2", f"{FEAST} 2/2"]


def test_what_shares_a_program_is_submitted_together(tmp_path, trained):
    wide = jobs(tmp_path, (FEAST, FEDAVG), count=5)
    trained(wide, together=3)
    assert [len(bundle) for bundle in trained.bundles] == [3, 2, 3, 2]
    assert trained.bundles[1] == [f"{FEAST} 4/5", f"{FEAST} 5/5"]
    other = documents.override(catalog.read(FEAST), "kappa=0.1")
    models = jobs_of({"other": other}, 3, tmp_path) + jobs(tmp_path, (FEAST,), seed=1, count=2)
    trained(models, together=1)  # the second ones are there already
    assert trained.bundles == [["other 1/3"], ["other 2/3"], ["other 3/3"]]


def test_a_trial_takes_as_long_as_its_experiment_or_else_its_task(tmp_path):
    (feast, more), (fedavg, _) = jobs(tmp_path, (FEAST,)), jobs(tmp_path, (FEDAVG,), updates=1_200)
    took = [trials.Took(fedavg, 30.0)]
    assert trials.expected_s(feast, []) == 0
    assert trials.expected_s(feast, took) == pytest.approx(trials.CAUTION * 60)
    took += [trials.Took(more, 20.0), trials.Took(more, 25.0)]
    assert trials.expected_s(feast, took) == pytest.approx(trials.CAUTION * 25)
    other = documents.override(catalog.read(FEAST), "kappa=0.1")  # of the same training
    (model,) = jobs_of({"other": other}, 1, tmp_path)
    assert trials.expected_s(model, took) == pytest.approx(trials.CAUTION * 25)
    other = jobs(tmp_path, (FEDAVG,), task={"name": "glyphs", "writers": 9})[0]
    assert trials.expected_s(other, took) == 0


def test_as_many_processes_as_there_are_cores_for(monkeypatch, on_cpu):
    monkeypatch.setattr(trials.os, "sched_getaffinity", lambda _: set(range(8)))
    assert [trials.processes_for(jobs, 2) for jobs in (1, 3, 100)] == [1, 3, 4]
    assert trials.processes_for(100, 16) == 1
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(jax_env, "find_spec", lambda name: name == "jax_cuda13_plugin" or None)
    assert trials.processes_for(100, 1) == 1
