import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from scipy import stats

from stragglers._core.errors import BadInput
from stragglers._core.random_streams import BLOCK, Purpose
from stragglers.planning import latency, paper_populations
from stragglers.planning.distributions import Constant, LogNormal, sampler
from stragglers.planning.fleet import Fleet
from stragglers.planning.fleet import draw as draw_fleet
from stragglers.planning.latency import (
    PER_DOMAIN,
    PER_EXAMPLE,
    Latency,
    PerExample,
    PerGroup,
    TimeLimit,
)
from stragglers.planning.policy import Rounds
from stragglers.planning.population import Population

CONSTANT = Latency(Constant(5), Constant(3), Constant(0.5))
# Three mu and three sigma each: communication, C, seconds per example (Hard et al., section 3).
PAPER_MODELS = {
    "per-example": (latency.ALL, (2.7, 3.0, -1.6), (1.0, 0.3, 0.5)),
    "per-domain, standard": (latency.BY_DOMAIN["standard"], (2.7, 3.0, -2.0), (1.0, 0.3, 0.2)),
    "per-domain, straggler": (latency.BY_DOMAIN["straggler"], (3.7, 3.5, -1.0), (1.0, 0.3, 0.5)),
}
# Medians of one epoch in the paper's tables of latency percentiles: standard, straggler.
PAPER_MEDIANS = {
    "cifar100 per-example": (paper_populations.cifar100, PER_EXAMPLE, (60.21, 60.21)),
    "cifar100 per-domain": (paper_populations.cifar100, PER_DOMAIN, (52.04, 114.2)),
    "emnist per-example": (paper_populations.emnist, PER_EXAMPLE, (69.89, 77.14)),
    "emnist per-domain": (paper_populations.emnist, PER_DOMAIN, (59.35, 151.5)),
    "stackoverflow per-example": (
        paper_populations.stackoverflow,
        PER_EXAMPLE,
        (80.39, 106.2),
    ),
    "stackoverflow per-domain": (
        paper_populations.stackoverflow,
        PER_DOMAIN,
        (66.20, 211.2),
    ),
}


def people(*examples, group=None, groups=("all",)):
    group = np.zeros(len(examples)) if group is None else group
    return Population(np.array(examples), np.array(group, np.int16), groups, "a test")


def model(given, **changes):
    """A latency model of one latency for all, of one for each group, or as it is; changed."""
    if isinstance(given, Latency):
        given = {"all": given}
    given = PerGroup(given) if isinstance(given, dict) else given
    return structs.replace(given, **changes)


def draw(who, given, changes=None, **options):
    """Every client once, as dispatches 0, 1, ..."""
    sample = latency.latency(who, model(given, **(changes or {})), seed=0, **options)
    return sample(0, np.arange(who.clients))


@pytest.mark.parametrize("factors, mu, sigma", PAPER_MODELS.values(), ids=PAPER_MODELS)
def test_the_papers_models_have_its_parameters(factors, mu, sigma):
    for factor, m, s in zip(structs.astuple(factors), mu, sigma):
        quantiles = sampler(factor)(np.array([0.0, 1.0]))
        np.testing.assert_allclose(quantiles, [math.exp(m), math.exp(m + s)], rtol=1e-12)


def test_the_papers_per_domain_model_has_no_other_groups():
    assert set(latency.BY_DOMAIN) == set(paper_populations.PAPER_GROUPS)


def test_a_latency_is_communication_plus_overhead_plus_examples():
    drawn = draw(people(0, 1, 40), CONSTANT)
    assert drawn.seconds.tolist() == [5 + 3 + 0.5 * n for n in (0, 1, 40)]
    assert drawn.examples.tolist() == [0, 1, 40]


def test_each_group_has_its_own_factors():
    who = people(10, 10, 10, group=[1, 0, 1], groups=("fast", "slow"))
    slow = Latency(Constant(50), Constant(30), Constant(5))
    assert draw(who, {"slow": slow, "fast": CONSTANT}).seconds.tolist() == [130, 13, 130]


def test_epochs_repeat_the_examples():
    drawn = draw(people(7, 10), CONSTANT, epochs=2.5)
    assert drawn.examples.tolist() == [17, 25]  # whole examples
    assert drawn.seconds.tolist() == [8 + 0.5 * 17, 8 + 0.5 * 25]


def test_twice_the_examples_double_only_the_training():
    one, two = people(*range(100)), people(*range(0, 200, 2))
    once = latency.one_epoch(one, PER_EXAMPLE, seed=0)
    twice = latency.one_epoch(two, PER_EXAMPLE, seed=0)
    for a, b, ratio in zip(once, twice, (1, 1, 2)):
        assert np.array_equal(ratio * a, b)
    none = draw(people(*[0] * 100), PER_EXAMPLE).seconds
    first = draw(one, PER_EXAMPLE).seconds - none
    np.testing.assert_allclose(draw(two, PER_EXAMPLE).seconds - none, 2 * first)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2 * BLOCK), st.integers(0, 40), st.integers(0, 40))
def test_a_draw_depends_on_the_number_of_its_dispatch_alone(first, a, b):
    sample = latency.latency(paper_populations.emnist(), PER_DOMAIN, seed=3)
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
    fast, slow = (Latency(*3 * [LogNormal(mu=mu, sigma=1)]) for mu in (0, 2))
    sample = latency.latency(who, PerGroup({"fast": fast, "slow": slow}), seed=1)
    [a], [b], [c], [d] = (sample(8, np.array([client])).seconds for client in range(4))
    assert a == d  # alike in group and size
    assert a < b < 2 * a  # only the training is longer
    assert c == pytest.approx(a * math.exp(2))  # each factor moved by the same e^2
    assert sample(9, np.array([0])).seconds != a


def test_another_seed_is_other_luck_and_the_three_factors_are_independent():
    who = people(*[1] * 20_000)
    assert not np.array_equal(
        draw(who, PER_EXAMPLE).seconds,
        latency.latency(who, PER_EXAMPLE, seed=1)(0, np.arange(20_000)).seconds,
    )
    correlation = np.corrcoef(np.log(latency.one_epoch(who, PER_EXAMPLE, seed=0)))
    assert np.abs(correlation - np.eye(3)).max() < 5 / math.sqrt(20_000)


def test_what_a_client_keeps_of_its_luck_is_a_share_of_the_spread():
    who = people(*[1] * 20_000)
    spread = Latency(LogNormal(mu=2, sigma=1), *2 * [Constant(0.0)])

    def luck(first, persistence):
        sample = latency.latency(who, model(spread, persistence=persistence), seed=0)
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
        latency.one_epoch(who, PerExample(persistence=1.0), seed=seed) for seed in (0, 1)
    )
    assert not np.array_equal(first, other)
    correlation = np.corrcoef(np.log(first))  # each factor keeps luck of its own
    assert np.abs(correlation - np.eye(3)).max() < near


def test_a_picture_and_a_limit_show_the_devices_that_there_are():
    who = paper_populations.cifar100()
    kept = model(PER_DOMAIN, persistence=1.0, correlation=0.5, download=1.0, upload=3.0)
    once = latency.latency(who, kept, seed=3)(0, np.arange(who.clients)).seconds
    np.testing.assert_allclose(sum(latency.one_epoch(who, kept, seed=3)), once)
    limit = latency.percentile_limit(who, kept, percentile=75, seed=3)
    training = latency.one_epoch(who, kept, seed=3)[2]
    assert limit == np.percentile(training, 75)


def test_by_tokens_long_examples_take_longer_and_a_mean_one_what_it_did():
    who = people(10, 10, 20, 0)._replace(tokens=np.array([5.0, 15.0, 10.0, 7.0]))
    by_tokens = dict(cost="tokens")
    drawn = draw(who, CONSTANT, by_tokens)
    assert drawn.seconds.tolist() == [5 + 3 + 0.5 * n for n in (5, 15, 20, 0)]
    assert drawn.examples.tolist() == [10, 10, 20, 0]
    assert draw(who, CONSTANT).seconds.tolist() == [5 + 3 + 0.5 * n for n in (10, 10, 20, 0)]
    limited = draw(who, CONSTANT, by_tokens, limit=TimeLimit(2.5, fill=False))
    assert limited.examples.tolist() == [10, 3, 5, 0]
    # Of 0, 2.5, 7.5 and 10 seconds of training.
    assert latency.percentile_limit(who, model(CONSTANT, **by_tokens), seed=0, percentile=50) == 5


def test_tokens_must_be_known():
    with pytest.raises(BadInput, match="latency.cost: 'tokens' given, but of a test they are not"):
        draw(people(1), CONSTANT, dict(cost="tokens"))


def test_a_client_keeps_its_luck_wherever_it_stands_in_a_cohort():
    kept = model(PER_DOMAIN, persistence=1.0)
    sample = latency.latency(paper_populations.emnist(), kept, seed=3)
    cohort = np.array([7, 3000, 7, 12])
    assert np.array_equal(sample(0, cohort).seconds[::-1], sample(99, cohort[::-1]).seconds)


def refused(name, **changes):
    """A model that Python code makes is checked like one from a file."""
    fleet = Fleet(people(1), model(PER_EXAMPLE, **changes))
    with pytest.raises(BadInput, match=f"^{name}: .* given, expected a number"):
        draw_fleet(fleet, Rounds(goal=1), seed=0)


@pytest.mark.parametrize("persistence", [-0.1, 1.1, math.nan])
def test_persistence_is_a_share(persistence):
    refused("persistence", persistence=persistence)


def test_time_per_example_goes_along_with_communication():
    who = people(*[1] * 20_000)
    for correlation in (-1.0, -0.4, 0.0, 0.7, 1.0):
        factors = np.log(latency.one_epoch(who, PerExample(correlation=correlation), seed=0))
        for z, mu, sigma in zip(factors, (2.7, 3.0, -1.6), (1.0, 0.3, 0.5)):  # as ever, one by one
            assert stats.kstest((z - mu) / sigma, "norm").pvalue > 1e-3
        expected = np.eye(3)
        expected[0, 2] = expected[2, 0] = correlation
        np.testing.assert_allclose(np.corrcoef(factors), expected, atol=5 / math.sqrt(20_000))
    # The sum of what goes together is wider, and what a dispatch draws is what a picture shows.
    spread = [draw(who, PER_EXAMPLE, dict(correlation=r)).seconds.std() for r in (-1, 0, 1)]
    assert spread == sorted(spread)


def test_traffic_multiplies_communication_alone():
    who, options = people(10, 20, 0), dict(limit=TimeLimit(7.0))
    for more in ({}, options):
        once, thrice, free = (
            draw(who, CONSTANT, dict(download=t, upload=t), **more).seconds for t in (1.0, 3.0, 0.0)
        )
        np.testing.assert_allclose(thrice - once, 2 * 5)
        np.testing.assert_allclose(once - free, 5)
    never = Latency(Constant(math.inf), Constant(3), Constant(0.5))
    assert draw(who, never, dict(download=0.0, upload=0.0)).seconds.tolist() == [8, 13, 3]
    assert np.isinf(draw(who, never, dict(upload=0.0)).seconds).all()


@pytest.mark.parametrize("traffic", [-0.1, math.inf, math.nan])
def test_traffic_is_a_number_from_zero_on(traffic):
    refused("upload", upload=traffic)


@pytest.mark.parametrize("correlation", [-1.1, 1.1, math.nan])
def test_a_correlation_is_between_minus_one_and_one(correlation):
    refused("correlation", correlation=correlation)


def test_a_group_without_factors_is_named_with_the_nearest_name():
    who = people(1, groups=("straggler",))
    with pytest.raises(BadInput, match="no latency for group 'straggler'.*did you mean 'stragler'"):
        latency.latency(who, PerGroup({"stragler": CONSTANT, "standard": CONSTANT}), seed=0)


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
        (TimeLimit(10, scope="training", fill=True), [5 + 3 + 10, 5 + 3 + 10], [20, 20]),
        (TimeLimit(10, scope="training", fill=False), [5 + 3 + 10, 5 + 3 + 5], [20, 10]),
        (TimeLimit(10, scope="computation", fill=True), [5 + 10, 5 + 10], [14, 14]),
        (TimeLimit(10, scope="computation", fill=False), [5 + 10, 5 + 3 + 5], [14, 10]),
        (TimeLimit(2, scope="computation", fill=True), [5 + 3, 5 + 3], [0, 0]),  # C alone is longer
        (TimeLimit(2, scope="computation", fill=False), [5 + 3, 5 + 3], [0, 0]),
        (TimeLimit(10, scope="latency", fill=True), [10, 10], [4, 4]),
        (TimeLimit(15, scope="latency", fill=False), [15, 5 + 3 + 5], [14, 10]),
        (
            TimeLimit(7, scope="latency", fill=True),
            [5 + 3, 5 + 3],
            [0, 0],
        ),  # C and communication alone
        (TimeLimit(0.7, scope="training", fill=True), [8.7, 8.7], [1, 1]),  # whole examples only
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
    TimeLimit(10, scope=scope, fill=fill)
    for scope in ("training", "computation", "latency")
    for fill in (True, False)
]


@pytest.mark.parametrize("limit", [None, *LIMITS])
@pytest.mark.parametrize("per_example", [0.5, 0, 1e-300, math.inf])
def test_a_client_without_examples_trains_none_and_takes_no_time_for_it(limit, per_example):
    factors = structs.replace(CONSTANT, per_example=Constant(per_example))
    drawn = draw(people(0, 4), factors, limit=limit)
    assert drawn.seconds[0] == 5 + 3 and drawn.examples[0] == 0  # within every limit
    assert drawn.seconds[1] >= 5 + 3 and drawn.examples[1] >= 0


@pytest.mark.parametrize("scope", ["training", "computation", "latency"])
def test_a_time_limit_that_nobody_reaches_changes_nothing(scope):
    who, limit = paper_populations.emnist(), TimeLimit(1e12, scope=scope, fill=False)
    free, bound = draw(who, PER_DOMAIN), draw(who, PER_DOMAIN, limit=limit)
    assert np.array_equal(free.seconds, bound.seconds)
    assert np.array_equal(free.examples, bound.examples)
    assert not free.cut and not bound.cut.any()


@pytest.mark.parametrize("limit", [None, *LIMITS])
def test_twice_as_slow_a_world_trains_the_same_in_twice_the_time(limit, monkeypatch):
    def slowed(by):
        monkeypatch.setattr(latency, "sampler", lambda given: lambda z: by * sampler(given)(z))
        scaled = limit and structs.replace(limit, seconds=by * limit.seconds)
        return draw(paper_populations.emnist(), PER_EXAMPLE, limit=scaled)

    once, much = slowed(1), slowed(2**20)
    assert np.array_equal(2**20 * once.seconds, much.seconds)
    assert np.array_equal(once.examples, much.examples)


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf])
def test_a_time_limit_is_a_positive_number_of_seconds(seconds):
    with pytest.raises(BadInput, match=f"time_limit: seconds={seconds}"):
        draw(people(1), CONSTANT, limit=TimeLimit(seconds))


@pytest.mark.parametrize("percentile", [5, 50, 95])
def test_a_percentile_limit_lets_that_share_of_the_population_finish(percentile):
    who, factors = paper_populations.emnist(), PER_DOMAIN
    limit = latency.percentile_limit(who, factors, seed=0, percentile=percentile)
    _, _, training = latency.one_epoch(who, factors, seed=0, purpose=Purpose.TIME_LIMIT)
    assert abs(100 * np.mean(training <= limit) - percentile) <= 100 / who.clients


def test_a_percentile_limit_has_draws_of_its_own():
    who = people(*[10] * 1000)
    own = latency.one_epoch(who, PER_EXAMPLE, seed=0, purpose=Purpose.TIME_LIMIT)
    assert not np.array_equal(own, latency.one_epoch(who, PER_EXAMPLE, seed=0))
    assert not np.array_equal(sum(own), draw(who, PER_EXAMPLE).seconds)


@pytest.mark.parametrize("percentile", [0, 100, -5, math.nan])
def test_a_percentile_limit_lies_strictly_between_0_and_100(percentile):
    with pytest.raises(BadInput, match=f"percentile={percentile}"):
        latency.percentile_limit(people(1), CONSTANT, seed=0, percentile=percentile)


def test_a_percentile_limit_below_those_who_never_finish_is_finite():
    who = people(2, 4, 6, group=[0, 0, 1], groups=("fast", "never"))
    factors = {"fast": CONSTANT, "never": structs.replace(CONSTANT, per_example=Constant(math.inf))}
    assert latency.percentile_limit(who, PerGroup(factors), seed=0, percentile=50) == 2
    with pytest.raises(BadInput, match="ever finish"):
        latency.percentile_limit(who, PerGroup(factors), seed=0, percentile=75)
