"""How good a model is: accuracy on straggler classes, on the others, and on all.

straggler accuracy = right / counted, over test examples of the straggler classes

`per_client` has the spread over clients instead: each one's accuracy on its own test examples.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from stragglers import mesh as devices
from stragglers.models.base import Params
from stragglers.programs import compiled
from stragglers.tasks.base import Task

BATCH = 500
PERCENTILES = (5, 25, 50, 75, 95)


class Metrics(NamedTuple):
    straggler_accuracy: float
    standard_accuracy: float
    total_accuracy: float
    straggler_loss: float
    standard_loss: float
    total_loss: float


class TestData(NamedTuple):
    """Test examples on the devices, in batches [batches, BATCH, ...]; padding counts nothing."""

    x: jax.Array
    y: jax.Array
    straggler: jax.Array
    real: jax.Array


def test_data(task: Task, limit: int | None = None, mesh: Mesh | None = None) -> TestData:
    """The test set, or a fixed subset of it spread evenly, over the devices."""
    size = len(task.test_x)
    rows = np.arange(size) if limit is None or limit >= size else _evenly(size, limit)
    count = devices.size(mesh)
    batches = count * -(-len(rows) // (count * BATCH))
    padded = np.resize(rows, batches * BATCH).reshape(batches, BATCH)
    real = (np.arange(batches * BATCH) < len(rows)).reshape(batches, BATCH)
    columns = (task.test_x[padded], task.test_y[padded], task.test_straggler[padded], real)
    return TestData(*devices.split(mesh, columns))


def _evenly(size: int, limit: int) -> np.ndarray:
    return np.arange(limit) * size // limit


def evaluate(task: Task, params: Params, data: TestData, mesh: Mesh | None = None) -> Metrics:
    """Scores a model; a group without test examples is NaN."""
    totals = np.asarray(program(task, params, data, mesh)(params, data))
    right, counted, loss, examples = totals.astype(float)  # each [straggler, standard]
    with np.errstate(invalid="ignore"):
        accuracy = [*(right / counted), right.sum() / counted.sum()]
        losses = [*(loss / examples), loss.sum() / examples.sum()]
    return Metrics._make(float(value) for value in accuracy + losses)


def program(
    task: Task, params: Params, data: TestData, mesh: Mesh | None = None
) -> jax.stages.Compiled:
    """(params, data) -> what is right, counted, lost and there, in each group."""
    code = (mesh, task.model.apply, task.prepare, task.loss, task.score)
    return compiled(_totals, code, params, data)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _totals(mesh, apply, prepare, loss, score, params: Params, data: TestData) -> jax.Array:
    def own(params: Params, data: TestData) -> jax.Array:
        def batch(part: TestData) -> jax.Array:
            logits = apply(params, prepare(part.x, None), None)
            right, counted = score(logits, part.y)
            values = jnp.stack([right, counted, loss(logits, part.y), jnp.ones_like(right)])
            groups = jnp.stack([part.straggler & part.real, ~part.straggler & part.real])
            # `where`, not a product: a diverged model's loss is NaN; padding must not spread it.
            return jnp.sum(jnp.where(groups[None], values[:, None], 0), axis=-1)

        return devices.total(mesh, jnp.sum(jax.lax.map(batch, data), axis=0))

    pieces = (devices.SAME, devices.SPLIT)
    return devices.everywhere(mesh, own, pieces, devices.SAME)(params, data)


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
