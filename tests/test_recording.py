import json

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from stragglers import config, records
from stragglers.recording import record
from stragglers.run import prepare, train

NAME = "glyphs/per-domain/feast"
SMALL = ["writers=12", "goal=3", "updates=25", "evaluations=3"]
EXPERIMENT = config.experiment_from(config.override_all(config.read(NAME), SMALL))


def nothing(progress):
    del progress


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    record(folder, NAME, EXPERIMENT, nothing)
    return folder


def test_it_says_what_it_was_made_with_and_of(folder):
    run = json.loads((folder / "run.json").read_text())
    assert set(run["versions"]) == {"stragglers", "python", "jax", "jaxlib", "numpy"}
    assert run["versions"]["jax"] == jax.__version__
    assert run["device"] == {"platform": "cpu", "kind": "cpu", "threads": 1, "lanes": 1}
    assert run["data"]["task"] == "glyphs" and len(run["data"]["checksum"]) == 64
    assert run["schedule"]["server_steps"] == len(prepare(EXPERIMENT).schedule.time)
    assert run["started"] <= run["finished"] and run["started"].endswith("+00:00")
    assert run["status"] == "finished" and run["diverged"] is None and run["wall_s"] > 0


def test_it_holds_what_training_gives(folder):
    result = train(prepare(EXPERIMENT))
    read = records.load(folder)
    assert len(result.curve) == 3 and read.run["trained"] == result.trained
    for index, point in enumerate(result.curve):
        row = point._asdict() | point.metrics._asdict()
        same = [name for name in records.COLUMNS if name != "wall_s"]
        assert [read.curve[name][index] for name in same] == [row[name] for name in same]
    weights = load_file(folder / "model.safetensors")
    for prefix, tree in (("w", result.params), ("model", result.model)):
        names = [name for name in weights if name.startswith(f"{prefix}/")]
        leaves = jax.tree.leaves(tree)
        assert len(names) == len(leaves)
        assert sum(weights[name].size for name in names) == sum(leaf.size for leaf in leaves)
    np.testing.assert_array_equal(weights["w/0/kernel"], result.params[0]["kernel"])


def test_late_reports_are_counted_as_they_are_used(folder):
    late = records.load(folder).curve["late"]
    reports = json.loads((folder / "run.json").read_text())["schedule"]["reports"]
    assert np.all(np.diff(late) >= 0) and late[-1] == reports["late"] > 0


def test_an_interruption_leaves_what_was_evaluated_and_a_run_to_start_anew(tmp_path):
    def interrupt(progress):
        if progress.metrics is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(tmp_path / "run", NAME, EXPERIMENT, interrupt)
    left = records.load(tmp_path / "run")
    assert left.status == "running" and left.curve["step"].size == 1
    records.check_free(tmp_path / "run")
    record(tmp_path / "run", NAME, EXPERIMENT, nothing)
    again = records.load(tmp_path / "run")
    assert again.status == "finished" and again.curve["step"].size == 3
