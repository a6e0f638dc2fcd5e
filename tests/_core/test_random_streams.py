import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from stragglers._core import random_streams
from stragglers._core.random_streams import BLOCK, Purpose

TABLE = random_streams.normals(0, Purpose.LATENCY, 0, 3 * BLOCK, 3)
NEAR_A_BLOCK = st.builds(
    lambda block, offset: min(max(block * BLOCK + offset, 0), 3 * BLOCK),
    st.integers(0, 3),
    st.integers(-3, 3),
)
ROWS = st.one_of(NEAR_A_BLOCK, st.integers(0, 3 * BLOCK))
# A quarter of the clients is where one way of drawing hands over to the other.
SPARSE, DENSE, EVERYBODY = (12, 3), (12, 4), (5, 5)


@settings(max_examples=60, deadline=None)
@given(ROWS, ROWS)
def test_any_range_of_normals_is_that_slice_of_a_longer_table(a, b):
    first, last = sorted((a, b))
    part = random_streams.normals(0, Purpose.LATENCY, first, last, 3)
    assert np.array_equal(part, TABLE[:, first:last])


def test_seeds_purposes_and_blocks_draw_differently():
    tables = [
        TABLE[:, :BLOCK],
        TABLE[:, BLOCK : 2 * BLOCK],
        random_streams.normals(1, Purpose.LATENCY, 0, BLOCK, 3),
        random_streams.normals(0, Purpose.TIME_LIMIT, 0, BLOCK, 3),
    ]
    rows = np.concatenate(tables)  # the three columns of each are independent of one another too
    correlation = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(correlation).max() < 5 / np.sqrt(BLOCK)


@pytest.mark.parametrize("clients, size", [SPARSE, DENSE, EVERYBODY, (10**6, 100), (1, 1)])
def test_a_cohort_has_distinct_clients_of_the_population(clients, size):
    rows = random_streams.cohorts(0, Purpose.CLIENTS, clients, size, 0, 2000)
    assert rows.shape == (2000, size)
    assert rows.min() >= 0 and rows.max() < clients
    assert np.all(np.diff(np.sort(rows, axis=1), axis=1) > 0)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([SPARSE, DENSE, EVERYBODY]), st.data())
def test_any_range_of_cohorts_is_that_slice_of_a_longer_table(clients_and_size, data):
    clients, size = clients_and_size
    rounds = 3 * (BLOCK // size)
    near = st.integers(-2, 2).map(lambda offset: BLOCK // size + offset)
    first, last = sorted(data.draw(st.tuples(*2 * [near | st.integers(0, rounds)])))
    table = random_streams.cohorts(0, Purpose.CLIENTS, clients, size, 0, rounds)
    part = random_streams.cohorts(0, Purpose.CLIENTS, clients, size, first, last)
    assert np.array_equal(part, table[first:last])


def test_a_cohort_larger_than_a_block_has_the_prefix_property_too():
    size = BLOCK + 1
    table = random_streams.cohorts(0, Purpose.CLIENTS, 5 * BLOCK, size, 0, 3)
    assert np.array_equal(
        random_streams.cohorts(0, Purpose.CLIENTS, 5 * BLOCK, size, 1, 2), table[1:2]
    )


@pytest.mark.parametrize("clients, size", [SPARSE, DENSE, EVERYBODY])
def test_seeds_purposes_and_rounds_start_different_cohorts(clients, size):
    rows = BLOCK // size
    table = random_streams.cohorts(0, Purpose.CLIENTS, clients, size, 0, 2 * rows)
    others = [
        table[rows:],
        random_streams.cohorts(1, Purpose.CLIENTS, clients, size, 0, rows),
        random_streams.cohorts(0, Purpose.FIRST_CLIENTS, clients, size, 0, rows),
    ]
    for other in others:
        shared = np.mean(table[:rows] == other)  # a slot holds the same client by chance only
        assert abs(shared - 1 / clients) < 5 / np.sqrt(rows)


@pytest.mark.parametrize("clients, size", [SPARSE, DENSE, EVERYBODY])
def test_every_slot_of_a_cohort_holds_every_client_equally_often(clients, size):
    rows = random_streams.cohorts(7, Purpose.CLIENTS, clients, size, 0, 50_000)
    for slot in rows.T:
        assert chisquare(np.bincount(slot, minlength=clients)).pvalue > 1e-4


@pytest.mark.parametrize("clients, size", [SPARSE, DENSE, EVERYBODY])
def test_every_ordered_pair_of_clients_is_equally_likely(clients, size):
    rows = random_streams.cohorts(7, Purpose.CLIENTS, clients, size, 0, 50_000)
    for a, b in [(0, 1), (0, size - 1), (size - 2, size - 1)]:
        pairs = np.bincount(rows[:, a] * clients + rows[:, b], minlength=clients**2)
        possible = ~np.eye(clients, dtype=bool).ravel()
        assert chisquare(pairs[possible]).pvalue > 1e-4


@pytest.mark.parametrize("weigh", [lambda clients: None, lambda clients: np.arange(clients) % 3.0])
def test_a_cohort_costs_no_more_in_a_larger_population(weigh):
    def seconds(clients):
        best, weights = np.inf, weigh(clients)
        for _ in range(5):
            start = time.perf_counter()
            random_streams.cohorts(0, Purpose.CLIENTS, clients, 30, 0, 5000, weights)
            best = min(best, time.perf_counter() - start)
        return best

    assert seconds(10**6) < 10 * seconds(10**4)


# Weights that take one way of drawing and the other: the three heaviest have less than half of
# all, or more.
FLAT = np.array([1, 2, 0, 3, 4, 3, 2, 1, 4, 3, 2, 5, 4, 3, 0.0])
STEEP = np.array([1, 0.5, 0, 30, 2, 20, 1, 0.0])


@pytest.mark.parametrize("weights", [FLAT, STEEP], ids=["redrawn", "ranked"])
def test_a_client_is_as_likely_as_its_weight_says_among_those_that_are_left(weights):
    clients, size = len(weights), 3
    rows = random_streams.cohorts(7, Purpose.CLIENTS, clients, size, 0, 60_000, weights)
    assert rows.dtype == np.int32 and np.all(np.diff(np.sort(rows, axis=1), axis=1) > 0)
    there = weights > 0
    first = np.bincount(rows[:, 0], minlength=clients)
    assert not first[~there].any()
    assert chisquare(first[there], 60_000 * (weights / weights.sum())[there]).pvalue > 1e-4
    for a, b in [(0, 1), (1, 2)]:
        chance = np.zeros(3 * [clients])
        for one, two, three in np.ndindex(chance.shape):
            if len({one, two, three}) == 3:
                left = weights.sum() - weights[one]
                chance[one, two, three] = (
                    weights[one]
                    / weights.sum()
                    * weights[two]
                    / left
                    * weights[three]
                    / (left - weights[two])
                )
        pairs = np.bincount(rows[:, a] * clients + rows[:, b], minlength=clients**2)
        expected = chance.sum(axis=3 - a - b).ravel()
        often = expected * 60_000 > 5  # a test of frequencies is of no use below
        assert often.sum() > 20 and not pairs[expected == 0].any()
        observed = np.append(pairs[often], pairs[~often].sum())
        told = 60_000 * np.append(expected[often], expected[~often].sum())
        keep = told > 0
        assert chisquare(observed[keep], told[keep]).pvalue > 1e-4


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([FLAT, STEEP]), st.integers(0, 12_000), st.integers(0, 12_000))
def test_any_range_of_weighted_cohorts_is_that_slice_of_a_longer_table(weights, a, b):
    first, last = sorted((a, b))
    table = random_streams.cohorts(0, Purpose.CLIENTS, len(weights), 3, 0, 12_000, weights)
    part = random_streams.cohorts(0, Purpose.CLIENTS, len(weights), 3, first, last, weights)
    assert np.array_equal(part, table[first:last])


@pytest.mark.parametrize("scale", [1e-310, 1.0, 1e306])
def test_everybody_with_any_weight_may_be_drawn_at_once(scale):
    rows = random_streams.cohorts(0, Purpose.CLIENTS, len(STEEP), 6, 0, 50, scale * STEEP)
    assert np.array_equal(np.sort(rows, axis=1), np.tile(np.flatnonzero(STEEP), (50, 1)))
