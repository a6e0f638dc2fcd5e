"""Glyphs, the embedded task: EMNIST's shape, no download, seconds to make.

Training examples are what the writers of handwriting.py keep after the straggler split; the test
set has all classes from all writers.
"""

from functools import cache
from numbers import Integral

import jax
import jax.numpy as jnp
import numpy as np

from stragglers._core.errors import check_type
from stragglers._core.random_streams import Purpose
from stragglers.tasks.base import Task, cross_entropy, is_right
from stragglers.tasks.datasets.handwriting import STRAGGLER_CLASSES, book, choose, draw, streams
from stragglers.tasks.models.mlp import mlp

CLASSES = 62
TEST_PER_WRITER = 20

MODEL = mlp()


@cache
def glyphs(writers: int = 200, seed: int = 0) -> Task:
    """Draws the embedded task: handwriting of EMNIST's shape, without a download.

    Args:
        writers: Number of writers, each a client; a quarter of them are stragglers.
        seed: Seed of the drawings.

    Returns:
        The task; equal arguments give the same object.

    Raises:
        BadInput: If `writers` or `seed` is not a whole number in range.

    Example:
        >>> import stragglers as st
        >>> task = st.glyphs(writers=12)
        >>> task.population.clients, task.x.shape[1:]
        (12, (28, 28))
    """
    check_type("writers", writers, Integral, "a whole number")
    check_type("seed", seed, Integral, "a whole number")
    hands, labels, kept, population = book(writers, seed)
    tests = [
        choose(rng, hand, TEST_PER_WRITER)
        for rng, hand in zip(streams(seed, Purpose.TEST_LABELS, writers), hands, strict=True)
    ]
    test_y = np.concatenate(tests)
    # Drawn, then dropped: the drawings that stay must not depend on the split.
    drawn = map(draw, streams(seed, Purpose.DRAWINGS, writers), hands, labels)
    test_drawn = map(draw, streams(seed, Purpose.TEST_DRAWINGS, writers), hands, tests)
    return Task(
        name="glyphs",
        population=population,
        x=np.concatenate([x[keep] for x, keep in zip(drawn, kept, strict=True)]),
        y=np.concatenate([y[keep] for y, keep in zip(labels, kept, strict=True)]),
        offsets=np.concatenate([[0], np.cumsum(population.examples)]),
        test_x=np.concatenate(list(test_drawn)),
        test_y=test_y,
        test_straggler=np.isin(test_y, STRAGGLER_CLASSES),
        model=MODEL,
        prepare=ink,
        loss=cross_entropy,
        score=is_right,
        test_client=np.repeat(np.arange(writers, dtype=np.int32), TEST_PER_WRITER),
        straggler_classes=tuple(STRAGGLER_CLASSES),
    )


def ink(x: jax.Array, key: jax.Array | None) -> jax.Array:
    """Raw pixels, 255 for paper, as 0 for paper and 1 for ink."""
    del key
    return 1 - x.astype(jnp.float32) / 255
