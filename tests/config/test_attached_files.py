"""CSV files that settings name, and their copies in run folders."""

import tomllib
from pathlib import Path

import pytest

from stragglers._core import files, toml_files
from stragglers._core.errors import BadInput
from stragglers.config import attached_files, catalog, documents
from stragglers.config.settings import settings_hash
from stragglers.runs import records, run_folder
from tests.support.fabricate import unsealed

NAME = "glyphs/per-domain/feast"
SAMPLES = "1\n2\n3\n"


def latency(**files):
    constant = {"kind": "constant", "value": 1.0}
    groups = {
        name: {
            "communication": {"kind": "samples", "file": str(file)},
            "overhead": constant,
            "per_example": constant,
        }
        for name, file in files.items()
    }
    return {"model": "groups", "groups": groups}


def settings(**changes):
    return documents.completed({**catalog.read(NAME), **changes})


def begun(folder, given):
    with run_folder.claim(folder):
        return run_folder.begin(folder, given, {"name": NAME})


def names(folder):
    return sorted(path.name for path in folder.glob("*.csv"))


@pytest.fixture
def given(tmp_path):
    """Settings with two files of one name, one of them named twice, and faults."""
    here, there = tmp_path / "here" / "a.csv", tmp_path / "there" / "a.csv"
    for file, text in ((here, SAMPLES), (there, "7\n8\n")):
        file.parent.mkdir()
        file.write_text(text)
    faults = there.with_name("faults.csv")
    faults.write_text("client,crash\n" + "x,0.1\n" * 200)
    return settings(
        latency=latency(standard=here, straggler=there, third=here), faults={"csv": str(faults)}
    )


def test_a_run_folder_has_a_copy_of_each_file_and_names_it(tmp_path, given):
    run = begun(tmp_path / "run", given)
    assert len(names(tmp_path / "run")) == 3
    written = tomllib.loads((tmp_path / "run" / "settings.toml").read_text())
    groups = written["latency"]["groups"]
    assert groups["standard"] == groups["third"] != groups["straggler"]
    copy = groups["standard"]["communication"]["file"]
    assert (tmp_path / "run" / copy).read_text() == SAMPLES
    assert written["faults"]["csv"] in names(tmp_path / "run")
    assert run["hash"] == settings_hash(given)


@pytest.mark.parametrize("become", ["gone", "changed"])
def test_it_is_the_same_experiment_whatever_becomes_of_them(tmp_path, given, become):
    before = settings_hash(given)
    begun(tmp_path / "run", given)
    for file in [*tmp_path.glob("*here/*.csv")]:
        file.unlink() if become == "gone" else file.write_text("9\n")
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    again = documents.settings_from(catalog.read(str(tmp_path / "elsewhere" / "settings.toml")))
    assert settings_hash(again.document) == before
    assert settings_hash(records.load(tmp_path / "elsewhere").document) == before
    name, there = records.origin(tmp_path / "elsewhere")
    assert name == NAME and settings_hash(there) == before


def test_a_copy_of_a_copy_is_the_same(tmp_path, given):
    begun(tmp_path / "run", given)
    again = catalog.read(str(tmp_path / "run" / "settings.toml"))
    begun(tmp_path / "again", documents.completed(again))
    assert names(tmp_path / "again") == names(tmp_path / "run")
    for file in ("settings.toml", *names(tmp_path / "run")):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "run" / file).read_bytes()


def test_copies_are_put_away_with_their_settings(tmp_path, given):
    begun(tmp_path / "run", given)
    kept = records.put_away(tmp_path / "run", tmp_path / "results")
    assert names(kept) == names(tmp_path / "run")
    assert records.load(kept).settings == records.load(tmp_path / "run").settings


def test_files_of_runs_from_before_copies_are_put_away_with_them(tmp_path, given):
    begun(tmp_path / "run", given)
    for copy in names(tmp_path / "run"):
        (tmp_path / "run" / copy).unlink()
    (tmp_path / "run" / "settings.toml").write_text(toml_files.dumps(given))
    unsealed(tmp_path / "run")
    kept = records.put_away(tmp_path / "run", tmp_path / "results")
    assert settings_hash(records.load(kept).document) == settings_hash(given)
    assert len(names(kept)) == 3


def test_data_is_not_copied_but_named_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    emnist = {**catalog.read("emnist/per-domain/fedavg")}
    emnist["task"] = {**emnist["task"], "path": "data"}
    begun(tmp_path / "run", documents.completed(emnist))
    assert records.load(tmp_path / "run").settings["task"]["path"] == str(tmp_path / "data")
    assert names(tmp_path / "run") == []


def test_a_disk_that_is_full_of_a_copy_leaves_no_settings(tmp_path, given, monkeypatch):
    def full(path, fill):
        if path.suffix == ".csv":
            with files.told(path):
                raise OSError(28, "No space left on device")
        whole(path, fill)

    whole = files.write
    monkeypatch.setattr(files, "write", full)
    with pytest.raises(BadInput, match="copy-.*cannot be written"):
        begun(tmp_path / "run", given)
    assert not (tmp_path / "run" / "settings.toml").exists()
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_file_that_may_not_be_read_is_one_line(tmp_path, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.csv").touch()
    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(BadInput, match=r"a\.csv: cannot be read \(Permission denied\)"):
        attached_files.digested({"csv": str(tmp_path / "a.csv")})


def test_a_name_of_nothing_stays(tmp_path):
    document = {"csv": str(tmp_path / "none.csv"), "late": {"file": "none"}, "updates": 3}
    assert attached_files.digested(document) == document
    assert attached_files.copied(document) == (document, {})
