"""When clients are there, against a walk through the seconds of a cycle."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stragglers._core.errors import BadInput
from stragglers.cli.main import main
from stragglers.planning import population
from stragglers.planning.availability import Hours, by_group, from_csv, intervals, stays, takes
from tests.support.timetables import CYCLE, seconds_of, walked

CLIENTS = 3
INTERVALS = st.lists(
    st.tuples(st.integers(0, CLIENTS - 1), st.integers(0, CYCLE - 1), st.integers(1, CYCLE)),
    max_size=8,
)  # client, begin, length
NOW = st.one_of(st.integers(0, 40).map(float), st.floats(0, 40))


def of(given, leaving="lose"):
    owner, begin, length = np.array(given, float).reshape(-1, 3).T
    return intervals(
        owner.astype(int),
        begin / 3600,
        length / 3600,
        clients=CLIENTS,
        cycle=CYCLE / 3600,
        leaving=leaving,
    )


@settings(max_examples=500, deadline=None)
@given(INTERVALS, NOW, st.one_of(st.integers(1, 40).map(float), st.floats(0.01, 50)))
def test_who_is_there_how_long_and_when_its_work_is_done(given, now, work):
    there = of(given)
    clients = np.arange(CLIENTS)
    stay = stays(there, clients, now)
    here = [client for client in clients if int(now % CYCLE) in seconds_of(given, client)]
    assert here == np.flatnonzero(stay > 0).tolist()
    done = takes(there, np.array(here, int), now, np.full(len(here), work))
    for client, took in zip(here, done, strict=True):
        leaves, finished = walked(seconds_of(given, client), now, work)
        np.testing.assert_allclose(now + stay[client], leaves, atol=1e-9)
        np.testing.assert_allclose(now + took, finished, atol=1e-9)
        assert (took == work) == (work <= stay[client])


@settings(max_examples=200, deadline=None)
@given(INTERVALS)
def test_intervals_do_not_touch(given):
    there = of(given)
    for client in range(CLIENTS):
        mine = slice(*there.first[client : client + 2])
        begin, end = there.begin[mine], there.end[mine]
        assert np.all(begin[1:] > end[:-1]) and np.all((begin >= 0) & (begin < CYCLE))
        assert np.all(end > begin)
        if len(begin):
            whole = there.upto[mine][-1]
            assert whole == np.sum(end - begin) == len(seconds_of(given, client))
            assert whole == CYCLE or end[-1] < begin[0] + CYCLE


def test_over_midnight_by_hand():
    """From 22 to 6 o'clock: at 23 for seven hours; ten hours of work end at 1 o'clock, a day on."""
    night = intervals(
        np.array([0]), np.array([22.0]), np.array([8.0]), clients=1, cycle=24.0, leaving="pause"
    )
    hours, who = 3600.0, np.array([0])
    assert stays(night, who, 23 * hours) == 7 * hours
    assert stays(night, who, (48 + 5) * hours) == 1 * hours
    assert stays(night, who, 6 * hours) == stays(night, who, 21.9 * hours) == 0
    assert takes(night, who, 23 * hours, np.array([10 * hours])) == 26 * hours
    assert takes(night, who, 23 * hours, np.array([7 * hours])) == 7 * hours
    assert takes(night, who, 23 * hours, np.array([15 * hours])) == 31 * hours  # at 6, and no later
    assert takes(night, who, 23 * hours, np.array([np.inf])) == np.inf


def people(clients=4000):
    half = np.arange(clients) % 2
    return population.Population(np.ones(clients, int), half.astype(np.int16), ("a", "b"), "a test")


def test_groups_begin_about_their_hour_and_keep_it():
    who = people()
    given = by_group(who, {"a": Hours(begin=23.0, hours=6.0, spread=1.5)}, seed=0)
    assert np.all(np.diff(given.first) == 1)
    assert np.all(stays(given, np.flatnonzero(who.group == 1), 5e5) == np.inf)
    begin = given.begin[who.group == 0] / 3600
    ahead = np.mod(begin - 23 + 12, 24) - 12
    assert abs(ahead.mean()) < 0.1 and abs(ahead.std() - 1.5) < 0.1
    assert np.all((given.end - given.begin)[who.group == 0] == 6 * 3600)
    assert np.all(given.begin == np.rint(given.begin))
    again, other = (by_group(who, {"a": Hours(23.0, 6.0, 1.5)}, seed=seed) for seed in (0, 1))
    assert np.array_equal(again.begin, given.begin) and not np.array_equal(other.begin, given.begin)


@pytest.mark.parametrize(
    "given, told",
    [
        ({"a": Hours(0.0, 25.0)}, "groups.a.hours=25, expected more than 0 and at most the cycle"),
        ({"c": Hours(0.0, 5.0)}, "no group 'c' in a test"),
    ],
)
def test_groups_that_make_no_sense(given, told):
    with pytest.raises(BadInput, match=told):
        by_group(people(), given, seed=0)


def test_a_file_of_hours(tmp_path):
    file = tmp_path / "hours.csv"
    file.write_text("client,begin,end\n0,22,30\n0,7,7.5\n\n2,0,24\n0,23,31\n")
    who = people(4)
    given = from_csv(file, who)
    everybody = np.arange(4)
    assert (stays(given, everybody, 23 * 3600.0) / 3600).tolist() == [8.5, 0, np.inf, 0]
    assert (stays(given, everybody, 7.25 * 3600.0) / 3600).tolist() == [0.25, 0, np.inf, 0]
    named = from_csv(_write(file, "zoe,1,2"), who._replace(names=("ann", "zoe", "bob", "cid")))
    assert np.diff(named.first).tolist() == [0, 1, 0, 0]


def _write(file, line, header="client,begin,end"):
    file.write_text(f"{header}\n{line}\n")
    return file


@pytest.mark.parametrize(
    "line, told",
    [
        ("4,1,2", "no client '4' in a test; expected its index, from 0 to 3"),
        ("0,1", "'0,1', expected client,begin,end in hours with begin from 0 to below 24"),
        ("0,5,5", "end after it, by 24 at most"),
        ("0,24,25", "begin from 0 to below 24"),
        ("0,1,25.5", "end after it, by 24 at most"),
        ("0,nan,2", "expected client,begin,end in hours"),
        ("0,x,2", "expected client,begin,end in hours"),
        ("0,1,2,3", "expected client,begin,end in hours"),
    ],
)
def test_lines_that_are_none(tmp_path, line, told):
    with pytest.raises(BadInput, match=r"hours\.csv: line 2") as error:
        from_csv(_write(tmp_path / "hours.csv", line), people(4))
    assert told in str(error.value)


def test_a_header_that_is_none_and_nobody_at_all(tmp_path):
    with pytest.raises(BadInput, match="line 1: 'client,from,to', expected the header"):
        from_csv(_write(tmp_path / "hours.csv", "0,1,2", "client,from,to"), people(4))
    (tmp_path / "none.csv").write_text("client,begin,end\n")
    nobody = from_csv(tmp_path / "none.csv", people(4))
    assert not stays(nobody, np.arange(4), 5.0).any()


# From settings.

OVER = "emnist/per-domain/fedadam-over-selection"
MORNING = "{begin=32.0, hours=8.0, spread=1.0}"


def plan_of(capsys, *sets, preset=OVER, more=("--json",)):
    words = [word for given in sets for word in ("--set", given)]
    assert main(["plan", preset, "--updates", "5000", *words, *more]) == 0
    return capsys.readouterr().out


def test_a_plan_waits_for_the_morning_and_says_so(capsys):
    groups = f"availability.groups={{standard={MORNING}, straggler={MORNING}}}"
    text = plan_of(capsys, groups, "leaving=pause", more=())
    assert "standard online for 8 of 24 h from hour 8 (+- 1)" in text
    assert "clients that go offline pause" in text and "s until enough are idle" in text
    told = json.loads(plan_of(capsys, groups, "leaving=finish"))
    assert 5 * 3600 < told["waited_s"] < 8 * 3600 and told["faults"]["left"] == 0
    assert json.loads(plan_of(capsys))["waited_s"] == 0


def test_over_selection_forgets_nobody_who_is_alone(capsys):
    """Where stragglers have hours of their own, a round of theirs cannot close without them."""
    apart = (
        "availability.groups={standard={begin=0.0, hours=0.5}, straggler={begin=0.5, hours=0.5}}",
        "availability.cycle=1.0",
    )
    share = json.loads(plan_of(capsys, *apart, "leaving=finish"))["share"]["straggler"]["used"]
    together = json.loads(plan_of(capsys))["share"]["straggler"]["used"]
    assert together < 0.13 < 0.2 < share
    lost = json.loads(plan_of(capsys, *apart, "leaving=lose", "round_timeout=600.0"))
    assert lost["faults"]["left"] == lost["reports"]["lost"] > 20


def test_who_leaves_is_lost_more_often_if_it_is_slow(capsys):
    hour = "{begin=0.0, hours=0.2, spread=2.0}"
    groups = f"availability.groups={{standard={hour}, straggler={hour}}}"
    preset = "emnist/per-domain/fedadam"
    args = (groups, "round_timeout=900.0", "minimum=1")
    told = json.loads(plan_of(capsys, *args, preset=preset))
    assert told["share"]["straggler"]["used"] < 0.21 < told["share"]["straggler"]["population"]
    paused = json.loads(plan_of(capsys, *args, "leaving=pause", preset=preset))
    assert paused["reports"]["unused"] > 0 == paused["reports"]["lost"]


def test_a_sweep_over_hours(capsys):
    args = [
        "--set",
        f"availability.groups={{straggler={MORNING}}}",
        "--sweep",
        "availability.groups.straggler.hours=4,24",
    ]
    assert main(["plan", OVER, "--updates", "5000", *args]) == 0
    assert "availability.groups.straggler.hours" in capsys.readouterr().out


@pytest.mark.parametrize(
    "sets, told",
    [
        (["availability.leaving=lose"], "availability: give `groups` or `csv`, and not both"),
        (
            ["availability.groups={standard={begin=0.0, hours=30.0}}"],
            "groups.standard.hours=30, exp",
        ),
        (["availability.groups={standrd={begin=0.0, hours=3.0}}"], "did you mean 'standard'"),
        (
            ["availability.groups={standard={begin=0.0, hours=3.0}}", "leaving=stay"],
            "availability.leaving: 'stay'",
        ),
        (["availability.csv=no.csv"], "no.csv: cannot be read as a CSV file of hours"),
        (
            ["availability.groups={standard={begin=0.0, hours=0.0}}"],
            "availability.groups.standard.ho",
        ),
    ],
)
def test_bad_settings_are_one_line(capsys, sets, told):
    words = [word for given in sets for word in ("--set", given)]
    assert main(["plan", OVER, *words]) == 2
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1


def test_clients_that_never_meet_are_one_line(tmp_path, capsys):
    """Each of 200 writers has minutes of its own."""
    file = tmp_path / "hours.csv"
    lines = [f"{c},{c * 0.1:.1f},{c * 0.1 + 0.09:.2f}" for c in range(200)]
    file.write_text("\n".join(["client,begin,end", *lines]))
    for preset, told in (
        ("glyphs/per-domain/fedadam", "round 0 never opens: fewer than cohort=20 clients"),
        ("glyphs/per-domain/fedbuff-ema", "clients are never online together; lower it, or extend"),
    ):
        assert main(["plan", preset, "--set", f"availability.csv={file}"]) == 2
        assert told in capsys.readouterr().err
    file.write_text("client,begin,end\n0,1,2\n")
    assert main(["plan", "glyphs/per-domain/fedadam", "--set", f"availability.csv={file}"]) == 2
    assert "cannot be drawn from the 1 of 200 that are ever online" in capsys.readouterr().err


def test_a_trial_keeps_its_file_of_hours(tmp_path):
    file = tmp_path / "hours.csv"
    lines = [f"{c},{0 if c < 100 else 0.5},{0.6 if c < 100 else 1}" for c in range(200)]
    file.write_text("\n".join(["client,begin,end", *lines]))
    out = tmp_path / "runs"
    sets = [
        f"availability.csv={file}",
        "availability.cycle=1.0",
        "leaving=finish",
        "updates=200",
        "evaluations=2",
    ]
    words = [word for given in sets for word in ("--set", given)]
    assert main(["run", "glyphs/per-domain/fedadam", *words, "--out", str(out)]) == 0
    (settings_file,) = out.rglob("settings.toml")
    text = settings_file.read_text()
    assert "[availability]" in text and 'csv = "copy-' in text and "cycle = 1.0" in text
    assert len([*settings_file.parent.glob("copy-*.csv")]) == 1
