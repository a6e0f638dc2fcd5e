"""From settings to what a real fleet needs."""

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.config import build, catalog, documents
from stragglers.planning.policy import Buffer, Rounds
from stragglers.planning.report_weights import Reports
from stragglers.planning.schedule import Fate
from stragglers.serving.deployment import deployment
from stragglers.simulator.local_training import Local


def experiment(name, *sets):
    return documents.settings_from(documents.override_all(catalog.read(name), sets))


def arrived(**known):
    return Reports(**{name: np.array([known.get(name, 0)]) for name in Reports._fields})


def test_rounds_with_late_reports():
    given = deployment(experiment("glyphs/per-domain/fare-dust"))
    assert isinstance(given.policy, Rounds) and given.policy.cohort_size > given.policy.goal
    assert given.algorithm.teachers == given.policy.late_rounds
    assert isinstance(given.client, Local) and given.client.distillation > 0


def test_a_fleet_whose_size_the_server_divides_by():
    with pytest.raises(BadInput, match="algorithm.clients is missing: mifa divides by the size"):
        deployment(experiment("glyphs/per-domain/mifa"))
    given = deployment(experiment("glyphs/per-domain/mifa", "algorithm.clients=500"))
    assert given.algorithm.settles == "replaced"


def test_a_buffer():
    given = deployment(experiment("glyphs/per-domain/fedbuff-ema", "client_timeout=90.0"))
    assert isinstance(given.policy, Buffer) and given.policy.client_timeout == 90
    assert given.policy.refill == "at_update"


def test_weights_of_reports():
    sets = ("aggregation.weight=examples", "aggregation.staleness=inverse_sqrt")
    weigh = deployment(experiment("glyphs/per-domain/fedadam", *sets)).weigh
    assert weigh(arrived(staleness=3, examples=10)) == [5.0]


def test_what_clients_do_not_tell_is_known():
    """45 examples are three batches of twenty; the report is the first of a client, in step 7."""
    sets = ("local_steps=normalised", "participation=corrected")
    weigh = deployment(experiment("glyphs/per-domain/fedadam", *sets)).weigh
    assert weigh(arrived(examples=45, local_steps=1, step=7)) == [8 / 3]
    weigh = deployment(experiment("glyphs/per-domain/fedadam", *sets, "epochs=2.0")).weigh
    assert weigh(arrived(examples=45, local_steps=1, step=7)) == [8 / 5]
    assert weigh(arrived(examples=0, local_steps=1, step=7)) == [0]


@pytest.mark.parametrize(
    "name",
    [
        "fedadam",
        "fedadam-over-selection",
        "fedbuff-ema",
        "fare-dust",
        "feast",
    ],
)
def test_it_makes_as_many_steps_as_the_plan(name):
    """Where reports of FeAST's last rounds never come, its plan has a few more."""
    given = experiment(f"glyphs/per-domain/{name}")
    plan = build.schedule_of(given, build.clients(given.task, given.seed))
    lost = np.sum(plan.fate == Fate.UNUSED) if name == "feast" else 0
    assert lost == 0 and deployment(given).steps == plan.steps


@pytest.mark.parametrize(
    "sets, says",
    [
        (["time_limit.seconds=30.0"], "schedule.time_limit is for simulated clients"),
        (["check_in={straggler = 0.5}"], "schedule.check_in is for simulated clients"),
    ],
)
def test_what_real_clients_cannot_be_told(sets, says):
    with pytest.raises(BadInput, match=says):
        deployment(experiment("glyphs/per-domain/fedadam", *sets))


def test_a_fleet_alone_is_not_enough():
    with pytest.raises(BadInput, match=r"\[client\], \[server\] and \[algorithm\] are needed"):
        deployment(experiment("fleet"))
