import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers import metrics
from tests.helpers import linear_task, matrix

OWNERS = np.resize(np.array([0, 1, 3, 4, 6, -1, 7], np.int32), 60)  # of the 9 clients


@pytest.fixture(scope="module")
def task():
    return linear_task(dtype=np.float32)._replace(test_client=OWNERS)


@pytest.fixture(scope="module")
def params(task):
    return jax.tree.map(jnp.float32, task.model.init(jax.random.key(1)))


def right(task, params):
    x = np.hstack([task.test_x, np.ones((60, 1))])
    return (x @ matrix(params)).argmax(1) == task.test_y


@pytest.mark.parametrize("batch", [7, 500])  # padding counts nothing
def test_percentiles_over_the_clients_of_each_group(task, params, batch, monkeypatch):
    monkeypatch.setattr(metrics, "BATCH", batch)
    spread = metrics.per_client(task, params, metrics.test_data(task))
    expected = {
        # Groups of the task: every third client is a straggler. Clients 2, 5 and 8 have no tests.
        name: [right(task, params)[client == OWNERS].mean() for client in clients]
        for name, clients in (("standard", [1, 4, 7]), ("straggler", [0, 3, 6]))
    }
    assert spread is not None and spread.keys() == expected.keys()
    for name, accuracies in expected.items():
        percentiles = np.percentile(accuracies, [5, 25, 50, 75, 95])
        np.testing.assert_allclose(spread[name], percentiles, atol=1e-6)
    assert spread["standard"] != spread["straggler"]


def test_only_groups_with_tested_clients_are_there(task, params):
    alone = task._replace(test_client=np.where(OWNERS == 4, 4, -1))
    spread = metrics.per_client(alone, params, metrics.test_data(alone))
    accuracy = right(task, params)[OWNERS == 4].mean()
    assert spread == {"standard": [pytest.approx(accuracy)] * 5}


@pytest.mark.parametrize("owners", [None, np.full(60, -1, np.int32)])
def test_test_examples_of_nobody_have_no_spread(task, params, owners):
    nobody = task._replace(test_client=owners)
    assert metrics.per_client(nobody, params, metrics.test_data(nobody)) is None
