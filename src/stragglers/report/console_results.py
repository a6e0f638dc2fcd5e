"""Results and searches as text."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from stragglers._core.tables import Block
from stragglers.report import formats, result_table
from stragglers.report.cells import percent
from stragglers.report.console import console
from stragglers.report.grouping import plain, shown
from stragglers.report.result_table import Options
from stragglers.runs.records import Record

BEST = 10  # candidates of a search that are printed; the page has them all


def print_results(records: Iterable[Record], options: Options = result_table.USUAL) -> None:
    """The paper's table of some run folders: what `stragglers table` prints."""
    print(formats.text(result_table.tables(records, options), options), end="")


def print_search(name: str, objective: str, history: Sequence[Sequence[Any]], best: Any) -> None:
    """The best candidates of each search, best first; those that diverged have no value.

    What is held out is said of the last one's best alone: shown of all, it would be chosen by, too.
    """
    out = console()
    for tried in history:
        ranked = sorted(tried, key=lambda c: (math.isnan(c.value), -c.value))
        names = [*map(plain, tried[0].chosen), f"{objective} accuracy, validation"]
        rows = []
        for candidate in ranked[:BEST]:
            value = "diverged" if math.isnan(candidate.value) else percent(candidate.value)
            rows.append([*map(shown, candidate.chosen.values()), value])
        out.print(f"{plain(name)}: the best of {len(tried)}")
        out.print(Block(names, rows, left=0))
    straggler, total = map(percent, best.held_out.values())
    out.print(
        f"to report of the best, on held-out examples: straggler accuracy {straggler}, "
        f"total accuracy {total}"
    )
