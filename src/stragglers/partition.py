"""CIFAR-100's two-level Dirichlet partition, from labels alone (Reddi et al., 2021, appendix C).

    p ~ Dir(0.1) over the coarse classes,  q[c] ~ Dir(10) over the fine labels of each
    image after image:  c ~ p,  f ~ q[c],  an image of label f that nobody has yet

A fine label that has run out leaves its q, an emptied coarse class leaves p, and both are
renormalised. Fine label f belongs to coarse class f // 5 here: with labels alone, only how they
are grouped matters.
"""

import numpy as np
from numpy.typing import NDArray

from stragglers import draws

COARSE, FINE_PER_COARSE, IMAGES_PER_LABEL = 20, 5, 500


def dirichlet_partition(
    seed: int, clients: int = 500, images_per_label: int = IMAGES_PER_LABEL
) -> NDArray[np.int64]:
    """The fine labels of each client's images, [clients, images], all images dealt out once."""
    left = np.full((COARSE, FINE_PER_COARSE), images_per_label)
    each = left.sum() // clients
    labels = np.empty((clients, each), np.int64)
    for client in range(clients):
        rng = draws.generator(seed, draws.Purpose.PARTITION, client)
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
