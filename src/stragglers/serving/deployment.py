"""What of an experiment's settings a real fleet needs: one file plans, simulates and serves.

    algorithm, policy, weigh, steps    for live.serve
    client, epochs                     for clients that train by client.on_own_data

Of the rest task, latency, faults and availability are the fleet's own now. `updates` are divided
among steps as plans do: by the reports that close a step, or, where late ones count as well, by all
of a cohort.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.algorithms.base import Algorithm
from stragglers.config import build, influence, settings
from stragglers.planning.report_weights import Reports, Weigh
from stragglers.runs.train import algorithm, local
from stragglers.simulator.coordinator import Buffer, Rounds
from stragglers.simulator.local_training import Local, local_steps


class Deployment(NamedTuple):
    algorithm: Algorithm
    policy: Rounds | Buffer
    weigh: Weigh
    steps: int
    client: Local
    epochs: float
    seed: int


def deployment(experiment: settings.Experiment) -> Deployment:
    """Refuses what clients of a real fleet cannot be told."""
    build.check(experiment)
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
    policy, counted = _policy(given)
    return Deployment(
        algorithm(server, experiment.algorithm, weight.normalise, build.history_length(experiment)),
        policy,
        _weighing(weight, local(client), client.epochs),
        experiment.updates // counted,
        local(client),
        client.epochs,
        experiment.seed,
    )


def _weighing(given: settings.Aggregation, client: Local, epochs: float) -> Weigh:
    """Clients report their examples; how many local steps these take is known."""
    weigh = influence.weighing(given)

    def weighed(reports: Reports) -> NDArray[np.float64]:
        positions = (epochs * reports.examples).astype(np.int64)
        return weigh(reports._replace(local_steps=local_steps(positions, client, cut=False)))

    return weighed


def _policy(given: settings.Schedule) -> tuple[Rounds | Buffer, int]:
    """With the client updates that a step counts."""
    if isinstance(given, settings.Buffered):
        policy = Buffer(
            given.buffer, given.concurrency, given.refill, given.client_timeout, given.minimum
        )
        return policy, given.buffer
    cohort = build.cohort(given)
    policy = Rounds(
        given.goal,
        cohort,
        given.late_seconds,
        given.late_rounds,
        given.round_timeout,
        given.minimum,
    )
    return policy, cohort if given.count == "all_returned" else given.goal
