"""stragglers list"""

import argparse

from stragglers import config
from stragglers.commands import base


def add(commands: base.Commands) -> None:
    base.add(commands, "list", "the presets").set_defaults(run=list_presets)


def list_presets(options: argparse.Namespace) -> None:
    """Prints the presets, one a line."""
    names = config.presets()
    print(base.json({"presets": names}) if options.json else "\n".join(names))
