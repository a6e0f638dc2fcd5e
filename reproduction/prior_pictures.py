"""The pictures of straggler-accuracy.md: each is drawn from `drawn(there)`, all that it shows.

    matched   accuracies as trained and matched, of every algorithm as it is
    bias      straggler over total accuracy as the bias on the straggler classes runs
    time      accuracies over simulated time, with damped semi-async

As in picture.py, a digest of what is drawn stands in each file's description.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reproduction import controls, prior
from reproduction.prior import CIFAR100, EMNIST, GLYPHS, LABELS, ROWS
from reproduction.rows import Found
from stragglers._core import files
from stragglers.report import curves
from stragglers.report.colours import DASHES, FAMILIES, MARKERS, VARIANTS, Look
from stragglers.report.figures import STYLE, line
from stragglers.report.grouping import TASKS, Experiment
from stragglers.report.statistics import USUAL

LOOKS = {
    name: Look(FAMILIES[family], *VARIANTS[variant])
    for name, (family, variant) in {
        "adam": ("fedadam", ""),
        "over": ("fedadam", "over-selection"),
        "join": ("semi-async", ""),
        "dust": ("fare-dust", ""),
        "feast": ("feast", ""),
        "small": ("feast", "balanced"),
        "buff": ("fedbuff", "ema"),
        "buff-adam": ("fedbuff", "ema-adam"),
        "avg": ("fedavg", ""),
    }.items()
}
DAY = 86400
BOTH = ("straggler", "total")
FIELDS = tuple((kind + group, group) for kind in ("", "matched_") for group in BOTH)
OVER_TIME = ("adam", "over", "dust", "feast", "small")
OURS = "semi-async, damped 0.1"


# As trained and matched.


def ends(there: Found) -> dict[str, dict[str, dict[str, list[float]]]]:
    """By table and algorithm: median, low and high of each figure, as rows are."""
    return {
        table: {
            name: {field: list(getattr(one, field)[1:4]) for field, _ in FIELDS}
            for name, (one, *_) in prior.every(table, there).items()
            if one
        }
        for table in (EMNIST, GLYPHS)
    }


def matched(there: Found) -> Figure:
    figure = Figure(figsize=(8.4, 5.2), layout="constrained")
    found = {table: rows for table, rows in ends(there).items() if rows}
    axes = figure.subplots(len(found), 2, squeeze=False, sharey="row")
    for places, (table, rows) in zip(axes, found.items(), strict=True):
        for place, group in zip(places, BOTH, strict=True):
            _dumbbells(place, rows, group)
            place.set_xlabel(f"{group} accuracy [%]")
        places[0].set_yticks(range(len(rows)), [LABELS[name] for name in rows])
        places[0].invert_yaxis()
        places[0].set_title(f"{TASKS.get(table.split('/')[0], 'glyphs')}, per-domain", loc="left")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles[:2], labels[:2], loc="outside lower center", ncols=2, frameon=False)
    return figure


def _dumbbells(axes: Axes, rows: dict[str, dict[str, list[float]]], group: str) -> None:
    for height, (name, row) in enumerate(rows.items()):
        colour = LOOKS[name].colour
        pair = row[group], row[f"matched_{group}"]
        axes.plot([pair[0][0], pair[1][0]], [height] * 2, color=colour, linewidth=1, alpha=0.6)
        for (middle, low, high), filled in zip(pair, (False, True), strict=True):
            axes.plot([low, high], [height] * 2, color=colour, linewidth=3, alpha=0.35)
            axes.plot(
                middle,
                height,
                "o",
                color=colour,
                markerfacecolor=colour if filled else "white",
                label="matched" if filled else "as trained",
            )


# As the bias runs.


def by_bias(there: Found) -> dict[str, Any]:
    """Ends of EMNIST, and of glyphs the curves of controls.json, medians in percent."""
    found = controls.stored().get("plain", {})
    rows = {"adam": controls.FEDADAM, "over": controls.OVER, "join": controls.JOIN}
    rows |= {"dust": controls.DUST, "feast": controls.FEAST, "buff": controls.BUFF}
    along = {
        name: {group: found[row.name][f"{group}_accuracy by bias"] for group in BOTH}
        for name, row in rows.items()
        if row.name in found
    }
    return {"ends": ends(there)[EMNIST], "curves": along}


def bias(there: Found) -> Figure:
    drawn = by_bias(there)
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, row in drawn["ends"].items():
        look = LOOKS[name]
        x, y = ([row[kind + group][0] for kind in ("", "matched_")] for group in BOTH[::-1])
        left.plot(x, y, color=look.colour, linestyle=DASHES[look.dash], linewidth=1.2)
        _ends(left, look, (x[0], y[0]), (x[1], y[1]), LABELS[name])
    for name, curve in drawn["curves"].items():
        look, start = LOOKS[name], int(np.argmin(np.abs(controls.BIASES)))
        x, y = (100 * np.array(curve[group]) for group in BOTH[::-1])
        best = int(np.argmax(x))
        right.plot(x, y, color=look.colour, linestyle=DASHES[look.dash])
        _ends(right, look, (x[start], y[start]), (x[best], y[best]), LABELS[name])
    left.set_title("EMNIST: as trained, and matched", loc="left")
    right.set_title("glyphs: as the bias runs", loc="left")
    right.set_xlim(left=60)  # far biases take all total accuracy
    left.set_ylabel("straggler accuracy [%]")
    for axes in (left, right):
        axes.set_xlabel("total accuracy [%]")
    named = {}
    for axes in (left, right):
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    figure.legend(named.values(), named, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _ends(
    axes: Axes, look: Look, start: tuple[float, float], best: tuple[float, float], label: str
) -> None:
    """Hollow without a bias, filled with the best one."""
    for place, filled in ((start, False), (best, True)):
        axes.plot(
            *place,
            marker=MARKERS[look.marker],
            color=look.colour,
            markerfacecolor=look.colour if filled else "white",
            linestyle="none",
            markersize=6,
            label=label if filled else None,
        )


# Over time.


def over_time(there: Found) -> dict[str, list[tuple[Experiment, Look]]]:
    found = {}
    for table in (EMNIST, CIFAR100):
        chosen = [(LABELS[name], ROWS[table][name][0], LOOKS[name]) for name in OVER_TIME]
        chosen.append(
            (OURS, ROWS[table]["join"][1], Look(FAMILIES["semi-async"], "solid", "circle"))
        )
        found[table] = [
            (Experiment(variant.preset, variant.key[1], label, some[0].settings, tuple(some)), look)
            for label, variant, look in chosen
            if (some := there.get(variant.key))
        ]
    return found


def time(there: Found) -> Figure:
    figure = Figure(figsize=(8.4, 5.4), layout="constrained")
    found = over_time(there)
    axes = figure.subplots(2, len(found), sharex="col")
    for column, (table, members) in zip(axes.T, found.items(), strict=True):
        for place, group in zip(column, BOTH, strict=True):
            for member, look in members:
                line(place, member, group, look, DAY, USUAL)
                if band := curves.band(member, USUAL):
                    end = band.x["time_s"][-1:] / DAY, 100 * band.median[group][-1:]
                    place.plot(*end, "o", color=look.colour, markersize=3.5)
        column[0].set_title(f"{TASKS[table.split('/')[0]]}, per-domain", loc="left")
        column[1].set_xlabel("simulated time [days]")
        column[1].set_xlim(left=0)
    for place, group in zip(axes[:, 0], BOTH, strict=True):
        place.set_ylabel(f"{group} accuracy [%]")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def drawn_over_time(there: Found) -> list[Any]:
    return [
        (member.label, [trial.curve[key].tolist() for key in ("time_s", *_columns())])
        for members in over_time(there).values()
        for member, _ in members
        for trial in member.trials
    ]


def _columns() -> list[str]:
    return [f"{group}_accuracy" for group in BOTH]


class Picture(NamedTuple):
    figure: Callable[[Found], Figure]
    drawn: Callable[[Found], Any]


PICTURES = {  # by file
    "straggler-accuracy-matched.svg": Picture(matched, ends),
    "straggler-accuracy-bias.svg": Picture(bias, by_bias),
    "straggler-accuracy-time.svg": Picture(time, drawn_over_time),
}


def digest(name: str, there: Found) -> str:
    return hashlib.sha256(repr(PICTURES[name].drawn(there)).encode()).hexdigest()


def save(there: Found, folder: Path) -> None:
    for name, picture in PICTURES.items():
        metadata = {"Date": None, "Description": f"figures {digest(name, there)}"}
        with matplotlib.rc_context({**STYLE, "svg.hashsalt": "stragglers"}):
            figure = picture.figure(there)
            files.write(
                folder / name,
                lambda path, figure=figure, metadata=metadata: figure.savefig(
                    path, metadata=metadata
                ),
            )
