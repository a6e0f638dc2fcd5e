"""`stragglers run`, small: the real command line on a tiny glyphs task."""

import json
import time
from pathlib import Path

import pytest

from stragglers._core import toml_files
from stragglers.cli.common import checked_training
from stragglers.cli.main import _parser, main
from stragglers.config import catalog, documents
from stragglers.runs import records

SMALL = (
    "--set writers=12 --set goal=3 --set over_selection=1.6 --set updates=30 --set evaluations=2"
)


def train(capsys, tmp_path, *arguments, small=SMALL):
    code = main(["run", *arguments, *small.split(), "--out", str(tmp_path / "out")])
    return code, *capsys.readouterr()


def test_every_algorithm_trains_and_lands_in_table_and_picture(capsys, tmp_path):
    names = [f"glyphs/per-domain/{row}" for row in ("fedadam", "fare-dust", "feast")]
    each = ("--trials", "2", "--processes", "1", "--together", "1")
    code, out, err = train(capsys, tmp_path, *names, *each, "--json")
    assert code == 0, err
    runs = json.loads(out)["runs"]
    assert [run["name"] for run in runs] == [name for name in names for _ in range(2)]
    assert [run["seed"] for run in runs] == 3 * [0, 1]
    for run in runs:
        first, last = run["curve"]
        assert 0 < first["updates"] < last["updates"] <= 30 and first["time_s"] < last["time_s"]
        assert 0 <= last["straggler_accuracy"] <= 1 and last["dropped"] == 0
        assert run["status"] == "finished" and run["run"]["trained"] >= 24
        assert (last["late"] > 0) == (not run["name"].endswith("fedadam"))
    told = [line for line in err.splitlines() if line.startswith(f"{names[0]} 1/2: ")]
    assert "one client at a time on cpu, memory " in told[0] and "straggler " in told[1]
    losses = [run["curve"][-1]["total_loss"] for run in runs]
    assert len(set(losses)) == len(losses)
    assert (tmp_path / "out" / "accuracy.png").stat().st_size > 10_000
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "accuracy.png",
        "glyphs",
        "report.html",
    ]
    assert [record.folder for record in records.find([tmp_path / "out"])] == sorted(
        Path(run["folder"]) for run in runs
    )


def test_what_is_there_is_not_trained_again(capsys, tmp_path, monkeypatch):
    code, before, err = train(capsys, tmp_path, "glyphs/per-domain/fedadam", "--json")
    assert code == 0 and "are there" not in err
    code, after, err = train(capsys, tmp_path, *2 * ["glyphs/per-domain/fedadam"], "--json")
    assert code == 0 and "given twice" in err and "1 of 1 trials are there already" in err
    assert before == after
    code, after, err = train(
        capsys, tmp_path, "glyphs/per-domain/fedadam", "--json", "--set", "client.epochs=2"
    )
    assert code == 0 and "are there" not in err
    assert json.loads(after)["runs"][0]["hash"] not in before


@pytest.mark.slow
def test_a_sweep_trains_all_values_and_each_once(capsys, tmp_path):
    name = "glyphs/per-domain/feast"
    sweep = "--sweep kappa=0,0.5,0.50 --sweep client.learning_rate=0.05,0.1"
    code, out, err = train(capsys, tmp_path, name, *sweep.split(), "--json", "--processes", "1")
    assert code == 0, err
    runs = json.loads(out)["runs"]
    found = [
        (
            run["settings"]["algorithm"]["kappa"],
            run["settings"]["client"]["learning_rate"],
            run["run"]["device"]["models_together"],
        )
        for run in runs
    ]
    assert found == [(0.0, 0.05, 2), (0.0, 0.1, 2), (0.5, 0.05, 2), (0.5, 0.1, 2)]
    assert f"{name} 1/1, algorithm.kappa=0.5, client.learning_rate=0.05: straggler" in err
    code, out, err = train(capsys, tmp_path, name, "--sweep", "seed=0,1", "--trials", "2", "--json")
    assert [run["seed"] for run in json.loads(out)["runs"]] == [0, 1, 2]


def test_settings_that_were_saved_run_again(capsys, tmp_path):
    _, before, _ = train(capsys, tmp_path, "glyphs/per-domain/feast", "--json", "--seed", "3")
    run = json.loads(before)["runs"][0]
    saved = str(Path(run["folder"]) / "settings.toml")
    code, after, _ = train(capsys, tmp_path / "elsewhere", saved, "--json", small="")
    again = json.loads(after)["runs"][0]
    assert code == 0 and again["settings"] == run["settings"]
    name = "glyphs/per-domain/feast"
    assert (again["name"], again["hash"], again["seed"]) == (name, run["hash"], 3)
    _, same, err = train(capsys, tmp_path, saved, "--json", small="")
    assert same == before and "1 of 1 trials are there already" in err
    for a, b in zip(run["curve"], again["curve"], strict=True):
        assert {**a, "wall_s": 0} == {**b, "wall_s": 0}


def test_a_run_can_be_repeated_when_the_files_that_it_names_are_gone(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("seconds.csv").write_text("20\n30\n90\n")
    shares = [f"{client},0.1" for client in range(12)]
    Path("faults.csv").write_text("\n".join(["client,drop_out", *shares]))
    sampled = {"kind": "samples", "file": "seconds.csv"}
    factors = dict.fromkeys(("communication", "overhead", "per_example"), sampled)
    latency = {"model": "groups", "groups": {"standard": factors, "straggler": factors}}
    document = {**catalog.read("glyphs/per-domain/fedadam"), "latency": latency}
    Path("mine.toml").write_text(toml_files.dumps(document))
    given = ["mine.toml", "--json", "--set", "faults.csv=faults.csv", "--set", "round_timeout=1e6"]
    code, before, err = train(capsys, tmp_path, *given)
    assert code == 0, err
    run = json.loads(before)["runs"][0]
    _, _, err = train(capsys, tmp_path, *given)
    assert "1 of 1 trials are there already" in err
    Path("seconds.csv").unlink()
    Path("faults.csv").unlink()
    saved = str(Path(run["folder"]) / "settings.toml")
    code, after, err = train(capsys, tmp_path, saved, "--json", small="")
    assert code == 0, err
    again = json.loads(after)["runs"][0]
    assert again["hash"] == run["hash"] and again["settings"] == run["settings"]
    assert [{**point, "wall_s": 0} for point in again["curve"]] == [
        {**point, "wall_s": 0} for point in run["curve"]
    ]


def test_time_that_is_over_is_no_mistake(capsys, tmp_path):
    arguments = ("glyphs/per-domain/fedadam", "--trials", "2", "--minutes", "1e-9")
    code, out, err = train(capsys, tmp_path, *arguments)
    assert code == 0 and err == ""
    assert out == "2 of 2 trials are left; the same command trains them\n"
    assert json.loads(train(capsys, tmp_path, *arguments, "--json")[1]) == {
        "runs": [],
        "left": ["glyphs/per-domain/fedadam 1/2", "glyphs/per-domain/fedadam 2/2"],
    }


def test_the_table_is_sorted_by_straggler_accuracy(capsys, tmp_path):
    code, out, _ = train(capsys, tmp_path, "glyphs/per-domain/fedadam")
    assert code == 0 and "straggler accuracy" in out and "picture:" in out


def test_a_time_limit_that_never_bites_changes_no_bit(capsys, tmp_path):
    curves = []
    for limit in ("", "--set time_limit.seconds=1e6 --set fill=false"):
        name = "glyphs/per-domain/fedadam"
        code, out, err = train(capsys, tmp_path, name, *limit.split(), "--json")
        assert code == 0, err
        curve = json.loads(out)["runs"][0]["curve"]
        curves.append([{**point, "wall_s": 0} for point in curve])
    assert curves[0] == curves[1]


@pytest.mark.parametrize(
    "changes",
    [
        "--set time_limit.seconds=1",
        "--set time_limit.seconds=1 --set fill=false",
        "--set last_batch=drop --set batch_size=5000",
        "--set client.epochs=0.001",
        "--set time_limit.seconds=1 --set faults.nan=0.5",
    ],
)
def test_reports_without_a_local_step_teach_nothing(capsys, tmp_path, changes):
    code, out, err = train(capsys, tmp_path, "glyphs/per-domain/fedadam", *changes.split())
    assert code == 2 and out == "" and err.count("\n") == 1
    assert "none of the 30 reports that would count has a local step" in err
    assert not list((tmp_path / "out").rglob("*.json"))


def test_the_curve_may_use_fewer_test_examples_than_its_end(capsys, tmp_path):
    arguments = ("glyphs/per-domain/fedadam", "--json", "--set", "curve_examples=50")
    code, out, _ = train(capsys, tmp_path, *arguments)
    curve = json.loads(out)["runs"][0]["curve"]
    assert code == 0 and [point["test_examples"] for point in curve] == [50, 12 * 20]


def test_buffers_train_too(capsys, tmp_path):
    small = "--set writers=12 --set buffer=3 --set concurrency=6 --set updates=30"
    code, out, _ = train(capsys, tmp_path, "glyphs/per-domain/fedbuff-ema", "--json", small=small)
    assert code == 0 and json.loads(out)["runs"][0]["run"]["trained"] == 30


def test_a_run_in_which_everybody_diverges_says_so(capsys, tmp_path):
    code, out, err = train(
        capsys, tmp_path, "glyphs/per-domain/fedadam", "--set", "client.learning_rate=1e30"
    )
    assert code == 0 and "every client diverged" in err and "diverged" in out
    (record,) = records.find([tmp_path / "out"])
    assert record.status == "diverged" and "every client diverged" in (record.diverged or "")


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
    "glyphs/per-domain/feast --sweep kappa=0,2": "algorithm.kappa=2: algorithm.kappa: 2 given",
    "glyphs/per-domain/feast --sweep kappa": "--sweep 'kappa' given, expected key=value,value,...",
    "glyphs/per-domain/feast --sweep goal=2,3 --sweep goal=4": "exclude each other; give one",
    "glyphs/per-domain/fare-dust --set late_seconds=9": "schedule.late_rounds",
    "glyphs/per-domain/fare-dust --set late_rounds=90000000": "history of 90000000 models",
    "glyphs/per-domain/fedadam --reading liberal": "did you mean 'literal'",
    "glyphs/per-domain/fedadam --set server.optimizer=adm": "did you mean 'adam'",
    "fleet": "a fleet has no data",
    "glyphs/per-domain/feast glyphs/per-domain/fedavg --set kappa=1": "glyphs/per-domain/fedavg: ",
    "glyphs/per-domain/fedadam --set cohort=3": "glyphs/per-domain/fedadam: goal=20 reports",
    "glyphs/per-domain/fedadam --set epochs=1e9": "expected at most 2,147,483,627; lower `epochs`",
    "glyphs/per-domain/fedadam --set epochs=1e300": "go through 1,000,000,000,000,000 examples",
    "glyphs --minutes 0": "minutes=0, expected more than 0",
    "glyphs --minutes nan": "minutes=nan",
    "glyphs --checkpoint-minutes -1": "checkpoint-minutes=-1, expected 0 or more",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_is_one_line(capsys, tmp_path, arguments):
    code, out, err = train(capsys, tmp_path, *arguments.split(), small="--set updates=100")
    assert code == 2 and out == "" and err.count("\n") == 1, err
    assert BAD[arguments] in err
    assert list((tmp_path / "out").glob("*")) == []


def test_an_unwritable_folder_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code = main(["run", "--out", str(tmp_path / "file" / "runs")])
    assert code == 2 and "no folder for results" in capsys.readouterr().err


def test_the_literal_reading_is_another_experiment():
    for row in ("fare-dust", "feast"):
        document = catalog.read(f"emnist/per-domain/{row}")
        ours = documents.settings_from(document)
        literal = documents.settings_from(documents.with_reading(document, "literal"))
        assert (literal.server, literal.algorithm) != (ours.server, ours.algorithm)
    assert literal.client.learning_rate == 0.1 and literal.server.learning_rate == 0.006


def test_minutes_are_minutes():
    parser = _parser()
    before = time.time()
    options = parser.parse_args(["run", "--minutes", "2", "--checkpoint-minutes", "0.5"])
    count, terms = checked_training(options, default=3)
    assert count == 3 and terms.checkpoint_s == 30
    assert before + 120 <= terms.deadline <= time.time() + 120


def test_help_says_how_to_stop_a_run_that_ignores_ctrl_c(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "SIGTERM" in said and "nohup" in said and "the same command resumes" in said
