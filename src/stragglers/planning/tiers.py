"""Rounds of clients that take about as long as one another, after TiFL (Chai et al., 2020).

    profile[c]   mean seconds of a few participations, of which nothing is learned
    tier[c]      clients in the order of their profiles, in parts of equal size
    cohort[t]    all of one tier, which comes as often as its clients are many

A cohort of like clients waits for nobody long, and over-selection in it passes over whoever has bad
luck, and not whoever is slow. A client takes part as often as before. What TiFL changes on the way,
tiers by how accurate the model is for them, depends on weights, and is left out.
"""

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning.latency import Latency

PROFILED = 5  # participations, as in TiFL


def by_profile(latency: Latency, clients: int, tiers: int) -> NDArray[np.int64]:
    """The tier of each client, from its own draws of a latency; the fastest are tier 0."""
    if not 1 <= tiers <= clients:
        raise BadInput(f"tiers={tiers}, expected from 1 to the {clients} clients")
    everybody = np.arange(clients)
    taken = [latency(k * clients, everybody).seconds for k in range(PROFILED)]
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
    turn = np.searchsorted(upto / upto[-1], chance, side="right")
    who = np.empty((rounds, size), np.int32)
    for number in np.unique(turn):
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
        who[turn == number] = members[drawn[turn == number]]
    return who
