"""What an algorithm and a task promise, checked by their shapes before anything is compiled.

    init(params) -> state           step(state, on_time) -> (state, opened)
    params(state) -> params         settle(state, opened, late, round) -> state
    model(state) -> params          teach(state, starting) -> params

A state keeps its structure, shapes and types: programs are compiled once. A user's function that
raises, or returns something else, is one line that names it.
"""

from collections.abc import Callable
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput, did_you_mean, raised, shown
from stragglers.algorithms.base import Algorithm, Params, Starting, State, Sum
from stragglers.planning.schedule import Settles
from stragglers.tasks.base import Task, cross_entropy

BATCH = 2  # examples of a batch that is never computed


def check_contract(task: Task, algorithm: Algorithm) -> None:
    """Refuses functions that do not fit together, without computing anything."""
    if algorithm.settles not in (valid := get_args(Settles)):
        given = str(algorithm.settles)
        raise BadInput(f"algorithm: settles = {shown(given)}; {did_you_mean(given, valid)}")
    params = _check_model(task)
    _check_algorithm(algorithm, params)


def _check_model(task: Task) -> Params:
    model, key = task.model, jax.eval_shape(lambda: jax.random.key(0))
    params = _traced("model: init(key)", "a tree of arrays", model.init, key)
    for path, leaf in jax.tree.leaves_with_path(params):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise BadInput(
                f"model: init(key) returned {_named(path)} of {leaf.dtype}. Return floating point: "
                "every parameter is trained."
            )
    x, y = (_batch(column) for column in (task.x, task.y))
    logits = None
    for mode in (key, None):  # of training, with dropout, and of evaluation
        prepared = _traced("task: prepare(x, key)", "the model's input", task.prepare, x, mode)
        what = "model: apply(params, x, key)"
        logits = _traced(what, "logits [batch, classes]", model.apply, params, prepared, mode)
        if not isinstance(logits, jax.ShapeDtypeStruct):
            raise BadInput(
                f"{what} returned a {type(logits).__name__}. Return one array of logits."
            )
    losses = _traced("task: loss(logits, y)", "the loss of each example", task.loss, logits, y)
    _check_each("task: loss(logits, y)", losses)
    score = _traced("task: score(logits, y)", "a pair of arrays", task.score, logits, y)
    if not isinstance(score, tuple) or len(score) != 2:
        raise BadInput(
            "task: score(logits, y) returned no pair. Return (how much, out of how much)."
        )
    for part in score:
        _check_each("task: score(logits, y)", part)
    if task.penalty:
        penalty = _traced("task: penalty(params)", "a number", task.penalty, params)
        if getattr(penalty, "shape", None) != ():
            raise BadInput(f"task: penalty(params) returned {_shape(penalty)}. Return a number.")
    if task.loss is cross_entropy:
        assert logits is not None
        for name in ("y", "test_y"):
            _check_labels(task, name, getattr(task, name), logits.shape[-1])
    return params


def _batch(column: NDArray[Any]) -> jax.ShapeDtypeStruct:
    dtype = jax.dtypes.canonicalize_dtype(column.dtype)
    return jax.ShapeDtypeStruct((BATCH, *column.shape[1:]), dtype)


def _check_each(what: str, found: Any) -> None:
    """One number for each example."""
    if not isinstance(found, jax.ShapeDtypeStruct) or found.shape != (BATCH,):
        raise BadInput(
            f"{what} returned {_shape(found)} for a batch of {BATCH}. Return one number for each "
            "example, [batch]."
        )


def _check_labels(task: Task, name: str, y: NDArray[Any], classes: int) -> None:
    for label in (int(y.min()), int(y.max())) if y.size else ():
        if not 0 <= label < classes:
            raise BadInput(
                f"task {task.name}: {name} has label {label}, but the model has {classes} classes. "
                f"Give labels from 0 to {classes - 1}."
            )


def _check_algorithm(algorithm: Algorithm, params: Params) -> None:
    number = jax.ShapeDtypeStruct((), jnp.int32)
    weight = jax.ShapeDtypeStruct((), jnp.result_type(*jax.tree.leaves(params)))
    reports = Sum(params, weight, number)  # pyright: ignore[reportArgumentType]
    told = reports._replace(
        staleness=number if algorithm.staleness else None,
        replaced=params if algorithm.settles == "replaced" else None,
    )
    state = _traced("algorithm: init(params)", "a State", algorithm.init, params)
    if not isinstance(state, State):
        raise BadInput("algorithm: init(params) returned no State. Return st.State(core, aside).")
    stepped = _traced(
        "algorithm: step(state, on_time)", "(state, opened)", algorithm.step, state, told
    )
    if not isinstance(stepped, tuple) or isinstance(stepped, State) or len(stepped) != 2:
        raise BadInput(
            "algorithm: step(state, on_time) returned no pair. Return (state, what `settle` "
            "needs), such as (state, None)."
        )
    after, opened = stepped
    _check_same("algorithm: step(state, on_time)", after, state, "the state of `init`")
    if algorithm.settles in ("at_arrival", "by_round"):
        opened = opened if algorithm.settles == "by_round" else None
        what = "algorithm: settle(state, opened, late, round)"
        settled = _traced(what, "a State", algorithm.settle, state, opened, reports, number)
        _check_same(what, settled, state, "the state of `init`")
    models = {"params": algorithm.params, "model": algorithm.model}
    models |= {f"others[{place}]": other for place, other in enumerate(algorithm.others)}
    for name, function in models.items():
        found = _traced(f"algorithm: {name}(state)", "the model's parameters", function, state)
        _check_same(f"algorithm: {name}(state)", found, params, "the parameters of the model")
    if algorithm.teach:
        what, starting = "algorithm: teach(state, starting)", Starting(number, number)  # pyright: ignore[reportArgumentType]
        teacher = _traced(what, "the teacher's parameters", algorithm.teach, state, starting)
        _check_same(what, teacher, params, "the parameters of the model")


def _traced(what: str, expected: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The shapes of what a function returns."""
    try:
        return jax.eval_shape(function, *arguments)
    except BadInput:
        raise
    except Exception as error:  # a user's code
        raise BadInput(f"{what} failed ({raised(error)}). Return {expected}.") from error


def _check_same(what: str, found: Any, expected: Any, named: str) -> None:
    """Of equal structure, shapes and types."""
    leaves, others = (dict(jax.tree.leaves_with_path(tree)) for tree in (found, expected))
    for path in [*others, *leaves]:
        have, want = (tree.get(path) for tree in (leaves, others))
        if have is None or want is None or (have.shape, have.dtype) != (want.shape, want.dtype):
            raise BadInput(
                f"{what} returned {_named(path)} as {_shape(have)}, but {named} has "
                f"{_shape(want)}. Keep structure, shapes and types."
            )
    if jax.tree.structure(found) != jax.tree.structure(expected):
        kinds = (type(tree).__name__ for tree in (found, expected))
        raise BadInput(
            f"{what} returned {' in place of '.join(kinds)}. Keep the structure of {named}."
        )


def _named(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".") or "one array"


def _shape(leaf: Any) -> str:
    if leaf is None:
        return "nothing"
    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return f"a {type(leaf).__name__}"
    return f"{leaf.dtype}{[*leaf.shape]}"


def check_taught(algorithm: Algorithm, late: NDArray[np.bool_]) -> None:
    """Refuses a history of late reports on a schedule that tracks none."""
    if algorithm.teachers and not late.any():
        raise BadInput(
            "schedule: no report is late and counts, so the algorithm has no history to teach "
            f"from. Set late_rounds={algorithm.teachers} in st.Rounds, and a cohort above the goal."
        )
