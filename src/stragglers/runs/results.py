"""Trials as one table: a row a trial, or a row an evaluation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stragglers._core import tables
from stragglers._core.errors import check_type
from stragglers.config.documents import flat
from stragglers.runs import records
from stragglers.runs.curve import COLUMNS
from stragglers.runs.records import Record

HEAD = ("name", "hash", "seed", "status")


class Runs(tuple[Record, ...]):
    """Trials as they were read from their run folders: a tuple of `Record`.

    It prints as a table with a row for each trial.

    Example:
        >>> import stragglers as st
        >>> runs = st.load_runs("runs")  # where the example of `st.run` has trained
        >>> [(record.name, record.seed, record.status) for record in runs]
        [('glyphs/per-domain/fedadam', 0, 'finished')]
    """

    damaged: tuple[str, ...] = ()  # a line for each folder that was left out

    def to_pandas(self) -> Any:
        """A row for each trial: its final values, and its settings as columns, by their paths.

        What a trial that diverged or still runs has no number for is NaN.

        Raises:
            BadInput: If pandas is not installed.
        """
        rows = []
        for record in self:
            final = {name: record.outcome(name) for name in COLUMNS}
            head = {name: getattr(record, name) for name in HEAD}
            rows.append(flat(record.settings) | head | final | {"folder": str(record.folder)})
        first = dict.fromkeys((*HEAD, *COLUMNS, "folder"))
        names = first | {name: None for row in rows for name in row}
        return tables.frame({name: [row.get(name) for row in rows] for name in names})

    def curves(self) -> Any:
        """A row for each evaluation of each trial, in long form.

        Raises:
            BadInput: If pandas is not installed.
        """
        points = [len(record.curve["step"]) for record in self]
        head = {name: np.repeat([getattr(one, name) for one in self], points) for name in HEAD}
        columns = {
            name: np.concatenate([np.empty(0), *(record.curve[name] for record in self)])
            for name in COLUMNS
        }
        return tables.frame(head | columns)

    def _parts(self) -> Iterator[str | tables.Block]:
        yield f"{len(self)} trial{'s' if len(self) != 1 else ''}"
        yield from self.damaged
        final = {"straggler": "straggler_accuracy", "total": "total_accuracy"}
        columns = {name: ([getattr(one, name) for one in self], "") for name in HEAD}
        for name, key in final.items():
            columns[f"{name} accuracy [%]"] = [100 * one.outcome(key) for one in self], ".1f"
        columns["time [s]"] = [one.outcome("time_s") for one in self], ",.0f"
        yield tables.listed(columns, left=len(HEAD))

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html


def load_runs(*folders: str | Path) -> Runs:
    """Reads all trials in some folders and below.

    Args:
        *folders: Folders that `st.run` or `stragglers run` wrote into.

    Returns:
        The trials, in the order of their names and seeds. `to_pandas` has a row for each trial and
        `curves` a row for each evaluation. Damaged folders are left out: standard error and
        `damaged` have a line for each.

    Raises:
        BadInput: If there is no such folder, no trial in it that is whole, or one that cannot be
            read.

    Example:
        >>> import stragglers as st
        >>> (record,) = st.load_runs("runs")  # where the example of `st.run` has trained
        >>> record.curve["updates"]
        array([20, 40])
    """
    for folder in folders:
        check_type("folder", folder, (str, Path), "a folder of runs")
    found = records.find(folders)
    found.say()
    runs = Runs(found)
    runs.damaged = found.damaged
    return runs
