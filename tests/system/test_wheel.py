"""A wheel holds all that the commands need: installed elsewhere, it plans and trains."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package as `pip install .` would leave it."""
    place = tmp_path_factory.mktemp("wheel")
    called([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place], ROOT)
    (wheel,) = place.glob("stragglers-*.whl")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    called([*pip, "--no-deps", "--no-index", "--target", place / "site", wheel], place)
    return place / "site"


def called(command, folder, **environment):
    run = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.slow
def test_it_plans_and_trains_from_a_folder_outside_the_repository(installed, tmp_path):
    def stragglers(*words):
        return called(
            [sys.executable, "-P", "-m", "stragglers", *words], tmp_path, PYTHONPATH=str(installed)
        )

    where = "import stragglers; print(stragglers.__file__)"
    found = called([sys.executable, "-P", "-c", where], tmp_path, PYTHONPATH=str(installed))
    assert Path(found.strip()).is_relative_to(installed)
    assert "emnist/per-domain/feast" in stragglers("list")
    assert "time" in stragglers("plan", "fleet", "--set", "updates=1000")
    demo = ["run", "glyphs/per-domain/semi-async-damped", "--trials", "1", "--updates", "100"]
    assert "semi-async-damped" in stragglers(*demo, "--set", "evaluations=1")
    stragglers("report", "runs", "--out", "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000
