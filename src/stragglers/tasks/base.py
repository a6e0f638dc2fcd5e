"""What a task is: examples held once, flat, with the rows of each client side by side.

    client i holds rows offsets[i] to offsets[i + 1] of x and y

Test examples carry the name of their group: straggler classes or the others.
"""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from stragglers._core.errors import BadInput, check_type
from stragglers.planning import subset
from stragglers.planning.population import Population
from stragglers.tasks.models.base import Model, Params

CONTENT = ("x", "y", "offsets", "test_x", "test_y", "test_straggler")
CHECKED = 2**28
ALIGNED = 64  # bytes


class Lesson(NamedTuple):
    """The part of a task that is code: equal ones share their compiled programs."""

    model: Model
    prepare: Callable[[jax.Array, jax.Array | None], jax.Array]
    loss: Callable[[jax.Array, jax.Array], jax.Array]
    penalty: Callable[[Params], jax.Array] | None
    position_weight: Callable[[jax.Array], jax.Array] | None


class Task(NamedTuple):
    """Clients' examples, a test set, who is a straggler, and a model.

    Client i holds rows offsets[i] to offsets[i + 1] of x and y.

    Example:
        >>> import stragglers as st
        >>> task = st.glyphs(writers=12)
        >>> x, y = (rows[: task.offsets[1]] for rows in (task.x, task.y))  # of client 0
        >>> len(x) == len(y) == int(task.population.examples[0])
        True
    """

    name: str
    population: Population
    x: NDArray  # [examples, ...]
    y: NDArray  # [examples, ...]
    offsets: NDArray[np.int64]  # [clients + 1]
    test_x: NDArray
    test_y: NDArray
    test_straggler: NDArray[np.bool_]  # [test examples]: of a straggler class
    model: Model
    prepare: Callable[[jax.Array, jax.Array | None], jax.Array]  # raw x, key or None: model input
    loss: Callable[[jax.Array, jax.Array], jax.Array]  # logits, y: loss of each example
    # Logits, y: how much of each example is right, and out of how much (tokens, for text).
    score: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
    test_client: NDArray[np.int32] | None = None  # the training client of a test example, or -1
    penalty: Callable[[Params], jax.Array] | None = None  # on the weights, added to the loss
    # y: how much each position of a text counts, in distillation as in the loss; None for images.
    position_weight: Callable[[jax.Array], jax.Array] | None = None
    # Which of the model's classes are the stragglers'; None if groups are not made of classes.
    straggler_classes: tuple[int, ...] | None = None
    # Whether no files name the data: then its checksum is of every row, and of who the clients are.
    by_content: bool = False

    @property
    def lesson(self) -> Lesson:
        return Lesson(*(getattr(self, name) for name in Lesson._fields))


def cross_entropy(logits: jax.Array, y: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, y)


def is_right(logits: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    right = (jnp.argmax(logits, axis=-1) == y).astype(jnp.float32)
    return right, jnp.ones_like(right)


def rows_of(x: NDArray, rows: NDArray[np.integer]) -> NDArray:
    """Some rows of x, aligned as a CPU device wants them, which then holds no copy of its own."""
    size = len(rows) * x[:1].nbytes
    room = np.empty(size + ALIGNED, np.uint8)
    first = -room.ctypes.data % ALIGNED
    out = room[first : first + size].view(x.dtype).reshape(len(rows), *x.shape[1:])
    # By number, which is eight times as fast as by a mask; "raise" would buffer all of `out`.
    return np.take(x, rows, axis=0, out=out, mode="clip")


def of_clients(task: Task, clients: NDArray[np.int64]) -> Task:
    """The task of these clients alone, with everybody's test examples."""
    taken = np.zeros(task.population.clients, bool)
    taken[clients] = True
    rows = np.flatnonzero(np.repeat(taken, task.population.examples))
    who = subset.part(task.population, clients)
    number = np.append(np.where(taken, np.cumsum(taken) - 1, -1), -1).astype(np.int32)
    x = rows_of(task.x, rows)
    return check(
        task._replace(
            population=who,
            x=x,
            y=x if task.y is task.x else task.y[rows],
            offsets=np.concatenate([[0], np.cumsum(who.examples)]),
            # The last of the numbers is that of -1, a test client who never trains.
            test_client=None if task.test_client is None else number[task.test_client],
        )
    )


def checksum(task: Task) -> str:
    """SHA-256 of all arrays; of those beyond CHECKED bytes, of rows spread evenly.

    A task of the user's own is known by its content alone: by every row, groups and clients.
    """
    digest = hashlib.sha256()
    arrays = {name: getattr(task, name) for name in CONTENT}
    if task.by_content:
        who = task.population
        digest.update(repr((who.groups, who.names, task.straggler_classes)).encode())
        arrays |= {"group": who.group}
        arrays |= {} if task.test_client is None else {"test_client": task.test_client}
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        every = 1 if task.by_content else max(1, -(-array.nbytes // CHECKED))
        digest.update(np.ascontiguousarray(array[::every]).data)
    return digest.hexdigest()


def check(task: Task) -> Task:
    """Refuses tasks that no client can train on."""
    check_type("task", task, Task, "a task, such as st.glyphs()")
    clients = len(task.offsets) - 1
    if clients < 1:
        raise BadInput(f"task {task.name}: no clients, expected at least one")
    if task.offsets[-1] != len(task.x) or len(task.x) != len(task.y):
        raise BadInput(
            f"task {task.name}: {len(task.x)} examples, {len(task.y)} labels and offsets up to "
            f"{task.offsets[-1]}, expected equal numbers"
        )
    if len(task.x) == 0:
        raise BadInput(f"task {task.name}: no client has examples, so there is nothing to learn")
    if not np.array_equal(np.diff(task.offsets), task.population.examples):
        raise BadInput(f"task {task.name}: the population's sizes are not those of its examples")
    _check_test(task)
    return task


def _check_test(task: Task) -> None:
    tested = len(task.test_x)
    for name in ("test_y", "test_straggler", "test_client"):
        column = getattr(task, name)
        if column is not None and len(column) != tested:
            raise BadInput(
                f"task {task.name}: {name} has {len(column)} rows, but test_x has {tested}. Give "
                "one for each test example."
            )
    if task.test_straggler.dtype != bool:
        raise BadInput(
            f"task {task.name}: test_straggler has dtype {task.test_straggler.dtype}, and says yes "
            "or no for each test example. Give booleans; groups of clients are those of the "
            "population."
        )
