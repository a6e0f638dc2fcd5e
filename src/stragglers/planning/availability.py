"""When clients are there to be chosen: intervals of a day, which repeat.

    there    t, modulo the cycle, is in one of a client's intervals [begin, end)
    stays    seconds from t until it leaves; 0 if it is not there, infinite if it never leaves
    takes    seconds from t until it has worked so many, if it works whenever it is there

A group's clients are there once a cycle, for so many hours. When that begins differs from client to
client by a normal draw that each keeps, as people in one time zone differ:

    begin[c] = begin + spread * z[c]

A file names any number of intervals of each client instead. Time 0 of a plan is hour 0. What is
given in hours is rounded to whole seconds, so that float64 adds days to it exactly: a client that
comes at a moment is there at that moment, in any cycle.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import csv_files, random_streams
from stragglers._core.errors import BadInput, shown
from stragglers.planning.population import Population

Leaving = Literal["lose", "pause", "finish"]  # what becomes of the work of whoever leaves
HOUR = 3600.0
COLUMNS = ["client", "begin", "end"]


class Availability(NamedTuple):
    """Intervals of all clients, one client after another, in whole seconds.

    A client's are sorted and do not touch. Each begins within the cycle; the last may end in the
    next, before the first begins again. On a line on which each client has two cycles of its own,
    one search finds the interval of each of many clients.
    """

    first: NDArray[np.int64]  # [clients + 1]: client c has intervals first[c] to first[c + 1]
    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    upto: NDArray[np.float64]  # how long its client is there from its first to the end of this one
    begin_on_line: NDArray[np.int64]
    upto_on_line: NDArray[np.int64]
    cycle: float
    leaving: Leaving


class Hours(NamedTuple):
    """When a group is there, in hours."""

    begin: float
    hours: float
    spread: float = 0.0  # standard deviation of `begin` over its clients


def by_group(
    who: Population,
    groups: Mapping[str, Hours],
    *,
    seed: int,
    cycle: float = 24.0,
    leaving: Leaving = "lose",
) -> Availability:
    """One interval of each client; groups that are not named are always there."""
    for name, given in groups.items():
        if not 0 < given.hours <= cycle:
            raise BadInput(
                f"groups.{name}.hours={given.hours:g}, expected more than 0 and at most "
                f"the cycle of {cycle:g}"
            )
    begin = who.by_group({name: given.begin for name, given in groups.items()}, 0.0)
    hours = who.by_group({name: given.hours for name, given in groups.items()}, cycle)
    spread = who.by_group({name: given.spread for name, given in groups.items()}, 0.0)
    z = random_streams.normals(seed, random_streams.Purpose.HOURS, 0, who.clients, 1)[0]
    begin = np.mod(begin + spread * z, cycle)
    everybody = np.arange(who.clients)
    return intervals(everybody, begin, hours, clients=who.clients, cycle=cycle, leaving=leaving)


def from_csv(
    file: str | Path, who: Population, *, cycle: float = 24.0, leaving: Leaving = "lose"
) -> Availability:
    """Reads `client`, `begin` and `end` in hours, any number of lines for each client.

    Clients go by their names in the population's own file, or else by its numbers, from 0 on.
    Whoever has no line is never there.
    """
    path = Path(file)
    rows = csv_files.rows(path, "a CSV file of hours")
    _, header = next(rows, (1, []))
    if [name.strip() for name in header] != COLUMNS:
        raise BadInput(
            f"{path}: line 1: {shown(','.join(header))}, expected the header '{','.join(COLUMNS)}'"
        )
    number_of = who.numbers()
    owner: list[int] = []
    times: list[tuple[float, float]] = []
    for line, row in rows:
        if not row:
            continue
        times.append(_interval(path, line, row, cycle))
        client = row[0].strip()
        if client not in number_of:
            raise BadInput(
                f"{path}: line {line}: no client {shown(client)} in {who.origin}; "
                f"expected {who.known_by()}"
            )
        owner.append(number_of[client])
    begin, end = np.array(times).reshape(-1, 2).T
    return intervals(
        np.array(owner, np.int64),
        begin,
        end - begin,
        clients=who.clients,
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
) -> Availability:
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
    return Availability(
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


def stays(given: Availability, clients: NDArray[np.integer], now: float) -> NDArray[np.float64]:
    """Seconds that each client is still there."""
    if not len(given.end):
        return np.zeros(len(clients))
    which, end, phase = _current(given, clients, now)
    ever = given.first[clients] < given.first[clients + 1]
    always = given.upto[which] == given.cycle
    return np.where(ever, np.where(always, np.inf, np.maximum(end - phase, 0)), 0)


@np.errstate(over="ignore")  # beyond all numbers is never
def takes(
    given: Availability,
    clients: NDArray[np.integer],
    now: float,
    work: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Seconds until each client, which is there now, has worked so many."""
    stay = stays(given, clients, now)
    paused = (work > stay) & (work < np.inf)
    if not paused.any():
        return work
    who, missing = clients[paused], work[paused] - stay[paused]
    which, end, phase = _current(given, who, now)
    ago = given.end[which] - end  # a cycle, or none
    upto, last = given.upto, given.first[who + 1] - 1
    whole = upto[last]  # there in a cycle
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
    given: Availability, clients: NDArray[np.integer], now: float
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
