"""Rounds of like clients: who is in which tier, and how often each takes part."""

import json

import numpy as np
import pytest

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.cli.main import main
from stragglers.config import catalog, documents
from stragglers.planning import latency, paper_populations, tiers
from stragglers.planning.latency import Draw
from stragglers.serving import deployment
from tests.support import plans
from tests.support.timetables import assert_same, table_latency

WHO = paper_populations.cifar100()
OVER = "cifar100/per-domain/fedadam-over-selection"


def profile(**given):
    return latency.latency(
        WHO, latency.PER_DOMAIN, seed=0, purpose=random_streams.Purpose.PROFILE, **given
    )


def test_tiers_are_of_equal_size_and_the_slow_are_in_the_last():
    tier = tiers.by_profile(profile(), WHO.clients, 4)
    assert np.bincount(tier).tolist() == [125] * 4
    slow = [np.mean(WHO.group[tier == number]) for number in range(4)]
    assert slow[0] == 0 and slow[3] > 0.75 and sorted(slow) == slow
    assert np.bincount(tiers.by_profile(profile(), WHO.clients, 3)).tolist() == [167, 167, 166]


def test_a_profile_is_the_mean_of_a_few_participations_by_hand():
    """Three clients, five participations each: client 0 takes 1 s and once 90, client 2 takes 9."""
    seconds = np.array([[1, 5, 9], [1, 5, 9], [90, 5, 9], [1, 5, 9], [1, 5, 9]], float)

    def draw(first, clients):
        return Draw(seconds[first // 3][clients], np.ones(len(clients), np.int64))

    assert tiers.by_profile(draw, 3, 3).tolist() == [2, 0, 1]
    assert len(seconds) == tiers.PROFILED


def test_every_cohort_is_of_one_tier_and_clients_come_as_often_as_before():
    tier = tiers.by_profile(profile(), WHO.clients, 4)
    who = tiers.cohorts(3, tier, 24, 8000, None)
    assert np.all(tier[who] == tier[who[:, :1]])
    assert all(len({*row}) == 24 for row in who[:200])
    often = np.bincount(who.ravel(), minlength=WHO.clients)
    assert abs(often.mean() - 8000 * 24 / 500) < 1e-9
    # Each tier comes 2,000 times, give or take four standard deviations.
    turns = np.bincount(tier[who[:, 0]])
    assert np.all(np.abs(turns - 2000) < 4 * np.sqrt(8000 * 0.25 * 0.75))
    within = often / turns[tier] / (24 / 125)
    assert np.all(np.abs(within - 1) < 5 * np.sqrt(1 / (2000 * 24 / 125)))
    longer = tiers.cohorts(3, tier, 24, 9000, None)
    assert np.array_equal(longer[:8000], who)
    assert not np.array_equal(tiers.cohorts(4, tier, 24, 8000, None), who)


def test_check_in_counts_within_tiers_and_between_them():
    tier = np.repeat([0, 1], 250)
    weight = np.where(np.arange(500) < 250, 1.0, 3.0)
    weight[:100] = 0.0
    who = tiers.cohorts(0, tier, 20, 4000, weight)
    assert not np.any(who < 100)
    assert np.mean(tier[who[:, 0]]) == pytest.approx(750 / 900, abs=0.03)
    weight[250:260] = 6.0  # in a tier of 780, twice as likely as the others to be the first
    first = tiers.cohorts(0, tier, 20, 4000, weight)[:, 0]
    assert np.mean(first[first >= 250] < 260) == pytest.approx(60 / 780, abs=0.02)


def test_a_plan_of_tiers_is_one_of_the_same_clients():
    """Nothing else changes: drawn from one tier of all, or with the same clients, plans agree."""
    table = table_latency(np.random.default_rng(0).lognormal(3, 1, 997))
    tier = tiers.by_profile(profile(), WHO.clients, 4)
    case = dict(seed=5, goal=20, cohort=24, updates=2000, late_rounds=5)
    plan = plans.over_selected(WHO.clients, table, tier=tier, **case)
    who = tiers.cohorts(5, tier, 24, 100, None)
    assert plan.client.tolist() == who.ravel().tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_streams, "cohorts", lambda *address: who)
        same = plans.over_selected(WHO.clients, table, **case)
    assert_same(plan, same, "client version start report fate step time ready updates works stop")


def test_over_selection_in_tiers_passes_nobody_over(capsys):
    assert main(["plan", OVER, "--sweep", "tiers=1,4", "--json"]) == 0
    one, four = json.loads(capsys.readouterr().out)["sweep"]
    assert one["share"]["straggler"]["used"] < 0.16
    assert four["share"]["straggler"]["used"] > 0.21 and four["time_s"] < 0.95 * one["time_s"]
    assert main(["plan", OVER, "--set", "tiers=4"]) == 0
    assert "drawn from one of 4 speed tiers" in capsys.readouterr().out


@pytest.mark.parametrize(
    "sets, told",
    [
        (["tiers=30"], "cohort=24 clients cannot be drawn from a tier of 1"),
        (["tiers=501"], "tiers=501, expected from 1 to the 500 clients"),
        (["tiers=0"], "schedule.tiers"),
        (
            ["tiers=2", "busy=skip"],
            "tiers = 2: a tier's cohort is drawn from all of its clients. Leave out `busy` and",
        ),
        (
            ["tiers=2", "availability.groups={standard={begin=0.0, hours=9.0}}"],
            "tiers = 2: a tier's cohort",
        ),
    ],
)
def test_mistakes_are_one_line(capsys, sets, told):
    words = [word for given in sets for word in ("--set", given)]
    assert main(["plan", OVER, *words]) == 2
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1


def test_real_clients_are_in_no_tiers():
    document = documents.override(
        catalog.read("glyphs/per-domain/fedadam-over-selection"), "tiers=2"
    )
    with pytest.raises(BadInput, match=r"schedule\.tiers is for simulated clients"):
        deployment.deployment(documents.settings_from(document))
    deployment.deployment(documents.settings_from(catalog.read("glyphs/per-domain/fedbuff-ema")))
