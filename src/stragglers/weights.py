"""How much a report counts: known before training, since staleness and sizes are data.

weight = (1 or N) * s(tau)      tau: server steps between a client's model and its report
s(tau) = 1,   1 / sqrt(1 + tau),   or   (1 + tau) ** -exponent
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stragglers.errors import BadInput

Weigh = Callable[[NDArray[np.integer], NDArray[np.integer]], NDArray[np.float64]]


def report_weights(
    staleness: NDArray[np.integer],
    sizes: NDArray[np.integer],
    *,
    by: Literal["uniform", "examples"] = "uniform",
    discount: Literal["none", "inverse_sqrt", "polynomial"] = "none",
    exponent: float = 0.5,
) -> NDArray[np.float64]:
    """Weights of reports; the paper's are all 1."""
    if not 0 <= exponent < np.inf:
        raise BadInput(f"staleness exponent={exponent}, expected a finite number >= 0")
    weight = sizes.astype(float) if by == "examples" else np.ones(len(sizes))
    if discount == "none":
        return weight
    power = -0.5 if discount == "inverse_sqrt" else -exponent
    return weight * np.power(1.0 + staleness, power, dtype=np.float64)
