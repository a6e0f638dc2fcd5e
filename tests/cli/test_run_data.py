"""`stragglers run` on files: one preset of each task, tiny data, the real command line."""

import json
from importlib import resources

import pytest

from stragglers._core.errors import BadInput
from stragglers.cli.main import main
from stragglers.simulator import metrics
from stragglers.tasks.models.resnet import resnet
from tests.support import pictures, tiny
from tests.support.command import refused


@pytest.fixture(autouse=True)
def fresh_environment(monkeypatch, tmp_path, hasty_compiler):
    """No data, no cache but the test's own."""
    monkeypatch.delenv("STRAGGLERS_DATA", raising=False)
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(metrics, "BATCH", 4)  # a test batch is padded to it


def train(capsys, tmp_path, preset, *arguments):
    code = main(["run", preset, *arguments, "--out", str(tmp_path / "out"), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    (trial,) = json.loads(out)["runs"]
    return trial


def settings(*given):
    return [word for setting in given for word in ("--set", setting)]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["emnist", "stackoverflow"])
def test_accuracy_has_a_spread_over_clients(capsys, tmp_path, task):
    folder = tiny.folder(tmp_path, task)
    arguments = ["--path", str(folder), "--updates", "4", *settings("goal=2", "batch_size=2")]
    trial = train(capsys, tmp_path, f"{task}/per-domain/fedadam-over-selection", *arguments)
    last = trial["curve"][-1]
    assert last["updates"] == 4
    assert set(trial["run"]["clients"]) == {"standard", "straggler"}
    for spread in trial["run"]["clients"].values():
        assert len(spread) == 5 and 0 <= spread[0] <= spread[-1] <= 1 and spread == sorted(spread)
    page = str(tmp_path / "page.html")
    assert main(["report", str(tmp_path / "out"), "--out", page, "--figures", str(tmp_path)]) == 0
    out, err = capsys.readouterr()  # its plan is drawn of the clients that it had
    assert "-plan-fedadam" in out and err == ""


@pytest.mark.slow
def test_cifar100_has_test_images_without_clients(capsys, tmp_path, monkeypatch):
    # One narrow stage: to compile all of ResNet-18 takes a minute.
    monkeypatch.setattr("stragglers.tasks.cifar100.MODEL", resnet(widths=(8,)))
    cut = settings("goal=1", "over_selection=2", "batch_size=2", "late_rounds=1", "evaluations=1")
    trial = train(
        capsys,
        tmp_path,
        "cifar100/per-domain/fare-dust",
        "--path",
        str(tiny.folder(tmp_path, "cifar100")),
        "--updates",
        "2",
        *cut,
    )
    assert trial["curve"][-1]["updates"] == 2 and trial["run"]["clients"] is None


def test_results_of_other_data_are_not_taken_for_those_asked_for(capsys, tmp_path):
    """Nor are equal ones that lie elsewhere refused."""
    first, moved, other = (tmp_path / name for name in ("first", "moved", "other"))
    for place in (first, moved, other):
        place.mkdir()
        tiny.emnist(place)
    test = pictures.drawings([2] * 6, seed=1)
    pictures.emnist_hdf5(other, pictures.drawings([4] * 6, seed=7), test)
    small = ["--updates", "4", *settings("goal=2", "batch_size=2", "evaluations=1")]
    preset = "emnist/per-domain/fedadam-over-selection"
    trial = train(capsys, tmp_path, preset, "--path", str(first), *small)
    again = train(capsys, tmp_path, preset, "--path", str(moved), *small)
    assert again == trial and again["settings"]["task"]["path"] == str(first)
    written = sorted(tmp_path.joinpath("out").rglob("*"))
    out = ["--out", str(tmp_path / "out")]
    line = refused(capsys, "run", preset, "--path", str(other), *small, "--trials", "2", *out)
    assert line.startswith(f"stragglers: {trial['folder']}: trained on the data of {first} (")
    assert f"but {other} has other data (" in line and "choose another --out, or delete" in line
    assert sorted(tmp_path.joinpath("out").rglob("*")) == written


def data_of(given, monkeypatch, *arguments, preset="emnist/per-domain/fedadam"):
    """The folder that `run` would read."""
    seen = []

    def stop(task, threads):
        seen.append(task.path)
        raise BadInput("enough")

    monkeypatch.setattr("stragglers.config.task_files.prepare_data", stop)
    monkeypatch.setenv("STRAGGLERS_DATA", given)
    assert main(["run", preset, *arguments]) == 2
    return seen[0]


def test_where_the_data_is(monkeypatch, tmp_path):
    assert data_of("/from/environment", monkeypatch) == "/from/environment"
    odd = 'a "quoted" \\ folder = 1'
    assert data_of("/from/environment", monkeypatch, "--path", odd) == odd
    assert data_of("/from/environment", monkeypatch, "--set", "path=mine") == "mine"
    text = resources.files("stragglers.config").joinpath("presets/emnist/per-domain/fedadam.toml")
    own = tmp_path / "own.toml"
    own.write_text(text.read_text().replace("[task]", "[task]\npath = 'beside'"))
    beside = str(tmp_path / "beside")
    assert data_of("/from/environment", monkeypatch, preset=str(own)) == beside
    assert data_of("/from/environment", monkeypatch, "--path", "x", preset=str(own)) == "x"


def test_bad_files_are_one_line_and_leave_no_folder_behind(capsys, tmp_path):
    folder = tiny.folder(tmp_path, "emnist")
    whole = (folder / "fed_emnist_test.h5").read_bytes()
    (folder / "fed_emnist_test.h5").write_bytes(whole[: len(whole) // 2])
    command = ["run", "emnist/per-domain/fedadam", "--path", str(folder)]
    code = main([*command, "--out", str(tmp_path / "out")])
    out, err = capsys.readouterr()
    assert code == 2 and out == "" and err.count("\n") == 1 and "fed_emnist_test.h5" in err
    assert not (tmp_path / "out").exists()
