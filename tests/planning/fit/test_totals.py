import math

import numpy as np
import pytest
from scipy import integrate, stats

from stragglers.planning.fit import totals
from stragglers.planning.fit.totals import Parts

TRUTH = Parts(20.0, 2.7, 0.8, -1.5, 0.4)


def drawn(given, lines, seed=0, idle=0.0):
    """T and N of as many reports; `idle`: the share without examples."""
    rng = np.random.default_rng(seed)
    examples = np.rint(rng.lognormal(4.6, 0.9, lines)) * (rng.random(lines) >= idle)
    a = rng.lognormal(given.mu_a, given.sigma_a, lines)
    b = rng.lognormal(given.mu_b, given.sigma_b, lines)
    return given.constant + a + b * examples, examples


def density(s, examples, given):
    """Of S = A + B N by adaptive quadrature over A, in its own coordinates."""
    a = stats.lognorm(given.sigma_a, scale=math.exp(given.mu_a))
    if not examples:
        return a.pdf(s)
    bn = stats.lognorm(given.sigma_b, scale=examples * math.exp(given.mu_b))
    middle = np.clip([a.median(), s - bn.median()], 1e-9 * s, s * (1 - 1e-9))
    return integrate.quad(
        lambda t: a.pdf(t) * bn.pdf(s - t), 0, s, points=sorted(middle), limit=500, epsabs=0
    )[0]


def point(given):
    return np.array([given.mu_a, math.log(given.sigma_a), given.mu_b, math.log(given.sigma_b)])


@pytest.mark.parametrize("given", [TRUTH, Parts(0, 1, 0.1, -4, 0.1), Parts(0, 4, 1, -0.5, 1)])
@pytest.mark.parametrize("examples", [0, 1, 100, 5000])
def test_the_likelihood_is_that_of_a_convolution(given, examples):
    typical = math.exp(given.mu_a) + examples * math.exp(given.mu_b)
    for s in typical * np.array([0.7, 1.0, 1.6]):
        surprise = totals.surprised(np.array([s]), np.array([float(examples)]), np.ones(1))
        left_out = totals.STEP / (2 * math.pi) if examples else 1 / math.sqrt(2 * math.pi)
        ours = left_out * math.exp(-surprise(point(given))[0]) / s
        assert ours == pytest.approx(density(s, examples, given), rel=1e-6)


def test_its_gradient_is_that_of_differences():
    total, examples = drawn(TRUTH, 50, idle=0.2)
    weights = np.random.default_rng(1).random(50)
    surprise = totals.surprised(total - 5, examples, weights)
    start, step = point(TRUTH) + 0.1, 1e-5
    for index, slope in enumerate(surprise(start)[1]):
        ahead = step * np.eye(4)[index]
        differences = (surprise(start + ahead)[0] - surprise(start - ahead)[0]) / (2 * step)
        assert slope == pytest.approx(differences, rel=1e-6)


@pytest.mark.parametrize("idle", [0.0, 0.3])
def test_known_parts_are_found(idle):
    found = totals.parts(*drawn(TRUTH, 2000, idle=idle), np.ones(2000))
    assert found.constant == pytest.approx(20, abs=2.5)
    assert found.mu_a == pytest.approx(2.7, abs=0.15)
    assert found.sigma_a == pytest.approx(0.8, abs=0.12)
    assert found.mu_b == pytest.approx(-1.5, abs=0.06)
    assert found.sigma_b == pytest.approx(0.4, abs=0.06)


def test_what_is_found_is_likelier_than_what_is_near():
    total, examples = drawn(TRUTH, 500)
    found = totals.parts(total, examples, np.ones(500))
    surprise = totals.surprised(total - found.constant, examples, np.full(500, 1 / 500))
    least, slope = surprise(point(found))
    np.testing.assert_allclose(slope, 0, atol=1e-3)
    for change in np.vstack([np.eye(4), -np.eye(4)]) * 0.05:
        assert surprise(point(found) + change)[0] > least


def test_of_few_clients_there_is_no_constant_and_one_deviation():
    given = Parts(0.0, 3.0, 0.5, -1.5, 0.5)
    found = totals.parts(*drawn(given, 2000), np.ones(2000), few=True)
    assert found.constant == 0 and found.sigma_a == found.sigma_b
    np.testing.assert_allclose(found, given, atol=0.05)


def test_what_is_found_of_few_is_likelier_than_what_is_near():
    total, examples = drawn(TRUTH, 12)
    found = totals.parts(total, examples, np.ones(12), few=True)
    surprise = totals.surprised(total, examples, np.full(12, 1 / 12))
    least = surprise(point(found))[0]
    for change in np.vstack([totals.TIED.T, -totals.TIED.T]) * 0.05:
        assert surprise(point(found) + change)[0] > least


@pytest.mark.slow
def test_few_clients_tell_three_numbers_better_than_five():
    """The 99th percentile of T, over seeds: benchmarks/few.py has more of it."""
    z = np.random.default_rng(0).standard_normal((2, 5000))

    def slowest(its, examples):
        sizes = np.resize(examples, 5000)
        a, b = np.exp(its.mu_a + its.sigma_a * z[0]), np.exp(its.mu_b + its.sigma_b * z[1])
        return math.log(np.percentile(its.constant + a + b * sizes, 99))

    clients, off = 8, {True: [], False: []}
    for seed in range(12):
        total, examples = drawn(TRUTH, clients, seed)
        for few, errors in off.items():
            its = totals.parts(total, examples, np.ones(clients), few=few)
            errors.append(slowest(its, examples) - slowest(TRUTH, examples))
    three, five = (np.sqrt(np.mean(np.square(off[few]))) for few in (True, False))
    assert three < five and max(map(abs, off[True])) < max(map(abs, off[False]))


def test_weights_are_repeated_lines():
    total, examples = drawn(TRUTH, 300)
    times = np.random.default_rng(2).integers(1, 4, 300)
    weighted = totals.parts(total, examples, times.astype(float))
    repeated = totals.parts(
        np.repeat(total, times), np.repeat(examples, times), np.ones(sum(times))
    )
    np.testing.assert_allclose(weighted, repeated, rtol=0.01)


def test_of_many_lines_some_are_looked_at_by_their_weight():
    total, examples = drawn(TRUTH, 2000)
    copies = 20_000  # of one line, which together weigh as much as another
    weight = np.concatenate([np.ones(2000), np.full(copies, 1 / copies)])
    many = np.append(total, np.full(copies, 900.0)), np.append(examples, np.full(copies, 7.0))
    np.testing.assert_allclose(
        totals.parts(*many, weight),
        totals.parts(total, examples, np.ones(2000)),
        rtol=0.1,
        atol=0.05,
    )


def test_scores_are_standard_normal():
    total, examples = drawn(TRUTH, 20_000, idle=0.1)
    scores = totals.scores(total, examples, TRUTH)
    assert stats.kstest(scores, "norm").pvalue > 1e-3
    for some in (examples == 0, (examples > 0) & (examples < 60), examples > 200):
        assert stats.kstest(scores[some], "norm").pvalue > 1e-3


def test_scores_beyond_the_possible_are_finite():
    far = totals.scores(np.array([1.0, 20.0, 1e9]), np.array([5.0, 5.0, 5.0]), TRUTH)
    assert np.isfinite(far).all() and far[0] == far[1] < -5 < 5 < far[2]
