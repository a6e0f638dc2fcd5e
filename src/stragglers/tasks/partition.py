"""Partitioners: which client holds each example, for data that names no clients.

    iid         a random order, cut into equal parts
    shards      examples in the order of their labels, cut into clients * shards equal parts;
                every client holds as many of them, at random (McMahan et al., 2017)
    dirichlet   q[i] ~ Dirichlet(alpha * p), where p is the share of each label; client i draws
                the labels of its n / clients examples from q[i], without replacement: q[i] is
                renormalised over the labels that are left (Hsu et al., 2019)

Each takes labels and returns a column of client numbers, one for each example: the `client_ids` of
`st.task`. Clients are of equal size, give or take one example; none is empty.

Example:
    >>> import numpy as np
    >>> import stragglers as st
    >>> y = np.repeat([0, 1, 2], 4)
    >>> client = st.partition.shards(y, clients=3, shards=1)
    >>> [sorted(set(y[client == number].tolist())) for number in range(3)]
    [[0], [1], [2]]
"""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput, check_type, shown
from stragglers._core.random_streams import Purpose, generator


def iid(y: Any, *, clients: int, seed: int = 0) -> NDArray[np.int32]:
    """Deals examples out at random, whatever their labels."""
    labels = _checked(y, clients, seed)
    order = generator(seed, Purpose.DEALING, 0).permutation(len(labels))
    return _dealt(order, np.arange(clients), clients)


def shards(y: Any, *, clients: int, shards: int = 2, seed: int = 0) -> NDArray[np.int32]:
    """Gives each client a few runs of examples of similar labels."""
    labels = _checked(y, clients, seed)
    check_type("shards", shards, Integral, "a whole number of shards for each client")
    if not 1 <= shards <= len(labels) // clients:
        raise BadInput(
            f"shards = {shards}: {len(labels)} examples make {clients} clients of at most "
            f"{len(labels) // clients} shards. Give fewer shards."
        )
    rng = generator(seed, Purpose.DEALING, 1)
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    return _dealt(order, rng.permutation(np.repeat(np.arange(clients), shards)), clients * shards)


def dirichlet(y: Any, *, clients: int, alpha: float, seed: int = 0) -> NDArray[np.int32]:
    """Gives each client label shares of its own; a small alpha makes them few."""
    labels = _checked(y, clients, seed)
    check_type("alpha", alpha, Real, "a number above 0")
    if not 0 < alpha < np.inf:
        raise BadInput(f"alpha = {alpha}: expected a finite number above 0.")
    rng = generator(seed, Purpose.DEALING, 2)
    _, label, count = np.unique(labels, return_inverse=True, return_counts=True)
    order = rng.permutation(len(label))
    order = order[np.argsort(label[order], kind="stable")]
    taken = np.cumsum(count) - count  # of each label, the place of the next example in `order`
    ends, owner = taken + count, np.empty(len(label), np.int32)
    sizes = np.bincount(_dealt(np.arange(len(label)), np.arange(clients), clients))
    for client, size in enumerate(sizes):
        q = np.exp(_log_dirichlet(rng, alpha * count / len(label)))
        while size:
            left = ends - taken
            share = np.where(left > 0, q, 0)
            # A label that a client never draws is what is left where its own are all taken.
            share = share / share.sum() if share.sum() > 0 else left / left.sum()
            drawn = np.minimum(rng.multinomial(size, share), left)
            for one in np.flatnonzero(drawn):
                owner[order[taken[one] : taken[one] + drawn[one]]] = client
            taken, size = taken + drawn, size - int(drawn.sum())
    return owner


def _log_dirichlet(
    rng: np.random.Generator, concentration: NDArray[np.float64]
) -> NDArray[np.float64]:
    """By logarithms: the draws of a small concentration all underflow to 0.

    Gamma(a) = Gamma(a + 1) * U^(1/a).
    """
    larger = np.log(rng.standard_gamma(concentration + 1))
    logarithm = larger - rng.standard_exponential(len(concentration)) / concentration
    return logarithm - np.logaddexp.reduce(logarithm)


def _dealt(order: NDArray[np.int64], client_of: NDArray[np.int64], parts: int) -> NDArray[np.int32]:
    """Cuts an order into equal parts, and gives each to its client."""
    owner = np.empty(len(order), np.int32)
    owner[order] = client_of[np.arange(len(order)) * parts // len(order)]
    return owner


def _checked(y: Any, clients: int, seed: int) -> NDArray[Any]:
    check_type("clients", clients, Integral, "a whole number of clients")
    check_type("seed", seed, Integral, "a whole number of at least 0")
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "biuSU":
        raise BadInput(f"y = {shown(y)}: expected a column of labels.")
    if not 1 <= clients <= len(labels):
        raise BadInput(
            f"clients = {clients}: expected from 1 to {len(labels)}, the number of examples."
        )
    return labels
