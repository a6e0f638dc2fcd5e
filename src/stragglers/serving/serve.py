"""A coordinator in real time, driven by the reports of a fleet.

    send     orders to clients that are there and idle
    poll     what has come since the last poll; of one poll, in this order:
               reports, failures, clients given up    as their clients were started
               rounds whose time is over
               groups that may start                  a round waits until its whole cohort is idle
               deadlines of late reports

Nothing of a runtime is known here: flower/ links to Flower's, and three functions link to another.
Simulated reports drive the same coordinator in simulator/interpreter.py. With a folder
(server_folder.py) a stopped server resumes, and a log of its clients is kept for `stragglers fit`.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stragglers._core import random_streams
from stragglers._core.errors import BadInput, check_type
from stragglers._core.schema import checked
from stragglers.algorithms import trees
from stragglers.algorithms.base import Algorithm, Params
from stragglers.planning.fit.logs import EVERYBODY
from stragglers.planning.policy import Buffer, Policy, Rounds, check, check_positive
from stragglers.planning.report_weights import Reports, Weigh, report_weights
from stragglers.planning.training_rows import teachers_of
from stragglers.serving.server_folder import Ledger, Line
from stragglers.simulator.coordinator import Arrival, Coordinator, Order

PATIENCE = 20  # failures in a row, at least, that are no chance any more
SAID_EVERY = 60.0  # seconds, while clients are missing

logger = logging.getLogger(__name__)


class Reply(NamedTuple):
    """What came of a client that was started.

    Attributes:
        dispatch: Number of the order that it answers.
        delta: Start - end of local training; None if the client failed.
        examples: Number of examples that it trained on.
        training: Seconds of training, by the client's own clock.
        group: The client's group, for the log.
        error: Why the client failed.

    Example:
        >>> import stragglers as st
        >>> st.Reply(dispatch=3, delta=None, error="out of memory").error
        'out of memory'
    """

    dispatch: int
    delta: Params | None
    examples: int = 0
    training: float = 0.0
    group: str = EVERYBODY
    error: str = ""


class Link(NamedTuple):
    """How clients are reached: three functions.

    Attributes:
        online: Returns the numbers of the clients that are online, idle or not.
        send: Starts clients. An order has `dispatch`, `client`, `version` and `download`, with the
            `model` to start from and its `teacher`.
        poll: Returns the replies since the last poll, each once.

    Example:
        >>> import stragglers as st
        >>> orders = []
        >>> link = st.Link(online=lambda: range(100), send=orders.extend, poll=lambda: [])
    """

    online: Callable[[], Iterable[int]]
    send: Callable[[Sequence[Order]], None]
    poll: Callable[[], Iterable[Reply]]


class Clock(NamedTuple):
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


WALL = Clock()


class Served(NamedTuple):
    """What a live server ends with.

    Attributes:
        model: The model to use: w, an EMA, or FeAST's auxiliary model.
        params: The weights w.
        seconds: Seconds since the call.
        counts: Reports by their fate, clients that failed, and deltas that were dropped.

    Example:
        >>> served.counts["on_time"]  # as in `st.serve`
        6
    """

    model: Params
    params: Params
    seconds: float
    counts: dict[str, int]


def serve(
    link: Link,
    algorithm: Algorithm,
    policy: Policy,
    params: Params,
    *,
    steps: int,
    seed: int = 0,
    weigh: Weigh = report_weights,
    folder: str | Path | None = None,
    keep_every: int = 1,
    on_step: Callable[[int, float, Params], None] | None = None,
    poll_seconds: float = 1.0,
    clock: Clock = WALL,
) -> Served:
    """Trains on a real fleet, until it has made a number of server steps.

    Clients keep their data; `stragglers.serving.flower` links to Flower's. A log of the clients,
    which `stragglers fit` reads, and the server's state are kept in a folder. A server that was
    stopped resumes from it.

    Args:
        link: How clients are reached.
        algorithm: The server, such as `st.fedavg(optax.sgd(1.0))`.
        policy: `Rounds` or `Buffer`.
        params: Initial weights: a pytree of floating-point arrays.
        steps: Number of server steps, those of an earlier call with this folder included.
        seed: Seed of the selection of clients, and of teachers.
        weigh: How much each report counts; by default equally.
        folder: Folder of the log and the state; by default neither is kept.
        keep_every: Server steps between two states on the disk.
        on_step: Called after each server step with its number, the seconds since the call, and the
            model.
        poll_seconds: Seconds between two polls.
        clock: The time, and a way to wait for it.

    Returns:
        The model, the weights, and the numbers of reports by their fate.

    Raises:
        BadInput: If the policy contradicts itself, the folder holds the state of another algorithm
            or model, or one client after another fails.

    Example:
        >>> import numpy as np
        >>> import optax
        >>> import stragglers as st
        >>> orders = []
        >>> def poll():  # each client has moved from where it started by 1
        ...     deltas = [(order.dispatch, {"w": -np.ones(2, np.float32)}) for order in orders]
        ...     orders.clear()
        ...     return [st.Reply(dispatch, delta, examples=10) for dispatch, delta in deltas]
        >>> link = st.Link(online=lambda: range(9), send=orders.extend, poll=poll)
        >>> served = st.serve(link, st.fedavg(optax.sgd(1.0)), st.Rounds(goal=2),
        ...     {"w": np.zeros(2)}, steps=3, folder="served", poll_seconds=0.001)
        >>> served.params["w"]
        Array([3., 3.], dtype=float32)
    """
    check_type("link", link, Link, "a Link")
    check_type("algorithm", algorithm, Algorithm, "an Algorithm, such as st.fedavg returns")
    _check(policy, steps, poll_seconds, keep_every)
    _weight(weigh, Arrival(0, 0, 0, 0), 1)  # refuses what it lacks before any client starts
    service = _Service(
        link,
        algorithm,
        policy,
        as_weights(params),
        seed,
        weigh,
        Ledger(folder),
        keep_every,
        on_step,
    )
    server, began = service.server, clock.now()
    while not _is_over(server, steps):
        service.poll(clock.now() - began, steps)
        clock.sleep(poll_seconds)
    server.finish()
    service.ledger.keep(server)
    counts = {**server.counts, "failed": server.failed, "dropped": int(server.dropped)}
    model, params = algorithm.model(server.state), algorithm.params(server.state)
    return Served(model, params, clock.now() - began, counts)


class _Service:
    """A coordinator with its link and its folder, and what is known of its clients."""

    def __init__(
        self,
        link: Link,
        algorithm: Algorithm,
        policy: Policy,
        params: Params,
        seed: int,
        weigh: Weigh,
        ledger: Ledger,
        keep_every: int,
        on_step: Callable[[int, float, Params], None] | None,
    ) -> None:
        self.link, self.algorithm, self.policy, self.ledger = link, algorithm, policy, ledger
        self.seed, self.weigh = seed, weigh
        self.keep_every, self.on_step = keep_every, on_step
        self.known: dict[int, Reply] = {}  # the last report of each client, without its delta
        self.idle: list[int] = []
        first = policy.cohort_size if isinstance(policy, Rounds) else policy.concurrency
        self.due = [first]  # sizes of the groups that may start
        self.failures, self.most = 0, max(PATIENCE, 2 * first)  # in a row
        self.said = -SAID_EVERY
        self.server = Coordinator(
            algorithm, policy, params, self._choose, self._weight_of, self._teacher
        )
        ledger.go_on(self.server)
        self.told = self.server.version

    def poll(self, now: float, steps: int) -> None:
        """What has come since the last poll, in the order at the top of this file."""
        server, policy = self.server, self.policy
        server.over = server.version >= steps and now > server.step_times[-1]
        replies = {reply.dispatch: reply for reply in self.link.poll()}
        for number in sorted({*replies, *_overdue(server, now)}):
            if number in replies:
                self._take(replies[number], now)
            else:
                self._follow(server.give_up(number, now), now)
            if isinstance(policy, Buffer) and server.version == steps:
                break  # what has come at the same time would make steps beyond the last
        if isinstance(policy, Rounds) and now >= _time_out(server):
            self._follow(server.time_out(server.version, now), now)
        if server.version < steps:
            self._start(now)
        server.expire(now)

    def _take(self, reply: Reply, now: float) -> None:
        server, job = self.server, self.server.jobs.get(reply.dispatch)
        if job is None:  # it has reported, or failed, before
            return
        step, came = server.version, reply.delta is not None
        if came:
            self.failures, self.known[job.client] = 0, reply._replace(delta=None)
            self._follow(server.receive(reply.dispatch, reply.delta, now), now)
        else:
            self.failures += 1
            logger.warning("client %s failed: %s", job.client, reply.error)
            self._follow(server.lose(reply.dispatch, now), now)
            if self.failures >= self.most:
                raise BadInput(
                    f"{self.failures} clients in a row have failed, expected some to report; "
                    f"the last one: {reply.error}"
                )
        if job.client in self.known:  # else it is not known what it has to train on
            self.ledger.write(
                Line(
                    client=job.client,
                    group=self.known[job.client].group,
                    examples=self.known[job.client].examples,
                    seconds=now - job.start if came else None,
                    training=reply.training,
                    started=job.start,
                    version=job.version,
                    step=step,
                )
            )

    def _follow(self, may_start: bool, now: float) -> None:
        """What may come with a report or a time-out: a server step, clients that start."""
        server, policy = self.server, self.policy
        if may_start:
            self.due.append(policy.cohort_size if isinstance(policy, Rounds) else policy.group)
        if server.version > self.told:
            self.told = server.version
            if self.told % self.keep_every == 0:
                self.ledger.keep(server)
            if self.on_step:
                self.on_step(self.told, now, self.algorithm.model(server.state))

    def _start(self, now: float) -> None:
        """Sends orders to idle clients, group by group, until too few are idle."""
        server, due = self.server, self.due
        online = {*self.link.online()} if due else set()
        for client in online:
            server.since.setdefault(client, server.version)
        while due:
            self.idle = sorted(online - {job.client for job in server.jobs.values()})
            if len(self.idle) < (due[0] if isinstance(self.policy, Rounds) else 1):
                if now - self.said >= SAID_EVERY:
                    logger.warning("%s clients are idle, %s shall start", len(self.idle), due[0])
                    self.said = now
                return
            orders = server.dispatch(now)
            self.link.send(orders)
            due[0] -= len(orders)
            if due[0] == 0:
                due.pop(0)

    def _choose(self, group: int) -> list[int]:
        draw = random_streams.generator(self.seed, random_streams.Purpose.IDLE, group)
        order = draw.permutation(len(self.idle))
        return [self.idle[place] for place in order[: self.due[0]]]

    def _weight_of(self, arrival: Arrival) -> float:
        return _weight(self.weigh, arrival, self.known[arrival.client].examples)

    def _teacher(self, dispatch: int, version: int) -> int:
        columns = np.array([dispatch]), np.array([version])
        return int(teachers_of(self.seed, *columns, self.algorithm.teachers)[0])


def _check(policy: Policy, steps: int, poll_seconds: float, keep_every: int) -> None:
    """As plans do, before anybody is asked."""
    check_positive(steps=steps, keep_every=keep_every)
    check_type("policy", policy, Policy, "Rounds or Buffer")
    if not 0 < poll_seconds < np.inf:
        raise BadInput(f"poll_seconds={poll_seconds}, expected a finite number > 0")
    each = policy.goal if isinstance(policy, Rounds) else policy.size
    check(checked(policy), updates=steps * each)


def _weight(weigh: Weigh, arrival: Arrival, examples: int) -> float:
    unknown = -1  # clients do not tell their local steps
    columns = arrival.staleness, examples, unknown, arrival.step, arrival.before
    return float(weigh(Reports(*(np.array([value]) for value in columns)))[0])


def as_weights(params: Params) -> Params:
    """As jax has them: arrays of what can be learned."""
    for name, leaf in trees.named(params).items():
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise BadInput(
                f"params: {name} is {leaf.dtype}, expected floating-point numbers; "
                "leave it out, and keep it with the clients"
            )
    return jax.tree.map(jnp.asarray, params)


def _overdue(server: Coordinator, now: float) -> list[int]:
    """Clients of a buffer that are waited for no longer."""
    timeout = server.policy.client_timeout if isinstance(server.policy, Buffer) else None
    if timeout is None:
        return []
    return [n for n, job in server.jobs.items() if not job.given_up and now >= job.start + timeout]


def _time_out(server: Coordinator) -> float:
    """When the open round is closed with what is in."""
    timeout = server.policy.round_timeout if isinstance(server.policy, Rounds) else None
    return server.opened_at[-1] + timeout if timeout is not None and server.is_open else np.inf


def _is_over(server: Coordinator, steps: int) -> bool:
    """After the last step FeAST still waits for what is late."""
    if server.version < steps:
        return False
    late_seconds = isinstance(server.policy, Rounds) and server.policy.late_seconds is not None
    return not (late_seconds and server.waiting)
