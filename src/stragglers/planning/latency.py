"""How long a client takes, from being started until its report is in.

    T = T_communication + C + T_per_example * N                      (Hard et al., section 3)

Each factor is drawn anew at every participation; the clients of a group share distributions. A
factor is a function of a normal draw z, and of its spread a share p may be the client's own, drawn
once, so that who is slow stays slow; a single participation is distributed as before:

    z = sqrt(p) * z_client + sqrt(1 - p) * z_dispatch                (p = 0: the paper)

Likewise, with correlation r, a device that computes fast may have a fast network, too:

    z_per_example = r * z_communication + sqrt(1 - r^2) * z          (r = 0: the paper)

T_communication is for one model each way; whatever else goes over the network multiplies it
(`traffic`). Where time goes by tokens, T_per_example is that of an example of mean length:

    T_per_example of a client = T_per_example * (its tokens an example / the mean of all examples)

N = epochs * the client's examples. Under a time limit L the client trains until L and reports what
it has (`fill`: fast clients go on beyond their epochs). Where L ends its work it is `cut`, and a
batch that is not done by then is not done. What L caps is its scope:

    training     T = T_communication + C + L,      examples trained = L / T_per_example
    computation  T = T_communication + max(C, L),  examples trained = (L - C) / T_per_example
    latency      T = max(T_communication + C, L),  (L - C - T_communication) / T_per_example
                 for clients who know beforehand how long their upload will take

Latency never depends on weights, and the draw of dispatch number d is row d of an endless table.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput, did_you_mean
from stragglers.planning.distributions import Distribution, lognormal
from stragglers.planning.population import MOST_EXAMPLES, Population


class Factors(NamedTuple):
    """The distributions of one group, in seconds."""

    communication: Distribution  # download and upload
    overhead: Distribution  # C, start-up and turn-down
    per_example: Distribution


class Draw(NamedTuple):
    """What becomes of some dispatches."""

    seconds: NDArray[np.float64]  # T
    examples: NDArray[np.int64]  # how many examples each client may train on
    cut: NDArray[np.bool_] | bool = False  # whether a time limit ends its work, not its epochs


Latency = Callable[[int, NDArray[np.integer]], Draw]  # (first dispatch's number, clients)

PER_EXAMPLE = Factors(lognormal(2.7, 1.0), lognormal(3.0, 0.3), lognormal(-1.6, 0.5))
PER_DOMAIN = {
    "standard": Factors(lognormal(2.7, 1.0), lognormal(3.0, 0.3), lognormal(-2.0, 0.2)),
    "straggler": Factors(lognormal(3.7, 1.0), lognormal(3.5, 0.3), lognormal(-1.0, 0.5)),
}


Scope = Literal["training", "computation", "latency"]


class TimeLimit(NamedTuple):
    """A cap on the time that a client trains; communication and C are never cut."""

    seconds: float  # L
    scope: Scope = "training"
    fill: bool = True  # train until L even when the epochs are done before


def latency(
    population: Population,
    factors: Mapping[str, Factors] | Factors,
    *,
    seed: int,
    epochs: float = 1,
    limit: TimeLimit | None = None,
    persistence: float = 0.0,
    correlation: float = 0.0,
    traffic: float = 1.0,
    by_tokens: bool = False,
    purpose: random_streams.Purpose = random_streams.Purpose.LATENCY,
) -> Latency:
    """Builds the latency of every dispatch from each group's factors (or one for all)."""
    if limit is not None and not 0 < limit.seconds < math.inf:
        raise BadInput(f"time_limit: seconds={limit.seconds}, expected a finite number > 0")
    sample = _sampler(population, factors, seed, persistence, correlation, traffic, by_tokens)

    def draw(first: int, clients: NDArray[np.integer]) -> Draw:
        z = random_streams.normals(seed, purpose, first, first + len(clients), 3)
        wanted = np.floor(epochs * population.examples[clients].astype(float))
        communication, overhead, per_example = sample(clients, z)
        return _finish(communication, overhead, per_example, wanted, limit)

    return draw


def one_epoch(
    population: Population,
    factors: Mapping[str, Factors] | Factors,
    *,
    seed: int,
    persistence: float = 0.0,
    correlation: float = 0.0,
    traffic: float = 1.0,
    by_tokens: bool = False,
    purpose: random_streams.Purpose = random_streams.Purpose.PICTURE,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Communication, C and training time of each client once: what the paper's figures show."""
    clients = np.arange(population.clients)
    z = random_streams.normals(seed, purpose, 0, len(clients), 3)
    sample = _sampler(population, factors, seed, persistence, correlation, traffic, by_tokens)
    communication, overhead, per_example = sample(clients, z)
    return communication, overhead, _training(per_example, population.examples)


def percentile_limit(
    population: Population,
    factors: Mapping[str, Factors] | Factors,
    *,
    seed: int,
    percentile: float,
    **options: Any,
) -> float:
    """The time that one epoch of training takes that percentage of the population at most."""
    if not 0 < percentile < 100:
        raise BadInput(f"time_limit: percentile={percentile}, expected one between 0 and 100")
    _, _, training = one_epoch(
        population, factors, seed=seed, purpose=random_streams.Purpose.TIME_LIMIT, **options
    )
    if not math.isfinite(np.percentile(training, percentile, method="higher")):
        raise BadInput(
            f"time_limit: percentile={percentile}, but fewer of the clients ever finish "
            "an epoch; lower it"
        )
    # Interpolating towards infinity, even by nothing, would give NaN.
    return float(np.percentile(np.minimum(training, np.finfo(float).max), percentile))


@np.errstate(over="ignore")  # beyond all numbers is never
def _finish(
    communication: NDArray[np.float64],
    overhead: NDArray[np.float64],
    per_example: NDArray[np.float64],
    wanted: NDArray[np.float64],
    limit: TimeLimit | None,
) -> Draw:
    if limit is None:
        seconds = communication + overhead + _training(per_example, wanted)
        return Draw(seconds, np.minimum(wanted, MOST_EXAMPLES).astype(np.int64))
    spare = np.full_like(overhead, limit.seconds)
    if limit.scope != "training":
        spare = np.maximum(spare - overhead, 0)
    if limit.scope == "latency":
        spare = np.maximum(spare - communication, 0)
    reach = np.floor(np.divide(spare, per_example, out=wanted.copy(), where=per_example > 0))
    reach = np.minimum(reach, MOST_EXAMPLES)
    training = np.minimum(_training(per_example, wanted), spare)
    trained, cut = np.minimum(reach, wanted), reach < wanted
    if limit.fill:
        busy = wanted > 0  # whoever has no examples trains none, however long it may
        training, trained = np.where(busy, spare, 0), np.where(busy, reach, 0)
        cut = np.ones_like(busy)
    return Draw(communication + overhead + training, trained.astype(np.int64), cut)


@np.errstate(over="ignore")
def _training(
    per_example: NDArray[np.float64], examples: NDArray[np.integer] | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Seconds; no examples take none, even where a single one would take forever."""
    return np.multiply(per_example, examples, out=np.zeros(len(examples)), where=examples > 0)


def _sampler(
    population: Population,
    factors: Mapping[str, Factors] | Factors,
    seed: int,
    persistence: float,
    correlation: float,
    traffic: float,
    by_tokens: bool,
) -> Callable[[NDArray[np.integer], NDArray[np.float64]], NDArray[np.float64]]:
    """Maps clients and normal draws [3, clients] to communication, C and T_per_example."""
    if not 0 <= persistence <= 1:
        raise BadInput(f"persistence={persistence}, expected a share between 0 and 1")
    if not -1 <= correlation <= 1:
        raise BadInput(f"correlation={correlation}, expected one between -1 and 1")
    if not 0 <= traffic < math.inf:
        raise BadInput(f"traffic={traffic}, expected a finite number >= 0")
    of_group = _by_group(population, factors)
    cost = population.cost() if by_tokens else None
    own = np.empty((3, 0))
    if persistence:
        own = random_streams.normals(seed, random_streams.Purpose.DEVICE, 0, population.clients, 3)

    def sample(clients: NDArray[np.integer], z: NDArray[np.float64]) -> NDArray[np.float64]:
        if persistence:
            z = math.sqrt(persistence) * own[:, clients] + math.sqrt(1 - persistence) * z
        if correlation:
            along = correlation * z[0] + math.sqrt(1 - correlation**2) * z[2]
            z = np.stack([z[0], z[1], along])
        times = of_group(clients, z)
        if traffic != 1:  # nothing takes no time, even where a single model would take forever
            times[0] = traffic * times[0] if traffic else 0.0
        if cost is not None:
            times[2] *= cost[clients]
        return times

    return sample


def _by_group(
    population: Population, factors: Mapping[str, Factors] | Factors
) -> Callable[[NDArray[np.integer], NDArray[np.float64]], NDArray[np.float64]]:
    if isinstance(factors, Factors):
        shared = factors
        return lambda clients, z: np.stack([f(row) for f, row in zip(shared, z, strict=True)])
    for name in population.groups:
        if name not in factors:
            raise BadInput(
                f"no latency for group {name!r} of {population.origin}; "
                f"{did_you_mean(name, factors)}"
            )
    by_group = [factors[name] for name in population.groups]

    def sample(clients: NDArray[np.integer], z: NDArray[np.float64]) -> NDArray[np.float64]:
        group = population.group[clients]
        times = np.empty_like(z)
        for index, distributions in enumerate(by_group):
            members = np.flatnonzero(group == index)
            for row, distribution in enumerate(distributions):
                times[row, members] = distribution(z[row, members])
        return times

    return sample
