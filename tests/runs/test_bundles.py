"""Which trials share a program, and which a training."""

import pytest

from stragglers._core import jax_env
from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.runs import bundles, checkpoint
from stragglers.runs.workers import seeds_of
from tests.runs.test_trials import FEAST, FEDAVG, jobs, jobs_of, write


def test_seeds_share_programs_that_fill_an_accelerator(tmp_path, on_cpu, monkeypatch):
    wide = jobs(tmp_path, (FEAST, FEDAVG), count=5)  # 24 and 20 clients at once
    assert max(map(len, bundles.bundles(wide, None))) == 1  # a CPU
    assert [len(bundle) for bundle in bundles.bundles(wide, 3)] == [3, 2, 3, 2]
    assert [len(bundle) for bundle in bundles.bundles(wide, 4)] == [3, 2, 3, 2]  # not 4 and 1
    monkeypatch.setattr(jax_env, "find_spec", lambda name: name == "jax_cuda13_plugin" or None)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(bundles, "FULL", 50)
    assert [len(bundle) for bundle in bundles.bundles(wide, None)] == [2, 2, 1, 2, 2, 1]
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert max(map(len, bundles.bundles(wide, None))) == 1


def test_what_differs_aside_of_training_is_trained_once(tmp_path):
    kappas = {f"{FEAST}{kappa}": f"kappa={kappa}" for kappa in (0.0, 0.1)}
    by_name = {
        name: documents.override(catalog.read(FEAST), given) for name, given in kappas.items()
    }
    a, b = (jobs_of({name: document}, 3, tmp_path) for name, document in by_name.items())
    average = documents.override(catalog.read(FEDAVG), "ema=0.9")
    fedavg = jobs(tmp_path, (FEDAVG,)) + jobs_of({"average": average}, 2, tmp_path)
    beta = jobs(tmp_path, (FEAST,), updates=400, count=1)
    both = [fedavg[0], fedavg[2]], [fedavg[1], fedavg[3]]
    every = [*a, *beta, *b, *fedavg]
    assert bundles.bundles(every, 1) == [*map(list, zip(a, b)), beta, *both]
    assert bundles.bundles(every, 2) == [
        [a[0], b[0], a[1], b[1]],
        [a[2], b[2]],
        beta,
        [*both[0], *both[1]],
    ]
    # Of the first seed one is there already: what is left has no match of its own.
    assert bundles.bundles([*a[1:], *b], 3) == [[a[1], b[1], a[2], b[2]], [b[0]]]


@pytest.mark.parametrize(
    "given",
    [
        "history=all",
        "teacher_lr=0.5",
        "teacher_step=server",
        "server.learning_rate=0.5",
        "distillation=0.5",
        "late_rounds=7",
        "goal=5",
        "persistence=1.0",
        "evaluations=7",
        "writers=30",
        "precision=float32",
        "lanes=3",
        "aggregation.weight=examples",
    ],
)
def test_what_training_depends_on_is_trained_apart(tmp_path, given):
    document = catalog.read("glyphs/per-domain/fare-dust")
    by_name = {"a": document, "b": documents.override(document, given)}
    assert [len(bundle) for bundle in bundles.bundles(jobs_of(by_name, 1, tmp_path), 1)] == [1, 1]
    by_name["b"] = documents.override_all(document, ["average=corrected", "ema=0.3"])
    assert [len(bundle) for bundle in bundles.bundles(jobs_of(by_name, 1, tmp_path), 1)] == [2]


def test_other_data_is_another_training(tmp_path):
    document = catalog.read("emnist/per-domain/fedbuff-ema")
    by_name = {
        name: documents.override(document, f'task.path="{name}"') for name in ("here", "there")
    }
    by_name |= {"also": documents.override(by_name["here"], "ema=0.3")}
    a, b, c = jobs_of(by_name, 1, tmp_path)
    assert bundles.bundles([a, b, c], 1) == [[a, c], [b]]
    assert a.folder.name == b.folder.name  # as it matters to no result where data lies


def test_only_so_many_models_share_a_training(tmp_path, monkeypatch):
    monkeypatch.setattr(bundles, "MODELS", 4)
    document = catalog.read(FEAST)
    by_name = {
        str(kappa): documents.override(document, f"kappa={kappa / 10}") for kappa in range(6)
    }
    every = jobs_of(by_name, 2, tmp_path)
    assert [len(bundle) for bundle in bundles.bundles(every, 1)] == [3, 3, 3, 3]
    assert [len(bundle) for bundle in bundles.bundles(every, 2)] == [6, 6]
    assert seeds_of(bundles.bundles(every, 2)[0]) == 2


def test_a_neighbour_that_cannot_be_read_is_named(tmp_path):
    a, b, _ = jobs(tmp_path, (FEAST,), count=3)
    for job in (a, b):
        write(job, "running")
    share(a, b)
    (a.folder / "curve.jsonl").unlink()  # which the checkpoint has
    assert [job.folder for job in bundles.bundles([b], 1)[0]] == [a.folder, b.folder]
    (a.folder / "run.json").unlink()
    with pytest.raises(BadInput, match=r"no run.json; .* shares a checkpoint with it, delete"):
        bundles.bundles([b], 1)
    (a.folder / checkpoint.TOGETHER).write_text("[]")
    assert bundles.bundles([b], 1) == [[b]]


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
    assert bundles.bundles([a, b, c], together=1) == [[a, b], [c]]
    (other, asked), alone = bundles.bundles([c, b], together=1)  # nobody asked for a
    assert (asked, alone) == (b, [c]) and other._replace(label=a.label) == a
    assert other.label == f"{FEAST}, seed 0, in one program with {FEAST} 2/3"
    share(b)
    assert bundles.bundles([a, b, c], together=2) == [[b], [a, c]]
    checkpoint.clear(b.folder)  # it is over
    assert bundles.bundles([a, c], together=1) == [[a], [c]]
