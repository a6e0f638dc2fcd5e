"""What a server algorithm is, and the words that all of them use.

An algorithm says what clients start from, who teaches them and what the server does with reports.
When things happen is not its business: the schedule has decided that already.

    Sum      weighted sum of deltas; algorithms are linear in reports
    delta    start - end: it descends, so it goes to optax as a gradient
    State    core, on which training depends, and aside, which feeds nothing back
    Open     what late reports of a round will need
"""

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from stragglers._core.errors import BadInput, check_type, shown
from stragglers.algorithms import trees
from stragglers.planning.schedule import Settles

Params = Any
Open = Any


class State(NamedTuple):
    """A server between two steps.

    Attributes:
        core: All that clients and later steps depend on: weights, the optimizer's state, a history.
        aside: Models made on the way that feed nothing back, such as an average.

    Example:
        >>> import stragglers as st
        >>> st.State(core={"w": 0.0}).aside is None
        True
    """

    core: Any
    aside: Any = None


class Sum(NamedTuple):
    """Reports added up, each with its weight; dropped clients are nowhere in it.

    Example:
        >>> import jax.numpy as jnp
        >>> import stragglers as st
        >>> total = st.Sum({"w": jnp.array([2.0, 4.0])}, jnp.float32(2), jnp.int32(2))
        >>> st.Mean("weight")(total)["w"]
        Array([1., 2.], dtype=float32)
    """

    delta: Params  # sum of weight * delta
    weight: jax.Array  # sum of weights
    reports: jax.Array  # how many
    # What `step` alone is told, if its algorithm asks.
    staleness: jax.Array | None = None  # server steps, the most of any report
    replaced: Params | None = None  # sum of weight * delta of their clients' reports before


class Starting(NamedTuple):
    """A client that is about to start."""

    round: jax.Array  # version of the model that it starts from
    teacher: jax.Array  # round whose row of the history teaches it; -1 for none


class Download(NamedTuple):
    """What a starting client receives."""

    model: Params
    teacher: Params  # the model itself, unless the algorithm teaches something better


class Algorithm(NamedTuple):
    """A server: pure functions of sums of reports, closed over their hyper-parameters.

    An algorithm says what clients start from, which model teaches them and what the server does
    with reports. When things happen is the schedule's business::

        init(params) -> state
        step(state, on_time) -> (state, opened)          a server step on the reports on time
        settle(state, opened, late, round) -> state      the late reports of one round

    Attributes:
        init: The state before training, a `State`.
        step: Takes the `Sum` of the reports on time, which may be empty. Returns the new state and
            what `settle` will need of this step; None if nothing.
        settle: Adds the `Sum` of late reports. `opened` is what `step` returned with
            `settles="by_round"`, else None; `round` is the round that they started in. Not called
            with `settles` of "never", "next_step" or "replaced".
        model: The weights that are evaluated, such as an average.
        params: The weights that the next clients start from.
        teach: The model that a starting client is distilled towards; None for the model it starts
            from.
        others: More models of the same training (`st.all_of`).
        settles: What becomes of late reports: "never" used; "next_step", they join its sum;
            "at_arrival", settled after the step during which they arrive; "by_round", settled once
            for each round; "replaced", not used, but `Sum.replaced` is what each client reported
            before.
        teachers: Rounds that may teach a client. With 0 and `settles="at_arrival"`, every late
            report of the schedule settles.
        staleness: Whether `Sum.staleness` is the largest staleness of the step's reports.

    Example:
        Another algorithm is often one of the package's with another step:

        >>> import optax
        >>> import stragglers as st
        >>> whole = st.fedavg(optax.sgd(1.0))
        >>> def halfway(state, on_time):
        ...     params, optimizer = state.core
        ...     stepped, opened = whole.step(state, on_time)
        ...     params = st.trees.blend(0.5, params, stepped.core.params)
        ...     return st.State(stepped.core._replace(params=params)), opened
        >>> algorithm = whole._replace(step=halfway)
    """

    init: Callable[[Params], State]
    step: Callable[[State, Sum], tuple[State, Open]]
    settle: Callable[[State, Open, Sum, jax.Array], State]
    model: Callable[[State], Params]
    params: Callable[[State], Params]
    teach: Callable[[State, Starting], Params] | None = None
    others: tuple[Callable[[State], Params], ...] = ()
    settles: Settles = "never"
    teachers: int = 0
    staleness: bool = False


By = Literal["weight", "count", "sum"]


def check_server(server: optax.GradientTransformation) -> None:
    """Refuses what is no optimizer of optax."""
    if not callable(getattr(server, "init", None)) or not callable(getattr(server, "update", None)):
        raise BadInput(f"server = {shown(server)}: expected an optimizer such as optax.sgd(1.0).")


class Mean(NamedTuple):
    """How a `Sum` becomes a gradient: divided by its weights, by its count, or not at all.

    An empty sum gives zeros.

    Attributes:
        by: "weight", "count" or "sum".

    Example:
        >>> import optax
        >>> import stragglers as st
        >>> algorithm = st.fedavg(optax.sgd(1.0), mean=st.Mean("count"))
    """

    by: By = "weight"

    def __call__(self, total: Sum) -> Params:
        divisor = {"weight": total.weight, "count": total.reports, "sum": 1}[self.by]
        divisor = jnp.asarray(divisor, total.weight.dtype)
        return trees.scale(1 / jnp.where(divisor > 0, divisor, 1), total.delta)


BY_WEIGHT = Mean()


def download(algorithm: Algorithm, state: State, starting: Starting) -> Download:
    model = algorithm.params(state)
    return Download(model, algorithm.teach(state, starting) if algorithm.teach else model)


def plus(a: Sum, b: Sum) -> Sum:
    return trees.add(a, b)


def moves(total: Sum) -> jax.Array:
    """Whether a step is made: not without reports, nor by reports whose weights are all zero."""
    return total.weight > 0


def descend(
    server: optax.GradientTransformation,
    mean: Mean,
    params: Params,
    optimizer: optax.OptState,
    total: Sum,
) -> tuple[Params, optax.OptState]:
    """Makes one step of the server optimizer::

        w[t+1] = server(w[t], mean(total))        w[t] if the weights of the total add up to 0

    Args:
        server: An optax optimizer; the mean of the reports is its gradient.
        mean: How the sum of reports becomes that gradient.
        params: w[t].
        optimizer: The optimizer's state.
        total: The sum of the reports.

    Returns:
        w[t+1], and the optimizer's next state.

    Example:
        >>> import jax.numpy as jnp
        >>> import optax
        >>> import stragglers as st
        >>> server, params = optax.sgd(1.0), {"w": jnp.zeros(2)}
        >>> total = st.Sum({"w": jnp.array([2.0, 4.0])}, jnp.float32(2), jnp.int32(2))
        >>> params, _ = st.descend(server, st.Mean(), params, server.init(params), total)
        >>> params["w"]
        Array([-1., -2.], dtype=float32)
    """
    updates, advanced = server.update(mean(total), optimizer, params)
    stepped = optax.apply_updates(params, updates), advanced
    return trees.where(moves(total), stepped, (params, optimizer))


def nothing_to_settle(state: State, opened: Open, late: Sum, round: jax.Array) -> State:
    """For algorithms that never look at late reports."""
    del opened, late, round
    return state


def with_ema(algorithm: Algorithm, decay: float) -> Algorithm:
    """Evaluates the running average of an algorithm's model instead of the model::

        average <- decay * average + (1 - decay) * model      after every step that moved; first w0

    Args:
        algorithm: Any algorithm.
        decay: Decay of the average, from 0 to below 1; 0 for none.

    Returns:
        An algorithm that trains as the one given and evaluates the average.

    Raises:
        BadInput: If the decay is out of range.

    Example:
        >>> import optax
        >>> import stragglers as st
        >>> algorithm = st.with_ema(st.fedavg(optax.sgd(1.0)), decay=0.99)
    """
    check_type("algorithm", algorithm, Algorithm, "an Algorithm, such as st.fedavg returns")
    check_type("decay", decay, Real, "a number from 0 to below 1")
    if not 0 <= decay < 1:
        raise BadInput(f"ema decay={decay}, expected a number from 0 to below 1")
    if decay == 0:
        return algorithm

    def inside(state: State) -> State:
        return State(state.core, state.aside[0])

    def beside(inner: State, average: Params) -> State:
        return State(inner.core, (inner.aside, average))

    def init(params: Params) -> State:
        inner = algorithm.init(params)
        return beside(inner, trees.copy(algorithm.model(inner)))

    teach = algorithm.teach
    by_round = algorithm.settles == "by_round"  # there the model moves when a round is settled

    def step(state: State, on_time: Sum) -> tuple[State, Open]:
        inner, opened = algorithm.step(inside(state), on_time)
        if by_round:
            return beside(inner, state.aside[1]), (opened, on_time)
        return averaged(on_time, state, inner), opened

    def settle(state: State, opened: Open, late: Sum, round: jax.Array) -> State:
        if by_round:
            opened, on_time = opened
            inner = algorithm.settle(inside(state), opened, late, round)
            return averaged(plus(on_time, late), state, inner)
        return beside(algorithm.settle(inside(state), opened, late, round), state.aside[1])

    def averaged(moved_by: Sum, before: State, inner: State) -> State:
        average = before.aside[1]
        new = trees.blend(decay, average, algorithm.model(inner))
        return beside(inner, trees.where(moves(moved_by), new, average))

    return algorithm._replace(
        init=init,
        step=step,
        settle=settle,
        model=lambda state: state.aside[1],
        params=lambda state: algorithm.params(inside(state)),
        teach=teach and (lambda state, starting: teach(inside(state), starting)),
    )


def all_of(algorithms: Sequence[Algorithm]) -> Algorithm:
    """Joins algorithms that differ in what they keep aside: one training with the models of all::

        core  <- the first one's; any other's would be equal, and is not computed
        aside <- each one's own

    Args:
        algorithms: Algorithms of equal cores, such as FeAST's of several beta and kappa.

    Returns:
        An algorithm that evaluates the first one's model, and the others' as `others`.

    Raises:
        BadInput: If there are none.

    Example:
        >>> import optax
        >>> import stragglers as st
        >>> server = optax.sgd(1.0)
        >>> both = st.all_of([st.feast(server, beta=0.9, kappa=k) for k in (0.1, 0.5)])
        >>> len(both.others)
        1
    """
    if not algorithms:
        raise BadInput("algorithms: none given, expected at least one")
    for algorithm in algorithms:
        check_type("algorithms", algorithm, Algorithm, "a list of Algorithms")
    first = algorithms[0]
    teach = first.teach

    def each(state: State) -> list[State]:
        return [State(state.core, aside) for aside in state.aside]

    def joined(states: Sequence[State]) -> State:
        return State(states[0].core, tuple(state.aside for state in states))

    def init(params: Params) -> State:
        return joined([algorithm.init(params) for algorithm in algorithms])

    def step(state: State, on_time: Sum) -> tuple[State, Open]:
        steps = [a.step(own, on_time) for a, own in zip(algorithms, each(state), strict=True)]
        states, opened = zip(*steps, strict=True)
        return joined(states), opened

    def settle(state: State, opened: Open, late: Sum, round: jax.Array) -> State:
        opened = [None] * len(algorithms) if opened is None else opened
        whose = zip(algorithms, each(state), opened, strict=True)
        return joined([a.settle(own, its, late, round) for a, own, its in whose])

    def model(which: int) -> Callable[[State], Params]:
        return lambda state: algorithms[which].model(each(state)[which])

    return first._replace(
        init=init,
        step=step,
        settle=settle,
        model=model(0),
        params=lambda state: first.params(each(state)[0]),
        teach=teach and (lambda state, starting: teach(each(state)[0], starting)),
        others=tuple(model(which) for which in range(1, len(algorithms))),
    )
