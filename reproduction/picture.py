"""docs/results/reproduction.svg: accuracies over simulated time, per-domain latency.

The digest of the curves behind it is in its description, so that a test can tell whether it is the
picture of these results, whatever fonts a machine has.
"""

import hashlib
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reproduction.comparisons import NAMES
from reproduction.rows import FIRST, Found, Variant
from stragglers._core import files
from stragglers.config import catalog
from stragglers.report import curves
from stragglers.report.colours import FAMILIES, Look, looks
from stragglers.report.figures import STYLE, line
from stragglers.report.grouping import TASKS, Experiment
from stragglers.report.statistics import USUAL

TABLES = ("cifar100/per-domain", "emnist/per-domain")
DAY = 86400
LABELS = NAMES | {
    "fedadam-over-selection": "FedAdam + over-selection",
    "feast": "FeAST, κ as published",
}
BALANCED = "FeAST, κ = 0.2"


def lines(table: str, there: Found) -> list[Experiment]:
    """The rows that carry the claims, FeAST with a smaller κ, and FedBuff with all that helps it,
    as far as they were trained."""
    known = catalog.presets()
    names = [row for row in (*FIRST, "fedbuff-ema-adam") if f"{table}/{row}" in known]
    rows = {LABELS[row]: Variant(f"{table}/{row}") for row in names}
    rows[BALANCED] = Variant(f"{table}/feast", ("kappa=0.2",))
    return [
        Experiment(variant.preset, variant.key[1], label, trials[0].settings, tuple(trials))
        for label, variant in rows.items()
        if (trials := there.get(variant.key))
    ]


@matplotlib.rc_context(STYLE)
def picture(there: Found) -> Figure:
    figure = Figure(figsize=(8.4, 5.4), layout="constrained")
    axes = figure.subplots(2, len(TABLES), sharex="col")
    for column, table in zip(axes.T, TABLES, strict=True):
        members = lines(table, there)
        for place, group in zip(column, ("straggler", "total"), strict=True):
            _draw(place, members, group)
        count = {len(member.trials) for member in members}
        trials = " to ".join(map(str, sorted(count))) + (" trial" if count == {1} else " trials")
        column[0].set_title(f"{TASKS[table.split('/')[0]]}, {trials} each")
        column[1].set_xlabel("simulated time [days]")
        column[1].set_xlim(left=0)
    axes[0, 0].set_ylabel("straggler accuracy [%]")
    axes[1, 0].set_ylabel("total accuracy [%]")
    handles, labels = axes[0, -1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw(axes: Axes, members: list[Experiment], group: str) -> None:
    style = looks(tuple(member for member in members if member.label != BALANCED))
    style[BALANCED] = Look(FAMILIES["feast"], "dot", "circle")
    for member in members:
        look = style[member.label]
        line(axes, member, group, look, DAY, USUAL)
        if band := curves.band(member, USUAL):
            end = band.x["time_s"][-1:] / DAY, 100 * band.median[group][-1:]
            axes.plot(*end, "o", color=look.colour, markersize=3.5)


def digest(there: Found) -> str:
    """Of all that is drawn."""
    drawn = hashlib.sha256()
    for table in TABLES:
        for member in lines(table, there):
            drawn.update(member.label.encode())
            for trial in member.trials:
                for key in ("time_s", "straggler_accuracy", "total_accuracy"):
                    drawn.update(trial.curve[key].tobytes())
    return drawn.hexdigest()


def save(there: Found, path: Path) -> None:
    metadata = {"Date": None, "Description": f"curves {digest(there)}"}
    with matplotlib.rc_context({"svg.hashsalt": "stragglers"}):
        figure = picture(there)
        files.write(path, lambda temporary: figure.savefig(temporary, metadata=metadata))
