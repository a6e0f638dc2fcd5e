"""What `run` does around the trials; tests/test_public_api.py trains with it."""

import math
import signal

import pytest

from stragglers._core.errors import BadInput
from stragglers.config import catalog
from stragglers.runs import run as running
from stragglers.runs.signals import Interrupted

SMALL = catalog.preset("glyphs/per-domain/fedadam").replace(writers=8, goal=2, updates=4)


@pytest.mark.parametrize(
    "number, expected", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_ends_python_as_it_does_elsewhere(number, expected, tmp_path, monkeypatch):
    def interrupted(*_):
        raise Interrupted(number)

    monkeypatch.setattr("stragglers.runs.trials.run_missing", interrupted)
    with pytest.raises(expected) as ended:
        running.run([SMALL], out=tmp_path)
    assert ended.value.args == (128 + number,)


def test_what_is_left_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("stragglers.runs.trials.run_missing", lambda jobs, *_: jobs)
    assert running.run([SMALL], out=tmp_path, trials=3, minutes=1) == ()
    assert "3 of 3 trials are left; the same call resumes" in capsys.readouterr().err


def test_terms_are_those_of_the_command_line():
    terms = running.checked_terms(1, None, None, math.inf, 0.5, True)
    assert (terms.deadline, terms.checkpoint_s, terms.allow_drift) == (math.inf, 30, True)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"trials": 1.5}, "trials=1.5, expected at least 1"),
        ({"trials": True}, "trials=True"),
        ({"trials": 20_000}, "20,000 trials given, expected at most 10,000"),
        ({"processes": 0}, "processes=0"),
        ({"minutes": math.nan}, "minutes=nan"),
        ({"minutes": "1"}, "minutes='1', expected a number"),
        ({"checkpoint_minutes": -1}, "checkpoint-minutes=-1"),
        ({"path": "data"}, "path = 'data': glyphs/per-domain/fedadam reads no data"),
    ],
)
def test_what_is_wrong_is_found_before_any_folder_is_made(wrong, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        running.run([SMALL], out=tmp_path / "runs", **wrong)
    assert not (tmp_path / "runs").exists()


def test_mistakes_name_their_experiment(tmp_path):
    with pytest.raises(BadInput, match="^glyphs/per-domain/fedadam: goal=20"):
        running.run([SMALL.replace(goal=20, cohort=3)], out=tmp_path)
