"""The slow witness: schedules made event by event with one heap, one client at a time.

It never looks ahead: what a report is worth is decided when it arrives. Whoever is `twice` reports
twice, and counts once; whoever never reports has an infinite latency.
"""

import heapq
import itertools
from dataclasses import dataclass, field

import numpy as np

REPORT, TIMEOUT, DISPATCH = 0, 1, 2  # reports before dispatches at equal times


@dataclass
class Job:
    client: int
    version: int
    start: float
    report: float
    fate: str = "in_flight"
    seen: bool = False
    step: int | None = None


@dataclass
class Log:
    jobs: list[Job] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)  # after each server step
    abandoned: set[int] = field(default_factory=set)
    duplicates: int = 0
    stuck: bool = False

    def is_again(self, job: Job) -> bool:
        """Whether a report has come before."""
        self.duplicates += job.seen
        again, job.seen = job.seen, True
        return again

    def close_step(self, now: float, minimum: int) -> None:
        step = len(self.times)
        reports = [job for job in self.jobs if job.fate == "on_time" and job.step == step]
        if len(reports) < minimum:
            self.abandoned.add(step)
            for job in reports:
                job.fate, job.step = "unused", None
        self.times.append(now)
        fates = [job.fate for job in self.jobs]
        self.counts.append({fate: fates.count(fate) for fate in sorted(set(fates))})


def over_selected(
    cohort_of,
    delay_of,
    *,
    goal,
    cohort,
    rounds,
    late_seconds=None,
    late_rounds=None,
    round_timeout=None,
    minimum=None,
    twice=lambda d: False,
    starts=lambda g, now: now,
):
    """`cohort_of(t)` gives round t's clients, `delay_of(d, client)` dispatch d's latency.

    `starts(g, now)` is when the g-th group starts that may start now.
    """
    log = Log()
    events = [(starts(0, 0.0), DISPATCH, 0)]
    opened, closed, arrived = [], 0, 0  # `closed` rounds so far; reports of the open round
    # A plan ends with the reports of its last moment, or with the last late one.
    while closed < rounds or (
        events and (late_seconds is not None or events[0][0] == log.times[-1])
    ):
        if not events or events[0][0] == np.inf:
            log.stuck = closed < rounds
            break
        now, kind, number = heapq.heappop(events)
        if kind == TIMEOUT:
            if number == closed and len(opened) > closed:
                closed += 1
                log.close_step(now, minimum or 1)
                if closed < rounds:
                    heapq.heappush(events, (starts(closed, now), DISPATCH, len(log.jobs)))
            continue
        if kind == DISPATCH:
            opened.append(now)
            if round_timeout is not None:
                heapq.heappush(events, (now + round_timeout, TIMEOUT, closed))
            for client in cohort_of(closed):
                seconds = delay_of(len(log.jobs), client)
                for _ in range(1 + twice(len(log.jobs))):
                    heapq.heappush(events, (now + seconds, REPORT, len(log.jobs)))
                log.jobs.append(Job(client, closed, now, now + seconds))
            arrived = 0
            continue
        job = log.jobs[number]
        if log.is_again(job):
            continue
        round_is_open = len(opened) > closed
        if round_is_open and job.version == closed:
            job.fate, job.step = "on_time", closed
            arrived += 1
            if arrived == goal:
                closed += 1
                log.close_step(now, 1)
                if closed < rounds:
                    heapq.heappush(events, (starts(closed, now), DISPATCH, len(log.jobs)))
            continue
        step = closed if round_is_open else closed - 1
        if job.version in log.abandoned:
            job.fate = "unused"
        elif late_seconds is not None and now <= job.start + late_seconds:
            # After the last step reports are still waited for; none of the steps knows them,
            # unless they come at its very time.
            after = closed == rounds and now > log.times[-1]
            job.fate, job.step = "late", rounds if after else step
        elif late_rounds is not None and step - job.version < late_rounds:
            job.fate, job.step = "late", step
        else:
            job.fate = "unused"
    for job in log.jobs:
        if job.fate == "in_flight" and not (
            late_rounds is not None
            and rounds - job.version < late_rounds
            and job.version not in log.abandoned
        ):
            job.fate = "unused"
    return log


def buffered(
    first_clients,
    refill_of,
    delay_of,
    *,
    buffer,
    steps,
    group,
    client_timeout=np.inf,
    minimum=None,
    twice=lambda d: False,
    starts=lambda g, now: now,
):
    """`refill_of(g)` gives the g-th refill's clients; one follows on every `group` reports."""
    log = Log()
    order = itertools.count()
    events = [(starts(0, 0.0), DISPATCH, next(order), first_clients)]
    places, refills = 0, 0
    while len(log.times) < steps:
        if not events or events[0][0] == np.inf:
            log.stuck = True
            break
        now, kind, number, clients = heapq.heappop(events)
        if kind == DISPATCH:
            for client in clients:
                seconds = delay_of(len(log.jobs), client)
                until = min(now + seconds, now + client_timeout)
                for _ in range(1 + twice(len(log.jobs))):
                    heapq.heappush(events, (until, REPORT, len(log.jobs), None))
                log.jobs.append(Job(client, len(log.times), now, now + seconds))
            continue
        job = log.jobs[number]
        if log.is_again(job):
            continue
        given_up = job.report > now
        job.fate, job.step = ("unused", None) if given_up else ("on_time", len(log.times))
        places += 1
        if places % group == 0:
            moment = starts(refills + 1, now)
            heapq.heappush(events, (moment, DISPATCH, next(order), refill_of(refills)))
            refills += 1
        if places % buffer == 0:
            log.close_step(now, minimum or 1)
    return log
