"""The example on a real fleet: a SuperLink and SuperNodes on loopback, processes of their own."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stragglers.cli.main import main
from stragglers.planning.fit import logs
from tests.support import shown

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "tutorials" / "live-fleet.md"
MEASURED = re.compile(r"\d+(?= s:)|[\d.]+(?=%)")  # seconds, and accuracies that follow from them


def lines(output):
    """What the app prints, without numbers that are measured."""
    ours = [line for line in output.splitlines() if re.match(r"step \d|\d+ s:", line)]
    return [MEASURED.sub("N", line) for line in ours]


def transcript():
    """The command of the tutorial, and what the app prints."""
    (block,) = (block for block in shown.blocks(PAGE.read_text()) if block.text.startswith("$ "))
    command, _, output = block.text.removeprefix("$ python ").partition("\n")
    script, *options = shlex.split(command)
    return [sys.executable, ROOT / script, *options], lines(output)


def test_the_tutorial_has_a_transcript():
    command, output = transcript()
    assert command[1].exists() and "--nodes" in command
    assert len(output) == 4 and output[0] == "step 1, N s: N% of 0 to 4, N% of all"


@pytest.mark.slow
def test_the_tutorial_shows_what_happens(tmp_path):
    """Three nodes, one of them slow: it is late in every round, and all of its reports count."""
    command, output = transcript()
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert lines(run.stdout) == output, run.stdout + run.stderr
    folder = tmp_path / "served"
    assert (folder / "state.safetensors").exists()

    log = logs.read(folder / "log.csv")
    assert len(log.client) == 9 and {*log.groups} == {"standard", "straggler"}
    slow = log.group[log.client] == log.groups.index("straggler")
    assert np.all((log.times["training"] > 6) == slow)
    assert main(["fit", str(folder / "log.csv"), "--out", str(tmp_path / "fleet.toml")]) == 0
