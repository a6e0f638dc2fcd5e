"""Glyphs, the embedded task: EMNIST's shape, no download, seconds to make.

The split is that of Hard et al. (2024): the writers with the most digits 0-4 are the stragglers
(800 of 3,400), and everybody else loses those digits. The test set has all classes from all
writers. What a writer draws does not depend on how many writers there are; whether the writer is
a straggler, and so which drawings are kept, does.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stragglers import draws
from stragglers.draws import Purpose
from stragglers.errors import BadInput
from stragglers.models.mlp import mlp
from stragglers.population import PAPER_GROUPS, Population, most
from stragglers.tasks.base import Task
from stragglers.tasks.handwriting import choose, draw, learn_to_write

STRAGGLER_CLASSES = range(5)
STRAGGLER_SHARE = 800 / 3400
CLASSES = 62
TEST_PER_WRITER = 20

MODEL = mlp(hidden=(256, 128), classes=CLASSES, pool=2)


@cache
def glyphs(writers: int = 200, seed: int = 0) -> Task:
    """Draws the data set; equal arguments give the same object."""
    if writers < 1:
        raise BadInput(f"writers={writers}, expected 1 or more")

    def each(purpose: Purpose):
        return (draws.generator(seed, purpose, w) for w in range(writers))

    hands = [learn_to_write(rng) for rng in each(Purpose.HAND)]
    labels = [choose(rng, h, h.size) for rng, h in zip(each(Purpose.LABELS), hands, strict=True)]
    tests = [
        choose(rng, hand, TEST_PER_WRITER)
        for rng, hand in zip(each(Purpose.TEST_LABELS), hands, strict=True)
    ]
    digits = [np.isin(y, STRAGGLER_CLASSES) for y in labels]
    straggler = most(np.array([mask.sum() for mask in digits]), _stragglers(writers))
    kept = [slow | ~mask for slow, mask in zip(straggler, digits, strict=True)]

    # Drawn, then dropped: the drawings that stay must not depend on the split.
    drawn = map(draw, each(Purpose.DRAWINGS), hands, labels)
    images = [x[keep] for x, keep in zip(drawn, kept, strict=True)]
    test_y = np.concatenate(tests)
    sizes = np.array([keep.sum() for keep in kept])
    origin = f"{writers} writers of the embedded glyphs (seed {seed})"
    return Task(
        name="glyphs",
        population=Population(sizes, straggler.astype(np.int16), PAPER_GROUPS, origin),
        x=np.concatenate(images),
        y=np.concatenate([y[keep] for y, keep in zip(labels, kept, strict=True)]),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        test_x=np.concatenate(list(map(draw, each(Purpose.TEST_DRAWINGS), hands, tests))),
        test_y=test_y,
        test_straggler=np.isin(test_y, STRAGGLER_CLASSES),
        model=MODEL,
        prepare=ink,
        loss=cross_entropy,
        score=is_right,
    )


def _stragglers(writers: int) -> int:
    return max(1, round(STRAGGLER_SHARE * writers))


def ink(x: jax.Array, key: jax.Array | None) -> jax.Array:
    """Raw pixels, 255 for paper, as 0 for paper and 1 for ink."""
    del key
    return 1 - x.astype(jnp.float32) / 255


def cross_entropy(logits: jax.Array, y: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, y)


def is_right(logits: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    right = (jnp.argmax(logits, axis=-1) == y).astype(jnp.float32)
    return right, jnp.ones_like(right)
