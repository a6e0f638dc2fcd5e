"""From settings to what each report has of its server step: what plans tell and training does."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from stragglers.config import settings
from stragglers.planning.population import Population
from stragglers.planning.report_weights import Weigh, parts_of_steps, report_weights
from stragglers.planning.schedule import Schedule, Settles, batches


def local_steps(experiment: settings.Experiment, schedule: Schedule) -> NDArray[np.int64]:
    """Of each dispatch; without a [client] every example is one."""
    if experiment.client is None:
        return schedule.examples
    whole = schedule.cut | (experiment.client.last_batch == "drop")
    return batches(schedule.examples, experiment.client.batch_size, whole)


def weighing(given: settings.Aggregation) -> Weigh:
    """How much reports count."""
    return partial(
        report_weights,
        by=given.weight,
        discount=given.staleness,
        exponent=given.exponent,
        local_steps=given.local_steps,
        participation=given.participation,
    )


def parts(
    experiment: settings.Experiment, who: Population, schedule: Schedule
) -> NDArray[np.float64] | None:
    """What part of its server step each dispatch is.

    None if all that are on time are alike and in it alone, or if the algorithm is one's own.
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
        who.examples,
        local_steps(experiment, schedule),
        weighing(given),
    )
