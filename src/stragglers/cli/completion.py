"""stragglers --completion SHELL: a script that completes commands, options and presets."""

import argparse
from typing import Any

SHELLS = ("bash", "zsh")

# What a PRESET may be: a preset, or a file.
PRESETS = {
    "bash": """
_stragglers_presets() {{
  compgen -f -- "$1"
  compgen -W "{names}" -- "$1"
}}
""",
    "zsh": """
_stragglers_presets() {{
  _alternative 'presets:preset:({names})' 'files:file:_files'
}}
""",
}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--completion",
        choices=SHELLS,
        action=_Print,
        help="print a script that completes commands, options and presets",
    )


class _Print(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
        _, shell, _ = given
        print(script(parser, shell))
        parser.exit()


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    import shtab

    from stragglers.config import catalog

    completed: dict[str, Any] = {
        "PRESET": dict.fromkeys(SHELLS, "_stragglers_presets"),
        "DIR": shtab.DIRECTORY,
        "RUNS": shtab.DIRECTORY,
        "LOG": shtab.FILE,
        "FILE": shtab.FILE,
    }
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for action in (action for each in commands.choices.values() for action in each._actions):
        what = str(action.metavar or action.dest).upper()
        if what in completed:
            action.complete = completed[what]  # pyright: ignore[reportAttributeAccessIssue]
    preamble = PRESETS[shell].format(names=" ".join(catalog.presets()))
    return shtab.complete(parser, shell=shell, preamble=preamble)
