"""How good a model is: named measures of each group of test examples, and of all of them.

    measure   (logits, y) -> of each example, an amount, and what it is out of
    metric    sum of amounts / sum of what they are out of

    straggler_accuracy = right / counted, over test examples of the straggler classes

Half of each group's test examples are for validation, by which settings may be chosen; the others
are held out, for what is said of those that were. Accuracies without such a word are over both.
prior_matching.py separates what a model recognises from where its decision threshold lies.
`per_client` has the spread over clients instead: each one's accuracy on its own test examples.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers.simulator import device_mesh as devices
from stragglers.simulator import prior_matching
from stragglers.simulator.programs import compiled
from stragglers.tasks.base import Task
from stragglers.tasks.models.base import Params

BATCH = 500
PERCENTILES = (5, 25, 50, 75, 95)
GROUPS = ("straggler", "standard")
BY_HALF = ("straggler_accuracy", "total_accuracy")  # what settings are chosen by
Measure = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
Metrics = dict[str, float]


class TestData(NamedTuple):
    """Test examples on the devices, in batches [batches, BATCH, ...]; padding counts nothing."""

    x: jax.Array
    y: jax.Array
    group: jax.Array  # position in GROUPS
    part: jax.Array  # held out, or a quarter of all that is for validation
    real: jax.Array


def measures(task: Task) -> dict[str, Measure]:
    return {"accuracy": task.score, "loss": _of_examples(task.loss)}


@cache  # equal losses give the same object, and so the same program
def _of_examples(loss: Callable[[jax.Array, jax.Array], jax.Array]) -> Measure:
    def measure(logits: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        values = loss(logits, y)
        return values, jnp.ones_like(values)

    return measure


def test_data(task: Task, limit: int | None = None, mesh: Mesh | None = None) -> TestData:
    """The test set, or a fixed subset of it spread evenly, over the devices."""
    size = len(task.test_x)
    rows = np.arange(size) if limit is None or limit >= size else _evenly(size, limit)
    count = devices.size(mesh)
    batches = count * -(-len(rows) // (count * BATCH))
    padded = np.resize(rows, batches * BATCH).reshape(batches, BATCH)
    real = (np.arange(batches * BATCH) < len(rows)).reshape(batches, BATCH)
    group = np.where(task.test_straggler, *map(np.int8, range(2)))
    columns = (task.test_x, task.test_y, group, parts(task.test_straggler))
    return TestData(*devices.split(mesh, (*(column[padded] for column in columns), real)))


def parts(straggler: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Which part each test example belongs to, always the same: half of each group and of all is
    held out, and each quarter for validation has half of the others."""
    order = random_streams.generator(0, random_streams.Purpose.VALIDATION).permutation(
        len(straggler)
    )
    order = order[np.argsort(straggler[order], kind="stable")]  # one group, then the other
    part = np.full(len(straggler), prior_matching.HELD_OUT, np.int8)
    for first, number in zip((0, 2), prior_matching.QUARTERS, strict=True):
        part[order[first::4]] = number
    return part


def validation(straggler: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which test examples are for validation: always the same, half of each group and of all."""
    return parts(straggler) != prior_matching.HELD_OUT


def _evenly(size: int, limit: int) -> np.ndarray:
    return np.arange(limit) * size // limit


def evaluate(task: Task, params: Params, data: TestData, mesh: Mesh | None = None) -> Metrics:
    """Scores a model; a group without test examples is NaN."""
    every, half, gaps = program(task, params, data, mesh)(params, data)
    found = {}
    every, half = np.asarray(every, float), np.asarray(half, float)  # each [measures, 2, groups]
    with np.errstate(invalid="ignore"):
        for name, whole in zip(measures(task), every, strict=True):
            found |= _shares(name, *whole)
        for half_name, sums in (("validation", half), ("held_out", every - half)):
            shares = _shares("accuracy", *sums[0])
            found |= {f"{half_name}_{name}": shares[name] for name in BY_HALF}
    known = None if gaps is None else _parts(gaps, data)
    return found | prior_matching.metrics(known)


def _shares(name: str, amount: NDArray[np.float64], of: NDArray[np.float64]) -> Metrics:
    """Of each group, and of all."""
    values = [*(amount / of).tolist(), float(amount.sum() / of.sum())]
    names = (f"{group}_{name}" for group in (*GROUPS, "total"))
    return dict(zip(names, values, strict=True))


def _parts(gaps: tuple[jax.Array, jax.Array], data: TestData) -> prior_matching.Parts:
    # JAX keeps the copies that it makes of what is on the device.
    gap, recognised, group, part, real = (
        np.asarray(column).ravel() for column in (*gaps, data.group, data.part, data.real)
    )
    straggler = group == GROUPS.index("straggler")
    return prior_matching.parts(gap, recognised, straggler, part, real)


def program(
    task: Task, params: Params, data: TestData, mesh: Mesh | None = None
) -> jax.stages.Compiled:
    """(params, data) -> sums of each measure [measures, 2, groups], those over what is for
    validation, and each example's gap, if the task has straggler classes."""
    each = tuple(measures(task).values())
    code = (mesh, task.model.apply, task.prepare, each, task.straggler_classes)
    return compiled(_scored, code, params, data)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _scored(mesh, apply, prepare, each, straggler_classes, params: Params, data: TestData):
    def own(params: Params, data: TestData):
        def batch(part: TestData):
            logits = apply(params, prepare(part.x, None), None)
            values = jnp.stack([jnp.stack(measure(logits, part.y)) for measure in each])
            groups = (part.group == jnp.arange(len(GROUPS))[:, None]) & part.real
            chosen = groups & (part.part != prior_matching.HELD_OUT)
            gaps = None
            if straggler_classes is not None:
                gaps = prior_matching.gaps(logits, part.y, straggler_classes)
            # Apart, so that what is summed over all has the bits that it has without the half.
            return _by_group(groups, values), _by_group(chosen, values), gaps

        every, half, gaps = jax.lax.map(batch, data)
        sums = devices.total(mesh, (jnp.sum(every, axis=0), jnp.sum(half, axis=0)))
        return *sums, gaps

    pieces, results = (devices.SAME, devices.SPLIT), (devices.SAME, devices.SAME, devices.SPLIT)
    return devices.everywhere(mesh, own, pieces, results)(params, data)


def _by_group(groups: jax.Array, values: jax.Array) -> jax.Array:
    # `where`, not a product: a diverged model's loss is NaN; padding must not spread it.
    return jnp.sum(jnp.where(groups, values[:, :, None], 0), axis=-1)


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
    owner = np.where(task.test_client < 0, clients, task.test_client)  # the last has no owner
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
