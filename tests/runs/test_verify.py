"""Whatever rots in a run folder is found, and no number of a table comes from it."""

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from stragglers._core import seals
from stragglers._core.errors import BadInput
from stragglers._core.seals import Damaged
from stragglers.config import catalog, documents
from stragglers.report import formats, result_table
from stragglers.runs import curve, records, run_folder, trials, verify
from stragglers.runs.results import load_runs
from tests.runs.test_records import NAME, evaluation, settings, written
from tests.support import fabricate
from tests.support.disk import Killed, failing
from tests.system.test_boundaries import tmp_path as tmp_path  # in memory

BEFORE = Path(__file__).parents[1] / "system" / "before"


def table(root):
    """What `stragglers table` prints, without the lines about damaged folders."""
    options = result_table.Options()
    found = records.find([root])
    return formats.csv_text(result_table.tables(found, options), options)


def bits_of(content, bits):
    """The content with each of these bits flipped in turn."""
    for bit in bits:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


@pytest.fixture
def two(tmp_path):
    """Two finished trials, and the table of the second alone."""
    faults = tmp_path / "faults.csv"
    faults.write_text("client,crash\n" + "x,0.1\n" * 20)
    folder = written(tmp_path / "runs", faults={"csv": str(faults)})
    other = written(tmp_path / "runs", seed=1, faults={"csv": str(faults)})
    return folder, table(other)


SAMPLES = {"model.safetensors": 1_000, "copy": 500}


@pytest.mark.parametrize("name", ["settings.toml", "run.json", "curve.jsonl", *SAMPLES])
def test_every_flipped_bit_is_found_and_reaches_no_table(two, name):
    """All bits of the settings, of run.json and of the last evaluation; of others some."""
    folder, alone = two
    (file,) = folder.glob(f"{name}*")
    content = file.read_bytes()
    bits = range(8 * len(content))
    if name in SAMPLES:
        bits = random.Random(name).sample(bits, min(SAMPLES[name], len(bits)))
    elif name == "curve.jsonl":
        bits = bits[8 * (content[:-1].rindex(b"\n") + 1) :]
    both = table(folder.parents[2])
    made = found = 0
    for flipped in bits_of(content, bits):
        file.write_bytes(flipped)
        seen = verify.verified(folder)
        made, found = made + 1, found + (seen.state == "damaged")
        assert "\n" not in seen.what and str(folder) in seen.what
        if name == "model.safetensors":  # in no table
            continue
        with pytest.raises(Damaged):
            records.load(folder)
        if made % 400 == 1:
            assert table(folder.parents[2]) == alone
    assert made == found > 100
    file.write_bytes(content)
    assert verify.verified(folder).state == "whole" and table(folder.parents[2]) == both != alone


@pytest.mark.parametrize("name", ["settings.toml", "run.json", "curve.jsonl", "model.safetensors"])
def test_a_file_that_is_cut_or_lost_is_found(two, name):
    folder, alone = two
    content = (folder / name).read_bytes()
    for end in [*range(0, len(content), 97), len(content) - 1]:
        (folder / name).write_bytes(content[:end])
        assert verify.verified(folder).state == "damaged", end
    (folder / name).unlink()
    assert f"damaged, {name} is missing. Delete the folder" in verify.verified(folder).what
    if name != "model.safetensors":
        assert table(folder.parents[2]) == alone


@pytest.mark.parametrize("name", ["settings.toml", "curve.jsonl", "model.safetensors"])
def test_a_file_of_another_trial_is_found(two, name):
    folder, _ = two
    other = folder.with_name(folder.name.replace("-0", "-1"))
    if name == "curve.jsonl":
        content = (other / name).read_bytes()
        (other / name).write_bytes(content.replace(b'"step":0', b'"step":1'))
    shutil.copy(other / name, folder)
    assert f"{name} is not what was written" in verify.verified(folder).what


def test_more_files_are_the_users_own_unless_they_have_names_of_ours(two):
    folder, _ = two
    (folder / "notes.txt").write_text("mine")
    assert verify.verified(folder).state == "whole"
    (folder / "curve.jsonl.gz").write_bytes(b"")
    assert "curve.jsonl.gz does not belong to it" in verify.verified(folder).what
    kept = records.put_away(folder, folder.parents[3] / "results")
    assert verify.verified(kept).state == "whole"
    read = records.load(kept).curve["step"].tolist()
    (kept / "curve.jsonl").write_bytes(b"")  # not what is sealed, and not what is read
    assert records.load(kept).curve["step"].tolist() == read == [0, 1, 2]
    assert "curve.jsonl does not belong to it" in verify.verified(kept).what


def test_a_run_that_is_written_is_running_and_a_line_that_was_cut_is_no_damage(tmp_path):
    folder = written(tmp_path, status="running")
    path, whole = folder / "curve.jsonl", (folder / "curve.jsonl").read_bytes()
    assert verify.verified(folder).state == "running"
    for end in range(whole[:-1].rindex(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:end])
        assert verify.verified(folder).state == "running", end
        assert records.load(folder).curve["step"].tolist() in ([0, 1], [0, 1, 2])


def test_a_flipped_bit_of_a_curve_that_is_written_costs_its_line(tmp_path):
    folder = written(tmp_path, status="running")
    path, content = folder / "curve.jsonl", (folder / "curve.jsonl").read_bytes()
    whole = records.load(folder).curve
    last = content[:-1].rindex(b"\n") + 1
    for made, flipped in enumerate(bits_of(content, range(8 * last, 8 * len(content)))):
        path.write_bytes(flipped)
        assert curve.is_damaged(flipped)
        read, (warning,) = curve.read(path, is_checked=True)
        assert "lines cannot be read" in warning
        assert all(read[name].tolist() == whole[name][:2].tolist() for name in curve.COLUMNS)
        if made % 100 == 0:
            assert "curve.jsonl is not what was written" in verify.verified(folder).what
            assert records.load(folder).warnings == [warning]


def test_a_curve_that_rots_in_training_is_not_sealed(tmp_path):
    chosen = settings()
    with run_folder.claim(tmp_path):
        run = run_folder.begin(tmp_path, chosen, {"name": NAME})
        run_folder.append(tmp_path, evaluation(1))
        path = tmp_path / "curve.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"step":1', b'"step":3'))
        with pytest.raises(BadInput, match="not what was written during training. Run the command"):
            run_folder.finish(tmp_path, run, {}, {"status": "finished"})
    assert records.load(tmp_path).status == "running"


def test_settings_are_never_beside_the_seal_of_others(tmp_path):
    """A resumed run may write other settings: its process is killed at every call to the disk."""
    calls, before, after = 1, settings(), settings(updates=5)
    while True:
        folder = tmp_path / str(calls)
        with run_folder.claim(folder):
            run_folder.begin(folder, before, {"name": NAME})
            (folder / "model.safetensors").touch()  # of an end that was interrupted
            with failing(calls, None) as disk, suppress(Killed):
                run_folder.begin(folder, after, {"name": NAME})
        if (folder / "run.json").exists():
            assert verify.verified(folder).state == "running", calls
        else:
            assert trials.missing([job_of(tmp_path)._replace(folder=folder)])
        if not disk.failed:
            break
        calls += 1
    assert calls > 15 and records.load(folder).settings["updates"] == 5


def job_of(folder):
    experiment = documents.settings_from({**catalog.read(NAME)})
    (job,) = trials.jobs_of({NAME: experiment}, 1, folder)
    return job


@pytest.mark.parametrize("name", ["settings.toml", "run.json", "curve.jsonl"])
def test_a_damaged_trial_is_neither_there_nor_trained_over(tmp_path, name):
    job = job_of(tmp_path)
    folder = written(tmp_path)
    assert folder == job.folder and trials.missing([job]) == []
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(BadInput, match=f"{name} is not .*Delete the folder to train") as error:
        trials.run_missing([job])
    assert "\n" not in str(error.value)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    shutil.rmtree(folder)
    assert trials.missing([job]) == [job]


def test_a_trial_that_has_lost_its_run_json_is_not_trained_over(tmp_path):
    job = job_of(tmp_path)
    (written(tmp_path) / "run.json").unlink()
    with pytest.raises(Damaged, match="run.json is missing. Delete the folder"):
        trials.missing([job])
    (job.folder / "checkpoints").mkdir()  # it was resumed, and ended before it had written one
    assert trials.missing([job]) == [job]


def test_what_is_interrupted_resumes_whatever_has_become_of_its_settings(tmp_path):
    """The checkpoint vouches for itself, and settings are written anew from what is asked for."""
    job = job_of(tmp_path)
    folder = written(tmp_path, status="running")
    (folder / "settings.toml").write_text("")
    assert trials.missing([job]) == [job]
    written(tmp_path)
    assert verify.verified(folder).state == "whole"
    (folder / "checkpoints").mkdir()
    (folder / "run.json").write_text("{")
    with pytest.raises(
        Damaged, match="Delete its run.json to resume the trial from its checkpoint"
    ):
        trials.missing([job])


def test_settings_of_a_run_that_differ_are_not_repeated(two):
    folder, _ = two
    file = folder / "settings.toml"
    catalog.read(str(file))
    file.write_text(file.read_text().replace("learning_rate = 0.0", "learning_rate = 0.2"))
    with pytest.raises(BadInput, match=r"settings.toml is not what was written. .* copy the file"):
        catalog.read(str(file))


def test_tables_say_what_they_leave_out(two, capsys):
    folder, _ = two
    (folder / "settings.toml").write_text("")
    root = folder.parents[2]
    line = f"left out: {folder}: damaged, settings.toml is not what was written. "
    (found,) = result_table.tables(records.find([root]))
    assert found.notes[0].startswith(line)
    runs = load_runs(root)
    assert len(runs) == 1 and runs.damaged[0].startswith(line) and line in repr(runs)
    assert line in capsys.readouterr().err
    with pytest.raises(Damaged, match="settings.toml is not what was written"):
        load_runs(folder)


# Folders of versions before 0.2.0.


def test_folders_from_before_are_read_as_before_and_said_to_be_unsealed_once(tmp_path, capsys):
    found = load_runs(BEFORE / "whole")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("stragglers: 6 of 6 runs are unsealed") and not found[0].is_sealed
    states = [verify.verified(folder).state for folder in records.folders_in([BEFORE])]
    assert set(states) == {"unsealed"} and len(states) == 13


def test_sealing_reads_whole_and_changes_nothing_twice(tmp_path):
    shutil.copytree(BEFORE / "whole", tmp_path / "whole")
    shutil.copytree(BEFORE / "put_away", tmp_path / "put_away")
    before = table(tmp_path / "whole")
    for folder in records.folders_in([tmp_path]):
        then = json.loads((folder / "run.json").read_text())
        assert verify.seal(folder).state == "whole"
        sealed = (folder / "run.json").read_bytes()
        now = json.loads(sealed)
        ours = {path.name for path in folder.iterdir()} - {"run.json"}
        assert now["files"].keys() == ours and seals.is_sealed(sealed)
        assert {**now, "format": 1} == {**then, "files": now["files"], "seal": now["seal"]}
        assert verify.seal(folder).state == "whole"
        assert (folder / "run.json").read_bytes() == sealed
    assert table(tmp_path / "whole") == before


SPOILT = {
    "settings.toml": lambda text: text.replace(b"learning_rate = 0.0", b"learning_rate = 0.2"),
    "curve.jsonl": lambda text: text[:-30],
    "model.safetensors": lambda text: text[:-1],
    "run.json": lambda text: text.replace(b'"seed": 0', b'"seed": "0"'),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_cannot_be_read_whole_is_not_sealed(tmp_path, name):
    folder = shutil.copytree(next((BEFORE / "whole" / NAME).glob("*-0")), tmp_path / "one")
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(spoilt := SPOILT[name](content))
    assert spoilt != content
    run = (folder / "run.json").read_bytes()
    found = verify.seal(folder)
    assert found.state == "damaged" and name.split(".")[0] in found.what
    assert (folder / "run.json").read_bytes() == run


def test_a_run_from_before_that_was_interrupted_is_sealed_when_it_ends(tmp_path):
    folder = shutil.copytree(next((BEFORE / "stopped" / NAME).glob("*-0")), tmp_path / "one")
    assert verify.seal(folder).state == "unsealed"
    assert verify.verified(fabricate.unsealed(written(tmp_path / "runs"))).state == "unsealed"
