"""All presets: each is planned, and trained on a handful of made-up examples.

One of every task and algorithm in `make test` (the demo's in test_run.py), all in `make soak`.
"""

from functools import cache

import numpy as np
import pytest

from stragglers.config import build, catalog, documents
from stragglers.planning.policy import Rounds
from stragglers.runs.train import prepare, simulation
from stragglers.simulator import metrics
from stragglers.simulator.simulate import results
from stragglers.tasks.models.resnet import resnet
from tests.support import tiny

PRESETS = [name for name in catalog.presets() if not name.startswith("fleet")]
NARROW = resnet(widths=(8,))  # one stage: to compile all of ResNet-18 takes a minute
USUAL = {"fedavg", "fedadam-over-selection", "fedbuff-ema", "fare-dust", "feast"}


def is_usual(name):
    task, _, row = name.partition("/per-domain/")
    return task in tiny.TASKS and row in USUAL


TRAINED = [pytest.param(name, marks=[] if is_usual(name) else pytest.mark.soak) for name in PRESETS]


def test_they_have_all_of_the_papers_rows():
    published = [name for name in PRESETS if documents.settings_from(catalog.read(name)).paper]
    assert len(published) == 67
    assert sum(map(is_usual, published)) == len(tiny.TASKS) * len(USUAL)


def test_no_ratio_has_to_be_rounded():
    cohorts = {}
    for name in catalog.presets():
        given = documents.settings_from(catalog.read(name)).schedule
        if isinstance(given, Rounds) and given.over_selection:
            cohorts[name] = given.cohort_size, given.goal * given.over_selection
    assert len(cohorts) > 20
    for name, (cohort, exactly) in cohorts.items():
        assert cohort == pytest.approx(exactly, rel=1e-12), name


@cache
def clients(task):
    return build.clients(task, seed=0)


@pytest.mark.parametrize("name", PRESETS)
def test_it_is_planned(name):
    document = documents.override(catalog.read(name), "updates=2000")
    experiment = documents.settings_from(document)
    plan = build.schedule_of(experiment, clients(experiment.task))
    assert plan.steps > 0 and np.isfinite(plan.end) and plan.updates[-1] <= 2000


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    return {task: str(tiny.folder(root, task)) for task in tiny.TASKS}


def cut(name, folders):
    """A preset with clients of one batch, three of them at a time, and steps on two reports."""
    document = catalog.read(name)
    task, schedule = document["task"]["name"], document["schedule"]
    changes = ["updates=6", "evaluations=2", "batch_size=4"]
    changes += [f"path={folders[task]}"] if task in folders else ["writers=6"]
    if schedule["kind"] == "buffered":
        changes += ["buffer=2", "concurrency=3"]
    else:
        changes += ["goal=2"] + ["cohort=3"] * ("over_selection" in schedule)
    if "late_rounds" in schedule:
        changes += ["late_rounds=2"]
    if "minimum" in schedule:
        changes += ["minimum=1"]
    return documents.settings_from(documents.override_all(document, changes))


@pytest.mark.slow
@pytest.mark.usefixtures("hasty_compiler")
@pytest.mark.parametrize("name", TRAINED)
def test_it_trains(name, folders, monkeypatch, tmp_path):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path))
    monkeypatch.setattr(metrics, "BATCH", 4)  # a test batch is padded to it
    monkeypatch.setattr("stragglers.tasks.cifar100.MODEL", NARROW)
    trial = prepare(cut(name, folders))
    ready = simulation([trial])
    (result,) = results(ready.events(ready.first()))
    assert trial.schedule.steps >= 2 and result.trained >= 4 and result.dropped == 0
    first, last = (point.metrics["total_loss"] for point in result.curve)
    assert not result.diverged and np.isfinite(last) and first != last
