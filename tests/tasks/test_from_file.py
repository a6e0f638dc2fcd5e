"""Tasks of the user's own, from a file, through the command line."""

import json

import numpy as np
import pytest

import stragglers as st
from stragglers._core import toml_files
from stragglers._core.errors import BadInput
from stragglers.cli.main import main
from stragglers.config import catalog, documents
from stragglers.config.settings import OwnTask
from stragglers.runs import records, train
from stragglers.tasks import from_file

MINE = """
import numpy as np
import stragglers as st
from network import MODEL


def blobs(clients=8, shift=0.0, stragglers=True):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    x = rng.normal(size=(300, 4)) + 2 * np.eye(3, 4)[y] + SHIFT + shift
    return st.task(
        clients=(x[:240], y[:240]),
        client_ids=st.partition.iid(y[:240], clients=clients),
        test=(x[240:], y[240:]),
        model=MODEL,
        straggler_classes=[2] if stragglers else None,
        groups=None,
        stragglers=range(2) if stragglers else None,
    )


def nothing():
    return "nothing"


SHIFT = 0.0
"""
NETWORK = """
import jax
import stragglers as st

MODEL = st.model(lambda key: 0.1 * jax.random.normal(key, (4, 3)), lambda w, x: x @ w)
"""
SETTINGS = {
    "updates": 40,
    "evaluations": 2,
    "threads": 1,
    "task": {"name": "own", "file": "mine.py", "function": "blobs"},
    "latency": {"model": "per-example"},
    "schedule": {"kind": "over_selected", "goal": 4, "cohort": 5},
    "client": {"learning_rate": 0.1, "batch_size": 10},
    "server": {"optimizer": "adam", "learning_rate": 0.1},
    "algorithm": {"name": "fedavg"},
}


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "network.py").write_text(NETWORK)
    (tmp_path / "mine.toml").write_text(toml_files.dumps(SETTINGS))
    return tmp_path


def settings(folder, *sets):
    document = documents.override_all(catalog.read(str(folder / "mine.toml")), sets)
    return documents.settings_from(document)


def change(folder, old, new, name="mine.py"):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


def test_it_is_planned_without_training(mine, capsys):
    assert main(["plan", str(mine / "mine.toml"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["server_steps"] == 10 and {*found["groups"]} == {"standard", "straggler"}


def test_it_is_trained_swept_and_tabulated(mine, capsys):
    out = mine / "runs"
    sweep = ["--sweep", "task.arguments.shift=0.0,100.0", "--out", str(out), "--processes", "1"]
    assert main(["run", str(mine / "mine.toml"), *sweep]) == 0
    found = {r.settings["task"]["arguments"]["shift"]: r for r in records.find([out])}
    assert {*found} == {0.0, 100.0} and len({record.data for record in found.values()}) == 2
    assert found[0.0].outcome("total_accuracy") > 0.6
    assert found[0.0].run["data"]["task"] == "own"
    capsys.readouterr()
    assert main(["run", str(mine / "mine.toml"), *sweep]) == 0  # what is there is not repeated
    assert "2 of 2 trials are there already" in capsys.readouterr().err
    assert main(["table", str(out), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) > 0


def test_a_run_folder_repeats_itself(mine):
    """With the copies of all files that its code is made of."""
    experiment = st.preset(str(mine / "mine.toml"))
    (first,) = st.run([experiment], out=mine / "runs")
    for name in ("mine.py", "network.py"):
        (mine / name).unlink()
    again = st.preset(str(first.folder / "settings.toml"))
    assert again.hash == first.hash
    (second,) = st.run([again], out=mine / "again")
    assert second.folder.parts[-2:] == first.folder.parts[-2:] and second.data == first.data
    np.testing.assert_array_equal(second.curve["total_loss"], first.curve["total_loss"])


def test_it_resumes(mine, monkeypatch):
    experiment = st.preset(str(mine / "mine.toml"))
    (whole,) = st.run([experiment], out=mine / "whole")
    ended = iter([False, False, True])
    from stragglers.runs import recorder

    folders = [mine / "runs" / "mine" / f"{experiment.hash}-0"]
    events = recorder.record(folders, ["mine"], [experiment], stop=lambda: next(ended, True))
    assert isinstance([*events][-1], recorder.Kept)
    assert not records.is_over(folders[0])
    (resumed,) = st.run([experiment], out=mine / "runs")
    assert resumed.status == "finished" and resumed.folder == folders[0]
    np.testing.assert_array_equal(resumed.curve["total_loss"], whole.curve["total_loss"])


def test_changed_code_is_another_experiment(mine):
    before = settings(mine).hash
    assert settings(mine, "task.arguments.clients=9").hash != before
    change(mine, "0.1 *", "0.2 *", "network.py")
    changed = settings(mine).hash
    assert changed != before
    change(mine, "SHIFT = 0.0", "SHIFT = 1.0")
    assert settings(mine).hash not in (before, changed)


def test_changed_data_is_refused(mine, monkeypatch):
    """Which the code reads from somewhere: nothing that the settings name has changed."""
    np.save(mine / "shift.npy", 0.0)
    change(mine, "SHIFT = 0.0", f"SHIFT = np.load({str(mine / 'shift.npy')!r})")
    experiment = st.preset(str(mine / "mine.toml"))
    st.run([experiment], out=mine / "runs")
    np.save(mine / "shift.npy", 1.0)
    from_file._task.cache_clear()  # as in a later process
    from stragglers._core import own_files

    own_files._module.cache_clear()
    with pytest.raises(BadInput, match=r"trained on the data of blobs .* has other data"):
        st.run([experiment], out=mine / "runs")


def test_it_is_tuned(mine, capsys):
    grid = mine / "grid.toml"
    grid.write_text('[[search]]\n"client.learning_rate" = [0.001, 0.1]\n')
    command = ["tune", str(mine / "mine.toml"), "--grid", str(grid), "--out", str(mine / "runs")]
    command += ["--processes", "1"]
    assert main([*command, "--objective", "total", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    alone = ["--set", "task.arguments.stragglers=false", "--objective"]
    assert main([*command, *alone, "total"]) == 0
    assert main([*command, *alone, "straggler"]) == 2
    assert "no candidate has a straggler accuracy" in capsys.readouterr().err


def test_equal_settings_give_the_same_task(mine):
    given = settings(mine, "task.arguments.clients=4")
    assert isinstance(given.task, OwnTask)
    made = train.task(given.task)
    assert made is train.task(settings(mine, "task.arguments.clients=4").task)
    assert made.population.clients == 4 and made.by_content


@pytest.mark.parametrize(
    "sets, says",
    [
        (["task.function=blob"], "has no function 'blob'; did you mean 'blobs'"),
        (["task.function=nothing"], "nothing() returned 'nothing', expected a Task"),
        (["task.arguments.size=3"], "blobs(size=3) failed (TypeError: "),
        (["task.arguments.clients=999"], "mine.toml: clients = 999: expected from 1 to 240"),
        (["task.file=none.py"], "none.py: cannot be read as a Python file"),
    ],
)
def test_mistakes_are_one_line(mine, capsys, sets, says):
    words = [word for given in sets for word in ("--set", given)]
    for command in (["plan"], ["run", "--out", str(mine / "runs")]):
        assert main([command[0], str(mine / "mine.toml"), *command[1:], *words]) == 2
        said = capsys.readouterr().err.strip()
        assert says in said and "\n" not in said
    assert not [*mine.rglob("run.json")]


def test_data_lists_no_task_of_the_users_own(capsys):
    assert main(["data", "own"]) == 2
    assert "no task 'own'" in capsys.readouterr().err


def test_a_traceback_is_shown_when_asked_for(mine, capsys):
    change(mine, "def nothing():", "def nothing():\n    raise KeyError('deep inside')")
    command = ["plan", str(mine / "mine.toml"), "--set", "task.function=nothing"]
    assert main([*command, "--traceback"]) == 2
    *shown, last = capsys.readouterr().err.strip().splitlines()
    assert any("raise KeyError('deep inside')" in line for line in shown)
    assert "nothing() failed (KeyError: 'deep inside', at " in last and "mine.py:" in last
    assert main(command) == 2
    assert capsys.readouterr().err.strip() == last
