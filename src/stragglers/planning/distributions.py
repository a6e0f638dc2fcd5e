"""Distributions: their descriptions, and functions of a standard normal draw z.

    LogNormal            exp(mu + sigma z)
    Constant             value
    ShiftedExponential   shift + scale E            E = -log(1 - U), U = Phi(z)
    Gamma                the U-quantile of Gamma(shape) times scale
    Pareto               minimum exp(E / alpha)
    Samples              the U-quantile of measured values
    Percentiles          a table of percentiles, log-normal between and beyond them

`sampler(description)` checks the parameters once and returns z -> values. As every distribution is
a function of z, any two can be correlated. Only distributions that need
Phi load SciPy; the paper's log-normal model needs NumPy alone.
"""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stragglers._core import csv_files
from stragglers._core.errors import BadInput, shown
from stragglers._core.schema import Settings

Array = NDArray[np.float64]
Sampler = Callable[[Array], Array]
Z95 = 1.6448536269514722  # Phi(Z95) = 0.95


class LogNormal(Settings, frozen=True, kw_only=True, tag="lognormal", tag_field="kind"):
    """A log-normal distribution::

        exp(mu + sigma z),    z a standard normal draw

    It is given by one pair of parameters: `mu` and `sigma` (of the natural logarithm), `median` and
    `sigma`, `mean` and `sd`, or `p50` and `p95`.

    Example:
        >>> import stragglers as st
        >>> st.LogNormal(p50=26, p95=180)
        LogNormal(p50=26, p95=180)
    """

    mu: float | None = None  #: Mean of the natural logarithm: the median is e^mu.
    median: float | None = None  #: Median of the values themselves; goes with `sigma`.
    sigma: float | None = None  #: Standard deviation of the natural logarithm.
    mean: float | None = None  #: Mean of the values; goes with `sd`.
    sd: float | None = None  #: Standard deviation of the values; goes with `mean`.
    p50: float | None = None  #: 50th percentile; goes with `p95`.
    p95: float | None = None  #: 95th percentile; goes with `p50`.

    @property
    def given(self) -> dict[str, float]:
        """The parameters that are set, in the order of the fields."""
        every = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in every.items() if value is not None}


class Constant(Settings, frozen=True, tag="constant", tag_field="kind"):
    """Always the same value; infinity means never.

    Example:
        >>> import stragglers as st
        >>> st.Constant(10)
        Constant(value=10)
    """

    value: float  #: The value.


class ShiftedExponential(
    Settings, frozen=True, kw_only=True, tag="shifted_exponential", tag_field="kind"
):
    """A fixed part and an exponential part::

        shift + scale E,    E = -log(1 - U), U uniform

    Example:
        >>> import stragglers as st
        >>> st.ShiftedExponential(shift=2, scale=8)  # mean 10
        ShiftedExponential(shift=2, scale=8)
    """

    shift: float  #: The fixed part.
    scale: float  #: Mean of the exponential part.


class Gamma(Settings, frozen=True, kw_only=True, tag="gamma", tag_field="kind"):
    """A gamma distribution with mean shape * scale and variance shape * scale^2.

    Example:
        >>> import stragglers as st
        >>> st.Gamma(shape=4, scale=10)  # mean 40, standard deviation 20
        Gamma(shape=4, scale=10)
    """

    shape: float  #: Shape.
    scale: float  #: Scale.


class Pareto(Settings, frozen=True, kw_only=True, tag="pareto", tag_field="kind"):
    """A Pareto distribution, with an infinite mean for alpha <= 1::

        P(T > t) = (minimum / t) ** alpha

    Example:
        >>> import stragglers as st
        >>> st.Pareto(minimum=5, alpha=1.5)
        Pareto(minimum=5, alpha=1.5)
    """

    minimum: float  #: Least value.
    alpha: float  #: Tail index: the smaller, the heavier the tail.


class Samples(Settings, frozen=True, tag="samples", tag_field="kind"):
    r"""Measured values: the column of a CSV file.

    Example:
        >>> import stragglers as st
        >>> with open("overhead.csv", "w") as file:
        ...     _ = file.write("seconds\n8\n9.5\n31\n")
        >>> fleet = st.clients(100, examples=st.Samples("overhead.csv", column="seconds"))
    """

    file: str  #: CSV file of measured values; a relative path starts at the settings' folder.
    column: str | None = None  #: Name of its column; not set, the file has one and no header.


class Percentiles(Settings, frozen=True, tag="percentiles", tag_field="kind"):
    """Published percentiles; between and beyond them the distribution is log-normal.

    Example:
        >>> import stragglers as st
        >>> st.Percentiles({"50": 26, "95": 180}).table["95"]
        180
    """

    table: dict[str, float]  #: Percentile, between 0 and 100, and its value.


Distribution = LogNormal | Constant | ShiftedExponential | Gamma | Pareto | Samples | Percentiles


def sampler(given: Distribution) -> Sampler:
    """Maps standard normal draws to values of a distribution."""
    match given:
        case LogNormal():
            return lognormal(*_log_moments(given))
        case Constant(value):
            return constant(value)
        case ShiftedExponential():
            return shifted_exponential(given.shift, given.scale)
        case Gamma():
            return gamma(given.shape, given.scale)
        case Pareto():
            return pareto(given.minimum, given.alpha)
        case Samples(file, column):
            return samples(file, column)
        case Percentiles(table):
            return percentiles(table)
    raise BadInput(f"{shown(given)} given, expected a distribution such as LogNormal or Constant")


def _log_moments(description: LogNormal) -> tuple[float, float]:
    """mu and sigma of a log-normal that may be given by another pair."""
    given = description.given
    match tuple(given):
        case ("mu", "sigma"):
            return given["mu"], given["sigma"]
        case ("median", "sigma"):
            _above("lognormal", 0, median=given["median"])
            return math.log(given["median"]), given["sigma"]
        case ("mean", "sd"):
            _above("lognormal", 0, mean=given["mean"])
            _at_least("lognormal", 0, sd=given["sd"])
            variance = math.log1p((given["sd"] / given["mean"]) ** 2)
            return math.log(given["mean"]) - variance / 2, math.sqrt(variance)
        case ("p50", "p95"):
            _above("lognormal", 0, p50=given["p50"])
            _at_least("lognormal", given["p50"], p95=given["p95"])
            return math.log(given["p50"]), math.log(given["p95"] / given["p50"]) / Z95
    raise BadInput(
        f"{description} given, expected one pair of parameters: mu and sigma, median and sigma, "
        "mean and sd, or p50 and p95"
    )


def lognormal(mu: float, sigma: float) -> Sampler:
    """Median exp(mu), natural logarithm."""
    _finite("lognormal", mu=mu)
    _at_least("lognormal", 0, sigma=sigma)
    return lambda z: _exp(mu + sigma * z)


def constant(value: float) -> Sampler:
    """Always `value`; infinity is allowed and means: never."""
    if math.isnan(value) or value < 0:
        raise BadInput(f"constant: value={value}, expected a number >= 0 (or inf)")
    return lambda z: np.full_like(z, value)


def shifted_exponential(shift: float, scale: float) -> Sampler:
    """The usual model of earlier work: a fixed part and an exponential one."""
    _at_least("shifted_exponential", 0, shift=shift, scale=scale)
    return lambda z: shift + scale * _exponential(z)


def gamma(shape: float, scale: float) -> Sampler:
    """Mean shape * scale."""
    _above("gamma", 0, shape=shape, scale=scale)

    def quantile(z: Array) -> Array:
        from scipy.special import gammainccinv, ndtr

        # The upper tail probability keeps its digits where 1 - Phi(z) would lose them.
        return scale * gammainccinv(shape, ndtr(-z))

    return quantile


def pareto(minimum: float, alpha: float) -> Sampler:
    """P(T > t) = (minimum / t) ** alpha; the mean is infinite for alpha <= 1."""
    _above("pareto", 0, minimum=minimum, alpha=alpha)
    return lambda z: minimum * _exp(_exponential(z) / alpha)


def samples(file: str | Path, column: str | None = None) -> Sampler:
    """Measured values: a CSV file of one number a line, or the named column of one."""
    values = np.sort(_read_column(Path(file), column))
    levels = (np.arange(values.size) + 0.5) / values.size
    return lambda z: np.interp(_uniform(z), levels, values)


def percentiles(table: Mapping[str, float]) -> Sampler:
    """Interpolates between published percentiles, such as {"50": 26, "95": 180}.

    Between two percentiles the logarithm is linear in z, as if each piece were log-normal; the
    outermost pieces extend beyond the table. A single percentile is a constant.
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
