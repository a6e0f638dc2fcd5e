import json
import sys
from types import SimpleNamespace

import pytest

from stragglers.cli.results import FORMATS, SINKS
from stragglers.report import exports, formats
from stragglers.runs import records
from tests.cli.test_main import refused, run
from tests.support.fabricate import run_folder


@pytest.fixture
def runs(tmp_path):
    run_folder(tmp_path / "runs", seed=0)
    run_folder(tmp_path / "runs", seed=1)
    run_folder(tmp_path / "runs", seed=2, status="running")
    return tmp_path / "runs"


def events(folder):
    """Tags, steps and values of an event file, read by TensorBoard's own protocol."""
    from tensorboardX.proto.event_pb2 import Event

    (file,) = folder.glob("events.out.*")
    data, found = file.read_bytes(), []
    while data:
        length = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + length])
        found += [(v.tag, event.step, v.simple_value) for v in event.summary.value]
        data = data[16 + length :]
    return found


def test_tensorboard_has_the_curve(capsys, runs, tmp_path):
    out = tmp_path / "logs"
    code, text, _ = run(capsys, "export", str(runs), "--to", "tensorboard", "--out", str(out))
    assert code == 0 and "2 of 3 runs handed on" in text and "1 unfinished" in text
    curve = records.find([runs])[0].curve
    found = [(s, v) for tag, s, v in events(sorted(out.iterdir())[0]) if tag == "accuracy/total"]
    assert [step for step, _ in found] == curve["step"].tolist()
    assert [value for _, value in found] == pytest.approx(curve["total_accuracy"].tolist())


def test_a_run_is_handed_on_once(capsys, runs, tmp_path):
    arguments = ("export", str(runs), "--to", "tensorboard", "--out", str(tmp_path / "logs"))
    counts = [json.loads(run(capsys, *arguments, "--json")[1])["new"] for _ in range(2)]
    assert counts == [2, 0] and len(list((tmp_path / "logs").iterdir())) == 2


def test_what_is_not_finite_is_left_out(runs):
    record = records.find([runs])[0]
    record.curve["total_loss"][0] = float("nan")
    (_, first), (_, second), *_ = exports._points(record)
    assert "total_loss" not in first and "total_loss" in second


def test_the_halves_are_on_the_panel_of_accuracies(runs):
    record = records.find([runs])[0]
    assert "held_out_total_accuracy" not in exports._points(record)[0][1]  # of before
    record.curve["held_out_total_accuracy"][:] = 0.5
    assert exports._points(record)[0][1]["held_out_total_accuracy"] == 0.5
    assert exports._tag("held_out_total_accuracy") == "accuracy/held_out_total"
    assert exports._tag("time_s") == "progress/time_s"


def test_wandb_gets_settings_curve_and_status(runs, tmp_path, monkeypatch):
    """Against a stand-in: the service's package is an extra that tests do without."""
    made = []

    def init(**given):
        logged = []
        made.append(
            SimpleNamespace(
                given=given,
                logged=logged,
                summary={},
                log=lambda values, step: logged.append((step, values)),
                finish=lambda: logged.append("finished"),
            )
        )
        return made[-1]

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    found = records.find([runs])
    assert exports.export(found, "wandb", tmp_path) == (2, 1)
    assert exports.export(found, "wandb", tmp_path) == (0, 1)
    first = made[0]
    assert first.given["config"] == found[0].settings and first.given["dir"] == str(tmp_path)
    assert first.logged[-1] == "finished" and first.summary == {"status": "finished"}
    step, values = first.logged[0]
    assert step == 12 and values["accuracy/straggler"] == found[0].curve["straggler_accuracy"][0]
    assert len({one.given["id"] for one in made}) == len(made) == 2


def test_wandb_groups_trials_as_tables_do(tmp_path):
    run_folder(tmp_path, seed=0)
    run_folder(tmp_path, seed=1, digest="before", unknown=("precision",))
    run_folder(tmp_path, seed=2, digest="other", set=("goal=3",))
    first, before, other = map(
        exports._group, sorted(records.find([tmp_path]), key=lambda r: r.seed)
    )
    assert first == before != other
    record = records.find([tmp_path])[0]
    assert exports._group(record._replace(run={"data": {"checksum": "abc"}})) != first


@pytest.mark.parametrize("sink", SINKS)
def test_a_missing_package_is_one_line(capsys, runs, tmp_path, monkeypatch, sink):
    package = {"tensorboard": "tensorboardX"}.get(sink, sink)
    monkeypatch.setitem(sys.modules, package, None)
    line = refused(capsys, "export", str(runs), "--to", sink, "--out", str(tmp_path / "x"))
    assert f"pip install 'stragglers[{sink}]'" in line


def test_the_command_line_knows_all_of_them():
    """Its own lists save it from loading what is slow."""
    assert list(exports.SINKS) == list(SINKS) and list(formats.FORMATS) == list(FORMATS)
