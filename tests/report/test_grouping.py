import pytest

from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.report.grouping import check_reference, chosen, differences, plain, sections
from stragglers.runs import records
from tests.support.fabricate import demo, run_folder


def found(tmp_path):
    return sections(records.find([tmp_path]))


def test_tasks_and_latencies_come_in_the_papers_order(tmp_path):
    for name in (
        "glyphs/per-domain/feast",
        "stackoverflow/per-domain/feast",
        "emnist/per-domain/feast",
        "emnist/per-example/feast",
    ):
        run_folder(tmp_path, name)
    assert [section.title for section in found(tmp_path)] == [
        "EMNIST, per-example latency",
        "EMNIST, per-domain latency",
        "StackOverflow, per-domain latency",
        "glyphs, per-domain latency",
    ]


def test_trials_of_equal_settings_are_one_experiment(tmp_path):
    (section,) = found(demo(tmp_path))
    assert {len(experiment.trials) for experiment in section.experiments} == {3}
    assert "fare-dust" in {experiment.label for experiment in section.experiments}


def test_labels_tell_what_differs(tmp_path):
    name = "glyphs/per-domain/feast"
    run_folder(tmp_path, name)
    run_folder(tmp_path, name, digest="b", set=("kappa=0.25", "goal=10"))
    (section,) = found(tmp_path)
    labels = [experiment.label for experiment in section.experiments]
    assert labels == ["feast (kappa=0.5, goal=20)", "feast (kappa=0.25, goal=10)"]
    assert section.experiments[0].row == "feast"


def test_labels_leave_out_what_is_not_set(tmp_path):
    name = "glyphs/per-domain/fedavg"
    run_folder(tmp_path, name)
    run_folder(tmp_path, name, digest="b", set=("seconds=9",))
    (section,) = found(tmp_path)
    plain, limited = (e.label for e in section.experiments)
    assert plain == "fedavg" and limited == "fedavg (fill=true, scope=training, seconds=9)"


def test_labels_are_unique_even_where_settings_say_nothing(tmp_path):
    run_folder(tmp_path, "mine", digest="aaaa")
    run_folder(tmp_path, "mine", digest="bbbb")
    (section,) = found(tmp_path)
    assert [e.label for e in section.experiments] == ["mine [aaaa]", "mine [bbbb]"]


def test_trials_from_before_a_setting_are_of_the_same_experiment(tmp_path):
    name = "glyphs/per-domain/feast"
    run_folder(tmp_path, name, 0, digest="after")
    run_folder(tmp_path, name, 2, digest="after")
    run_folder(tmp_path, name, 1, digest="before", unknown=("precision", "aggregation"))
    run_folder(tmp_path, name, 3, digest="other", set=("precision=float32",))
    (section,) = found(tmp_path)
    first, second = section.experiments
    assert [trial.seed for trial in first.trials] == [0, 1, 2]
    assert first.label == "feast (precision=tf32)" and first.settings["precision"] == "tf32"
    assert [trial.seed for trial in second.trials] == [3]


def test_a_seed_from_before_a_setting_and_after_is_shown_twice(tmp_path):
    for seed in (0, 1):
        run_folder(tmp_path, seed=seed, digest="after")
        run_folder(tmp_path, seed=seed, digest="before", unknown=("precision",))
    run_folder(tmp_path, seed=2, digest="after")
    (section,) = found(tmp_path)
    assert {e.label: len(e.trials) for e in section.experiments} == {
        "fedadam [after]": 3,
        "fedadam [before]": 2,
    }


def test_settings_that_are_refused_today_are_shown_as_they_were(tmp_path):
    for seed in (0, 1):
        run_folder(tmp_path, seed=seed, digest="gone", changes={"gone": 7})
    run_folder(tmp_path, seed=0, digest="here")
    (section,) = found(tmp_path)
    assert {e.label: (e.hash, len(e.trials)) for e in section.experiments} == {
        "fedadam (gone=7)": ("gone", 2),
        "fedadam": (section.experiments[1].hash, 1),
    }
    assert section.experiments[0].paper is None


def test_the_published_row_is_that_of_todays_preset(tmp_path):
    name = "emnist/per-domain/fedbuff-kd"
    run_folder(tmp_path, name, 3, set=("evaluations=7", "task.path=somewhere"), digest="a")
    stale = documents.completed(catalog.read("emnist/per-domain/feast"))["paper"]
    run_folder(tmp_path, name, digest="b", set=("ema=0.0",), changes={"paper": stale})
    run_folder(tmp_path, "mine", preset=name, changes={"paper": stale})
    (section,) = found(tmp_path)
    preset, changed, mine = section.experiments
    assert preset.paper == documents.completed(catalog.read(name))["paper"]
    assert changed.paper is None and mine.paper is None


def test_one_trial_in_two_folders_is_refused(tmp_path):
    run_folder(tmp_path / "a")
    run_folder(tmp_path / "b")
    with pytest.raises(BadInput, match="hold the same trial; give one of them"):
        found(tmp_path)


def test_differences_name_what_is_unset():
    one = {"seed": 1, "schedule": {"goal": 5, "kind": "x"}, "paper": {"row": "A"}}
    other = {"seed": 2, "schedule": {"kind": "x"}, "updates": 7}
    assert differences([one, other]) == {"schedule.goal": [5, None], "updates": [None, 7]}


def test_a_reference_is_a_label_a_row_or_a_name(tmp_path):
    (section,) = found(demo(tmp_path, 1))
    for name in ("fedadam", "glyphs/per-domain/fedadam"):
        assert chosen(section, name).label == "fedadam"
    with pytest.raises(BadInput, match="did you mean 'fedadam'"):
        check_reference([section], "fedadm")


def test_a_reference_that_could_be_two_is_refused(tmp_path):
    run_folder(tmp_path, "glyphs/per-domain/feast")
    run_folder(tmp_path, "glyphs/per-domain/feast", digest="b", set=("kappa=0.25",))
    (section,) = found(tmp_path)
    with pytest.raises(BadInput, match="could be any of 'feast"):
        chosen(section, "feast")


def test_plain_text_has_no_control_and_no_direction_marks():
    assert plain("a\x1b[31m\nb\u202ec\u2028d") == "a�[31m�b�c�d"
    assert plain("Füße 北京 –") == "Füße 北京 –"
