"""`stragglers run`, small: the real command line on a tiny glyphs task."""

import json

import pytest

from stragglers import config
from stragglers.cli import main

SMALL = (
    "--set writers=12 --set goal=3 --set over_selection=1.67 --set updates=30 --set evaluations=2"
)


@pytest.fixture(autouse=True)
def fresh_environment(monkeypatch):
    """`run` settles the number of threads for its process; here the next test may choose anew."""
    monkeypatch.setenv("PJRT_NPROC", "to be restored")
    monkeypatch.delenv("PJRT_NPROC")


def train(capsys, tmp_path, *arguments, small=SMALL):
    code = main(["run", *arguments, *small.split(), "--out", str(tmp_path / "out")])
    return code, *capsys.readouterr()


def test_every_algorithm_trains_and_lands_in_table_and_picture(capsys, tmp_path):
    names = [f"glyphs/per-domain/{row}" for row in ("fedadam", "fare-dust", "feast")]
    code, out, err = train(capsys, tmp_path, *names, "--trials", "2", "--processes", "1", "--json")
    assert code == 0, err
    results = json.loads(out)
    assert list(results) == names
    for trials in results.values():
        assert [trial["seed"] for trial in trials] == [0, 1]
        for trial in trials:
            first, last = trial["curve"]
            assert 0 < first["updates"] < last["updates"] <= 30 and first["time_s"] < last["time_s"]
            assert 0 <= last["straggler_accuracy"] <= 1 and last["dropped"] == 0
        assert trials[0]["curve"][-1]["total_loss"] != trials[1]["curve"][-1]["total_loss"]
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == results
    assert (tmp_path / "out" / "accuracy.png").stat().st_size > 10_000
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "accuracy.png",
        "results.json",
    ]


def test_the_table_is_sorted_by_straggler_accuracy(capsys, tmp_path):
    code, out, _ = train(capsys, tmp_path, "glyphs/per-domain/fedadam")
    assert code == 0 and "straggler accuracy" in out and "picture:" in out


def test_the_curve_may_use_fewer_test_examples_than_its_end(capsys, tmp_path):
    arguments = ("glyphs/per-domain/fedadam", "--json", "--set", "curve_examples=50")
    code, out, _ = train(capsys, tmp_path, *arguments)
    curve = json.loads(out)["glyphs/per-domain/fedadam"][0]["curve"]
    assert code == 0 and [point["test_examples"] for point in curve] == [50, 12 * 20]


def test_buffers_train_too(capsys, tmp_path):
    small = "--set writers=12 --set buffer=3 --set concurrency=6 --set updates=30"
    code, out, _ = train(
        capsys, tmp_path, "glyphs/per-domain/fedbuff-ema", "--json", small=small
    )  # fmt: skip
    assert code == 0 and json.loads(out)["glyphs/per-domain/fedbuff-ema"][0]["trained"] == 30


def test_a_run_in_which_everybody_diverges_says_so(capsys, tmp_path):
    code, out, err = train(
        capsys, tmp_path, "glyphs/per-domain/fedadam", "--set", "client.learning_rate=1e30"
    )
    assert code == 0 and "every client diverged" in err and "diverged" in out


BAD = {
    "emnist/per-domain/feast": "task 'emnist' needs its data; set --path DIR",
    "cifar100/per-domain/feast": "`stragglers data cifar100` says which files",
    "stackoverflow/per-domain/feast": "task 'stackoverflow' needs its data",
    "emnist/per-domain/feast --path no/such/folder": "no/such/folder: no such folder or file",
    "emnist/per-domain/feast --path tests": "tests: no files of EMNIST; expected one of",
    "glyphs/per-domain/feast --path tests": "--path tests: glyphs/per-domain/feast reads no data",
    "emnist/per-domain/feast --set profile=tff": "task.profile",
    "emnist/per-domain/feast --set straggler_classes=[62]": "task.straggler_classes",
    "glyphs/per-domain/fedadam --updates 0": "updates",
    "glyphs/per-domain/feats": "did you mean",
    "glyphs/per-domain/fedadam --trials 0": "trials=0",
    "glyphs/per-domain/fedadam --trials x": "invalid int value",
    "glyphs/per-domain/feast --set kappa=1.5": "algorithm.kappa",
    "glyphs/per-domain/feast --set beta=1": "algorithm.beta",
    "glyphs/per-domain/fare-dust --set late_seconds=9": "schedule.late_rounds",
    "glyphs/per-domain/fare-dust --set late_rounds=90000000": "history of 90000000 models",
    "glyphs/per-domain/fedadam --reading liberal": "did you mean 'literal'",
    "glyphs/per-domain/fedadam --set server.optimizer=adm": "did you mean 'adam'",
    "fleet": "[client] is missing",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_is_one_line(capsys, tmp_path, arguments):
    code, out, err = train(capsys, tmp_path, *arguments.split(), small="--set updates=100")
    assert code == 2 and out == "" and err.count("\n") == 1, err
    assert BAD[arguments] in err
    assert not (tmp_path / "out" / "results.json").exists()


def test_an_unwritable_folder_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code = main(["run", "--out", str(tmp_path / "file" / "runs")])
    assert code == 2 and "no folder for results" in capsys.readouterr().err


def test_the_literal_reading_is_another_experiment():
    for row in ("fare-dust", "feast"):
        document = config.read(f"emnist/per-domain/{row}")
        ours = config.experiment_from(document)
        literal = config.experiment_from(config.with_reading(document, "literal"))
        assert (literal.server, literal.algorithm) != (ours.server, ours.algorithm)
    assert literal.client.learning_rate == 0.1 and literal.server.learning_rate == 0.006
