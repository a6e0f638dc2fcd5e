"""FedAvg with any server optimizer: FedAdam is `fedavg(optax.adam(1e-2))`.

    w[t+1] = server(w[t], mean of the deltas that are on time)

With SGD and learning rate 1 this is FedAvg proper (McMahan et al., 2017); with others, adaptive
federated optimization (Reddi et al., 2021). Late reports are never looked at. Under a buffered
schedule the same step is FedBuff (Nguyen et al., 2022): its deltas started from older versions.
"""

from typing import NamedTuple

import optax

from stragglers import trees
from stragglers.algorithms.base import (
    BY_WEIGHT,
    Algorithm,
    Download,
    Mean,
    Params,
    Starting,
    Sum,
    descend,
    nothing_to_settle,
)


class FedAvgState(NamedTuple):
    params: Params  # w
    optimizer: optax.OptState


def fedavg(server: optax.GradientTransformation, mean: Mean = BY_WEIGHT) -> Algorithm:
    """Builds FedAvg around a server optimizer."""

    def init(params: Params) -> FedAvgState:
        return FedAvgState(trees.copy(params), server.init(params))

    def broadcast(state: FedAvgState, starting: Starting) -> Download:
        del starting
        return Download(state.params, state.params)

    def step(state: FedAvgState, on_time: Sum) -> tuple[FedAvgState, None]:
        return FedAvgState(*descend(server, mean, *state, on_time)), None

    def params(state: FedAvgState) -> Params:
        return state.params

    return Algorithm(init, broadcast, step, nothing_to_settle, model=params, params=params)
