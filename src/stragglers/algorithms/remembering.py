"""CA2FL, FedVARP and MIFA: the server remembers the last report of each client.

    S[t]    sum of the reports of step t
    O[t]    sum of the reports that they replace: the last one of each client before
    M[t+1]  = M[t] + S[t] - O[t]        sum of the last reports of all clients; M[0] = 0

    CA2FL   w[t+1] = server(w[t], M[t] / clients + mean(S[t] - O[t]))     (Wang et al., ICLR 2024)
    MIFA    w[t+1] = server(w[t], M[t+1] / clients)                       (Gu et al., NeurIPS 2021)

CA2FL is for buffers; in rounds its step is FedVARP's (Jhunjhunwala et al., UAI 2022). The server
holds M alone: the schedule says which report replaces which, so a report is kept only until it is
replaced, and one that never is, not at all. A live server keeps one report for each client.

    twice in one step    the later report replaces the earlier one, which counts in `mean`'s divisor
    not finite           the client's memory becomes zero; it is replaced as any other
    no report, or none   w[t+1] = w[t], as in all algorithms
    that is finite
    not reported yet     the client counts as zero in M; MIFA's paper has all clients report first
    weights              a report is remembered as weight * delta; the papers' weights are 1
"""

from collections.abc import Callable
from numbers import Integral
from typing import NamedTuple

import optax

from stragglers._core.errors import BadInput, check_type
from stragglers.algorithms import trees
from stragglers.algorithms.base import (
    BY_WEIGHT,
    Algorithm,
    Mean,
    Params,
    State,
    Sum,
    check_server,
    moves,
    nothing_to_settle,
)


class RememberingCore(NamedTuple):
    params: Params  # w
    optimizer: optax.OptState
    memory: Params  # M


def ca2fl(
    server: optax.GradientTransformation, *, clients: int, mean: Mean = BY_WEIGHT
) -> Algorithm:
    """Builds CA2FL, and in rounds FedVARP, whose steps are calibrated by remembered reports::

        w[t+1] = server(w[t], M[t] / clients + mean(S[t] - O[t]))
        M[t+1] = M[t] + S[t] - O[t]

    S is the sum of the step's reports, O of those that they replace: their clients' last ones.

    Args:
        server: Server optimizer of optax, whose gradient this is.
        clients: Size of the population; with unequal weights, the sum of the weights of all.
        mean: What S - O is divided by: the weights of S, the number of its reports, or nothing.

    Returns:
        The algorithm. It ignores late reports.

    Raises:
        BadInput: If `clients` is not a whole number of at least 1, or `server` is no optimizer.

    Example:
        >>> import optax
        >>> import stragglers as st
        >>> st.ca2fl(optax.sgd(1.0), clients=200).settles
        'replaced'
    """
    return _remembering(
        server,
        clients,
        lambda before, after, change: trees.add(trees.scale(1 / clients, before), mean(change)),
    )


def mifa(server: optax.GradientTransformation, *, clients: int) -> Algorithm:
    """Builds MIFA, whose steps are along the mean of the last reports of all clients::

        M[t+1] = M[t] + S[t] - O[t]
        w[t+1] = server(w[t], M[t+1] / clients)

    S is the sum of the step's reports, O of those that they replace: their clients' last ones.

    Args:
        server: Server optimizer of optax, whose gradient this is.
        clients: Size of the population; with unequal weights, the sum of the weights of all.

    Returns:
        The algorithm. It ignores late reports.

    Raises:
        BadInput: If `clients` is not a whole number of at least 1, or `server` is no optimizer.

    Example:
        >>> import optax
        >>> import stragglers as st
        >>> algorithm = st.mifa(optax.sgd(1.0), clients=200)
    """
    return _remembering(
        server, clients, lambda before, after, change: trees.scale(1 / clients, after)
    )


def _remembering(
    server: optax.GradientTransformation,
    clients: int,
    gradient: Callable[[Params, Params, Sum], Params],  # of M[t], M[t+1] and S[t] - O[t]
) -> Algorithm:
    check_server(server)
    check_type("clients", clients, Integral, "a whole number of clients")
    if clients < 1:
        raise BadInput(f"clients={clients}, expected a whole number >= 1")

    def init(params: Params) -> State:
        zero = trees.zeros_like(params)
        return State(RememberingCore(trees.copy(params), server.init(params), zero))

    def step(state: State, on_time: Sum) -> tuple[State, None]:
        w, optimizer, memory = state.core
        change = trees.subtract(on_time.delta, on_time.replaced)
        after = trees.add(memory, change)
        along = gradient(memory, after, on_time._replace(delta=change))
        updates, advanced = server.update(along, optimizer, w)
        stepped = optax.apply_updates(w, updates), advanced
        return State(
            RememberingCore(*trees.where(moves(on_time), stepped, (w, optimizer)), after)
        ), None

    def params(state: State) -> Params:
        return state.core.params

    return Algorithm(init, step, nothing_to_settle, model=params, params=params, settles="replaced")
