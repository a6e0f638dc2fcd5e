"""Runs that are killed at random moments, over and over: do they come to the same end?

    python -m benchmarks.kills [--kills N] [--seed S] [--signal KILL|TERM|INT]

Each algorithm is trained once without a signal. Then the same command is ended at a moment drawn
uniformly from its duration, and started again, until it comes to its end and another run begins.
Every run's curve, weights and table must be those of the first, to the bit; clocks apart.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = ["writers=12", "goal=3", "over_selection=1.67", "updates=4000", "evaluations=8"]
SETTINGS = {
    "fedavg": ["writers=12", "goal=3", "updates=3000", "evaluations=8"],
    "fedbuff-ema": ["writers=12", "buffer=3", "concurrency=6", "updates=3000", "evaluations=8"],
    "fare-dust": ROUNDS,
    "feast": ROUNDS,
}
CODES = {"KILL": (-9,), "TERM": (143, -15), "INT": (130, -2)}  # the system's own before it listens


def command(row: str, out: Path) -> list[str]:
    settings = [word for setting in SETTINGS[row] for word in ("--set", setting)]
    return [
        sys.executable, "-m", "stragglers.cli", "run", f"glyphs/per-domain/{row}",
        "--checkpoint-minutes", "0", "--out", str(out), *settings,
    ]  # fmt: skip


def outcome(out: Path) -> tuple[Any, ...]:
    """The run in a folder, and its table; all but clocks, and what else was left there."""
    (path,) = out.rglob("run.json")
    run = json.loads(path.read_text())
    for clock in ("started", "finished", "wall_s"):
        del run[clock]
    lines = (path.parent / "curve.jsonl").read_text().splitlines()
    table = subprocess.run(
        [sys.executable, "-m", "stragglers.cli", "table", "--format", "csv", str(out)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return (
        run,
        [{**json.loads(line), "wall_s": 0} for line in lines],
        (path.parent / "model.safetensors").read_bytes(),
        table,
        sorted(file.name for file in path.parent.iterdir()),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--signal", choices=CODES, default="KILL")
    options = parser.parse_args()
    rng, number = random.Random(options.seed), getattr(signal, f"SIG{options.signal}")
    ended = resumed = compared = wrong = 0
    slowest = 0.0
    for index, row in enumerate(SETTINGS):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            began = time.monotonic()
            subprocess.run(command(row, place / "whole"), capture_output=True, check=True)
            duration = time.monotonic() - began
            whole, attempt = outcome(place / "whole"), 0
            quota = (options.kills * (index + 1)) // len(SETTINGS)
            while ended < quota or attempt == 0:
                out, finished = place / f"attempt{(attempt := attempt + 1)}", False
                while not finished:
                    with subprocess.Popen(
                        command(row, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                    ) as process:
                        try:
                            last = ended >= quota
                            wait = None if last else rng.uniform(0, duration)
                            _, err = process.communicate(timeout=wait)
                        except subprocess.TimeoutExpired:
                            process.send_signal(number)
                            sent = time.monotonic()
                            _, err = process.communicate()
                            slowest = max(slowest, time.monotonic() - sent)
                    resumed += "goes on from server step" in err
                    finished = process.returncode == 0
                    ended += not finished
                    if not finished and process.returncode not in CODES[options.signal]:
                        print(f"{row}: exit code {process.returncode}: {err}")
                        return 1
                compared += 1
                wrong += outcome(out) != whole
        print(
            f"{row}: {ended} of {options.kills} ended so far, {resumed} went on from a checkpoint, "
            f"{compared} runs compared, {wrong} wrong, slowest end {slowest:.1f} s",
            flush=True,
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
