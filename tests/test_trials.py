import math
import signal
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from stragglers import checkpoint, config, device, records, trials
from stragglers.errors import BadInput
from stragglers.stopping import Interrupted
from stragglers.workers import Outcome, Terms

FEAST, FEDAVG = "glyphs/per-domain/feast", "glyphs/per-domain/fedavg"


def jobs(out, names=(FEAST, FEDAVG), count=2, **changes):
    documents = {name: {**config.read(name), **changes} for name in names}
    return trials.jobs_of(documents, count, out)


def write(job, status="finished", seconds=1.0):
    with records.claim(job.folder):
        settings = config.resolved(job.experiment)
        run = records.begin(job.folder, settings, {"name": job.name})
        if status != "running":
            records.finish(job.folder, run, {}, {"status": status, "wall_s": seconds})


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
    with records.claim(second.folder), pytest.raises(BadInput, match="another process"):
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
        [f"{FEAST} {trial}/5" for trial in (1, 2, 3, 4)], [f"{FEAST} {trial}/5" for trial in (4, 5)]
    )  # fmt: skip
    assert trained(five, deadline=0.0) == ([], [f"{FEAST} 4/5", f"{FEAST} 5/5"])
    assert trained(five, deadline=60 * 9) == ([f"{FEAST} 4/5", f"{FEAST} 5/5"], [])


def test_what_ends_in_time_comes_first(tmp_path, trained):
    short, long = jobs(tmp_path, (FEAST,)), jobs(tmp_path, (FEDAVG,))
    write(short[0], seconds=60)
    write(long[0], seconds=600)
    assert trained([*long, *short], deadline=60 * 2) == (
        [short[1].label, long[1].label], []
    )  # fmt: skip


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


def test_trials_of_one_experiment_share_programs_that_fill_an_accelerator(
    tmp_path, trained, monkeypatch
):
    wide = jobs(tmp_path, (FEAST, FEDAVG), count=5)  # 24 and 20 clients at once
    assert max(map(len, trials.bundles(wide, None))) == 1  # a CPU
    assert [len(bundle) for bundle in trials.bundles(wide, 3)] == [3, 2, 3, 2]
    assert [len(bundle) for bundle in trials.bundles(wide, 4)] == [3, 2, 3, 2]  # not 4 and 1
    trained(wide, together=3)
    assert [len(bundle) for bundle in trained.bundles] == [3, 2, 3, 2]
    assert trained.bundles[1] == [f"{FEAST} 4/5", f"{FEAST} 5/5"]
    monkeypatch.setattr(device, "find_spec", lambda name: name == "jax_cuda13_plugin" or None)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(trials, "FULL", 50)
    assert [len(bundle) for bundle in trials.bundles(wide, None)] == [2, 2, 1, 2, 2, 1]
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert max(map(len, trials.bundles(wide, None))) == 1


def test_what_differs_aside_of_training_is_trained_once(tmp_path, trained):
    kappas = {f"{FEAST}{kappa}": f"kappa={kappa}" for kappa in (0.0, 0.1)}
    documents = {name: config.override(config.read(FEAST), given) for name, given in kappas.items()}
    a, b = (trials.jobs_of({name: document}, 3, tmp_path) for name, document in documents.items())
    average = config.override(config.read(FEDAVG), "ema=0.9")
    fedavg = jobs(tmp_path, (FEDAVG,)) + trials.jobs_of({"average": average}, 2, tmp_path)
    beta = jobs(tmp_path, (FEAST,), updates=400, count=1)
    both = [fedavg[0], fedavg[2]], [fedavg[1], fedavg[3]]
    every = [*a, *beta, *b, *fedavg]
    assert trials.bundles(every, 1) == [*map(list, zip(a, b)), beta, *both]
    assert trials.bundles(every, 2) == [
        [a[0], b[0], a[1], b[1]], [a[2], b[2]], beta, [*both[0], *both[1]]
    ]  # fmt: skip
    # Of the first seed one is there already: what is left has no match of its own.
    assert trials.bundles([*a[1:], *b], 3) == [[a[1], b[1], a[2], b[2]], [b[0]]]
    trained([*a, *b], minutes=1, together=3)
    assert [len(bundle) for bundle in trained.bundles] == [6]
    # It takes as long as one of them would for each seed.
    assert trials.expected_s(b[0], [trials.Took(a[0], 10.0)]) == pytest.approx(trials.CAUTION * 10)


@pytest.mark.parametrize("given", [
    "history=all", "teacher_lr=0.5", "teacher_step=server", "server.learning_rate=0.5",
    "distillation=0.5", "late_rounds=7", "goal=5", "persistence=1.0", "evaluations=7", "writers=30",
    "precision=float32", "lanes=3", "aggregation.weight=examples",
])  # fmt: skip
def test_what_training_depends_on_is_trained_apart(tmp_path, given):
    document = config.read("glyphs/per-domain/fare-dust")
    documents = {"a": document, "b": config.override(document, given)}
    assert [len(bundle) for bundle in trials.bundles(jobs_of(documents, tmp_path), 1)] == [1, 1]
    documents["b"] = config.override_all(document, ["average=corrected", "ema=0.3"])
    assert [len(bundle) for bundle in trials.bundles(jobs_of(documents, tmp_path), 1)] == [2]


def jobs_of(documents, out):
    return trials.jobs_of(documents, 1, out)


def test_other_data_is_another_training(tmp_path):
    document = config.read("emnist/per-domain/fedbuff-ema")
    documents = {
        name: config.override(document, f'task.path="{name}"') for name in ("here", "there")
    }
    documents |= {"also": config.override(documents["here"], "ema=0.3")}
    a, b, c = jobs_of(documents, tmp_path)
    assert trials.bundles([a, b, c], 1) == [[a, c], [b]]
    assert a.folder.name == b.folder.name  # as it matters to no result where data lies


def test_only_so_many_models_share_a_training(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "MODELS", 4)
    document = config.read(FEAST)
    documents = {str(kappa): config.override(document, f"kappa={kappa / 10}") for kappa in range(6)}
    every = trials.jobs_of(documents, 2, tmp_path)
    assert [len(bundle) for bundle in trials.bundles(every, 1)] == [3, 3, 3, 3]
    assert [len(bundle) for bundle in trials.bundles(every, 2)] == [6, 6]
    assert trials.seeds_of(trials.bundles(every, 2)[0]) == 2


def test_a_neighbour_that_cannot_be_read_is_named(tmp_path):
    a, b, _ = jobs(tmp_path, (FEAST,), count=3)
    for job in (a, b):
        write(job, "running")
    share(a, b)
    (a.folder / "curve.jsonl").unlink()  # which the checkpoint has
    assert [job.folder for job in trials.bundles([b], 1)[0]] == [a.folder, b.folder]
    (a.folder / "run.json").unlink()
    with pytest.raises(BadInput, match=r"no run.json; .* shares a checkpoint with it, delete"):
        trials.bundles([b], 1)
    (a.folder / checkpoint.TOGETHER).write_text("[]")
    assert trials.bundles([b], 1) == [[b]]


def share(*jobs):
    """As an interrupted program leaves its trials."""
    for job in jobs:
        job.folder.mkdir(parents=True, exist_ok=True)
    checkpoint.bind([job.folder for job in jobs])
    (jobs[0].folder / checkpoint.FOLDER / "one").mkdir(parents=True)


def test_trials_that_share_a_checkpoint_stay_together_unless_one_has_left(tmp_path):
    a, b, c = jobs(tmp_path, (FEAST,), count=3)
    for job in (a, b, c):
        write(job, "running")
    share(a, b)
    assert trials.bundles([a, b, c], together=1) == [[a, b], [c]]
    (other, asked), alone = trials.bundles([c, b], together=1)  # nobody asked for a
    assert (asked, alone) == (b, [c]) and other._replace(label=a.label) == a
    assert other.label == f"{FEAST}, seed 0, in one program with {FEAST} 2/3"
    share(b)
    assert trials.bundles([a, b, c], together=2) == [[b], [a, c]]
    checkpoint.clear(b.folder)  # it is over
    assert trials.bundles([a, c], together=1) == [[a], [c]]


def test_a_trial_takes_as_long_as_its_experiment_or_else_its_task(tmp_path):
    (feast, more), (fedavg, _) = jobs(tmp_path, (FEAST,)), jobs(tmp_path, (FEDAVG,), updates=1_200)
    took = [trials.Took(fedavg, 30.0)]
    assert trials.expected_s(feast, []) == 0
    assert trials.expected_s(feast, took) == pytest.approx(trials.CAUTION * 60)
    took += [trials.Took(more, 20.0), trials.Took(more, 25.0)]
    assert trials.expected_s(feast, took) == pytest.approx(trials.CAUTION * 25)
    other = jobs(tmp_path, (FEDAVG,), task={"name": "glyphs", "writers": 9})[0]
    assert trials.expected_s(other, took) == 0


def test_as_many_processes_as_there_are_cores_for(monkeypatch, on_cpu):
    monkeypatch.setattr(trials.os, "sched_getaffinity", lambda _: set(range(8)))
    assert [trials.processes_for(jobs, 2) for jobs in (1, 3, 100)] == [1, 3, 4]
    assert trials.processes_for(100, 16) == 1
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(device, "find_spec", lambda name: name == "jax_cuda13_plugin" or None)
    assert trials.processes_for(100, 1) == 1
