"""What of a report's time goes by examples, where only the whole of it is known.

    T = c + A + B N       c constant, A, B log-normal, N the client's examples; for S = T - c
    p(S | N) = 1/S * integral over y of  phi_A(log S(1 - x)) phi_B(log(S x / N)) dy,  x = 1/(1+e^-y)

phi_A and phi_B are the densities of log A and log B. The integrand is smooth and falls off fast on
both sides, so that an even sum over y is exact to many digits, as long as y advances by no more
than a standard deviation: hence the least one.

The likeliest A and B are found for each of some c, shares of the shortest T; it grows without
bounds as c comes to that itself, which says nothing, so the largest share is 0.9.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEP, REACH = 0.1, 10.0  # of y
LEAST, MOST = STEP, 4.0  # standard deviations of log A and log B
LINES = 2_000  # that a fit looks at: more would hardly change its second digit
STARTS = (0.2, 0.5, 0.8)  # shares of the time that go by examples, to begin with
CONSTANTS = np.arange(10) / 10  # shares of the shortest time
Y = np.arange(-REACH, REACH + STEP / 2, STEP)
LOG_X, LOG_REST = -np.logaddexp(0, -Y), -np.logaddexp(0, Y)  # of x and of 1 - x


class Parts(NamedTuple):
    """c, and of log A and log B the mean and deviation."""

    constant: float
    mu_a: float
    sigma_a: float
    mu_b: float
    sigma_b: float


def parts(total: Array, examples: Array, weights: Array) -> Parts:
    """The likeliest; `examples` must differ."""
    if len(total) > LINES:
        some = np.random.default_rng(0).choice(len(total), LINES, replace=False)
        total, examples, weights = total[some], examples[some], weights[some]
    busy = examples > 0
    typical, rate = np.median(np.log(total)), np.median(np.log(total[busy] / examples[busy]))
    starts = [
        np.array([typical + np.log1p(-share), np.log(0.5), rate + np.log(share), np.log(0.5)])
        for share in STARTS
    ]
    best, found = np.inf, Parts(0, 0, 0, 0, 0)
    for constant in CONSTANTS * total.min():
        surprise, given = _likeliest(total - constant, examples, weights / weights.sum(), starts)
        starts = [given]  # of the next, which is not far
        if surprise < best:
            mu_a, log_sa, mu_b, log_sb = map(float, given)
            best = surprise
            found = Parts(float(constant), mu_a, float(np.exp(log_sa)), mu_b, float(np.exp(log_sb)))
    return found


def _likeliest(
    rest: Array, examples: Array, weights: Array, starts: list[Array]
) -> tuple[float, Array]:
    """Minus the mean logarithm of the greatest likelihood, and where it is."""
    from scipy.optimize import minimize

    trains = examples[:, None] > 0
    log_s, log_n = np.log(rest)[:, None], np.log(np.maximum(examples, 1))[:, None]
    log_a = np.where(trains, log_s + LOG_REST, log_s)
    log_b = np.where(trains, log_s + LOG_X - log_n, 0.0)

    def surprise(given: Array) -> tuple[float, Array]:
        """With its gradient; log S, whose density this is then not, is added at the end."""
        mu_a, log_sa, mu_b, log_sb = given
        a, b = (log_a - mu_a) * np.exp(-log_sa), (log_b - mu_b) * np.exp(-log_sb)
        each = -(a**2) / 2 - log_sa - np.where(trains, b**2 / 2 + log_sb, 0.0)
        most = each.max(1, keepdims=True)
        share = np.exp(each - most)
        mass = share.sum(1, keepdims=True)
        share *= weights[:, None] / mass
        gradient = [
            (share * a).sum() * np.exp(-log_sa),
            (share * (a**2 - 1)).sum(),
            (share * np.where(trains, b, 0.0)).sum() * np.exp(-log_sb),
            (share * np.where(trains, b**2 - 1, 0.0)).sum(),
        ]
        return -float(weights @ (most + np.log(mass))[:, 0]), -np.array(gradient)

    bounds = [(None, None), np.log((LEAST, MOST))] * 2
    found = min(
        (minimize(surprise, x, jac=True, method="L-BFGS-B", bounds=bounds) for x in starts),
        key=lambda result: result.fun,
    )
    return float(found.fun + weights @ log_s[:, 0]), found.x


def scores(total: Array, examples: Array, given: Parts) -> Array:
    """Normal scores of reports: where each stands among those of as many examples."""
    from scipy.special import ndtr, ndtri

    z = np.linspace(-6, 6, 121)
    mass = np.exp(-(z**2) / 2)
    mass /= mass.sum()
    below = np.zeros(len(total))
    for one, share in zip(z, mass, strict=True):  # of B
        left = total - given.constant - examples * np.exp(given.mu_b + given.sigma_b * one)
        with np.errstate(divide="ignore", invalid="ignore"):
            fits = ndtr((np.log(left) - given.mu_a) / given.sigma_a)
        below += share * np.where(left > 0, fits, 0.0)
    return ndtri(np.clip(below, 1e-9, 1 - 1e-9))
