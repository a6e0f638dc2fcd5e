import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers.simulator import metrics, prior_matching
from tests.support.helpers import linear_task, matrix

BY_HALF = [
    f"{half}_{group}_accuracy"
    for half in ("validation", "held_out")
    for group in ("straggler", "total")
]
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
    spoilt = task._replace(
        test_x=x, test_y=task.test_y[order], test_straggler=task.test_straggler[order]
    )
    whole = metrics.evaluate(task, params, metrics.test_data(task))
    monkeypatch.setattr(metrics, "BATCH", 7)
    found = metrics.evaluate(spoilt, params, metrics.test_data(spoilt))
    assert np.isnan(found["straggler_loss"]) and np.isnan(found["total_loss"])
    np.testing.assert_allclose(found["standard_loss"], whole["standard_loss"], rtol=1e-5)
    np.testing.assert_allclose(found["standard_accuracy"], whole["standard_accuracy"], rtol=1e-6)


def test_total_accuracy_is_over_all_examples(task, params):
    found = metrics.evaluate(task, params, metrics.test_data(task))
    good, straggler = right(task, params), task.test_straggler
    assert straggler.sum() not in (0, 30, 60)  # a mean of the two groups would be another number
    expected = [good[straggler].mean(), good[~straggler].mean(), good.mean()]
    accuracies = [found[f"{group}_accuracy"] for group in ("straggler", "standard", "total")]
    np.testing.assert_allclose(accuracies, expected, rtol=1e-6)


MIXES = {
    "nobody": np.zeros(0, bool),
    "one": np.ones(1, bool),
    "alike": np.zeros(9, bool),
    "odd and odd": np.arange(12) < 5,
    "even and odd": np.arange(41) % 3 == 0,
    "few stragglers": np.arange(1000) >= 997,
}


@pytest.mark.parametrize("mix", MIXES)
def test_half_of_each_group_and_of_all_is_for_validation(mix):
    straggler = MIXES[mix]
    chosen = metrics.validation(straggler)
    assert chosen.shape == straggler.shape and chosen.dtype == bool
    for group in (straggler, ~straggler, np.ones_like(straggler)):
        assert abs((chosen & group).sum() - (~chosen & group).sum()) <= 1


@pytest.mark.parametrize("mix", MIXES)
def test_quarters_are_halves_of_what_is_for_validation(mix):
    straggler = MIXES[mix]
    part = metrics.parts(straggler)
    assert set(part) <= {0, 1, 2}
    for group in (straggler, ~straggler, np.ones_like(straggler)):
        assert abs(int((part[group] == 1).sum()) - int((part[group] == 2).sum())) <= 1


def test_the_split_is_always_the_same():
    """These numbers are part of every tuned result."""
    for _ in range(2):
        chosen = metrics.validation(MIXES["odd and odd"])
        assert np.flatnonzero(chosen).tolist() == [1, 3, 5, 8, 9, 11]


def halves(task, params, rows):
    """Straggler and total accuracy of validation and held-out examples, by hand, and counts."""
    chosen, straggler = metrics.validation(task.test_straggler)[rows], task.test_straggler[rows]
    good, weight = right(task, params)[rows], 1.0 * (1 + 2 * task.test_y[rows])
    groups = [half & group for half in (chosen, ~chosen) for group in (straggler, straggler >= 0)]
    counts = np.array([weight[group].sum() for group in groups])
    return np.array([(good * weight)[group].sum() for group in groups]) / counts, counts


def by_tokens(logits, y):
    """A score as a text's: each example counts as 1, 3 or 5."""
    weight = (1 + 2 * y).astype(jnp.float32)
    return weight * (jnp.argmax(logits, axis=-1) == y), weight


@pytest.mark.parametrize("limit", [None, 23])
@pytest.mark.parametrize("batch", [7, 500])
def test_each_half_has_its_accuracy_and_both_make_the_whole(
    task, params, batch, limit, monkeypatch
):
    monkeypatch.setattr(metrics, "BATCH", batch)
    task = task._replace(score=by_tokens)
    found = metrics.evaluate(task, params, metrics.test_data(task, limit))
    rows = np.arange(60) if limit is None else np.arange(limit) * 60 // limit
    expected, counts = halves(task, params, rows)
    by_half = np.array([found[name] for name in BY_HALF])
    np.testing.assert_allclose(by_half, expected, rtol=1e-12)
    assert len(set(expected)) == 4
    for whole, pair in (("straggler_accuracy", [0, 2]), ("total_accuracy", [1, 3])):
        both = np.average(by_half[pair], weights=counts[pair])
        np.testing.assert_allclose(both, found[whole], rtol=1e-12)


def test_a_half_without_stragglers_has_no_straggler_accuracy(task, params):
    alone = task._replace(test_straggler=np.arange(60) == 3)
    found = metrics.evaluate(alone, params, metrics.test_data(alone))
    there = metrics.validation(alone.test_straggler)[3]
    values = found["validation_straggler_accuracy"], found["held_out_straggler_accuracy"]
    assert np.isnan(values).tolist() == ([False, True] if there else [True, False])
    assert np.isfinite([found["validation_total_accuracy"], found["held_out_total_accuracy"]]).all()


def by_brute_force(task, params, limit):
    """What one bias on class 0 makes of each example, for every bias that makes a difference."""
    rows = np.arange(60) if limit is None else np.arange(limit) * 60 // limit
    x = np.hstack([task.test_x, np.ones((60, 1))])[rows]
    logits, y = x @ matrix(params), task.test_y[rows]
    part = metrics.parts(task.test_straggler)[rows]
    gaps = np.sort(logits[:, 1:].max(axis=1) - logits[:, 0])
    biases = [gaps[0] - 1, *(gaps[:-1] + gaps[1:]) / 2, gaps[-1] + 1, 0]
    right = np.array([(logits + [bias, 0, 0]).argmax(1) == y for bias in biases])
    return right, np.array(biases), y == 0, part


@pytest.mark.parametrize("limit", [None, 41])
@pytest.mark.parametrize("batch", [7, 500])
def test_a_matched_bias_is_the_best_on_the_validation_half(task, params, batch, limit, monkeypatch):
    monkeypatch.setattr(metrics, "BATCH", batch)
    found = metrics.evaluate(task, params, metrics.test_data(task, limit))
    right, biases, straggler, part = by_brute_force(task, params, limit)
    x = np.hstack([task.test_x, np.ones((60, 1))])
    rows = np.arange(60) if limit is None else np.arange(limit) * 60 // limit
    own = (x[rows] @ matrix(params) + [found["matched_bias"], 0, 0]).argmax(1) == task.test_y[rows]
    best = right[:, part > 0].sum(axis=1)
    assert own[part > 0].sum() == best.max()
    np.testing.assert_allclose(found["matched_total_accuracy"], own[part == 0].mean())
    matched = own[(part == 0) & straggler].mean()
    np.testing.assert_allclose(found["matched_straggler_accuracy"], matched)


def test_tasks_without_straggler_classes_have_no_bias(task, params):
    tagged = task._replace(straggler_classes=None)
    found = metrics.evaluate(tagged, params, metrics.test_data(tagged))
    with_classes = metrics.evaluate(task, params, metrics.test_data(task))
    assert found.keys() == with_classes.keys()
    for name, value in found.items():
        if name in prior_matching.NAMES:
            assert np.isnan(value) and np.isfinite(with_classes[name])
        else:
            assert value == with_classes[name]
