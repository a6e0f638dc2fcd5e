"""What a server algorithm is, and the two words that all of them use.

An algorithm says what a starting client receives and what the server does with reports. When
things happen is not its business: the schedule has decided that already.

    Sum      weighted sum of deltas; algorithms are linear in reports
    delta    start - end: it descends, so it goes to optax as a gradient
    Open     what late reports of a round will need
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from stragglers import trees
from stragglers.errors import BadInput

Params = Any
State = Any
Open = Any


class Sum(NamedTuple):
    """Reports added up; dropped clients are nowhere in it."""

    delta: Params  # sum of weight * delta
    weight: jax.Array  # sum of weights
    reports: jax.Array  # how many


class Starting(NamedTuple):
    """A client that is about to start."""

    round: jax.Array  # version of the model that it starts from
    teacher: jax.Array  # round whose row of the history teaches it; -1 for none


class Download(NamedTuple):
    model: Params
    teacher: Params  # the model itself, unless the algorithm has something better


class Algorithm(NamedTuple):
    """A server: pure functions, closed over their hyper-parameters."""

    init: Callable[[Params], State]
    broadcast: Callable[[State, Starting], Download]
    step: Callable[[State, Sum], tuple[State, Open]]  # on the reports that are on time
    settle: Callable[[State, Open, Sum, jax.Array], State]  # on late reports of a round
    model: Callable[[State], Params]  # what is evaluated
    params: Callable[[State], Params]  # w, what the next client starts from
    # When late reports are settled: never, as they arrive, or once for every round when all of
    # its reports are in or given up.
    settles: Literal["never", "at_arrival", "by_round"] = "never"
    teachers: int = 0  # rounds of its history that teach; 0: the model that clients start from does


class Mean(NamedTuple):
    """How a Sum becomes a gradient: divided by its weights, by its count, or not at all."""

    by: Literal["weight", "count", "sum"] = "weight"

    def __call__(self, total: Sum) -> Params:
        divisor = {"weight": total.weight, "count": total.reports, "sum": 1}[self.by]
        divisor = jnp.asarray(divisor, total.weight.dtype)
        return trees.scale(1 / jnp.where(divisor > 0, divisor, 1), total.delta)


BY_WEIGHT = Mean()


def plus(a: Sum, b: Sum) -> Sum:
    return trees.add(a, b)


def moves(total: Sum) -> jax.Array:
    """Whether anything moves by it: not by nobody's reports, nor by reports that weigh nothing."""
    return total.weight > 0


def descend(
    server: optax.GradientTransformation,
    mean: Mean,
    params: Params,
    optimizer: optax.OptState,
    total: Sum,
) -> tuple[Params, optax.OptState]:
    """One step of the server optimizer; none on a sum that moves nothing."""
    updates, advanced = server.update(mean(total), optimizer, params)
    stepped = optax.apply_updates(params, updates), advanced
    return trees.where(moves(total), stepped, (params, optimizer))


def nothing_to_settle(state: State, opened: Open, late: Sum, round: jax.Array) -> State:
    """For algorithms that never look at late reports."""
    del opened, late, round
    return state


def with_ema(algorithm: Algorithm, decay: float) -> Algorithm:
    """Evaluates the running average of an algorithm's model instead.

    average <- decay * average + (1 - decay) * model      after every step that moved, average = w0
    """
    if not 0 <= decay < 1:
        raise BadInput(f"ema decay={decay}, expected a number from 0 to below 1")
    if decay == 0:
        return algorithm

    def init(params: Params) -> tuple[State, Params]:
        state = algorithm.init(params)
        return state, trees.copy(algorithm.model(state))

    by_round = algorithm.settles == "by_round"  # there the model moves when a round is settled

    def step(state: tuple[State, Params], on_time: Sum) -> tuple[State, Open]:
        inner, opened = algorithm.step(state[0], on_time)
        if by_round:
            return (inner, state[1]), (opened, on_time)
        return (inner, averaged(on_time, state[1], inner)), opened

    def settle(state: tuple[State, Params], opened: Open, late: Sum, round: jax.Array) -> State:
        if by_round:
            opened, on_time = opened
            inner = algorithm.settle(state[0], opened, late, round)
            return inner, averaged(plus(on_time, late), state[1], inner)
        return algorithm.settle(state[0], opened, late, round), state[1]

    def averaged(moved_by: Sum, average: Params, inner: State) -> Params:
        new = trees.blend(decay, average, algorithm.model(inner))
        return trees.where(moves(moved_by), new, average)

    return algorithm._replace(
        init=init,
        broadcast=lambda state, starting: algorithm.broadcast(state[0], starting),
        step=step,
        settle=settle,
        model=lambda state: state[1],
        params=lambda state: algorithm.params(state[0]),
    )
