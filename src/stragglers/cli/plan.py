"""stragglers plan: a schedule's consequences, without data and without training."""

import argparse
from collections.abc import Sequence
from typing import Any

from stragglers._core.errors import BadInput, about
from stragglers._core.files import checked_path
from stragglers.cli import common
from stragglers.config import documents

DEFAULT_PRESET = "fleet"


def add(commands: common.Commands) -> None:
    parser = common.add(
        commands,
        "plan",
        "how long training takes, who takes part and who is too late: no data, no training",
    )
    parser.add_argument(
        "preset",
        nargs="?",
        default=DEFAULT_PRESET,
        help=f"a preset (see `stragglers list`) or a .toml file; default {DEFAULT_PRESET}",
    )
    common.add_sweep(parser)
    parser.add_argument("--figure", metavar="FILE", help="draws it: .png, .pdf or .svg")
    common.add_settings(parser)
    parser.set_defaults(run=plan, path=None)


def plan(options: argparse.Namespace) -> None:
    """Prints a plan's numbers, or a table of several plans."""
    document = common.document(options.preset, options)
    if options.sweep:
        if options.figure:
            raise BadInput("--figure draws one plan; leave out --sweep")
        common.check_count(1, options.sweep)
        _sweep(options, document)
        return
    picture = checked_path(options.figure) if options.figure else None
    with about(options.preset):
        summary, clients, schedule, latencies = summarised(document)
    if picture:
        from stragglers.report import figures, figures_plan

        drawn = figures_plan.plan_figure(
            clients, schedule, latencies, options.preset, cycle_of(document)
        )
        figures.save(drawn, picture)
    if options.json:
        print(common.json({"preset": options.preset, **summary}))
        return
    from stragglers.report import console_plan

    console_plan.print_plan(options.preset, summary)
    if picture:
        print(f"picture: {picture}")


def cycle_of(document: dict[str, Any]) -> float | None:
    """Hours after which clients come again, if they come and go; as the plan has them, rounded."""
    from stragglers.planning.availability import HOUR, whole_seconds

    given = documents.settings_from(document).availability
    return whole_seconds(given.cycle) / HOUR if given else None


def _sweep(options: argparse.Namespace, document: dict[str, Any]) -> None:
    with about(options.preset):
        rows = _swept(options.sweep, document)
    if options.json:
        print(common.json({"preset": options.preset, "sweep": rows}))
        return
    from stragglers.report import console_plan

    names = [assignment.partition("=")[0].strip() for assignment in options.sweep]
    console_plan.print_sweep(options.preset, names, rows)


def _swept(sweep: Sequence[str], document: dict[str, Any]) -> list[dict[str, Any]]:
    """A plan's numbers for each combination of the values that are swept.

    A combination without a plan has the reason instead; that none has one is a mistake, and so is
    a value that is not one of its setting.
    """
    each = list(common.swept(sweep, document))
    for chosen, swept in each:
        with about(common.as_sets(chosen)):
            documents.settings_from(swept)
    rows, refused = [], []
    for chosen, swept in each:
        try:
            found = summarised(swept)[0]
        except BadInput as error:
            found = {"error": str(error)}
            refused.append(f"{common.as_sets(chosen)}: {error}")
        rows.append({"set": {path: documents.value_of(value) for path, value in chosen}, **found})
    if len(refused) == len(rows):
        raise BadInput(refused[0])
    return rows


def summarised(document: dict[str, Any], clients: Any = None) -> tuple[Any, ...]:
    """A plan's numbers, and the population, schedule and latencies that they come from.

    Without `clients` they are those that are known of the task without its data.
    """
    from stragglers.config import build, influence
    from stragglers.config.describe import policy
    from stragglers.planning.summary import summarise

    experiment = documents.settings_from(document)
    build.check(experiment)
    clients = clients or build.clients(experiment.task, experiment.seed)
    schedule = build.timetable(experiment, clients)
    latencies = build.latencies(experiment, clients)
    limit = build.time_limit(
        experiment.schedule.time_limit, clients, experiment.latency, experiment.seed
    )
    summary = {
        **summarise(
            clients,
            schedule,
            latencies,
            influence.local_steps(experiment, schedule),
            influence.parts(experiment, clients, schedule),
        ),
        "paper_time_s": experiment.paper.time_s if experiment.paper else None,
        "paper_anomaly": experiment.paper.anomaly if experiment.paper else None,
        "policy": policy(experiment),
        "time_limit_s": limit.seconds if limit else None,
        "seed": experiment.seed,
    }
    return summary, clients, schedule, latencies
