"""What a schedule means, as numbers that print as the table of `stragglers plan`."""

from collections.abc import Iterator
from typing import Any

from stragglers._core import tables
from stragglers._core.errors import check_type
from stragglers.config import build, checks, step_weights
from stragglers.config.describe import policy
from stragglers.config.settings import Experiment
from stragglers.planning import summary
from stragglers.planning.population import Population
from stragglers.planning.schedule import Schedule


class Summary(dict[str, Any]):
    """The figures of a schedule, by name; it prints as the table of `stragglers plan`.

    Example:
        >>> import stragglers as st
        >>> summary = st.plan(st.preset("cifar100/per-domain/fedadam"))
        >>> f"{summary['time_s']:,.0f} s, the paper has {summary['paper_time_s']:,.0f} s"
        '1,012,437 s, the paper has 1,006,330 s'
    """

    def _parts(self) -> Iterator[str | tables.Block]:
        from stragglers.report import console_plan

        yield from console_plan.parts(self)

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html


def summarise(schedule: Schedule) -> Summary:
    """Says what a schedule means: how long it takes, which clients participate, what is wasted.

    Args:
        schedule: As `schedule` returns it; it keeps the fleet that it was drawn with.

    Returns:
        The figures by name, such as `summary["time_s"]`, with those of each group in
        `summary["share"]` and `summary["groups"]`. It prints as the table of `stragglers plan`.

    Raises:
        BadInput: If it is not a schedule.

    Example:
        >>> import stragglers as st
        >>> fleet = st.Fleet(st.clients(1000, examples=st.Constant(100)), st.PER_EXAMPLE)
        >>> schedule = st.schedule(fleet, st.Rounds(goal=10, over_selection=1.2), updates=1000)
        >>> summary = st.summarise(schedule)
        >>> summary["server_steps"], summary["reports"]["unused"]
        (100, 200)
    """
    check_type("schedule", schedule, Schedule, "what st.schedule returns")
    return Summary(summary.summarise(schedule) | _limit(schedule))


def plan(experiment: Experiment) -> Summary:
    """Plans an experiment without its data and without training.

    Args:
        experiment: A preset, or one made of it by `replace`.

    Returns:
        The figures of its schedule, as of `summarise`, with the policy in words and, for a preset
        of the paper, the published time (`summary["paper_time_s"]`).

    Raises:
        BadInput: If the settings contradict each other, or the sizes of the clients are unknown
            without the data.

    Example:
        >>> import stragglers as st
        >>> experiment = st.preset("fleet").replace(updates=6000)
        >>> st.plan(experiment)["policy"]
        'rounds of 130 clients that close at 100 reports'
    """
    check_type("experiment", experiment, Experiment, "what st.preset returns")
    return summarised(experiment)[0]


def summarised(
    experiment: Experiment, clients: Population | None = None
) -> tuple[Summary, Schedule]:
    """A plan's figures, and the schedule that they come from.

    Without `clients`, they are those known of the task without its data.
    """
    checks.check(experiment)
    clients = clients or build.clients(experiment.task, experiment.seed)
    schedule = build.schedule_of(experiment, clients)
    local_steps = step_weights.local_steps(experiment, schedule)
    part = step_weights.parts(experiment, schedule)
    figures = {
        **summary.summarise(schedule, local_steps, part),
        "paper_time_s": experiment.paper.time_s if experiment.paper else None,
        "paper_anomaly": experiment.paper.anomaly if experiment.paper else None,
        "policy": policy(experiment),
        **_limit(schedule),
        "seed": experiment.seed,
    }
    return Summary(figures), schedule


def _limit(schedule: Schedule) -> dict[str, float | None]:
    limit = schedule.fleet.time_limit
    return {"time_limit_s": limit.seconds if limit else None}
