"""Several trials of one experiment, with progress on the terminal."""

import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from stragglers import config
from stragglers.errors import BadInput
from stragglers.run import run
from stragglers.simulate import Progress, Result


def run_trials(name: str, document: dict[str, Any], trials: int) -> list[dict[str, Any]]:
    """Trains with seeds seed, seed + 1, ...; the results are ready for JSON."""
    if trials < 1:
        raise BadInput(f"trials={trials}, expected at least 1")
    first = config.experiment_from(document).seed
    results = []
    columns = (TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[now]}"),
               TimeRemainingColumn())  # fmt: skip
    with Bar(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        for trial in range(trials):
            shown = bar.add_task(f"{name} {trial + 1}/{trials}", now="", total=None)

            def on_progress(p: Progress, shown: Any = shown) -> None:
                bar.update(shown, total=p.steps, completed=p.step, now=_now(p))

            seed = first + trial
            result = run(config.experiment_from({**document, "seed": seed}), on_progress)
            bar.remove_task(shown)
            results.append({"seed": seed, **_record(result)})
            print(_line(name, trial, trials, result), file=sys.stderr)
    return results


def _now(p: Progress) -> str:
    rate = f"{p.trained / max(p.wall_s, 1e-9):,.0f} updates/s, {p.time_s / 3600:,.1f} h"
    if p.metrics is None:
        return rate
    straggler, total = p.metrics.straggler_accuracy, p.metrics.total_accuracy
    return f"{rate}, straggler {100 * straggler:.1f} %, total {100 * total:.1f} %"


def _line(name: str, trial: int, trials: int, result: Result) -> str:
    start = f"{name} {trial + 1}/{trials}: "
    if result.diverged:
        return start + result.diverged
    last = result.curve[-1]
    return start + (
        f"straggler {100 * last.metrics.straggler_accuracy:.1f} %, "
        f"total {100 * last.metrics.total_accuracy:.1f} % at {last.time_s:,.0f} s "
        f"({result.trained / last.wall_s:,.0f} updates/s, {last.wall_s:.1f} s)"
    )


def _record(result: Result) -> dict[str, Any]:
    curve = []
    for point in result.curve:
        row = point._asdict()
        curve.append({**row, **row.pop("metrics")._asdict()})
    for row in curve:
        row.pop("metrics", None)
    return {"curve": curve, "trained": result.trained, "dropped": result.dropped,
            "diverged": result.diverged}  # fmt: skip
