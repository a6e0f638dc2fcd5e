"""From a fleet and a policy to a schedule: draw, then let the policy arrange what was drawn."""

import math
from numbers import Integral, Real

from stragglers._core.errors import BadInput, check_type
from stragglers._core.schema import checked
from stragglers.planning import buffered, rounds
from stragglers.planning.fleet import DrawnFleet, Fleet, draw
from stragglers.planning.policy import Policy, Rounds, check
from stragglers.planning.schedule import Schedule


def schedule(
    fleet: Fleet, policy: Policy, *, updates: int, seed: int = 0, epochs: float = 1.0
) -> Schedule:
    """Makes the schedule of a fleet under a policy.

    A client's latency never depends on the weights, so a schedule needs no training: it says which
    client starts when, from which version, and which server step its report meets.

    Args:
        fleet: Clients, latency, faults and availability.
        policy: `Rounds` or `Buffer`.
        updates: Budget in client updates: a schedule has `updates // goal` rounds, or
            `updates // size` server steps of a buffer. Steps that time out have fewer reports.
        seed: Seed of all that is drawn: sizes, hours, latency, faults and the selection of clients.
        epochs: Local passes over a client's examples; training time is proportional to them.

    Returns:
        The schedule. It keeps the fleet as drawn, so `summarise(schedule)` needs nothing else.

    Raises:
        BadInput: If the policy contradicts itself or the fleet cannot serve it.

    Example:
        >>> import stragglers as st
        >>> fleet = st.Fleet(st.clients(1000, examples=st.Constant(100)), st.PER_EXAMPLE)
        >>> schedule = st.schedule(fleet, st.Rounds(goal=10, over_selection=1.2), updates=1000)
        >>> schedule.steps, len(schedule.client)
        (100, 1200)
    """
    check_type("fleet", fleet, Fleet, "a Fleet")
    check_type("policy", policy, Policy, "Rounds or Buffer")
    check_type("seed", seed, Integral, "a whole number of at least 0")
    check_type("epochs", epochs, Real, "a finite number above 0")
    if seed < 0 or not 0 < epochs < math.inf:
        raise BadInput(f"seed={seed}, epochs={epochs}: expected seed >= 0 and finite epochs > 0")
    check(checked(policy), updates)
    drawn = draw(fleet, policy, seed=seed, epochs=epochs)
    return arrange(drawn, policy, updates=updates, seed=seed)


def arrange(fleet: DrawnFleet, policy: Policy, *, updates: int, seed: int) -> Schedule:
    """The schedule of a fleet that is drawn already."""
    check(policy, updates)
    if isinstance(policy, Rounds):
        return rounds.make(fleet, policy, updates=updates, seed=seed)
    return buffered.make(fleet, policy, updates=updates, seed=seed)
