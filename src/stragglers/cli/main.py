"""The command line: parse, call, and say mistakes in one line.

A command is a file in `commands/`, which adds its options and names the function to call.
"""

import argparse
import difflib
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from stragglers._core.errors import BadInput, did_you_mean
from stragglers._core.version import __version__
from stragglers.cli import (
    completion,
    data,
    fit,
    list_presets,
    new,
    plan,
    results,
    run,
    tune,
    verify,
)
from stragglers.runs.signals import Interrupted


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; bad input is one line on standard error and exit code 2.

    A command that finds something wrong, such as damaged runs, returns its exit code.
    """
    parser, options = _parser(), argparse.Namespace(traceback=False)
    try:
        options = parser.parse_args(arguments)
        code = options.run(options)
        sys.stdout.flush()
    except BadInput as error:
        if options.traceback:
            traceback.print_exception(error)
        print(f"stragglers: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stdout = None
        return 0
    except OSError as error:  # of standard output, unless it names a file
        sys.stdout = None
        what = error.filename or "standard output"
        print(f"stragglers: {what}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stragglers: interrupted", file=sys.stderr)
        return 130
    except Interrupted as signal:
        print("stragglers: interrupted; the same command resumes", file=sys.stderr)
        return 128 + signal.number
    return code or 0


def _parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(
        prog="stragglers", description="Federated learning with slow clients: time is data."
    )
    parser.add_argument("--version", action="version", version=f"stragglers {__version__}")
    completion.add(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (new, plan, fit, run, data, tune, results, verify, list_presets):
        command.add(commands)
    return parser


class _OneLineParser(argparse.ArgumentParser):
    """argparse, with mistakes as one line and the nearest option named."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (see {self.prog} --help)")

    def parse_args(self, args: Any = None, namespace: Any = None) -> argparse.Namespace:  # pyright: ignore
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            commands = [a for a in self._actions if isinstance(a, argparse._SubParsersAction)]
            parsers = [parser for command in commands for parser in command.choices.values()]
            flags = {flag for parser in parsers for flag in parser._option_string_actions}
            raise BadInput(_unknown(unknown[0], flags))
        return options


def _unknown(argument: str, flags: set[str]) -> str:
    if argument in flags:
        return f"{argument!r} is an option of another command (see --help)"
    if difflib.get_close_matches(argument, flags, cutoff=0.7):
        return f"unknown argument {argument!r}; {did_you_mean(argument, flags)}"
    return f"unknown argument {argument!r}; settings are changed with --set KEY=VALUE (see --help)"
