"""A thousand malformed experiments: exit code 2, one line that names the mistake, no file."""

import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

import stragglers
from stragglers.cli.main import main
from stragglers.config import catalog
from tests.support.malformed import KINDS, Case, cases, enriched

SECONDS = 0.05  # of a core, for each
PACKAGE = str(Path(stragglers.__file__).parents[1])

BY_KIND: dict[str, list[Case]] = defaultdict(list)
for case in cases(1000, seed=0):
    BY_KIND[case.kind].append(case)
SAMPLE = [found[index % len(found)] for index, found in enumerate(BY_KIND.values())]
SAMPLE += [BY_KIND["key"][-1], BY_KIND["outside"][-1]]


def arguments(case: Case) -> list[str]:
    if case.command == "tune":
        return ["tune", "glyphs/per-domain/fedadam", "--grid", case.file]
    return [case.command, case.file, *case.options]


def check(case: Case, code: int, out: str, err: str) -> None:
    assert (code, out) == (2, ""), (case, out, err)
    line = err.removesuffix("\n")
    assert line.isprintable() and line.startswith("stragglers: ") and len(line) < 600, (case, err)
    assert all(name in line for name in case.names), (case, line)


@pytest.fixture(scope="module", autouse=True)
def everything_is_loaded():
    for command in ("plan", "run"):
        main([command, "emnist/per-domain/fedavg", "--set", "goal=x"])
    main(["tune", "glyphs/per-domain/fedavg", "--grid", "nothing.toml"])


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRAGGLERS_DATA", raising=False)
    return tmp_path


@pytest.mark.parametrize("kind", BY_KIND)
def test_a_mistake_is_one_line_at_once_and_no_file(place, capsys, kind):
    seconds = []
    for case in BY_KIND[kind]:
        (place / case.file).write_bytes(case.text)
        best = float("inf")
        for _ in range(3):  # other processes are about
            began = time.process_time()
            code = main(arguments(case))
            best = min(best, time.process_time() - began)
            captured = capsys.readouterr()
            check(case, code, captured.out, captured.err)
            if best < SECONDS:
                break
        seconds.append(best)
        assert [path.name for path in place.iterdir()] == [case.file]
        assert (place / case.file).read_bytes() == case.text
        (place / case.file).unlink()
    assert max(seconds) < SECONDS and statistics.median(seconds) < SECONDS / 2, kind


def test_there_are_a_thousand_of_every_kind():
    assert sum(map(len, BY_KIND.values())) == 1000 and len(BY_KIND) == len(KINDS) >= 25
    assert len({case.text for found in BY_KIND.values() for case in found}) > 850


def test_what_they_are_made_from_is_right(capsys):
    """So that the mistake that was put in is the one that is told."""
    for name in catalog.presets():
        enriched(catalog.read(name))
    assert main(["plan", "glyphs/per-domain/feast", "--json"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.kind)
def test_so_it_is_with_the_real_command(place, case, command):
    case = case if case.kind in ("grid", "elsewhere") else case._replace(command=command)
    (place / case.file).write_bytes(case.text)
    done = subprocess.run(
        [sys.executable, "-m", "stragglers", *arguments(case)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": PACKAGE},
    )
    check(case, done.returncode, done.stdout, done.stderr)
    assert [path.name for path in place.iterdir()] == [case.file]
