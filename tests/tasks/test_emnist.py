import time

import jax.numpy as jnp
import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.base import check
from stragglers.tasks.emnist import emnist, ink, raw
from tests.support import pictures
from tests.support.numerics import parameters

DIGITS = [0, 1, 2, 3, 4]
SIZES = [30, 12, 9, 15, 0, 24, 40, 6, 33]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("emnist")
    train, test = pictures.drawings(SIZES), pictures.drawings([5] * 9, seed=1)
    train["f0007_00"]["label"][:] = 3  # a client that loses everything
    pictures.emnist_hdf5(folder, train, test)
    return folder


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path_factory.mktemp("cache")))


def clients(task):
    return [task.y[a:b] for a, b in zip(task.offsets[:-1], task.offsets[1:])]


def test_the_papers_split(folder):
    task = check(emnist(str(folder)))
    held = pictures.drawings(SIZES)
    held["f0007_00"]["label"][:] = 3
    digits = np.array([np.isin(fields["label"], DIGITS).sum() for fields in held.values()])
    straggler = task.population.group == 1
    assert straggler.sum() == 2  # round(9 * 800 / 3400)
    assert digits[straggler].min() >= digits[~straggler].max()
    for slow, mine, (_, fields) in zip(straggler, clients(task), held.items()):
        kept = fields["label"] if slow else fields["label"][fields["label"] > 4]
        np.testing.assert_array_equal(mine, kept)
    assert task.population.clients == 9 and task.population.examples[7] == 0
    first = held["f0000_00"]
    rows = np.isin(first["label"], DIGITS, invert=not straggler[0]) | straggler[0]
    np.testing.assert_allclose(task.x[: task.offsets[1]] / 255, first["pixels"][rows], atol=1e-6)


def test_fewer_digits(folder):
    whole, task = emnist(str(folder)), check(emnist(str(folder), digits=0.1))
    assert "digits are 10 % of them" in task.population.origin
    letters = (whole.test_y >= 10).sum()
    assert (task.test_y >= 10).sum() == letters
    assert (task.test_y < 10).sum() == round(letters / 9)
    for mine, all_of_mine in zip(clients(task), clients(whole)):
        np.testing.assert_array_equal(mine[mine >= 10], all_of_mine[all_of_mine >= 10])
    held = np.concatenate([fields["label"] for fields in pictures.drawings(SIZES).values()])
    left = emnist(str(folder), digits=0.1, stragglers=9)  # of whom nobody loses any
    share = np.mean(left.y < 10)
    assert share == pytest.approx(0.1, abs=0.01) and np.mean(held < 10) > 0.12
    with pytest.raises(BadInput, match=r"digits=0.9 given, expected at most 0\.\d+, their share"):
        emnist(str(folder), digits=0.9)


def test_everybody_is_tested_on_everything(folder):
    task = emnist(str(folder))
    assert len(task.test_y) == 45
    np.testing.assert_array_equal(task.test_straggler, np.isin(task.test_y, DIGITS))
    assert task.straggler_classes == tuple(DIGITS)
    np.testing.assert_array_equal(task.test_client, np.repeat(np.arange(9), 5))


def test_other_straggler_classes_and_counts(folder):
    task = emnist(str(folder), stragglers=4, straggler_classes=(10, 11, 12, 60, 61))
    assert (task.population.group == 1).sum() == 4
    for group, labels in zip(task.population.group, clients(task)):
        assert group == 1 or not np.isin(labels, [10, 11, 12, 60, 61]).any()
    assert any(np.isin(labels, DIGITS).any() for labels in clients(task))
    with pytest.raises(BadInput, match="stragglers=10 of 9 clients"):
        emnist(str(folder), stragglers=10)


def test_profiles(folder):
    fedjax, afo = emnist(str(folder)), emnist(str(folder), profile="afo")
    assert (fedjax.prepare, afo.prepare) == (ink, raw)
    assert fedjax.model is not afo.model
    assert parameters(fedjax.model) == parameters(afo.model) == 1_206_590
    np.testing.assert_array_equal(fedjax.x, afo.x)
    assert fedjax.penalty is afo.penalty is None


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_pixels_as_models_see_them(dtype):
    x = jnp.asarray(np.array([[0, 51, 255]]) / (1 if dtype == np.uint8 else 255), dtype)
    np.testing.assert_allclose(raw(x, None), [[0, 0.2, 1]], atol=1e-7)
    np.testing.assert_allclose(ink(x, None), [[1, 0.8, 0]], atol=1e-7)


def test_equal_arguments_give_one_object_and_one_program(folder):
    assert emnist(str(folder)) is emnist(str(folder))
    other = emnist(str(folder), stragglers=1)
    assert other.model is emnist(str(folder)).model and other.prepare is ink


def test_real_writers(shared_data):
    task = check(emnist(str(shared_data)))
    straggler = task.population.group == 1
    assert task.population.clients == 489 and straggler.sum() == 115
    for slow, labels in zip(straggler, clients(task)):
        assert slow or not np.isin(labels, DIGITS).any()
    assert task.x.dtype == np.uint8 and len(task.test_y) == 8_314
    assert "489 clients, 66,581 + 8,314 examples (published: 3,400" in task.population.origin
    assert np.isin(task.test_y[~np.isin(task.test_client, np.flatnonzero(straggler))], DIGITS).any()
    edge = task.x[:, [0, -1]]
    assert (edge > 250).mean() > 0.9  # white paper
    begin = time.perf_counter()
    again = emnist.__wrapped__(str(shared_data))
    assert time.perf_counter() - begin < 2
    np.testing.assert_array_equal(again.y, task.y)
