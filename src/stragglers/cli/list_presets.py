"""stragglers list"""

import argparse

from stragglers.cli import common


def add(commands: common.Commands) -> None:
    common.add(commands, "list", "the presets").set_defaults(run=list_presets)


def list_presets(options: argparse.Namespace) -> None:
    """Prints a line for each preset: its task, latency and algorithm, and what it is."""
    from stragglers.config import catalog
    from stragglers.report import console

    rows = [catalog.listed(name) for name in catalog.presets()]
    if options.json:
        print(common.json({"presets": [row._asdict() for row in rows]}))
        return
    table = console.grid("preset", "task", "latency", "algorithm", "what it is", texts=5)
    for row in rows:
        table.add_row(*(cell or "–" for cell in row))
    screen = console.console(width=240)  # beyond its summaries
    screen.print(table)
    screen.print("`stragglers plan PRESET` plans one, `stragglers run PRESET` trains it.")
