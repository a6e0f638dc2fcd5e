import tomllib

import msgspec
import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.config import build, catalog, checks, describe, documents, settings, step_weights
from stragglers.planning import latency
from stragglers.planning.policy import Rounds
from stragglers.planning.schedule import Schedule
from tests.support.plans import over_selected

DEMO = "glyphs/per-domain"


def overridden(name, *assignments):
    return documents.settings_from(documents.override_all(catalog.read(name), assignments))


def test_a_new_kind_keeps_what_it_has_use_for():
    sgd = overridden(f"{DEMO}/fedadam", "server.optimizer=sgd")
    assert sgd.server == settings.Sgd(learning_rate=0.005)
    fedavg = overridden(f"{DEMO}/feast", "algorithm.name=fedavg", "ema=0.5")
    assert fedavg.algorithm == settings.FedAvg(ema=0.5)


def test_kinds_come_first_in_any_order():
    one = ("buffer=10", "concurrency=20", "schedule.kind=buffered")
    assert overridden(f"{DEMO}/fedavg", *one) == overridden(f"{DEMO}/fedavg", *one[::-1])


def test_a_mistake_in_a_file_is_not_dropped_with_a_kind():
    document = catalog.read(f"{DEMO}/fedavg")
    document["schedule"] = {**document["schedule"], "gaol": 3}
    with pytest.raises(BadInput, match="schedule.gaol"):
        documents.settings_from(documents.override_all(document, ["schedule.kind=over_selected"]))


def test_resolved_settings_are_the_experiment():
    for name in ("fleet", "emnist/per-domain/feast", f"{DEMO}/fedbuff-ema"):
        experiment = documents.settings_from(catalog.read(name))
        assert documents.settings_from(experiment.document) == experiment
        assert "last_batch" in experiment.document.get("client", "last_batch")


@pytest.mark.parametrize(
    "sets, options, weights, told",
    [
        (["persistence=1.0"], {"persistence": 1.0}, None, "100 % of latency variance persists"),
        (["correlation=0.9"], {"correlation": 0.9}, None, "communication by 0.9"),
        (["download=2.0"], {"download": 2.0}, None, "2 models down (50 % of communication), 1 up"),
        (
            ["upload=0.0", "download_share=0.25"],
            {"upload": 0.0, "download_share": 0.25},
            None,
            "1 models down (25 % of communication), 0 up",
        ),
        (["cost=tokens"], {"cost": "tokens"}, None, "time per example by its tokens"),
        (["check_in={straggler = 0.1}"], {}, {"straggler": 0.1}, "straggler checks in 0.1 times"),
        (["check_in.straggler=0.1"], {}, {"straggler": 0.1}, "straggler checks in 0.1 times"),
    ],
)
def test_what_the_paper_leaves_out_can_be_set(sets, options, weights, told):
    experiment = overridden("cifar100/per-domain/fedadam-over-selection", "updates=2000", *sets)
    who = build.clients(experiment.task, 0)._replace(tokens=np.arange(1.0, 501.0))
    ours = build.schedule_of(experiment, who)
    policy = {"goal": 20, "cohort": 24, "updates": 2000, "seed": 0}
    theirs = over_selected(
        who,
        latency.latency(who, latency.PerDomain(**options), seed=0),
        check_in=weights and who.by_group(weights, 1.0),
        **policy,
    )
    plain = over_selected(who, latency.latency(who, latency.PER_DOMAIN, seed=0), **policy)
    for column in Schedule._fields:
        if column != "fleet":
            assert np.array_equal(getattr(ours, column), getattr(theirs, column)), column
    assert ours.end != plain.end
    # What a plan shows of one epoch follows, but for the clients that are selected.
    usual = latency.one_epoch(who, latency.PER_DOMAIN, seed=0)
    assert np.array_equal(one_epoch(ours), np.sum(usual, axis=0)) == (weights is not None)
    text = describe.policy(experiment)
    assert text.startswith("rounds of 24 clients that close at 20 reports, ") and told in text


def one_epoch(schedule):
    assert schedule.fleet.one_epoch is not None
    return schedule.fleet.one_epoch()


def test_a_key_of_a_table_is_set_beside_the_others():
    given = catalog.read("cifar100/per-domain/fedadam")
    sets = ["check_in.straggler=0.5", "schedule.check_in.standard=2", "drop_out.straggler=0.1"]
    given = documents.override_all(given, sets)
    assert given["schedule"]["check_in"] == {"straggler": 0.5, "standard": 2}
    assert given["faults"] == {"drop_out": {"straggler": 0.1}}
    for wrong in ("goal.straggler=1", "check_in.=1", "check_out.straggler=1"):
        with pytest.raises(BadInput, match="unknown setting"):
            documents.override(given, wrong)
    with pytest.raises(BadInput, match="did you mean 'drop_out.straggler'"):
        documents.override(given, "dropout.straggler=0.1")
    everybody = documents.override(given, "drop_out=0.2")
    with pytest.raises(BadInput, match=r"faults.drop_out = 0.2 holds for all groups; give a table"):
        documents.override(everybody, "drop_out.straggler=0.1")


def test_a_section_is_not_a_setting():
    given = catalog.read("cifar100/per-domain/fedavg")
    with pytest.raises(BadInput, match=r"'time_limit' is a section; set one of .*\.seconds"):
        documents.override(given, "time_limit=60")


@pytest.mark.parametrize(
    "sets, told",
    [
        ([], "at 20 reports"),
        (["seconds=60", "scope=latency"], "latency limited to 60 s"),
        (
            ["percentile=75"],
            "training limited to the time in which 75 % of clients train one epoch",
        ),
    ],
)
def test_a_time_limit_in_words(sets, told):
    given = documents.override_all(catalog.read("cifar100/per-domain/fedavg"), sets)
    assert describe.policy(documents.settings_from(given)).endswith(told)


@pytest.mark.parametrize(
    "sets, whole_batches",
    [
        ([], 0),
        (["last_batch=drop"], 1),
        (["seconds=4"], 1),  # with `fill` the limit ends everybody's work
        (["seconds=20", "fill=false"], 0.4),  # and else that of slow ones
        (["seconds=1e9", "fill=false"], 0),
    ],
)
def test_whose_work_is_below_a_batch_that_has_to_be_whole(sets, whole_batches):
    small = ["updates=400", "batch_size=2000"]
    given = documents.override_all(catalog.read("glyphs/per-domain/fedadam"), [*small, *sets])
    experiment = documents.settings_from(given)
    plan = build.schedule_of(experiment, build.clients(experiment.task, 0))
    assert np.mean(step_weights.local_steps(experiment, plan) == 0) == pytest.approx(
        whole_batches, abs=0.2
    )


@pytest.mark.parametrize(
    "goal, ratio, cohort",
    [
        (10, 1, 10),
        (10, 1.05, 11),
        (10, 1.15, 12),
        (10, 1.25, 13),
        (1, 1.3, 2),
        (3, 1.67, 6),
        (50, 1.1, 55),
        (20, 1.2, 24),
        (100, 1.3, 130),
        (10**8, 1, 10**8),
        (7, 3, 21),
    ],
)
def test_a_cohort_is_the_smallest_that_is_at_least_the_ratio(goal, ratio, cohort):
    changes = [f"goal={goal}", f"over_selection={ratio}"]
    given = documents.override_all(catalog.read("glyphs/per-domain/fedadam"), changes)
    schedule = documents.settings_from(given).schedule
    assert isinstance(schedule, Rounds) and schedule.cohort_size == cohort


def test_a_percentile_of_training_is_no_limit_of_a_report():
    given = documents.override_all(
        catalog.read("cifar100/per-domain/fedavg"), ["percentile=75", "scope=latency"]
    )
    with pytest.raises(BadInput, match="percentile=75 with scope='latency'.*give `seconds`"):
        checks.check(documents.settings_from(given))


def test_a_section_that_is_not_there_begins_with_its_kind():
    fleet = catalog.read("fleet")
    assert "algorithm" not in fleet
    joined = documents.override_all(
        fleet, ["algorithm.name=semi-async", "late_rounds=9", "ema=0.5"]
    )
    assert joined["algorithm"] == {"name": "semi-async", "ema": 0.5}
    checks.check(documents.settings_from(joined))


@pytest.mark.parametrize("normalise", ["count", "sum"])
def test_corrected_participation_is_relative(normalise):
    document = documents.override_all(
        catalog.read(f"{DEMO}/fedadam"), ["participation=corrected", f"normalise={normalise}"]
    )
    with pytest.raises(
        BadInput, match=f"'corrected' with normalise = '{normalise}': server steps would"
    ):
        checks.check(documents.settings_from(document))


@pytest.mark.parametrize(
    "preset, change, complaint",
    [
        ("fedadam-over-selection", "late_rounds=50", "late_rounds = 50: fedavg ignores late"),
        ("fedadam-over-selection", "late_seconds=0", "late_seconds = 0: fedavg ignores late"),
        ("fedadam", "algorithm={name='fedbuff'}", None),
        (
            "fedadam-over-selection",
            "algorithm={name='feast', beta=0.9, kappa=0.1}",
            "FeAST learns from late reports. Set schedule.late_seconds, its tau_max",
        ),
        ("fedbuff-ema", "algorithm={name='feast', beta=0.9, kappa=0.1}", "Set schedule.late_sec"),
        ("feast", "late_seconds=0", None),
        ("feast", "late_rounds=3", None),
        ("feast", "algorithm={name='fedbuff'}", "late_seconds = .*: fedbuff ignores late"),
        ("fare-dust", "algorithm={name='semi-async'}", None),
        ("fedadam-over-selection", "algorithm={name='semi-async'}", r"Set schedule.late_rounds\.$"),
        (
            "feast",
            "algorithm={name='semi-async'}",
            "Set schedule.late_rounds instead of late_seconds",
        ),
        ("fedbuff-ema", "algorithm={name='semi-async'}", "a buffered schedule has no late reports"),
    ],
)
def test_late_reports_are_for_whoever_learns_from_them(preset, change, complaint):
    document = catalog.read(f"{DEMO}/{preset}")
    key, _, value = change.partition("=")
    if key == "algorithm":
        document = {**document, key: tomllib.loads(f"{key} = {value}")[key]}
    else:
        document = documents.override(document, change)
    experiment = documents.settings_from(document)
    if complaint is None:
        checks.check(experiment)
        return
    with pytest.raises(BadInput, match=complaint) as error:
        checks.check(experiment)
    assert "\n" not in str(error.value)
    assert experiment.algorithm is not None  # and without an algorithm a plan may wait for anybody
    checks.check(msgspec.structs.replace(experiment, algorithm=None))


def test_groups_that_check_in_alike_change_nothing():
    given = catalog.read("cifar100/per-domain/fedadam-over-selection")
    alike = documents.override(given, "check_in={straggler = 2, standard = 2}")
    plans = []
    for document in (given, alike):
        experiment = documents.settings_from(document)
        plans.append(build.schedule_of(experiment, build.clients(experiment.task, 0)))
    assert np.array_equal(plans[0].client, plans[1].client)


@pytest.mark.parametrize(
    "text, value",
    [
        (".1", 0.1),
        ("-.5", -0.5),
        ("+.5e1", 5.0),
        ("1e4", 10_000),
        ("-1.5E3", -1500),
        ("2.5e0", 2.5),
        ("1e-4", 1e-4),
        ("10.0", 10.0),
        ("1e300", 1e300),
        ("1e999", np.inf),
        ("7", 7),
        ("true", True),
        ("'1e4'", "1e4"),
        (".", "."),
        (".1.2", ".1.2"),
        ("./.1", "./.1"),
        ("feast", "feast"),
    ],
)
def test_values_are_taken_for_what_they_are(text, value):
    found = documents.value_of(text)
    assert found == value and type(found) is type(value)
