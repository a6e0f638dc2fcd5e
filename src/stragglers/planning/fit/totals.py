"""What of a report's time goes by examples, where only the whole of it is known.

    T = c + A + B N       c constant, A, B log-normal, N the client's examples; for S = T - c
    p(S | N) = 1/S * integral over y of  phi_A(log S(1 - x)) phi_B(log(S x / N)) dy,  x = 1/(1+e^-y)

phi_A and phi_B are the densities of log A and log B. The integrand is smooth and falls off fast on
both sides, so that an even sum over y is exact to many digits, as long as y advances by no more
than a standard deviation: hence the least one. Parts below e^-REACH of S are not looked for.

The likeliest A and B are found for each of some c, shares of the shortest T; it grows without
bounds as c comes to that itself, which says nothing, so the largest share is 0.9.

These are five numbers, for which a few clients are no evidence: one report far from the others
becomes a deviation of its own. Of fewer than ENOUGH, c = 0 and A and B have the same deviation.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEP, REACH = 0.1, 10.0  # of y
LEAST, MOST = STEP, 4.0  # standard deviations of log A and log B
ENOUGH = 30  # clients; of fewer three numbers come out nearer to the truth: benchmarks/few.py
LINES = 2_000  # that a fit looks at: more would hardly change its second digit
STARTS = (0.2, 0.5, 0.8)  # shares of the time that go by examples, to begin with
CONSTANTS = np.arange(10) / 10  # shares of the shortest time
Y = np.arange(-REACH, REACH + STEP / 2, STEP)
FREE = np.eye(4)  # from what is searched to mu_a, log sigma_a, mu_b, log sigma_b
TIED = FREE[:, :3] + np.outer(FREE[3], FREE[1, :3])  # where the second is the fourth as well
LOG_X, LOG_REST = -np.logaddexp(0, -Y), -np.logaddexp(0, Y)  # of x and of 1 - x


class Parts(NamedTuple):
    """c, and of log A and log B the mean and deviation."""

    constant: float
    mu_a: float
    sigma_a: float
    mu_b: float
    sigma_b: float


def parts(total: Array, examples: Array, weights: Array, *, few: bool = False) -> Parts:
    """The likeliest; `examples` must differ. If these are of `few` clients, three numbers of it."""
    if len(total) > LINES:
        some = _some(total, examples, weights)
        total, examples, weights = total[some], examples[some], np.ones(LINES)
    busy = examples > 0
    typical, rate = np.median(np.log(total)), np.median(np.log(total[busy] / examples[busy]))
    tie, constants = (TIED, CONSTANTS[:1]) if few else (FREE, CONSTANTS)
    starts = [
        np.array([typical + np.log1p(-share), np.log(0.5), rate + np.log(share), np.log(0.5)])
        for share in STARTS
    ]
    starts = [start[: tie.shape[1]] for start in starts]
    best, found = np.inf, Parts(0, 0, 0, 0, 0)
    for constant in constants * total.min():
        rest = total - constant
        surprise, given = _likeliest(rest, examples, weights / weights.sum(), starts, tie)
        starts = [given]  # of the next, which is not far
        if surprise < best:
            mu_a, log_sa, mu_b, log_sb = map(float, tie @ given)
            best = surprise
            found = Parts(float(constant), mu_a, float(np.exp(log_sa)), mu_b, float(np.exp(log_sb)))
    return found


def _some(total: Array, examples: Array, weights: Array) -> NDArray[np.int64]:
    """Lines, as often as their weight says, evenly from the shortest to the longest."""
    order = np.lexsort((examples, total))
    ends = np.cumsum(weights[order])
    return order[np.searchsorted(ends, (np.arange(LINES) + 0.5) / LINES * ends[-1])]


def _likeliest(
    rest: Array, examples: Array, weights: Array, starts: list[Array], tie: Array
) -> tuple[float, Array]:
    """Minus the mean logarithm of the greatest likelihood, and where it is."""
    from scipy.optimize import minimize

    surprise = surprised(rest, examples, weights)
    bounds = ([(None, None), np.log((LEAST, MOST))] * 2)[: tie.shape[1]]

    def tied(x: Array) -> tuple[float, Array]:
        value, gradient = surprise(tie @ x)
        return value, tie.T @ gradient

    found = min(
        (minimize(tied, x, jac=True, method="L-BFGS-B", bounds=bounds) for x in starts),
        key=lambda result: result.fun,
    )
    return float(found.fun + weights @ np.log(rest)), found.x


def surprised(
    rest: Array, examples: Array, weights: Array
) -> Callable[[Array], tuple[float, Array]]:
    """Builds (mu_a, log sigma_a, mu_b, log sigma_b) -> mean of -log(S p(S)), and its gradient.

    Without what does not depend on them: STEP, and a root of 2 pi for A and for B.
    """
    trains = examples > 0
    log_s = np.log(rest)
    log_rate = log_s - np.log(np.maximum(examples, 1))
    one, each = np.ones_like(Y), np.empty((len(rest), len(Y)))  # one room: it is filled often

    def surprise(given: Array) -> tuple[float, Array]:
        mu_a, log_sa, mu_b, log_sb = given
        r, x = LOG_REST * np.exp(-log_sa), LOG_X * np.exp(-log_sb)
        a = (log_s - mu_a) * np.exp(-log_sa)  # a + r and b + x are the scores of A and B at y
        b = np.where(trains, (log_rate - mu_b) * np.exp(-log_sb), 0.0)
        # Not by BLAS, whose threads are in each other's way on busy cores.
        parts = np.stack([a, b, np.ones_like(a)]), -np.stack([r, x, (r**2 + x**2) / 2])
        np.einsum("ki,kj->ij", *parts, out=each)
        most = each.max(1)
        np.exp(np.subtract(each, most[:, None], out=each), out=each)
        mass, *moments = np.einsum("ij,kj->ki", each, np.stack([one, r, r**2, x, x**2]))
        # A client without examples has no y: its S is A.
        mean_r, mean_rr, mean_x, mean_xx = np.where(trains, moments / mass, 0.0)
        with_b = np.where(trains, most + np.log(mass) - log_sb, 0.0)
        gradient = [
            np.exp(-log_sa) * (a + mean_r),
            a**2 + 2 * a * mean_r + mean_rr - 1,
            np.exp(-log_sb) * (b + mean_x),
            b**2 + 2 * b * mean_x + mean_xx - trains,
        ]
        surprises = (a**2 + b**2) / 2 + log_sa - with_b
        return float(weights @ surprises), -np.sum(weights * gradient, axis=1)

    return surprise


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
