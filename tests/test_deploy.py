"""From settings to what a real fleet needs."""

import numpy as np
import pytest

from stragglers import build, config
from stragglers.client import Client
from stragglers.coordinator import Buffer, Rounds
from stragglers.deploy import deployment
from stragglers.errors import BadInput
from stragglers.schedule import Fate


def experiment(name, *sets):
    return config.experiment_from(config.override_all(config.read(name), sets))


def test_rounds_with_late_reports():
    given = deployment(experiment("glyphs/per-domain/fare-dust"))
    assert isinstance(given.policy, Rounds) and given.policy.cohort > given.policy.goal
    assert given.algorithm.teachers == given.policy.late_rounds
    assert isinstance(given.client, Client) and given.client.distillation > 0


def test_a_buffer():
    given = deployment(experiment("glyphs/per-domain/fedbuff-ema", "client_timeout=90.0"))
    assert isinstance(given.policy, Buffer) and given.policy.client_timeout == 90
    assert given.policy.refill == "at_update"


def test_weights_of_reports():
    sets = ("aggregation.weight=examples", "aggregation.staleness=inverse_sqrt")
    weigh = deployment(experiment("glyphs/per-domain/fedadam", *sets)).weigh
    assert weigh(np.array([3]), np.array([10])) == [5.0]


@pytest.mark.parametrize("name", [
    "fedadam", "fedadam-over-selection", "fedbuff-ema", "fare-dust", "feast",
])  # fmt: skip
def test_it_makes_as_many_steps_as_the_plan(name):
    """Where reports of FeAST's last rounds never come, its plan has a few more."""
    given = experiment(f"glyphs/per-domain/{name}")
    plan = build.timetable(given, build.clients(given.task, given.seed))
    lost = np.sum(plan.fate == Fate.UNUSED) if name == "feast" else 0
    assert lost == 0 and deployment(given).steps == plan.steps


@pytest.mark.parametrize("sets, says", [
    (["time_limit.seconds=30.0"], "schedule.time_limit is for simulated clients"),
    (["check_in={straggler = 0.5}"], "schedule.check_in is for simulated clients"),
])  # fmt: skip
def test_what_real_clients_cannot_be_told(sets, says):
    with pytest.raises(BadInput, match=says):
        deployment(experiment("glyphs/per-domain/fedadam", *sets))


def test_a_fleet_alone_is_not_enough():
    with pytest.raises(BadInput, match=r"\[client\], \[server\] and \[algorithm\] are needed"):
        deployment(experiment("fleet"))
