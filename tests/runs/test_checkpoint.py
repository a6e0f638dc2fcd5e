"""Runs that are ended anywhere come to the same end, to the bit."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import jax.numpy as jnp
import numpy as np
import pytest

from stragglers._core import toml_files
from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.report import result_table
from stragglers.runs import checkpoint, recorder, records, workers
from stragglers.runs.recorder import Kept, Said
from stragglers.runs.signals import Wish
from stragglers.runs.workers import Job, News, Terms
from stragglers.simulator import simulate
from stragglers.simulator.events import Snapshot
from stragglers.simulator.trial_state import TrialState
from tests.support.disk import spoil

ROUNDS = ["writers=12", "goal=3", "updates=30", "evaluations=4"]
SMALL = {
    "fedavg": ROUNDS,
    "fedbuff-ema": ["writers=12", "buffer=3", "concurrency=6", "updates=30", "evaluations=4"],
    "fare-dust": [*ROUNDS, "over_selection=1.6"],
    "feast": [*ROUNDS, "over_selection=1.6"],
}


def experiment(row, *more):
    document = catalog.read(f"glyphs/per-domain/{row}")
    return documents.settings_from(documents.override_all(document, [*SMALL[row], *more]))


def record(out, experiments, stop=lambda: False, **options):
    """Trains, and says what was said; the last word is `kept` if `stop` says so."""
    jobs = [Job("a test", "a", out / str(each.seed), each, "t") for each in experiments]
    return record_jobs(jobs, stop, **options)


def record_jobs(jobs, stop=lambda: False, **options):
    events = recorder.record(
        [job.folder for job in jobs],
        [job.name for job in jobs],
        [job.experiment for job in jobs],
        stop=stop,
        **options,
    )
    said = []
    for event in events:
        match event:
            case Said(line):
                said.append(line)
            case Kept():
                said.append("kept")
    return said


def after(chunks):
    """Stops at this one, counted from 1."""
    left = iter([False] * (chunks - 1) + [True] * 1000)
    return lambda: next(left)


def outcome(folder):
    """All of a run folder but clocks."""
    run = json.loads((folder / "run.json").read_text())
    for clock in ("started", "finished", "wall_s", "files", "seal"):  # of files with clocks
        del run[clock]
    lines = [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()]
    curve = [{**line, "wall_s": 0, "check": ""} for line in lines]
    weights = (folder / "model.safetensors").read_bytes()
    return run, curve, weights, sorted(path.name for path in folder.iterdir())


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0)  # a server step each


@pytest.mark.parametrize("row", SMALL)
def test_ended_again_and_again_it_comes_to_the_same_end(row, tmp_path):
    one = [experiment(row)]
    assert record(tmp_path / "whole", one) == []
    whole = outcome(tmp_path / "whole" / "0")
    assert whole[3] == ["curve.jsonl", "lock", "model.safetensors", "run.json", "settings.toml"]
    steps = whole[0]["schedule"]["server_steps"]
    ends = 0
    while not records.is_over(tmp_path / "parts" / "0"):
        said = record(tmp_path / "parts", one, after(3))
        expected = [f"resumes from server step {3 * ends} of {steps}"] if ends else []
        assert said[: len(expected)] == expected
        ends += 1
    assert ends == steps // 3 + 1 and outcome(tmp_path / "parts" / "0") == whole


def test_on_two_devices_too_and_on_no_other_number(tmp_path):
    two = [experiment("fare-dust", "threads=2")]
    record(tmp_path / "whole", two)
    assert record(tmp_path / "parts", two, after(4)) == ["kept"]
    with pytest.raises(BadInput, match=r"devices: 2 in the checkpoint, 1 now; delete"):
        record(tmp_path / "parts", [experiment("fare-dust", "threads=1")], allow_drift=True)
    assert record(tmp_path / "parts", two)[0].startswith("resumes from server step 4")
    whole, parts = (outcome(tmp_path / place / "0") for place in ("whole", "parts"))
    assert whole == parts and whole[0]["device"]["devices"] == 2


def test_a_curve_that_is_ahead_is_cut(tmp_path):
    one = [experiment("feast")]
    record(tmp_path / "whole", one)
    assert record(tmp_path / "parts", one, after(5)) == ["kept"]
    curve = tmp_path / "parts" / "0" / "curve.jsonl"
    known = curve.read_bytes()
    curve.write_bytes(known + known[:200])  # as of a process that was killed while it wrote on
    record(tmp_path / "parts", one, after(1))
    assert curve.read_bytes() == known and known.count(b"\n") == 3
    record(tmp_path / "parts", one)
    assert outcome(tmp_path / "parts" / "0") == outcome(tmp_path / "whole" / "0")


def test_a_damaged_checkpoint_costs_what_came_after_the_one_before(tmp_path):
    one, rng = [experiment("fare-dust")], random.Random(0)
    record(tmp_path / "whole", one)
    record(tmp_path / "parts", one, after(4), checkpoint_s=0)
    place = tmp_path / "parts" / "0" / "checkpoints"
    # Two steps on and one back, each time; see test_boundaries.py for many more of them.
    for step, how in enumerate(("flipped", "truncated", "missing", "from another"), 4):
        newest, before = checkpoint._all(place)
        assert newest.name.startswith(f"{step:010}-") and before.name.startswith(f"{step - 1:010}-")
        spoil(how, newest, before, rng)
        damaged, went_on, kept = record(tmp_path / "parts", one, after(2), checkpoint_s=0)
        assert damaged.startswith(f"{newest} is damaged (") and damaged.endswith("was removed")
        assert (went_on, kept) == (f"resumes from server step {step - 1} of 10", "kept")
    shutil.copytree(tmp_path / "parts", tmp_path / "none")
    for manifest in (tmp_path / "none").rglob("manifest.json"):
        manifest.unlink()
    assert record(tmp_path / "parts", one) == ["resumes from server step 8 of 10"]
    said = record(tmp_path / "none", one)
    assert said[2:] == ["no checkpoint is whole: starts anew"] and "No such file" in said[0]
    for name in ("parts", "none"):
        assert outcome(tmp_path / name / "0") == outcome(tmp_path / "whole" / "0")


def test_what_a_diverged_trial_had_is_kept(tmp_path, monkeypatch):
    """It trains no more, but its model is the one that was evaluated last."""
    two = [experiment("feast", "lanes=4", f"seed={seed}") for seed in (0, 1)]
    set_up, after_, first = simulate.set_up, TrialState.after, []

    def prepared(*given, **options):
        setup = set_up(*given, **options)
        first[:] = [setup.works[0]]
        return setup

    def until_two(state, work, step, dropped, finite):
        return after_(state, work, step, dropped, min(finite, 2) if work is first[0] else finite)

    monkeypatch.setattr(simulate, "set_up", prepared)
    monkeypatch.setattr(TrialState, "after", until_two)
    record(tmp_path / "whole", two)
    assert record(tmp_path / "parts", two, after(4)) == ["kept"]
    record(tmp_path / "parts", two)
    for trial in "01":
        assert outcome(tmp_path / "parts" / trial) == outcome(tmp_path / "whole" / trial)
    ended = records.load(tmp_path / "parts" / "0")
    assert ended.diverged.startswith("the weights are not finite after server step 3;")


@pytest.mark.parametrize("field", ["jax", "data", "lanes", "device", "settings"])
def test_drift_is_refused_by_name_or_stamped(field, tmp_path, monkeypatch):
    one = [experiment("feast")]
    record(tmp_path, one, after(3))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    fingerprint = recorder._fingerprint
    monkeypatch.setattr(
        recorder, "_fingerprint", lambda *given: fingerprint(*given) | {field: "another"}
    )
    with pytest.raises(BadInput, match=f"{field}: .* in the checkpoint, another now; give") as bad:
        record(tmp_path, one)
    assert "\n" not in str(bad.value)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    if field == "jax":
        record(tmp_path, one, after(2), allow_drift=True)
        record(tmp_path, one)  # equal from there on, and stamped all the same
        (stamp,) = records.load(tmp_path / "0").run["drift"]
        assert stamp.startswith("jax: ")
        (table,) = result_table.tables(records.find([tmp_path]), result_table.Options())
        assert f"a test: seed 0 went on where not all was equal: {stamp}" in table.notes
    record(tmp_path, one, after(1), allow_drift=True)


def test_the_end_of_the_time_and_a_signal_keep_what_is_there(tmp_path):
    one, said = experiment("feast"), []
    record(tmp_path / "whole", [one])
    job = Job("a test", "a", tmp_path / "parts" / "0", one, "t")

    def train(terms, wish):
        news = News(lambda *_: None, lambda label, line: said.append(line.split(",")[0]))
        return workers._train([job], news, terms, wish)

    assert train(Terms(deadline=0), Wish()).lines == ["stopped at 16.7%, which is kept"]
    wish = Wish()
    wish.hear(signal.SIGTERM)
    assert train(workers.USUAL, wish) == (["stopped before it trained"], None)
    assert said == ["one client at a time on cpu"]
    (line,) = train(workers.USUAL, Wish()).lines
    assert "resumes from server step 1 of 6" in said[1:] and line.startswith("straggler")
    assert outcome(job.folder) == outcome(tmp_path / "whole" / "0")


# Without training.


def snapshot(step):
    state = TrialState({"w": jnp.full(3, step, jnp.float32)})
    carry = {"a": jnp.arange(4) + step, "b": [jnp.float32(0.1), jnp.zeros((2, 0, 3), jnp.int8)]}
    return Snapshot(step, step / 3, carry, (state,))  # type: ignore


def save(folder, step):
    folder.mkdir(exist_ok=True)
    checkpoint.save(folder, snapshot(step), [b"{}\n" * step], {"jax": 1}, {"spent_s": 0.5})


def test_types_and_shapes_come_back(tmp_path):
    save(tmp_path, 7)
    found, lines = checkpoint.newest(tmp_path)
    assert found and lines == [] and found.curves == [b"{}\n" * 7]
    assert found.manifest.facts == {"spent_s": 0.5}
    again, expected = checkpoint.restore(found, snapshot(0)), snapshot(7)
    assert (again.step, again.wall_s) == (7, 7 / 3)
    for name, leaf in checkpoint._named(checkpoint._state(expected)).items():
        other = checkpoint._named(checkpoint._state(again))[name]
        assert other.dtype == leaf.dtype
        np.testing.assert_array_equal(other, leaf)
    first = snapshot(0)
    first.carry["a"] = jnp.zeros(4, jnp.float32)  # type: ignore
    with pytest.raises(BadInput, match="other arrays than this version trains"):
        checkpoint.restore(found, first)


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_last_ones_are_kept(keep, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "KEEP", keep)
    save(tmp_path, 0)
    opened = len(os.listdir("/proc/self/fd"))
    for step in range(1, 9):
        save(tmp_path, step)
        assert len(os.listdir("/proc/self/fd")) == opened
        kept = [int(path.name[:10]) for path in checkpoint._all(tmp_path / "checkpoints")]
        assert kept == list(range(step, max(-1, step - keep), -1))


# The real command, ended from outside.


def start(out, *arguments):
    command = [sys.executable, "-m", "stragglers", "run", str(out.parent / "mine.toml")]
    command += ["--out", str(out), "--checkpoint-minutes", "0", *arguments]
    # On an accelerator, which a plugin without one is taken for, processes would wait for others.
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )


def kept(out):
    while True:
        with suppress(FileNotFoundError):  # one that was renamed or removed while looking
            return set(out.glob("*/*/checkpoints/[0-9]*/manifest.json"))


def end(process, out, how, trials=1):
    """Ends it when each trial has made a checkpoint since now; returns its code and its words."""
    before, until = kept(out), time.monotonic() + 120
    while len({path.parents[2] for path in kept(out) - before}) < trials:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.005)
    process.send_signal(how)
    began = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 10 and "Traceback" not in err
    return process.returncode, err


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_signals_to_the_command(tmp_path):
    """To one process, and to one with two beside it; at the end nothing shows of them."""
    document = documents.override_all(catalog.read("glyphs/per-domain/feast"), SMALL["feast"])
    document |= {"updates": 1500, "threads": 1}
    (tmp_path / "mine.toml").write_text(toml_files.dumps(document))
    two = ("--trials", "2", "--processes", "2")
    out, whole = tmp_path / "out", tmp_path / "whole"
    said = "stragglers: interrupted; the same command resumes\n"
    with start(whole, *two) as uninterrupted:
        with start(out) as process:
            assert end(process, out, signal.SIGKILL)[0] == -signal.SIGKILL
        with start(out) as process:
            code, err = end(process, out, signal.SIGTERM)
            assert code == 143 and "resumes from server step" in err and err.endswith(said)
        with start(out, *two) as process:
            code, err = end(process, out, signal.SIGINT, trials=2)
            assert code == 130 and "which is kept" in err and err.endswith(said), err
        with start(out, *two) as process:
            _, err = process.communicate()
            assert process.returncode == 0 and err.count("resumes from server step") == 2
        assert uninterrupted.wait() == 0
    for one, other in zip(*(sorted((place / "mine").glob("*-?")) for place in (whole, out))):
        assert outcome(one) == outcome(other)
