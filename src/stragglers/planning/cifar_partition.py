"""CIFAR-100's two-level Dirichlet partition, from labels alone (Reddi et al., 2021, appendix C).

    p ~ Dir(0.1) over the coarse classes,  q[c] ~ Dir(10) over the fine labels of each
    image after image:  c ~ p,  f ~ q[c],  an image of label f that is not dealt yet

A fine label that has run out leaves its q, an emptied coarse class leaves p, and both are
renormalised. Fine label f belongs to coarse class f // 5 here: with labels alone, only how they
are grouped matters. `deal` hands out images that have labels of their own.
"""

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput

COARSE, FINE_PER_COARSE, IMAGES_PER_LABEL = 20, 5, 500


def dirichlet_partition(
    seed: int, clients: int = 500, images_per_label: int = IMAGES_PER_LABEL
) -> NDArray[np.int64]:
    """The fine labels of each client's images, [clients, images], all images dealt out once."""
    left = np.full((COARSE, FINE_PER_COARSE), images_per_label)
    each = left.sum() // clients
    labels = np.empty((clients, each), np.int64)
    for client in range(clients):
        rng = random_streams.generator(seed, random_streams.Purpose.PARTITION, client)
        p = rng.dirichlet(np.full(COARSE, 0.1))
        q = rng.dirichlet(np.full(FINE_PER_COARSE, 10.0), COARSE)
        taken = 0
        while taken < each:
            # Draws until a label runs out are independent, so they are made together.
            chance = _joint(p, q, left).ravel().cumsum()
            wanted = np.searchsorted(chance, rng.random(each - taken) * chance[-1], side="right")
            allowed = _until_one_runs_out(wanted, left.ravel())
            labels[client, taken : taken + allowed] = wanted[:allowed]
            left -= np.bincount(wanted[:allowed], minlength=left.size).reshape(left.shape)
            taken += allowed
    return labels


def deal(
    fine: NDArray[np.int32], coarse_of_fine: NDArray[np.int64], seed: int
) -> NDArray[np.int64]:
    """The images of each client, [clients, images], by the partition of the same seed.

    The j-th fine label of coarse class c stands for the partition's label 5 c + j, and clients
    take its images in an order that was shuffled once. 100 images make a client.
    """
    counts = np.bincount(fine, minlength=len(coarse_of_fine))
    each = int(counts[0])
    if each == 0 or (counts != each).any():
        label = int(np.flatnonzero(counts != each)[0]) if each else 0
        raise BadInput(
            f"{counts[label]} images of label {label} and {each} of label 0, expected equally many "
            "of each, as CIFAR-100 has"
        )
    real = np.argsort(coarse_of_fine, kind="stable")  # of each of the partition's labels
    wanted = real[dirichlet_partition(seed, each, each)]
    rng = random_streams.generator(seed, random_streams.Purpose.IMAGES)
    shuffled = rng.permutation(len(fine))
    stock = shuffled[np.argsort(fine[shuffled], kind="stable")]  # label by label
    dealt = np.empty(wanted.size, np.int64)
    dealt[np.argsort(wanted, axis=None, kind="stable")] = stock
    return dealt.reshape(wanted.shape)


def _joint(
    p: NDArray[np.float64], q: NDArray[np.float64], left: NDArray[np.int64]
) -> NDArray[np.float64]:
    """P(coarse, fine) over what is left."""
    q = q * (left > 0)
    mass = q.sum(axis=1, keepdims=True)
    joint = p[:, None] * np.divide(q, mass, out=np.zeros_like(q), where=mass > 0)
    # A client whose whole taste is sold out takes what there is.
    return joint if joint.sum() > 0 else (left > 0).astype(float)


def _until_one_runs_out(wanted: NDArray[np.int64], left: NDArray[np.int64]) -> int:
    """How many of the draws can be served before a label is wanted that has run out."""
    order = np.argsort(wanted, kind="stable")
    ranked = wanted[order]
    rank = np.arange(len(wanted)) - np.searchsorted(ranked, ranked)  # 0, 1, ... for each label
    refused = order[rank >= left[ranked]]
    return int(refused.min()) if refused.size else len(wanted)
