"""Speed tiers: rounds of clients that take about as long as one another (TiFL, Chai et al., 2020).

    profile[c]   mean seconds of a few participations that are not trained on
    tier[c]      clients in the order of their profiles, in parts of equal size
    cohort[t]    drawn from one tier, which comes up in proportion to its size

A cohort of similar clients waits for no straggler, and over-selection in it drops unlucky clients
rather than slow ones. A client participates as often as without tiers. TiFL also adapts how often
each tier comes up to the model's accuracy on it; that depends on weights and is left out.
"""

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning.latency import DrawLatency

PROFILED = 5  # participations, as in TiFL


def by_profile(latency: DrawLatency, clients: int, tiers: int) -> NDArray[np.int64]:
    """The tier of each client, from its own draws of a latency; the fastest are tier 0."""
    if not 1 <= tiers <= clients:
        raise BadInput(f"tiers={tiers}, expected from 1 to the {clients} clients")
    every = np.arange(clients)
    taken = [latency(k * clients, every).seconds for k in range(PROFILED)]
    order = np.argsort(np.mean(taken, axis=0), kind="stable")
    tier = np.empty(clients, np.int64)
    for number, members in enumerate(np.array_split(order, tiers)):
        tier[members] = number
    return tier


def cohorts(
    seed: int,
    tier: NDArray[np.int64],
    size: int,
    rounds: int,
    check_in: NDArray[np.float64] | None,
) -> NDArray[np.int32]:
    """A cohort for every round, [rounds, size]; `check_in` as in rounds.py."""
    weight = np.ones(len(tier)) if check_in is None else check_in
    upto = np.bincount(tier, weight).cumsum()
    chance = random_streams.uniforms(seed, random_streams.Purpose.TIER, 0, rounds)
    drawn_tier = np.searchsorted(upto / upto[-1], chance, side="right")
    who = np.empty((rounds, size), np.int32)
    for number in np.unique(drawn_tier):
        members = np.flatnonzero((tier == number) & (weight > 0))
        if size > len(members):
            raise BadInput(
                f"cohort={size} clients cannot be drawn from a tier of {len(members)}; "
                "lower `tiers` or `cohort`"
            )
        weights = None if check_in is None else weight[members]
        drawn = random_streams.cohorts(
            seed, random_streams.Purpose.OF_TIER, len(members), size, 0, rounds, weights
        )
        who[drawn_tier == number] = members[drawn[drawn_tier == number]]
    return who
