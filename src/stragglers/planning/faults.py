"""Faults: what can go wrong with a client between its start and its report.

    drop_out        never reports, and never begins to work
    crash           never reports; its device works for a uniform part of its time
    nan, inf, huge  reports a delta of such numbers, which the server drops
    duplicate       reports twice; the server counts one
    left            goes offline before it finishes (availability.py)

Each fault but the last strikes a share of dispatches: of all clients, of a group, or of one client.
Dispatch d takes row d of one stream for each fault. So a fault changes no other draw, a larger
share strikes every dispatch that a smaller one strikes, and a longer budget continues a shorter
one. Where two faults strike one dispatch, the first of the list happens.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import csv_files, random_streams
from stragglers._core.errors import BadInput, about, did_you_mean, shown
from stragglers._core.random_streams import Purpose
from stragglers._core.schema import Settings, Share
from stragglers.planning.population import Population


class Faults(Settings, frozen=True):
    """Shares of dispatches that fail: of all clients, or by the name of their group.

    Example:
        >>> import stragglers as st
        >>> st.Faults(drop_out={"older": 0.1}).drop_out
        {'older': 0.1}
    """

    drop_out: Share | dict[str, Share] = 0.0  #: Share of dispatches that never begin to work.
    crash: Share | dict[str, Share] = 0.0  #: Share that stops after a part of its work.
    nan: Share | dict[str, Share] = 0.0  #: Share whose report holds NaN.
    inf: Share | dict[str, Share] = 0.0  #: Share whose report holds infinity.
    huge: Share | dict[str, Share] = 0.0  #: Share whose report holds enormous finite numbers.
    duplicate: Share | dict[str, Share] = 0.0  #: Share that reports twice.
    #: CSV file with a column `client` and a column of shares for each fault, a line a client.
    csv: str | None = None


class Fault(IntEnum):
    """What happens to a dispatch."""

    NONE = 0
    DROP_OUT = 1
    CRASH = 2
    NAN = 3
    INF = 4
    HUGE = 5
    DUPLICATE = 6
    LEFT = 7


PURPOSES = {
    Fault.DROP_OUT: Purpose.DROP_OUT,
    Fault.CRASH: Purpose.CRASH,
    Fault.NAN: Purpose.NAN,
    Fault.INF: Purpose.INF,
    Fault.HUGE: Purpose.HUGE,
    Fault.DUPLICATE: Purpose.DUPLICATE,
}
NAMES = {fault.name.lower(): fault for fault in PURPOSES}  # as settings and files have them
STRIKES = NAMES | {"left": Fault.LEFT}  # all that may happen


class Struck(NamedTuple):
    """What becomes of some dispatches."""

    fault: NDArray[np.int8]
    worked: NDArray[np.float64]  # the part of its time that each device works


Shares = Mapping[Fault, NDArray[np.float64]]  # of the dispatches of each client
DrawFaults = Callable[[int, NDArray[np.integer]], Struck]  # (first dispatch's number, clients)


def shares_of(given: Faults, population: Population) -> Shares:
    """Each client's shares, from numbers, groups and a file."""
    shares: dict[Fault, NDArray[np.float64]] = {}
    for name, fault in NAMES.items():
        share = getattr(given, name)
        if isinstance(share, dict):
            with about(f"faults.{name}"):
                shares[fault] = population.by_group(share, 0.0)
        elif share:
            shares[fault] = np.full(population.clients, share)
    for fault, column in (from_csv(given.csv, population) if given.csv else {}).items():
        if fault in shares:
            name = fault.name.lower()
            raise BadInput(f"faults.{name} is given here and in {given.csv}, expected one of them")
        shares[fault] = column
    return shares


def faults(shares: Shares, *, seed: int) -> DrawFaults:
    """Builds the faults of every dispatch from each client's shares."""

    def draw(first: int, clients: NDArray[np.integer]) -> Struck:
        last = first + len(clients)
        fault = np.zeros(len(clients), np.int8)
        for which, purpose in PURPOSES.items():
            if which in shares:
                strikes = (
                    random_streams.uniforms(seed, purpose, first, last) < shares[which][clients]
                )
                fault[strikes & (fault == Fault.NONE)] = which
        worked = np.where(fault == Fault.DROP_OUT, 0.0, 1.0)
        if np.any(fault == Fault.CRASH):
            part = random_streams.uniforms(seed, Purpose.CRASH_TIME, first, last)
            worked = np.where(fault == Fault.CRASH, part, worked)
        return Struck(fault, worked)

    return draw


def lost(fault: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Marks dispatches whose report never arrives."""
    return (fault == Fault.DROP_OUT) | (fault == Fault.CRASH) | (fault == Fault.LEFT)


def corrupted(fault: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Marks dispatches whose report arrives and is dropped for its numbers."""
    return (fault >= Fault.NAN) & (fault <= Fault.HUGE)


def from_csv(file: str | Path, population: Population) -> dict[Fault, NDArray[np.float64]]:
    """Reads `client` and a column of shares for each fault, a line for every client in any order.

    Clients go by their names in the clients file, or by index from 0 if there is none.
    """
    path = Path(file)
    rows = csv_files.rows(path, "a CSV file of faults")
    _, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    columns = names[1:]
    if names[:1] != ["client"] or not columns or len({*columns}) != len(columns):
        raise BadInput(
            f"{path}: line 1: {shown(','.join(header))}, expected the header 'client' "
            f"and some of {', '.join(NAMES)}"
        )
    for name in columns:
        if name not in NAMES:
            raise BadInput(f"{path}: line 1: {name!r}; {did_you_mean(name, NAMES)}")
    of_client = population.numbers()
    table = np.full((population.clients, len(columns)), np.nan)
    for line, row in rows:
        if not row:
            continue
        shares, client = _shares(path, line, row, len(columns)), row[0].strip()
        if client not in of_client:
            raise BadInput(
                f"{path}: line {line}: no client {shown(client)} in {population.origin};"
                f" expected a line for each, by {population.known_by()}"
            )
        if not np.isnan(table[of_client[client], 0]):
            raise BadInput(
                f"{path}: line {line}: client {shown(client)} again, expected a line for each"
            )
        table[of_client[client]] = shares
    missing = np.flatnonzero(np.isnan(table[:, 0]))
    if len(missing):
        first = shown([*of_client][missing[0]])
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise BadInput(
            f"{path}: no line for client {first}{others} of {population.origin}; "
            f"expected a line for each, by {population.known_by()}"
        )
    return dict(zip((NAMES[name] for name in columns), table.T, strict=True))


def _shares(path: Path, line: int, row: list[str], columns: int) -> list[float]:
    try:
        shares = [float(field) for field in row[1:]]
    except ValueError:
        shares = []
    if len(shares) == columns and all(0 <= share <= 1 for share in shares):
        return shares
    raise BadInput(
        f"{path}: line {line}: {shown(','.join(row))}, expected a client and "
        f"{columns} numbers from 0 to 1"
    )
