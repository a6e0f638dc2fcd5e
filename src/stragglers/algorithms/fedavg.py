"""FedAvg with any server optimizer: FedAdam is `fedavg(optax.adam(1e-2))`.

    w[t+1] = server(w[t], mean of the deltas that are on time)

With SGD and learning rate 1 this is FedAvg proper (McMahan et al., 2017); with others, adaptive
federated optimization (Reddi et al., 2021). Late reports are never looked at. Under a buffered
schedule the same step is FedBuff (Nguyen et al., 2022): its deltas started from older versions.

`semi_async` has rounds that close without late reports, too, but uses them:

    w[t+1] = server(w[t], mean of those deltas and of late ones that came since the last step)

as SAFA (Wu et al., 2021) and REFL (Abdelmoniem et al., 2023) do in their own ways.
"""

from typing import NamedTuple

import optax

from stragglers.algorithms import trees
from stragglers.algorithms.base import (
    BY_WEIGHT,
    Algorithm,
    Mean,
    Params,
    State,
    Sum,
    check_server,
    descend,
    nothing_to_settle,
)


class FedAvgCore(NamedTuple):
    params: Params  # w
    optimizer: optax.OptState


def fedavg(server: optax.GradientTransformation, mean: Mean = BY_WEIGHT) -> Algorithm:
    """Builds FedAvg, and on a buffered schedule FedBuff, around a server optimizer::

        w[t+1] = server(w[t], mean of the deltas that are on time)

    With SGD and learning rate 1 this is FedAvg proper, with Adam it is FedAdam.

    Args:
        server: Server optimizer of optax; the mean of the deltas is its gradient.
        mean: What a sum of reports is divided by: their weights, their number, or nothing.

    Returns:
        The algorithm. It ignores late reports.

    Raises:
        BadInput: If `server` is no optimizer.

    Example:
        >>> import optax
        >>> import stragglers as st
        >>> fedadam = st.fedavg(optax.adam(1e-2))
        >>> fedadam.settles
        'never'
    """
    check_server(server)

    def init(params: Params) -> State:
        return State(FedAvgCore(trees.copy(params), server.init(params)))

    def step(state: State, on_time: Sum) -> tuple[State, None]:
        core: FedAvgCore = state.core
        return State(FedAvgCore(*descend(server, mean, *core, on_time))), None

    def params(state: State) -> Params:
        return state.core.params

    return Algorithm(init, step, nothing_to_settle, model=params, params=params)


def semi_async(server: optax.GradientTransformation, mean: Mean = BY_WEIGHT) -> Algorithm:
    """Builds FedAvg whose late reports join the next server step::

        w[t+1] = server(w[t], mean of the deltas that are on time or came late since step t)

    Args:
        server: Server optimizer of optax; the mean of the deltas is its gradient.
        mean: What a sum of reports is divided by: their weights, their number, or nothing.

    Returns:
        The algorithm. It needs rounds with `late_rounds`.

    Raises:
        BadInput: If `server` is no optimizer.

    Example:
        >>> import optax
        >>> import stragglers as st
        >>> st.semi_async(optax.sgd(1.0)).settles
        'next_step'
    """
    return fedavg(server, mean)._replace(settles="next_step")
