"""Accuracy apart from the decision threshold: one bias b on the logits of the straggler classes.

    gap         m = highest logit of the standard classes - highest logit of the straggler classes
    answer      a straggler class if b > m, else a standard class: the best one of that side
    recognised  the label's logit is above those of all other classes of its own side
    right(b)    number of recognised straggler examples with m < b
                + number of recognised standard examples with m >= b
    b*          argmax of right(b), the optimum nearest to 0
    area        P(m_s < m_n, and both recognised) for a random straggler example s and a random
                standard example n, where ties count one half

Straggler classes are rare in training and common in the test set, so a model may recognise them and
still answer another class. b* corrects that prior and nothing else. It is fitted on the validation
half and measured on the held-out half (`matched_*`). Within the validation half it is fitted on one
quarter of the test examples and measured on the other, both ways (`validation_matched_*`): a number
to choose settings by that uses no held-out example and no example that its own b was fitted on.

The area is that under the curve of straggler accuracy against standard accuracy as b runs. It
depends on no threshold, and, unlike the AUC of straggler against standard classes, an example
counts only if the model also tells its class from the others of its side.
"""

import math
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

HELD_OUT, QUARTERS = 0, (1, 2)
BEYOND = 1.0  # distance of b* from the outermost gap, if everything beyond it is optimal
NAMES = (
    "matched_straggler_accuracy",
    "matched_total_accuracy",
    "matched_bias",
    "straggler_auc",
    "validation_matched_straggler_accuracy",
    "validation_matched_total_accuracy",
)


def gaps(
    logits: jax.Array, y: jax.Array, straggler_classes: tuple[int, ...]
) -> tuple[jax.Array, jax.Array]:
    """Of each example [batch], the gap, and whether its class is recognised."""
    straggler = np.isin(np.arange(logits.shape[-1]), straggler_classes)
    mine = jnp.array(straggler)[y]
    own = straggler == mine[:, None]
    # Maxima alone: on CPUs, XLA takes ten times as long for an argmax.
    rivals = own & (np.arange(len(straggler)) != y[:, None])
    label = jnp.take_along_axis(logits, y[:, None], axis=-1)[:, 0]
    rival = jnp.max(jnp.where(rivals, logits, -jnp.inf), axis=-1)
    across = jnp.max(jnp.where(own, -jnp.inf, logits), axis=-1)
    ahead = jnp.maximum(label, rival) - across
    return jnp.where(mine, -ahead, ahead), label > rival


class Examples(NamedTuple):
    """Test examples as far as a bias matters to them: the recognised ones, by increasing gap."""

    gap: NDArray[np.float64]
    straggler: NDArray[np.bool_]
    straggler_count: int  # of all examples, recognised or not
    total_count: int


def examples(
    gap: NDArray[np.floating],
    recognised: NDArray[np.bool_],
    straggler: NDArray[np.bool_],
    chosen: NDArray[np.bool_],
) -> Examples:
    known = np.flatnonzero(chosen & recognised & (gap == gap))  # a diverged model's gaps are NaN
    known = known[np.argsort(gap[known])]
    counts = np.count_nonzero(chosen & straggler), np.count_nonzero(chosen)
    return Examples(gap[known].astype(np.float64), straggler[known], *map(int, counts))


def fitted(given: Examples) -> float:
    """b*: 0 if no bias is better, else the middle of the nearest optimal interval of gaps."""
    finite = np.isfinite(given.gap)  # others answer the same under every bias
    gap, straggler = given.gap[finite], given.straggler[finite]
    right = np.concatenate([[0], np.cumsum(np.where(straggler, 1, -1))])
    ends = np.concatenate([[-np.inf], gap, [np.inf]])
    low, high = ends[:-1], ends[1:]
    right = np.where(low < high, right, right.min() - 1)  # no bias lies between equal gaps
    best = right == right.max()
    low, high = low[best], high[best]
    nearest = int(np.argmin(np.maximum(0, np.maximum(low, -high))))
    first, last = float(low[nearest]), float(high[nearest])
    if first < 0 < last:
        return 0.0
    if math.isinf(first):
        return last - BEYOND
    return first + BEYOND if math.isinf(last) else (first + last) / 2


def right(given: Examples, bias: float) -> tuple[int, int]:
    """How many straggler examples, and how many of all, are answered right under a bias."""
    straggler = given.straggler & (given.gap < bias)
    standard = ~given.straggler & (given.gap >= bias)
    stragglers = int(np.count_nonzero(straggler))
    return stragglers, stragglers + int(np.count_nonzero(standard))


def area(given: Examples) -> float:
    """Under the curve of straggler accuracy against standard accuracy; NaN if a side is empty."""
    pairs = given.straggler_count * (given.total_count - given.straggler_count)
    if not pairs:
        return math.nan
    mine, others = given.gap[given.straggler], given.gap[~given.straggler]
    not_above = (np.searchsorted(others, mine, side) for side in ("left", "right"))
    above = 2 * len(mine) * len(others) - sum(int(counts.sum()) for counts in not_above)
    return above / 2 / pairs


class Parts(NamedTuple):
    """The test examples by what they are for."""

    held_out: Examples
    validation: Examples
    quarters: tuple[Examples, Examples]  # of all examples: the halves of `validation`


def parts(
    gap: NDArray[np.floating],
    recognised: NDArray[np.bool_],
    straggler: NDArray[np.bool_],
    part: NDArray[np.integer],
    real: NDArray[np.bool_],
) -> Parts:
    of = partial(examples, gap, recognised, straggler)
    first, second = (of(real & (part == number)) for number in QUARTERS)
    return Parts(of(real & (part == HELD_OUT)), of(real & (part != HELD_OUT)), (first, second))


def metrics(given: Parts | None) -> dict[str, float]:
    """NAMES; all NaN without straggler classes, each NaN without test examples of its kind."""
    if given is None:
        return dict.fromkeys(NAMES, math.nan)
    held_out, validation, (first, second) = given
    bias = fitted(validation)
    crossed = zip(right(first, fitted(second)), right(second, fitted(first)), strict=True)
    values = (
        *_shares(right(held_out, bias), held_out),
        bias,
        area(held_out),
        *_shares(map(sum, crossed), validation),
    )
    return dict(zip(NAMES, values, strict=True))


def _shares(right: Iterable[int], of: Examples) -> list[float]:
    counts = of.straggler_count, of.total_count
    return [part / count if count else math.nan for part, count in zip(right, counts, strict=True)]
