"""A log of participations: who was started, and how long each report took, in seconds.

    client,group,examples,communication,overhead,training    the parts of it, or
    client,group,examples,seconds                            their sum alone

A line for every client that was started, those whose report came too late to be used as well: a
log of the others alone is of a faster fleet. Where the times are empty no report ever came.
`examples` are what it trained on. `group` may be missing (all are alike), so may `overhead` (it is
part of something else); further columns are passed over.
"""

import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import csv_files
from stragglers._core.errors import BadInput, shown
from stragglers.planning.population import MOST_EXAMPLES, Population

PARTS = ("communication", "overhead", "training")
SUM = "seconds"
EVERYBODY = "everybody"  # the group of all where none is named
GROUPS = 20  # at most: a plan is read by people
LONGEST = 1e9  # seconds: 30 years; what is more is a date


class Log(NamedTuple):
    """Lines in the order of the file; clients and groups in the order of their first lines."""

    path: Path
    client: NDArray[np.int64]  # of each line
    examples: NDArray[np.int64]
    times: dict[str, NDArray[np.float64]]  # by column; NaN where no report came
    names: list[str]  # of clients
    group: NDArray[np.int16]  # of each client, index into `groups`
    groups: tuple[str, ...]

    @property
    def came(self) -> NDArray[np.bool_]:
        """Lines with a report."""
        return ~np.isnan(self.total)

    @property
    def total(self) -> NDArray[np.float64]:
        """T of each line."""
        return np.sum([*self.times.values()], axis=0)

    def population(self) -> Population:
        """Each client once, with the median of its examples."""
        order = np.lexsort((self.examples, self.client))
        ends = np.cumsum(np.bincount(self.client))
        starts = np.append(0, ends[:-1])
        examples = self.examples[order][(starts + ends - 1) // 2]
        return Population(examples, self.group, self.groups, f"the log {self.path}")


def read(file: str | Path) -> Log:
    path = Path(file)
    lines = csv_files.rows(path, "a CSV file of participations")
    _, header = next(lines, (1, []))
    columns = [name.strip() for name in header]
    wanted = _wanted(path, columns)
    names: dict[str, int] = {}
    groups: dict[str, int] = {}
    group: list[int] = []
    client, examples, times = array("q"), array("q"), array("d")
    for line, name, its_group, count, seconds in _participations(path, lines, columns, wanted):
        index = names.setdefault(name, len(names))
        which = groups.setdefault(its_group, len(groups))
        if index == len(group):
            group.append(which)
        elif group[index] != which:
            raise BadInput(
                f"{path}: line {line}: client {name!r} in group {its_group!r}, before "
                f"it was in {[*groups][group[index]]!r}; expected one"
            )
        client.append(index)
        examples.append(count)
        times.extend(seconds)
    if not client:
        raise BadInput(f"{path}: no participations, expected a line for each under the header")
    if len(groups) > GROUPS:
        raise BadInput(
            f"{path}: {len(groups)} groups, expected at most {GROUPS}; is `group` the "
            "client? leave the column out if there are none"
        )
    by_column = np.array(times).reshape(-1, len(wanted)).T.copy()
    return Log(
        path,
        np.array(client),
        np.array(examples),
        dict(zip(wanted, by_column, strict=True)),
        [*names],
        np.array(group, np.int16),
        tuple(groups),
    )


def _participations(
    path: Path, lines: Iterator[tuple[int, list[str]]], columns: list[str], wanted: list[str]
) -> Iterator[tuple[int, str, str, int, list[float]]]:
    """Line, client, group, examples and times of each."""
    of_client, of_count = columns.index("client"), columns.index("examples")
    of_group = columns.index("group") if "group" in columns else None
    places = [columns.index(name) for name in wanted]
    for line, row in lines:
        if len(row) == len(columns):
            name, count = row[of_client].strip(), row[of_count].strip()
            group = EVERYBODY if of_group is None else row[of_group].strip()
            seconds = _seconds([row[place].strip() for place in places])
            whole = count.isdecimal() and len(count) <= 16 and int(count) <= MOST_EXAMPLES
            if name and group and whole and seconds:
                yield line, name, group, int(count), seconds
                continue
        if row:
            raise BadInput(
                f"{path}: line {line}: {shown(','.join(row))}, expected {','.join(columns)} with a "
                f"whole number of examples, and times from 0 to {LONGEST:.0e} s or all empty"
            )


def _wanted(path: Path, columns: list[str]) -> list[str]:
    """The columns of times that a header has."""
    parts = [name for name in PARTS if name in columns]
    known = ["client", "examples", "group", *PARTS, SUM]
    if (
        all(columns.count(name) <= 1 for name in known)
        and {"client", "examples"} <= {*columns}
        and ({"communication", "training"} <= {*parts}) != (SUM in columns)
        and (SUM not in columns or not parts)
    ):
        return parts or [SUM]
    raise BadInput(
        f"{path}: line 1: {shown(','.join(columns))}, expected a header with client, examples and "
        "either seconds or communication and training, each once; group and overhead if known"
    )


def _seconds(fields: list[str]) -> list[float]:
    """Nothing if they are no times."""
    if not any(fields):
        return [math.nan] * len(fields)
    try:
        seconds = [float(field) for field in fields]
    except ValueError:
        return []
    return seconds if all(0 <= one <= LONGEST for one in seconds) else []
