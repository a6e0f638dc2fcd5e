"""FARe-DUST: stragglers teach later clients by distillation (Hard et al., Algorithm 1).

    w[t+1]  = server(w[t], mean of round t's deltas that are on time)
    D[t]    = sum of round t's late deltas so far      (history = "all": of those on time as well)
    teacher = w[t] - teacher_lr * D[r] / count[r]      r uniform over the last k rounds

A late report changes nothing but its own row of the history; the next teacher drawn from that row
carries it on. A row without reports teaches nothing: its teacher is w itself.

Algorithm 1 zeroes D[t] after the fast step although the text keeps fast and late together: hence
`history`. It writes the teacher's step with eta_g, which is FedAdam's: hence `teacher_step`, an
SGD step of `teacher_lr` or a preview of the server optimizer's own.

Its last lines take a round that leaves the history to correct that round's weights, and return the
EMA of all weights: hence `average`. Corrected are the weights that there are by then: an average
over many rounds does not see by which k of them it is late. Nothing else depends on it.
"""

from numbers import Integral
from typing import Literal, NamedTuple

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
    Starting,
    State,
    Sum,
    check_server,
    descend,
    plus,
)


class FareDustCore(NamedTuple):
    params: Params  # w
    optimizer: optax.OptState
    history: trees.Shelf  # D, a Sum with leaves [k, ...]; round t in row t mod k
    round: jax.Array  # t


def fare_dust(
    server: optax.GradientTransformation,
    *,
    k: int,
    history: Literal["late", "all"] = "late",
    teacher_step: Literal["sgd", "server"] = "sgd",
    teacher_lr: float = 1.0,
    average: Literal["weights", "corrected"] = "weights",
    mean: Mean = BY_WEIGHT,
) -> Algorithm:
    """Builds FARe-DUST, whose stragglers teach later clients (Hard et al., Algorithm 1)::

        w[t+1]  = server(w[t], mean of round t's deltas that are on time)
        D[t]    = sum of round t's late deltas so far
        teacher = w[t] - teacher_lr * D[r] / count[r]      r uniform over the last k rounds

    Clients learn from teachers by distillation: set `st.Local(..., distillation=rho)`.

    Args:
        server: Server optimizer of optax; the mean of the deltas is its gradient.
        k: Number of past rounds kept as teachers.
        history: Reports that enter the history: late ones, or those on time as well.
        teacher_step: The step from the weights to a teacher: SGD's, or the server optimizer's.
        teacher_lr: Learning rate of the SGD step.
        average: The model that is evaluated: the weights, or the weights that late reports correct.
        mean: What a sum of reports is divided by: their weights, their number, or nothing.

    Returns:
        The algorithm. It needs rounds with `late_rounds=k`.

    Raises:
        BadInput: If k is not a whole number of at least 1, or `server` is no optimizer.

    Example:
        >>> import optax
        >>> import stragglers as st
        >>> st.fare_dust(optax.sgd(1.0), k=50).teachers
        50
    """
    check_server(server)
    check_type("k", k, Integral, "a whole number of historical teachers")
    if k < 1:
        raise BadInput(f"k={k} historical teachers, expected a whole number >= 1")

    def init(params: Params) -> State:
        zero = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
        rows = trees.zero_rows(Sum(params, zero, jnp.zeros((), jnp.int32)), k)
        core = FareDustCore(
            trees.copy(params), server.init(params), trees.Shelf(rows), jnp.zeros((), jnp.int32)
        )
        return State(core, aside=trees.copy(params) if average == "corrected" else None)

    def moved(params: Params, optimizer: optax.OptState, late: Sum) -> Params:
        if teacher_step == "server":
            return descend(server, mean, params, optimizer, late)[0]
        return trees.subtract(params, trees.scale(teacher_lr, mean(late)))

    def teach(state: State, starting: Starting) -> Params:
        core: FareDustCore = state.core
        late = trees.row(core.history, starting.teacher % k)
        teacher = moved(core.params, core.optimizer, late)
        return trees.where(starting.teacher < 0, core.params, teacher)

    def step(state: State, on_time: Sum) -> tuple[State, None]:
        core: FareDustCore = state.core
        params, optimizer = descend(server, mean, core.params, core.optimizer, on_time)
        # The oldest row, which the round that closes takes over once it has used its teachers.
        oldest = trees.index_after(core.round, on_time.reports) % k
        corrected = None  # w, moved as a teacher by the round that leaves
        if average == "corrected":
            corrected = moved(params, optimizer, trees.row(core.history, oldest))
        fresh = on_time if history == "all" else trees.zeros_like(on_time)
        rows = trees.set_row(core.history, oldest, fresh)
        return State(FareDustCore(params, optimizer, rows, core.round + 1), corrected), None

    def settle(state: State, opened: None, late: Sum, round: jax.Array) -> State:
        del opened
        history = state.core.history
        taught = plus(trees.row(history, round % k), late)
        rows = trees.set_row(history, round % k, taught)
        return State(state.core._replace(history=rows), state.aside)

    def params(state: State) -> Params:
        return state.core.params

    def model(state: State) -> Params:
        return state.aside if average == "corrected" else state.core.params

    return Algorithm(
        init,
        step,
        settle,
        model=model,
        params=params,
        teach=teach,
        settles="at_arrival",
        teachers=k,
    )
