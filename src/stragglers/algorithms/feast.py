"""FeAST-on-MSG: late reports move an auxiliary model (Hard et al., equations 1 and 2).

    w[t+1]  = server(w[t], mean of round t's deltas that are on time)
    w_plus  = server(w[t], mean of all of round t's deltas)      from the state before the round
    a[t+1]  = beta * (a[t] + kappa * (w_plus - w[t])) + (1 - beta) * w_plus

Under SGD this is the paper's equation with eta_a = kappa * eta_g; under Adam the step is the
optimizer's own, and its moments advance only with the reports on time. The auxiliary model never
feeds the main one, so a round can be settled whenever its reports are in: what a[t+1] is does not
depend on when, and models of many beta and kappa come from one training.
"""

from numbers import Real
from typing import NamedTuple

import jax
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
    descend,
    moves,
    plus,
)


class FeastCore(NamedTuple):
    params: Params  # w
    optimizer: optax.OptState


class FeastOpen(NamedTuple):
    """Round t as it was when it closed."""

    params: Params  # w[t]
    optimizer: optax.OptState
    on_time: Sum


def feast(
    server: optax.GradientTransformation, *, beta: float, kappa: float, mean: Mean = BY_WEIGHT
) -> Algorithm:
    """Builds FeAST, whose late reports move an auxiliary model (Hard et al., equations 1 and 2)::

        w[t+1]  = server(w[t], mean of round t's deltas that are on time)
        w_plus  = server(w[t], mean of all of round t's deltas)
        a[t+1]  = beta * (a[t] + kappa * (w_plus - w[t])) + (1 - beta) * w_plus

    Args:
        server: Server optimizer of optax; the mean of the deltas is its gradient.
        beta: Decay of the auxiliary model, from 0 to below 1.
        kappa: Auxiliary learning rate over server learning rate, from 0 to 1.
        mean: What a sum of reports is divided by: their weights, their number, or nothing.

    Returns:
        The algorithm. It evaluates a, and needs rounds with `late_seconds` or `late_rounds`.

    Raises:
        BadInput: If beta or kappa is out of range, or `server` is no optimizer.

    Example:
        >>> import optax
        >>> import stragglers as st
        >>> st.feast(optax.adam(5e-3), beta=0.95, kappa=0.5).settles
        'by_round'
    """
    check_server(server)
    check_type("beta", beta, Real, "a number from 0 to below 1")
    check_type("kappa", kappa, Real, "a number from 0 to 1")
    if not 0 <= beta < 1:
        raise BadInput(f"beta={beta}, expected a number from 0 to below 1")
    if not 0 <= kappa <= 1:
        raise BadInput(f"kappa={kappa}, expected a number from 0 to 1")

    def init(params: Params) -> State:
        return State(FeastCore(trees.copy(params), server.init(params)), aside=trees.copy(params))

    def step(state: State, on_time: Sum) -> tuple[State, FeastOpen]:
        core: FeastCore = state.core
        stepped = FeastCore(*descend(server, mean, *core, on_time))
        return State(stepped, state.aside), FeastOpen(*core, on_time)

    def settle(state: State, opened: FeastOpen, late: Sum, round: jax.Array) -> State:
        del round
        auxiliary = state.aside  # a
        everybody = plus(opened.on_time, late)
        w_plus, _ = descend(server, mean, opened.params, opened.optimizer, everybody)
        mismatched = trees.add(auxiliary, trees.scale(kappa, trees.subtract(w_plus, opened.params)))
        new = trees.blend(beta, mismatched, w_plus)
        return State(state.core, trees.where(moves(everybody), new, auxiliary))

    return Algorithm(
        init,
        step,
        settle,
        model=lambda state: state.aside,
        params=lambda state: state.core.params,
        settles="by_round",
    )
