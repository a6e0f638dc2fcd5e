"""What a real fleet needs of an experiment: one file plans, simulates and serves.

    algorithm, policy, weigh, steps    for `serve`
    client, epochs                     for clients that train on their own data

Task, latency, faults and availability are now those of the real fleet. Server steps are `updates`
divided as in a plan: by the reports that close a step or, where late ones count too, by the cohort.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.algorithms.base import Algorithm
from stragglers.config import checks, settings, step_weights
from stragglers.planning.policy import Policy, Rounds
from stragglers.planning.report_weights import Reports, Weigh
from stragglers.runs.train import algorithm, local
from stragglers.simulator.local_training import Local, local_steps


class Deployment(NamedTuple):
    algorithm: Algorithm
    policy: Policy
    weigh: Weigh
    steps: int
    client: Local
    epochs: float
    seed: int


def deployment(experiment: settings.Experiment) -> Deployment:
    """Refuses what clients of a real fleet cannot be told."""
    checks.check(experiment)
    given, client, server = experiment.schedule, experiment.client, experiment.server
    if client is None or server is None or experiment.algorithm is None:
        raise BadInput("[client], [server] and [algorithm] are needed to train, one is missing")
    for name in ("time_limit", "check_in", "tiers"):
        if getattr(given, name, None) is not None:
            raise BadInput(
                f"schedule.{name} is for simulated clients, expected none; real ones have their own"
            )
    if isinstance(client.label_skew, settings.Balanced):
        raise BadInput(
            "client.label_skew.kind = 'balanced': a real client knows its own labels "
            "alone. Set another kind."
        )
    weight = experiment.aggregation
    return Deployment(
        algorithm(
            server, experiment.algorithm, weight.normalise, checks.history_length(experiment)
        ),
        given,
        _weighing(weight, local(client), client.epochs),
        experiment.updates // _counted(given),
        local(client),
        client.epochs,
        experiment.seed,
    )


def _weighing(given: settings.Aggregation, client: Local, epochs: float) -> Weigh:
    """Clients report their examples; how many local steps these take is known."""
    weigh = step_weights.weighing(given)

    def weighed(reports: Reports) -> NDArray[np.float64]:
        positions = (epochs * reports.examples).astype(np.int64)
        return weigh(reports._replace(local_steps=local_steps(positions, client, cut=False)))

    return weighed


def _counted(policy: Policy) -> int:
    """Client updates that a server step counts."""
    if isinstance(policy, Rounds):
        return policy.cohort_size if policy.count == "all_returned" else policy.goal
    return policy.size
