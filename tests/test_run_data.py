"""`stragglers run` on files: one preset of each task, tiny data, the real command line."""

import json
from importlib import resources

import numpy as np
import pytest

from stragglers import metrics
from stragglers.cli import main
from stragglers.errors import BadInput
from stragglers.models.resnet import resnet
from tests.data import files, pictures


@pytest.fixture(autouse=True)
def fresh_environment(monkeypatch, tmp_path):
    """`run` settles the number of threads for its process; here the next test may choose anew."""
    monkeypatch.setenv("PJRT_NPROC", "to be restored")
    monkeypatch.delenv("PJRT_NPROC")
    monkeypatch.delenv("STRAGGLERS_DATA", raising=False)
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(metrics, "BATCH", 4)  # a test batch is padded to it


def train(capsys, tmp_path, preset, *arguments):
    code = main(["run", preset, *arguments, "--out", str(tmp_path / "out"), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    (trial,) = json.loads(out)["runs"]
    return trial


def emnist(folder):
    folder.mkdir()
    pictures.emnist_hdf5(folder, pictures.drawings([4] * 6), pictures.drawings([2] * 6, seed=1))
    return folder


def test_emnist(capsys, tmp_path):
    folder = emnist(tmp_path / "data")
    arguments = [
        "--path",
        str(folder),
        "--updates",
        "4",
        "--set",
        "goal=2",
        "--set",
        "batch_size=2",
    ]
    trial = train(capsys, tmp_path, "emnist/per-domain/fedadam-over-selection", *arguments)
    last = trial["curve"][-1]
    assert last["updates"] == 4 and last["test_examples"] == 12
    assert set(trial["run"]["clients"]) == {"standard", "straggler"}
    for spread in trial["run"]["clients"].values():
        assert len(spread) == 5 and 0 <= spread[0] <= spread[-1] <= 1 and spread == sorted(spread)


def test_cifar100(capsys, tmp_path, monkeypatch):
    # One narrow stage: to compile all of ResNet-18 takes a minute.
    monkeypatch.setattr("stragglers.tasks.cifar100.MODEL", resnet(widths=(8,)))
    folder = tmp_path / "data"
    folder.mkdir()
    files.tff_hdf5(folder / "fed_cifar100_train.h5", pictures.photographs([2] * 4))
    files.tff_hdf5(folder / "fed_cifar100_test.h5", pictures.photographs([2, 2], seed=1))
    settings = ("goal=1", "over_selection=2", "batch_size=2", "late_rounds=1", "evaluations=1")
    arguments = [word for setting in settings for word in ("--set", setting)]
    trial = train(capsys, tmp_path, "cifar100/per-domain/fare-dust", "--path", str(folder),
                  "--updates", "2", *arguments)  # fmt: skip
    assert trial["curve"][-1]["updates"] == 2 and trial["run"]["clients"] is None


def test_stackoverflow(capsys, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    words = np.array(["how", "do", "i", "sort", "a", "list", "of", "numbers", "in", "place"])
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        users = {
            f"user{number}": {
                "tokens": np.array([" ".join(rng.choice(words, 5)) for _ in range(4)], object),
                "tags": np.array(["math|sql" if number < 2 else "sql"] * 4, object),
            }
            for number in range(6)
        }
        files.tff_hdf5(folder / f"stackoverflow_{split}.h5", users)
    arguments = [
        "--path",
        str(folder),
        "--updates",
        "4",
        "--set",
        "goal=2",
        "--set",
        "batch_size=2",
    ]
    trial = train(capsys, tmp_path, "stackoverflow/per-domain/fedadam-over-selection", *arguments)
    assert trial["curve"][-1]["updates"] == 4 and set(trial["run"]["clients"]) == {
        "standard",
        "straggler",
    }


def data_of(given, monkeypatch, *arguments, preset="emnist/per-domain/fedadam"):
    """The folder that `run` would read."""
    seen = []

    def stop(task):
        seen.append(task.path)
        raise BadInput("enough")

    monkeypatch.setattr("stragglers.build.prepare_data", stop)
    monkeypatch.setenv("STRAGGLERS_DATA", given)
    assert main(["run", preset, *arguments]) == 2
    return seen[0]


def test_where_the_data_is(monkeypatch, tmp_path):
    assert data_of("/from/environment", monkeypatch) == "/from/environment"
    odd = 'a "quoted" \\ folder = 1'
    assert data_of("/from/environment", monkeypatch, "--path", odd) == odd
    assert data_of("/from/environment", monkeypatch, "--set", "path=mine") == "mine"
    text = resources.files("stragglers").joinpath("presets/emnist/per-domain/fedadam.toml")
    own = tmp_path / "own.toml"
    own.write_text(text.read_text().replace("[task]", "[task]\npath = 'beside'"))
    beside = str(tmp_path / "beside")
    assert data_of("/from/environment", monkeypatch, preset=str(own)) == beside
    assert data_of("/from/environment", monkeypatch, "--path", "x", preset=str(own)) == "x"


def test_bad_files_are_one_line_and_leave_no_folder_behind(capsys, tmp_path):
    folder = emnist(tmp_path / "data")
    whole = (folder / "fed_emnist_test.h5").read_bytes()
    (folder / "fed_emnist_test.h5").write_bytes(whole[: len(whole) // 2])
    command = ["run", "emnist/per-domain/fedadam", "--path", str(folder)]
    code = main([*command, "--out", str(tmp_path / "out")])
    out, err = capsys.readouterr()
    assert code == 2 and out == "" and err.count("\n") == 1 and "fed_emnist_test.h5" in err
    assert not (tmp_path / "out").exists()
