import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from stragglers._core.errors import BadInput
from stragglers._core.random_streams import BLOCK, Purpose
from stragglers.planning import latency, population
from stragglers.planning.distributions import constant, lognormal
from stragglers.planning.latency import Factors, TimeLimit
from stragglers.planning.population import Population

CONSTANT = Factors(constant(5), constant(3), constant(0.5))
# Three mu and three sigma each: communication, C, seconds per example (Hard et al., section 3).
PAPER_MODELS = {
    "per-example": (latency.PER_EXAMPLE, (2.7, 3.0, -1.6), (1.0, 0.3, 0.5)),
    "per-domain, standard": (latency.PER_DOMAIN["standard"], (2.7, 3.0, -2.0), (1.0, 0.3, 0.2)),
    "per-domain, straggler": (latency.PER_DOMAIN["straggler"], (3.7, 3.5, -1.0), (1.0, 0.3, 0.5)),
}
# Medians of one epoch in the paper's tables of latency percentiles: standard, straggler.
PAPER_MEDIANS = {
    "cifar100 per-example": (population.cifar100, latency.PER_EXAMPLE, (60.21, 60.21)),
    "cifar100 per-domain": (population.cifar100, latency.PER_DOMAIN, (52.04, 114.2)),
    "emnist per-example": (population.emnist, latency.PER_EXAMPLE, (69.89, 77.14)),
    "emnist per-domain": (population.emnist, latency.PER_DOMAIN, (59.35, 151.5)),
    "stackoverflow per-example": (population.stackoverflow, latency.PER_EXAMPLE, (80.39, 106.2)),
    "stackoverflow per-domain": (population.stackoverflow, latency.PER_DOMAIN, (66.20, 211.2)),
}


def people(*examples, group=None, groups=("all",)):
    group = np.zeros(len(examples)) if group is None else group
    return Population(np.array(examples), np.array(group, np.int16), groups, "a test")


def draw(who, factors, **options):
    """Everybody once, as dispatches 0, 1, ..."""
    return latency.latency(who, factors, seed=0, **options)(0, np.arange(who.clients))


@pytest.mark.parametrize("factors, mu, sigma", PAPER_MODELS.values(), ids=PAPER_MODELS)
def test_the_papers_models_have_its_parameters(factors, mu, sigma):
    for distribution, m, s in zip(factors, mu, sigma):
        quantiles = distribution(np.array([0.0, 1.0]))
        np.testing.assert_allclose(quantiles, [math.exp(m), math.exp(m + s)], rtol=1e-12)


def test_the_papers_per_domain_model_has_no_other_groups():
    assert set(latency.PER_DOMAIN) == set(population.PAPER_GROUPS)


def test_a_latency_is_communication_plus_overhead_plus_examples():
    drawn = draw(people(0, 1, 40), CONSTANT)
    assert drawn.seconds.tolist() == [5 + 3 + 0.5 * n for n in (0, 1, 40)]
    assert drawn.examples.tolist() == [0, 1, 40]


def test_each_group_has_its_own_factors():
    who = people(10, 10, 10, group=[1, 0, 1], groups=("fast", "slow"))
    slow = Factors(constant(50), constant(30), constant(5))
    assert draw(who, {"slow": slow, "fast": CONSTANT}).seconds.tolist() == [130, 13, 130]


def test_epochs_repeat_the_examples():
    drawn = draw(people(7, 10), CONSTANT, epochs=2.5)
    assert drawn.examples.tolist() == [17, 25]  # whole examples
    assert drawn.seconds.tolist() == [8 + 0.5 * 17, 8 + 0.5 * 25]


def test_twice_the_examples_double_only_the_training():
    one, two = people(*range(100)), people(*range(0, 200, 2))
    once = latency.one_epoch(one, latency.PER_EXAMPLE, seed=0)
    twice = latency.one_epoch(two, latency.PER_EXAMPLE, seed=0)
    for a, b, ratio in zip(once, twice, (1, 1, 2)):
        assert np.array_equal(ratio * a, b)
    none = draw(people(*[0] * 100), latency.PER_EXAMPLE).seconds
    first = draw(one, latency.PER_EXAMPLE).seconds - none
    np.testing.assert_allclose(draw(two, latency.PER_EXAMPLE).seconds - none, 2 * first)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2 * BLOCK), st.integers(0, 40), st.integers(0, 40))
def test_a_draw_depends_on_the_number_of_its_dispatch_alone(first, a, b):
    sample = latency.latency(population.emnist(), latency.PER_DOMAIN, seed=3)
    clients = np.random.default_rng(0).integers(3400, size=a + b)
    whole, left, right = (
        sample(first, clients),
        sample(first, clients[:a]),
        sample(first + a, clients[a:]),
    )
    assert np.array_equal(whole.seconds, np.concatenate([left.seconds, right.seconds]))
    assert np.array_equal(whole.examples, np.concatenate([left.examples, right.examples]))


def test_another_client_in_the_same_dispatch_has_the_same_luck():
    who = people(10, 20, 10, 10, group=[0, 0, 1, 0], groups=("fast", "slow"))
    fast, slow = Factors(*3 * [lognormal(0, 1)]), Factors(*3 * [lognormal(2, 1)])
    sample = latency.latency(who, {"fast": fast, "slow": slow}, seed=1)
    [a], [b], [c], [d] = (sample(8, np.array([client])).seconds for client in range(4))
    assert a == d  # alike in group and size
    assert a < b < 2 * a  # only the training is longer
    assert c == pytest.approx(a * math.exp(2))  # each factor moved by the same e^2
    assert sample(9, np.array([0])).seconds != a


def test_another_seed_is_other_luck_and_the_three_factors_are_independent():
    who = people(*[1] * 20_000)
    assert not np.array_equal(
        draw(who, latency.PER_EXAMPLE).seconds,
        latency.latency(who, latency.PER_EXAMPLE, seed=1)(0, np.arange(20_000)).seconds,
    )
    correlation = np.corrcoef(np.log(latency.one_epoch(who, latency.PER_EXAMPLE, seed=0)))
    assert np.abs(correlation - np.eye(3)).max() < 5 / math.sqrt(20_000)


def test_what_a_client_keeps_of_its_luck_is_a_share_of_the_spread():
    who, spread = people(*[1] * 20_000), Factors(lognormal(2, 1), *2 * [constant(0.0)])

    def luck(first, persistence):
        sample = latency.latency(who, spread, seed=0, persistence=persistence)
        return np.log(sample(first, np.arange(20_000)).seconds) - 2

    near = 5 / math.sqrt(20_000)
    for share in (0.0, 0.3, 1.0):
        once, again = luck(0, share), luck(20_000, share)
        for z in (once, again):  # a single participation is what it was
            assert stats.kstest(z, "norm").pvalue > 1e-3
        assert np.corrcoef(once, again)[0, 1] == pytest.approx(share, abs=near)
    assert np.array_equal(luck(0, 1.0), luck(7, 1.0))  # who draws once has one latency
    assert np.array_equal(luck(0, 0.0), np.log(draw(who, spread).seconds) - 2)
    first, other = (
        latency.one_epoch(who, latency.PER_EXAMPLE, seed=seed, persistence=1.0) for seed in (0, 1)
    )
    assert not np.array_equal(first, other)
    correlation = np.corrcoef(np.log(first))  # each factor keeps luck of its own
    assert np.abs(correlation - np.eye(3)).max() < near


def test_a_picture_and_a_limit_show_the_devices_that_there_are():
    who, factors = population.cifar100(), latency.PER_DOMAIN
    kept = dict(seed=3, persistence=1.0, correlation=0.5, traffic=2.0)
    once = latency.latency(who, factors, **kept)(0, np.arange(who.clients)).seconds
    np.testing.assert_allclose(sum(latency.one_epoch(who, factors, **kept)), once)
    kept.pop("traffic")
    limit = latency.percentile_limit(who, factors, percentile=75, **kept)
    training = latency.one_epoch(who, factors, **kept)[2]
    assert limit == np.percentile(training, 75)


def test_by_tokens_long_examples_take_longer_and_a_mean_one_what_it_did():
    who = people(10, 10, 20, 0)._replace(tokens=np.array([5.0, 15.0, 10.0, 7.0]))
    drawn = draw(who, CONSTANT, by_tokens=True)
    assert drawn.seconds.tolist() == [5 + 3 + 0.5 * n for n in (5, 15, 20, 0)]
    assert drawn.examples.tolist() == [10, 10, 20, 0]
    assert draw(who, CONSTANT).seconds.tolist() == [5 + 3 + 0.5 * n for n in (10, 10, 20, 0)]
    limited = draw(who, CONSTANT, by_tokens=True, limit=TimeLimit(2.5, fill=False))
    assert limited.examples.tolist() == [10, 3, 5, 0]
    # Of 0, 2.5, 7.5 and 10 seconds of training.
    assert latency.percentile_limit(who, CONSTANT, seed=0, percentile=50, by_tokens=True) == 5


def test_tokens_must_be_known():
    with pytest.raises(BadInput, match="latency.cost: 'tokens' given, but of a test they are not"):
        draw(people(1), CONSTANT, by_tokens=True)


def test_a_client_keeps_its_luck_wherever_it_stands_in_a_cohort():
    sample = latency.latency(population.emnist(), latency.PER_DOMAIN, seed=3, persistence=1.0)
    cohort = np.array([7, 3000, 7, 12])
    assert np.array_equal(sample(0, cohort).seconds[::-1], sample(99, cohort[::-1]).seconds)


@pytest.mark.parametrize("persistence", [-0.1, 1.1, math.nan])
def test_persistence_is_a_share(persistence):
    with pytest.raises(BadInput, match=f"persistence={persistence}, expected a share"):
        latency.latency(people(1), latency.PER_EXAMPLE, seed=0, persistence=persistence)


def test_time_per_example_goes_along_with_communication():
    who = people(*[1] * 20_000)
    for correlation in (-1.0, -0.4, 0.0, 0.7, 1.0):
        factors = np.log(
            latency.one_epoch(who, latency.PER_EXAMPLE, seed=0, correlation=correlation)
        )
        for z, mu, sigma in zip(factors, (2.7, 3.0, -1.6), (1.0, 0.3, 0.5)):  # as ever, one by one
            assert stats.kstest((z - mu) / sigma, "norm").pvalue > 1e-3
        expected = np.eye(3)
        expected[0, 2] = expected[2, 0] = correlation
        np.testing.assert_allclose(np.corrcoef(factors), expected, atol=5 / math.sqrt(20_000))
    # The sum of what goes together is wider, and what a dispatch draws is what a picture shows.
    spread = [draw(who, latency.PER_EXAMPLE, correlation=r).seconds.std() for r in (-1, 0, 1)]
    assert spread == sorted(spread)


def test_traffic_multiplies_communication_alone():
    who, options = people(10, 20, 0), dict(limit=TimeLimit(7.0))
    for more in ({}, options):
        once, thrice, free = (
            draw(who, CONSTANT, traffic=t, **more).seconds for t in (1.0, 3.0, 0.0)
        )
        np.testing.assert_allclose(thrice - once, 2 * 5)
        np.testing.assert_allclose(once - free, 5)
    never = Factors(constant(math.inf), constant(3), constant(0.5))
    assert draw(who, never, traffic=0.0).seconds.tolist() == [8, 13, 3]
    assert np.isinf(draw(who, never, traffic=0.5).seconds).all()


@pytest.mark.parametrize("traffic", [-0.1, math.inf, math.nan])
def test_traffic_is_a_number_from_zero_on(traffic):
    with pytest.raises(BadInput, match=f"traffic={traffic}, expected a finite number >= 0"):
        latency.latency(people(1), latency.PER_EXAMPLE, seed=0, traffic=traffic)


@pytest.mark.parametrize("correlation", [-1.1, 1.1, math.nan])
def test_a_correlation_is_between_minus_one_and_one(correlation):
    with pytest.raises(BadInput, match=f"correlation={correlation}, expected one between -1 and 1"):
        latency.latency(people(1), latency.PER_EXAMPLE, seed=0, correlation=correlation)


def test_a_group_without_factors_is_named_with_the_nearest_name():
    who = people(1, groups=("straggler",))
    with pytest.raises(BadInput, match="no latency for group 'straggler'.*did you mean 'stragler'"):
        latency.latency(who, {"stragler": CONSTANT, "standard": CONSTANT}, seed=0)


@pytest.mark.parametrize("task, factors, medians", PAPER_MEDIANS.values(), ids=PAPER_MEDIANS)
def test_medians_are_those_of_the_papers_percentile_tables(task, factors, medians):
    clients = task()
    seeds = range(1 + 20_000 // clients.clients)  # a small population is noisy
    seconds = np.array([sum(latency.one_epoch(clients, factors, seed=seed)) for seed in seeds])
    ours = [np.median(seconds[:, clients.group == group]) for group in (0, 1)]
    np.testing.assert_allclose(ours, medians, rtol=0.07)


# Communication 5, C 3, half a second an example; 40 examples take 20 s, 10 take 5 s.
@pytest.mark.parametrize(
    "limit, seconds, examples",
    [
        (TimeLimit(10, "training", fill=True), [5 + 3 + 10, 5 + 3 + 10], [20, 20]),
        (TimeLimit(10, "training", fill=False), [5 + 3 + 10, 5 + 3 + 5], [20, 10]),
        (TimeLimit(10, "computation", fill=True), [5 + 10, 5 + 10], [14, 14]),
        (TimeLimit(10, "computation", fill=False), [5 + 10, 5 + 3 + 5], [14, 10]),
        (TimeLimit(2, "computation", fill=True), [5 + 3, 5 + 3], [0, 0]),  # C alone is longer
        (TimeLimit(2, "computation", fill=False), [5 + 3, 5 + 3], [0, 0]),
        (TimeLimit(10, "latency", fill=True), [10, 10], [4, 4]),
        (TimeLimit(15, "latency", fill=False), [15, 5 + 3 + 5], [14, 10]),
        (TimeLimit(7, "latency", fill=True), [5 + 3, 5 + 3], [0, 0]),  # C and communication alone
        (TimeLimit(0.7, "training", fill=True), [8.7, 8.7], [1, 1]),  # whole examples only
    ],
)
def test_a_time_limit_cuts_the_computation_and_never_the_communication(limit, seconds, examples):
    drawn = draw(people(40, 10), CONSTANT, limit=limit)
    assert drawn.seconds.tolist() == pytest.approx(seconds, rel=1e-15)
    assert drawn.examples.tolist() == examples
    assert drawn.cut.tolist() == [True, limit.fill or examples[1] < 10]  # with `fill` it is L's end


def test_nobody_is_asked_for_more_examples_than_can_be_counted():
    for epochs, examples in ((2.5, 25), (1e13, 10**14), (1e14, 10**15), (1e300, 10**15)):
        assert draw(people(10), CONSTANT, epochs=epochs).examples.tolist() == [examples]


LIMITS = [
    TimeLimit(10, scope, fill)
    for scope in ("training", "computation", "latency")
    for fill in (True, False)
]


@pytest.mark.parametrize("limit", [None, *LIMITS])
@pytest.mark.parametrize("per_example", [0.5, 0, 1e-300, math.inf])
def test_a_client_without_examples_trains_none_and_takes_no_time_for_it(limit, per_example):
    factors = CONSTANT._replace(per_example=constant(per_example))
    drawn = draw(people(0, 4), factors, limit=limit)
    assert drawn.seconds[0] == 5 + 3 and drawn.examples[0] == 0  # within every limit
    assert drawn.seconds[1] >= 5 + 3 and drawn.examples[1] >= 0


@pytest.mark.parametrize("scope", ["training", "computation", "latency"])
def test_a_time_limit_that_nobody_reaches_changes_nothing(scope):
    who, limit = population.emnist(), TimeLimit(1e12, scope, fill=False)
    free, bound = draw(who, latency.PER_DOMAIN), draw(who, latency.PER_DOMAIN, limit=limit)
    assert np.array_equal(free.seconds, bound.seconds)
    assert np.array_equal(free.examples, bound.examples)
    assert not free.cut and not bound.cut.any()


@pytest.mark.parametrize("limit", [None, *LIMITS])
def test_twice_as_slow_a_world_trains_the_same_in_twice_the_time(limit):
    def slowed(by):
        factors = [lambda z, f=f: by * f(z) for f in latency.PER_EXAMPLE]
        scaled = limit and limit._replace(seconds=by * limit.seconds)
        return draw(population.emnist(), Factors(*factors), limit=scaled)

    once, much = slowed(1), slowed(2**20)
    assert np.array_equal(2**20 * once.seconds, much.seconds)
    assert np.array_equal(once.examples, much.examples)


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf])
def test_a_time_limit_is_a_positive_number_of_seconds(seconds):
    with pytest.raises(BadInput, match=f"time_limit: seconds={seconds}"):
        draw(people(1), CONSTANT, limit=TimeLimit(seconds))


@pytest.mark.parametrize("percentile", [5, 50, 95])
def test_a_percentile_limit_lets_that_share_of_the_population_finish(percentile):
    who, factors = population.emnist(), latency.PER_DOMAIN
    limit = latency.percentile_limit(who, factors, seed=0, percentile=percentile)
    _, _, training = latency.one_epoch(who, factors, seed=0, purpose=Purpose.TIME_LIMIT)
    assert abs(100 * np.mean(training <= limit) - percentile) <= 100 / who.clients


def test_a_percentile_limit_has_draws_of_its_own():
    who = people(*[10] * 1000)
    own = latency.one_epoch(who, latency.PER_EXAMPLE, seed=0, purpose=Purpose.TIME_LIMIT)
    assert not np.array_equal(own, latency.one_epoch(who, latency.PER_EXAMPLE, seed=0))
    assert not np.array_equal(sum(own), draw(who, latency.PER_EXAMPLE).seconds)


@pytest.mark.parametrize("percentile", [0, 100, -5, math.nan])
def test_a_percentile_limit_lies_strictly_between_0_and_100(percentile):
    with pytest.raises(BadInput, match=f"percentile={percentile}"):
        latency.percentile_limit(people(1), CONSTANT, seed=0, percentile=percentile)


def test_a_percentile_limit_below_those_who_never_finish_is_finite():
    who = people(2, 4, 6, group=[0, 0, 1], groups=("fast", "never"))
    factors = {"fast": CONSTANT, "never": CONSTANT._replace(per_example=constant(math.inf))}
    assert latency.percentile_limit(who, factors, seed=0, percentile=50) == 2
    with pytest.raises(BadInput, match="ever finish"):
        latency.percentile_limit(who, factors, seed=0, percentile=75)
