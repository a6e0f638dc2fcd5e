"""Synchronous rounds: `cohort` clients start together; a round closes at report number `goal`.

    opens[0] = 0,  closes[t] = opens[t] + (goal-th smallest latency),  opens[t+1] = closes[t]

or later, when enough clients are idle, if busy or offline clients are skipped (client_pool.py).
With a `round_timeout`, a round closes that long after its opening at the latest, with the reports
it has. Reports that arrive later are late. They are used by an algorithm that waits

    in seconds   until opens[t] + late_seconds          (FeAST's tau_max)
    in rounds    until round t + late_rounds starts     (FARe-DUST's k)

unless its round was abandoned. The rules of order, clock and budget are those of schedule.py.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.planning import client_pool, schedule, tiers
from stragglers.planning.availability import Availability
from stragglers.planning.faults import Faults, lost
from stragglers.planning.latency import Latency
from stragglers.planning.schedule import Busy, Fate, Schedule


def over_selected(
    clients: int,
    latency: Latency,
    *,
    seed: int,
    goal: int,
    cohort: int,
    updates: int,
    late_seconds: float | None = None,
    late_rounds: int | None = None,
    count: Literal["on_time", "all_returned"] = "on_time",
    round_timeout: float | None = None,
    minimum: int | None = None,
    faults: Faults | None = None,
    check_in: NDArray[np.float64] | None = None,
    busy: Busy = "again",
    there: Availability | None = None,
    tier: NDArray[np.int64] | None = None,
) -> Schedule:
    """Synchronous rounds that close at the goal-th report of their cohort.

    Late reports are dropped, or tracked for `late_seconds` from their round's opening (FeAST's
    tau_max; the plan then ends when the last of them is in), or for `late_rounds` rounds
    (FARe-DUST's k). As many whole rounds are made as fit into `updates`. `check_in` is how likely
    each client is to be chosen, against the others; by default all are alike. Whoever is `busy` may
    be asked again, or is not, and whoever is not `there` is not: then a round opens when a whole
    cohort is idle. With a `tier` of each client a cohort is drawn from one of them (tiers.py).
    """
    rounds, least = check(
        goal=goal,
        cohort=cohort,
        updates=updates,
        late_seconds=late_seconds,
        late_rounds=late_rounds,
        round_timeout=round_timeout,
        minimum=minimum,
    )
    schedule.check_drawable("cohort", cohort, clients, check_in, there)

    opens = asked = None
    if tier is not None:
        if busy == "skip" or there is not None:
            raise BadInput(
                "tiers are drawn from all of their clients; leave out `busy` and `availability`"
            )
        who = tiers.cohorts(seed, tier, cohort, rounds, check_in)
        drawn = schedule.drawn(latency, faults, who.ravel())
    elif busy == "again" and there is None:
        who = random_streams.cohorts(
            seed, random_streams.Purpose.CLIENTS, clients, cohort, 0, rounds, check_in
        )
        drawn = schedule.drawn(latency, faults, who.ravel())
    else:
        pool = client_pool.Pool(clients, latency, faults, seed, check_in, busy, there)
        who, opens, asked, drawn = client_pool.of_rounds(
            pool, goal=goal, cohort=cohort, rounds=rounds, round_timeout=round_timeout
        )
    delay = drawn.seconds.reshape(-1, cohort)

    duration = np.partition(delay, goal - 1, axis=1)[:, goal - 1]
    if round_timeout is not None:
        duration = np.minimum(duration, round_timeout)
    stuck = int(np.argmax(np.append(duration, np.inf) == np.inf))  # no round closes from here on
    duration, delay = duration[:stuck], delay[:stuck]
    if opens is None:
        closes = np.cumsum(duration)
        opens = np.concatenate([[0.0], closes[:-1]])
    else:
        opens = opens[:stuck]
        closes = opens + duration
        duration = np.diff(closes, prepend=0.0)  # with the time until a cohort was idle
    report = opens[:, None] + delay
    on_time = _until(closes, report, goal)
    kept_up = on_time.sum(axis=1, keepdims=True) >= least  # rounds that are not abandoned
    on_time &= kept_up
    origin = np.broadcast_to(np.arange(stuck, dtype=np.int32)[:, None], report.shape)
    step, met = origin.copy(), origin.copy()
    known = np.append(opens[1:], closes[-1:])  # what has come by then, the next cohort knows
    step[~on_time] = np.maximum(np.searchsorted(known, report[~on_time]), origin[~on_time])
    met[~on_time] = np.maximum(np.searchsorted(closes, report[~on_time]), origin[~on_time])

    late = np.zeros_like(on_time)
    if late_seconds is not None:
        # Of two times, not of two delays: they may round to one.
        in_time = (report <= opens[:, None] + late_seconds) & (report < np.inf)
        late = ~on_time & kept_up & in_time
    elif late_rounds is not None:
        late = ~on_time & kept_up & (step - origin < late_rounds) & (step < stuck)

    counted = on_time.sum(axis=1)
    if count == "all_returned":
        # Whoever waits in seconds waits for all of a round's reports, so they count with their
        # round; whoever waits in rounds counts them as they come.
        counted += np.bincount((origin if late_seconds is not None else met)[late], minlength=stuck)
    total = counted.cumsum()
    steps = int(np.searchsorted(total, updates, side="right"))
    if steps == stuck < rounds and total[-1:].sum() + goal <= updates:
        raise BadInput(
            client_pool.never_opens(stuck, cohort)
            if stuck == len(who)
            else f"round {stuck} never closes: fewer than goal={goal} of its cohort={cohort} "
            "clients ever report; set `round_timeout`, lower `goal`, raise `cohort` or check the "
            "latencies, the faults and who is there"
        )
    if steps == 0:
        raise BadInput(
            f"updates={updates} is less than the {counted[0]} that the first round "
            "returns; raise `updates` or lower `cohort`"
        )

    if not total[steps - 1]:
        raise BadInput(
            f"all {steps} rounds are abandoned: fewer than minimum={least} of their "
            f"cohort={cohort} clients report within round_timeout={round_timeout} s; "
            "raise it or `cohort`, lower `minimum`, or check the faults"
        )

    kept = slice(0, steps)
    after = met[kept] >= steps  # the last step
    fate = np.full((steps, cohort), Fate.UNUSED, np.int8)
    fate[late[kept]] = Fate.LATE
    fate[on_time[kept]] = Fate.ON_TIME
    ready = closes[kept]
    if late_seconds is not None:
        # Nobody knows that a report will never come before the time for it is over.
        last = np.where(on_time | late, report, opens[:, None] + late_seconds)[kept]
        last[~kept_up[kept, 0]] = 0.0  # abandoned: nobody is waited for
        ready = np.maximum.accumulate(np.maximum(ready, last.max(axis=1)))
        if np.isinf(ready[-1]):
            raise BadInput(
                f"training never ends: late_seconds={late_seconds} waits for a client "
                "that never reports; give a finite `late_seconds`"
            )
    elif late_rounds is not None:
        missing = kept_up[kept] & after
        fate[missing] = Fate.UNUSED
        fate[missing & (steps - origin[kept] < late_rounds)] = Fate.IN_FLIGHT
    dispatches = slice(0, steps * cohort)
    fate[lost(drawn.fault[dispatches]).reshape(fate.shape)] = Fate.LOST
    used = (fate == Fate.ON_TIME) | (fate == Fate.LATE)
    start = np.repeat(opens[kept], cohort)
    return Schedule(
        client=who[kept].ravel(),
        version=origin[kept].ravel(),
        asked=start if asked is None else asked[dispatches],
        start=start,
        report=report[kept].ravel(),
        stop=start + drawn.stops[dispatches],
        works=drawn.works[dispatches],
        examples=drawn.examples[dispatches],
        cut=drawn.cut[dispatches],
        fault=drawn.fault[dispatches],
        fate=fate.ravel(),
        step=np.where(used & ~after, step[kept], steps).astype(np.int32).ravel(),
        time=closes[kept],
        duration=duration[kept],
        ready=ready,
        updates=total[kept],
        clients=clients,
    )


def check(
    *,
    goal: int,
    cohort: int,
    updates: int,
    late_seconds: float | None,
    late_rounds: int | None,
    round_timeout: float | None,
    minimum: int | None,
) -> tuple[int, int]:
    """Refuses what no population makes good; how many rounds, and how many reports each needs."""
    schedule.check_positive(goal=goal, cohort=cohort, updates=updates)
    least = schedule.least_reports(minimum, goal, "goal", round_timeout, "round_timeout")
    if goal > cohort:
        raise BadInput(
            f"goal={goal} reports can never arrive from cohort={cohort} clients; "
            "lower `goal` or raise `cohort`"
        )
    if late_seconds is not None and late_rounds is not None:
        raise BadInput(f"late_seconds={late_seconds} and late_rounds={late_rounds}, expected one")
    if late_seconds is not None and not late_seconds >= 0:
        raise BadInput(f"late_seconds={late_seconds}, expected a number >= 0")
    if late_rounds is not None and late_rounds < 1:
        raise BadInput(f"late_rounds={late_rounds}, expected a whole number >= 1")
    return schedule.whole_steps(updates, goal, "round", "goal"), least


def _until(
    closes: NDArray[np.float64], report: NDArray[np.float64], goal: int
) -> NDArray[np.bool_]:
    """Each round's first `goal` reports; those that arrive together count by slot."""
    # Asks for reports, not delays: two that differ may still round to one time of arrival.
    before = report < closes[:, None]
    ties = report == closes[:, None]
    room = goal - before.sum(axis=1, keepdims=True)
    return before | (ties & (ties.cumsum(axis=1) <= room))
