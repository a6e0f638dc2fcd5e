"""A test of the tests: does any of them notice each small mistake of mutations.py?

    python -m benchmarks.mutants [--only WORDS] [--jobs N] [--near]

Each mutation is put into a copy of the tree, one at a time. The tests that mirror its file run
first; if none fails, all others do, but with `--near`. A mutation is killed when a test fails; one
that is still running after LIMIT_S is said to hang, and one that all tests pass survives.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from benchmarks.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parent.parent
TREE = [
    "src", "tests", "benchmarks", "reproduction", "docs", "examples", "README.md", "Makefile",
    "pyproject.toml",
]  # fmt: skip
LIMIT_S = 1800
CACHE = Path(tempfile.gettempdir()) / "stragglers-mutants"

ALGORITHMS = ["test_witnesses", "test_limits", "test_invariants", "test_bad_reports"]
SCHEDULES = ["test_rounds", "test_buffer", "test_faults"]
KEPT = ["test_checkpoint", "test_shared_checkpoints", "test_recording", "test_records"]
NEAR = {  # which tests come first; they do not change the verdict, but when it is known
    "schedule.py": ["test_schedule", *SCHEDULES],
    "rounds.py": ["test_rounds", "test_faults", "test_idle"],
    "buffer.py": ["test_buffer", "test_faults", "test_idle"],
    "rows.py": ["test_rows", "test_witnesses", "test_contract"],
    "handover.py": ["test_handover", "test_faults", "test_bad_reports"],
    "server.py": ["test_limits", "test_invariants", "test_together", "test_simulate"],
    "engine.py": [
        "test_contract",
        "test_faults",
        "test_together",
        "test_simulate",
        "test_limits",
        "test_invariants",
        "test_bad_reports",
    ],  # fmt: skip
    "client.py": ["test_client", "test_witnesses"],
    "weights.py": ["test_weights"],
    "setup.py": ["test_witnesses"],
    "deploy.py": ["test_deploy"],
    "trees.py": ["test_faults", "test_simulate"],
    "lanes.py": ["test_lanes", "test_simulate", "test_together"],
    "together.py": ["test_together"],
    "metrics.py": ["test_metrics", "test_simulate"],
    "simulate.py": ["test_simulate", "test_together", *KEPT],
    "settings.py": ["test_sharing"],
    "checkpoint.py": KEPT,
    "recording.py": ["test_recording", *KEPT],
    "records.py": ["test_records", "test_named", "test_recording", "test_checkpoint"],
    "files.py": ["test_files", *KEPT],
    "faults.py": ["test_faults"],
    "logs.py": ["test_logs", "test_fit"],
    "totals.py": ["test_totals", "test_fit"],
    "luck.py": ["test_fit"],
    "fit.py": ["test_fit", "test_fit_command"],
    "named.py": ["test_named", "test_records"],
    "coordinator.py": ["test_live", "test_ledger", "test_contract", "test_witnesses"],
    "live.py": ["test_live", "test_ledger", "flower/test_server"],
    "ledger.py": ["test_ledger"],
    "availability.py": ["test_availability", "test_idle"],
    "idle.py": ["test_idle", "test_availability"],
    "tiers.py": ["test_tiers"],
    "own.py": ["test_own"],
    "flower/messages.py": ["flower/test_messages"],
    "flower/client.py": ["flower/test_client"],
    "flower/server.py": ["flower/test_server"],
    "draws.py": ["test_draws", "test_faults"],
    "plan.py": ["test_plan", "test_readme", "test_cli", *SCHEDULES],
    "report/statistics.py": ["report/test_statistics", "report/test_results"],
    "commands/base.py": ["test_cli", "test_bad_input", "test_run"],
    "algorithms/base.py": [*ALGORITHMS, "test_together"],
    "algorithms/feast.py": ALGORITHMS,
    "algorithms/fare_dust.py": ALGORITHMS,
}
FIRST = {"algorithms/feast.py": "feast", "algorithms/fare_dust.py": "fare"}  # of the nearest


# No bytecode: a source that changes within a second looks as it was. No smallest example, either:
# that a test fails is enough.
OPTIONS = [
    "-B", "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist",
    "--hypothesis-profile", "hasty",
]  # fmt: skip


class Verdict(NamedTuple):
    mutation: Mutation
    what: str  # killed, hangs, survived, or broken: tests fail without it, or do not work
    test: str  # that failed first
    seconds: float


def copy(folder: Path) -> Path:
    for name in TREE:
        ignore = shutil.ignore_patterns("__pycache__")
        place = folder / name
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place, ignore=ignore)
        else:
            shutil.copy(ROOT / name, place)
    return folder


def environment(tree: Path) -> dict[str, str]:
    """A copy's own sources, and one cache of programs for all copies: most are unchanged."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)]),
        "JAX_COMPILATION_CACHE_DIR": str(CACHE),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def judge(mutation: Mutation, tree: Path, near_only: bool) -> Verdict:
    source = tree / "src" / "stragglers" / mutation.file
    text = source.read_text()
    if text.count(mutation.old) != 1:
        raise SystemExit(f"{mutation.file}: not exactly once: {mutation.old!r}")
    began = time.monotonic()
    source.write_text(text.replace(mutation.old, mutation.new))
    try:
        near = [f"tests/{name}.py" for name in NEAR[mutation.file]]
        every = sorted(str(path.relative_to(tree)) for path in tree.glob("tests/**/test_*.py"))
        stages = [near] if near_only else [near, [path for path in every if path not in near]]
        if mutation.file in FIRST:
            stages.insert(0, [near[0], "-k", FIRST[mutation.file]])
        what, test = "survived", ""
        for stage in stages:
            if what == "survived":
                what, test = pytest(tree, stage)
    finally:
        source.write_text(text)
    if what == "killed" and pytest(tree, [test])[0] != "survived":
        what = "broken"  # it fails without the mutation, too
    return Verdict(mutation, what, test, time.monotonic() - began)


def pytest(tree: Path, tests: list[str]) -> tuple[str, str]:
    """The verdict of some tests, and the first that failed."""
    command = [sys.executable, *OPTIONS, *tests]
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment(tree),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return "hangs", ""
    if done.returncode == 0:
        return "survived", ""
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.M)
    return ("killed", failed[1]) if failed else ("broken", (done.stdout + done.stderr)[-500:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="", help="those of a kind, file or reason with this in it"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--near", action="store_true", help="the tests that mirror its file alone")
    options = parser.parse_args()
    chosen = [
        mutation
        for mutation in MUTATIONS
        if options.only in f"{mutation.kind}, {mutation.file}: {mutation.why}"
    ]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        free: SimpleQueue[Path] = SimpleQueue()
        for job in range(options.jobs):
            free.put(copy(Path(folder) / f"tree{job}"))

        def one(mutation: Mutation) -> Verdict:
            tree = free.get()
            try:
                verdict = judge(mutation, tree, options.near)
            finally:
                free.put(tree)
            print(
                f"{verdict.what:8} {verdict.seconds:5.0f} s  {mutation.kind}, {mutation.file}: "
                f"{mutation.why}  {verdict.test}",
                flush=True,
            )
            return verdict

        verdicts = list(pool.map(one, chosen))
    count = Counter(verdict.what for verdict in verdicts)
    print(f"{count['killed']} of {len(verdicts)} killed; {dict(count)}")
    return int(count["killed"] < len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
