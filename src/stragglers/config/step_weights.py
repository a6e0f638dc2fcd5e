"""The weight of each report in its server step: what plans show and training applies."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from stragglers.config import settings
from stragglers.planning.report_weights import Weigh, parts_of_steps, report_weights
from stragglers.planning.schedule import Schedule, Settles, batches


def local_steps(experiment: settings.Experiment, schedule: Schedule) -> NDArray[np.int64]:
    """Local steps of each dispatch; without [client], every example is a step."""
    if experiment.client is None:
        return schedule.examples
    whole = schedule.cut | (experiment.client.last_batch == "drop")
    return batches(schedule.examples, experiment.client.batch_size, whole)


def weighing(given: settings.Aggregation) -> Weigh:
    """The weights of reports."""
    return partial(
        report_weights,
        by=given.weight,
        discount=given.staleness,
        exponent=given.exponent,
        local_steps=given.local_steps,
        participation=given.participation,
    )


def parts(experiment: settings.Experiment, schedule: Schedule) -> NDArray[np.float64] | None:
    """Each dispatch's part of its server step.

    None if all reports on time count the same, or if the user's own algorithm decides.
    """
    given, algorithm = experiment.aggregation, experiment.algorithm
    options = given.weight, given.staleness, given.local_steps, given.participation
    alike = options == ("uniform", "none", "any", "any")
    settles: Settles = "never"
    match algorithm:
        case settings.Own():
            return None
        case settings.SemiAsync():
            settles, alike = "next_step", False
        case settings.FareDust():
            settles = "at_arrival"
        case settings.Feast():
            settles = "by_round"
    if alike:
        return None
    return parts_of_steps(
        schedule,
        settles,
        getattr(experiment.schedule, "late_rounds", None) or 1,
        schedule.population.examples,
        local_steps(experiment, schedule),
        weighing(given),
    )
