import json
import math
from pathlib import Path

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.runs import bundles, curve, records, run_folder, tune
from stragglers.runs.tune import Objective
from tests.cli.test_main import refused, run
from tests.runs.test_records import folder_of
from tests.runs.test_trials import jobs_of

FEAST = "glyphs/per-domain/feast"
STRAGGLER = tune.parsed_objective("straggler")


def accuracy(settings):
    """What a candidate reaches here: best at kappa 0.2 and, with it, at a learning rate of 0.01."""
    rate, kappa = settings["server"]["learning_rate"], settings["algorithm"]["kappa"]
    return 0.9 - abs(kappa - 0.2) - abs(math.log10(rate / 0.01)) / 10


def write_run(folder, settings, straggler, status="finished", held_out=0.25, old=False):
    """Of all examples it has what validation and held-out ones have in the middle."""
    with run_folder.claim(folder):
        begun = run_folder.begin(folder, settings, {"name": FEAST})
        values = {name: kind(1) for name, kind in curve.COLUMNS.items()}
        halves = {"validation_": straggler, "held_out_": held_out}
        for half, value in (halves | {"": (straggler + held_out) / 2}).items():
            accuracies = (float("nan"),) * 2 if old and half else (value, 1 - value)
            names = (f"{half}straggler_accuracy", f"{half}total_accuracy")
            values |= dict(zip(names, accuracies, strict=True))
        run_folder.append(folder, values)
        run_folder.finish(folder, begun, {"w/a": np.zeros(1)}, {"status": status})
    return records.load(folder)


class Fake:
    """Trains nothing: writes what `accuracy` says, and counts how often."""

    def __init__(self, folder, diverges=lambda settings: False, held_out=lambda settings: 0.25):
        self.folder, self.diverges, self.asked, self.held_out = folder, diverges, [], held_out

    def __call__(self, candidates):
        found = []
        for document in candidates.values():
            settings = documents.completed(document)
            self.asked.append(settings)
            folder = folder_of(self.folder, FEAST, settings)
            status = "diverged" if self.diverges(settings) else "finished"
            held_out = self.held_out(settings)
            found.append([write_run(folder, settings, accuracy(settings), status, held_out)])
        return found


TWO = [{"algorithm.kappa": [0.0, 0.2, 0.5]}, {"server.learning_rate": [0.001, 0.01, 0.1]}]


def test_searches_follow_one_another(tmp_path):
    train = Fake(tmp_path)
    best, (first, second) = tune.tune(catalog.read(FEAST), TWO, STRAGGLER, train)
    assert best.document["algorithm"]["kappa"] == 0.2
    assert best.document["server"]["learning_rate"] == 0.01
    assert len(train.asked) == 3 + 3  # not nine
    assert {c.document["algorithm"]["kappa"] for c in second} == {0.2}
    assert [c.chosen["algorithm.kappa"] for c in first] == [0.0, 0.2, 0.5]


def test_one_search_over_two_settings_is_all_combinations(tmp_path):
    train = Fake(tmp_path)
    tune.tune(catalog.read(FEAST), [TWO[0] | TWO[1]], STRAGGLER, train)
    assert len(train.asked) == 9


def test_the_objective_decides(tmp_path):
    best, _ = tune.tune(
        catalog.read(FEAST), TWO[:1], tune.parsed_objective("total"), Fake(tmp_path)
    )
    # Total accuracy falls where the other rises here.
    assert best.document["algorithm"]["kappa"] == 0.5
    (trial,) = Fake(tmp_path / "b")({"": catalog.read(FEAST)})[0]
    assert Objective("balance", 0.25).of([trial]) == pytest.approx(
        0.25 * accuracy(trial.settings) + 0.75 * (1 - accuracy(trial.settings))
    )


@pytest.mark.parametrize("proposals", [None, 12])
def test_validation_alone_decides_and_what_is_held_out_is_said(tmp_path, proposals):
    """On the held-out half, and on both together, kappa = 0.5 would be best."""
    by_kappa = {0.0: 0.4, 0.2: 0.1, 0.5: 0.9}
    train = Fake(tmp_path, held_out=lambda settings: by_kappa[settings["algorithm"]["kappa"]])
    best, (tried,) = tune.tune(catalog.read(FEAST), TWO[:1], STRAGGLER, train, proposals)
    assert best.document["algorithm"]["kappa"] == best.chosen["algorithm.kappa"] == 0.2
    assert best.value == max(candidate.value for candidate in tried)
    assert best.held_out == {"straggler_accuracy": 0.1, "total_accuracy": 0.9}
    both = {c.chosen["algorithm.kappa"]: c.value + c.held_out["straggler_accuracy"] for c in tried}
    assert max(both, key=both.__getitem__) == 0.5


def test_what_is_held_out_is_the_median_over_trials(tmp_path):
    settings = documents.completed(catalog.read(FEAST))
    found = [write_run(tmp_path / str(n), settings, 0.5, "finished", 0.1 * n) for n in (1, 2, 6)]
    best, _ = tune.tune(catalog.read(FEAST), [{"kappa": [0.2]}], STRAGGLER, lambda _: [found])
    assert best.held_out == pytest.approx({"straggler_accuracy": 0.2, "total_accuracy": 0.8})


def test_trials_of_before_are_one_line_and_nothing_is_trained(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.toml").write_text("[[search]]\nkappa = [0.0, 0.2, 0.5]\n")
    document = catalog.read(FEAST)
    monkeypatch.setattr("stragglers.runs.trials.run_missing", lambda *_: pytest.fail("trained"))
    folders = []
    for kappa, status in ((0.2, "finished"), (0.5, "diverged"), (0.0, "finished")):
        given = tune._with(document, {"algorithm.kappa": kappa})
        settings = documents.completed(given)
        folders.append(folder_of(Path("runs"), FEAST, settings))
        write_run(folders[-1], settings, 0.5, status, old=True)
        line = refused(capsys, "tune", FEAST, "--grid", "grid.toml")
        assert f"{folders[-1 if len(folders) == 3 else 0]}: trained before there was a" in line
        assert "delete such folders to have them trained again, or choose another --out" in line
        assert ("by (and 1 more);" in line) == (len(folders) == 3)


def test_a_candidate_that_diverged_is_never_chosen(tmp_path):
    best_diverges = Fake(tmp_path, lambda settings: settings["algorithm"]["kappa"] == 0.2)
    best, (tried,) = tune.tune(catalog.read(FEAST), TWO[:1], STRAGGLER, best_diverges)
    assert best.document["algorithm"]["kappa"] == 0.0 and math.isnan(tried[1].value)
    with pytest.raises(BadInput, match="every candidate diverged"):
        tune.tune(catalog.read(FEAST), TWO, STRAGGLER, Fake(tmp_path / "b", lambda settings: True))


def test_optuna_proposes_from_the_same_values_and_repeats_itself(tmp_path):
    grid = [TWO[0] | TWO[1]]
    asked = []
    for name in "ab":
        train = Fake(tmp_path / name, lambda settings: settings["algorithm"]["kappa"] == 0.5)
        best, (tried,) = tune.tune(catalog.read(FEAST), grid, STRAGGLER, train, proposals=12)
        asked.append([settings["algorithm"] for settings in train.asked])
        assert len(train.asked) == len(tried) <= 9
        assert best.document["algorithm"]["kappa"] != 0.5
    assert asked[0] == asked[1]


PUBLISHED = [n for n in catalog.presets() if n.partition("/")[2] in tune.grids()]


@pytest.mark.parametrize("name", [name for name in PUBLISHED if not name.startswith("glyphs")])
def test_tuned_values_were_scanned(name):
    """Every published row lies on its grid, but for the one that the paper contradicts."""
    document = catalog.read(name)
    grid = name.partition("/")[2]
    for search in tune.checked_grid(document, tune.read_grid(grid)):
        for path, values in search.items():
            section, key = path.split(".")
            if (name.split("/")[0], path) == ("stackoverflow", "schedule.late_rounds"):
                assert document[section][key] == 100 and 100 not in values
            else:
                assert document[section].get(key, 0.0) in values, (path, values)


def test_the_papers_grids_are_as_large_as_it_says():
    sizes = {
        name: [len(list(tune.combinations(s))) for s in tune.read_grid(name)]
        for name in tune.grids()
    }
    for latency, rates in (("per-example", 6), ("per-domain", 5)):
        assert sizes[f"{latency}/fedbuff"] == [rates**2, 4 * 3]
        assert sizes[f"{latency}/fedbuff-ema"] == [4]
        assert sizes[f"{latency}/fedbuff-kd"] == sizes[f"{latency}/fedbuff-l2"] == [7]
        assert sizes[f"{latency}/fare-dust"] == [9 * 6 * 7]
        assert sizes[f"{latency}/feast"] == [7 * 5 * 6]
    assert len(sizes) == 12


@pytest.mark.parametrize("row, trained", [("feast", 7), ("fare-dust", 9 * 7), ("fedbuff-ema", 1)])
def test_candidates_that_differ_aside_of_training_are_trained_once(tmp_path, row, trained):
    document = catalog.read(f"emnist/per-domain/{row}")
    (search,) = tune.checked_grid(document, tune.read_grid(f"per-domain/{row}"))
    chosen = [tune._with(document, one) for one in tune.combinations(search)]
    jobs = [job for one in chosen for job in jobs_of({row: one}, 1, tmp_path)]
    bundled = bundles.bundles(jobs, together=1)
    assert len(bundled) == trained and sum(map(len, bundled)) == len(jobs)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("search = 1", "expected [[search]] tables"),
        ("[[search]]", "expected [[search]] tables"),
        ("[[search]]\nkappa = 0.5", "kappa: 0.5 given, expected a list of values"),
        ("[[search]]\nkappa = []", "kappa: [] given, expected a list of values"),
        ("[[search]]\nkapa = [0.5]", "did you mean"),
        ("[[search]]\nkappa = [0.5, 2.0]", "algorithm.kappa = 2.0"),
        ("[[search]]\nkappa = [1979-05-27]", "expected a number"),
        ("[[search]\n", "not valid TOML"),
        ("[[search]]\nkappa = [0.2, 0.5, 0.50]", "algorithm.kappa: 0.5 and 0.5 given, expected"),
        ("[[search]]\nkappa = [0, 0.0]", "kappa: 0 and 0.0 given, expected different experiments"),
        ("[[search]]\nupdates = [30, 30]", "updates: 30 and 30 given, expected different"),
        ("[[search]]\nseed = [0, 1]", "seed: 0 and 1 given, expected different experiments"),
        ("[[search]]\nkappa = [0.5]\n'algorithm.kappa' = [0.2]", "kappa and algorithm.kappa in"),
        ("[[search]]\ncohort = [20]\nover_selection = [1.5]", "cohort and over_selection in one"),
    ],
)
def test_bad_grids_are_one_line_before_any_training(capsys, tmp_path, monkeypatch, text, why):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.toml").write_text(text)
    line = refused(capsys, "tune", FEAST, "--grid", "grid.toml")
    assert line.startswith("stragglers: grid.toml: ") and why in line
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--objective", "stragler"], "did you mean 'straggler'?"),
        (["--objective", "balance=2"], "a weight from 0 to 1"),
        (["--objective", "total=0.5"], "expected balance=WEIGHT"),
        (["--proposals", "0"], "proposals=0, expected at least 1"),
        (["--trials", "0"], "trials=0, expected at least 1"),
        (["--grid", "per-domain/fest"], "did you mean 'per-domain/feast'?"),
    ],
)
def test_mistakes_are_one_line(capsys, tmp_path, monkeypatch, arguments, why):
    monkeypatch.chdir(tmp_path)
    assert why in refused(capsys, "tune", FEAST, *arguments)


def test_presets_without_a_grid_and_several_at_once_are_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = refused(capsys, "tune", "glyphs/per-domain/fedavg")
    assert "no grid 'per-domain/fedavg'" in line and "give --grid FILE" in line
    assert "one is tuned at a time" in refused(capsys, "tune", "glyphs")


def test_values_are_read_as_they_are_written():
    document = catalog.read(FEAST)
    values = {"late_seconds": [100.0, math.inf], "check_in": [{"straggler": 0.5}]}
    (whole,) = tune.checked_grid(document, [values])
    given = [tune._with(document, chosen)["schedule"] for chosen in tune.combinations(whole)]
    assert [schedule["late_seconds"] for schedule in given] == [100.0, math.inf]
    assert [schedule["check_in"] for schedule in given] == 2 * [{"straggler": 0.5}]
    assert tune.label({"schedule.late_seconds": math.inf}) == "late_seconds=inf"


def test_the_command_leaves_a_preset_and_a_page_and_goes_on(capsys, tmp_path, monkeypatch):
    """Twice it runs out of time; the third time it finds what is there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faults.csv").write_text("client,crash\n" + "x,0.1\n" * 200)
    (tmp_path / "grid.toml").write_text(
        '[[search]]\nkappa = [0.0, 0.2]\n[[search]]\n"server.learning_rate" = [0.01, 0.1]\n'
    )
    trained, budget = [], iter([1, 1])

    def run_missing(jobs, processes, terms, together):
        wanted = [job for job in jobs if not records.is_over(job.folder)]
        for job in wanted[: next(budget, None)]:
            settings = job.experiment.document
            write_run(job.folder, settings, accuracy(settings))
            trained.append(job.label)
        return [job for job in jobs if not records.is_over(job.folder)]

    monkeypatch.setattr("stragglers.runs.trials.run_missing", run_missing)
    arguments = (
        "tune",
        FEAST,
        "--grid",
        "grid.toml",
        "--trials",
        "2",
        "--out",
        "out",
        "--set",
        "faults.csv=faults.csv",
    )
    code, out, _ = run(capsys, *arguments, "--json")
    left = [f"{FEAST} {trial}/2, kappa={kappa}" for kappa in (0.0, 0.2) for trial in (1, 2)]
    said = json.loads(out)
    assert code == 0 and said.keys() == {"objective", "left"} and said["left"] == left[1:]
    code, out, _ = run(capsys, *arguments)
    assert code == 0 and "trains the rest" in out and len(trained) == 2
    code, out, _ = run(capsys, *arguments)
    assert code == 0 and "the best of 2" in out and len(trained) == len(set(trained)) == 2 * 4
    assert "straggler accuracy, validation" in out
    assert "on held-out examples: straggler accuracy 25.0 %, total accuracy 75.0 %\n" in out
    tuned = catalog.read(str(tmp_path / "out" / FEAST / "tuned.toml"))
    assert (tuned["algorithm"]["kappa"], tuned["server"]["learning_rate"]) == (0.2, 0.01)
    copy = Path(tuned["faults"]["csv"])  # a preset is whole without the files that it was made of
    assert copy.parent == tmp_path / "out" / FEAST
    assert copy.read_bytes() == (tmp_path / "faults.csv").read_bytes()
    page = (tmp_path / "out" / FEAST / "tune.html").read_text()
    assert "4 experiments, 8 trials" in page
    assert run(capsys, *arguments)[1] == out and len(trained) == 8
    said = json.loads(run(capsys, *arguments, "--json")[1])
    assert said["left"] == [] and [len(search) for search in said["searches"]] == [2, 2]
    assert said["best"]["value"] == max(one["value"] for one in said["searches"][-1])
    assert said["best"]["held_out"] == {"straggler_accuracy": 0.25, "total_accuracy": 0.75}


def matched_run(folder, kappa, straggler):
    """Validation accuracies that are equal for all, but for the prior-matched ones."""
    document = tune._with(catalog.read(FEAST), {"algorithm.kappa": kappa})
    settings = documents.completed(document)
    trial = write_run(folder / str(kappa), settings, 0.5)
    values = {
        "validation_matched_straggler_accuracy": straggler,
        "validation_matched_total_accuracy": 1 - straggler,
        "matched_straggler_accuracy": 0.1,
        "matched_total_accuracy": 0.2,
    }
    return trial._replace(curve=trial.curve | {key: np.array([v]) for key, v in values.items()})


@pytest.mark.parametrize(
    "text, kappa",
    [("matched-straggler", 0.5), ("matched-total", 0.0), ("matched-balance=0.8", 0.5)],
)
def test_a_matched_objective_goes_by_matched_accuracies(tmp_path, text, kappa):
    by_kappa = {0.0: 0.3, 0.2: 0.4, 0.5: 0.6}

    def train(candidates):
        kappas = [document["algorithm"]["kappa"] for document in candidates.values()]
        return [[matched_run(tmp_path, one, by_kappa[one])] for one in kappas]

    objective = tune.parsed_objective(text)
    best, (tried,) = tune.tune(catalog.read(FEAST), TWO[:1], objective, train)
    assert best.chosen["algorithm.kappa"] == kappa
    weight = {"matched-straggler": 1, "matched-total": 0}.get(text, 0.8)
    assert [c.value for c in tried] == pytest.approx(
        [weight * one + (1 - weight) * (1 - one) for one in by_kappa.values()]
    )
    assert best.held_out == {"straggler_accuracy": 0.1, "total_accuracy": 0.2}


def test_what_has_no_matched_accuracies_is_one_line(capsys, tmp_path):
    settings = documents.completed(catalog.read(FEAST))
    trial = write_run(tmp_path / "a", settings, 0.5)  # of before they were measured
    trial = trial._replace(
        curve=trial.curve | {"validation_matched_total_accuracy": np.array([math.nan])}
    )
    tune.check_validated([trial], STRAGGLER)
    with pytest.raises(BadInput, match="before there was a validation accuracy to choose by"):
        tune.check_validated([trial], tune.parsed_objective("matched-total"))
    words = "stackoverflow/per-domain/feast", "--objective", "matched-total"
    line = refused(capsys, "tune", *words)
    assert "task 'stackoverflow' has no straggler classes" in line
