"""Made-up work of the real sizes: what the benchmarks train on.

examples of noise, clients of equal or log-normal size, the four networks
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stragglers.planning.paper_populations import PAPER_GROUPS
from stragglers.planning.population import Population
from stragglers.tasks.base import Task, cross_entropy, is_right
from stragglers.tasks.glyphs import ink
from stragglers.tasks.models.cnn import cnn
from stragglers.tasks.models.lstm import lstm
from stragglers.tasks.models.mlp import mlp
from stragglers.tasks.models.resnet import resnet
from stragglers.tasks.stackoverflow import inputs, summed, words_alone

TESTED = 2_000  # examples


class Work(NamedTuple):
    model: Any
    batch: int
    shape: tuple[int, ...]  # of an example
    flop: float  # of an example forward and backward: 6 for each weight and place it is used at
    prepare: Callable[..., jax.Array] = ink
    loss: Callable[..., jax.Array] = cross_entropy
    score: Callable[..., Any] = is_right


def pixels(x: jax.Array, key: jax.Array | None) -> jax.Array:
    del key
    return x.astype(jnp.float32) / 255


WORK = {
    "cnn": Work(cnn(), 20, (28, 28), 6 * 11_999_104),
    "mlp": Work(mlp(), 20, (28, 28), 6 * 101_056),
    "resnet": Work(resnet(), 20, (24, 24, 3), 6 * 403_076_096, pixels),
    "lstm": Work(lstm(), 16, (21,), 6 * 20 * 3_077_584, inputs, summed, words_alone),
}


def made_up_task(sizes: np.ndarray, name: str) -> Task:
    work, rng = WORK[name], np.random.default_rng(0)
    clients, total = len(sizes), int(sizes.sum())
    rows = np.arange(total + TESTED)
    if name == "lstm":
        x = y = rng.integers(1, 10_000, (len(rows), *work.shape), dtype=np.uint16)
    else:
        x = rng.integers(0, 255, (len(rows), *work.shape), dtype=np.uint8)
        y = rng.integers(0, 62, len(rows), dtype=np.int32)
    who = Population(sizes, np.zeros(clients, np.int16), PAPER_GROUPS, "a benchmark")
    train, test = rows[:total], rows[total:]
    examples = x[train]
    return Task(
        "bench",
        who,
        examples,
        examples if y is x else y[train],
        np.concatenate([[0], np.cumsum(sizes)]),
        x[test],
        y[test],
        test % 5 == 0,
        work.model,
        work.prepare,
        work.loss,
        work.score,
    )


TAILS = {"log-normal": 1.0, "heavy-tailed": np.log(30) / 2.326}  # 99th percentile 30 x the median


def sizes_of(clients: int, mean: int, name: str) -> np.ndarray:
    """Examples of each client: all equal, or log-normal of either width, with the same mean."""
    if name == "equal":
        return np.full(clients, mean)
    tail = np.random.default_rng(1).lognormal(0, TAILS[name], clients)
    return np.maximum(1, np.rint(mean * tail / tail.mean())).astype(int)
