import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from stragglers._core.shuffle import hashed, shuffled


def permutations(n, keys):
    """One permutation a row."""
    positions = np.tile(np.arange(n, dtype=np.uint32), (keys, 1))
    key = hashed(np.full((keys, 1), 7, np.uint32), np.arange(keys, dtype=np.uint32)[:, None])
    return shuffled(positions, np.uint32(n) + np.zeros_like(positions), key)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 20, 97, 418, 70_000])
def test_it_is_a_permutation(n):
    rows = permutations(n, 3 if n > 1000 else 50)
    assert np.array_equal(np.sort(rows, axis=1), np.tile(np.arange(n), (len(rows), 1)))


def test_all_orders_of_four_are_equally_likely():
    rows = permutations(4, 48_000)
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("n", [7, 50, 200])
def test_every_position_and_every_pair_is_uniform(n):
    rows = permutations(n, 200 * n).astype(np.int64)
    for position in (0, n // 2, n - 1):
        assert stats.chisquare(np.bincount(rows[:, position], minlength=n)).pvalue > 1e-4
    gaps = (rows[:, 1] - rows[:, 0]) % n  # neighbours: every gap but zero equally likely
    counts = np.bincount(gaps, minlength=n)
    assert counts[0] == 0 and stats.chisquare(counts[1:]).pvalue > 1e-4


def test_keys_give_unrelated_orders():
    rows = permutations(100, 2000)
    agreements = (rows[1:] == rows[:-1]).sum(axis=1)  # of two shuffles: one place on average
    assert abs(agreements.mean() - 1) < 0.12


def test_numpy_and_jax_agree_bit_by_bit():
    positions = np.arange(300, dtype=np.uint32)
    n, key = np.full(300, 311, np.uint32), np.full(300, 12345, np.uint32)
    ours = shuffled(jnp.asarray(positions), jnp.asarray(n), jnp.asarray(key))
    assert np.array_equal(np.asarray(ours), shuffled(positions, n, key))
