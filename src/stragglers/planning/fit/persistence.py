"""What clients keep from one participation to the next, and what goes together, in reports.

    p = V_between / (V_between + V_within)           of normal scores of a factor, by client:
        V_within   mean of the variances of clients' own scores
        V_between  variance of their means, less V_within * the mean of 1 / participations
    r = mean(z z') / sqrt(mean(z^2) mean(z'^2))      of those of communication and T_per_example

These are the `persistence` and the `correlation` of latency.py. Clients count once, however often
they are in a log, and what fewer than FEWEST of them show is taken for chance.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FEWEST = 10  # clients


class Seen(NamedTuple):
    """A factor in the reports of a group."""

    line: NDArray[np.int64]  # where in them
    client: NDArray[np.int64]
    scores: Array
    spread: float  # what it adds to T, in seconds between the 10th and the 90th percentile


def each_once(client: NDArray[np.int64]) -> Array:
    """Weights of reports under which every client counts the same."""
    return 1 / np.bincount(client)[client]


def persistence(groups: list[dict[str, Seen]]) -> float | None:
    """Of all factors, by what they add to the spread of T; None if it cannot be told."""
    every = [one for group in groups for one in group.values()]
    told = [(_kept(one), one.spread * len(np.unique(one.client))) for one in every]
    shares = [(share, weight) for share, weight in told if share is not None and weight]
    if not shares:
        return None
    values, weights = zip(*shares, strict=True)
    return float(np.clip(np.average(values, weights=weights), 0, 1))


def _kept(one: Seen) -> float | None:
    _, which, times = np.unique(one.client, return_inverse=True, return_counts=True)
    again = times > 1
    if again.sum() < FEWEST:
        return None
    means = np.bincount(which, one.scores) / times
    squares = np.bincount(which, (one.scores - means[which]) ** 2)
    within = np.mean(squares[again] / (times[again] - 1))
    between = np.var(means, ddof=1) - within * np.mean(1 / times)
    return float(between / (between + within))


def correlation(groups: list[dict[str, Seen]]) -> float | None:
    """Within groups: that one of them is slower at both is in its factors."""
    pairs = [
        (group["communication"], group["per_example"])
        for group in groups
        if {"communication", "per_example"} <= group.keys()
    ]
    if sum(len(np.unique(b.client)) for _, b in pairs) < FEWEST:
        return None
    a, b, weight = (
        np.concatenate(columns)
        for columns in zip(
            *((a.scores[b.line], b.scores, each_once(b.client)) for a, b in pairs), strict=True
        )
    )
    alone = np.average(a**2, weights=weight) * np.average(b**2, weights=weight)
    both = np.average(a * b, weights=weight)
    return float(np.clip(both / np.sqrt(alone), -1, 1)) if alone else None
