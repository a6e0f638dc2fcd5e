"""An algorithm of a user's own, written for version 0.1.0."""

from stragglers.algorithms.base import Algorithm, Mean, State, Sum
from stragglers.algorithms.fedavg import fedavg


def halfway(server, mean: Mean, *, share: float = 0.5) -> Algorithm:
    """FedAvg that goes a share of each step."""
    whole = fedavg(server, mean)

    def step(state: State, on_time: Sum):
        there, opened = whole.step(state, on_time)
        params = {"from": state.core.params, "to": there.core.params}
        moved = [
            {name: a[name] + share * (b[name] - a[name]) for name in a}
            for a, b in zip(params["from"], params["to"])
        ]
        return there._replace(core=there.core._replace(params=moved)), opened

    return whole._replace(step=step)
