"""One look for each algorithm, in every figure and on every page.

A colour is a family, a dash is a variant. The colours are Okabe and Ito's, which the colour-blind
tell apart. Several experiments of one row (a sweep) go from the darkest shade to the lightest.
"""

from collections import defaultdict
from typing import NamedTuple

from stragglers.report.grouping import Experiment

GROUPS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")

FAMILIES = {
    "fedavg": "#56B4E9",
    "fedadam": "#0072B2",
    "fedbuff": "#E69F00",
    "semi-async": "#8C564B",
    "fare-dust": "#009E73",
    "feast": "#D55E00",
    "other": "#CC79A7",
}

# What follows the family in a row's name: dash, marker; in the words of plotly and of matplotlib.
VARIANTS = {
    "": ("solid", "circle"),
    "over-selection": ("dash", "square"),
    "time-limit": ("dot", "diamond"),
    "kd": ("dash", "square"),
    "l2": ("dot", "diamond"),
    "balanced": ("dot", "diamond"),
    "tiers": ("longdash", "triangle-down"),
    "damped": ("dash", "square"),
    "ema": ("dashdot", "triangle-up"),
    "ema-adam": ("longdash", "triangle-down"),
}
DASHES = {
    "solid": "-",
    "dash": (0, (5, 2)),
    "dot": (0, (1, 1.5)),
    "dashdot": (0, (5, 2, 1, 2)),
    "longdash": (0, (9, 3)),
}
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v"}


class Look(NamedTuple):
    colour: str
    dash: str
    marker: str


def looks(experiments: tuple[Experiment, ...]) -> dict[str, Look]:
    """The look of each experiment, by its label."""
    rows: dict[tuple[str, str], list[Experiment]] = defaultdict(list)
    for experiment in experiments:
        rows[_place(experiment)].append(experiment)
    found = {}
    for (family, variant), members in rows.items():
        dash, marker = VARIANTS[variant]
        for index, experiment in enumerate(members):
            shade = (index + 1) / (len(members) + 1) - 0.5 if len(members) > 1 else 0.0
            found[experiment.label] = Look(_shaded(FAMILIES[family], shade), dash, marker)
    return found


def _place(experiment: Experiment) -> tuple[str, str]:
    """Family and variant: by the row's name, else by the algorithm that its settings name."""
    for family in FAMILIES:
        variant = experiment.row.removeprefix(family).removeprefix("-")
        if experiment.row.startswith(family) and variant in VARIANTS:
            return family, variant
    family = str(experiment.settings.get("algorithm", {}).get("name", "other"))
    optimizer = experiment.settings.get("server", {}).get("optimizer")
    if family == "fedavg" and optimizer == "adam":
        family = "fedadam"
    return (family if family in FAMILIES else "other"), ""


def _shaded(colour: str, shade: float) -> str:
    """Towards black (below 0) or white (above 0), at most half-way each."""
    towards = 255 if shade > 0 else 0
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(p + (towards - p) * abs(shade) * 1.2):02X}" for p in parts)
