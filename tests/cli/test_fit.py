"""`stragglers fit`: what it prints, what it writes, and that it leaves nothing half-written."""

import csv
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from stragglers._core import files
from stragglers.cli.main import main
from tests.support.command import plan, refused, run

PARTS = ["client", "group", "examples", "communication", "overhead", "training"]
WHOLE = ["client", "group", "examples", "seconds"]
NAMES = ["a,b", 'say "hi"', "ünï ☃", "two\nlines", "esc\x1b[31m", "a.b", "#[x]", "'q'"]


def participations(whole=False, lost=0.0, groups=("new", "old"), clients=60, times=3):
    rng = np.random.default_rng(0)
    for number in range(clients * times):
        client = number % clients
        examples = 5 + 7 * client % 90
        parts = [
            rng.lognormal(2, 0.5),
            rng.lognormal(1, 0.2),
            0.2 * examples * rng.lognormal(0, 0.3),
        ]
        seconds = [sum(parts)] if whole else parts
        if rng.random() < lost:
            seconds = [""] * len(seconds)
        yield [f"{groups[0]} {client}", groups[client % len(groups)], examples, *seconds]


def write(path, rows, header=PARTS):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write(tmp_path / "log.csv", participations(lost=0.1))


def here():
    return sorted(path.name for path in Path().iterdir())


def test_it_prints_what_it_found_and_writes_nothing(capsys, log):
    code, out, err = run(capsys, "fit", log)
    assert (code, err) == (0, "")
    for part in (
        "180 participations of 60 clients",
        "new",
        "old",
        "per_example",
        "lognormal mu: ",
        "never reported",
        "persistence",
        "correlation",
        "--out",
    ):
        assert part in out
    assert here() == ["log.csv"]


def test_json_is_one_object(capsys, log):
    code, out, err = run(capsys, "fit", log, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "") and out.count("\n") == 1
    assert found["participations"] == 180 and found["clients"] == 60
    assert found["written"] is None and 120 < found["reports"] < 180
    old = found["groups"]["old"]
    assert old["clients"] == 30 and 0 < old["drop_out"] < 0.3
    assert old["factors"]["per_example"]["mu"] == pytest.approx(np.log(0.2), abs=0.15)
    for level, rel in (("50", 0.1), ("95", 0.25)):
        assert old["seconds"]["fitted"][level] == pytest.approx(
            old["seconds"]["log"][level], rel=rel
        )


@pytest.mark.parametrize("whole", [False, True])
def test_what_it_writes_is_a_fleet_to_plan(capsys, log, whole):
    rows = list(participations(whole, lost=0.1))
    write(Path(log), rows, WHOLE if whole else PARTS)
    code, out, _ = run(capsys, "fit", log, "--out", "fleet.toml")
    assert code == 0 and "written: fleet.toml, fleet-clients.csv" in out
    assert here() == ["fleet-clients.csv", "fleet.toml", "log.csv"]
    text = Path("fleet.toml").read_text()
    assert "\n[latency.groups.new]\ncommunication = { kind = " in text
    assert '\nbusy = "skip"\n' in text  # as with devices, which work for one server step at a time
    longest = max(sum(row[3:]) for row in rows if row[3] != "")
    assert tomllib.loads(text)["schedule"]["round_timeout"] == np.ceil(longest)
    told = plan(capsys, "fleet.toml")
    assert told["clients"] == 60 and told["share"]["old"]["population"] == 0.5
    assert told["faults"]["drop_out"] > 0 and told["groups"].keys() == {"new", "old"}
    assert plan(capsys, "fleet.toml", "--set", "over_selection=1")["time_s"] > told["time_s"]


@pytest.mark.parametrize("clients, small", [(58, ["new", "old"]), (59, ["old"]), (60, [])])
def test_a_group_too_small_for_more_is_named(capsys, log, clients, small):
    write(Path(log), participations(whole=True, clients=clients, times=1), WHOLE)
    code, out, err = run(capsys, "fit", log)
    line = "fewer than 30 clients, too few for more than three numbers from sums"
    assert (code, err) == (0, "") and (line in out) == bool(small)
    assert not small or f"\n{', '.join(small)}: {line}" in out
    groups = json.loads(run(capsys, "fit", log, "--json")[1])["groups"]
    assert [name for name in groups if groups[name]["few"]] == small


def test_a_fleet_of_one_client_is_planned_too(capsys, log):
    write(Path(log), participations(clients=1, times=30))
    assert run(capsys, "fit", log, "--out", "fleet.toml")[0] == 0
    assert plan(capsys, "fleet.toml")["clients"] == 1


def test_json_says_where_it_was_written(capsys, log):
    out = run(capsys, "fit", log, "--out", "fleet.toml", "--json")[1]
    assert json.loads(out)["written"] == "fleet.toml"


def test_any_name_survives(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odd = write(tmp_path / "two\nlines = 3.csv", participations(groups=NAMES, clients=160))
    code, out, _ = run(capsys, "fit", odd, "--out", "f.toml")
    assert code == 0 and "\x1b" not in out
    assert plan(capsys, "f.toml")["groups"].keys() == set(NAMES)


@pytest.mark.parametrize("there", ["fleet.toml", "fleet-clients.csv"])
def test_nothing_is_overwritten(capsys, log, there):
    Path(there).write_text("mine")
    assert f"{there}: is there already" in refused(capsys, "fit", log, "--out", "fleet.toml")
    assert Path(there).read_text() == "mine" and here() == sorted(["log.csv", there])


@pytest.mark.parametrize(
    "out, complaint",
    [
        ("fleet.json", "ends in .toml"),
        ("fleet.TOML", "ends in .toml"),
        ("", "ends in .toml"),
        ("no/such/fleet.toml", "no folder 'no/such'; create it first"),
        ("two\nlines.toml", "two\\nlines.toml: expected a name"),
    ],
)
def test_a_bad_place_is_one_line_before_the_log_is_read(capsys, log, out, complaint):
    Path(log).write_text("no log")
    assert complaint in refused(capsys, "fit", log, "--out", out)
    assert here() == ["log.csv"]


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("client,examples,seconds\na,1,soon\n", "log.csv: line 2: 'a,1,soon'"),
        ("client,examples,seconds\na,1,\n", "log.csv: no report of group 'everybody'"),
    ],
)
def test_a_bad_log_is_one_line_and_no_file(capsys, log, text, complaint):
    Path(log).write_text(text)
    assert complaint in refused(capsys, "fit", log, "--out", "fleet.toml")
    assert here() == ["log.csv"]


def test_groups_whose_names_no_plan_would_read_are_refused(capsys, log):
    write(Path(log), participations(groups=["x" * 9000, "y" * 9000]))
    line = refused(capsys, "fit", log, "--out", "fleet.toml")
    assert "names of groups are too long" in line and here() == ["log.csv"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_without_the_fleet_there_are_no_clients(capsys, log, monkeypatch, error):
    def failing(path, fill):
        if path.suffix == ".toml":
            with files.told(path):
                raise error
        return whole(path, fill)

    whole = files.write
    monkeypatch.setattr(files, "write", failing)
    code, out, err = run(capsys, "fit", log, "--out", "fleet.toml")
    assert code in (2, 130) and out == "" and err.count("\n") == 1
    assert here() == ["log.csv"]


def test_no_log_and_a_log_that_is_not_there(capsys, tmp_path):
    assert "CSV" in refused(capsys, "fit")
    assert "none.csv: cannot be read" in refused(capsys, "fit", str(tmp_path / "none.csv"))


def test_it_never_loads_jax(log):
    code = f"import sys; from stragglers.cli.main import main; main(['fit', {log!r}])\n"
    code += "assert not {'jax', 'matplotlib', 'scipy.stats'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_help_says_what_a_log_is(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    assert "communication, overhead, training" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("groups", [("new", "old"), ("$x_1$", "_y")])
def test_the_picture_has_every_group_as_measured_and_as_fitted(
    capsys, tmp_path, monkeypatch, groups
):
    monkeypatch.chdir(tmp_path)
    log = write(tmp_path / "a$b_c$.csv", participations(groups=groups))
    drawn = {}

    def remember(figure, path):
        drawn[path.name] = figure
        path.touch()

    monkeypatch.setattr("stragglers.report.figures.save", remember)
    code, out, err = run(capsys, "fit", log, "--figure", "fit.svg")
    assert (code, err) == (0, "") and "picture: fit.svg" in out
    (axes,) = drawn["fit.svg"].axes
    assert axes.get_title() == "a$b_c$.csv" and axes.get_xscale() == "log"
    measured, fitted = axes.lines[0], axes.lines[1]
    assert measured.get_color() == fitted.get_color() and len(axes.lines) == 2 * len(groups) + 2
    assert not measured.is_dashed() and fitted.is_dashed()
    apart = np.abs(np.log(measured.get_xdata() / fitted.get_xdata()))
    assert apart.max() < 0.5 and np.median(apart) < 0.1  # of 60 clients
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [
        *(g.replace("$", r"\$").replace("_y", " _y") for g in groups),
        "measured",
        "fitted",
    ]


def test_times_of_zero_have_no_logarithm(capsys, tmp_path):
    rows = [[f"c{i}", "all", 10, 0 if i < 30 else i] for i in range(60)]
    log = write(tmp_path / "log.csv", rows, WHOLE)
    assert run(capsys, "fit", log, "--figure", str(tmp_path / "fit.png"))[0] == 0
    assert (tmp_path / "fit.png").stat().st_size > 1000


@pytest.mark.parametrize("name", ["fit.txt", "nowhere/fit.png"])
def test_a_picture_that_cannot_be_is_refused_first(capsys, log, name):
    message = refused(capsys, "fit", log, "--figure", name, "--out", "fleet.toml")
    assert name in message and here() == ["log.csv"]
