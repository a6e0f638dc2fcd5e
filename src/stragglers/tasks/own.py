"""Tasks of the user's own: arrays, a model, and who is a straggler.

groups            of clients, by which they may differ in latency
straggler tests   test examples of the straggler classes; without such classes, those of
                  straggler clients, if the test set says whose its examples are
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput, check_type, did_you_mean, raised, shown
from stragglers.planning.paper_populations import PAPER_GROUPS
from stragglers.planning.population import Population
from stragglers.tasks import client_examples
from stragglers.tasks.base import Task, check, cross_entropy, is_right
from stragglers.tasks.client_examples import Columns, Examples
from stragglers.tasks.models.base import Model
from stragglers.tasks.models.base import model as made_model

ONE_GROUP = "all"


def task(
    clients: Any,
    test: Any,
    model: Any,
    *,
    offsets: Any = None,
    client_ids: Any = None,
    columns: Columns = None,
    straggler_classes: Sequence[int] | None = None,
    stragglers: Sequence[Any] | Callable[[Any, NDArray[Any]], bool] | None = None,
    groups: Sequence[str] | Mapping[Any, str] | None = None,
    prepare: Callable[[jax.Array, jax.Array | None], jax.Array] | None = None,
    loss: Callable[[jax.Array, jax.Array], jax.Array] = cross_entropy,
    score: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]] = is_right,
    name: str = "own",
) -> Task:
    """Makes a task of arrays and a model.

    Args:
        clients: Training examples: a dict or a list of pairs (x, y) by client, or one pair with
            `offsets` or `client_ids`. In place of a pair, a table of Hugging Face `datasets`.
        test: Test examples: one pair (x, y), or one for each client as for `clients`.
        model: The model: an `(init, apply)` pair or what `st.model` returns.
        offsets: Client i has rows offsets[i] to offsets[i + 1] of x and y.
        client_ids: The client of each row, by number or name, such as those of `st.partition`; of
            a table, the name of that column.
        columns: The names of x and y in tables.
        straggler_classes: Labels of the straggler classes. Test examples of these measure straggler
            accuracy.
        stragglers: Straggler clients, by number or name, or a function of a client and its labels
            that says whether it is one. By default the clients that hold a straggler class.
        groups: Group of each client, in order or by name, in place of `stragglers`: groups differ
            in latency alone. By default `standard` and `straggler`; without stragglers `all`.
        prepare: Function of raw x and a key (None during evaluation) that returns the model's
            input; by default x itself.
        loss: Function of logits and y: the loss of each example, by default cross-entropy.
        score: Function of logits and y: how much of each example is right, and out of how much.
        name: Name in tables.

    Returns:
        The task.

    Raises:
        BadInput: If arrays are ragged, not finite or of different lengths, a client has no
            examples, labels are not the model's, or a client is unknown.

    Example:
        >>> import jax
        >>> import numpy as np
        >>> import stragglers as st
        >>> x = np.random.default_rng(0).normal(size=(60, 8))
        >>> y = (x[:, 0] > 0).astype(int)
        >>> task = st.task(
        ...     clients=(x[:40], y[:40]),
        ...     client_ids=st.partition.dirichlet(y[:40], clients=5, alpha=0.5),
        ...     test=(x[40:], y[40:]),
        ...     model=(
        ...         lambda key: {"w": jax.random.normal(key, (8, 2))},
        ...         lambda params, x: x @ params["w"],
        ...     ),
        ... )
        >>> task.population.clients, task.population.groups
        (5, ('all',))
    """
    check_type("name", name, str, "a name")
    given = client_examples.by_client(clients, offsets, client_ids, columns)
    test_x, test_y, test_client = _tests(test, given, columns)
    made = _model(model)
    prepare = as_it_is if prepare is None else prepare
    classes = None if straggler_classes is None else tuple(map(int, straggler_classes))
    if loss is cross_entropy:
        _check_labels(given, test_y, classes, _classes(made, prepare, given.x))
    slow = _stragglers(given, stragglers, classes)
    return check(
        Task(
            name=name,
            population=_population(given, slow, groups, name),
            x=given.x,
            y=given.y,
            offsets=given.offsets,
            test_x=test_x,
            test_y=test_y,
            test_straggler=_straggler_tests(test_y, test_client, slow, classes),
            model=made,
            prepare=prepare,
            loss=loss,
            score=score,
            test_client=test_client,
            straggler_classes=classes,
            by_content=True,
        )
    )


def as_it_is(x: jax.Array, key: jax.Array | None) -> jax.Array:
    del key
    return x


def _tests(
    test: Any, given: Examples, columns: Columns
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int32] | None]:
    """Test examples, and the training client of each, if they are by client."""
    if client_examples.is_flat(test):
        x, y, owner = *client_examples.flat("test", test, columns), None
    else:
        found = client_examples.joined("test", test, columns)
        x, y, owner = found.x, found.y, _owners(test, found, given)
    if len(x) == 0:
        raise BadInput("test: no examples. Give at least one.")
    for column, mine, its in (("x", x, given.x), ("y", y, given.y)):
        if mine.shape[1:] != its.shape[1:]:
            raise BadInput(
                f"test: examples {column} of shape {[*mine.shape[1:]]}, but those of clients have "
                f"{[*its.shape[1:]]}. Give both the same shape."
            )
    return x, y, owner


def _owners(test: Any, found: Examples, given: Examples) -> NDArray[np.int32]:
    """A client that never trains is -1."""
    if isinstance(test, Mapping):
        number = _numbers(given)
        clients = [number.get(str(name), -1) for name in test]
    elif len(test) == len(given.offsets) - 1:
        clients = range(len(test))
    else:
        raise BadInput(
            f"test: examples of {len(test)} clients, but {len(given.offsets) - 1} train. Give one "
            "pair for each, or a dict by name."
        )
    return np.repeat(np.array(clients, np.int32), np.diff(found.offsets))


def _numbers(given: Examples) -> dict[str, int]:
    names = given.names or map(str, range(len(given.offsets) - 1))
    return {name: number for number, name in enumerate(names)}


def _number(what: str, client: Any, number: dict[str, int]) -> int:
    if str(client) not in number:
        raise BadInput(f"{what}: no client {client!r}; {did_you_mean(str(client), number)}")
    return number[str(client)]


def _model(given: Any) -> Model:
    if isinstance(given, Model):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        return made_model(*given)
    raise BadInput(f"model = {shown(given)}: expected a pair (init, apply), or st.model(...).")


def _classes(
    model: Model, prepare: Callable[[jax.Array, jax.Array | None], jax.Array], x: NDArray[Any]
) -> int:
    """How many classes the model tells apart, found without computing anything."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    batch = jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype)
    try:
        params = jax.eval_shape(model.init, key)
    except Exception as error:  # a user's code
        raise BadInput(
            f"model: init(key) failed ({raised(error)}). Return a tree of arrays."
        ) from error
    try:
        logits = jax.eval_shape(lambda w, x: model.apply(w, prepare(x, None), None), params, batch)
    except Exception as error:
        raise BadInput(
            f"model: apply(params, x) failed on x of {x.dtype}{[*batch.shape]} ({raised(error)}). "
            "Return logits [batch, classes]."
        ) from error
    shape = getattr(logits, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != 2:
        what = f"shape {[*shape]}" if shape is not None else f"a {type(logits).__name__}"
        raise BadInput(
            f"model: apply(params, x) returned {what} for a batch of 2. Return logits [batch, "
            "classes]."
        )
    if not np.issubdtype(logits.dtype, np.floating) and str(logits.dtype) != "bfloat16":
        raise BadInput(f"model: apply(params, x) returned {logits.dtype}. Return floating point.")
    return shape[1]


def _check_labels(
    given: Examples, test_y: NDArray[Any], classes: tuple[int, ...] | None, count: int
) -> None:
    for what, y in (("clients", given.y), ("test", test_y)):
        if y.ndim != 1 or y.dtype.kind not in "biu":
            raise BadInput(
                f"{what}: y is {y.dtype}{[*y.shape]}. Give one whole number for each example, or a "
                "loss= of your own."
            )
        outside = (y < 0) | (y >= count)
        if outside.any():
            row = int(np.argmax(outside))
            raise BadInput(
                f"{what}: row {row} has label {y[row]}, but the model has {count} classes. Give "
                f"labels from 0 to {count - 1}."
            )
    for one in classes or ():
        if not 0 <= one < count:
            raise BadInput(
                f"straggler_classes: {one}, but the model has {count} classes. Give labels from 0 "
                f"to {count - 1}."
            )


def _stragglers(
    given: Examples, stragglers: Any, classes: tuple[int, ...] | None
) -> NDArray[np.bool_] | None:
    """Which clients are stragglers; None if no one has said."""
    rows = given.offsets[:-1]
    if stragglers is None:
        if classes is None:
            return None
        held = np.isin(given.y, classes)
        if held.ndim != 1 or not held.any():
            raise BadInput(
                f"straggler_classes = {classes}: no client holds one. Give labels that occur in "
                "training."
            )
        return np.logical_or.reduceat(held, rows)
    number = _numbers(given)
    slow = np.zeros(len(rows), bool)
    if callable(stragglers):
        for name, own in zip(number, np.split(given.y, rows[1:]), strict=True):
            try:
                slow[number[name]] = bool(stragglers(name if given.names else number[name], own))
            except Exception as error:  # a user's code
                raise BadInput(
                    f"stragglers(client, y) failed for client {name!r} ({raised(error)}). Return "
                    "True or False."
                ) from error
    elif isinstance(stragglers, str) or not isinstance(stragglers, Sequence | set | np.ndarray):
        raise BadInput(
            f"stragglers = {shown(stragglers)}: expected a list of clients, or a function of a "
            "client and its labels."
        )
    else:
        slow[[_number("stragglers", client, number) for client in stragglers]] = True
    return slow


def _population(
    given: Examples, slow: NDArray[np.bool_] | None, groups: Any, name: str
) -> Population:
    clients = len(given.offsets) - 1
    names, group = (ONE_GROUP,), np.zeros(clients, np.int16)
    if slow is not None:
        names, group = PAPER_GROUPS, slow.astype(np.int16)
    if groups is not None:
        if slow is not None:
            raise BadInput(
                "groups and stragglers are both given, and each says which group a client is of. "
                "Leave one out."
            )
        each = _group_of_each(groups, given)
        known = {each[number]: None for number in range(clients)}  # in the order of clients
        names = tuple(known)
        group = np.array([names.index(one) for one in each], np.int16)
    sizes = np.diff(given.offsets).astype(np.int64)
    return Population(sizes, group, names, f"task {name}", names=given.names)


def _group_of_each(groups: Any, given: Examples) -> list[str]:
    clients = len(given.offsets) - 1
    if isinstance(groups, Mapping):
        number = _numbers(given)
        by_number = {_number("groups", client, number): one for client, one in groups.items()}
        for client in number:
            if number[client] not in by_number:
                raise BadInput(f"groups: client {client!r} has none. Name one for every client.")
        groups = [by_number[client] for client in range(clients)]
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise BadInput(f"groups = {shown(groups)}: expected the name of a group for each client.")
    if len(groups) != clients or not all(isinstance(one, str) for one in groups):
        raise BadInput(
            f"groups: {len(groups)} given for {clients} clients. Give one name for each client."
        )
    return [str(one) for one in groups]


def _straggler_tests(
    test_y: NDArray[Any],
    test_client: NDArray[np.int32] | None,
    slow: NDArray[np.bool_] | None,
    classes: tuple[int, ...] | None,
) -> NDArray[np.bool_]:
    if classes is not None:
        return np.isin(test_y, classes)
    if slow is None or test_client is None:
        return np.zeros(len(test_y), bool)
    return (test_client >= 0) & np.append(slow, False)[test_client]
