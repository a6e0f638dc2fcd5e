"""Results are of one data: what is not is refused, wherever it comes from."""

import json
import shutil
from pathlib import Path

import pytest

from reproduction import __main__ as command
from reproduction import data, rows
from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.runs import records
from tests.support import tiny

ROOT = Path(__file__).parents[2]
FEDADAM = rows.Variant("emnist/per-domain/fedadam")
EMNIST = "cdea616614c8"


@pytest.fixture(scope="module")
def trials():
    return [trial for some in rows.found().values() for trial in some]


@pytest.fixture
def results(trials, tmp_path, monkeypatch):
    """A folder of results with the three trials of a row."""
    for trial in rows.found()[FEDADAM.key]:
        shutil.copytree(trial.folder, tmp_path / "results" / trial.name / trial.folder.name)
    monkeypatch.setattr(rows, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def on_other_data(folder):
    file = folder / "run.json"
    run = json.loads(file.read_text())
    file.write_text(json.dumps(run | {"data": {**run["data"], "checksum": "f" * 64}}))


def test_every_task_of_the_results_has_one_checksum(trials):
    known = data.checksums(trials)
    by_task = {(trial.run["data"]["task"], trial.data) for trial in trials}
    assert len(known) == 7 and len(by_task) == 6  # CIFAR-100 with and without distortion is one
    assert data.key_of(trials[0]) in known and known.keys() == {*map(data.key_of, trials)}


def test_the_checksums_are_told(trials):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for name in ("emnist/per-domain/fedadam", "cifar100/per-domain/fedadam"):
        assert data.checksums(trials)[data.key(documents.completed(catalog.read(name)))] in text
    (exchange,) = {trial.data for trial in trials if trial.name.startswith("stackoverflow")}
    assert exchange in text


def test_results_on_other_data_are_refused(results, capsys):
    folder = next(results.rglob("*-1"))
    on_other_data(folder)
    with pytest.raises(BadInput, match=rf"ffffffffffff.*{EMNIST}.*take this folder out") as refused:
        rows.found()
    assert str(folder) in str(refused.value)
    assert command.main(["keep", str(results)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_other_data_is_not_kept(results, tmp_path, capsys):
    folder = next(results.rglob("*-1"))
    shutil.move(folder, tmp_path / "runs" / folder.name)
    on_other_data(tmp_path / "runs" / folder.name)
    assert command.main(["keep", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr().out
    assert f"other data (ffffffffffff) than the results of its task ({EMNIST})" in said
    assert "0 trials are kept" in said and len(records.find([results])) == 2


def test_the_first_trial_of_a_task_says_which_data_it_has(results, tmp_path):
    for folder in results.rglob("*-[01]"):
        shutil.move(folder, tmp_path / "runs" / folder.name)
    shutil.rmtree(results)
    on_other_data(next((tmp_path / "runs").glob("*-1")))
    assert command.main(["keep", str(tmp_path / "runs")]) == 0
    (kept,) = records.find([results])
    assert kept.seed == 0


def test_nothing_is_trained_on_other_data(results, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("stragglers.runs.trials.run_missing", lambda *_: pytest.fail("trained"))
    folder = tiny.folder(tmp_path, "emnist")
    arguments = ["run", FEDADAM.preset, "--path", str(folder), "--out", str(tmp_path / "runs")]
    assert command.main([*arguments, "--trials", "4"]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and f"({EMNIST})" in line and "`stragglers run`" in line


def test_the_same_data_is_trained_on(results, tmp_path, monkeypatch):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path / "cache"))
    document = documents.override(FEDADAM.document, f"task.path={tiny.folder(tmp_path, 'emnist')}")
    found = data.checksum(documents.settings_from(document).task)
    data.check(document, {data.key(documents.completed(FEDADAM.document)): found})
    data.check(document, {})  # nothing to compare with
