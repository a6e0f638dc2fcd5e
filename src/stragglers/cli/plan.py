"""stragglers plan: a schedule's consequences, without data and without training."""

import argparse
from collections.abc import Sequence
from typing import Any

from stragglers._core.errors import BadInput, about
from stragglers._core.files import checked_path
from stragglers.cli import common

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
    from stragglers.config import documents

    document = common.document(options.preset, options)
    if options.sweep:
        if options.figure:
            raise BadInput("--figure draws one plan; leave out --sweep")
        common.check_count(1, options.sweep)
        _sweep(options, document)
        return
    picture = checked_path(options.figure) if options.figure else None
    from stragglers.report.plans import summarised

    with about(options.preset):
        summary, schedule = summarised(documents.settings_from(document))
    if picture:
        from stragglers.report import figures, figures_plan

        figures.save(figures_plan.plan_figure(schedule, options.preset), picture)
    if options.json:
        print(common.json({"preset": options.preset, **summary}))
        return
    from stragglers.report import console_plan

    console_plan.print_plan(options.preset, summary)
    if picture:
        print(f"picture: {picture}")


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
    from stragglers.config import documents

    each = []
    for chosen, swept in common.swept(sweep, document):
        with about(common.as_sets(chosen)):
            each.append((chosen, documents.settings_from(swept)))
    from stragglers.report.plans import summarised

    rows, refused = [], []
    for chosen, experiment in each:
        try:
            found, _ = summarised(experiment)
        except BadInput as error:
            found = {"error": str(error)}
            refused.append(f"{common.as_sets(chosen)}: {error}")
        rows.append({"set": {path: documents.value_of(value) for path, value in chosen}, **found})
    if len(refused) == len(rows):
        raise BadInput(refused[0])
    return rows
