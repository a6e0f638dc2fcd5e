"""What is fitted to logs that the model itself has drawn is what they were drawn with."""

import math
from pathlib import Path

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.config import documents
from stragglers.planning import latency
from stragglers.planning.distributions import Constant, LogNormal, Pareto, Percentiles, sampler
from stragglers.planning.fit import persistence as luck
from stragglers.planning.fit import totals
from stragglers.planning.fit.estimate import CHANCE, document, fit
from stragglers.planning.fit.logs import Log
from stragglers.planning.latency import BY_DOMAIN, Latency, PerGroup
from stragglers.planning.population import Population

TRUE = {  # the paper's, as latency.py has them: mu and sigma
    "standard": {"communication": (2.7, 1), "overhead": (3, 0.3), "per_example": (-2, 0.2)},
    "straggler": {"communication": (3.7, 1), "overhead": (3.5, 0.3), "per_example": (-1, 0.5)},
}

ALONE = {"all": BY_DOMAIN["straggler"]}


def drawn(
    clients,
    times,
    factors=BY_DOMAIN,
    *,
    persistence=0.0,
    correlation=0.0,
    whole=False,
    lost=0.0,
    sizes=None,
    seed=1,
):
    """A log of clients, one in four a straggler, each `times` in it (one number, or each one's)."""
    rng = np.random.default_rng(seed)
    groups = tuple(factors)
    group = (
        (np.arange(clients) % 4 == 0).astype(np.int16)
        if len(groups) > 1
        else np.zeros(clients, np.int16)
    )
    examples = rng.lognormal(4.6, 0.7, clients).astype(np.int64) + 1 if sizes is None else sizes
    who = Population(examples, group, groups, "a test")
    model = PerGroup(factors, persistence=persistence, correlation=correlation)
    sample = latency._factors(who, model, seed)
    client = np.repeat(np.arange(clients), times)
    communication, overhead, per_example = sample(client, rng.standard_normal((3, len(client))))
    parts = {
        "communication": communication,
        "overhead": overhead,
        "training": per_example * examples[client],
    }
    if whole:
        parts = {"seconds": np.sum([*parts.values()], axis=0)}
    gone = rng.random(len(client)) < lost
    columns = {name: np.where(gone, np.nan, np.round(column, 3)) for name, column in parts.items()}
    names = [f"c{i}" for i in range(clients)]
    return Log(Path("log.csv"), client, examples[client], columns, names, group, groups)


def alone(**columns):
    """A log of one group from columns; clients are numbers."""
    client = np.array(columns.pop("client"))
    examples = np.array(columns.pop("examples"))
    times = {name: np.array(column, float) for name, column in columns.items()}
    names = [str(i) for i in range(client.max() + 1)]
    return Log(
        Path("log.csv"), client, examples, times, names, np.zeros(len(names), np.int16), ("all",)
    )


def fitted_percentiles(fitted, log, group=0):
    """50, 95 and 99 % of T under what was fitted."""
    given = documents.settings_from(document(fitted, log, "clients.csv")).latency
    who = log.population()
    some = np.resize(np.flatnonzero(who.group == group), 100_000)
    who = who._replace(examples=who.examples[some], group=who.group[some])
    times = latency.one_epoch(who, given, seed=5)
    return np.percentile(np.sum(times, axis=0), [50, 95, 99])


@pytest.mark.parametrize("persistence", [0, 0.5, 1])
def test_the_papers_factors_are_found_in_their_parts(persistence):
    clients, times = 2000, 8
    log = drawn(clients, times, persistence=persistence, correlation=0.4, lost=0.1)
    fitted = fit(log)
    assert fitted.persistence == pytest.approx(persistence, abs=0.03)
    assert fitted.correlation == pytest.approx(0.4, abs=0.08)
    for name, factors in TRUE.items():
        members = np.sum(log.group == log.groups.index(name))
        # Of a client's luck p is drawn once: four standard errors.
        error = 4 * math.sqrt((persistence + (1 - persistence) / (0.9 * times)) / members)
        assert fitted.drop_out[name] == pytest.approx(0.1, abs=4 * 0.3 / math.sqrt(members * times))
        for factor, (mu, sigma) in factors.items():
            found = fitted.factors[name][factor].setting
            assert found["kind"] == "lognormal"
            assert found["mu"] == pytest.approx(mu, abs=sigma * error)
            assert found["sigma"] == pytest.approx(sigma, rel=error)


def test_a_constant_overhead_is_found_in_totals():
    communication, per_example = LogNormal(mu=2.7, sigma=0.8), LogNormal(mu=-1.5, sigma=0.4)
    given = {"all": Latency(communication, Constant(20.0), per_example)}
    found = fit(drawn(1000, 2, given, whole=True)).factors["all"]
    assert found["overhead"].setting["value"] == pytest.approx(20, abs=3)
    assert found["communication"].setting["mu"] == pytest.approx(2.7, abs=0.2)
    assert found["communication"].setting["sigma"] == pytest.approx(0.8, abs=0.15)
    assert found["per_example"].setting["mu"] == pytest.approx(-1.5, abs=0.1)
    assert found["per_example"].setting["sigma"] == pytest.approx(0.4, abs=0.1)
    assert found["communication"].misfit < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("persistence", [0, 0.5, 1])
def test_the_papers_latency_is_found_in_totals(persistence):
    """Communication and overhead are one there: what counts is T, and what goes by examples."""
    log = drawn(1200, 4, persistence=persistence, whole=True, lost=0.05)
    fitted = fit(log)
    assert fitted.correlation is None
    assert fitted.persistence == pytest.approx(persistence, abs=0.07)
    for index, (name, factors) in enumerate(TRUE.items()):
        per_example = fitted.factors[name]["per_example"].setting
        assert per_example["mu"] == pytest.approx(factors["per_example"][0], abs=0.25)
        lines = log.came & (log.group[log.client] == index)
        measured = np.percentile(log.total[lines], [50, 95])
        np.testing.assert_allclose(fitted_percentiles(fitted, log, index)[:2], measured, rtol=0.12)


def test_what_is_not_lognormal_becomes_percentiles():
    tail = Pareto(minimum=12, alpha=1.8)
    heavy = {"all": Latency(tail, LogNormal(mu=3, sigma=0.3), Constant(0.5))}
    log = drawn(3000, 3, heavy)
    found = fit(log).factors["all"]
    setting = found["communication"].setting
    assert setting["kind"] == "percentiles" and found["communication"].misfit > 0.05
    for level, value in setting["table"].items():
        above = 1 - float(level) / 100
        error = 4 * math.sqrt((1 - above) / (above * len(log.client))) / 1.8  # standard ones
        assert value == pytest.approx(12 * above ** (-1 / 1.8), rel=error), level
    sampler(Percentiles(setting["table"]))  # which refuses values that fall
    assert found["overhead"].setting["kind"] == "lognormal"
    assert found["per_example"].setting == {"kind": "constant", "value": 0.5}


def test_beyond_a_table_nobody_takes_forever():
    """Two values: between their percentiles a table is steep, at its end it is flat."""
    client = np.arange(5000)
    slow = client % 100 == 0
    fitted = fit(
        alone(
            client=client,
            examples=0 * client,
            training=0 * client,
            communication=np.where(slow, 1000.0, 1.0),
        )
    )
    draw = sampler(Percentiles(fitted.factors["all"]["communication"].setting["table"]))
    assert draw(np.array([-4.0, 0, 3.5, 5])).tolist() == pytest.approx([1, 1, 1000, 1000])


@pytest.mark.slow
def test_who_is_more_often_in_the_log_counts_no_more():
    """One client of a thousand, a hundred times as often there, and slower than anybody."""
    often, once = np.full(1000, 5), np.full(1000, 5)
    often[3] = 500
    for whole in (False, True):
        logs = [drawn(1000, times, persistence=1, whole=whole) for times in (once, often)]
        for log in logs:
            for column in log.times.values():
                column[log.client == 3] = 1e4
        before, after = (fit(log) for log in logs)
        assert after.persistence == pytest.approx(before.persistence, abs=0.02)
        for name, factor in after.factors["standard"].items():
            for key, value in before.factors["standard"][name].setting.items():
                if key != "kind":
                    assert factor.setting[key] == pytest.approx(value, rel=0.02, abs=0.02)


def test_constants_and_zeros():
    client = np.arange(40) % 20
    fitted = fit(
        alone(
            client=client,
            examples=10 + client,
            communication=np.full(40, 3.0),
            overhead=np.zeros(40),
            training=0.1 * (10 + client),
        )
    )
    settings = {name: factor.setting for name, factor in fitted.factors["all"].items()}
    assert settings == {
        "communication": {"kind": "constant", "value": 3.0},
        "overhead": {"kind": "constant", "value": 0.0},
        "per_example": {"kind": "constant", "value": 0.1},
    }
    assert fitted.persistence is None and fitted.correlation is None


def test_a_time_that_is_nothing_at_times_is_no_lognormal():
    client = np.arange(12)
    training = np.where(client == 3, 0.0, 5.0 + client)
    fitted = fit(
        alone(
            client=client, examples=np.full(12, 10), communication=1.0 + client, training=training
        )
    )
    assert fitted.factors["all"]["communication"].setting["kind"] == "lognormal"
    table = fitted.factors["all"]["per_example"].setting["table"]
    assert table["1"] == 1e-4 and table["99"] == pytest.approx(1.6)


def test_few_clients_are_no_excuse_for_a_lognormal_of_zeros():
    client = np.arange(5)
    times = {"communication": 1.0 + client, "training": np.where(client == 3, 0.0, 5.0 + client)}
    found = fit(alone(client=client, examples=np.full(5, 10), **times)).factors["all"]
    assert found["per_example"].misfit < CHANCE / math.sqrt(5)  # which else would do
    assert found["per_example"].setting["kind"] == "percentiles"
    assert found["communication"].setting["kind"] == "lognormal"


def test_who_trains_on_nothing_has_no_time_per_example():
    client = np.arange(60)
    examples = np.where(client % 3 == 0, 0, 10)
    log = alone(
        client=client,
        examples=examples,
        communication=np.exp(client % 7),
        training=np.where(examples > 0, 20.0 + client % 7, 0.4),
    )
    found = fit(log)
    assert found.factors["all"]["per_example"].setting["mu"] == pytest.approx(
        np.mean(np.log((20 + client % 7) / 10)[examples > 0]), abs=1e-3
    )
    assert found.correlation > 0.9  # both grow with the remainder
    none = fit(
        alone(
            client=client,
            examples=0 * client,
            communication=np.exp(client % 7),
            training=0 * client,
        )
    )
    assert none.factors["all"]["per_example"].setting == {"kind": "constant", "value": 0.0}


@pytest.mark.parametrize("examples", [0, 7])
def test_equal_examples_say_nothing_of_time_by_example(examples):
    log = drawn(400, 2, {"all": BY_DOMAIN["standard"]}, whole=True, sizes=np.full(400, examples))
    found = fit(log).factors["all"]
    for name in ("overhead", "per_example"):
        assert found[name].setting == {"kind": "constant", "value": 0.0}
    np.testing.assert_allclose(fitted_percentiles(fit(log), log)[0], np.median(log.total), rtol=0.1)


@pytest.mark.parametrize("clients, times", [(2, 1), (10, 20), (totals.ENOUGH - 1, 1)])
def test_of_few_clients_three_numbers_are_fitted_however_many_reports(clients, times):
    fitted = fit(drawn(clients, times, ALONE, whole=True))
    found = {name: factor.setting for name, factor in fitted.factors["all"].items()}
    assert fitted.few == ("all",)
    assert found["overhead"] == {"kind": "constant", "value": 0.0}
    assert found["communication"]["sigma"] == found["per_example"]["sigma"]


def test_enough_clients_are_those_that_reported():
    enough = drawn(totals.ENOUGH, 1, ALONE, whole=True)
    fitted = fit(enough)
    assert fitted.few == ()
    assert (
        fitted.factors["all"]["communication"].setting["sigma"]
        != fitted.factors["all"]["per_example"].setting["sigma"]
    )
    enough.times["seconds"][0] = np.nan
    assert fit(enough).few == ("all",)


def test_a_small_group_is_small_beside_a_large_one():
    log = drawn(80, 2, whole=True)  # one in four a straggler
    assert fit(log).few == ("straggler",)


def test_few_clients_are_no_matter_where_two_numbers_are_fitted():
    assert fit(drawn(10, 2)).few == ()  # of each part
    assert fit(drawn(10, 2, ALONE, whole=True, sizes=np.full(10, 7))).few == ()


def test_one_report_is_a_constant():
    for times in ({"seconds": [4.5]}, {"communication": [1.5], "overhead": [1], "training": [2]}):
        log = alone(client=[0], examples=[8], **times)
        fitted = fit(log)
        assert fitted.persistence is None and fitted.correlation is None
        assert fitted.drop_out == {"all": 0}
        np.testing.assert_allclose(fitted_percentiles(fitted, log), 4.5)


def test_a_group_without_reports_is_refused():
    log = drawn(40, 2)
    log.times["overhead"][log.group[log.client] == 1] = np.nan
    with pytest.raises(BadInput, match="no report of group 'straggler'; leave its lines out"):
        fit(log)


def test_nobody_twice_tells_nothing_of_persistence():
    assert fit(drawn(100, 1, persistence=0.8)).persistence is None
    times = np.ones(100, int)
    times[1 : 1 + luck.FEWEST * 4 // 3 : 4] = 2  # too few, of standard ones
    assert fit(drawn(100, times, persistence=0.8)).persistence is None


def test_persistence_is_of_factors_by_the_seconds_that_they_add():
    """Communication is drawn anew and training is kept; both spread T equally."""
    rng, clients, times, examples = np.random.default_rng(0), 600, 4, 100
    client = np.repeat(np.arange(clients), times)
    fitted = fit(
        alone(
            client=client,
            examples=np.full(len(client), examples),
            communication=rng.lognormal(3, 0.5, len(client)),
            training=rng.lognormal(3, 0.5, clients)[client],
        )
    )
    assert fitted.persistence == pytest.approx(0.5, abs=0.05)


def test_persistence_is_of_groups_by_their_clients():
    """Nine in ten clients keep all of their luck, the others none of it."""
    rng, clients, times = np.random.default_rng(0), 600, 4
    client = np.repeat(np.arange(clients), times)
    kept, fresh = rng.lognormal(3, 0.5, clients)[client], rng.lognormal(3, 0.5, len(client))
    log = alone(
        client=client,
        examples=np.full(len(client), 5),
        training=np.ones(len(client)),
        communication=np.where(client % 10 > 0, kept, fresh),
    )
    apart = log._replace(group=(np.arange(clients) % 10 == 0).astype(np.int16), groups=("a", "b"))
    assert fit(apart).persistence == pytest.approx(0.9, abs=0.03)


def test_few_clients_tell_nothing_of_correlation():
    assert fit(drawn(luck.FEWEST - 1, 20, correlation=0.9)).correlation is None
    assert fit(drawn(luck.FEWEST, 20, correlation=0.9)).correlation == pytest.approx(0.9, abs=0.1)


def test_a_factor_that_hardly_ever_differs_weighs_nothing():
    client = np.arange(90) // 3
    communication = np.where(np.arange(90) == 0, 100.0, 1.0)
    one = np.ones(90)
    fitted = fit(alone(client=client, examples=5 * one, communication=communication, training=one))
    assert fitted.persistence is None


def test_drop_out_is_of_each_client_once():
    client = [0] * 98 + [1, 1]
    log = alone(client=client, examples=[5] * 100, seconds=[3.0] * 98 + [7.2, np.nan])
    fitted = fit(log)
    assert fitted.drop_out == {"all": 0.25}
    found = document(fitted, log, "clients.csv")
    assert found["faults"] == {"drop_out": {"all": 0.25}}
    assert found["schedule"]["round_timeout"] == 8.0


def test_without_drop_out_rounds_wait():
    log = drawn(50, 2)
    found = document(fit(log), log, "clients.csv")
    assert "faults" not in found and "round_timeout" not in found["schedule"]
