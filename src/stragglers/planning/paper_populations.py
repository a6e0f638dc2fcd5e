"""The paper's split of clients, and models of the clients of its tasks.

The clients richest in the straggler classes are the stragglers; all others lose those classes (Hard
et al., section 4.1). Sizes are those after the removal.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.planning.cifar_partition import FINE_PER_COARSE, dirichlet_partition
from stragglers.planning.population import Population

PAPER_GROUPS = ("standard", "straggler")
VEHICLES = (18, 19)  # CIFAR-100's coarse classes "vehicles 1" and "vehicles 2"
EMNIST_STRAGGLERS, CIFAR100_STRAGGLERS = (800, 3400), (125, 500)  # of so many clients


def cifar100(
    partition_seed: int = 0,
    stragglers: int | None = None,
    straggler_classes: Sequence[int] = VEHICLES,
) -> Population:
    """CIFAR-100's 500 clients, partitioned anew from labels alone; 125 of them stragglers."""
    coarse = dirichlet_partition(partition_seed) // FINE_PER_COARSE
    clients, each = coarse.shape
    split = straggler_split(
        np.isin(coarse, straggler_classes).ravel(),
        np.arange(0, coarse.size + 1, each),
        share(clients, CIFAR100_STRAGGLERS) if stragglers is None else stragglers,
    )
    origin = f"CIFAR-100's Dirichlet partition made from labels alone (seed {partition_seed})"
    return split.population(origin)


class Split(NamedTuple):
    """The paper's split of clients, and what it leaves of their examples."""

    straggler: NDArray[np.bool_]  # of each client
    keep: NDArray[np.bool_]  # of each example: not a straggler class with a standard client
    examples: NDArray[np.int64]  # of each client, after the removal

    def population(self, origin: str) -> Population:
        return Population(self.examples, self.straggler.astype(np.int16), PAPER_GROUPS, origin)


def straggler_split(slow: NDArray[np.bool_], offsets: NDArray[np.int64], stragglers: int) -> Split:
    """Splits clients whose rows lie side by side; `slow` marks examples of straggler classes.

    A client that loses everything keeps its place, with no examples.
    """
    clients = len(offsets) - 1
    if not 0 <= stragglers <= clients:
        raise BadInput(f"stragglers={stragglers} of {clients} clients, expected at most {clients}")
    owner = np.repeat(np.arange(clients), np.diff(offsets))
    straggler = most(np.bincount(owner[slow], minlength=clients), stragglers)
    keep = straggler[owner] | ~slow
    return Split(straggler, keep, np.bincount(owner[keep], minlength=clients))


def share(clients: int, published: tuple[int, int]) -> int:
    """As many stragglers among these clients as the paper has among its own, at least one."""
    stragglers, of = published
    return max(1, round(clients * stragglers / of))


def most(count: NDArray[np.int64], stragglers: int) -> NDArray[np.bool_]:
    """Marks the clients with the highest counts; equal counts go to the lower index."""
    marked = np.zeros(len(count), bool)
    marked[np.argsort(-count, kind="stable")[:stragglers]] = True
    return marked


def emnist() -> Population:
    """A model of EMNIST's 3,400 writers, 800 of them stragglers.

    Real writers are of two kinds, short and long; the tables are percentiles of LEAF's writers
    (standard ones without their digits 0-4). Only the share of long writers in each group was
    fitted: to the paper's latency percentiles and to the published total, never to its times.
    """
    short, long = [0, 0.05, 0.25, 0.5, 0.75, 1], [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]
    standard = np.concatenate(
        [
            np.interp(_midpoints(1363), short, [28, 70, 88, 95, 100, 105]),
            np.interp(_midpoints(1237), long, [13, 93, 178, 232, 277, 331, 371]),
        ]
    )
    straggler = np.concatenate(
        [
            np.interp(_midpoints(661), short, [134, 150, 157, 160, 162, 165]),
            np.interp(_midpoints(139), long, [60, 140, 225, 279, 324, 378, 418]),
        ]
    )
    return _paper_model(standard, straggler, "a model of EMNIST's client sizes, not its data")


def stackoverflow() -> Population:
    """A model of StackOverflow's 342,477 users, 93,882 of them stragglers.

    A floor (users of under 100 sentences were removed from the data) plus a log-normal excess,
    fitted to the paper's latency percentiles and the published total of 135,818,730 sentences,
    which pins the tail; never to its times.
    """
    from scipy.special import ndtri

    standard = 70.9 + np.exp(4.525 + 1.2575 * ndtri(_midpoints(248_595)))
    straggler = 111.5 + np.exp(5.046 + 1.653 * ndtri(_midpoints(93_882)))
    return _paper_model(
        standard, straggler, "a model of StackOverflow's client sizes, not its data"
    )


def _midpoints(clients: int) -> NDArray[np.float64]:
    return (np.arange(clients) + 0.5) / clients


def _paper_model(
    standard: NDArray[np.float64], straggler: NDArray[np.float64], origin: str
) -> Population:
    group = np.repeat(np.arange(2, dtype=np.int16), [len(standard), len(straggler)])
    sizes = np.rint(np.concatenate([standard, straggler])).astype(np.int64)
    return Population(sizes, group, PAPER_GROUPS, origin)
