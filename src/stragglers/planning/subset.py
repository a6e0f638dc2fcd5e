"""Part of a population, drawn at random.

    place of a client   its rank in a shuffle of its group, from 0, / size of its group
    part of n clients   the n first places

Each group keeps its share and at least one client, and a smaller part lies within a larger one.
Straggler clients are chosen before, among all.
"""

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning.population import Population


def chosen(who: Population, clients: int) -> NDArray[np.int64]:
    """The indices of so many clients, in order."""
    groups = len(np.unique(who.group))
    if not groups <= clients <= who.clients:
        raise BadInput(
            f"task.clients={clients} of {who.origin}, expected at least one of each group, "
            f"{groups}, and at most {who.clients}; or leave it out for all"
        )
    place = np.empty(who.clients)
    for index in range(len(who.groups)):
        members = np.flatnonzero(who.group == index)
        rng = random_streams.generator(0, random_streams.Purpose.SUBSET, index)
        place[members] = rng.permutation(len(members)) / max(1, len(members))
    return np.sort(np.argsort(place, kind="stable")[:clients])


def part(who: Population, clients: NDArray[np.int64]) -> Population:
    """The population of these clients alone."""
    return who._replace(
        examples=who.examples[clients],
        group=who.group[clients],
        origin=f"{who.origin}; {len(clients):,} of its {who.clients:,} clients",
        tokens=None if who.tokens is None else who.tokens[clients],
        names=who.names and tuple(who.names[client] for client in clients),
    )
