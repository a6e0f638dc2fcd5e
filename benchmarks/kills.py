"""Runs that are ended at random moments: do they come to the same end?

    python -m benchmarks.kills [--kill 50] [--term 20] [--int 20] [--seed S] [--cases 7-9]

Each algorithm is trained once without a signal. A case starts the same command, ends it at a moment
drawn uniformly from that duration, and starts it again; every other resumed run is ended once more.
What comes out must be the same to the bit: weights, the server's whole state (optimizer, averages,
history, sums in flight), curve and table; clocks apart. No half-written file may be left.

Cases run two at a time. Case n of seed S draws from its own stream, so --cases repeats some.

Unless only some are asked for, a run with a state of hundreds of megabytes is asked to end at last,
to see what that takes beside what the disk takes for as many bytes.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from stragglers.report import formats, result_table
from stragglers.runs import records

AT_ONCE = 2
ROUNDS = ["writers=12", "goal=3", "updates=1500", "evaluations=8"]
OVER_SELECTED = [*ROUNDS, "over_selection=1.6"]
BUFFER = ["writers=12", "buffer=3", "concurrency=6", "updates=1500", "evaluations=8"]
KINDS = {
    "fedavg": ("fedavg", ROUNDS),
    "fedavg, time limit, ema": (
        "fedavg",
        [*OVER_SELECTED, "schedule.time_limit.percentile=75", "algorithm.ema=0.9"],
    ),
    "fedadam, over-selection": ("fedadam-over-selection", OVER_SELECTED),
    "fedbuff": ("fedbuff-ema", [*BUFFER, "algorithm.ema=0.0"]),
    "fedbuff, ema": ("fedbuff-ema", BUFFER),
    "fare-dust": ("fare-dust", OVER_SELECTED),
    "fare-dust, history of all": ("fare-dust", [*OVER_SELECTED, "algorithm.history=all"]),
    "feast": ("feast", OVER_SELECTED),
}
LARGE = ("fare-dust", [*OVER_SELECTED, "schedule.late_rounds=1000", "updates=600"])
SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "INT": signal.SIGINT}
ALLOWED_S = 5.0  # from a signal to the end, beside what the disk takes

# The command itself, but for the last checkpoint, which shows the server's state at the end.
COMMAND = """
import sys
from stragglers.cli import main
from stragglers.runs import checkpoint
checkpoint.clear = lambda folder: None
sys.exit(main.main())
"""


class Case(NamedTuple):
    number: int
    kind: str
    how: str  # a signal's name


class Ended(NamedTuple):
    """What became of a case."""

    seconds: list[float]  # from each signal to the end of the process
    codes: list[int]  # of each end; negative if by the system, before the command listens
    resumed: int  # starts that went on from a checkpoint
    wrong: list[str]


def command(kind: tuple[str, list[str]], out: Path, minutes: float = 0) -> list[str]:
    row, given = kind
    changes = [word for setting in given for word in ("--set", setting)]
    return [
        sys.executable,
        "-c",
        COMMAND,
        "run",
        f"glyphs/per-domain/{row}",
        "--checkpoint-minutes",
        str(minutes),
        "--out",
        str(out),
        *changes,
    ]


@contextmanager
def started(given: list[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def signalled(process: subprocess.Popen[str], how: str) -> tuple[float, str]:
    """Seconds until it ended, and what it said."""
    process.send_signal(SIGNALS[how])
    began = time.monotonic()
    _, err = process.communicate()
    return time.monotonic() - began, err


def whole(given: list[str]) -> float:
    """Runs it to its end; the seconds that it took."""
    began = time.monotonic()
    done = subprocess.run(given, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(given[2:])}: {done.stderr}")
    return time.monotonic() - began


def outcome(out: Path) -> dict[str, Any]:
    """All that a run has left, by name; clocks apart."""
    (path,) = out.rglob("run.json")
    run = json.loads(path.read_text())
    for clock in ("started", "finished", "wall_s", "files", "seal"):  # of files with clocks
        del run[clock]
    lines = (path.parent / "curve.jsonl").read_text().splitlines()
    last = max((path.parent / "checkpoints").iterdir())
    manifest = json.loads((last / "manifest.json").read_text())
    options = result_table.Options()
    found = result_table.tables(records.find([out]), options)
    return {
        "run.json": run,
        "curve": [{**json.loads(line), "wall_s": 0, "check": ""} for line in lines],
        "weights": (path.parent / "model.safetensors").read_bytes(),
        "step": manifest["step"],
        "state": (last / "state.safetensors").read_bytes(),
        "table": formats.csv_text(found, options),
        "unfinished": [str(file) for file in out.rglob(".unfinished*")],
        "files": sorted(file.name for file in path.parent.iterdir()),
    }


def ended(case: Case, seed: int, expected: dict[str, Any], duration: float, place: Path) -> Ended:
    """Ends a run, and perhaps the one that goes on from it, and looks at what comes out."""
    rng = random.Random(f"{seed}/{case.number}")
    out = place / f"case{case.number}"
    seconds, codes, resumed, wrong = [], [], 0, []
    left = 1 + case.number % 2
    while True:
        with started(command(KINDS[case.kind], out)) as process:
            try:
                wait = rng.uniform(0, duration) if left else None
                _, err = process.communicate(timeout=wait)
            except subprocess.TimeoutExpired:
                took, err = signalled(process, case.how)
                if process.returncode == 0:
                    pass  # it was just done
                elif process.returncode in (128 + SIGNALS[case.how], -SIGNALS[case.how]):
                    seconds.append(took)
                    codes.append(process.returncode)
                    left -= 1
                else:
                    wrong.append(f"exit code {process.returncode}: {err.strip()[-500:]}")
                    break
        if "Traceback" in err and case.how != "INT":  # Python's own, before the command listens
            wrong.append(err.strip()[-500:])
        resumed += "resumes from server step" in err
        if process.returncode == 0:
            if seconds:
                break
            out = out.with_name(f"{out.name}+")  # the signal came too late: once more
    if not wrong:
        got = outcome(out)
        wrong += [f"{name} differs" for name in expected if got[name] != expected[name]]
    return Ended(seconds, codes, resumed, wrong)


def cases(kill: int, term: int, int_: int) -> list[Case]:
    kinds = list(KINDS)
    how = ["KILL"] * kill + ["TERM"] * term + ["INT"] * int_
    return [Case(n, kinds[n % len(kinds)], each) for n, each in enumerate(how)]


def large_state(place: Path) -> bool:
    """The time from a signal to the end of a large run, beside the disk's for its bytes."""
    given = command(LARGE, place / "large", minutes=60)  # no checkpoint before the signal
    with started(given) as process:
        assert process.stderr
        said = process.stderr.readline()  # that it begins to train
        time.sleep(3)
        took, err = signalled(process, "TERM")
    states = list((place / "large").rglob("state.safetensors"))
    if process.returncode != 128 + signal.SIGTERM or len(states) != 1:
        print(f"large state: exit code {process.returncode}: {said}{err}")
        return False
    size = states[0].stat().st_size
    writing = disk_seconds(size, place / "as-many-bytes")
    good = took <= ALLOWED_S + writing
    print(
        f"large state: {size / 1e6:,.0f} MB, {took:.2f} s from SIGTERM to the end; the disk takes "
        f"{writing:.2f} s for as many bytes ({size / 1e6 / writing:,.0f} MB/s)"
        f"{'' if good else '  <-- FAILED'}",
        flush=True,
    )
    whole(given)  # goes on
    whole(command(LARGE, place / "never-ended", minutes=60))
    weights = [
        next((place / name).rglob("model.safetensors")).read_bytes()
        for name in ("large", "never-ended")
    ]
    same = weights[0] == weights[1]
    print(f"large state: the run went on to {'the same' if same else 'ANOTHER'} end", flush=True)
    return good and same


def disk_seconds(size: int, path: Path) -> float:
    block = os.urandom(1 << 20)
    began = time.monotonic()
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description="Ends runs at random moments, and compares.")
    parser.add_argument("--kill", type=int, default=50)
    parser.add_argument("--term", type=int, default=20)
    parser.add_argument("--int", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", metavar="FIRST-LAST", help="some of them, or one")
    options = parser.parse_args()
    chosen = cases(options.kill, options.term, options.int)
    if options.cases:
        first, _, last = options.cases.partition("-")
        chosen = chosen[int(first) : int(last or first) + 1]
    wanted = [kind for kind in KINDS if any(case.kind == kind for case in chosen)]
    print(f"seed {options.seed}, {len(chosen)} cases, {AT_ONCE} at a time", flush=True)
    found: dict[str, list[Ended]] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        place = Path(folder)
        outs = [place / str(number) for number in range(len(wanted))]
        runs = [command(KINDS[kind], out) for kind, out in zip(wanted, outs, strict=True)]
        durations = dict(zip(wanted, pool.map(whole, runs), strict=True))
        expected = dict(zip(wanted, map(outcome, outs), strict=True))

        def one(case: Case) -> Ended:
            return ended(case, options.seed, expected[case.kind], durations[case.kind], place)

        for case, got in zip(chosen, pool.map(one, chosen), strict=True):
            found.setdefault(case.how, []).append(got)
            print(
                f"case {case.number:3} {case.how:4} {case.kind:26} ended {len(got.seconds)} times, "
                f"went on {got.resumed} times: {'; '.join(got.wrong) or 'the same end'}",
                flush=True,
            )
        for how, all_of_them in found.items():
            print(summary(how, all_of_them), flush=True)
        good = bool(options.cases) or large_state(place)
    return int(not good or any(got.wrong for each in found.values() for got in each))


def summary(how: str, all_of_them: list[Ended]) -> str:
    seconds = [took for got in all_of_them for took in got.seconds]
    codes = Counter(code for got in all_of_them for code in got.codes)
    right = sum(not got.wrong for got in all_of_them)
    return (
        f"SIG{how}: {len(seconds)} processes ended "
        f"({', '.join(f'{count} with {code}' for code, count in codes.most_common())}), "
        f"{sum(got.resumed for got in all_of_them)} went on from a checkpoint; "
        f"{right} of {len(all_of_them)} runs came to the same end; "
        f"from signal to exit {statistics.median(seconds):.2f} s (median), "
        f"{max(seconds):.2f} s (longest)"
    )


if __name__ == "__main__":
    sys.exit(main())
