"""A fleet's latency from a log of its participations (logs.py).

    T = T_communication + C + T_per_example * N                      (latency.py)

    factors      of each group: log-normal by the mean and deviation of logarithms, unless the
                 share of reports below some value is off by more than MISFIT and than chance;
                 then by percentiles. Of a log that has only T: totals.py
    persistence, correlation: fit/persistence.py
    drop_out     the share of those started that never reported

In a plan all clients are chosen alike, so each counts once, however often it is in the log: of a
buffered fleet's log half may be from the fastest few.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.planning.fit import totals
from stragglers.planning.fit.logs import SUM, Log
from stragglers.planning.fit.persistence import Seen, correlation, each_once, persistence

Array = NDArray[np.float64]

MISFIT = 0.05  # that a log-normal is allowed
CHANCE = 1.36  # over the root of the number of clients: Kolmogorov's, at 5 %
# Percent. Beyond the last level a table extends as between the last two, so that level is far out.
LEVELS = (1, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99)
FINEST = 1e-3  # seconds; clocks of logs are no finer, and 0 has no logarithm
SAME = 1e-3  # between logarithms: what differs less is constant, to the digits that are written
ALIKE = 0.05  # deviation of log N below which nothing can be said of its effect


class Factor(NamedTuple):
    setting: dict[str, Any]  # as a TOML file has it
    misfit: float | None  # of a log-normal: how far shares of reports are off, at most


class Fit(NamedTuple):
    factors: dict[str, dict[str, Factor]]  # by group
    persistence: float | None  # None: cannot be told
    correlation: float | None
    drop_out: dict[str, float]  # by group
    few: tuple[str, ...]  # groups fitted with three parameters instead of five: totals.py


def fit(log: Log) -> Fit:
    factors, seen, few = {}, [], []
    came, group = log.came, log.group[log.client]
    for index, name in enumerate(log.groups):
        lines = came & (group == index)
        if not lines.any():
            raise BadInput(f"{log.path}: no report of group {name!r}; leave its lines out")
        found = _whole(log, lines) if SUM in log.times else _parts(log, lines)
        factors[name] = {factor: one for factor, (one, _) in found.items()}
        few += [name] if _is_few(log, lines) else []
        seen.append({factor: one for factor, (_, one) in found.items() if one})
    weight = each_once(log.client)
    drop_out = {
        name: float(np.average(~came[group == index], weights=weight[group == index]))
        for index, name in enumerate(log.groups)
    }
    return Fit(factors, persistence(seen), correlation(seen), drop_out, tuple(few))


def document(fitted: Fit, log: Log, clients_file: str) -> dict[str, Any]:
    """A fleet for `stragglers plan`, with a schedule to begin with."""
    goal = max(1, min(100, len(log.names) // 10))
    kept = {"persistence": fitted.persistence, "correlation": fitted.correlation}
    more = 1.3 if len(log.names) > 1 else 1.0  # of one client there is no second to start
    schedule: dict[str, Any] = {
        "kind": "over_selected",
        "goal": goal,
        "over_selection": more,
        "busy": "skip",
    }
    found: dict[str, Any] = {
        "updates": 1_000 * goal,
        "task": {"name": "fleet", "csv": clients_file},
        "latency": {
            "model": "groups",
            **{name: round(value, 3) for name, value in kept.items() if value},
            "groups": {
                group: {name: factor.setting for name, factor in its.items()}
                for group, its in fitted.factors.items()
            },
        },
        "schedule": schedule,
    }
    lost = {name: _rounded(share) for name, share in fitted.drop_out.items() if share}
    if lost:  # a round might wait forever; none waited longer for a report than this
        schedule["round_timeout"] = float(max(1, math.ceil(np.nanmax(log.total))))
        found["faults"] = {"drop_out": lost}
    return found


def quantiles(values: Array, weight: Array, levels: Array) -> Array:
    """Of weighted values; `levels` from 0 to 1."""
    order = np.argsort(values)
    middle = np.cumsum(weight[order]) - weight[order] / 2
    return np.interp(levels, middle / weight.sum(), values[order])


# Factors.


def _parts(log: Log, lines: NDArray[np.bool_]) -> dict[str, tuple[Factor, Seen | None]]:
    times = {name: column[lines] for name, column in log.times.items()}
    client, examples = log.client[lines], log.examples[lines]
    trained = examples > 0  # of others there is no time per example
    found = {
        "communication": _factor(times["communication"], client),
        "overhead": _factor(times["overhead"], client) if "overhead" in times else _nothing(),
        "per_example": _nothing(),
    }
    if trained.any():
        one, seen = _factor(times["training"][trained], client[trained], examples[trained])
        found["per_example"] = one, seen and seen._replace(line=np.flatnonzero(trained))
    return found


def _whole(log: Log, lines: NDArray[np.bool_]) -> dict[str, tuple[Factor, Seen | None]]:
    """Overhead is the time that all clients need; other time without examples is communication."""
    client, examples = log.client[lines], log.examples[lines].astype(float)
    total = np.maximum(log.total[lines], FINEST)
    if _alike(examples):
        return {
            "communication": _factor(total, client),
            "overhead": _nothing(),
            "per_example": _nothing(),
        }
    weight = each_once(client)
    its = totals.parts(total, examples, weight, few=_is_few(log, lines))
    scores = totals.scores(total, examples, its)
    off = _off(scores, weight)
    seen = Seen(np.arange(len(client)), client, scores, _spread(total, weight))
    return {
        "communication": (Factor(_lognormal(its.mu_a, its.sigma_a), off), seen),
        "overhead": (Factor(_constant(its.constant), None), None),
        "per_example": (Factor(_lognormal(its.mu_b, its.sigma_b), off), None),
    }


def _alike(examples: NDArray[Any]) -> bool:
    """Whether nothing can be said of their effect."""
    return bool(np.std(np.log(np.maximum(examples, 1))) < ALIKE)


def _is_few(log: Log, lines: NDArray[np.bool_]) -> bool:
    """Counts clients: with persistent latency, a client's reports are one sample."""
    told = SUM in log.times and not _alike(log.examples[lines])
    return told and len(np.unique(log.client[lines])) < totals.ENOUGH


def _factor(
    seconds: Array, client: NDArray[np.int64], examples: NDArray[np.int64] | None = None
) -> tuple[Factor, Seen | None]:
    """The distribution of `seconds`, by example if there are any."""
    per = np.ones(1) if examples is None else examples
    weight = each_once(client)
    values, logs = seconds / per, np.log(np.maximum(seconds, FINEST) / per)
    if np.ptp(logs) < SAME or np.ptp(values) == 0:
        return Factor(_constant(float(np.average(values, weights=weight))), None), None
    from scipy.special import ndtri

    mu = float(np.average(logs, weights=weight))
    sigma = math.sqrt(np.average((logs - mu) ** 2, weights=weight))
    off = _off((logs - mu) / sigma, weight)
    scores = ndtri(_middles(logs, weight))
    spread = _spread(values, weight) * float(np.mean(per))
    seen = Seen(np.arange(len(client)), client, scores, spread)
    # Zeros are no chance: no log-normal has any.
    chance = CHANCE / math.sqrt(len(np.unique(client))) if seconds.min() >= FINEST else 0.0
    if off <= max(MISFIT, chance):
        return Factor(_lognormal(mu, sigma), off), seen
    found = np.exp(quantiles(logs, weight, np.array(LEVELS) / 100))
    table = {str(level): _rounded(value) for level, value in zip(LEVELS, found, strict=True)}
    return Factor({"kind": "percentiles", "table": table}, off), seen


def _spread(values: Array, weight: Array) -> float:
    low, high = quantiles(values, weight, np.array([0.1, 0.9]))
    return float(high - low)


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


def _nothing() -> tuple[Factor, None]:
    return Factor(_constant(0.0), None), None


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
