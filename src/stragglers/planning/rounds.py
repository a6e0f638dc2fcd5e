"""Synchronous rounds: a cohort starts together; a round closes at report number `goal`.

    opens[0] = 0,  closes[t] = opens[t] + (goal-th smallest latency),  opens[t+1] = closes[t]

or later, once enough clients are idle, where busy or offline clients are skipped (client_pool.py).
A round that reaches its `round_timeout` closes with the reports it has. Reports that arrive later
are late. They count

    late_seconds   until opens[t] + late_seconds          (FeAST's tau_max)
    late_rounds    until round t + late_rounds starts     (FARe-DUST's k)

unless their round was abandoned. A round's life is five steps:

    draw    the cohorts, their latencies, and when rounds open if that depends on idle clients
    close   each round at its goal or its time-out; which reports are on time; abandoned rounds
    sort    late reports: which server step knows each, and whether it still counts
    count   client updates against the budget
    cut     the table at the last round within the budget

The rules of order, clock and budget are those of schedule.py.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning import client_pool, schedule, tiers
from stragglers.planning.faults import lost
from stragglers.planning.fleet import DrawnFleet
from stragglers.planning.policy import Rounds
from stragglers.planning.schedule import Drawn, Fate, Schedule

Times = NDArray[np.float64]
Flags = NDArray[np.bool_]
Steps = NDArray[np.int32]


class _Cohorts(NamedTuple):
    """Drawn: every column is [rounds, cohort], but for `opens` and those of `drawn`."""

    who: Steps
    drawn: Drawn
    asked: Times | None = None  # when each cohort was due, where it waits for idle clients
    opens: Times | None = None  # [rounds], likewise


class _Closed(NamedTuple):
    """Rounds up to the first that never closes."""

    opens: Times
    closes: Times
    duration: Times  # with the time until the cohort was idle
    report: Times  # [rounds, cohort]
    on_time: Flags  # [rounds, cohort]
    kept: Flags  # [rounds, 1]: not abandoned


class _Late(NamedTuple):
    """What becomes of late reports; every column is [rounds, cohort]."""

    counts: Flags  # late, and used
    step: Steps  # server step whose end first knows the report
    met: Steps  # server step during which it arrives


def make(fleet: DrawnFleet, policy: Rounds, *, updates: int, seed: int) -> Schedule:
    """The schedule of as many whole rounds as fit into `updates`."""
    schedule.check_drawable("cohort", policy.cohort_size, fleet)
    cohorts = _draw(fleet, policy, updates // policy.goal, seed)
    closed = _close(cohorts, policy)
    late = _sort(closed, policy)
    total = _count(closed, late, policy)
    steps = _cut(total, cohorts, closed, policy, updates)
    return _table(steps, total, cohorts, closed, late, policy, fleet)


def _draw(fleet: DrawnFleet, policy: Rounds, rounds: int, seed: int) -> _Cohorts:
    size, clients = policy.cohort_size, fleet.population.clients
    if policy.busy == "skip" or fleet.online is not None:
        if fleet.tier is not None:
            raise BadInput(
                f"tiers = {policy.tiers}: a tier's cohort is drawn from all of its clients. "
                "Leave out `busy` and `availability`, or `tiers`."
            )
        pool = client_pool.Pool(fleet, seed, policy.busy)
        return _Cohorts(*client_pool.of_rounds(pool, policy, rounds))
    if fleet.tier is not None:
        who = tiers.cohorts(seed, fleet.tier, size, rounds, fleet.check_in)
    else:
        purpose = random_streams.Purpose.CLIENTS
        who = random_streams.cohorts(seed, purpose, clients, size, 0, rounds, fleet.check_in)
    return _Cohorts(who, schedule.drawn(fleet.latency, fleet.faults, who.ravel()))


def _close(cohorts: _Cohorts, policy: Rounds) -> _Closed:
    delay, goal = cohorts.drawn.seconds.reshape(cohorts.who.shape), policy.goal
    duration = np.partition(delay, goal - 1, axis=1)[:, goal - 1]
    if policy.round_timeout is not None:
        duration = np.minimum(duration, policy.round_timeout)
    stuck = int(np.argmax(np.append(duration, np.inf) == np.inf))  # no round closes from here on
    duration, delay = duration[:stuck], delay[:stuck]
    if cohorts.opens is None:
        closes = np.cumsum(duration)
        opens = np.concatenate([[0.0], closes[:-1]])
    else:
        opens = cohorts.opens[:stuck]
        closes = opens + duration
        duration = np.diff(closes, prepend=0.0)
    report = opens[:, None] + delay
    on_time = _first_reports(closes, report, goal)
    kept = on_time.sum(axis=1, keepdims=True) >= (policy.minimum or 1)
    return _Closed(opens, closes, duration, report, on_time & kept, kept)


def _first_reports(closes: Times, report: Times, goal: int) -> Flags:
    """Marks each round's first `goal` reports; reports that arrive together count by slot."""
    # By arrival, not by latency: two latencies that differ may round to one arrival.
    before = report < closes[:, None]
    ties = report == closes[:, None]
    left = goal - before.sum(axis=1, keepdims=True)
    return before | (ties & (ties.cumsum(axis=1) <= left))


def _sort(closed: _Closed, policy: Rounds) -> _Late:
    rounds, report, on_time = len(closed.opens), closed.report, closed.on_time
    origin = _origin(report)
    step, met = origin.copy(), origin.copy()
    known = np.append(closed.opens[1:], closed.closes[-1:])  # the next cohort knows what is in
    missing = ~on_time
    step[missing] = np.maximum(np.searchsorted(known, report[missing]), origin[missing])
    met[missing] = np.maximum(np.searchsorted(closed.closes, report[missing]), origin[missing])
    counts = np.zeros_like(on_time)
    if policy.late_seconds is not None:
        # By times, not by latencies: they may round to one.
        limit = closed.opens[:, None] + policy.late_seconds
        counts = missing & closed.kept & (report <= limit) & (report < np.inf)
    elif policy.late_rounds is not None:
        counts = missing & closed.kept & (step - origin < policy.late_rounds) & (step < rounds)
    return _Late(counts, step, met)


def _origin(report: Times) -> Steps:
    return np.broadcast_to(np.arange(len(report), dtype=np.int32)[:, None], report.shape)


def _count(closed: _Closed, late: _Late, policy: Rounds) -> NDArray[np.int64]:
    """Client updates that count against the budget, after each round."""
    counted = closed.on_time.sum(axis=1)
    if policy.count == "all_returned":
        # In seconds, a round waits for its late reports, which count with it; in rounds, they
        # count as they arrive.
        when = _origin(closed.report) if policy.late_seconds is not None else late.met
        counted += np.bincount(when[late.counts], minlength=len(counted))
    return counted.cumsum()


def _cut(
    total: NDArray[np.int64], cohorts: _Cohorts, closed: _Closed, policy: Rounds, updates: int
) -> int:
    """How many rounds fit into the budget."""
    stuck, planned, size = len(total), updates // policy.goal, policy.cohort_size
    steps = int(np.searchsorted(total, updates, side="right"))
    if steps == stuck < planned and total[-1:].sum() + policy.goal <= updates:
        raise BadInput(
            client_pool.never_opens(stuck, size)
            if stuck == len(cohorts.who)
            else f"round {stuck} never closes: fewer than goal={policy.goal} of its cohort={size} "
            "clients ever report; set `round_timeout`, lower `goal`, raise `cohort`, or check the "
            "latencies, the faults and the availability"
        )
    if steps == 0:
        raise BadInput(
            f"updates={updates} is less than the {total[0]} that the first round "
            "returns; raise `updates` or lower `cohort`"
        )
    if not total[steps - 1]:
        raise BadInput(
            f"all {steps} rounds are abandoned: fewer than minimum={policy.minimum or 1} of their "
            f"cohort={size} clients report within round_timeout={policy.round_timeout} s; "
            "raise it or `cohort`, lower `minimum`, or check the faults"
        )
    return steps


def _table(
    steps: int,
    total: NDArray[np.int64],
    cohorts: _Cohorts,
    closed: _Closed,
    late: _Late,
    policy: Rounds,
    fleet: DrawnFleet,
) -> Schedule:
    kept, size, drawn = slice(0, steps), policy.cohort_size, cohorts.drawn
    dispatches = slice(0, steps * size)
    start = np.repeat(closed.opens[kept], size)
    after = late.met[kept] >= steps  # arrives after the last step
    fate = _fates(steps, closed, late, policy)
    fate[lost(drawn.fault[dispatches]).reshape(fate.shape)] = Fate.LOST
    used = (fate == Fate.ON_TIME) | (fate == Fate.LATE)
    return Schedule(
        client=cohorts.who[kept].ravel(),
        version=_origin(closed.report)[kept].ravel(),
        asked=start if cohorts.asked is None else cohorts.asked[dispatches],
        start=start,
        report=closed.report[kept].ravel(),
        stop=start + drawn.stops[dispatches],
        works=drawn.works[dispatches],
        examples=drawn.examples[dispatches],
        cut=drawn.cut[dispatches],
        fault=drawn.fault[dispatches],
        fate=fate.ravel(),
        step=np.where(used & ~after, late.step[kept], steps).astype(np.int32).ravel(),
        time=closed.closes[kept],
        duration=closed.duration[kept],
        ready=_ready(steps, closed, late, policy),
        updates=total[kept],
        fleet=fleet,
    )


def _fates(steps: int, closed: _Closed, late: _Late, policy: Rounds) -> NDArray[np.int8]:
    kept = slice(0, steps)
    fate = np.full(closed.report[kept].shape, Fate.UNUSED, np.int8)
    fate[late.counts[kept]] = Fate.LATE
    fate[closed.on_time[kept]] = Fate.ON_TIME
    if policy.late_rounds is not None:
        missing = closed.kept[kept] & (late.met[kept] >= steps)
        fate[missing] = Fate.UNUSED
        age = steps - _origin(closed.report)[kept]
        fate[missing & (age < policy.late_rounds)] = Fate.IN_FLIGHT
    return fate


def _ready(steps: int, closed: _Closed, late: _Late, policy: Rounds) -> Times:
    """When the late reports of each round, and of those before it, are in as well."""
    ready = closed.closes[:steps]
    if policy.late_seconds is None:
        return ready
    # Only the end of the wait tells that a report will never arrive.
    limit = closed.opens[:, None] + policy.late_seconds
    last = np.where(closed.on_time | late.counts, closed.report, limit)[:steps]
    last[~closed.kept[:steps, 0]] = 0.0  # an abandoned round waits for no report
    ready = np.maximum.accumulate(np.maximum(ready, last.max(axis=1)))
    if np.isinf(ready[-1]):
        raise BadInput(
            f"training never ends: late_seconds={policy.late_seconds} waits for a client "
            "that never reports; give a finite `late_seconds`"
        )
    return ready
