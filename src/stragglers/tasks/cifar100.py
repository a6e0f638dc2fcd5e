"""CIFAR-100 among 500 clients, from TFF's files or from its authors'.

    clients      TFF's, or 100 images each by planning/cifar_partition.py:
                 the very population that `population.cifar100` plans without data
    stragglers   the 125 clients with the most vehicles; all other clients lose their vehicles
    images       x = standardised(crop of 24x24 in the middle)
    standardised (x - mean) / max(sd, 1/sqrt(n)) over the n = 1,728 values of a crop

Under profile distorted every training image has a crop at random and is flipped or not. Under afo a
batch shares the place of its crop, as in the code of 2020, and the loss has 1e-4 times the sum of
squares of the weights.
"""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import about, check_type
from stragglers.planning.cifar_partition import deal
from stragglers.planning.paper_populations import (
    CIFAR100_STRAGGLERS,
    VEHICLES,
    share,
    straggler_split,
)
from stragglers.tasks.base import Task, cross_entropy, is_right, rows_of
from stragglers.tasks.datasets import images
from stragglers.tasks.datasets.cifar100_layouts import CIFAR100
from stragglers.tasks.datasets.cifar_files import COARSE_OF_FINE
from stragglers.tasks.models.resnet import l2_penalty, resnet

Profile = Literal["fedjax", "afo", "distorted"]
SIDE, CROP = 32, 24
MODEL = resnet()


@cache
def cifar100(
    path: str | Path,
    *,
    stragglers: int | None = None,
    straggler_classes: tuple[int, ...] = VEHICLES,
    profile: Profile = "fedjax",
    partition_seed: int = 0,
) -> Task:
    """Reads CIFAR-100: photographs of 500 clients in 100 classes.

    `stragglers data cifar100` says which files there are and fetches them. They are checked and
    prepared once, into a cache.

    Args:
        path: Folder of the files, in any of their public layouts.
        stragglers: Number of straggler clients; by default 125 of 500.
        straggler_classes: Coarse classes that only straggler clients hold.
        profile: Code base whose model and preprocessing are reproduced.
        partition_seed: Seed of the partition, for files that do not assign images to clients.

    Returns:
        The task; equal arguments give the same object.

    Raises:
        BadInput: If the folder has no files of the data set, or they are damaged.

    Example:
        >>> import stragglers as st
        >>> task = st.cifar100("data/cifar100")  # a folder of CIFAR-100's files
        >>> task.name
        'cifar100'
    """
    check_type("path", path, (str, Path), "a folder of data")
    found = images.find(CIFAR100, Path(path))
    data = images.load(CIFAR100, found)
    rows, offsets = np.arange(len(data.y)), data.offsets
    if not found.layout.partitioned:
        rows, offsets = _partitioned(data.y, partition_seed, str(found.train[0]))
    clients = len(offsets) - 1
    slow = np.isin(COARSE_OF_FINE, straggler_classes)  # of each fine label
    count = share(clients, CIFAR100_STRAGGLERS) if stragglers is None else stragglers
    split = straggler_split(slow[data.y[rows]], offsets, count)
    kept = rows[split.keep]
    origin = images.origin(CIFAR100, found, data, clients)
    if not found.layout.partitioned:
        origin += f"; Dirichlet partition (seed {partition_seed})"
    return Task(
        name="cifar100",
        population=split.population(origin),
        x=rows_of(data.x, kept),
        y=data.y[kept],
        offsets=np.concatenate([[0], np.cumsum(split.examples)]),
        test_x=data.test_x,
        test_y=data.test_y,
        test_straggler=slow[data.test_y],
        model=MODEL,
        prepare=PREPARE[profile],
        loss=cross_entropy,
        score=is_right,
        penalty=PENALTY[profile],
        straggler_classes=tuple(np.flatnonzero(slow).tolist()),
    )


def _partitioned(
    fine: NDArray[np.int32], seed: int, where: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the images client by client, and where each client begins."""
    with about(where):
        dealt = deal(fine, COARSE_OF_FINE, seed)
    return dealt.ravel(), np.arange(0, dealt.size + 1, dealt.shape[1])


def crop(x: jax.Array, key: jax.Array | None, together: bool = False) -> jax.Array:
    """[batch, 32, 32, 3] bytes -> [batch, 24, 24, 3]: random crops and flips, each image its own.

    Without a key, the middle. `together`: one place for the whole batch.
    """
    batch, ahead = len(x), jnp.arange(CROP)
    if key is None:
        begin = (SIDE - CROP) // 2
        crops = x[:, begin : begin + CROP, begin : begin + CROP]
        return standardised(crops)
    place, flip = jax.random.split(key)
    begin = jax.random.randint(place, (1 if together else batch, 2), 0, SIDE - CROP + 1)
    begin = jnp.broadcast_to(begin, (batch, 2))
    flipped = jax.random.bernoulli(flip, 0.5, (batch, 1))
    rows = begin[:, :1] + ahead
    columns = begin[:, 1:] + jnp.where(flipped, ahead[::-1], ahead)
    # One gather makes both.
    crops = x[jnp.arange(batch)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return standardised(crops)


def standardised(x: jax.Array) -> jax.Array:
    """Each image with mean 0 and variance 1; one of a single colour becomes 0."""
    x = x.astype(jnp.float32)
    centred = x - x.mean((1, 2, 3), keepdims=True)
    deviation = jnp.sqrt(jnp.square(centred).mean((1, 2, 3), keepdims=True))
    return centred / jnp.maximum(deviation, np.prod(x.shape[1:]) ** -0.5)


def middle(x: jax.Array, key: jax.Array | None) -> jax.Array:
    """Always the crop in the middle."""
    del key
    return crop(x, None)


PREPARE: dict[Profile, Callable[[jax.Array, jax.Array | None], jax.Array]] = {
    "fedjax": middle,
    "afo": partial(crop, together=True),
    "distorted": crop,
}
PENALTY: dict[Profile, Callable | None] = {
    "fedjax": None,
    "afo": partial(l2_penalty, weight=1e-4),
    "distorted": None,
}
