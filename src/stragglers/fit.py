"""A fleet's latency from a log of its participations (logs.py).

    T = T_communication + C + T_per_example * N                      (latency.py)

    factors      of each group: log-normal by the mean and deviation of logarithms, unless the
                 share of reports below some value is off by more than MISFIT and than chance;
                 then by percentiles. Of a log that has only T: totals.py
    persistence  the variance between clients, of all, of a factor's normal scores: one-way
                 analysis of variance, factors weighted by what they add to the spread of T
    correlation  of the scores of communication and T_per_example
    drop_out     the share of those started that never reported

In a plan all clients are chosen alike, so each counts once, however often it is in the log: of a
buffered fleet's log half may be from the fastest few.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers import totals
from stragglers.errors import BadInput
from stragglers.logs import SUM, Log

Array = NDArray[np.float64]

MISFIT = 0.05  # that a log-normal is allowed
CHANCE = 1.36  # over the root of the number of clients: Kolmogorov's, at 5 %
LEVELS = (1, 5, 10, 25, 50, 75, 90, 95, 99)  # percent
AGAIN = 10  # clients that must have taken part twice to tell how persistent luck is
FINEST = 1e-3  # seconds; clocks of logs are no finer, and 0 has no logarithm
ALIKE = 0.05  # deviation of log N below which nothing can be said of its effect


class Factor(NamedTuple):
    setting: dict[str, Any]  # as a TOML file has it
    misfit: float | None  # of a log-normal: how far shares of reports are off, at most


class Fit(NamedTuple):
    factors: dict[str, dict[str, Factor]]  # by group
    persistence: float | None  # None: cannot be told
    correlation: float | None
    drop_out: dict[str, float]  # by group


class _Seen(NamedTuple):
    """A factor in the reports of a group."""

    line: NDArray[np.int64]  # where in them
    client: NDArray[np.int64]
    scores: Array
    weight: Array  # each client's reports have 1 together
    spread: float  # seconds between the 10th and the 90th percentile


def fit(log: Log) -> Fit:
    factors, seen = {}, []
    for index, name in enumerate(log.groups):
        lines = log.came & (log.group[log.client] == index)
        if not lines.any():
            raise BadInput(f"{log.path}: no report of group {name!r}; leave its lines out")
        found = _whole(log, lines) if SUM in log.times else _parts(log, lines)
        factors[name] = {factor: one for factor, (one, _) in found.items()}
        seen.append({factor: one for factor, (_, one) in found.items() if one})
    return Fit(factors, _persistence(seen), _correlation(seen), _drop_out(log))


def document(fitted: Fit, log: Log, clients_file: str) -> dict[str, Any]:
    """A fleet for `stragglers plan`, with a schedule to begin with."""
    goal = max(1, min(100, len(log.names) // 10))
    lost = {name: share for name, share in fitted.drop_out.items() if share}
    luck = {"persistence": fitted.persistence, "correlation": fitted.correlation}
    return {
        "updates": 1_000 * goal,
        "task": {"name": "fleet", "csv": clients_file},
        "latency": {
            "model": "groups",
            **{name: _rounded(value) for name, value in luck.items() if value},
            "groups": {
                group: {name: factor.setting for name, factor in its.items()}
                for group, its in fitted.factors.items()
            },
        },
        "schedule": {"kind": "over_selected", "goal": goal, "over_selection": 1.3},
        **({"faults": {"drop_out": {k: _rounded(v) for k, v in lost.items()}}} if lost else {}),
    }


def quantiles(values: Array, weight: Array, levels: Array) -> Array:
    """Of weighted values; `levels` from 0 to 1."""
    order = np.argsort(values)
    middle = np.cumsum(weight[order]) - weight[order] / 2
    return np.interp(levels, middle / weight.sum(), values[order])


def each_once(client: NDArray[np.int64]) -> Array:
    """Weights of reports under which every client counts the same."""
    return 1 / np.bincount(client)[client]


# Factors.


def _parts(log: Log, lines: NDArray[np.bool_]) -> dict[str, tuple[Factor, _Seen | None]]:
    times = {name: column[lines] for name, column in log.times.items()}
    client, examples = log.client[lines], log.examples[lines]
    trained = examples > 0  # of others there is no time per example
    overhead = times.get("overhead", np.zeros(len(client)))
    found = {
        "communication": _factor(times["communication"], client),
        "overhead": _factor(overhead, client),
        "per_example": (Factor(_constant(0.0), None), None),
    }
    if trained.any():
        rate = times["training"][trained] / examples[trained]
        one, seen = _factor(rate, client[trained], 1e-9, float(examples.mean()))
        found["per_example"] = one, seen and seen._replace(line=np.flatnonzero(trained))
    return found


def _whole(log: Log, lines: NDArray[np.bool_]) -> dict[str, tuple[Factor, _Seen | None]]:
    """Overhead is what everybody needs then; what else does not go by examples, communication."""
    client, examples = log.client[lines], log.examples[lines].astype(float)
    total = np.maximum(log.total[lines], FINEST)
    nothing = Factor(_constant(0.0), None), None
    if np.std(np.log(np.maximum(examples, 1))) < ALIKE:
        return {"communication": _factor(total, client), "overhead": nothing,
                "per_example": nothing}  # fmt: skip
    weight = each_once(client)
    its = totals.parts(total, examples, weight)
    scores = totals.scores(total, examples, its)
    seen = _Seen(np.arange(len(client)), client, scores, weight, 1.0)
    off = _off(scores, weight)
    return {
        "communication": (Factor(_lognormal(its.mu_a, its.sigma_a), off), seen),
        "overhead": (Factor(_constant(its.constant), None), None),
        "per_example": (Factor(_lognormal(its.mu_b, its.sigma_b), off), None),
    }


def _factor(
    values: Array, client: NDArray[np.int64], finest: float = FINEST, scale: float = 1.0
) -> tuple[Factor, _Seen | None]:
    """`scale`: what a second of it adds to T."""
    logs = np.log(np.maximum(values, finest))
    if np.ptp(logs) == 0:
        return Factor(_constant(float(values[0])), None), None
    from scipy.special import ndtri

    weight = each_once(client)
    mu = float(np.average(logs, weights=weight))
    sigma = math.sqrt(np.average((logs - mu) ** 2, weights=weight))
    off = _off((logs - mu) / sigma, weight)
    low, high = np.exp(quantiles(logs, weight, np.array([0.1, 0.9])))
    scores = ndtri(_middles(logs, weight))
    seen = _Seen(np.arange(len(client)), client, scores, weight, scale * float(high - low))
    if off <= max(MISFIT, CHANCE / math.sqrt(len(np.unique(client)))):
        return Factor(_lognormal(mu, sigma), off), seen
    found = np.exp(quantiles(logs, weight, np.array(LEVELS) / 100))
    table = {str(level): _rounded(value) for level, value in zip(LEVELS, found, strict=True)}
    return Factor({"kind": "percentiles", "table": table}, off), seen


def _middles(values: Array, weight: Array) -> Array:
    """The share of weight below each value, half of its own included; equal ones have the same."""
    _, which = np.unique(values, return_inverse=True)
    mass = np.bincount(which, weight)
    return ((np.cumsum(mass) - mass / 2) / mass.sum())[which]


def _off(scores: Array, weight: Array) -> float:
    """How far shares of reports below some value are from those of a normal distribution."""
    from scipy.special import ndtr

    ends, which = np.unique(scores, return_inverse=True)
    mass = np.bincount(which, weight) / weight.sum()
    above, expected = np.cumsum(mass), ndtr(ends)
    return float(np.max([np.abs(above - expected), np.abs(above - mass - expected)]))


def _lognormal(mu: float, sigma: float) -> dict[str, Any]:
    return {"kind": "lognormal", "mu": _rounded(mu), "sigma": _rounded(sigma)}


def _constant(value: float) -> dict[str, Any]:
    return {"kind": "constant", "value": _rounded(value)}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


# What clients keep from one participation to the next, and what goes together.


def _persistence(seen: list[dict[str, _Seen]]) -> float | None:
    every = [one for group in seen for one in group.values()]
    told = [(_between(one), one.spread * len(one.client)) for one in every]
    shares = [(share, weight) for share, weight in told if share is not None]
    if not shares:
        return None
    values, weights = zip(*shares, strict=True)
    return float(np.clip(np.average(values, weights=weights), 0, 1))


def _between(one: _Seen) -> float | None:
    """Of the variance of scores, the share that is between clients."""
    clients, which, times = np.unique(one.client, return_inverse=True, return_counts=True)
    if np.sum(times > 1) < AGAIN:
        return None
    lines = len(which)
    means = np.bincount(which, one.scores) / times
    within = np.sum((one.scores - means[which]) ** 2) / (lines - len(clients))
    between = np.sum(times * (means - one.scores.mean()) ** 2) / (len(clients) - 1)
    typical = (lines - np.sum(times**2) / lines) / (len(clients) - 1)
    return float((between - within) / (between + (typical - 1) * within))


def _correlation(seen: list[dict[str, _Seen]]) -> float | None:
    """Within groups: that one of them is slower at both is in its factors."""
    pairs = [(group["communication"], group["per_example"]) for group in seen
             if {"communication", "per_example"} <= group.keys()]  # fmt: skip
    if not pairs:
        return None
    a, b, weight = (np.concatenate(columns) for columns in zip(
        *((a.scores[b.line], b.scores, b.weight) for a, b in pairs), strict=True))  # fmt: skip
    both = np.average(a * b, weights=weight)
    alone = np.average(a**2, weights=weight) * np.average(b**2, weights=weight)
    return float(both / math.sqrt(alone))


def _drop_out(log: Log) -> dict[str, float]:
    weight, group = each_once(log.client), log.group[log.client]
    return {
        name: float(np.average(~log.came[group == index], weights=weight[group == index]))
        for index, name in enumerate(log.groups)
    }
