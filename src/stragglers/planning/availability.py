"""Availability: the hours at which clients are online, as intervals of a cycle that repeats.

    online   t, modulo the cycle, is in one of a client's intervals [begin, end)
    stays    seconds from t until the client goes offline: 0 if it is now, infinite if never
    takes    seconds from t until the client has worked online for a given time

The clients of a group are online once a cycle, for the same number of hours. The beginning differs
from client to client by a normal draw that each client keeps:

    begin[c] = begin + spread * z[c]

A file names any number of intervals for each client instead. Time 0 of a schedule is hour 0. Hours
are rounded to whole seconds, so that float64 adds cycles exactly: a client that comes online at a
moment is online at that moment in every cycle.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stragglers._core import csv_files, random_streams
from stragglers._core.errors import BadInput, about, shown
from stragglers._core.schema import Positive, Settings
from stragglers.planning.population import Population

Leaving = Literal["lose", "pause", "finish"]
HOUR = 3600.0
COLUMNS = ["client", "begin", "end"]


class Hours(Settings, frozen=True):
    """The hours at which a group is online, once a cycle.

    Example:
        >>> import stragglers as st
        >>> night = st.Hours(begin=22, hours=8, spread=1)
        >>> st.Availability({"older": night}, leaving="pause").leaving
        'pause'
    """

    begin: Annotated[float, Meta(ge=-1e6, le=1e6)]  #: [h] When the group comes online.
    hours: Positive  #: [h] How long it stays online.
    #: [h] Standard deviation of `begin` over the clients of the group.
    spread: Annotated[float, Meta(ge=0, le=1e6)] = 0.0


class Availability(Settings, frozen=True):
    """When clients are online, by group or by client.

    Example:
        >>> import stragglers as st
        >>> st.Availability({"older": st.Hours(begin=22, hours=8, spread=1)}).leaving
        'lose'
    """

    groups: dict[str, Hours] | None = None  #: Hours of each group; others are always online.
    #: CSV file with the columns client, begin, end, in hours: a line for each interval.
    csv: str | None = None
    #: [h] Length of the cycle after which all hours repeat.
    cycle: Annotated[float, Meta(ge=0.001, le=1e6)] = 24.0
    #: What happens to unfinished work when a client goes offline: it is lost, continues when the
    #: client is online again, or is finished offline.
    leaving: Leaving = "lose"


class Online(NamedTuple):
    """Intervals of all clients, one client after another, in whole seconds.

    A client's intervals are sorted and do not touch. Each begins within the cycle; the last may end
    in the next, before the first begins again. On a line on which each client has two cycles of its
    own, one search finds the interval of each of many clients.
    """

    first: NDArray[np.int64]  # [clients + 1]: client c has intervals first[c] to first[c + 1]
    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    upto: NDArray[np.float64]  # time online from the client's first interval to this one's end
    begin_on_line: NDArray[np.int64]
    upto_on_line: NDArray[np.int64]
    cycle: float
    leaving: Leaving


def online(given: Availability, population: Population, *, seed: int) -> Online:
    """The intervals of every client."""
    common: dict[str, Any] = {"cycle": given.cycle, "leaving": given.leaving}
    with about("availability"):
        if given.csv is not None and given.groups is None:
            return from_csv(given.csv, population, **common)
        if given.groups is not None and given.csv is None:
            return by_group(population, given.groups, seed=seed, **common)
        raise BadInput("give `groups` or `csv`, and not both")


def by_group(
    population: Population,
    groups: Mapping[str, Hours],
    *,
    seed: int,
    cycle: float = 24.0,
    leaving: Leaving = "lose",
) -> Online:
    """One interval for each client; clients of other groups are always online."""
    for name, given in groups.items():
        if not 0 < given.hours <= cycle:
            raise BadInput(
                f"groups.{name}.hours={given.hours:g}, expected more than 0 and at most "
                f"the cycle of {cycle:g}"
            )
    begin = population.by_group({name: given.begin for name, given in groups.items()}, 0.0)
    hours = population.by_group({name: given.hours for name, given in groups.items()}, cycle)
    spread = population.by_group({name: given.spread for name, given in groups.items()}, 0.0)
    z = random_streams.normals(seed, random_streams.Purpose.HOURS, 0, population.clients, 1)[0]
    begin = np.mod(begin + spread * z, cycle)
    owner = np.arange(population.clients)
    return intervals(owner, begin, hours, clients=population.clients, cycle=cycle, leaving=leaving)


def from_csv(
    file: str | Path, population: Population, *, cycle: float = 24.0, leaving: Leaving = "lose"
) -> Online:
    """Reads `client`, `begin` and `end` in hours, any number of lines for each client.

    Clients go by their names in the clients file, or by index from 0 if there is none. A client
    without a line is never online.
    """
    path = Path(file)
    rows = csv_files.rows(path, "a CSV file of hours")
    _, header = next(rows, (1, []))
    if [name.strip() for name in header] != COLUMNS:
        raise BadInput(
            f"{path}: line 1: {shown(','.join(header))}, expected the header '{','.join(COLUMNS)}'"
        )
    number_of = population.numbers()
    owner: list[int] = []
    times: list[tuple[float, float]] = []
    for line, row in rows:
        if not row:
            continue
        times.append(_interval(path, line, row, cycle))
        client = row[0].strip()
        if client not in number_of:
            raise BadInput(
                f"{path}: line {line}: no client {shown(client)} in {population.origin}; "
                f"expected {population.known_by()}"
            )
        owner.append(number_of[client])
    begin, end = np.array(times).reshape(-1, 2).T
    return intervals(
        np.array(owner, np.int64),
        begin,
        end - begin,
        clients=population.clients,
        cycle=cycle,
        leaving=leaving,
    )


def _interval(path: Path, line: int, row: list[str], cycle: float) -> tuple[float, float]:
    try:
        _, begin, end = row[0], float(row[1]), float(row[2])
    except (ValueError, IndexError):
        begin = end = -1.0
    if len(row) == 3 and 0 <= begin < cycle and begin < end <= begin + cycle:
        return begin, end
    raise BadInput(
        f"{path}: line {line}: {shown(','.join(row))}, expected client,begin,end in hours with "
        f"begin from 0 to below {cycle:g} and end after it, by {cycle:g} at most: 22 to 6 o'clock "
        "is 22,30"
    )


def intervals(
    owner: NDArray[np.int64],
    begin: NDArray[np.float64],
    hours: NDArray[np.float64],
    *,
    clients: int,
    cycle: float,
    leaving: Leaving,
) -> Online:
    """Of any intervals, in hours: what overlaps or touches is one."""
    cycle = whole_seconds(cycle)
    length = np.minimum(np.maximum(np.rint(HOUR * hours), 1), cycle)
    begin = np.where(length < cycle, np.mod(np.rint(HOUR * begin), cycle), 0.0)
    end = begin + length
    over = end > cycle  # into the next cycle: its end is at the beginning of this one, too
    owner = np.concatenate([owner, owner[over]])
    begin = np.concatenate([begin, np.zeros(over.sum())])
    end = np.concatenate([np.minimum(end, cycle), end[over] - cycle])
    order = np.lexsort((begin, owner))
    owner, begin, end = owner[order], begin[order], end[order]
    line = _line(owner, cycle)
    latest = np.maximum.accumulate(line + end.astype(np.int64)) - line  # end of a client's so far
    fresh = np.ones(len(owner), bool)
    fresh[1:] = (owner[1:] != owner[:-1]) | (begin[1:] > latest[:-1])
    last = np.append(fresh[1:], True)[: len(owner)]
    owner, begin, end = owner[fresh], begin[fresh], latest[last].astype(float)

    first = np.searchsorted(owner, np.arange(clients + 1))
    several = np.flatnonzero(np.diff(first) > 1)
    head, tail = first[several], first[several + 1] - 1
    around = (begin[head] == 0) & (end[tail] == cycle)  # one, over the end of the cycle
    end[tail[around]] += end[head[around]]
    kept = np.ones(len(owner), bool)
    kept[head[around]] = False
    owner, begin, end = owner[kept], begin[kept], end[kept]
    first = np.searchsorted(owner, np.arange(clients + 1))
    total = np.append(0.0, np.cumsum(end - begin))
    upto, line = total[1:] - total[first[owner]], _line(owner, cycle)
    return Online(
        first,
        begin,
        end,
        upto,
        line + begin.astype(np.int64),
        line + upto.astype(np.int64),
        cycle,
        leaving,
    )


def whole_seconds(hours: float) -> float:
    """Of a cycle: rounded, and one at least."""
    return max(float(np.rint(HOUR * hours)), 1.0)


def _line(clients: NDArray[np.integer], cycle: float) -> NDArray[np.int64]:
    return clients.astype(np.int64) * int(2 * cycle)


def stays(given: Online, clients: NDArray[np.integer], now: float) -> NDArray[np.float64]:
    """Seconds for which each client stays online."""
    if not len(given.end):
        return np.zeros(len(clients))
    which, end, phase = _current(given, clients, now)
    ever = given.first[clients] < given.first[clients + 1]
    always = given.upto[which] == given.cycle
    return np.where(ever, np.where(always, np.inf, np.maximum(end - phase, 0)), 0)


@np.errstate(over="ignore")  # beyond all numbers is never
def takes(
    given: Online,
    clients: NDArray[np.integer],
    now: float,
    work: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Seconds until each client, online now, has done its seconds of work."""
    stay = stays(given, clients, now)
    paused = (work > stay) & (work < np.inf)
    if not paused.any():
        return work
    who, missing = clients[paused], work[paused] - stay[paused]
    which, end, phase = _current(given, who, now)
    ago = given.end[which] - end  # a cycle, or none
    upto, last = given.upto, given.first[who + 1] - 1
    whole = upto[last]  # time online in a cycle
    cycles = np.ceil(missing / whole) - 1
    target = upto[which] + np.clip(missing - cycles * whole, 0, whole)
    again = target > whole
    target, cycles = np.where(again, target - whole, target), cycles + again
    on_line = _line(who, given.cycle) + np.ceil(target).astype(np.int64)
    where = np.minimum(np.searchsorted(given.upto_on_line, on_line), last)
    finish = given.end[where] - ago + cycles * given.cycle - (upto[where] - target)
    seconds = work.copy()
    # Never less than the work itself, whatever rounding says.
    seconds[paused] = np.maximum(finish - phase, work[paused])
    return seconds


def _current(
    given: Online, clients: NDArray[np.integer], now: float
) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """The last interval of each client that has begun, its end in this cycle, and now in it.

    The end is a difference of whole numbers: to add the cycle to now instead would round.
    """
    phase = float(np.mod(now, given.cycle))
    on_line = _line(clients, given.cycle) + int(phase)
    which = np.searchsorted(given.begin_on_line, on_line, side="right") - 1
    before = which < given.first[clients]  # then it is the last one of the cycle before
    which = np.where(before, np.maximum(given.first[clients + 1] - 1, 0), which)
    return which, given.end[which] - np.where(before, given.cycle, 0.0), phase
