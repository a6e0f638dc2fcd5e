"""Latency: the seconds from a client's start until its report arrives.

    T = T_communication + C + T_per_example * N                      (Hard et al., section 3)

Each factor is drawn anew at every participation, and the clients of a group share distributions. A
factor is a function of a normal draw z. A share p of its log-variance (`persistence`) may belong to
the client, drawn once, so that a slow client stays slow; a single participation keeps its
distribution:

    z = sqrt(p) * z_client + sqrt(1 - p) * z_dispatch                (p = 0: the paper)

With a correlation r, devices that compute fast have fast networks as well:

    z_per_example = r * z_communication + sqrt(1 - r^2) * z          (r = 0: the paper)

T_communication is for one model each way; other traffic multiplies it (`traffic`). With
cost = "tokens", T_per_example is the time of an example of mean length:

    T_per_example of a client = T_per_example * (its tokens an example / the mean of all examples)

N = epochs * the client's examples. Under a time limit L, a client trains until L and reports what
it has (with `fill`, fast clients train on beyond their epochs). A client that L stops is `cut`, and
drops its unfinished batch. The scope says what L caps:

    training     T = T_communication + C + L,      examples trained = L / T_per_example
    computation  T = T_communication + max(C, L),  examples trained = (L - C) / T_per_example
    latency      T = max(T_communication + C, L),  (L - C - T_communication) / T_per_example
                 for clients that can predict the duration of their upload

Latency never depends on weights, and the draw of dispatch d is row d of an endless table.
"""

import math
from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput, about, did_you_mean
from stragglers._core.schema import NotNegative, Positive, Settings, Share
from stragglers.planning.distributions import Distribution, LogNormal, Sampler, sampler
from stragglers.planning.population import MOST_EXAMPLES, Population

# Descriptions: what settings and the API say of latency.


class Latency(Settings, frozen=True):
    """The distributions of one group's latency, in seconds, for N examples::

        T = T_communication + T_overhead + T_per_example * N

    Example:
        >>> import stragglers as st
        >>> st.Latency(st.LogNormal(p50=8, p95=20), st.Constant(10), st.Constant(0.05)).overhead
        Constant(value=10)
    """

    communication: Distribution  #: [s] Download and upload of one model.
    overhead: Distribution  #: [s] Start-up and turn-down of the client, C.
    per_example: Distribution  #: [s] Training time of one example.


class LatencyModel(Settings, frozen=True, kw_only=True):
    """What every latency model can vary; the defaults are the paper's."""

    #: Share of each factor's log-variance that a client keeps: 0 draws it anew at every
    #: participation, 1 draws it once.
    persistence: Share = 0.0
    #: Correlation between communication and time per example.
    correlation: Annotated[float, Meta(ge=-1, le=1)] = 0.0
    download: NotNegative = 1.0  #: Models sent to a client; the factor is for one each way.
    upload: NotNegative = 1.0  #: Models sent back.
    download_share: Share = 0.5  #: The download's share of the communication factor.
    #: What training time is proportional to. With `tokens`, long examples take longer.
    cost: Literal["examples", "tokens"] = "examples"

    @property
    def traffic(self) -> float:
        """Communication, in units of one model each way."""
        down, up = self.download_share, 1 - self.download_share
        return down * self.download + up * self.upload


class PerExample(LatencyModel, frozen=True, tag="per-example", tag_field="model"):
    """The paper's per-example latency: one model for all clients.

    `st.PER_EXAMPLE` is the usual one.

    Example:
        >>> import stragglers as st
        >>> st.PER_EXAMPLE.replace(persistence=0.5)
        PerExample(persistence=0.5)
    """


class PerDomain(LatencyModel, frozen=True, tag="per-domain", tag_field="model"):
    """The paper's per-domain latency: straggler clients are slower.

    `st.PER_DOMAIN` is the usual one.

    Example:
        >>> import stragglers as st
        >>> st.PER_DOMAIN.replace(correlation=0.7)
        PerDomain(correlation=0.7)
    """


class PerGroup(LatencyModel, frozen=True, tag="groups", tag_field="model"):
    """Latency distributions for each group of clients, and what persists or is correlated.

    `st.Fleet` also takes the groups alone, as a mapping.

    Example:
        >>> import stragglers as st
        >>> slow = st.Latency(st.Constant(20), st.Constant(10), per_example=st.Constant(0.2))
        >>> st.PerGroup(groups={"older": slow}, persistence=0.5).persistence
        0.5
    """

    groups: dict[str, Latency]  #: Latency of each group, by its name.


AnyLatency = PerExample | PerDomain | PerGroup
PER_EXAMPLE, PER_DOMAIN = PerExample(), PerDomain()
ALL = Latency(
    LogNormal(mu=2.7, sigma=1.0), LogNormal(mu=3.0, sigma=0.3), LogNormal(mu=-1.6, sigma=0.5)
)
BY_DOMAIN = {
    "standard": Latency(
        LogNormal(mu=2.7, sigma=1.0), LogNormal(mu=3.0, sigma=0.3), LogNormal(mu=-2.0, sigma=0.2)
    ),
    "straggler": Latency(
        LogNormal(mu=3.7, sigma=1.0), LogNormal(mu=3.5, sigma=0.3), LogNormal(mu=-1.0, sigma=0.5)
    ),
}

Scope = Literal["training", "computation", "latency"]


class TimeLimit(Settings, frozen=True):
    """A cap on what its scope names, in seconds or as a percentile; communication is never cut.

    Example:
        >>> import stragglers as st
        >>> st.Rounds(goal=50, time_limit=st.TimeLimit(percentile=75)).time_limit
        TimeLimit(percentile=75)
    """

    seconds: Positive | None = None  #: [s] The cap, L.
    #: The cap, as the percentile over all clients of the training time of one epoch.
    percentile: Annotated[float, Meta(gt=0, lt=100)] | None = None
    #: What is capped: training, training and overhead, or the whole latency.
    scope: Scope = "training"
    #: Clients that finish their epochs early train on until the cap.
    fill: bool = True


# What a seed makes of them.


class Draw(NamedTuple):
    """What becomes of some dispatches."""

    seconds: NDArray[np.float64]  # T
    examples: NDArray[np.int64]  # how many examples each client may train on
    cut: NDArray[np.bool_] | bool = False  # whether a time limit ends its work, not its epochs


DrawLatency = Callable[[int, NDArray[np.integer]], Draw]  # (first dispatch's number, clients)


def latency(
    population: Population,
    model: AnyLatency,
    *,
    seed: int,
    epochs: float = 1,
    limit: TimeLimit | None = None,
    purpose: random_streams.Purpose = random_streams.Purpose.LATENCY,
) -> DrawLatency:
    """Builds the latency of every dispatch of a population."""
    if limit is not None and (limit.seconds is None or not 0 < limit.seconds < math.inf):
        raise BadInput(f"time_limit: seconds={limit.seconds}, expected a finite number > 0")
    sample = _factors(population, model, seed)

    def draw(first: int, clients: NDArray[np.integer]) -> Draw:
        z = random_streams.normals(seed, purpose, first, first + len(clients), 3)
        wanted = np.floor(epochs * population.examples[clients].astype(float))
        communication, overhead, per_example = sample(clients, z)
        return _finish(communication, overhead, per_example, wanted, limit)

    return draw


def one_epoch(
    population: Population,
    model: AnyLatency,
    *,
    seed: int,
    purpose: random_streams.Purpose = random_streams.Purpose.PICTURE,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Communication, C and training time of each client once: what the paper's figures show."""
    clients = np.arange(population.clients)
    z = random_streams.normals(seed, purpose, 0, len(clients), 3)
    communication, overhead, per_example = _factors(population, model, seed)(clients, z)
    return communication, overhead, _training(per_example, population.examples)


def percentile_limit(
    population: Population, model: AnyLatency, *, seed: int, percentile: float
) -> float:
    """The time within which that percentage of clients train one epoch."""
    if not 0 < percentile < 100:
        raise BadInput(f"time_limit: percentile={percentile}, expected one between 0 and 100")
    _, _, training = one_epoch(
        population, model, seed=seed, purpose=random_streams.Purpose.TIME_LIMIT
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
    assert limit.seconds is not None
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
        busy = wanted > 0  # a client without examples trains none, however much time it has
        training, trained = np.where(busy, spare, 0), np.where(busy, reach, 0)
        cut = np.ones_like(busy)
    return Draw(communication + overhead + training, trained.astype(np.int64), cut)


@np.errstate(over="ignore")
def _training(
    per_example: NDArray[np.float64], examples: NDArray[np.integer] | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Seconds; no examples take no time, even where a single one would take forever."""
    return np.multiply(per_example, examples, out=np.zeros(len(examples)), where=examples > 0)


def _factors(
    population: Population, model: AnyLatency, seed: int
) -> Callable[[NDArray[np.integer], NDArray[np.float64]], NDArray[np.float64]]:
    """Maps clients and normal draws [3, clients] to communication, C and T_per_example."""
    persistence, correlation, traffic = model.persistence, model.correlation, model.traffic
    if not traffic < math.inf:
        raise BadInput(f"traffic={traffic}, expected a finite number >= 0")
    of_group = _by_group(population, model)
    cost = population.cost() if model.cost == "tokens" else None
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


def check(model: AnyLatency) -> None:
    """Refuses distributions that no seed can draw from, before any population is known."""
    for name, given in (model.groups if isinstance(model, PerGroup) else {}).items():
        _samplers(given, f"latency.groups.{name}")


def _samplers(given: Latency, where: str) -> list[Sampler]:
    samplers = []
    for factor in given.__struct_fields__:
        with about(f"{where}.{factor}"):
            samplers.append(sampler(getattr(given, factor)))
    return samplers


def _by_group(
    population: Population, model: AnyLatency
) -> Callable[[NDArray[np.integer], NDArray[np.float64]], NDArray[np.float64]]:
    if isinstance(model, PerExample):
        shared = _samplers(ALL, "latency")
        return lambda clients, z: np.stack([f(row) for f, row in zip(shared, z, strict=True)])
    given = model.groups if isinstance(model, PerGroup) else BY_DOMAIN
    for name in population.groups:
        if name not in given:
            raise BadInput(
                f"no latency for group {name!r} of {population.origin}; {did_you_mean(name, given)}"
            )
    by_group = [_samplers(given[name], f"latency.groups.{name}") for name in population.groups]

    def sample(clients: NDArray[np.integer], z: NDArray[np.float64]) -> NDArray[np.float64]:
        group = population.group[clients]
        times = np.empty_like(z)
        for index, samplers in enumerate(by_group):
            members = np.flatnonzero(group == index)
            for row, one in enumerate(samplers):
                times[row, members] = one(z[row, members])
        return times

    return sample
