import json
import tomllib

import msgspec
import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.config import build, describe, influence, loading, settings
from stragglers.planning import latency
from stragglers.planning.rounds import over_selected

DEMO = "glyphs/per-domain"


def test_an_argument_stands_for_one_experiment_or_several(tmp_path):
    one, twice = loading.expand([f"{DEMO}/feast"])
    assert one == {f"{DEMO}/feast": f"{DEMO}/feast"} and twice == []
    demo = {name for name in loading.presets() if name.startswith(f"{DEMO}/")}
    assert set(loading.expand([DEMO])[0]) == demo < set(loading.expand(["glyphs/"])[0])
    everything = loading.expand(["all"])[0]
    fleets = {name for name in loading.presets() if loading.read(name)["task"]["name"] == "fleet"}
    assert set(everything) == set(loading.presets()) - fleets and "fleet-dropout" in fleets


def test_a_folder_does_not_hide_the_preset_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / DEMO / "feast").mkdir(parents=True)
    assert loading.expand([f"{DEMO}/feast"])[0] == {f"{DEMO}/feast": f"{DEMO}/feast"}
    (tmp_path / DEMO / "feast" / "mine.toml").touch()
    assert list(loading.expand([f"./{DEMO}/feast"])[0]) == ["mine"]


def test_files_and_folders_of_them_have_safe_names(tmp_path):
    for name in ("a.toml", "in/b c.toml", "in/..toml", "in/Ä=x.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names, _ = loading.expand([str(tmp_path)])
    assert set(names) == {"a", "in/b-c", "in/-", "in/--x"}
    assert names["in/b-c"] == str(tmp_path / "in" / "b c.toml")
    assert loading.expand([str(tmp_path / "in" / "b c.toml")])[0] == {"b-c": names["in/b-c"]}


def test_what_is_given_twice_is_told(tmp_path):
    names, twice = loading.expand([f"{DEMO}/feast", DEMO])
    assert names == loading.expand([DEMO])[0] and twice == [f"{DEMO}/feast"]
    for folder in "ab":
        (tmp_path / folder).mkdir()
    with pytest.raises(BadInput, match="share the name 'x'; rename one"):
        loading.expand([str(tmp_path / "a" / "x.toml"), str(tmp_path / "b" / "x.toml")])


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match="no preset 'glypsh'; did you mean 'glyphs'"):
        loading.expand(["glypsh"])
    with pytest.raises(BadInput, match="no preset '###'; `stragglers list` names them"):
        loading.expand(["###"])
    with pytest.raises(BadInput, match="no .toml file in this folder"):
        loading.expand([str(tmp_path)])
    for name in ("settings.toml", "run.json"):  # a run is no folder of experiments
        (tmp_path / name).touch()
    told = f"{tmp_path}: runs, expected experiments; .* such as {tmp_path}/settings.toml"
    with pytest.raises(BadInput, match=told):
        loading.expand([str(tmp_path)])
    assert list(loading.expand([str(tmp_path / "settings.toml")])[0]) == ["settings"]


def test_the_settings_of_a_run_have_its_name(tmp_path):
    names = {"a": f"{DEMO}/feast-0.5", "b": "/../.x y", "c": "", "d": 3}
    files = [tmp_path / place / "settings.toml" for place in names]
    for file, name in zip(files, names.values()):
        file.parent.mkdir()
        file.with_name("run.json").write_text(json.dumps({"name": name, "seed": 1}))
    found, _ = loading.expand(list(map(str, files[:3])))
    assert found == dict(zip([f"{DEMO}/feast-0.5", "-/-/-x-y", "settings"], map(str, files)))
    assert list(loading.expand([str(files[3])])[0]) == ["settings"]
    assert list(loading.expand([str(files[0].with_name("mine.toml"))])[0]) == ["mine"]


def overridden(name, *assignments):
    return loading.experiment_from(loading.override_all(loading.read(name), assignments))


def test_a_new_kind_keeps_what_it_has_use_for():
    sgd = overridden(f"{DEMO}/fedadam", "server.optimizer=sgd")
    assert sgd.server == settings.Sgd(learning_rate=0.005)
    fedavg = overridden(f"{DEMO}/feast", "algorithm.name=fedavg", "ema=0.5")
    assert fedavg.algorithm == settings.FedAvg(ema=0.5)


def test_kinds_come_first_in_any_order():
    one = ("buffer=10", "concurrency=20", "schedule.kind=buffered")
    assert overridden(f"{DEMO}/fedavg", *one) == overridden(f"{DEMO}/fedavg", *one[::-1])


def test_a_mistake_in_a_file_is_not_dropped_with_a_kind():
    document = loading.read(f"{DEMO}/fedavg")
    document["schedule"] = {**document["schedule"], "gaol": 3}
    with pytest.raises(BadInput, match="schedule.gaol"):
        loading.experiment_from(loading.override_all(document, ["schedule.kind=over_selected"]))


def test_resolved_settings_are_the_experiment():
    for name in ("fleet", "emnist/per-domain/feast", f"{DEMO}/fedbuff-ema"):
        experiment = loading.experiment_from(loading.read(name))
        assert loading.experiment_from(loading.resolved(experiment)) == experiment
        assert "last_batch" in loading.resolved(experiment).get("client", "last_batch")


@pytest.mark.parametrize(
    "sets, options, weights, told",
    [
        (["persistence=1.0"], {"persistence": 1.0}, None, "keep 100 % of their luck"),
        (["correlation=0.9"], {"correlation": 0.9}, None, "communication by 0.9"),
        (["download=2.0"], {"traffic": 1.5}, None, "2 models down (50 % of communication), 1 up"),
        (["upload=0.0", "download_share=0.25"], {"traffic": 0.25}, None, "1 models down (25 %"),
        (["cost=tokens"], {"by_tokens": True}, None, "time per example by its tokens"),
        (["check_in={straggler = 0.1}"], {}, {"straggler": 0.1}, "straggler checks in 0.1 times"),
        (["check_in.straggler=0.1"], {}, {"straggler": 0.1}, "straggler checks in 0.1 times"),
    ],
)
def test_what_the_paper_leaves_out_can_be_set(sets, options, weights, told):
    given = loading.override_all(
        loading.read("cifar100/per-domain/fedadam-over-selection"), ["updates=2000", *sets]
    )
    experiment = loading.experiment_from(given)
    who = build.clients(experiment.task, 0)._replace(tokens=np.arange(1.0, 501.0))
    ours = build.timetable(experiment, who)
    delay = latency.latency(who, latency.PER_DOMAIN, seed=0, **options)
    theirs = over_selected(
        who.clients,
        delay,
        seed=0,
        goal=20,
        cohort=24,
        updates=2000,
        check_in=weights and who.by_group(weights, 1.0),
    )
    plain = over_selected(
        who.clients,
        latency.latency(who, latency.PER_DOMAIN, seed=0),
        seed=0,
        goal=20,
        cohort=24,
        updates=2000,
    )
    for ours_of, theirs_of in zip(ours, theirs, strict=True):
        assert np.array_equal(ours_of, theirs_of)
    assert ours.end != plain.end
    # What a plan shows of one epoch follows, but for who is chosen.
    seen, before = (
        build.latencies(loading.experiment_from(given), who)
        for given in (given, loading.read("cifar100/per-domain/fedadam-over-selection"))
    )
    assert np.array_equal(seen, before) == (weights is not None)
    text = describe.policy(experiment)
    assert text.startswith("rounds of 24 clients that close at 20 reports, ") and told in text


def test_a_key_of_a_table_is_set_beside_the_others():
    given = loading.read("cifar100/per-domain/fedadam")
    sets = ["check_in.straggler=0.5", "schedule.check_in.standard=2", "drop_out.straggler=0.1"]
    given = loading.override_all(given, sets)
    assert given["schedule"]["check_in"] == {"straggler": 0.5, "standard": 2}
    assert given["faults"] == {"drop_out": {"straggler": 0.1}}
    for wrong in ("goal.straggler=1", "check_in.=1", "check_out.straggler=1"):
        with pytest.raises(BadInput, match="unknown setting"):
            loading.override(given, wrong)
    with pytest.raises(BadInput, match="did you mean 'drop_out.straggler'"):
        loading.override(given, "dropout.straggler=0.1")
    everybody = loading.override(given, "drop_out=0.2")
    with pytest.raises(BadInput, match=r"faults.drop_out is 0.2 for everybody; give a table"):
        loading.override(everybody, "drop_out.straggler=0.1")


def test_a_section_is_not_a_setting():
    given = loading.read("cifar100/per-domain/fedavg")
    with pytest.raises(BadInput, match=r"'time_limit' is a section; set one of .*\.seconds"):
        loading.override(given, "time_limit=60")


@pytest.mark.parametrize(
    "sets, told",
    [
        ([], "at 20 reports"),
        (["seconds=60", "scope=latency"], "latency limited to 60 s"),
        (["percentile=75"], "training limited to what 75 % of clients train an epoch in"),
    ],
)
def test_a_time_limit_in_words(sets, told):
    given = loading.override_all(loading.read("cifar100/per-domain/fedavg"), sets)
    assert describe.policy(loading.experiment_from(given)).endswith(told)


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
    given = loading.override_all(loading.read("glyphs/per-domain/fedadam"), [*small, *sets])
    experiment = loading.experiment_from(given)
    plan = build.timetable(experiment, build.clients(experiment.task, 0))
    assert np.mean(influence.local_steps(experiment, plan) == 0) == pytest.approx(
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
    given = loading.override_all(loading.read("glyphs/per-domain/fedadam"), changes)
    schedule = loading.experiment_from(given).schedule
    assert isinstance(schedule, settings.OverSelected) and build.cohort(schedule) == cohort


def test_a_percentile_of_training_is_no_limit_of_a_report():
    given = loading.override_all(
        loading.read("cifar100/per-domain/fedavg"), ["percentile=75", "scope=latency"]
    )
    with pytest.raises(BadInput, match="percentile=75 with scope='latency'.*give `seconds`"):
        build.check(loading.experiment_from(given))


def test_a_section_that_is_not_there_begins_with_its_kind():
    fleet = loading.read("fleet")
    assert "algorithm" not in fleet
    joined = loading.override_all(fleet, ["algorithm.name=semi-async", "late_rounds=9", "ema=0.5"])
    assert joined["algorithm"] == {"name": "semi-async", "ema": 0.5}
    build.check(loading.experiment_from(joined))


@pytest.mark.parametrize("normalise", ["count", "sum"])
def test_corrected_participation_is_relative(normalise):
    document = loading.override_all(
        loading.read(f"{DEMO}/fedadam"), ["participation=corrected", f"normalise={normalise}"]
    )
    with pytest.raises(BadInput, match=f"'corrected' with normalise='{normalise}' would make step"):
        build.check(loading.experiment_from(document))


@pytest.mark.parametrize(
    "preset, change, complaint",
    [
        ("fedadam-over-selection", "late_rounds=50", "late_rounds=50, but fedavg uses no late"),
        ("fedadam-over-selection", "late_seconds=0", "late_seconds=0, but fedavg uses no late"),
        ("fedadam", "algorithm={name='fedbuff'}", None),
        (
            "fedadam-over-selection",
            "algorithm={name='feast', beta=0.9, kappa=0.1}",
            "feast learns from late reports; set schedule.late_seconds, its tau_max",
        ),
        ("fedbuff-ema", "algorithm={name='feast', beta=0.9, kappa=0.1}", "set schedule.late_sec"),
        ("feast", "late_seconds=0", None),
        ("feast", "late_rounds=3", None),
        ("feast", "algorithm={name='fedbuff'}", "late_seconds=.* but fedbuff uses no late"),
        ("fare-dust", "algorithm={name='semi-async'}", None),
        ("fedadam-over-selection", "algorithm={name='semi-async'}", "set schedule.late_rounds$"),
        ("feast", "algorithm={name='semi-async'}", "set schedule.late_rounds, and no late_seconds"),
        ("fedbuff-ema", "algorithm={name='semi-async'}", "semi-async has rounds, of a buffer"),
    ],
)
def test_late_reports_are_for_whoever_learns_from_them(preset, change, complaint):
    document = loading.read(f"{DEMO}/{preset}")
    key, _, value = change.partition("=")
    if key == "algorithm":
        document = {**document, key: tomllib.loads(f"{key} = {value}")[key]}
    else:
        document = loading.override(document, change)
    experiment = loading.experiment_from(document)
    if complaint is None:
        build.check(experiment)
        return
    with pytest.raises(BadInput, match=complaint) as error:
        build.check(experiment)
    assert "\n" not in str(error.value)
    assert experiment.algorithm is not None  # and without an algorithm a plan may wait for anybody
    build.check(msgspec.structs.replace(experiment, algorithm=None))


def test_groups_that_check_in_alike_change_nothing():
    given = loading.read("cifar100/per-domain/fedadam-over-selection")
    alike = loading.override(given, "check_in={straggler = 2, standard = 2}")
    plans = []
    for document in (given, alike):
        experiment = loading.experiment_from(document)
        plans.append(build.timetable(experiment, build.clients(experiment.task, 0)))
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
    found = loading.value_of(text)
    assert found == value and type(found) is type(value)
