"""What hours of their own do to training: the tables and the picture of docs/results/hours.md.

    python -m benchmarks.hours [RUNS]

Trains what is missing in RUNS: presets of the embedded task whose clients are always there, those
whose slow clients have the other half of each day, and over-selection with other hours. Of every
trial the second half of its curve counts: the mean, the lowest and the highest straggler accuracy,
each as a mean over trials.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from stragglers.cli.main import main as stragglers
from stragglers.report import figures
from stragglers.report.colours import FAMILIES
from stragglers.runs import records
from stragglers.runs.records import Record

TRIALS = 5
HOUR = 3600.0
ROWS = ("fedadam", "fedadam-over-selection", "semi-async", "fare-dust", "feast", "fedbuff-ema")
OVER, EMA, DECAY = "fedadam-over-selection", "fedadam-over-selection, EMA", "ema=0.9"
GROUPS = [f"availability.groups.{group}" for group in ("standard", "straggler")]
OTHERS = {  # hours of over-selection
    "as above": [],
    "each there for three quarters of a day": [f"{group}.hours=0.75" for group in GROUPS],
    "clients begin a fifth of a day apart (`spread`)": [f"{group}.spread=0.2" for group in GROUPS],
    "days a tenth as long": [
        "availability.cycle=0.1",
        f"{GROUPS[1]}.begin=0.05",
        *(f"{g}.hours=0.05" for g in GROUPS),
    ],
}
SHOWN = {OVER: FAMILIES["fedadam"], EMA: FAMILIES["fedavg"], "fare-dust": FAMILIES["fare-dust"]}
PICTURE = Path(__file__).parent.parent / "docs" / "results" / "hours.svg"
Rows = dict[str, list[Record]]


def trained(folder: Path, presets: Iterable[str], sets: Sequence[str] = ()) -> Rows:
    """Trials by row, those that are missing trained now."""
    words = [word for given in ("evaluations=60", *sets) for word in ("--set", given)]
    if stragglers(["run", *presets, *words, "--trials", str(TRIALS), "--out", str(folder)]):
        raise SystemExit("a run failed")
    rows: Rows = {}
    for trial in records.find([folder]):
        rows.setdefault(trial.name.rpartition("/")[2], []).append(trial)
    return rows


def every_row(folder: Path, place: str) -> Rows:
    rows = trained(folder / place, [f"glyphs/{place}/{row}" for row in ROWS])
    averaged = trained(folder / f"{place}-ema", [f"glyphs/{place}/{OVER}"], [DECAY])
    return rows | {EMA: averaged[OVER]}


def second_half(trial: Record, what: str) -> np.ndarray:
    column = trial.curve[f"{what}_accuracy"]
    return 100 * column[len(column) // 2 :]


def cells(trials: list[Record]) -> list[str]:
    curves = [second_half(trial, "straggler") for trial in trials]
    total = np.mean([second_half(trial, "total").mean() for trial in trials])
    mean, low, high = np.mean([(c.mean(), c.min(), c.max()) for c in curves], axis=0)
    time = np.mean([trial.curve["time_s"][-1] for trial in trials]) / HOUR
    return [f"{mean:.1f} ({low:.0f} to {high:.0f})", f"{total:.1f}", f"{time:.1f}"]


def share(trials: list[Record]) -> str:
    """Of stragglers among the reports on time."""
    shares = [trial.run["schedule"]["share"]["straggler"]["used"] for trial in trials]
    return f"{100 * np.mean(shares):.1f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    for row in (header, ["---", *["---:"] * (len(header) - 1)], *rows):
        print(f"| {' | '.join(row)} |")


@matplotlib.rc_context(figures.STYLE)
def picture(rows: Rows) -> Figure:
    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    axes = figure.subplots()
    end = 0.0
    for name, colour in SHOWN.items():
        trials = rows[name]
        hours = np.mean([trial.curve["time_s"] for trial in trials], axis=0) / HOUR
        curves = 100 * np.array([trial.curve["straggler_accuracy"] for trial in trials])
        axes.plot(hours, np.median(curves, axis=0), color=colour, label=name)
        axes.fill_between(
            hours, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.15, linewidth=0
        )
        end = max(end, hours[-1])
    for day in range(int(end) + 1):
        axes.axvspan(day + 0.5, min(day + 1.0, end), color="0.92", zorder=0, linewidth=0)
    axes.set(
        xlim=(0, end),
        xlabel="simulated days (of an hour); grey: slow clients are there",
        ylabel="straggler accuracy [%]",
    )
    figure.legend(frameon=False, ncols=len(SHOWN), loc="outside upper center")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.hours", description=__doc__)
    parser.add_argument("runs", nargs="?", default="runs-hours", help="a folder of runs")
    runs = Path(parser.parse_args().runs)
    always, own = (every_row(runs, place) for place in ("per-domain", "hours"))
    others = {
        name: trained(runs / f"others-{number}", [f"glyphs/hours/{OVER}"], sets)[OVER]
        for number, (name, sets) in enumerate(OTHERS.items())
    }
    measures = ["straggler", "total", "time [h]"]
    table(
        [
            "",
            *(f"always there: {measures[0]}", *measures[1:]),
            *(f"hours of their own: {measures[0]}", *measures[1:]),
        ],
        [[name, *cells(always[name]), *cells(own[name])] for name in (*ROWS[:2], EMA, *ROWS[2:])],
    )
    table(
        ["over-selection", *measures, "stragglers' share of reports on time"],
        [[name, *cells(trials), f"{share(trials)} %"] for name, trials in others.items()],
    )
    figures.save(picture(own), PICTURE)


if __name__ == "__main__":
    main()
