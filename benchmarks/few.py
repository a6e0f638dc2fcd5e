"""How near to the truth a fit from sums of times comes with few clients: three numbers or five.

    python -m benchmarks.few [--seeds N]

Each of TRUTHS draws the reports of some clients; both fits (totals.py) are compared with it by the
percentiles of T that each has for these clients. Printed are, over all truths and seeds, the root
of the mean square of log(fitted / true), and the worst of the 99th as a factor. Clients keep a
share of their luck (latency.py), so that many reports of few clients may be worth few.
"""

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stragglers.planning.fit import totals

Array = NDArray[np.float64]
PERCENTILES = (50, 95, 99)
DRAWS = 20_000  # of T, to compare

# T of clients with so many examples, from three normal draws each.
TRUTHS: dict[str, Callable[[Array, Array], Array]] = {
    "the paper's standard": lambda n, z: (
        np.exp(2.7 + z[0]) + np.exp(3 + 0.3 * z[1]) + np.exp(-2 + 0.2 * z[2]) * n
    ),
    "the paper's straggler": lambda n, z: (
        np.exp(3.7 + z[0]) + np.exp(3.5 + 0.3 * z[1]) + np.exp(-1 + 0.5 * z[2]) * n
    ),
    "constant overhead": lambda n, z: 20 + np.exp(2.7 + 0.8 * z[0]) + np.exp(-1.5 + 0.4 * z[2]) * n,
    "mostly by examples": lambda n, z: np.exp(1 + 0.5 * z[0]) + np.exp(-0.5 + 0.4 * z[2]) * n,
    "hardly by examples": lambda n, z: np.exp(4 + 0.6 * z[0]) + np.exp(-4 + 0.4 * z[2]) * n,
}
CASES = [  # clients, reports of each, persistence
    *((clients, 1, 0.0) for clients in (5, 10, 20, 30, 50, 100)),
    (5, 20, 0.0),
    (5, 20, 1.0),
    (10, 20, 0.0),
    (10, 20, 1.0),
]


def errors(clients: int, times: int, persistence: float, seed: int) -> Array:
    """log(fitted / true) of each truth, by three numbers and by five: [truths, 2, percentiles]."""
    rng = np.random.default_rng([seed, clients, times])
    sizes = np.rint(rng.lognormal(4.6, 0.7, clients)) + 1
    who = np.repeat(np.arange(clients), times)
    kept, fresh = rng.standard_normal((3, clients)), rng.standard_normal((3, len(who)))
    luck = np.sqrt(persistence) * kept[:, who] + np.sqrt(1 - persistence) * fresh
    many, z = np.resize(sizes, DRAWS), rng.standard_normal((3, DRAWS))
    found = []
    for truth in TRUTHS.values():
        reports, true = truth(sizes[who], luck), truth(many, z)
        for few in (True, False):
            its = totals.parts(reports, sizes[who], np.full(len(who), 1 / times), few=few)
            a, b = np.exp(its.mu_a + its.sigma_a * z[0]), np.exp(its.mu_b + its.sigma_b * z[2])
            drawn = np.percentile(its.constant + a + b * many, PERCENTILES)
            found.append(np.log(drawn / np.percentile(true, PERCENTILES)))
    return np.reshape(found, (len(TRUTHS), 2, len(PERCENTILES)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    seeds = parser.parse_args().seeds
    print("clients reports persistence  p50: 3    5  p95: 3    5  p99: 3    5  worst: 3      5")
    for clients, times, persistence in CASES:
        every = np.concatenate([errors(clients, times, persistence, s) for s in range(seeds)])
        typical, worst = np.sqrt((every**2).mean(0)).T, np.exp(np.abs(every[..., -1]).max(0))
        cells = "  ".join(f"{three:6.2f} {five:4.2f}" for three, five in typical)
        print(
            f"{clients:7} {clients * times:7} {persistence:11.1f}  {cells}  {worst[0]:8.1f} "
            f"{worst[1]:6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
