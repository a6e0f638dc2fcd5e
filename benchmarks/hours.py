"""What hours of their own do to training: the table and the picture of docs/hours.md.

    python -m benchmarks.hours [RUNS]

Trains what is missing in RUNS: presets of the embedded task whose clients are always there, and
those whose slow clients have the other half of each day. Of every trial the second half of its
curve counts: the mean, the lowest and the highest straggler accuracy, each as a mean over trials.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from stragglers import records
from stragglers.cli import main as stragglers
from stragglers.records import Record
from stragglers.report import figures
from stragglers.report.colours import FAMILIES

TRIALS = 5
HOUR = 3600.0
ROWS = ("fedadam", "fedadam-over-selection", "semi-async", "fare-dust", "feast", "fedbuff-ema")
AVERAGED = ("fedadam-over-selection", 0.9)  # what an EMA alone does
SHOWN = {
    "fedadam-over-selection": FAMILIES["fedadam"],
    "fedadam-over-selection, EMA": FAMILIES["fedavg"],
    "fare-dust": FAMILIES["fare-dust"],
}
PICTURE = Path(__file__).parent.parent / "docs" / "hours.svg"


def train(runs: str) -> None:
    common = ["--trials", str(TRIALS), "--set", "evaluations=60", "--out", runs]
    for places in ("per-domain", "hours"):
        presets = [f"glyphs/{places}/{row}" for row in ROWS]
        row, decay = AVERAGED
        for command in (presets, [f"glyphs/{places}/{row}", "--set", f"ema={decay}"]):
            if stragglers(["run", *command, *common]):
                raise SystemExit("a run failed")


def label(trial: Record) -> str:
    row = trial.name.rpartition("/")[2]
    averaged = (row, trial.settings["algorithm"].get("ema")) == AVERAGED
    return f"{row}, EMA" if averaged else row


def second_half(trial: Record, what: str) -> np.ndarray:
    column = trial.curve[f"{what}_accuracy"]
    return 100 * column[len(column) // 2 :]


def line(name: str, members: dict[str, list[Record]]) -> str:
    cells = [name]
    for place in ("per-domain", "hours"):
        curves = [second_half(trial, "straggler") for trial in members[place]]
        total = np.mean([second_half(trial, "total").mean() for trial in members[place]])
        mean, low, high = np.mean([(c.mean(), c.min(), c.max()) for c in curves], axis=0)
        time = np.mean([trial.curve["time_s"][-1] for trial in members[place]]) / HOUR
        cells += [f"{mean:.1f} ({low:.0f} to {high:.0f})", f"{total:.1f}", f"{time:.1f}"]
    return f"| {' | '.join(cells)} |"


@matplotlib.rc_context(figures.STYLE)
def picture(by_label: dict[str, dict[str, list[Record]]]) -> Figure:
    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    axes = figure.subplots()
    end = 0.0
    for name, colour in SHOWN.items():
        trials = by_label[name]["hours"]
        hours = np.mean([trial.curve["time_s"] for trial in trials], axis=0) / HOUR
        curves = 100 * np.array([trial.curve["straggler_accuracy"] for trial in trials])
        axes.plot(hours, np.median(curves, axis=0), color=colour, label=name)
        axes.fill_between(hours, curves.min(axis=0), curves.max(axis=0), color=colour,
                          alpha=0.15, linewidth=0)  # fmt: skip
        end = max(end, hours[-1])
    for day in range(int(end) + 1):
        axes.axvspan(day + 0.5, min(day + 1.0, end), color="0.92", zorder=0, linewidth=0)
    axes.set(xlim=(0, end), xlabel="simulated days (of an hour); grey: slow clients are there",
             ylabel="straggler accuracy [%]")  # fmt: skip
    figure.legend(frameon=False, ncols=len(SHOWN), loc="outside upper center")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.hours", description=__doc__)
    parser.add_argument("runs", nargs="?", default="runs-hours", help="a folder of runs")
    runs = parser.parse_args().runs
    train(runs)
    by_label: dict[str, dict[str, list[Record]]] = {}
    for trial in records.find([runs]):
        place = trial.name.split("/")[1]
        by_label.setdefault(label(trial), {}).setdefault(place, []).append(trial)
    print("| | always there: straggler | total | time [h] | hours of their own: straggler | total "
          "| time [h] |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |")  # fmt: skip
    for name in (*ROWS[:2], f"{AVERAGED[0]}, EMA", *ROWS[2:]):
        print(line(name, by_label[name]))
    figures.save(picture(by_label), PICTURE)


if __name__ == "__main__":
    main()
