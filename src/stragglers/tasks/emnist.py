"""EMNIST: handwriting by writer, 62 classes, from any of the published files.

stragglers   the writers with the most digits 0-4: 800 of 3,400, or as many for their number
training     what writers keep after the split; test: everything
digits       of all images, if a share is given: some are then left out, at random, in both
input        1 - pixel under profile fedjax (0 is paper), the pixel itself under afo
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput, check_type
from stragglers._core.random_streams import Purpose
from stragglers.planning.paper_populations import EMNIST_STRAGGLERS, share, straggler_split
from stragglers.tasks.base import Task, cross_entropy, is_right, rows_of
from stragglers.tasks.datasets import images
from stragglers.tasks.datasets.emnist_layouts import EMNIST
from stragglers.tasks.datasets.images import Images
from stragglers.tasks.models.base import Profile
from stragglers.tasks.models.cnn import cnn

DIGITS = (0, 1, 2, 3, 4)


@cache
def emnist(
    path: str | Path,
    *,
    stragglers: int | None = None,
    straggler_classes: tuple[int, ...] = DIGITS,
    profile: Profile = "fedjax",
    digits: float | None = None,
) -> Task:
    """Reads EMNIST: handwriting of 3,400 writers in 62 classes.

    `stragglers data emnist` says which files there are and fetches them. They are checked and
    prepared once, into a cache.

    Args:
        path: Folder of the files, in any of their public layouts.
        stragglers: Number of straggler clients; by default 800 of 3,400.
        straggler_classes: Classes that only straggler clients hold.
        profile: Code base whose model and preprocessing are reproduced.
        digits: Share of digits among the images; by default as in the files.

    Returns:
        The task; equal arguments give the same object.

    Raises:
        BadInput: If the folder has no files of the data set, or they are damaged.

    Example:
        >>> import stragglers as st
        >>> task = st.emnist("data/emnist")  # a folder of EMNIST's files
        >>> task.name
        'emnist'
    """
    check_type("path", path, (str, Path), "a folder of data")
    found = images.find(EMNIST, Path(path))
    data = images.load(EMNIST, found)
    clients = len(data.offsets) - 1
    origin = images.origin(EMNIST, found, data, clients)
    if digits is not None:
        data, origin = thinned(data, digits), f"{origin}; digits are {100 * digits:.4g} % of them"
    count = share(clients, EMNIST_STRAGGLERS) if stragglers is None else stragglers
    split = straggler_split(np.isin(data.y, straggler_classes), data.offsets, count)
    kept = np.flatnonzero(split.keep)
    return Task(
        name="emnist",
        population=split.population(origin),
        x=rows_of(data.x, kept),
        y=data.y[kept],
        offsets=np.concatenate([[0], np.cumsum(split.examples)]),
        test_x=data.test_x,
        test_y=data.test_y,
        test_straggler=np.isin(data.test_y, straggler_classes),
        model=_model(profile),
        prepare=PREPARE[profile],
        loss=cross_entropy,
        score=is_right,
        test_client=data.test_client,
        straggler_classes=tuple(straggler_classes),
    )


def thinned(data: Images, digits: float) -> Images:
    """The images of which digits are this share; parts of LEAF's writers have more than all."""
    keep, test = (
        _with_fewer_digits(y, digits, part) for part, y in enumerate((data.y, data.test_y))
    )
    train = np.flatnonzero(keep)
    return Images(
        rows_of(data.x, train),
        data.y[train],
        np.concatenate([[0], np.cumsum(keep)])[data.offsets],
        rows_of(data.test_x, np.flatnonzero(test)),
        data.test_y[test],
        data.test_client[test],
    )


def _with_fewer_digits(y: NDArray[np.int32], digits: float, part: int) -> NDArray[np.bool_]:
    places = np.flatnonzero(y < 10)
    wanted = round(digits / (1 - digits) * (len(y) - len(places)))
    if wanted > len(places):
        share = len(places) / len(y)
        raise BadInput(
            f"task.digits={digits:g} given, expected at most {share:.3g}, their share "
            "in the files; lower it, or leave it out"
        )
    keep = y >= 10
    keep[random_streams.generator(0, Purpose.DIGITS, part).permutation(places)[:wanted]] = True
    return keep


_model = cache(cnn)  # one object for each profile, and so one program


def raw(x: jax.Array, key: jax.Array | None) -> jax.Array:
    """0 for ink to 1 for paper, from bytes or from floats."""
    del key
    return x.astype(jnp.float32) / 255 if x.dtype == jnp.uint8 else x


def ink(x: jax.Array, key: jax.Array | None) -> jax.Array:
    """0 for paper to 1 for ink."""
    return 1 - raw(x, key)


PREPARE: dict[Profile, Callable[[jax.Array, jax.Array | None], jax.Array]] = {
    "fedjax": ink,
    "afo": raw,
}
