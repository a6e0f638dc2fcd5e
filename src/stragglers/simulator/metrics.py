"""How good a model is: accuracy on straggler classes, on the others, and on all.

straggler accuracy = right / counted, over test examples of the straggler classes

Half of each group's test examples are for validation, by which settings may be chosen; the others
are held out, for what is said of those that were. Accuracies without such a word are over both.
`per_client` has the spread over clients instead: each one's accuracy on its own test examples.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers.simulator import device_mesh as devices
from stragglers.simulator.programs import compiled
from stragglers.tasks.base import Task
from stragglers.tasks.models.base import Params

BATCH = 500
PERCENTILES = (5, 25, 50, 75, 95)
Sums = tuple[jax.Array, jax.Array]  # over all, and over what is for validation


class Metrics(NamedTuple):
    straggler_accuracy: float
    standard_accuracy: float
    total_accuracy: float
    straggler_loss: float
    standard_loss: float
    total_loss: float
    validation_straggler_accuracy: float
    validation_total_accuracy: float
    held_out_straggler_accuracy: float
    held_out_total_accuracy: float


class TestData(NamedTuple):
    """Test examples on the devices, in batches [batches, BATCH, ...]; padding counts nothing."""

    x: jax.Array
    y: jax.Array
    straggler: jax.Array
    validation: jax.Array
    real: jax.Array


def test_data(task: Task, limit: int | None = None, mesh: Mesh | None = None) -> TestData:
    """The test set, or a fixed subset of it spread evenly, over the devices."""
    size = len(task.test_x)
    rows = np.arange(size) if limit is None or limit >= size else _evenly(size, limit)
    count = devices.size(mesh)
    batches = count * -(-len(rows) // (count * BATCH))
    padded = np.resize(rows, batches * BATCH).reshape(batches, BATCH)
    real = (np.arange(batches * BATCH) < len(rows)).reshape(batches, BATCH)
    straggler = task.test_straggler
    columns = (task.test_x, task.test_y, straggler, validation(straggler))
    return TestData(*devices.split(mesh, (*(column[padded] for column in columns), real)))


def validation(straggler: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which test examples are for validation: always the same, half of each group and of all."""
    order = random_streams.generator(0, random_streams.Purpose.VALIDATION).permutation(
        len(straggler)
    )
    order = order[np.argsort(straggler[order], kind="stable")]  # one group, then the other
    chosen = np.zeros(len(straggler), bool)
    chosen[order[::2]] = True
    return chosen


def _evenly(size: int, limit: int) -> np.ndarray:
    return np.arange(limit) * size // limit


def evaluate(task: Task, params: Params, data: TestData, mesh: Mesh | None = None) -> Metrics:
    """Scores a model; a group without test examples is NaN."""
    every, half = program(task, params, data, mesh)(params, data)
    right, counted, loss, examples = np.asarray(every, float)  # each [straggler, standard]
    half_right, half_counted = np.asarray(half, float)
    with np.errstate(invalid="ignore"):
        accuracy, losses = _shares(right, counted), _shares(loss, examples)
        validated = _shares(half_right, half_counted)[::2]
        held_out = _shares(right - half_right, counted - half_counted)[::2]
    return Metrics(*accuracy, *losses, *validated, *held_out)


def _shares(part: NDArray[np.float64], of: NDArray[np.float64]) -> list[float]:
    """Of straggler classes, of the others, and of all."""
    return [*(part / of).tolist(), float(part.sum() / of.sum())]


def program(
    task: Task, params: Params, data: TestData, mesh: Mesh | None = None
) -> jax.stages.Compiled:
    """(params, data) -> what is right, counted, lost and there, in each group; and, of what is for
    validation, what is right and counted."""
    code = (mesh, task.model.apply, task.prepare, task.loss, task.score)
    return compiled(_totals, code, params, data)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _totals(mesh, apply, prepare, loss, score, params: Params, data: TestData) -> Sums:
    def own(params: Params, data: TestData) -> Sums:
        def batch(part: TestData) -> Sums:
            logits = apply(params, prepare(part.x, None), None)
            right, counted = score(logits, part.y)
            values = jnp.stack([right, counted, loss(logits, part.y), jnp.ones_like(right)])
            groups = jnp.stack([part.straggler & part.real, ~part.straggler & part.real])
            # Apart, so that what is summed over all has the bits that it has without the half.
            return _by_group(groups, values), _by_group(groups & part.validation, values[:2])

        every, half = jax.lax.map(batch, data)
        return devices.total(mesh, (jnp.sum(every, axis=0), jnp.sum(half, axis=0)))

    pieces = (devices.SAME, devices.SPLIT)
    return devices.everywhere(mesh, own, pieces, devices.SAME)(params, data)


def _by_group(groups: jax.Array, values: jax.Array) -> jax.Array:
    # `where`, not a product: a diverged model's loss is NaN; padding must not spread it.
    return jnp.sum(jnp.where(groups[None], values[:, None], 0), axis=-1)


def per_client(
    task: Task, params: Params, data: TestData, mesh: Mesh | None = None
) -> dict[str, list[float]] | None:
    """PERCENTILES over the clients of each group of their accuracy on all of `data`, the whole
    test set; None if no test example belongs to a training client."""
    if task.test_client is None or not (task.test_client >= 0).any():
        return None
    size, clients = len(task.test_x), task.population.clients
    scores = np.asarray(_scores(mesh, task.model.apply, task.prepare, task.score, params, data))
    right, counted = np.moveaxis(scores, 1, 0).reshape(2, -1)[:, :size].astype(float)
    owner = np.where(task.test_client < 0, clients, task.test_client)  # the last is nobody
    right, counted = (
        np.bincount(owner, values, minlength=clients + 1)[:clients] for values in (right, counted)
    )
    spread = {}
    for index, group in enumerate(task.population.groups):
        tested = (task.population.group == index) & (counted > 0)
        if tested.any():
            spread[group] = np.percentile(right[tested] / counted[tested], PERCENTILES).tolist()
    return spread


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _scores(mesh, apply, prepare, score, params: Params, data: TestData) -> jax.Array:
    def own(params: Params, data: TestData) -> jax.Array:
        def batch(part: TestData) -> jax.Array:
            return jnp.stack(score(apply(params, prepare(part.x, None), None), part.y))

        return jax.lax.map(batch, data)  # [batches, (right, counted), BATCH]

    pieces = (devices.SAME, devices.SPLIT)
    return devices.everywhere(mesh, own, pieces, devices.SPLIT)(params, data)
