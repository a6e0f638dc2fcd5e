"""A server that lives in time: told what happens and when, it never looks ahead.

    dispatch                     clients may start
    receive                      a report has come; one that has come already counts once
    lose                         a client has failed: its report will never come
    time_out, give_up, expire    waiting for a round, for a client, for late reports is over

    policy      when a server step is made, and who replaces whom
    algorithm   what the step does

interpreter.py drives it with simulated latencies, serving/serve.py with the messages of a federated
runtime.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stragglers.algorithms import trees
from stragglers.algorithms.base import (
    Algorithm,
    Download,
    Open,
    Params,
    Starting,
    State,
    Sum,
    download,
    plus,
)
from stragglers.planning.policy import Buffer, Policy, Rounds


class Order(NamedTuple):
    """What a client is asked to do."""

    dispatch: int
    client: int
    version: int  # server steps behind the model
    download: Download


class Arrival(NamedTuple):
    """What is known of a report that counts when it comes."""

    client: int
    staleness: int  # server steps between its model and the step that knows it first
    step: int  # of that step, since its client is there
    before: int  # its client's reports of earlier steps


class _Job(NamedTuple):
    client: int
    version: int
    start: float
    given_up: bool = False


class _Waiting(NamedTuple):
    """A closed round whose late reports are still awaited."""

    opened: Open
    late: Sum
    missing: int  # reports that may still come
    deadline: float


class Coordinator:
    """A server that lives in time: an algorithm, a policy, and what is under way."""

    def __init__(
        self,
        algorithm: Algorithm,
        policy: Policy,
        params: Params,
        choose: Callable[[int], list[int]],  # clients of the g-th group that starts
        weigh: Callable[[Arrival], float],
        teacher: Callable[[int, int], int],  # dispatch, version: a round of the history, or -1
    ) -> None:
        self.algorithm, self.policy = algorithm, policy
        self.choose, self.weigh, self.teacher = choose, weigh, teacher
        rounds = policy if isinstance(policy, Rounds) else None
        self.late_seconds = rounds and rounds.late_seconds
        self.late_rounds = rounds and rounds.late_rounds
        self.state: State = algorithm.init(params)
        zero = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
        self.empty = trees.zeros_like(Sum(params, zero, jnp.zeros((), jnp.int32)))
        # Towards the next server step: reports, and places that they or clients given up take.
        self.gathered, self.places = self.empty, 0
        self.gathered_from: list[_Job] = []
        self.joining = self.empty  # late reports that join it, whatever becomes of its own
        self.joining_from: list[_Job] = []
        self.latest: list[tuple[int, Params]] = []  # its clients' reports, if they are remembered
        self.memory: dict[int, Params] = {}  # the last report of each client
        self.took_part: defaultdict[int, list[int]] = defaultdict(list)  # steps, by client
        self.since: dict[int, int] = {}  # the version when a client came, if it was not there at 0
        self.version = 0
        self.abandoned: set[int] = set()  # server steps
        self.groups = 0
        self.jobs: dict[int, _Job] = {}  # by dispatch; reported ones are gone
        self.dispatches = 0
        self.arrived: dict[int, Sum] = {}  # by round: late, to be settled before the next start
        self.waiting: dict[int, _Waiting] = {}  # by round
        self.settled = 0  # rounds settled so far, in order
        self.opened_at: list[float] = []
        self.over = False  # past the last server step's own moment: reports meet no step
        self.dropped = self.failed = 0
        self.counts = {"on_time": 0, "late": 0, "unused": 0, "duplicate": 0}
        self.step_times: list[float] = []

    def dispatch(self, now: float) -> list[Order]:
        """Starts the next group of clients from the newest model."""
        self.state = self._with_arrived()
        self.arrived.clear()
        if isinstance(self.policy, Rounds):
            self.opened_at.append(now)
        if (most := self.late_rounds) is not None:
            self._give_up_rounds(lambda round, _: self.version - round >= most)
        orders = [self._order(client, now) for client in self.choose(self.groups)]
        self.groups += 1
        return orders

    def _order(self, client: int, now: float) -> Order:
        number, version = self.dispatches, self.version
        self.jobs[number] = _Job(client, version, now)
        starting = Starting(jnp.int32(version), jnp.int32(self.teacher(number, version)))
        self.dispatches += 1
        return Order(number, client, version, download(self.algorithm, self.state, starting))

    def receive(self, number: int, delta: Params, now: float) -> bool:
        """Takes a report; says whether a group of clients may start once this moment is over."""
        job = self.jobs.pop(number, None)
        if job is None or job.given_up:
            self.counts["unused" if job else "duplicate"] += 1
            return False
        if not self._on_time(job):
            self._late(job, delta, now)
            return False
        self.counts["on_time"] += 1
        report = self._report(job, delta, self.version)
        self.gathered = plus(self.gathered, report)
        self.gathered_from.append(job)
        if self.algorithm.settles == "replaced":
            self.latest.append((job.client, report.delta))
        return self._take_place(now)

    def lose(self, number: int, now: float) -> bool:
        """Knows that a client will never report; says whether a group may start."""
        job = self.jobs.pop(number, None)
        if job is None:
            return False
        self.failed += 1
        if job.given_up:
            return False
        if self._on_time(job):
            return self._take_place(now)
        if job.version in self.waiting:
            waiting = self.waiting[job.version]
            self.waiting[job.version] = waiting._replace(missing=max(0, waiting.missing - 1))
            self._settle_in_order()
        return False

    def give_up(self, number: int, now: float) -> bool:
        """Waits no longer for a client of a buffer; says whether a group may start."""
        assert isinstance(self.policy, Buffer)
        self.jobs[number] = self.jobs[number]._replace(given_up=True)
        return self._take_place(now)

    def time_out(self, round: int, now: float) -> bool:
        """Closes a round whose time is over, if it is open; says whether a group may start."""
        if round != self.version or not self.is_open:
            return False
        self._step(now)
        return True

    def expire(self, now: float) -> None:
        """Gives up on rounds whose time for late reports is over."""
        self._give_up_rounds(lambda _, waiting: waiting.deadline <= now)

    def finish(self) -> None:
        """Settles what is in; nothing more will come."""
        self.state, self.settled = self.so_far(), self.settled + len(self.waiting)
        self.arrived.clear()
        self.waiting.clear()

    def so_far(self) -> State:
        """The state of a server that would stop now: nothing late comes any more."""
        state = self._with_arrived()
        for round in sorted(self.waiting):
            waiting = self.waiting[round]
            state = self.algorithm.settle(state, waiting.opened, waiting.late, jnp.int32(round))
        return state

    def _with_arrived(self) -> State:
        state = self.state
        for round in sorted(self.arrived):
            state = self.algorithm.settle(state, None, self.arrived[round], jnp.int32(round))
        return state

    def go_on(
        self,
        state: State,
        version: int,
        groups: int,
        dispatches: int,
        participations: dict[int, int],
        since: dict[int, int],
        memory: dict[int, Params],
    ) -> None:
        """Takes over from a server that stopped: from its state, with no client in flight."""
        self.state, self.version, self.settled = state, version, version
        self.groups, self.dispatches = groups, dispatches
        self.opened_at = [-np.inf] * version if isinstance(self.policy, Rounds) else []
        self.took_part.update({client: [-1] * n for client, n in participations.items()})
        self.since, self.memory = since, memory

    def participations(self) -> dict[int, int]:
        """How many reports of each client have met a step that was made."""
        made = {c: bisect_left(steps, self.version) for c, steps in self.took_part.items()}
        for job in self.joining_from:  # these wait for one
            made[job.client] -= 1
        return made

    @property
    def is_open(self) -> bool:
        """Whether a round is under way that the next report may be on time for."""
        return len(self.opened_at) > self.version

    def _on_time(self, job: _Job) -> bool:
        """Whether a report that comes now is in the server step that it was meant for."""
        return isinstance(self.policy, Buffer) or (self.is_open and job.version == self.version)

    def _take_place(self, now: float) -> bool:
        """One client less to wait for: makes the server step if it was the last one."""
        policy = self.policy
        self.places += 1
        if isinstance(policy, Rounds):  # until the goal, or all have reported or failed
            complete = len(self.gathered_from) >= policy.goal or not self._under_way()
        else:
            complete = self.places == policy.size
        if complete:
            self._step(now)
        return complete or (isinstance(policy, Buffer) and policy.refill == "at_once")

    def _under_way(self) -> int:
        return sum(job.version == self.version for job in self.jobs.values())

    def _report(self, job: _Job, delta: Params, step: int) -> Sum:
        steps = self.took_part[job.client]
        arrival = Arrival(
            job.client,
            step - job.version,
            step - self.since.get(job.client, 0),
            bisect_left(steps, step),
        )
        steps.append(step)
        if not trees.finite(delta):
            self.dropped += 1
            return self.empty
        weight = jnp.asarray(self.weigh(arrival), self.empty.weight.dtype)
        return Sum(trees.scale(weight, delta), weight, jnp.int32(1))

    def _step_now(self) -> int:
        """The server step whose end first knows what arrives now."""
        between = isinstance(self.policy, Rounds) and not self.is_open
        return self.version - 1 if between and not self.over else self.version

    def _step(self, now: float) -> None:
        reports = len(self.gathered_from)
        if reports < (self.policy.minimum or 1):
            self.abandoned.add(self.version)
            self.counts["on_time"] -= reports
            self.counts["unused"] += reports
            self.gathered = self.empty
            for job in self.gathered_from:
                self.took_part[job.client].remove(self.version)
            self.gathered_from.clear()
            self.latest.clear()
        else:
            self.gathered, self.joining = plus(self.gathered, self.joining), self.empty
            self.gathered_from += self.joining_from
            self.joining_from.clear()
        on_time = self.gathered
        if self.algorithm.staleness:
            oldest = min((job.version for job in self.gathered_from), default=self.version)
            on_time = on_time._replace(staleness=jnp.int32(self.version - oldest))
        if self.algorithm.settles == "replaced":
            on_time = on_time._replace(replaced=self._replaced())
        self.state, opened = self.algorithm.step(self.state, on_time)
        self.gathered, self.places = self.empty, 0
        self.gathered_from.clear()
        if self.algorithm.settles == "by_round":
            self.waiting[self.version] = _Waiting(opened, self.empty, *self._patience())
        self.version += 1
        self.step_times.append(now)
        self._settle_in_order()

    def _replaced(self) -> Params:
        """Remembers the reports of a step; the sum of those in whose place they come."""
        total = nothing = self.empty.delta
        for client, report in self.latest:
            total = trees.add(total, self.memory.get(client, nothing))
            self.memory[client] = report
        self.latest.clear()
        return total

    def _patience(self) -> tuple[int, float]:
        """How many late reports a round that closes now will wait for, and until when."""
        if self.version in self.abandoned:
            return 0, np.inf
        if self.late_seconds is not None:
            return self._under_way(), self.opened_at[self.version] + self.late_seconds
        return 0 if self.late_rounds is None else self._under_way(), np.inf

    def _late(self, job: _Job, delta: Params, now: float) -> None:
        """A report of a closed round: to its sum, if it still counts."""
        step, settles, round = self._step_now(), self.algorithm.settles, job.version
        age = step - round
        counts = self.late_rounds is not None and age < self.late_rounds
        if self.late_seconds is not None:
            counts = now <= job.start + self.late_seconds
        counts = counts and round not in self.abandoned
        self.counts["late" if counts else "unused"] += 1
        if not counts:
            return
        remembered = age < (self.algorithm.teachers or np.inf)
        if settles == "at_arrival" and remembered and not self.over:
            late = self.arrived.get(round, self.empty)
            self.arrived[round] = plus(late, self._report(job, delta, step))
        elif settles == "next_step" and not self.over:
            self.joining = plus(self.joining, self._report(job, delta, self.version))
            self.joining_from.append(job)
        elif settles == "by_round":
            waiting = self.waiting[round]
            late = plus(waiting.late, self._report(job, delta, step))
            self.waiting[round] = waiting._replace(late=late, missing=waiting.missing - 1)
            self._settle_in_order()

    def _give_up_rounds(self, over: Callable[[int, _Waiting], bool]) -> None:
        for round, waiting in self.waiting.items():
            if over(round, waiting):
                self.waiting[round] = waiting._replace(missing=0)
        self._settle_in_order()

    def _settle_in_order(self) -> None:
        while self.settled in self.waiting and self.waiting[self.settled].missing == 0:
            done = self.waiting.pop(self.settled)
            self.state = self.algorithm.settle(
                self.state, done.opened, done.late, jnp.int32(self.settled)
            )
            self.settled += 1
