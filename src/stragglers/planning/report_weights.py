"""How much a report counts: known before training, because it depends on the schedule alone.

    weight = (1 or N) * s(tau) * (1 or 1 / local steps) * (1 or omega)

    tau      server steps between a client's model and its report
    s(tau)   1,   1 / sqrt(1 + tau),   or   (1 + tau) ** -exponent
    omega    (1 + t) / (1 + its client's reports of earlier steps),   t server steps after the first
             that its client could be in

Divided by local steps, reports are directions: a client that trains longer has no larger weight.
Their mean is FedNova's (Wang et al., 2020), times the harmonic mean of local steps.

omega raises the weight of clients that rarely participate, as in FedAU (Wang and Ji, 2024), by an
estimate that needs no cut-off: for a client that participates with probability p, its mean is
(1 - (1 - p) ** (1 + t)) / p.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.planning.schedule import Fate, Schedule, Settles
from stragglers.planning.training_rows import rows_of


class Reports(NamedTuple):
    """Columns over reports that count."""

    staleness: NDArray[np.integer]  # tau
    examples: NDArray[np.integer]  # N, of its client
    local_steps: NDArray[np.integer]  # of its client; below 0 if unknown
    step: NDArray[np.integer]  # t, of the server step that knows it first
    before: NDArray[np.integer]  # its client's reports of earlier steps, non-finite ones included


Weigh = Callable[[Reports], NDArray[np.float64]]


def report_weights(
    reports: Reports,
    *,
    by: Literal["uniform", "examples"] = "uniform",
    discount: Literal["none", "inverse_sqrt", "polynomial"] = "none",
    exponent: float = 0.5,
    local_steps: Literal["any", "normalised"] = "any",
    participation: Literal["any", "corrected"] = "any",
) -> NDArray[np.float64]:
    """Weights of reports; the paper's are all 1."""
    if not 0 <= exponent < np.inf:
        raise BadInput(f"staleness exponent={exponent}, expected a finite number >= 0")
    weight = np.ones(len(reports.examples))
    if by == "examples":
        weight = reports.examples.astype(float)
    if discount != "none":
        power = -0.5 if discount == "inverse_sqrt" else -exponent
        weight = weight * np.power(1.0 + reports.staleness, power, dtype=np.float64)
    if local_steps == "normalised":  # a client without local steps has no direction
        made = reports.local_steps.astype(float)
        if np.any(made < 0):
            raise BadInput(
                "local_steps='normalised', but clients do not tell how many they made; "
                "take `weigh` from deploy.deployment, which knows"
            )
        weight = np.divide(weight, made, out=np.zeros_like(weight), where=made > 0)
    if participation == "corrected":
        weight = weight * (1.0 + reports.step) / (1.0 + reports.before)
    return weight


def parts_of_steps(
    schedule: Schedule,
    settles: Settles,
    teachers: int,
    examples: NDArray[np.integer],
    local_steps: NDArray[np.integer],
    weigh: Weigh,
) -> NDArray[np.float64]:
    """What part of the sum of its server step each dispatch is; nothing if it is in none.

    `examples` is over clients, `local_steps` over dispatches. Late reports that are settled apart
    are in no step, but their clients have taken part.
    """
    rows = rows_of(schedule, settles, seed=0, teachers=teachers)
    reports = Reports(
        rows.staleness, examples[rows.client], local_steps[rows.dispatch], rows.step, rows.before
    )
    apart = (schedule.fate[rows.dispatch] == Fate.LATE) & (settles != "next_step")
    weight = np.where(apart | (rows.corrupt > 0), 0, weigh(reports))
    total = np.bincount(rows.joins, weight, minlength=schedule.steps)[rows.joins]
    part = np.zeros(len(schedule.client))
    part[rows.dispatch] = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    return part
