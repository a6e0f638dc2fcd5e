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


def test_an_example_that_is_not_finite_is_of_its_own_group_alone(task, params, monkeypatch):
    """Nor does padding, of which it is one, count it again."""
    first = int(np.flatnonzero(task.test_straggler)[0])
    order = np.array([first, *(row for row in range(60) if row != first)])
    x = task.test_x[order].copy()
    x[0] = np.nan
    spoilt = task._replace(test_x=x, test_y=task.test_y[order],
                           test_straggler=task.test_straggler[order])  # fmt: skip
    whole = metrics.evaluate(task, params, metrics.test_data(task))
    monkeypatch.setattr(metrics, "BATCH", 7)
    found = metrics.evaluate(spoilt, params, metrics.test_data(spoilt))
    assert np.isnan(found.straggler_loss) and np.isnan(found.total_loss)
    np.testing.assert_allclose(found.standard_loss, whole.standard_loss, rtol=1e-5)
    np.testing.assert_allclose(found.standard_accuracy, whole.standard_accuracy, rtol=1e-6)


def test_total_accuracy_is_over_all_examples(task, params):
    found = metrics.evaluate(task, params, metrics.test_data(task))
    good, straggler = right(task, params), task.test_straggler
    assert straggler.sum() not in (0, 30, 60)  # a mean of the two groups would be another number
    np.testing.assert_allclose(
        found[:3], [good[straggler].mean(), good[~straggler].mean(), good.mean()], rtol=1e-6
    )
