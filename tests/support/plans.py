"""Schedules from a number of clients and any function of latency, without a description."""

from functools import cache

import numpy as np
from msgspec import structs

from stragglers.planning import client_pool
from stragglers.planning.fleet import DrawnFleet
from stragglers.planning.make_schedule import arrange
from stragglers.planning.policy import Buffer, Rounds
from stragglers.planning.population import Population


def over_selected(clients, latency, *, updates, seed, **options):
    """Rounds of the clients, or of so many; the rest of the options is the policy's."""
    return _arranged(clients, latency, updates, seed, Rounds, options)


def buffered(clients, latency, *, updates, seed, **options):
    """The same of a buffer, whose size is `buffer` here as in settings."""
    return _arranged(clients, latency, updates, seed, Buffer, options)


def under(policy, clients, latency, *, updates, seed, **drawn):
    """The same under a policy, with what else is drawn of the fleet."""
    make = over_selected if isinstance(policy, Rounds) else buffered
    return make(clients, latency, updates=updates, seed=seed, **options_of(policy), **drawn)


def options_of(policy):
    given = structs.asdict(policy)
    return {"buffer" if name == "size" else name: value for name, value in given.items()}


def _arranged(clients, latency, updates, seed, kind, options):
    drawn = {name: options.pop(name, None) for name in ("faults", "check_in", "there", "tier")}
    drawn["online"] = drawn.pop("there")
    if "buffer" in options:
        options["size"] = options.pop("buffer")
    who = clients if isinstance(clients, Population) else population(clients)
    fleet = DrawnFleet(who, latency, **drawn)
    return arrange(fleet, kind(**options), updates=updates, seed=seed)


@cache
def population(clients):
    """Clients of one example each, in one group."""
    ones = np.ones(clients, np.int64)
    return Population(ones, np.zeros(clients, np.int16), ("all",), "a test")


def pool(clients, latency, seed=0, busy="skip", **drawn):
    """The clients of a schedule, and when each is idle."""
    who = population(clients)
    return client_pool.Pool(DrawnFleet(who, latency, **drawn), seed, busy)
