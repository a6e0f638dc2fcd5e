import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from stragglers._core import seals
from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.config.settings import settings_hash
from stragglers.runs import curve, records, run_folder
from stragglers.runs.device_lock import turn
from tests.support import fabricate

NAME = "glyphs/per-domain/feast"


def settings(seed=0, name=NAME, **changes):
    document = {**catalog.read(name), **changes, "seed": seed}
    return documents.completed(document)


def folder_of(out, name, chosen):
    return run_folder.folder_of(out, name, documents.settings_from(chosen))


def evaluation(step, **values):
    point = {name: kind(step) for name, kind in curve.COLUMNS.items()}
    return point | {name: 0.1 * step for name in point if name.endswith("_accuracy")} | values


def written(out, seed=0, points=3, status="finished", together=1, **changes):
    """A run folder, as training leaves it."""
    chosen = settings(seed, **changes)
    folder = folder_of(out, NAME, chosen)
    with run_folder.claim(folder):
        run = run_folder.begin(folder, chosen, {"name": NAME})
        for step in range(points):
            run_folder.append(folder, evaluation(step))
        if status != "running":
            weights = {"w/dense": np.arange(3, dtype=np.float32)}
            facts = {"wall_s": 1.5, "device": {"trials_together": together}}
            run_folder.finish(folder, run, weights, {"status": status, **facts})
    return folder


def test_what_is_written_is_read(tmp_path):
    record = records.load(written(tmp_path))
    assert (record.name, record.seed, record.status, record.warnings) == (NAME, 0, "finished", [])
    assert record.settings == settings() and record.run["wall_s"] == 1.5
    assert settings_hash(record.settings) == record.hash == record.folder.name[:12]
    assert list(record.curve) == list(curve.COLUMNS)
    assert record.curve["updates"].tolist() == [0, 1, 2] and record.curve["updates"].dtype == int
    assert record.curve["time_s"].dtype == float


def test_the_weights_carry_their_origin(tmp_path):
    from safetensors import safe_open

    folder = written(tmp_path, seed=7)
    with safe_open(folder / "model.safetensors", "numpy") as file:
        assert file.metadata() == {"name": NAME, "hash": folder.name[:12], "seed": "7"}
        assert file.get_tensor("w/dense").tolist() == [0, 1, 2]


def test_a_trial_of_several_in_a_program_took_its_share_of_the_time(tmp_path):
    alone, shared = written(tmp_path), written(tmp_path, seed=1, together=3)
    assert (records.seconds(alone), records.seconds(shared)) == (1.5, 0.5)
    assert records.seconds(written(tmp_path, seed=2, status="diverged")) is None
    assert records.seconds(tmp_path / "none") is None


def test_it_can_be_read_while_it_is_written(tmp_path):
    chosen = settings()
    folder = folder_of(tmp_path, NAME, chosen)
    with run_folder.claim(folder):
        run_folder.begin(folder, chosen, {"name": NAME})
        assert records.load(folder).curve["step"].tolist() == []
        run_folder.append(folder, evaluation(4))
        (record,) = records.find([tmp_path])
        assert record.status == "running" and record.curve["step"].tolist() == [4]
        assert not records.is_over(folder)


def test_numbers_that_are_not_finite_come_back_as_nan(tmp_path):
    folder = written(tmp_path, points=1, status="running")
    run_folder.append(folder, evaluation(1, straggler_accuracy=np.nan, total_loss=float("inf")))
    assert b"null" in (folder / "curve.jsonl").read_bytes()
    record = records.load(folder)
    assert record.warnings == []
    assert np.isnan(record.curve["straggler_accuracy"]).tolist() == [False, True]
    assert np.isnan(record.curve["total_loss"]).tolist() == [False, True]


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_a_curve_cut_in_mid_line_loses_that_line(tmp_path, cut):
    curve = written(tmp_path, status="running") / "curve.jsonl"
    curve.write_bytes(curve.read_bytes()[: -1 - cut])
    record = records.load(curve.parent)
    assert record.curve["step"].tolist() == [0, 1]
    (warning,) = record.warnings
    assert str(curve) in warning and "1 of 3 lines" in warning


def test_a_line_spoilt_in_the_middle_loses_that_line(tmp_path):
    curve = written(tmp_path, status="running") / "curve.jsonl"
    first, _, last = curve.read_bytes().splitlines(keepends=True)
    curve.write_bytes(first + b"\xff\x00 {}\n" + last)
    record = records.load(curve.parent)
    assert record.curve["step"].tolist() == [0, 2] and len(record.warnings) == 1


@pytest.mark.parametrize("accuracy", [5.0, 1.0001, -0.1])
def test_an_accuracy_that_is_no_share_loses_its_line(tmp_path, accuracy):
    folder = written(tmp_path, points=1, status="running")
    run_folder.append(folder, evaluation(1, total_accuracy=accuracy))
    run_folder.append(
        folder, evaluation(2, total_accuracy=1.0, standard_accuracy=0.0, total_loss=9.0)
    )
    record = records.load(folder)
    assert record.curve["step"].tolist() == [0, 2] and "1 of 3 lines" in record.warnings[0]


SPOILT = {
    "{": "run.json is no run's",
    "[]": "run.json is no run's",
    '{"format": 1, "name": 3}': "run.json is no run's",
    '{"format": 2}': "run.json is not what was written",
    "{}": "run.json is not what was written",
    seals.sealed({"format": 3}).decode(): "format 3, this version reads 1 and 2",
}


@pytest.mark.parametrize("text", SPOILT)
def test_a_spoilt_run_is_named(tmp_path, text):
    folder = written(tmp_path)
    (folder / "run.json").write_text(text)
    for read in (records.load, records.is_over, lambda folder: records.find([folder])):
        with pytest.raises(BadInput, match=re.escape(SPOILT[text])) as error:
            read(folder)
        assert str(error.value).startswith(str(folder)) and "\n" not in str(error.value)


WRONG_FACTS = [
    {"schedule": "x"},
    {"schedule": {"server_steps": "x"}},
    {"schedule": {"time_s": None}},
    {"schedule": {"share": {"standard": 5}}},
    {"schedule": {"device_s": {"used": "x"}}},
    {"schedule": {"staleness": 5}},
    {"schedule": {"faults": 5}},
    {"device": 5},
    {"versions": 5},
    {"data": 5},
    {"drift": 5},
    {"dropped": "x"},
]


@pytest.mark.parametrize("facts", WRONG_FACTS, ids=str)
def test_facts_that_reports_could_not_use_are_named(tmp_path, facts):
    folder = written(tmp_path)
    fabricate.changed(folder, **facts)
    with pytest.raises(
        BadInput, match=rf"run\.json is no run's: .*\$\.{next(iter(facts))}"
    ) as error:
        records.load(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["settings.toml", "curve.jsonl"])
def test_a_missing_part_is_named(tmp_path, name):
    folder = written(tmp_path)
    (folder / name).unlink()
    with pytest.raises(BadInput, match=f"damaged, {name} is missing. Delete the folder to train"):
        records.load(folder)
    fabricate.unsealed(folder)
    with pytest.raises(BadInput, match=f"{name}: cannot be read"):
        records.load(folder)


LATER = [name for name in curve.COLUMNS if name.startswith(curve.LATER)]


def test_curves_from_before_the_test_examples_were_split_are_read(tmp_path):
    folder = fabricate.unsealed(written(tmp_path))
    lines = map(json.loads, (folder / "curve.jsonl").read_text().splitlines())
    old = [
        {name: value for name, value in line.items() if name not in (*LATER, "check")}
        for line in lines
    ]
    text = "".join(json.dumps(line) + "\n" for line in old)
    (folder / "curve.jsonl").write_text(text)
    record = records.load(folder)
    assert record.warnings == [] and record.curve["total_accuracy"].tolist() == [0.0, 0.1, 0.2]
    assert len(LATER) == 10 and all(np.isnan(record.curve[name]).all() for name in LATER)
    points = curve.evaluations(text.encode())  # a checkpoint's
    assert np.isnan(points[0]["held_out_total_accuracy"]) and points[0]["total_accuracy"] == 0.0
    assert [json.loads(curve.line(point)) for point in points] == old


def test_what_is_put_away_is_read_and_has_no_weights(tmp_path):
    folder = written(tmp_path / "runs")
    kept = records.put_away(folder, tmp_path / "results")
    assert kept == tmp_path / "results" / NAME / folder.name
    names = {"curve.jsonl.gz", "run.json", "settings.toml"}
    assert {file.name for file in kept.iterdir()} == names
    before, after = records.load(folder), records.load(kept)
    assert after.settings == before.settings and before.is_sealed and after.is_sealed
    assert before.run["files"].keys() == {"settings.toml", "curve.jsonl", "model.safetensors"}
    assert after.run["files"].keys() == {"settings.toml", "curve.jsonl.gz"}
    for seal in ("files", "seal"):
        del after.run[seal], before.run[seal]
    assert after.run == before.run
    assert all((after.curve[name] == before.curve[name]).all() for name in curve.COLUMNS)


def test_the_place_of_the_data_is_not_put_away(tmp_path):
    folder = written(tmp_path / "runs")
    text = (folder / "settings.toml").read_text()
    (folder / "settings.toml").write_text(text.replace("[task]", '[task]\npath = "/secret"'))
    fabricate.changed(folder)
    kept = records.put_away(folder, tmp_path / "results")
    assert records.load(folder).settings["task"]["path"] == "/secret"
    assert "secret" not in (kept / "settings.toml").read_text()


@pytest.mark.parametrize("spoil", [lambda b: b[:-9], lambda b: b"x" + b, lambda b: b[:40] + b[45:]])
def test_a_compressed_curve_that_is_damaged_is_named(tmp_path, spoil):
    curve = records.put_away(written(tmp_path), tmp_path / "results") / "curve.jsonl.gz"
    curve.write_bytes(spoil(curve.read_bytes()))
    with pytest.raises(BadInput, match=r"damaged, curve\.jsonl\.gz is not what was written"):
        records.load(curve.parent)
    fabricate.unsealed(curve.parent)
    with pytest.raises(BadInput, match=r"curve\.jsonl\.gz: not a gzip file, or not all of it"):
        records.load(curve.parent)


def test_folders_that_are_no_runs_are_named(tmp_path):
    with pytest.raises(BadInput, match="not a run"):
        records.load(tmp_path)
    with pytest.raises(BadInput, match=f"{tmp_path}: no runs in it"):
        records.find([tmp_path])
    with pytest.raises(BadInput, match="absent: no such folder"):
        records.find([tmp_path / "absent"])


def test_runs_are_found_in_one_order_each_once(tmp_path):
    folders = [written(tmp_path, seed) for seed in (10, 2, 0)]
    other = written(tmp_path, seed=1, updates=2_000)
    found = [record.folder for record in records.find([folders[0], tmp_path, tmp_path / "glyphs"])]
    assert sorted(found) == sorted([*folders, other])
    keys = [(record.hash, record.seed) for record in records.find([tmp_path])]
    assert keys == sorted(keys)


def test_a_thousand_runs_are_read_in_a_moment(tmp_path):
    folder = written(tmp_path / "one", points=100)
    files = [path for path in folder.iterdir() if path.suffix in (".json", ".jsonl", ".toml")]
    contents = {path.name: path.read_bytes() for path in files}
    for seed in range(1_000):
        (tmp_path / "many" / f"{seed}").mkdir(parents=True)
        for name, content in contents.items():
            (tmp_path / "many" / f"{seed}" / name).write_bytes(content)
    began = time.perf_counter()
    assert len(records.find([tmp_path / "many"])) == 1_000
    assert time.perf_counter() - began < 3


def test_the_hash_is_of_what_changes_a_result(tmp_path):
    same = settings_hash(settings())
    assert settings_hash(settings(seed=5)) == same
    assert settings_hash(settings(readings={"literal": {"updates": 3}})) == same
    assert settings_hash(settings(updates=2_399)) != same
    assert settings_hash(settings(threads=2)) != same
    assert settings_hash(dict(reversed(settings().items()))) == same


def test_a_file_counts_by_what_is_in_it(tmp_path):
    def digest(name, text):
        (tmp_path / name).write_text(text)
        faults = {"csv": str(tmp_path / name)}
        return settings_hash(settings(faults=faults))

    first = digest("a.csv", "1\n2\n")
    assert digest("b.csv", "1\n2\n") == first  # wherever it lies
    assert digest("a.csv", "1\n3\n") != first


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_the_hash_is_the_same_in_every_process(hash_seed):
    code = f"""if True:
        from stragglers.config import catalog, documents
        print(documents.settings_from(catalog.read({NAME!r})).hash)
    """
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == settings_hash(settings())


def test_a_lock_whose_holder_was_killed_is_nobodys(tmp_path):
    code = "import os, signal; from pathlib import Path; from stragglers.runs import run_folder\n"
    code += f"with run_folder.claim(Path({str(tmp_path)!r})): os.kill(os.getpid(), signal.SIGKILL)"
    killed = subprocess.run([sys.executable, "-c", code])
    assert killed.returncode == -signal.SIGKILL and (tmp_path / "lock").exists()
    run_folder.check_free(tmp_path)
    with run_folder.claim(tmp_path):
        assert run_folder.begin(tmp_path, settings(), {"name": NAME})["status"] == "running"


def test_two_runs_cannot_claim_one_folder(tmp_path):
    with run_folder.claim(tmp_path):
        with (
            pytest.raises(BadInput, match="another process is writing"),
            run_folder.claim(tmp_path),
        ):
            pass
        code = "from pathlib import Path; from stragglers.runs import run_folder\n"
        code += f"with run_folder.claim(Path({str(tmp_path)!r})): pass"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert other.returncode == 1 and "another process is writing" in other.stderr
    with run_folder.claim(tmp_path):
        pass


def test_a_folder_where_there_are_no_locks_is_refused_in_a_line(tmp_path, monkeypatch):
    def flock(handle, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(BadInput, match="No locks available"), run_folder.claim(tmp_path):
        pass
    with pytest.raises(BadInput, match="No locks available"), turn(str(tmp_path / "a")) as take:
        take()


@pytest.mark.parametrize("when", ["begin", "append", "finish"])
def test_a_full_disk_is_one_line_and_what_was_there_stays(tmp_path, monkeypatch, when):
    chosen = settings()
    folder = folder_of(tmp_path, NAME, chosen)

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with run_folder.claim(folder):
        run = run_folder.begin(folder, chosen, {"name": NAME})
        run_folder.append(folder, evaluation(0))
        before = {path: path.read_bytes() for path in folder.iterdir()}
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(BadInput, match="No space left on device"):
            match when:
                case "begin":
                    run_folder.begin(folder, chosen, {"name": "another"})
                case "append":
                    run_folder.append(folder, evaluation(1))
                case "finish":
                    run_folder.finish(folder, run, {}, {"status": "finished"})
    after = {path: path.read_bytes() for path in folder.iterdir()}
    assert after.keys() == before.keys()
    assert all(after[path].startswith(before[path]) for path in before)
    assert records.load(folder).status == "running"


def test_starting_again_leaves_nothing_of_the_attempt_before(tmp_path):
    folder = written(tmp_path, status="running", points=2)
    (folder / ".unfinished-abc.json").write_text("{")
    written(tmp_path, points=1)
    assert records.load(folder).curve["step"].tolist() == [0]
    names = {"curve.jsonl", "lock", "model.safetensors", "run.json", "settings.toml"}
    assert {path.name for path in folder.iterdir()} == names
