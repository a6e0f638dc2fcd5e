"""stragglers verify: whether run folders are what was written."""

import argparse
from collections import Counter

from stragglers.cli import common

STATES = {
    "whole": "whole",
    "running": "running or interrupted",
    "unsealed": "unsealed (of a version before 0.2.0; --seal seals those that are over)",
    "damaged": "damaged",
}


def add(commands: common.Commands) -> None:
    parser = common.add(commands, "verify", "whether run folders are what was written")
    parser.add_argument(
        "runs", nargs="*", default=["runs"], metavar="RUNS", help="folders of runs, default runs"
    )
    parser.add_argument(
        "--seal",
        action="store_true",
        help="seals runs of versions before 0.2.0, after reading each whole",
    )
    parser.set_defaults(run=verify)


def verify(options: argparse.Namespace) -> int:
    """Prints a line for each damaged run and a summary; the exit code is 1 if there is one."""
    from stragglers.runs import records
    from stragglers.runs.verify import seal, verified

    found = list(map(verified, records.folders_in(options.runs)))
    if options.seal:
        found = [seal(one.folder) if one.state == "unsealed" else one for one in found]
    count = Counter(one.state for one in found)
    if options.json:
        runs = [{**one._asdict(), "folder": str(one.folder)} for one in found]
        print(common.json({"runs": runs, **{state: count[state] for state in STATES}}))
    else:
        for one in found:
            if one.what:
                print(one.what)
        states = ", ".join(
            f"{count[state]} {words}" for state, words in STATES.items() if count[state]
        )
        print(f"{len(found)} run{'s' if len(found) != 1 else ''}: {states}")
    return 1 if count["damaged"] else 0
