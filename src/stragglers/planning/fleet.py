"""Fleets: who trains, how long it takes, what goes wrong, and when clients are online.

    Fleet        a description; nothing in it is drawn yet
    DrawnFleet   what one seed makes of it under a policy: sizes, hours, persistent latency, tiers

A schedule keeps the fleet that it was drawn with, so that its summary needs nothing else.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import NoneType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput, about, check_type, shown
from stragglers._core.random_streams import Purpose
from stragglers._core.schema import checked
from stragglers.planning import latency as latencies
from stragglers.planning import population as populations
from stragglers.planning import tiers
from stragglers.planning.availability import Availability, Online, online
from stragglers.planning.faults import DrawFaults, Faults, faults, shares_of
from stragglers.planning.latency import (
    AnyLatency,
    DrawLatency,
    Latency,
    PerGroup,
    TimeLimit,
)
from stragglers.planning.policy import Policy, Rounds
from stragglers.planning.population import Clients, Population


class Fleet(NamedTuple):
    """A description of clients, latency, faults and availability.

    Args:
        clients: A population (such as `task.population`), or a description (`st.clients`) whose
            sizes are drawn by the seed of `schedule`.
        latency: `PER_DOMAIN`, `PER_EXAMPLE`, one `Latency` for all clients, a `Latency` for each
            group by name, or a function: (first dispatch's number, clients) -> `Draw`.
        faults: What goes wrong, and how often.
        availability: When clients are online; by default always.

    Example:
        >>> import stragglers as st
        >>> fleet = st.Fleet(st.clients(100, examples=st.Constant(50)), st.PER_EXAMPLE)
        >>> st.schedule(fleet, st.Rounds(goal=5), updates=100).steps
        20
    """

    clients: Population | Clients
    latency: AnyLatency | Latency | Mapping[str, Latency] | DrawLatency
    faults: Faults | None = None
    availability: Availability | None = None


class DrawnFleet(NamedTuple):
    """A fleet as one seed draws it, for one policy."""

    population: Population
    latency: DrawLatency
    one_epoch: Callable[[], NDArray[np.float64]] | None = None  # seconds of each client
    faults: DrawFaults | None = None
    online: Online | None = None
    check_in: NDArray[np.float64] | None = None  # weight of each client; None if all are equal
    tier: NDArray[np.int64] | None = None  # of each client, if rounds are drawn from tiers
    time_limit: TimeLimit | None = None  # in seconds


def draw(fleet: Fleet, policy: Policy, *, seed: int, epochs: float = 1.0) -> DrawnFleet:
    """Draws a fleet for a policy; `epochs` is local work, in passes over a client's examples."""
    who = fleet.clients
    check_type("clients", who, (Population, Clients), "a population, or what st.clients returns")
    check_type("faults", fleet.faults, (Faults, NoneType), "Faults")
    check_type("availability", fleet.availability, (Availability, NoneType), "Availability")
    if isinstance(who, Clients):
        who = populations.drawn(checked(who), seed)
    limit, model = None, _model(fleet.latency, who)
    if isinstance(model, AnyLatency):
        limit = _limit(policy.time_limit, who, model, seed)
        delay, profile = (
            latencies.latency(who, model, seed=seed, epochs=epochs, limit=limit, purpose=purpose)
            for purpose in (Purpose.LATENCY, Purpose.PROFILE)
        )
        one_epoch = partial(_one_epoch, who, model, seed)
    else:
        if policy.time_limit is not None:
            raise BadInput("time_limit needs a latency model; a function can apply its own limit")
        delay = profile = model
        one_epoch = partial(_once, who, model)
    return DrawnFleet(
        population=who,
        latency=delay,
        one_epoch=one_epoch,
        faults=_faults(fleet.faults, who, seed),
        online=fleet.availability and online(checked(fleet.availability), who, seed=seed),
        check_in=_check_in(policy.check_in, who),
        tier=_tier(policy, profile, who.clients),
        time_limit=limit,
    )


def _model(
    given: AnyLatency | Latency | Mapping[str, Latency] | DrawLatency, who: Population
) -> AnyLatency | DrawLatency:
    if isinstance(given, Latency):
        given = dict.fromkeys(who.groups, given)
    if isinstance(given, Mapping):
        given = PerGroup(dict(given))
    if isinstance(given, AnyLatency):
        return checked(given)
    if not callable(given):
        raise BadInput(
            f"latency={shown(given)}, expected PER_DOMAIN, PER_EXAMPLE, a Latency, a Latency for "
            "each group, or a function"
        )
    return given


def _once(who: Population, latency: DrawLatency) -> NDArray[np.float64]:
    return latency(0, np.arange(who.clients)).seconds


def _one_epoch(who: Population, model: AnyLatency, seed: int) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # too large for a number is never
        return np.sum(latencies.one_epoch(who, model, seed=seed), axis=0)


def _limit(
    given: TimeLimit | None, who: Population, model: AnyLatency, seed: int
) -> TimeLimit | None:
    """The limit in seconds."""
    if given is None or given.percentile is None:
        return given
    seconds = latencies.percentile_limit(who, model, seed=seed, percentile=given.percentile)
    return TimeLimit(seconds=seconds, scope=given.scope, fill=given.fill)


def _faults(given: Faults | None, who: Population, seed: int) -> DrawFaults | None:
    return None if given is None else faults(shares_of(checked(given), who), seed=seed)


def _check_in(given: dict[str, float] | None, who: Population) -> NDArray[np.float64] | None:
    if given is None:
        return None
    with about("schedule.check_in"):
        weights = who.by_group(given, 1.0)
    return None if weights.min() == weights.max() > 0 else weights


def _tier(policy: Policy, profile: DrawLatency, clients: int) -> NDArray[np.int64] | None:
    if not isinstance(policy, Rounds) or policy.tiers is None:
        return None
    return tiers.by_profile(profile, clients, policy.tiers)
