"""The example on a real fleet: a SuperLink and SuperNodes on loopback, processes of their own."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stragglers.cli.main import main
from stragglers.planning.fit import logs

FLEET = Path(__file__).resolve().parents[3] / "examples" / "flower" / "fleet.py"


@pytest.mark.slow
def test_the_example_learns_from_late_reports(tmp_path):
    """Three nodes, of which one is slow: it is late in every round, and all of it counts."""
    folder = tmp_path / "served"
    sets = ["steps=2", "goal=2", "cohort=3", "late-seconds=120.0", f"folder='{folder}'"]
    command = [sys.executable, FLEET, "--nodes", "3", "--first", "2", "--slow", "6"]
    command += [word for given in sets for word in ("--set", given)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    shown = re.findall(r"step (\d), (\d+) s: ([\d.]+)% of 0 to 4, ([\d.]+)% of all", run.stdout)
    assert [step for step, *_ in shown] == ["1", "2"], run.stdout + run.stderr
    assert "'on_time': 4, 'late': 2" in run.stdout
    assert (folder / "state.safetensors").exists()

    log = logs.read(folder / "log.csv")
    assert len(log.client) == 6 and {*log.groups} == {"standard", "straggler"}
    slow = log.group[log.client] == log.groups.index("straggler")
    assert np.all((log.times["training"] > 6) == slow)
    assert main(["fit", str(folder / "log.csv"), "--out", str(tmp_path / "fleet.toml")]) == 0
