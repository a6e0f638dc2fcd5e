"""Some of a population's clients, drawn at random: a part of a fleet, or a quick first try.

    place of a client   its rank in a shuffle of its group, from 0 on, / size of its group
    part of n clients   the n first places

So each group keeps its share and at least one client, and a smaller part is a part of a larger one.
Who is a straggler was settled before, among all.
"""

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning.population import Population


def chosen(who: Population, clients: int) -> NDArray[np.int64]:
    """The numbers of so many clients, in their order."""
    groups = len(np.unique(who.group))
    if not groups <= clients <= who.clients:
        raise BadInput(
            f"task.clients={clients} of {who.origin}, expected one of each group at least, "
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
