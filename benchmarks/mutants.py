"""A test of the tests: does any of them notice each small mistake of mutations/?

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
    "src",
    "tests",
    "benchmarks",
    "reproduction",
    "docs",
    "examples",
    "README.md",
    "Makefile",
    "pyproject.toml",
]
LIMIT_S = 1800
CACHE = Path(tempfile.gettempdir()) / "stragglers-mutants"

ALGORITHMS = [
    "system/test_witnesses",
    "system/test_limits",
    "system/test_invariants",
    "system/test_bad_reports",
]
SCHEDULES = ["planning/test_rounds", "planning/test_buffered", "planning/test_faults"]
KEPT = [
    "runs/test_checkpoint",
    "runs/test_shared_checkpoints",
    "runs/test_recorder",
    "runs/test_records",
]
NEAR = {  # which tests come first; they do not change the verdict, but when it is known
    "planning/schedule.py": ["planning/test_schedule", *SCHEDULES],
    "planning/rounds.py": [
        "planning/test_rounds",
        "planning/test_faults",
        "planning/test_client_pool",
    ],
    "planning/buffered.py": [
        "planning/test_buffered",
        "planning/test_faults",
        "planning/test_client_pool",
    ],
    "planning/training_rows.py": [
        "planning/test_training_rows",
        "system/test_witnesses",
        "system/test_contract",
    ],
    "simulator/handover.py": [
        "simulator/test_handover",
        "planning/test_faults",
        "system/test_bad_reports",
    ],
    "simulator/server_step.py": [
        "system/test_limits",
        "system/test_invariants",
        "simulator/test_together",
        "simulator/test_simulate",
    ],
    "simulator/engine.py": [
        "system/test_contract",
        "planning/test_faults",
        "simulator/test_together",
        "simulator/test_simulate",
        "system/test_limits",
        "system/test_invariants",
        "system/test_bad_reports",
    ],
    "simulator/local_training.py": ["simulator/test_local_training", "system/test_witnesses"],
    "simulator/label_skew.py": ["simulator/test_label_skew"],
    "simulator/prior_matching.py": ["simulator/test_prior_matching", "simulator/test_metrics"],
    "planning/report_weights.py": ["planning/test_report_weights"],
    "simulator/prepare.py": ["system/test_witnesses"],
    "serving/deployment.py": ["serving/test_deployment"],
    "algorithms/trees.py": ["planning/test_faults", "simulator/test_simulate"],
    "simulator/packing.py": [
        "simulator/test_packing",
        "simulator/test_simulate",
        "simulator/test_together",
    ],
    "simulator/together.py": ["simulator/test_together"],
    "simulator/metrics.py": ["simulator/test_metrics", "simulator/test_simulate"],
    "simulator/simulate.py": ["simulator/test_simulate", "simulator/test_together", *KEPT],
    "config/settings.py": ["runs/test_bundles"],
    "runs/checkpoint.py": KEPT,
    "runs/recorder.py": ["runs/test_recorder", *KEPT],
    "_core/seals.py": ["_core/test_seals", "runs/test_verify"],
    "runs/run_json.py": ["runs/test_verify"],
    "runs/curve.py": ["runs/test_verify", "runs/test_records"],
    "runs/verify.py": ["runs/test_verify", "cli/test_verify"],
    "runs/run_folder.py": [
        "runs/test_verify",
        "runs/test_records",
        "config/test_attached_files",
        *KEPT,
    ],
    "runs/records.py": [
        "runs/test_verify",
        "runs/test_records",
        "config/test_attached_files",
        "runs/test_recorder",
        "runs/test_checkpoint",
    ],
    "_core/files.py": ["_core/test_files", *KEPT],
    "planning/faults.py": ["planning/test_faults"],
    "planning/fit/logs.py": ["planning/fit/test_logs", "planning/fit/test_estimate"],
    "planning/fit/totals.py": ["planning/fit/test_totals", "planning/fit/test_estimate"],
    "planning/fit/persistence.py": ["planning/fit/test_estimate"],
    "planning/fit/estimate.py": ["planning/fit/test_estimate", "cli/test_fit"],
    "config/attached_files.py": ["config/test_attached_files", "runs/test_records"],
    "simulator/coordinator.py": [
        "serving/test_serve",
        "serving/test_server_folder",
        "system/test_contract",
        "system/test_witnesses",
    ],
    "serving/serve.py": [
        "serving/test_serve",
        "serving/test_server_folder",
        "serving/flower/test_server",
    ],
    "serving/server_folder.py": ["serving/test_server_folder"],
    "planning/availability.py": ["planning/test_availability", "planning/test_client_pool"],
    "planning/client_pool.py": ["planning/test_client_pool", "planning/test_availability"],
    "planning/tiers.py": ["planning/test_tiers"],
    "_core/own_files.py": ["_core/test_own_files", "algorithms/test_from_file"],
    "serving/flower/messages.py": ["serving/flower/test_messages"],
    "serving/flower/client.py": ["serving/flower/test_client"],
    "serving/flower/server.py": ["serving/flower/test_server"],
    "_core/random_streams.py": ["_core/test_random_streams", "planning/test_faults"],
    "planning/summary.py": [
        "planning/test_summary",
        "system/test_readme",
        "cli/test_main",
        *SCHEDULES,
    ],
    "report/statistics.py": ["report/test_statistics", "report/test_result_table"],
    "runs/run.py": ["cli/test_main", "system/test_bad_input", "cli/test_run"],
    "algorithms/base.py": [*ALGORITHMS, "simulator/test_together"],
    "algorithms/feast.py": ALGORITHMS,
    "algorithms/fadas.py": ALGORITHMS,
    "algorithms/remembering.py": ALGORITHMS,
    "algorithms/fare_dust.py": ALGORITHMS,
}
FIRST = {"algorithms/feast.py": "feast", "algorithms/fare_dust.py": "fare"}  # of the nearest


# No bytecode: a source that changes within a second looks as it was. No smallest example, either:
# that a test fails is enough.
OPTIONS = [
    "-B",
    "-m",
    "pytest",
    "-x",
    "-q",
    "-rfE",
    "--tb=no",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--hypothesis-profile",
    "hasty",
    "-m",
    "not soak",  # slow ones, too
]


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
