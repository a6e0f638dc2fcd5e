import json
from contextlib import closing

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.runs import curve, records, run_folder
from stragglers.runs.recorder import Said, record
from stragglers.runs.train import prepare, simulation
from stragglers.simulator.events import Evaluated, Progressed
from stragglers.simulator.simulate import results

NAME = "glyphs/per-domain/feast"
SMALL = ["writers=12", "goal=3", "updates=25", "evaluations=3"]
EXPERIMENT = documents.settings_from(documents.override_all(catalog.read(NAME), SMALL))


def events(folder, experiments=(EXPERIMENT,), **options):
    folders = [folder / f"run{number}" for number in range(len(experiments))]
    return record(folders, [NAME] * len(folders), experiments, **options)


def recorded(folder, experiments=(EXPERIMENT,)):
    return results(events(folder, experiments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    recorded(folder)
    return folder / "run0"


def test_it_says_what_it_was_made_with_and_of(folder):
    run = json.loads((folder / "run.json").read_text())
    assert set(run["versions"]) == {"stragglers", "python", "jax", "jaxlib", "numpy"}
    assert run["versions"]["jax"] == jax.__version__
    assert run["device"] == {
        "platform": "cpu",
        "kind": "cpu",
        "threads": 1,
        "devices": 1,
        "lanes": 1,
        "trials_together": 1,
        "models_together": 1,
    }
    *parts, other, preparing = run["memory"].items()
    assert all(size > 0 for _, size in parts)
    assert (other, preparing) == (("other", 0), ("preparing", 0))  # which a CPU does not tell
    assert run["data"]["task"] == "glyphs" and len(run["data"]["checksum"]) == 64
    assert run["schedule"]["server_steps"] == len(prepare(EXPERIMENT).schedule.time)
    assert run["started"] <= run["finished"] and run["started"].endswith("+00:00")
    assert run["status"] == "finished" and run["diverged"] is None and run["wall_s"] > 0


def test_it_holds_what_training_gives(folder):
    trained = simulation([prepare(EXPERIMENT)])
    (result,) = results(trained.events(trained.first()))
    read = records.load(folder)
    assert len(result.curve) == 3 and read.run["trained"] == result.trained
    for index, point in enumerate(result.curve):
        row = point._asdict() | point.metrics
        same = [name for name in curve.COLUMNS if name != "wall_s"]
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
    with pytest.raises(KeyboardInterrupt), closing(events(tmp_path)) as happening:
        for event in happening:
            if isinstance(event, Progressed) and event.metrics is not None:
                raise KeyboardInterrupt
    left = records.load(tmp_path / "run0")
    assert left.status == "running" and left.curve["step"].size == 1
    run_folder.check_free(tmp_path / "run0")
    recorded(tmp_path)
    again = records.load(tmp_path / "run0")
    assert again.status == "finished" and again.curve["step"].size == 3


def test_closed_in_mid_run_it_leaves_no_lock_and_a_run_to_resume(tmp_path, folder):
    happening = events(tmp_path, checkpoint_s=0)
    for event in happening:
        if isinstance(event, Evaluated):
            break
    with pytest.raises(BadInput, match="another process is writing this run"):
        run_folder.check_free(tmp_path / "run0")
    happening.close()
    run_folder.check_free(tmp_path / "run0")
    assert records.load(tmp_path / "run0").status == "running"
    (resumed,) = (event for event in events(tmp_path) if isinstance(event, Said))
    assert resumed.line.startswith("resumes from server step")
    weights = [place / "model.safetensors" for place in (folder, tmp_path / "run0")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def crashes(share):
    return "\n".join(["client,crash", *(f"{client},{share}" for client in range(12))])


def test_a_file_that_changes_while_it_is_prepared_begins_no_run(tmp_path, monkeypatch):
    """Its copy would not be what was trained on."""
    file = tmp_path / "faults.csv"
    file.write_text(crashes(0.1))
    sets = [*SMALL, f"faults.csv={file}", "round_timeout=1000"]
    experiment = documents.settings_from(documents.override_all(catalog.read(NAME), sets))
    ready = prepare

    def prepared(*arguments):
        found = ready(*arguments)
        file.write_text(crashes(0.2))
        return found

    monkeypatch.setattr("stragglers.runs.recorder.prepare", prepared)
    with pytest.raises(BadInput, match="a file that its settings name has changed"):
        recorded(tmp_path, experiments=[experiment])
    assert [path.name for path in (tmp_path / "run0").iterdir()] == ["lock"]
    monkeypatch.undo()
    recorded(tmp_path, experiments=[experiment])
    assert records.load(tmp_path / "run0").status == "finished"


def test_trials_together_land_in_folders_of_their_own(tmp_path, folder):
    other = documents.settings_from(
        documents.override_all(catalog.read(NAME), [*SMALL, "seed=1", "lanes=4"])
    )
    recorded(
        tmp_path,
        experiments=[
            documents.settings_from(
                documents.override_all(catalog.read(NAME), [*SMALL, "lanes=4"])
            ),
            other,
        ],
    )
    first, second = (records.load(tmp_path / f"run{trial}") for trial in (0, 1))
    alone = records.load(folder)
    assert first.run["device"]["trials_together"] == second.run["device"]["trials_together"] == 2
    assert (first.seed, second.seed) == (0, 1)
    for column in ("step", "updates", "time_s", "local_steps"):
        np.testing.assert_array_equal(first.curve[column], alone.curve[column])
    np.testing.assert_allclose(first.curve["total_loss"], alone.curve["total_loss"], rtol=1e-4)
    assert not np.array_equal(first.curve["time_s"], second.curve["time_s"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, sets",
    [
        ("feast", [["kappa=0.0"], [], ["kappa=0.2", "beta=0.8"], ["ema=0.5"]]),
        ("fare-dust", [["ema=0.0"], [], ["average=corrected"]]),
        ("fedavg", [["ema=0.5"], []]),
    ],
)
def test_models_of_one_training_have_the_bits_of_their_own(tmp_path, name, sets):
    document = documents.override_all(catalog.read(f"glyphs/per-domain/{name}"), SMALL)
    each = [documents.settings_from(documents.override_all(document, some)) for some in sets]
    recorded(tmp_path / "together", experiments=each)
    for number, experiment in enumerate(each):
        recorded(tmp_path / str(number), experiments=[experiment])
        own = records.load(tmp_path / str(number) / "run0")
        one = records.load(tmp_path / "together" / f"run{number}")
        assert one.settings == own.settings and one.run["trained"] == own.run["trained"]
        assert one.run["device"] == own.run["device"] | {"models_together": len(sets)}
        for column in set(curve.COLUMNS) - {"wall_s"}:
            np.testing.assert_array_equal(one.curve[column], own.curve[column])
        weights = [record.folder / "model.safetensors" for record in (one, own)]
        assert weights[0].read_bytes() == weights[1].read_bytes()
