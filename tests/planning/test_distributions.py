import math
from typing import get_args

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from stragglers._core.errors import BadInput
from stragglers.planning import distributions
from stragglers.planning.distributions import Distribution, LogNormal, sampler

KINDS = {kind.__struct_config__.tag: kind for kind in get_args(Distribution)}
Z = np.random.default_rng(0).standard_normal(100_000)
PAIRS = {
    "lognormal": (distributions.lognormal(2.7, 1.5), stats.lognorm(1.5, scale=math.exp(2.7))),
    "shifted_exponential": (distributions.shifted_exponential(2, 3), stats.expon(2, 3)),
    "gamma": (distributions.gamma(0.7, 3), stats.gamma(0.7, scale=3)),
    "pareto": (distributions.pareto(2, 1.5), stats.pareto(1.5, scale=2)),
}
# The table of keyword spotting in production, seconds (Hard et al.).
KEYWORD_SPOTTING = {
    "upload": {"50": 5.1, "75": 7.6, "95": 9.6, "99": 15},
    "train": {"50": 26, "75": 86, "95": 180, "99": 270},
    "system": {"50": 24, "75": 33, "95": 36, "99": 40},
}


@pytest.fixture
def every_kind(tmp_path):
    file = tmp_path / "seconds.csv"
    file.write_text("3\n1\n10\n")
    return {
        **{name: distribution for name, (distribution, _) in PAIRS.items()},
        "constant": distributions.constant(3),
        "samples": distributions.samples(file),
        "percentiles": distributions.percentiles(KEYWORD_SPOTTING["train"]),
    }


def assert_one_line(error, *parts):
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message


@pytest.mark.parametrize("name", PAIRS)
def test_draws_follow_the_law(name):
    ours, law = PAIRS[name]
    assert stats.kstest(ours(Z), law.cdf).pvalue > 1e-4


@pytest.mark.parametrize("name", PAIRS)
def test_z_is_the_normal_score_of_the_quantile(name):
    ours, law = PAIRS[name]
    z = np.linspace(-5, 5, 101)
    np.testing.assert_allclose(ours(z), law.isf(stats.norm.sf(z)), rtol=1e-9)


def test_the_median_of_a_lognormal_is_e_to_the_mu():
    seconds = distributions.lognormal(2.7, 1.0)(Z)
    assert np.median(seconds) == pytest.approx(math.exp(2.7), rel=0.02)


@pytest.mark.parametrize("value", [0, 3.5, math.inf])
def test_a_constant_never_varies_and_may_mean_never(value):
    assert np.all(distributions.constant(value)(Z) == value)


def test_a_lognormal_or_an_exponential_without_spread_is_a_constant():
    assert np.all(distributions.lognormal(1, 0)(Z) == np.exp(1))
    assert np.all(distributions.shifted_exponential(2, 0)(Z) == 2)


def test_every_kind_grows_with_z(every_kind):
    assert set(every_kind) == set(KINDS)
    z = np.linspace(-12, 12, 1001)
    for name, distribution in every_kind.items():
        assert np.all(np.diff(distribution(z)) >= 0), name


def test_every_kind_is_finite_far_into_its_tails(every_kind):
    far = np.array([-30.0, 30.0])  # no generator ever comes near
    for name, distribution in every_kind.items():
        seconds = distribution(far)
        assert np.all(np.isfinite(seconds) & (seconds >= 0)), name


@pytest.mark.parametrize("name", ["shifted_exponential", "gamma", "pareto"])
def test_the_upper_tail_keeps_its_digits(name):
    ours, law = PAIRS[name]
    assert ours(np.array([20.0]))[0] == pytest.approx(law.isf(stats.norm.sf(20)), rel=1e-9)


@pytest.mark.parametrize("table", KEYWORD_SPOTTING.values(), ids=KEYWORD_SPOTTING)
def test_a_published_percentile_table_is_reproduced(table):
    levels = np.array([float(level) for level in table])
    seconds = distributions.percentiles(table)
    np.testing.assert_allclose(seconds(ndtri(levels / 100)), list(table.values()), rtol=1e-12)
    drawn = np.percentile(seconds(Z), levels)
    np.testing.assert_allclose(drawn, list(table.values()), rtol=0.05)


def test_two_percentiles_of_a_lognormal_give_all_of_it():
    law = stats.lognorm(0.8, scale=5)
    table = {str(level): float(law.ppf(level / 100)) for level in (30, 60)}
    np.testing.assert_allclose(
        distributions.percentiles(table)(Z), distributions.lognormal(math.log(5), 0.8)(Z)
    )


def test_percentiles_may_be_listed_in_any_order_and_one_alone_is_a_constant():
    table = KEYWORD_SPOTTING["train"]
    backwards = dict(reversed(table.items()))
    assert np.array_equal(
        distributions.percentiles(table)(Z), distributions.percentiles(backwards)(Z)
    )
    np.testing.assert_allclose(distributions.percentiles({"90": 7})(Z), 7)


def test_samples_are_drawn_between_the_measured_values(tmp_path):
    values = np.random.default_rng(1).exponential(size=500)
    file = tmp_path / "seconds.csv"
    file.write_text("\n".join(map(str, values)))
    drawn = distributions.samples(file)(Z)
    assert values.min() == drawn.min() and drawn.max() == values.max()
    assert stats.ks_2samp(drawn, values).statistic < 2 / len(values)


def test_samples_come_from_the_named_column(tmp_path):
    file = tmp_path / "devices.csv"
    file.write_text("device,seconds\na,4\n\nb,4\n")
    assert np.all(distributions.samples(file, "seconds")(Z) == 4)


def test_a_byte_order_mark_is_no_part_of_the_samples(tmp_path):
    file = tmp_path / "excel.csv"
    file.write_text("seconds\n4\n", encoding="utf-8-sig")
    assert np.all(distributions.samples(file, "seconds")(Z) == 4)


NAN, INF = math.nan, math.inf
BAD_NUMBERS = [
    ("lognormal", dict(mu=0, sigma=-1), "sigma=-1"),
    ("lognormal", dict(mu=NAN, sigma=1), "mu=nan"),
    ("lognormal", dict(mu=INF, sigma=1), "mu=inf"),
    ("lognormal", dict(mu=0, sigma=NAN), "sigma=nan"),
    ("constant", dict(value=-1), "value=-1"),
    ("constant", dict(value=NAN), "value=nan"),
    ("shifted_exponential", dict(shift=-1, scale=1), "shift=-1"),
    ("shifted_exponential", dict(shift=1, scale=NAN), "scale=nan"),
    ("gamma", dict(shape=0, scale=1), "shape=0"),
    ("gamma", dict(shape=1, scale=INF), "scale=inf"),
    ("pareto", dict(minimum=0, alpha=1), "minimum=0"),
    ("pareto", dict(minimum=1, alpha=-2), "alpha=-2"),
]
BAD_TABLES = [
    {},
    {"fifty": 1},
    {"50": "long"},
    {"0": 1, "50": 2},
    {"50": 1, "100": 2},
    {"50": 2, "75": 1},
    {"50": 1, "50.0": 2},
    {"50": 0},
    {"50": -1},
    {"50": NAN},
    {"50": 1, "99": INF},
    {"nan": 1},
]
BAD_SAMPLES = {
    "missing": (None, None, "No such file"),
    "empty": (b"", None, "no samples"),
    "only a header": (b"seconds\n", "seconds", "no samples"),
    "malformed": (b"1\n\nx\n", None, "line 3: 'x'"),
    "negative": (b"1\n-2\n", None, "line 2: '-2'"),
    "infinite": (b"inf\n", None, "line 1: 'inf', expected a finite number"),
    "a header": (b"network_s,setup_s\n1,2\n", None, "if it is a header, set `column`"),
    "not a number": (b"1\nnan\n", None, "line 2: 'nan'"),
    "empty with a column": (b"", "seconds", "expected a column 'seconds'"),
    "no such column": (b"a,b\n1,2\n", "c", "line 1: 'a,b'"),
    "short line": (b"a,b\n1,2\n3\n", "b", "line 3: '3'"),
    "not UTF-8": (b"1\n2\n\xff\n", None, "line 3: not UTF-8"),
    "endless field": (b"1\n" + b"2" * 200_000, None, "line 2: field larger"),
}


@pytest.mark.parametrize("name, parameters, given", BAD_NUMBERS)
def test_bad_parameters_are_named_in_one_line(name, parameters, given):
    with pytest.raises(BadInput) as error:
        sampler(KINDS[name](**parameters))
    assert_one_line(error, name, given, "expected")


@pytest.mark.parametrize("table", BAD_TABLES)
def test_bad_percentiles_are_named_in_one_line(table):
    with pytest.raises(BadInput) as error:
        distributions.percentiles(table)
    assert_one_line(error, "percentiles", table, "expected")


@pytest.mark.parametrize("content, column, complaint", BAD_SAMPLES.values(), ids=BAD_SAMPLES)
def test_a_bad_file_of_samples_is_one_line_with_file_and_line(tmp_path, content, column, complaint):
    file = tmp_path / "seconds.csv"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadInput) as error:
        distributions.samples(file, column)
    assert_one_line(error, file, complaint)


@pytest.mark.parametrize(
    "given",
    [
        LogNormal(median=math.exp(2), sigma=0.5),
        LogNormal(mean=math.exp(2.125), sd=math.exp(2.125) * math.sqrt(math.expm1(0.25))),
        LogNormal(p50=math.exp(2), p95=math.exp(2 + 0.5 * stats.norm.ppf(0.95))),
    ],
)
def test_a_lognormal_by_any_pair_is_the_one_by_mu_and_sigma(given):
    expected = sampler(LogNormal(mu=2.0, sigma=0.5))(Z)
    np.testing.assert_allclose(sampler(given)(Z), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "given, line",
    [
        (LogNormal(mu=1.0), "LogNormal(mu=1.0) given, expected one pair of parameters: mu and"),
        (
            LogNormal(median=1.0, mean=2.0),
            "LogNormal(median=1.0, mean=2.0) given, expected one pair",
        ),
        (LogNormal(mu=1.0, sigma=1.0, sd=1.0), "given, expected one pair"),
        (LogNormal(median=0.0, sigma=1.0), "lognormal: median=0.0, expected a finite number > 0"),
        (LogNormal(mean=-1.0, sd=1.0), "lognormal: mean=-1.0, expected a finite number > 0"),
        (LogNormal(mean=1.0, sd=-1.0), "lognormal: sd=-1.0, expected a finite number >= 0"),
        (LogNormal(p50=2.0, p95=1.0), "lognormal: p95=1.0, expected a finite number >= 2.0"),
    ],
)
def test_other_parameters_of_a_lognormal_are_refused(given, line):
    with pytest.raises(BadInput) as error:
        sampler(given)
    assert_one_line(error, line)
