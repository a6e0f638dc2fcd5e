"""Mistakes on the command line and in files: exit code 2, and one line that names them."""

import pytest

from tests.support.command import FLEET, factors, fleet, refused


def test_latencies_beyond_all_numbers_never_report(capsys, tmp_path):
    fleet(tmp_path / "c.csv", [(i, 5, "all") for i in range(9)])
    (tmp_path / "f.toml").write_text(
        "updates = 100\n"
        + FLEET.format(csv="c.csv").replace("per-example", "groups")
        + "[latency.groups.all]\n"
        + factors('{kind = "lognormal", mu = 800.0, sigma = 1.0}')
        + '[schedule]\nkind = "over_selected"\ngoal = 2\n'
    )
    assert "check the latencies" in refused(capsys, "plan", str(tmp_path / "f.toml"))


@pytest.mark.filterwarnings("error")
def test_measured_latencies_that_add_up_beyond_all_numbers_never_report(capsys, tmp_path):
    fleet(tmp_path / "c.csv", [(i, 5, "all") for i in range(9)])
    (tmp_path / "s.csv").write_text("1e308\n1e308\n")
    (tmp_path / "f.toml").write_text(
        "updates = 100\n"
        + FLEET.format(csv="c.csv").replace("per-example", "groups")
        + "[latency.groups.all]\n"
        + factors('{kind = "samples", file = "s.csv"}')
        + '[schedule]\nkind = "over_selected"\ngoal = 2\n'
    )
    assert "check the latencies" in refused(capsys, "plan", str(tmp_path / "f.toml"))


def test_a_bad_distribution_is_named_by_its_place(capsys, tmp_path):
    fleet(tmp_path / "c.csv", [(i, 5, "all") for i in range(9)])
    (tmp_path / "f.toml").write_text(
        "updates = 100\n"
        + FLEET.format(csv="c.csv").replace("per-example", "groups")
        + "[latency.groups.all]\n"
        + factors('{kind = "gamma", shape = -2.0, scale = 1.0}')
        + '[schedule]\nkind = "over_selected"\ngoal = 2\n'
    )
    line = refused(capsys, "plan", str(tmp_path / "f.toml"))
    assert "latency.groups.all.communication: gamma: shape=-2.0" in line


BAD = {
    "emnist/per-domain/faredust": "did you mean 'emnist/per-domain/fare-dust'",
    "nowhere.toml": "cannot be read",
    "--set cohort=40": "goal=50 reports can never arrive from cohort=40",
    "--set goal=x": "schedule.goal",
    "--set goal=0": "schedule.goal",
    "--set gaol=5": "did you mean 'goal'",
    "--set goal": "expected key=value",
    "--set over_selection=0.5": "schedule.over_selection",
    "--set over_selection=nan": "nan given",
    "--set cost=nan": "nan given; expected one of: examples, tokens",
    "--set task.clients=3401": "at most 3400; or leave it out",
    "--set task.clients=1": "at least one of each group, 2,",
    "--set crash=1": "or check the latencies, the faults and the availability",
    "--set cohort=5000": "population of 3400",
    "--set updates=10": "less than one round",
    "--set updates=100000000000": "updates",
    "--set late_seconds=-1": "schedule.late_seconds",
    "--set schedule.kind=ofer_selected": "did you mean 'over_selected'",
    "--set schedule.kind=buffered": "schedule.buffer is missing",
    "--set count=some": "did you mean 'on_time'",
    "--set time_limit.fill=maybe": "'maybe' given, expected true or false",
    "--set latency.model=per-exmple": "did you mean 'per-example'",
    "--set learning_rate=1": "client.learning_rate, server.learning_rate",
    "--seed -1": "seed",
    "--seed x": "seed",
    "--sweep goal": "expected key=value",
    "--sweep goal=10,x": "schedule.goal",
    "--figure plan.jpg": ".png",
    "--figure no/such/folder/plan.png": "no folder",
    "--figur plan.png": "did you mean '--figure'",
    "--sweep goal=1,2 --figure plan.png": "leave out",
    "--sweep goal=10,20 --sweep goal=30": "exclude each other",
    "--sweep drop_out=0,0.1 --sweep drop_out.straggler=0": "exclude each other",
    "--sweep drop_out.straggler=1": "faults.drop_out.straggler=1: round",
    "--sweep drop_out=1,0.9": "faults.drop_out=1: round 0 never closes",
    "--sweep goal=10,20 --set count=some": "schedule.goal=10: schedule.count: 'some' given",
    "--set updates=1.5e0": "updates: 1.5 given, expected a whole number",
    "--set updates=1e30": "updates",
    "--sweep cohort=60,70 --sweep over_selection=1,2": "exclude each other",
    "--set over_selection=inf": "schedule.over_selection",
    "--goal 3": "--set KEY=VALUE",
    "--out there": "'--out' is an option of another command",
    "--trails 3": "did you mean '--trials'",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_is_one_line(capsys, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    words = arguments.split()
    preset = [] if not words[0].startswith("-") else ["emnist/per-domain/fedavg-over-selection"]
    assert BAD[arguments] in refused(capsys, "plan", *preset, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["run glyphs", "tune x.toml", "export x --to tensorboard"])
def test_no_folder_is_not_this_folder(capsys, command):
    assert "--out: '' given, expected a folder" in refused(capsys, *command.split(), "--out", "")


DOCUMENTS = {
    "updates = 10\n": "bad.toml: task is missing",
    'updates = 10\n[schedule]\nkind = "buffered"\nbuffer = 2\n': (
        "bad.toml: schedule.concurrency is missing"
    ),
    "updates = 1.5\n": "bad.toml: updates: 1.5 given, expected a whole number",
    "updates = 0\n": "bad.toml: updates: 0 given, expected a whole number of at least 1",
    "task = 3\n": "bad.toml: task: 3 given, expected a table of keys",
    "updates = 10\nupdates = 11\n": "not valid TOML",
    "updates = 10\n[taks]\n": "did you mean 'task'",
    'updates = 10\n[task]\nname = "fleet"\n[latency]\nmodel = "per-example"\n[schedule]\n'
    'kind = "buffered"\nbuffer = 2\nconcurrency = 4\n': "a fleet needs `csv` or `groups`",
    'updates = 10\n[task]\ncsv = "x.csv"\n': "task.name is missing",
    'updates = 10\n[task]\nname = "emnist"\n[latency]\nmodel = "groups"\n'
    '[latency.groups.standard]\ncommunication = {kind = "lognormal", mu = 1.0}\n': (
        "latency.groups.standard.overhead is missing; give it"
    ),
    'updates = 10\n[task]\nname = ["fleet"]\n': "task.name",
    'updates = 10\n[task]\nname = "emnist"\n[latency]\nmodel = "groups"\n'
    '[latency.groups.standard]\ncommunication = {kind = "lognorm", mu = 1.0}\n': "lognormal",
}


@pytest.mark.parametrize("text", DOCUMENTS)
def test_bad_documents_are_one_line(capsys, tmp_path, text):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    assert DOCUMENTS[text] in refused(capsys, "plan", str(file))


@pytest.mark.parametrize(
    "schedule",
    [
        'kind = "over_selected"\ngoal = 2\ncohort = 4\n',
        'kind = "buffered"\nbuffer = 2\nconcurrency = 4\n',
        'kind = "buffered"\nbuffer = 2\nconcurrency = 4\nrefill = "at_once"\n',
        'kind = "over_selected"\ngoal = 2\ncohort = 4\nlate_seconds = inf\n',
    ],
)
def test_a_fleet_that_never_reports_is_no_hang(capsys, tmp_path, schedule):
    fleet(tmp_path / "c.csv", [(i, 5, "all") for i in range(9)])
    (tmp_path / "f.toml").write_text(
        "updates = 100\n"
        + FLEET.format(csv=tmp_path / "c.csv").replace("per-example", "groups")
        + "[latency.groups.all]\n"
        + factors('{kind = "constant", value = inf}')
        + "[schedule]\n"
        + schedule
    )
    assert "never" in refused(capsys, "plan", str(tmp_path / "f.toml"))


def test_groups_without_latency_are_named(capsys, tmp_path):
    fleet(tmp_path / "c.csv", [(i, 5, "standart") for i in range(9)])
    (tmp_path / "f.toml").write_text(
        "updates = 100\n"
        + FLEET.format(csv=tmp_path / "c.csv").replace("per-example", "per-domain")
        + '[schedule]\nkind = "over_selected"\ngoal = 2\n'
    )
    assert "did you mean 'standard'" in refused(capsys, "plan", str(tmp_path / "f.toml"))
