"""What was fitted to a log, as a picture."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from stragglers.report.colours import DASHES, GROUPS
from stragglers.report.figures import STYLE, as_it_is
from stragglers.report.figures_plan import logarithmic

Times = Mapping[str, NDArray[np.float64]]  # of a group, seconds: "log" and "fitted"


@matplotlib.rc_context(STYLE)
def fit_figure(times: Mapping[str, Times], percent: Sequence[int], title: str) -> Figure:
    """Percent of reports by the time that they took, of each group: measured, and as fitted."""
    figure = Figure(figsize=(6, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, parse_math=False)
    for index, (name, found) in enumerate(times.items()):
        colour = GROUPS[index % len(GROUPS)]
        axes.plot(found["log"], percent, color=colour, label=as_it_is(name))
        axes.plot(found["fitted"], percent, color=colour, linestyle=DASHES["dash"])
    axes.plot([], [], color="grey", label="measured")
    axes.plot([], [], color="grey", linestyle=DASHES["dash"], label="fitted")
    if all(found["log"][0] > 0 for found in times.values()):
        logarithmic(axes)
    axes.set(xlabel="T [s]", ylabel="reports [%], each client once", ylim=(0, 100))
    axes.legend(frameon=False)
    return figure
