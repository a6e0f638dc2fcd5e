"""Randomness with an address: every draw is named by (seed, purpose, block), never by call order.

    normals(seed, purpose, first, last)[:, j]  depends on the row's number alone
    cohorts(seed, purpose, ...)[r]             depends on the round's number alone

A cohort is drawn client by client, without replacement: of those that are left each is as likely as
its weight says.

Draws come in blocks of a fixed size, each from a generator of its own, so that a longer
budget, an evaluation or a resumed run never changes what came before.
"""

from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cohorts = Callable[[np.random.Generator, int], NDArray[np.int32]]  # (generator, rounds)
BLOCK = 1 << 14  # rows drawn together; changing it changes every schedule


class Purpose(IntEnum):
    """Who a stream of draws belongs to; the numbers are part of every result, so only append."""

    CLIENTS = 0  # which clients a round or a refill starts
    FIRST_CLIENTS = 1  # which clients a buffered run starts with
    LATENCY = 2  # the three factors of each dispatch
    TIME_LIMIT = 3  # the one epoch over the population that sets a percentile time limit
    SIZES = 4  # examples of each client of a made-up fleet
    PARTITION = 5  # CIFAR-100's two-level Dirichlet partition
    PICTURE = 6  # the one epoch over the population that a latency figure shows
    TEACHER = 7  # which round of the history teaches each dispatch
    HAND = 8  # the style of each writer of glyphs
    LABELS = 9  # what each writer writes
    DRAWINGS = 10
    TEST_LABELS = 11
    TEST_DRAWINGS = 12
    HELD_OUT = 13  # which drawings of a writer are for testing, where the files do not say
    IMAGES = 14  # which image of its label CIFAR-100's partition deals out next
    DROP_OUT = 15  # which dispatches each fault strikes
    CRASH = 16
    CRASH_TIME = 17  # how far a client is when it crashes
    NAN = 18
    INF = 19
    HUGE = 20
    DUPLICATE = 21
    DEVICE = 22  # what of the three factors a client keeps from one participation to the next
    SUBSET = 23  # which clients of each group are part of a smaller population
    DIGITS = 24  # which of EMNIST's stay where there are to be fewer
    IDLE = 25  # which clients a group starts where busy clients are skipped
    VALIDATION = 26  # which test examples settings may be chosen by
    HOURS = 27  # when each client's day begins
    PROFILE = 28  # the participations by which clients are put into tiers
    TIER = 29  # which tier a round is of
    OF_TIER = 30  # which of its clients
    DEALING = 31  # which client holds each example that a partitioner deals out


def generator(seed: int, purpose: Purpose, *address: int) -> np.random.Generator:
    """The generator at an address; equal addresses give equal draws."""
    return np.random.default_rng([seed, purpose, *address])


def normals(
    seed: int, purpose: Purpose, first: int, last: int, columns: int
) -> NDArray[np.float64]:
    """Rows `first` to `last` of an endless table of standard normal draws, [columns, rows]."""
    return _blocks(lambda block: _normal_block(seed, purpose, block, columns), first, last)


@lru_cache(maxsize=4)  # callers that draw a few rows at a time ask for a block repeatedly
def _normal_block(seed: int, purpose: Purpose, block: int, columns: int) -> NDArray[np.float64]:
    drawn = generator(seed, purpose, block).standard_normal((columns, BLOCK))
    drawn.flags.writeable = False
    return drawn


def uniforms(seed: int, purpose: Purpose, first: int, last: int) -> NDArray[np.float64]:
    """Rows `first` to `last` of an endless table of uniform draws."""
    return _blocks(lambda block: _uniform_block(seed, purpose, block), first, last)


@lru_cache(maxsize=8)
def _uniform_block(seed: int, purpose: Purpose, block: int) -> NDArray[np.float64]:
    drawn = generator(seed, purpose, block).random(BLOCK)
    drawn.flags.writeable = False
    return drawn


def _blocks(
    draw: Callable[[int], NDArray[np.float64]], first: int, last: int
) -> NDArray[np.float64]:
    first_block = first // BLOCK
    offset = first_block * BLOCK
    rows = slice(first - offset, last - offset)
    if last <= offset + BLOCK:
        return draw(first_block)[..., rows].copy()
    blocks = [draw(block) for block in range(first_block, -(-last // BLOCK))]
    return np.concatenate(blocks, axis=-1)[..., rows]


def cohorts(
    seed: int,
    purpose: Purpose,
    clients: int,
    size: int,
    first: int,
    last: int,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.int32]:
    """Rounds `first` to `last` of an endless table of cohorts, each without replacement.

    Takes O(size) a round however many clients there are; with weights O(size log clients), and
    O(clients) where a few have half of all weight.
    """
    draw = _uniform(clients, size) if weights is None else _weighted(weights, size)
    rounds = max(1, BLOCK // size)
    first_block = first // rounds
    blocks = [
        draw(generator(seed, purpose, block), rounds)
        for block in range(first_block, -(-last // rounds))
    ]
    if not blocks:
        return np.empty((0, size), np.int32)
    offset = first_block * rounds
    return np.concatenate(blocks)[first - offset : last - offset]


def _uniform(clients: int, size: int) -> Cohorts:
    """Ordered samples without replacement, all equally likely."""

    def ranked(rng: np.random.Generator, rounds: int) -> NDArray[np.int32]:
        ranks = rng.random((rounds, clients)).argsort(axis=1)
        return ranks[:, :size].astype(np.int32)

    def redrawn(rng: np.random.Generator, rounds: int) -> NDArray[np.int32]:
        return _redrawn(lambda shape: rng.integers(clients, size=shape), size, rounds)

    # Dense: O(clients) is O(size), and drawing anew would drag on.
    return ranked if 4 * size > clients else redrawn


def _weighted(weights: NDArray[np.float64], size: int) -> Cohorts:
    """The same, where the next is each of those that are left in proportion to its weight."""
    clients, weights = len(weights), weights / weights.max()
    upto = weights.cumsum()
    shares = upto / upto[-1]
    with np.errstate(divide="ignore"):
        logarithm = np.log(weights)

    def ranked(rng: np.random.Generator, rounds: int) -> NDArray[np.int32]:
        # A client of weight w comes after an exponential time of rate w: the first are a sample.
        chosen = np.empty((rounds, size), np.int32)
        for row in chosen:
            comes = np.log(rng.standard_exponential(clients)) - logarithm
            first = comes.argpartition(size - 1)[:size]
            row[:] = first[comes[first].argsort()]
        return chosen

    def redrawn(rng: np.random.Generator, rounds: int) -> NDArray[np.int32]:
        return _redrawn(
            lambda shape: np.searchsorted(shares, rng.random(shape), side="right"), size, rounds
        )

    heaviest = np.partition(weights, clients - size)[clients - size :].sum()
    return ranked if 2 * heaviest > upto[-1] else redrawn


def _redrawn(draw: Callable[[Any], NDArray[np.int64]], size: int, rounds: int) -> NDArray[np.int32]:
    """Draws with replacement, then draws anew what stands in its row already."""
    # Only equality with an earlier slot decides, and the first to hold a client keeps it, so each
    # slot ends with the first of its draws that no earlier slot has: a draw from what is left.
    chosen = draw((rounds, size))
    slots = np.arange(size)
    rows = np.arange(rounds)
    while rows.size:
        # One integer sort finds the repeats: the slot rides in the low digits.
        ordered = np.sort(chosen[rows] * size + slots, axis=1)
        repeated = ordered[:, 1:] // size == ordered[:, :-1] // size
        row, place = np.nonzero(repeated)
        chosen[rows[row], ordered[row, place + 1] % size] = draw(row.size)
        rows = rows[np.unique(row)]
    return chosen.astype(np.int32)
