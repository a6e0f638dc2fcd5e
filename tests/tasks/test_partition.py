"""Partitioners deal every example out once, to clients of equal size, as their equations say."""

import numpy as np
import pytest
from scipy import stats

from stragglers._core.errors import BadInput
from stragglers.tasks import partition

Y = np.repeat(np.arange(10), 120)
PARTITIONERS = {
    "iid": partition.iid,
    "shards": partition.shards,
    "dirichlet": lambda y, **given: partition.dirichlet(y, alpha=0.3, **given),
}


def kinds(y, client):
    """Number of different labels that each client holds."""
    return np.array([len(np.unique(y[client == number])) for number in range(client.max() + 1)])


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.parametrize("clients", [1, 7, 100, 600])
def test_clients_are_of_equal_size(name, clients):
    client = PARTITIONERS[name](Y, clients=clients)
    sizes = np.bincount(client, minlength=clients)
    assert client.dtype == np.int32 and len(client) == len(Y) and len(sizes) == clients
    assert sizes.max() - sizes.min() <= (2 if name == "shards" else 1)


@pytest.mark.parametrize("name", PARTITIONERS)
def test_the_seed_alone_decides(name):
    deal = PARTITIONERS[name]
    np.testing.assert_array_equal(deal(Y, clients=20), deal(Y, clients=20, seed=0))
    assert (deal(Y, clients=20) != deal(Y, clients=20, seed=1)).any()


def test_shards_hold_few_labels():
    for count in (1, 2, 3):
        held = kinds(Y, partition.shards(Y, clients=20, shards=count))
        assert held.max() <= count + 1 and held.mean() <= count


def test_alpha_is_the_concentration_of_labels():
    """Between one label a client and the population's shares; the expected variance in between."""
    few = partition.dirichlet(Y, clients=10, alpha=1e-3)
    assert np.median(kinds(Y, few)) == 1
    many = partition.dirichlet(Y, clients=10, alpha=1e6)
    early = np.bincount(10 * many + Y, minlength=100).reshape(10, 10)[:5]  # no label runs out
    assert 1e-3 < stats.chi2.sf(((early - 12) ** 2 / 12).sum(), 5 * 9) < 1 - 1e-3
    # The first client draws from full labels: its count of one is beta-binomial.
    a, each = 5.0, 60
    first = [
        np.sum(Y[partition.dirichlet(Y, clients=20, alpha=a, seed=seed) == 0] == 3)
        for seed in range(300)
    ]
    expected = stats.betabinom(each, a / 10, a - a / 10)
    assert abs(np.mean(first) - expected.mean()) < 4 * expected.std() / np.sqrt(300)
    assert 0.7 < np.std(first) / expected.std() < 1.3


def test_labels_may_be_names_and_rare():
    y = np.array(["a"] * 50 + ["b"])
    client = partition.dirichlet(y, clients=51, alpha=0.1)
    np.testing.assert_array_equal(np.sort(client), np.arange(51))


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: partition.iid(Y, clients=0), "clients = 0: expected from 1 to 1200"),
        (lambda: partition.iid(Y, clients=1201), "clients = 1201: expected from 1 to 1200"),
        (lambda: partition.iid(Y / 2, clients=2), "expected a column of labels"),
        (
            lambda: partition.iid(Y, clients="2"),  # pyright: ignore
            "clients = '2': expected a whole number",
        ),
        (lambda: partition.shards(Y, clients=600, shards=3), "of at most 2 shards"),
        (lambda: partition.dirichlet(Y, clients=2, alpha=0), "alpha = 0: expected a finite"),
    ],
)
def test_a_mistake_is_one_line(call, line):
    with pytest.raises(BadInput, match=line) as error:
        call()
    assert "\n" not in str(error.value)
