"""The experiment that `stragglers new` writes: it runs, its tests pass, and it is clean."""

import json
import subprocess
import sys

import pytest

from stragglers.cli.main import main
from stragglers.runs import records

FILES = ["algorithm.py", "mine-1.toml", "model.py", "task.py", "test_mine_1.py"]


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine-1"]) == 0
    assert "stragglers run mine-1" in capsys.readouterr().out
    return tmp_path / "mine-1"


def test_it_runs_at_once(folder, capsys):
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert main(["plan", "mine-1/mine-1.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["server_steps"] == 200
    assert main(["run", "mine-1"]) == 0
    (record,) = records.find(["runs"])
    assert (record.name, record.status) == ("mine-1", "finished")
    assert record.outcome("total_accuracy") > 0.5 and record.outcome("straggler_accuracy") > 0
    copies = {path.name for path in record.folder.glob("copy-*/*")}
    assert copies == {"task.py", "model.py"} and len([*record.folder.glob("copy-*.py")]) == 1


def test_its_own_tests_pass(folder):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_its_code_is_clean(folder):
    text = {name: (folder / name).read_text() for name in FILES}
    assert not any("NAME" in part for part in text.values())
    assert all(len(line) <= 110 for part in text.values() for line in part.splitlines())
    assert all(part.startswith(('"""', "# ")) for part in text.values())


def test_mistakes_are_one_line(folder, capsys):
    for name, says in (("mine-1", "is there already"), ("a b", "not a name of an experiment")):
        assert main(["new", name]) == 2
        said = capsys.readouterr().err.strip()
        assert says in said and "\n" not in said
    assert main(["new", "other", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == len(FILES)
