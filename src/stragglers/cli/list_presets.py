"""stragglers list"""

import argparse

from stragglers.cli import common
from stragglers.config import catalog


def add(commands: common.Commands) -> None:
    common.add(commands, "list", "the presets").set_defaults(run=list_presets)


def list_presets(options: argparse.Namespace) -> None:
    """Prints the presets, one a line."""
    names = catalog.presets()
    print(common.json({"presets": names}) if options.json else "\n".join(names))
