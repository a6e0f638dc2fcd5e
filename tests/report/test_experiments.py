import pytest

from stragglers import records
from stragglers.errors import BadInput
from stragglers.report.experiments import check_reference, chosen, differences, plain, sections
from tests.report.fabricate import demo, run_folder


def found(tmp_path):
    return sections(records.find([tmp_path]))


def test_tasks_and_latencies_come_in_the_papers_order(tmp_path):
    for name in ("glyphs/per-domain/feast", "stackoverflow/per-domain/feast",
                 "emnist/per-domain/feast", "emnist/per-example/feast"):  # fmt: skip
        run_folder(tmp_path, name)
    assert [section.title for section in found(tmp_path)] == [
        "EMNIST, per-example latency", "EMNIST, per-domain latency",
        "StackOverflow, per-domain latency", "glyphs, per-domain latency",
    ]  # fmt: skip


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
