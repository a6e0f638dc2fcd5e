"""FADAS: adaptive server steps that shrink when their reports are stale (Wang et al., ICML 2024).

    m[t+1] = b1 * m[t] + (1 - b1) * g        g: mean of the deltas of step t
    v[t+1] = b2 * v[t] + (1 - b2) * g * g
    u[t+1] = max(u[t], v[t+1])
    w[t+1] = w[t] - eta[t] * m[t+1] / (sqrt(u[t+1]) + eps)

    eta[t] = eta                    if tau[t] <= threshold     tau[t]: largest staleness of g's
             min(eta, 1 / tau[t])   otherwise                         reports, in server steps

The first three lines are `amsgrad`, which corrects no bias of its moments, unlike optax's.
Staleness is the schedule's: a report that is dropped because it is not finite counts in tau. The
rule of eta follows accounts of the paper, not its text, against which it has not been checked.
"""

from numbers import Real
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from stragglers._core.errors import BadInput, check_type
from stragglers.algorithms import trees
from stragglers.algorithms.base import (
    BY_WEIGHT,
    Algorithm,
    Mean,
    Params,
    State,
    Sum,
    check_server,
    moves,
    nothing_to_settle,
)


class FadasCore(NamedTuple):
    params: Params  # w
    optimizer: optax.OptState


class AmsgradState(NamedTuple):
    m: optax.Updates
    v: optax.Updates
    largest: optax.Updates  # u


def amsgrad(
    learning_rate: float, b1: float = 0.9, b2: float = 0.99, eps: float = 1e-8
) -> optax.GradientTransformation:
    """Builds AMSGrad without bias correction, FADAS' server optimizer::

        m <- b1 * m + (1 - b1) * g      v <- b2 * v + (1 - b2) * g * g      u <- max(u, v)
        w <- w - learning_rate * m / (sqrt(u) + eps)

    Args:
        learning_rate: Learning rate.
        b1: Decay of the first moment.
        b2: Decay of the second moment.
        eps: Added to the root of the second moment.

    Returns:
        An optax optimizer.

    Example:
        >>> import stragglers as st
        >>> algorithm = st.fedavg(st.amsgrad(1e-2))
    """

    def init(params: optax.Params) -> AmsgradState:
        zeros = trees.zeros_like(params)
        return AmsgradState(zeros, zeros, zeros)

    def update(
        g: optax.Updates, state: AmsgradState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, AmsgradState]:
        del params
        m = trees.blend(b1, state.m, g)
        v = trees.blend(b2, state.v, jax.tree.map(jnp.square, g))
        largest = jax.tree.map(jnp.maximum, state.largest, v)
        step = jax.tree.map(lambda m, u: -learning_rate * m / (jnp.sqrt(u) + eps), m, largest)
        return step, AmsgradState(m, v, largest)

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]


def fadas(
    server: optax.GradientTransformation,
    *,
    learning_rate: float,
    threshold: float,
    mean: Mean = BY_WEIGHT,
) -> Algorithm:
    """Builds FADAS, whose server steps shrink when their reports are stale (Wang et al., 2024)::

        w[t+1] = w[t] + min(1, 1 / (learning_rate * tau)) * (server(w[t], mean) - w[t])

    The factor is 1 if tau, the largest staleness of the step's reports, is within the threshold.

    Args:
        server: Server optimizer of optax with that learning rate; FADAS' own is `amsgrad`.
        learning_rate: The server's learning rate, eta.
        threshold: Largest staleness, in server steps, at the full learning rate.
        mean: What a sum of reports is divided by: their weights, their number, or nothing.

    Returns:
        The algorithm, for buffered schedules: synchronous rounds have no staleness.

    Raises:
        BadInput: If an argument is out of range, or `server` is no optimizer.

    Example:
        >>> import stragglers as st
        >>> algorithm = st.fadas(st.amsgrad(0.1), learning_rate=0.1, threshold=5)
        >>> algorithm.staleness
        True
    """
    check_server(server)
    check_type("learning_rate", learning_rate, Real, "a number above 0")
    check_type("threshold", threshold, Real, "a number of server steps, of at least 0")
    if not learning_rate > 0:
        raise BadInput(f"learning_rate={learning_rate}, expected a number above 0")
    if not threshold >= 0:
        raise BadInput(f"threshold={threshold}, expected a number of server steps >= 0")

    def init(params: Params) -> State:
        return State(FadasCore(trees.copy(params), server.init(params)))

    def step(state: State, on_time: Sum) -> tuple[State, None]:
        tau = jnp.asarray(on_time.staleness, on_time.weight.dtype)
        factor = jnp.minimum(1, 1 / (learning_rate * jnp.maximum(tau, 1)))
        factor = jnp.where(tau > threshold, factor, 1)
        core: FadasCore = state.core
        updates, optimizer = server.update(mean(on_time), core.optimizer, core.params)
        params = optax.apply_updates(core.params, trees.scale(factor, updates))
        return State(trees.where(moves(on_time), FadasCore(params, optimizer), core)), None

    def params(state: State) -> Params:
        return state.core.params

    return Algorithm(init, step, nothing_to_settle, model=params, params=params, staleness=True)
