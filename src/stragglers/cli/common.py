"""What several commands share: options, and the settings that a command line asks for.

options          argparse  ->  Namespace
document(source, options)      a preset, with --set, --updates, --path, --seed, --reading
swept(sweep, document)         that with every combination of the values of --sweep
"""

import argparse
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stragglers._core import memory_limits
from stragglers._core.errors import BadInput, about
from stragglers.runs.checkpoint import EVERY_MINUTES

if TYPE_CHECKING:
    from stragglers.runs.workers import Terms

Commands = Any  # argparse has no public name for what add_subparsers() returns
Chosen = tuple[tuple[str, str], ...]  # values of a sweep as they were given, by their paths
BETWEEN = r",(?![^{\[]*[}\]])"  # values; not the commas inside one


def add(commands: Commands, name: str, summary: str) -> argparse.ArgumentParser:
    """A command; every one can print JSON, and where a mistake was made."""
    parser = commands.add_parser(name, help=summary, description=summary)
    parser.add_argument("--json", action="store_true", help="prints one JSON object instead")
    parser.add_argument(
        "--traceback", action="store_true", help="shows all of a mistake, such as of your own code"
    )
    return parser


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Options that change a preset."""
    add_set(parser)
    parser.add_argument("--updates", help="the budget, in client updates")
    parser.add_argument("--seed", help="of clients, latencies and weights, default 0")
    parser.add_argument("--reading", help="another reading of the paper: literal")


def add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="changes a setting"
    )


def add_sweep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="KEY=V1,V2,...",
        help="several values of a setting; give it twice for all combinations",
    )


def add_training(parser: argparse.ArgumentParser) -> None:
    """Options of commands that train: where the data is, how many trials, where and until when."""
    parser.epilog = (
        "Ctrl-C (SIGINT) or `kill` (SIGTERM) stops training after a last checkpoint, and the same "
        "command resumes; a second signal stops at once. In the background of a script or under "
        "`nohup ... &`, where SIGINT is ignored, use `kill`."
    )
    parser.add_argument("--path", metavar="DIR", help="the task's data; default: $STRAGGLERS_DATA")
    parser.add_argument("--trials", type=int, help="with seeds seed, seed + 1, ...")
    parser.add_argument(
        "--processes",
        type=int,
        help="trials at once, default: what fits; on an accelerator, where it is 1, more prepare "
        "side by side and train in turn",
    )
    parser.add_argument(
        "--together",
        type=int,
        help="seeds in one program, default: what fills an accelerator, 1 on a CPU",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="stops training then, with checkpoints; the same command resumes",
    )
    parser.add_argument(
        "--checkpoint-minutes",
        type=float,
        default=EVERY_MINUTES,
        metavar="M",
        help=f"between two checkpoints of a trial, default {EVERY_MINUTES:g}",
    )
    parser.add_argument(
        "--allow-drift",
        action="store_true",
        help="resumes from checkpoints of other versions or devices; run.json records it",
    )
    parser.add_argument(
        "--out",
        default="runs",
        metavar="DIR",
        type=folder_name,
        help="for run folders, default runs; trials that are there are not repeated",
    )


def folder_name(text: str) -> str:
    """Refuses the empty name, which would be the folder that one is in."""
    if not text:
        raise argparse.ArgumentTypeError("'' given, expected a folder; `.` is this one")
    return text


def checked_training(options: argparse.Namespace, default: int) -> tuple[int, "Terms"]:
    """How many trials, and on which terms."""
    from stragglers.runs.run import checked_terms

    count = default if options.trials is None else options.trials
    terms = checked_terms(
        count,
        options.processes,
        options.together,
        options.minutes,
        options.checkpoint_minutes,
        options.allow_drift,
    )
    check_count(1, trials=count)
    return count, terms


def document(source: str, options: argparse.Namespace) -> dict[str, Any]:
    """A preset with everything that was asked for on the command line.

    It is checked, unless values are swept, with each of which it is another document.
    """
    from stragglers.config import catalog, documents

    document = catalog.read(source)
    with about(source):
        if options.reading:
            document = documents.with_reading(document, options.reading)
        document = documents.override_all(document, options.set)
        if options.updates is not None:
            document = documents.override(document, f"updates={options.updates}")
        if options.path is not None and not documents.takes_data(document):
            raise BadInput(f"--path {options.path}: {source} reads no data; leave it out")
        document = documents.with_data(document, options.path)
        if options.seed is not None:
            document = documents.override(document, f"seed={options.seed}")
        if not getattr(options, "sweep", None):
            documents.settings_from(document)
    return document


def swept(
    sweep: Sequence[str], document: dict[str, Any]
) -> Iterator[tuple[Chosen, dict[str, Any]]]:
    """A document with each combination of the values that are swept; itself, if none are."""
    from stragglers.config import documents, overrides

    axes = []
    for assignment, values in zip(sweep, _values(sweep), strict=True):
        path = documents.full_path(document, assignment.partition("=")[0].strip())
        axes.append([(path, value.strip()) for value in values])
    paths = [axis[0][0] for axis in axes]
    for one, other in itertools.combinations(paths, 2):
        nested = f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
        if nested or any({one, other} <= group for group in overrides.ALTERNATIVES):
            raise BadInput(f"--sweep {one} and --sweep {other} exclude each other; give one")
    for chosen in itertools.product(*axes):
        with_all = document
        for path, value in chosen:
            with_all = documents.override(with_all, f"{path}={value}")
        yield chosen, with_all


def _values(sweep: Sequence[str]) -> list[list[str]]:
    for assignment in sweep:
        if not assignment.partition("=")[2]:
            raise BadInput(f"--sweep {assignment!r} given, expected key=value,value,...")
    return [re.split(BETWEEN, assignment.partition("=")[2]) for assignment in sweep]


def check_count(experiments: int, sweep: Sequence[str] = (), trials: int = 1) -> None:
    """Refuses more than a command should take, before any of it is built."""
    every = experiments * math.prod(map(len, _values(sweep))) * trials
    if every > memory_limits.TRIALS:
        what, lower = ("trials", "lower --trials, ") if trials > 1 else ("combinations", "")
        raise BadInput(
            f"{every:,} {what} given, expected at most {memory_limits.TRIALS:,} in one command; "
            f"{lower}leave out values or give several commands"
        )


def as_sets(chosen: Chosen) -> str:
    """kappa=0.1, beta=0.9: as --set would have it, in full."""
    return ", ".join(f"{path}={value}" for path, value in chosen)


def json(document: Any) -> str:
    """One line; infinity, which JSON lacks, becomes null."""
    return msgspec.json.encode(document).decode()
