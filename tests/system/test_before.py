"""What version 0.1.0 left behind is read, and goes on; before/README.md says what there is."""

import importlib.util
import json
import os
import shutil
from importlib.metadata import version
from pathlib import Path

import numpy as np
import optax
import pytest
from safetensors.numpy import load_file

from stragglers._core.moved import NEW_PATHS
from stragglers.algorithms import from_file
from stragglers.algorithms.base import BY_WEIGHT, Sum
from stragglers.config import settings, task_files
from stragglers.planning.policy import Rounds
from stragglers.runs import records, train
from stragglers.simulator import prior_matching
from stragglers.tasks import glyphs
from stragglers.tasks.datasets import cache
from stragglers.tasks.models.mlp import mlp
from tests.support.command import refused, run
from tests.support.fleet import ALGORITHMS, Fleet
from tests.support.kept_programs import processor

BEFORE = Path(__file__).parent / "before"
MADE_ON = json.loads((BEFORE / "made_on.json").read_text())
SMALL = ["writers=8", "goal=3", "updates=60", "evaluations=4", "curve_examples=100"]
SMALL += ["client.batch_size=4", "client.epochs=0.3"]
PER_DOMAIN = "glyphs/per-domain"
BUFFERED = [change for change in SMALL if "goal" not in change]
COMMANDS = {
    f"{PER_DOMAIN}/fedadam": SMALL,
    f"{PER_DOMAIN}/fedbuff-ema": [*BUFFERED, "buffer=3", "concurrency=5"],
    f"{PER_DOMAIN}/fare-dust": [*SMALL, "over_selection=1.7", "late_rounds=3"],
    f"{PER_DOMAIN}/feast": [*SMALL, "over_selection=1.7"],
    "own": [],
}
OWN = '[algorithm]\nname = "own"\nfile = "{}"\nfunction = "halfway"\n'
CLOCKS = ("started", "finished", "wall_s", "memory")
SEALS = ("format", "files", "seal")  # which 0.1.0 did not have


@pytest.fixture
def small_network(monkeypatch):
    glyphs.glyphs.cache_clear()
    monkeypatch.setattr(glyphs, "MODEL", mlp(hidden=(4,), pool=14))
    yield
    glyphs.glyphs.cache_clear()


def copied(name, place):
    return Path(shutil.copytree(BEFORE / name, place / name))


def own(place, file):
    """A user's settings beside the user's algorithm; returns what the command is given."""
    shutil.copy(BEFORE / file, place)
    preset = Path(settings.__file__).parent / "presets" / PER_DOMAIN / "fedadam.toml"
    document = preset.read_text().partition("[algorithm]")[0] + OWN.format(file)
    (place / "own.toml").write_text(document)
    return [str(place / "own.toml"), *sets(SMALL)]


def command(name, place):
    if name == "own":
        return ["run", *own(place, "mine.py")]
    return ["run", name, *sets(COMMANDS[name])]


def sets(changes):
    return [word for change in changes for word in ("--set", change)]


def seeds(name):
    return ["--trials", "2", "--together", "2"] if name.endswith("fedbuff-ema") else []


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_finished_runs_are_tabulated_alike(capsys):
    code, out, _ = run(capsys, "table", str(BEFORE / "whole"), "--format", "json")
    now, before = json.loads(out), json.loads((BEFORE / "table.json").read_text())
    rows = [row for table in now["tables"] for row in table["rows"]]
    later = {name for row in rows for name in row if name.startswith("matched_")}
    assert len(later) == 2  # accuracies that the runs of before do not have
    for row in rows:
        assert all(row.pop(name)["values"] in ([], [None] * row["trials"]) for name in later)
    assert code == 0 and now == before


@pytest.mark.usefixtures("small_network")
@pytest.mark.parametrize("name", COMMANDS)
def test_finished_runs_are_not_repeated(name, tmp_path, capsys):
    """Their folders are found: names and hashes are what they were."""
    whole = copied("whole", tmp_path)
    before = files_of(whole / name)
    code, _, err = run(capsys, *command(name, tmp_path), *seeds(name), "--out", str(whole))
    assert code == 0 and "trials are there already" in err
    after = files_of(whole / name)
    assert {path: after[path] for path in before} == before
    assert {path.name for path in after.keys() - before.keys()} <= {"lock"}


def test_a_result_that_was_put_away_is_read():
    (record,) = records.find([BEFORE / "put_away"])
    (whole,) = records.find([BEFORE / "whole" / PER_DOMAIN / "feast"])
    assert (record.hash, record.seed, record.status) == (whole.hash, whole.seed, "finished")
    for column, values in whole.curve.items():
        np.testing.assert_array_equal(record.curve[column], values)


def outcome(folder):
    """All of a run folder but clocks and versions, and its weights."""
    about = json.loads((folder / "run.json").read_text())
    known = {key: value for key, value in about.items() if key not in (*CLOCKS, *SEALS, "versions")}
    lines = map(json.loads, (folder / "curve.jsonl").read_text().splitlines())
    curve = [{**line, "wall_s": 0} for line in lines]
    return known, curve, load_file(folder / "model.safetensors")


def close(one, other, exactly):
    assert one.keys() == other.keys()
    for name, value in one.items():
        near = dict(rtol=0, atol=0) if exactly else dict(rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(value, other[name], **near)


@pytest.mark.slow
@pytest.mark.usefixtures("small_network")
@pytest.mark.parametrize("name", COMMANDS)
def test_interrupted_runs_come_to_the_end_that_they_would_have_had(name, tmp_path, capsys):
    """To the bit on the processor and with the versions that made the samples; near it on others,
    whose compilers order sums otherwise."""
    alike = all(MADE_ON[package] == version(package) for package in ("jax", "jaxlib"))
    drift = [] if alike else ["--allow-drift"]
    stopped = copied("stopped", tmp_path)
    arguments = (*command(name, tmp_path), *seeds(name), *drift, "--out", str(stopped))
    code, _, err = run(capsys, *arguments)
    assert code == 0, err
    assert "resumes from server step" in err and "starts anew" not in err
    folders = sorted(path.parent for path in (stopped / name).rglob("run.json"))
    assert len(folders) == 1 + bool(seeds(name))
    for folder in folders:
        assert not (folder / "checkpoints").exists()
        about, curve, weights = outcome(folder)
        whole = BEFORE / "whole" / folder.relative_to(stopped)
        before, curve_before, weights_before = outcome(whole)
        about.pop("drift", None)
        assert about == before
        exactly = alike and MADE_ON["processor"] == processor()
        close(weights, weights_before, exactly)
        assert set(prior_matching.NAMES) <= curve[-1].keys()
        for point, point_before in zip(curve, curve_before, strict=True):
            later = point.keys() - point_before.keys()
            assert later <= {*prior_matching.NAMES, "check"}
            close({name: point[name] for name in point_before}, point_before, exactly)


ENDS = json.loads((BEFORE / "served" / "ends.json").read_text())


@pytest.mark.parametrize("name", ENDS)
def test_a_server_goes_on(name, tmp_path):
    folder, steps = copied("served", tmp_path) / name, []
    fleet = Fleet(np.array([1.0, 2, 3] * 50))
    served = fleet.serve(
        ALGORITHMS[name],
        Rounds(goal=3, cohort=3),
        seed=1,
        folder=folder,
        on_step=lambda step, now, model: steps.append(step),
    )
    assert steps == [5, 6, 7, 8, 9, 10]
    for leaf, values in ENDS[name].items():
        np.testing.assert_allclose(served.model[leaf], values, rtol=1e-6)
    lines = (folder / "log.csv").read_text().splitlines()
    assert lines[: 1 + 4 * 3] == (BEFORE / "served" / name / "log.csv").read_text().splitlines()
    assert len(lines) == 1 + 10 * 3


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="the samples' path is of Linux")
@pytest.mark.parametrize("name", ["emnist", "stackoverflow"])
def test_prepared_data_is_used(name, tmp_path, monkeypatch, capsys):
    home, here = copied("prepared", tmp_path), Path("/proc/self/cwd")
    for path in home.rglob("*.h5"):
        os.utime(path, (1, 1))  # as they were when the caches were made
    monkeypatch.chdir(home)
    monkeypatch.setenv("STRAGGLERS_CACHE", str(home / "cache"))
    monkeypatch.setattr(cache, "_save", lambda *_: pytest.fail("it was prepared again"))
    kind, given = {
        "emnist": (settings.Emnist, {"stragglers": 1}),
        "stackoverflow": (settings.StackOverflow, {}),
    }[name]
    task = train.task(kind(path=str(here / name), **given))
    digests = json.loads((home / "digests.json").read_text())
    assert task_files.data_digest(kind(path=str(here / name), **given)) == digests[name]
    assert len(task.x) > 0 and capsys.readouterr().err == ""


@pytest.mark.parametrize("file", ["mine.py", "with_trees.py"])
def test_a_users_own_algorithm_is_one_still(file):
    params = [{"w": np.zeros(3, np.float32)}]
    made = from_file.algorithm(str(BEFORE / file), "halfway", optax.sgd(1.0), BY_WEIGHT, {})
    report = Sum([{"w": np.full(3, 4.0, np.float32)}], np.float32(2), np.int32(2))
    state, _ = made.step(made.init(params), report)
    np.testing.assert_array_equal(made.params(state)[0]["w"], np.full(3, -1.0))


def test_an_algorithm_that_imports_a_module_that_moved_is_told_its_new_path(tmp_path, capsys):
    arguments = own(tmp_path, "with_trees.py")
    path = tmp_path / "with_trees.py"
    path.write_text(
        path.read_text().replace("from stragglers import", "from stragglers.trees import")
    )
    said = refused(capsys, "run", *arguments, "--out", str(tmp_path / "out"))
    assert "with_trees.py: cannot be imported" in said
    assert "stragglers.trees is stragglers.algorithms.trees since version 0.2.0" in said


def test_a_flower_app_is_told_the_new_path():
    found = importlib.util.spec_from_file_location("client_app", BEFORE / "client_app.py")
    with pytest.raises(ModuleNotFoundError) as refused:
        found.loader.exec_module(importlib.util.module_from_spec(found))
    assert str(refused.value) == (
        "stragglers.flower is stragglers.serving.flower since version 0.2.0; change the import"
    )


@pytest.mark.parametrize("old", NEW_PATHS)
def test_every_new_path_that_is_named_exists(old):
    with pytest.raises(ModuleNotFoundError, match=f"^{old} is {NEW_PATHS[old]} since"):
        importlib.import_module(old)
    importlib.import_module(NEW_PATHS[old])
