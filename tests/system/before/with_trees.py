"""The same, with a module of version 0.1.0 that has another path today."""

from stragglers import trees
from stragglers.algorithms.base import Algorithm, Mean, State, Sum
from stragglers.algorithms.fedavg import fedavg


def halfway(server, mean: Mean, *, share: float = 0.5) -> Algorithm:
    whole = fedavg(server, mean)

    def step(state: State, on_time: Sum):
        there, opened = whole.step(state, on_time)
        moved = trees.blend(1 - share, state.core.params, there.core.params)
        return there._replace(core=there.core._replace(params=moved)), opened

    return whole._replace(step=step)
