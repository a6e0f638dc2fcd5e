"""Who is struck by what, and that every schedule ends."""

import json

import numpy as np
import pytest

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.cli import main
from stragglers.config import build, catalog, describe, documents
from stragglers.planning import faults, latency, paper_populations, population, summary
from stragglers.planning.faults import Fault
from stragglers.planning.latency import Draw
from stragglers.planning.population import Population
from stragglers.planning.schedule import Fate
from stragglers.runs import train
from stragglers.simulator.simulate import results
from tests.support.plans import buffered, over_selected

CLIENTS, MANY = 1000, 100_000
WHO = np.random.default_rng(0).integers(CLIENTS, size=MANY)
TWO_GROUPS = Population(
    np.full(6, 5), np.array([0, 1, 1, 0, 1, 0], np.int16), ("new", "old"), "six clients"
)


def struck(seed=0, who=WHO, first=0, **shares):
    given = {faults.NAMES[name]: np.full(CLIENTS, share) for name, share in shares.items()}
    return faults.faults(given, seed=seed)(first, who)


def hit(fault, **options):
    return struck(**options).fault == fault


# Who is struck.


@pytest.mark.parametrize("name", faults.NAMES)
@pytest.mark.parametrize("share", [0.0, 0.06, 0.5, 1.0])
def test_a_share_strikes_that_share(name, share):
    count = hit(faults.NAMES[name], **{name: share}).sum()
    assert abs(count - share * MANY) <= 5 * np.sqrt(share * (1 - share) * MANY)
    assert (count == 0) == (share == 0)


def test_whoever_a_smaller_share_strikes_a_larger_one_does_too():
    few, many = hit(Fault.DROP_OUT, drop_out=0.06), hit(Fault.DROP_OUT, drop_out=0.1)
    assert np.all(many[few]) and many.sum() > few.sum()


def test_the_first_fault_of_the_list_happens_and_none_changes_whom_it_strikes():
    alone = {name: hit(fault, **{name: 0.2}) for name, fault in faults.NAMES.items()}
    together = struck(**dict.fromkeys(faults.NAMES, 0.2)).fault
    before = np.zeros(MANY, bool)
    for name, fault in faults.NAMES.items():
        assert np.array_equal(together == fault, alone[name] & ~before)
        assert np.any(alone[name] & before) == (name != "drop_out")  # independent, so they overlap
        before |= alone[name]


def test_faults_have_an_address():
    shares = dict.fromkeys(faults.NAMES, 0.1)
    whole = struck(**shares)
    for first, last in ((0, 10), (7, 90), (random_streams.BLOCK - 3, random_streams.BLOCK + 3)):
        part = struck(first=first, who=WHO[first:last], **shares)
        for column, expected in zip(part, whole, strict=True):
            assert np.array_equal(column, expected[first:last])
    assert not np.array_equal(struck(seed=1, **shares).fault, whole.fault)


def test_a_crash_takes_a_uniform_part_of_the_time():
    fault, worked = struck(drop_out=0.1, crash=0.4, nan=0.1)
    assert np.all(worked[fault == Fault.DROP_OUT] == 0) and np.all(worked[fault >= Fault.NAN] == 1)
    parts = worked[fault == Fault.CRASH]
    assert np.all((parts >= 0) & (parts < 1)) and abs(parts.mean() - 0.5) < 0.01
    assert abs(parts.var() - 1 / 12) < 0.003


def test_faults_change_no_other_draw():
    who = paper_populations.emnist()
    seconds = latency.latency(who, latency.PER_DOMAIN, seed=0)
    shares = {fault: np.full(who.clients, 0.1) for fault in faults.NAMES.values()}
    options = dict(seed=0, goal=10, cohort=20, updates=2000, round_timeout=1e4)
    calm = over_selected(who.clients, seconds, **options)
    rough = over_selected(who.clients, seconds, **options, faults=faults.faults(shares, seed=0))
    assert np.array_equal(calm.client, rough.client)
    assert np.array_equal(calm.examples, rough.examples)
    works = ~faults.lost(rough.fault)
    took = (rough.stop - rough.start)[works]
    np.testing.assert_allclose(took, (calm.stop - calm.start)[works], atol=1e-8)
    assert np.array_equal(rough.fate == Fate.LOST, ~works) and 0 < works.sum() < len(works)


@pytest.mark.parametrize("kind", ["rounds", "buffer"])
def test_a_longer_budget_changes_no_fault_and_no_fate(kind):
    who = paper_populations.emnist()
    seconds = latency.latency(who, latency.PER_DOMAIN, seed=0)
    strikes = faults.faults({f: np.full(who.clients, 0.1) for f in faults.NAMES.values()}, seed=0)
    short, long = (schedules(kind, who.clients, seconds, strikes, updates) for updates in (60, 600))
    for name in ("client", "version", "start", "report", "stop", "fault", "time", "updates"):
        column = getattr(short, name)
        assert np.array_equal(column, getattr(long, name)[: len(column)]), name
    decided = short.fate != Fate.IN_FLIGHT
    assert np.array_equal(short.fate[decided], long.fate[: len(decided)][decided])


def schedules(
    kind,
    clients,
    seconds,
    strikes,
    updates,
    selection=1.3,
    minimum=5,
    round_timeout=600.0,
    client_timeout=600.0,
):
    options = dict(seed=0, updates=updates, minimum=minimum, faults=strikes)
    if kind == "rounds":
        return over_selected(
            clients,
            seconds,
            goal=10,
            cohort=round(10 * selection),
            round_timeout=round_timeout,
            **options,
        )
    return buffered(
        clients,
        seconds,
        buffer=10,
        concurrency=round(10 * selection),
        client_timeout=client_timeout,
        refill=kind if kind.startswith("at_") else "at_update",
        **options,
    )


# Every schedule ends.


@pytest.mark.parametrize("share", [0.0, 0.06, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("selection", [1.0, 1.3, 2.0])
@pytest.mark.parametrize("kind", ["rounds", "at_update", "at_once"])
def test_however_many_drop_out_a_schedule_ends_within_its_bound(kind, selection, share):
    who = paper_populations.emnist()
    seconds = latency.latency(who, latency.PER_DOMAIN, seed=0)
    strikes = faults.faults({Fault.DROP_OUT: np.full(who.clients, share)}, seed=0)
    steps = 300
    if share == 1:
        with pytest.raises(BadInput, match=f"all {steps} .* are abandoned: .* minimum=5") as error:
            schedules(kind, who.clients, seconds, strikes, 10 * steps, selection)
        assert "\n" not in str(error.value)
        return
    made = schedules(kind, who.clients, seconds, strikes, 10 * steps, selection)
    assert made.steps == steps and made.end <= 600.0 * steps
    started = round(10 * selection)  # together, and then for every report or client given up
    assert len(made.client) <= (started * steps if kind == "rounds" else started + 10 * steps)
    lost, allowed = np.mean(made.fate == Fate.LOST), 5 * np.sqrt(share / len(made.fate))
    assert abs(lost - share) <= allowed and np.sum(made.fate == Fate.ON_TIME) == made.updates[-1]
    if kind == "rounds" and share == 0 and selection == 2.0:  # there are enough in time
        assert made.updates[-1] == 10 * steps


# So many more are started than are waited for that none of 300 rounds wants for one.
ENOUGH = [("rounds", 1.3, 0.06), ("rounds", 2.0, 0.06), ("rounds", 2.0, 0.1)]


@pytest.mark.parametrize("share", [0.0, 0.06, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("selection", [1.0, 1.3, 2.0])
@pytest.mark.parametrize("kind", ["rounds", "at_update", "at_once"])
def test_without_a_time_out_it_ends_or_says_what_to_set(kind, selection, share):
    """Whoever waits for all of a round waits forever for the first that drops out."""
    who = paper_populations.emnist()
    seconds = latency.latency(who, latency.PER_DOMAIN, seed=0)
    strikes = faults.faults({Fault.DROP_OUT: np.full(who.clients, share)}, seed=0)
    patient = {"round_timeout": None, "client_timeout": None, "minimum": None}
    if share == 0 or (kind, selection, share) in ENOUGH:
        made = schedules(kind, who.clients, seconds, strikes, 3000, selection, **patient)
        assert made.steps == 300 and made.updates[-1] == 3000 and np.isfinite(made.end)
        return
    with pytest.raises(BadInput, match="never c.*set `(round|client)_timeout`") as error:
        schedules(kind, who.clients, seconds, strikes, 3000, selection, **patient)
    assert "\n" not in str(error.value)


def test_nobody_who_is_waited_for_forever_is_an_error_that_names_the_remedy():
    strikes = faults.faults({Fault.DROP_OUT: np.ones(9)}, seed=0)

    def seconds(first, clients):
        return Draw(np.ones(len(clients)), np.ones(len(clients), np.int64))

    with pytest.raises(BadInput, match="round 0 never closes.*`round_timeout`"):
        over_selected(9, seconds, seed=0, goal=2, cohort=4, updates=8, faults=strikes)
    with pytest.raises(BadInput, match="server step 0 never comes.*`client_timeout`"):
        buffered(9, seconds, seed=0, buffer=2, concurrency=4, updates=8, faults=strikes)


# What a plan says of them.


def test_a_plan_counts_faults_and_the_time_of_devices():
    codes = np.array([Fault.NONE, Fault.DROP_OUT, Fault.CRASH, Fault.NAN, Fault.DUPLICATE, 0])

    def strikes(first, clients):
        fault = codes[np.arange(first, first + len(clients)) % 6].astype(np.int8)
        worked = np.where(fault == Fault.CRASH, 0.25, fault != Fault.DROP_OUT)
        return faults.Struck(fault, worked)

    def seconds(first, clients):
        return Draw(np.full(len(clients), 8.0), np.ones(len(clients), np.int64))

    # Rounds of three: one report of three, then three of three, over and over.
    made = over_selected(
        TWO_GROUPS,
        seconds,
        seed=0,
        goal=3,
        cohort=3,
        updates=12,
        round_timeout=10.0,
        minimum=2,
        faults=strikes,
    )
    assert made.time.tolist() == [10, 18, 28, 36] and made.updates.tolist() == [0, 3, 3, 6]
    told = summary.summarise(made)
    assert told["abandoned"] == 2 and told["server_steps"] == 4 and told["dispatches"] == 12
    assert told["faults"] == {
        "drop_out": 2,
        "crash": 2,
        "nan": 2,
        "inf": 0,
        "huge": 0,
        "duplicate": 2,
        "left": 0,
    }
    assert told["reports"] == {"on_time": 6, "late": 0, "unused": 2, "in_flight": 0, "lost": 4}
    # Each crash came after a quarter of 8 s; each abandoned round wasted one whole report, and so
    # did each report of NaN.
    assert told["corrupted"] == 2
    assert told["device_s"] == {"used": 32.0, "wasted": 2 * 2.0 + 4 * 8.0, "in_flight": 0.0}


def test_corrupted_reports_are_wasted_and_said(capsys):
    changes = ["--set", "faults.nan={older=1}", "--set", "schedule.minimum=80"]
    assert main.main(["plan", "fleet-dropout", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert main.main(["plan", "fleet-dropout", "--json", *changes]) == 0
    after = json.loads(capsys.readouterr().out)
    # They close rounds and count towards `minimum` and the budget, since they come; then they go.
    for key in ("time_s", "reports", "client_updates", "abandoned", "staleness"):
        assert after[key] == before[key]
    of_older = before["share"]["older"]["used"]
    assert before["corrupted"] == 0 < after["corrupted"] == round(100_000 * of_older)
    assert after["share"]["older"]["used"] == 0 and after["groups"]["older"]["always_late"] == 1
    wasted = [told["device_s"]["wasted"] for told in (before, after)]
    assert wasted[1] > wasted[0]
    assert sum(after["device_s"].values()) == pytest.approx(sum(before["device_s"].values()))
    assert main.main(["plan", "fleet-dropout", *changes]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"reports 100,000 on time, of them corrupted {100 * of_older:.1f} %" in out
    sweep = ["--sweep", "nan=0,1", "--set", "updates=1000"]
    assert main.main(["plan", "fleet-dropout", *sweep]) == 0
    table = capsys.readouterr().out
    assert (
        "100.0 %   100.0 %" in table and "corrupted: share of the reports on time or late" in table
    )
    assert main.main(["plan", "fleet-dropout", "--set", "updates=1000"]) == 0
    assert "corrupted" not in capsys.readouterr().out


def test_the_plan_of_a_fleet_that_drops_out(capsys):
    assert main.main(["plan", "fleet-dropout", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert 0.06 < told["faults"]["drop_out"] / told["dispatches"] < 0.10
    assert told["client_updates"] == 100_000 and told["abandoned"] == 0
    assert "drop_out (recent 6 %, older 10 %)" in told["policy"]
    assert "time out after 600 s, steps abandoned below 80" in told["policy"]
    changes = ["drop_out=0.25", "crash=0.05", "duplicate=0.02", "schedule.minimum=95"]
    given = [word for change in changes for word in ("--set", change)]
    assert main.main(["plan", "fleet-dropout", *given]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "faults drop_out 25.0 %, crash 3.8 %, duplicate 1.4 % of 130,000 dispatches" in out
    assert "server steps, " in out.partition("abandoned ")[2]


def test_a_fleet_that_drops_out_for_good_is_one_line(capsys):
    assert main.main(["plan", "fleet-dropout", "--set", "drop_out=1"]) == 2
    out, said = capsys.readouterr()
    assert out == "" and "all 1000 rounds are abandoned" in said and said.count("\n") == 1


# Settings.


def test_shares_of_clients(tmp_path):
    file = tmp_path / "shares.csv"
    named = TWO_GROUPS._replace(names=tuple(f"c{n}" for n in range(6)))
    for who, prefix in ((named, "c"), (TWO_GROUPS, "")):  # without names, numbers
        rows = [f" {prefix}{n} ,{n / 10},{1 - n / 10}" for n in (3, 0, 5, 1, 4, 2)]
        file.write_text("client,drop_out,nan\n" + "\n\n".join(rows) + "\n")
        shares = faults.from_csv(file, who)
        assert list(shares) == [Fault.DROP_OUT, Fault.NAN]
        np.testing.assert_allclose(shares[Fault.DROP_OUT], np.arange(6) / 10)
        np.testing.assert_allclose(shares[Fault.NAN], 1 - np.arange(6) / 10)


def test_shares_meet_clients_by_name(tmp_path):
    clients, shares = tmp_path / "clients.csv", tmp_path / "shares.csv"
    clients.write_text("client,examples,group\nann,10,a\nbob,20,b\ncid,30,a\n")
    shares.write_text("client,crash\ncid,0.3\nann,0.1\nbob,0.2\n")
    who = population.from_csv(clients)
    assert who.names == ("ann", "bob", "cid")
    assert faults.from_csv(shares, who)[Fault.CRASH].tolist() == [0.1, 0.2, 0.3]


ALL = "".join(f"{n},0.1\n" for n in range(6))


@pytest.mark.parametrize(
    "names, rows, complaint",
    [
        ("abcdef", "a,0.1\nx,0.1\n", "line 3: no client 'x' in six clients; expected .* names"),
        ("abcdef", ALL, "line 2: no client '0' in six clients; expected .* names"),
        ("abcdef", "a,0\nb,0\na,0\n", "line 4: client 'a' again, expected a line for each"),
        ("abcdef", "a,0\nc,0\n", "no line for client 'b' and 3 others of six clients; "),
        (None, "a,0.1\n", "line 2: no client 'a' in six clients; .* index, from 0 to 5"),
        (None, ALL + "6,0.1\n", "line 8: no client '6' in six clients; .* index, from 0 to 5"),
        (None, ALL + "5,0.1\n", "line 8: client '5' again"),
        (None, ALL.replace("2,0.1\n", ""), "no line for client '2' of six clients; expected"),
        (None, "", "no line for client '0' and 5 others of six clients; expected a line"),
    ],
)
def test_shares_of_nobody_of_somebody_twice_or_of_too_few_are_one_line(
    tmp_path, names, rows, complaint
):
    file = tmp_path / "shares.csv"
    file.write_text("client,drop_out\n" + rows)
    with pytest.raises(BadInput, match=complaint) as error:
        faults.from_csv(file, TWO_GROUPS._replace(names=names and tuple(names)))
    assert str(error.value).startswith(str(file)) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "line 1: '', expected the header 'client'"),
        ("client\n", "line 1: 'client', expected the header"),
        ("who,drop_out\n", "line 1: 'who,drop_out', expected the header"),
        ("client,nan,nan\n", "expected the header"),
        ("client,dropout\n", "line 1: 'dropout'; did you mean 'drop_out'"),
        ("client,drop_out\na,2\n", "line 2: 'a,2', expected a client and 1 numbers from 0 to 1"),
        ("client,drop_out\na,nan\n", "line 2"),
        ("client,drop_out\na,much\n", "line 2"),
        ("client,drop_out\na,0.1,0.2\n", "line 2"),
        ("client,drop_out\na\n", "line 2"),
    ],
)
def test_a_file_of_shares_that_is_none_is_one_line(tmp_path, text, complaint):
    file = tmp_path / "shares.csv"
    file.write_text(text)
    with pytest.raises(BadInput, match=complaint) as error:
        faults.from_csv(file, TWO_GROUPS)
    assert str(error.value).startswith(str(file)) and "\n" not in str(error.value)


def experiment(*changes):
    return documents.settings_from(
        documents.override_all(catalog.read("glyphs/drop-out/fedadam-over-selection"), changes)
    )


def test_shares_of_clients_in_an_experiment(tmp_path):
    given = experiment()
    who = build.clients(given.task, 0)
    file = tmp_path / "shares.csv"
    half = np.arange(who.clients) % 2
    file.write_text("client,crash\n" + "".join(f"{n},{share}\n" for n, share in enumerate(half)))
    # Half of the clients crash for certain.
    made = build.schedule_of(experiment(f"faults.csv={file}", "drop_out=0"), who)
    assert np.array_equal(made.fault == Fault.CRASH, half[made.client] == 1)
    with pytest.raises(BadInput, match="faults.crash is given here and in .*shares.csv"):
        build.schedule_of(experiment(f"faults.csv={file}", "crash=0.1"), who)


@pytest.mark.parametrize(
    "change, complaint",
    [
        ("drop_out=2", "faults.drop_out: 2 given, expected a number .*of at most 1"),
        ("drop_out=-0.1", "faults.drop_out: -0.1 given"),
        ("faults.nan=nan", "faults.nan: nan given"),
        ("drop_out={straggler=3}", "faults.drop_out"),
        ("drop_out={stragler=0.1}", "faults.drop_out: no group 'stragler'.*'straggler'"),
        ("faults.dropout=1", "unknown setting 'faults.dropout'; did you mean 'faults.drop_out'"),
        ("round_timeout=0", "schedule.round_timeout: 0 given, expected a number above 0"),
        ("minimum=21", "minimum=21 is more than goal=20"),
        ("faults.csv=nowhere.csv", "nowhere.csv: cannot be read"),
    ],
)
def test_faults_that_cannot_be_are_one_line(change, complaint):
    with pytest.raises(BadInput, match=complaint) as error:
        given = experiment(change)
        build.schedule_of(given, build.clients(given.task, 0))
    assert "\n" not in str(error.value)


def test_training_drops_exactly_the_corrupted_reports():
    changes = ["updates=60", "task.writers=60", "faults.nan=0.1", "huge=0.1", "duplicate=0.2"]
    trial = train.prepare(experiment(*changes, "evaluations=3"))
    simulation = train.simulation([trial])
    (result,) = results(simulation.events(simulation.first()))
    used = trial.schedule.fate == Fate.ON_TIME
    corrupt = np.isin(trial.schedule.fault, (Fault.NAN, Fault.HUGE))
    assert result.dropped == np.sum(used & corrupt) > 3 and result.diverged is None
    assert result.trained == np.sum(used) == trial.schedule.updates[-1]
    assert result.curve[-1].metrics["total_loss"] < result.curve[0].metrics["total_loss"]


@pytest.mark.parametrize("fault", ["nan", "inf", "huge"])
def test_reports_that_are_all_corrupted_are_an_error_that_says_so(fault, tmp_path, capsys):
    small = ["updates=40", "task.writers=60", "drop_out=0", f"faults.{fault}=1"]
    changes = [word for change in small for word in ("--set", change)]
    preset, out = "glyphs/drop-out/fedadam-over-selection", tmp_path / "out"
    assert main.main(["run", preset, "--out", str(out), *changes]) == 2
    said = capsys.readouterr().err
    assert "all 40 reports that would count are corrupted by the faults" in said
    assert "learning rate" not in said and said.count("\n") == 1
    assert not list(out.rglob("*.json"))


def test_without_faults_nothing_is_named():
    plain = documents.settings_from(catalog.read("fleet"))
    assert "faults" not in plain.document
    assert "minimum" not in plain.document["schedule"]
    assert "faults" not in describe.policy(plain)
