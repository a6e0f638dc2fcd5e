"""The paper's wall-clock column, reproduced with no training at all."""

from functools import cache
from statistics import median

import pytest

from stragglers.config import build, catalog, documents, settings

TOLERANCE = {"cifar100": 0.008, "emnist": 0.027, "stackoverflow": 0.032}  # as the README says
PAPER = {
    name: experiment.paper
    for name in catalog.presets()
    if (experiment := documents.settings_from(catalog.read(name))).paper
}
AIMED_AT = [name for name, paper in PAPER.items() if paper.anomaly is None]
SEEDS = range(5)


@cache
def clients(task):
    return build.clients(task, seed=0)


@cache
def end(task, latency, schedule, updates, seed):
    """Rows that differ only in how they train share their schedule."""
    experiment = settings.Experiment(task, latency, schedule, updates, seed)
    return build.schedule_of(experiment, clients(task)).end


def test_every_published_row_has_a_preset():
    counts = {}
    for name in PAPER:
        task, latency, _ = name.split("/")
        counts[task, latency] = counts.get((task, latency), 0) + 1
    assert counts == {
        ("emnist", "per-example"): 12,
        ("emnist", "per-domain"): 12,
        ("cifar100", "per-example"): 11,
        ("cifar100", "per-domain"): 11,
        ("stackoverflow", "per-example"): 10,
        ("stackoverflow", "per-domain"): 11,
    }


@pytest.mark.parametrize("name", AIMED_AT)
def test_time_is_the_published_one(name):
    row = documents.settings_from(catalog.read(name))
    time = median(end(row.task, row.latency, row.schedule, row.updates, s) for s in SEEDS)
    tolerance = TOLERANCE[name.split("/")[0]]
    assert time == pytest.approx(PAPER[name].time_s, rel=tolerance)


def test_anomalous_rows_are_exactly_the_known_ones():
    marked = PAPER.keys() - set(AIMED_AT)
    limited = {name for name in PAPER if name.endswith("fedavg-time-limit")}
    assert marked - limited == {
        "emnist/per-domain/feast",
        "stackoverflow/per-example/fedavg-over-selection",
        *(
            f"emnist/{latency}/{row}"
            for latency in ("per-example", "per-domain")
            for row in ("fedbuff", "fedbuff-ema")
        ),
    }
    assert len(limited) == 6
