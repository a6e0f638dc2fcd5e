"""An off-the-shelf mutation tool, cosmic-ray, over the files that decide results.

    pip install cosmic-ray        into an environment of its own
    python -m benchmarks.cosmic [--each N] [--seed S] [--only FILE] [--python PYTHON]

Of the mutants that it finds in a file, `--each` are drawn; those of annotations change nothing and
are left out. Each is tried by a few tests that mirror its file, with the Python that has our
dependencies. A survivor of these is not yet one of all tests: it is printed, to be judged.
"""

import argparse
import ast
import json
import random
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.mutants import OPTIONS, copy, environment

SCHEDULES = ["tests/planning/test_rounds.py", "tests/planning/test_buffered.py"]
WITNESSES = ["tests/system/test_witnesses.py", "-k"]
ALGORITHM = ["tests/algorithms", "tests/simulator/test_simulate.py", *WITNESSES]
WHAT = "test_base or refused or ends_of or ((every_option or given_up) and {})"
TESTS = {
    "planning/schedule.py": ["tests/planning/test_schedule.py", *SCHEDULES],
    "planning/rounds.py": ["tests/planning/test_rounds.py"],
    "planning/buffered.py": ["tests/planning/test_buffered.py"],
    "simulator/local_training.py": [
        "tests/simulator/test_local_training.py",
        *WITNESSES,
        "test_local_training or (every_option and fedavg)",
    ],
    "algorithms/base.py": [*ALGORITHM, WHAT.format("(fedavg or feast or late)")],
    "algorithms/fedavg.py": [*ALGORITHM, WHAT.format("fedavg")],
    "algorithms/fare_dust.py": [*ALGORITHM, WHAT.format("fare")],
    "algorithms/feast.py": [*ALGORITHM, WHAT.format("feast")],
}
LIMIT_S = 900.0


def annotated(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where annotations begin and end."""

    def notes() -> Iterator[Any]:
        for node in ast.walk(ast.parse(source)):
            yield from (getattr(node, "annotation", None), getattr(node, "returns", None))

    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in notes() if n]


def sample(session: Path, source: str, each: int, seed: int) -> int:
    """Keeps some of a session's mutants; says how many there were."""
    from cosmic_ray.work_db import WorkDB, use_db  # pyright: ignore[reportMissingImports]

    places = annotated(source)
    with use_db(session, WorkDB.Mode.open) as database:
        items = [
            item
            for item in database.work_items
            if not any(low <= item.mutations[0].start_pos <= high for low, high in places)
        ]
        items.sort(key=lambda item: (item.mutations[0].operator_name, item.mutations[0].occurrence))
        database.clear()
        database.add_work_items(random.Random(seed).sample(items, min(each, len(items))))
    return len(items)


def results(session: Path) -> Iterator[tuple[str, str]]:
    """What became of each mutant, and its difference."""
    from cosmic_ray.work_db import WorkDB, use_db  # pyright: ignore[reportMissingImports]

    with use_db(session, WorkDB.Mode.open) as database:
        for _, result in database.completed_work_items:
            yield result.test_outcome.value, result.diff or ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    tool = [sys.executable, "-m", "cosmic_ray.cli"]
    for file in (file for file in TESTS if options.only in file):
        with tempfile.TemporaryDirectory() as folder:
            tree = copy(Path(folder) / "tree")
            source, session = tree / "src" / "stragglers" / file, Path(folder) / "session.sqlite"
            command = [options.python, *OPTIONS, *TESTS[file]]
            (tree / "cosmic.toml").write_text(
                f"[cosmic-ray]\nmodule-path = {json.dumps(str(source))}\ntimeout = {LIMIT_S}\n"
                f"test-command = {json.dumps(shlex.join(command))}\nexcluded-modules = []\n"
                '[cosmic-ray.distributor]\nname = "local"\n'
            )
            settings = {"cwd": tree, "env": environment(tree), "check": True}
            subprocess.run([*tool, "baseline", "cosmic.toml"], **settings)  # tests pass as it is
            subprocess.run([*tool, "init", "cosmic.toml", str(session)], **settings)
            found = sample(session, source.read_text(), options.each, options.seed)
            subprocess.run([*tool, "exec", "cosmic.toml", str(session)], **settings)
            outcomes = list(results(session))
        print(f"{file}: {found} mutants, {dict(Counter(what for what, _ in outcomes))}", flush=True)
        for what, difference in outcomes:
            if what == "survived":
                print(difference, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
