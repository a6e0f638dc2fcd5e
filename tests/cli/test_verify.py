"""`stragglers verify`, as a user types it."""

import json
import shutil
from pathlib import Path

import pytest

from stragglers.runs import records
from tests.support.command import refused, run
from tests.support.fabricate import demo, run_folder, unsealed

BEFORE = Path(__file__).parents[1] / "system" / "before"


@pytest.fixture
def runs(tmp_path):
    demo(tmp_path, 1)
    run_folder(tmp_path, "glyphs/per-domain/fedavg", 1, status="running")
    return tmp_path


def damage(folder):
    (folder / "curve.jsonl").write_bytes(b"")
    return folder


def test_all_runs_are_whole(capsys, runs):
    assert run(capsys, "verify", str(runs)) == (
        0,
        "7 runs: 6 whole, 1 running or interrupted\n",
        "",
    )


def test_a_damaged_run_is_a_line_and_exit_code_1(capsys, runs):
    folder = damage(records.find([runs])[0].folder)
    code, out, err = run(capsys, "verify", str(runs))
    assert (code, err) == (1, "")
    line, summary = out.splitlines()
    assert line == (
        f"{folder}: damaged, curve.jsonl is not what was written. "
        "Delete the folder to train the trial again."
    )
    assert summary == "7 runs: 5 whole, 1 running or interrupted, 1 damaged"
    code, out, _ = run(capsys, "verify", str(runs), "--json")
    found = json.loads(out)
    assert code == 1 and (found["whole"], found["damaged"], found["unsealed"]) == (5, 1, 0)
    assert {"folder": str(folder), "state": "damaged", "what": line} in found["runs"]


def test_old_runs_are_sealed_if_asked(capsys, tmp_path, monkeypatch):
    shutil.copytree(BEFORE / "whole", tmp_path / "runs")
    shutil.copytree(BEFORE / "stopped" / "own", tmp_path / "runs" / "stopped")
    monkeypatch.chdir(tmp_path)
    old = "unsealed (of a version before 0.2.0; --seal seals those that are over)"
    assert run(capsys, "verify") == (0, f"7 runs: 7 {old}\n", "")
    for _ in range(2):
        assert run(capsys, "verify", "--seal") == (0, f"7 runs: 6 whole, 1 {old}\n", "")
    assert run(capsys, "table", "runs")[2].startswith("stragglers: 1 of 7 runs are unsealed")


def test_table_report_and_export_name_what_they_leave_out(capsys, runs, tmp_path):
    folder = damage(records.find([runs])[0].folder)
    line = f"stragglers: left out: {folder}: damaged, curve.jsonl is not what was written."
    page = tmp_path / "page.html"
    for command in (["table"], ["report", "--out", str(page)]):
        code, out, err = run(capsys, *command, str(runs))
        assert code == 0 and err.startswith(line) and err.count("\n") == 1
        assert command != ["table"] or f"! left out: {folder}" in out
    assert f"left out: {folder}" in page.read_text()


def test_unsealed_runs_are_one_line_of_a_command(capsys, runs):
    for record in records.find([runs])[:2]:
        unsealed(record.folder)
    code, _, err = run(capsys, "table", str(runs))
    assert code == 0 and err.count("\n") == 1
    assert err.startswith("stragglers: 2 of 7 runs are unsealed (of a version before 0.2.0)")


def test_a_table_of_damaged_runs_alone_is_refused(capsys, tmp_path):
    folders = [damage(run_folder(tmp_path, seed=seed)) for seed in range(3)]
    line = refused(capsys, "table", str(tmp_path))
    assert str(folders[0].parent) in line and "(and 2 more damaged runs)" in line


def test_folders_without_runs_are_refused(capsys, tmp_path):
    assert "no runs in it" in refused(capsys, "verify", str(tmp_path))
