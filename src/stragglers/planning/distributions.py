"""Distributions as functions of a standard normal draw z, so that any two can be correlated.

    log-normal           exp(mu + sigma z)
    constant             value
    shifted exponential  shift + scale E            E = -log(1 - U), U = Phi(z)
    gamma                the U-quantile of Gamma(shape) times scale
    Pareto               minimum exp(E / alpha)
    samples              the U-quantile of measured values
    percentiles          a table of percentiles, log-normal between and beyond them

Each is built once, checks its parameters then, and afterwards only maps arrays to arrays.
SciPy is loaded by those that need Phi; the log-normal model of the paper is NumPy alone.
"""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stragglers._core import csv_files
from stragglers._core.errors import BadInput, shown

Array = NDArray[np.float64]
Distribution = Callable[[Array], Array]


def lognormal(mu: float, sigma: float) -> Distribution:
    """Median exp(mu), natural logarithm."""
    _finite("lognormal", mu=mu)
    _at_least("lognormal", 0, sigma=sigma)
    return lambda z: _exp(mu + sigma * z)


def constant(value: float) -> Distribution:
    """Always `value`; infinity is allowed and means: never."""
    if math.isnan(value) or value < 0:
        raise BadInput(f"constant: value={value}, expected a number >= 0 (or inf)")
    return lambda z: np.full_like(z, value)


def shifted_exponential(shift: float, scale: float) -> Distribution:
    """The usual model of earlier work: a fixed part and an exponential one."""
    _at_least("shifted_exponential", 0, shift=shift, scale=scale)
    return lambda z: shift + scale * _exponential(z)


def gamma(shape: float, scale: float) -> Distribution:
    """Mean shape * scale."""
    _above("gamma", 0, shape=shape, scale=scale)

    def quantile(z: Array) -> Array:
        from scipy.special import gammainccinv, ndtr

        # The upper tail probability keeps its digits where 1 - Phi(z) would lose them.
        return scale * gammainccinv(shape, ndtr(-z))

    return quantile


def pareto(minimum: float, alpha: float) -> Distribution:
    """P(T > t) = (minimum / t) ** alpha; the mean is infinite for alpha <= 1."""
    _above("pareto", 0, minimum=minimum, alpha=alpha)
    return lambda z: minimum * _exp(_exponential(z) / alpha)


def samples(file: str | Path, column: str | None = None) -> Distribution:
    """Measured values: a CSV file of one number a line, or the named column of one."""
    values = np.sort(_read_column(Path(file), column))
    levels = (np.arange(values.size) + 0.5) / values.size
    return lambda z: np.interp(_uniform(z), levels, values)


def percentiles(table: Mapping[str, float]) -> Distribution:
    """Interpolates between published percentiles, such as {"50": 26, "95": 180}.

    Between two percentiles the logarithm is linear in z, as if each piece were log-normal; the
    outermost pieces go on beyond the table. A single percentile is a constant.
    """
    try:
        pairs = sorted((float(level), float(v)) for level, v in table.items())
        levels, values = zip(*pairs, strict=True)
    except ValueError:
        raise BadInput(
            f"percentiles: {dict(table)}, expected entries such as 95 = 180.0, without letters"
        ) from None
    if not (
        all(0 < level < 100 for level in levels)
        and all(a < b for a, b in pairwise(levels))
        and all(a <= b for a, b in pairwise(values))
        and 0 < values[0] <= values[-1] < math.inf
    ):
        raise BadInput(
            f"percentiles: {dict(table)}, expected percentiles strictly between 0 and 100 with "
            "values > 0 that never fall"
        )
    from scipy.special import ndtri

    knots, logs = ndtri(np.array(levels) / 100), np.log(values)
    slopes = np.diff(logs) / np.diff(knots) if len(levels) > 1 else np.zeros(1)

    def quantile(z: Array) -> Array:
        below, above = np.minimum(z - knots[0], 0), np.maximum(z - knots[-1], 0)
        return np.exp(np.interp(z, knots, logs) + slopes[0] * below + slopes[-1] * above)

    return quantile


DISTRIBUTIONS: dict[str, Callable[..., Distribution]] = {
    "lognormal": lognormal,
    "constant": constant,
    "shifted_exponential": shifted_exponential,
    "gamma": gamma,
    "pareto": pareto,
    "samples": samples,
    "percentiles": percentiles,
}


def _exp(x: Array) -> Array:
    """Infinity where it overflows: a client that slow never reports."""
    with np.errstate(over="ignore"):
        return np.exp(x)


def _uniform(z: Array) -> Array:
    from scipy.special import ndtr

    return ndtr(z)


def _exponential(z: Array) -> Array:
    """-log(1 - Phi(z)), exact far into the tail."""
    from scipy.special import log_ndtr

    return -log_ndtr(-z)


def _read_column(path: Path, column: str | None) -> Array:
    rows = csv_files.rows(path, "a CSV file of samples")
    place = 0
    if column is not None:
        _, header = next(rows, (1, []))
        if column not in header:
            raise BadInput(
                f"{path}: line 1: {shown(','.join(header))}, expected a column {column!r}"
            )
        place = header.index(column)
    values = []
    for line, row in rows:
        if not row:
            continue
        try:
            value = float(row[place])
        except (ValueError, IndexError):
            value = math.nan
        if not 0 <= value < math.inf:
            told = f"{path}: line {line}: {shown(','.join(row))}, expected a finite number >= 0"
            header = column is None and not values and math.isnan(value)
            raise BadInput(f"{told}; if it is a header, set `column`" if header else told)
        values.append(value)
    if not values:
        raise BadInput(f"{path}: no samples, expected one number a line")
    return np.array(values)


def _finite(name: str, **values: float) -> None:
    _check(name, "a finite number", math.isfinite, values)


def _at_least(name: str, bound: float, **values: float) -> None:
    _check(name, f"a finite number >= {bound}", lambda v: bound <= v < math.inf, values)


def _above(name: str, bound: float, **values: float) -> None:
    _check(name, f"a finite number > {bound}", lambda v: bound < v < math.inf, values)


def _check(
    name: str, expected: str, holds: Callable[[float], bool], values: Mapping[str, float]
) -> None:
    for key, value in values.items():
        if not holds(value):
            raise BadInput(f"{name}: {key}={value}, expected {expected}")
