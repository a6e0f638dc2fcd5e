import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.planning import paper_populations
from stragglers.tasks.base import check
from stragglers.tasks.cifar100 import PREPARE, cifar100, crop
from stragglers.tasks.datasets.cifar_files import COARSE_OF_FINE
from stragglers.tasks.models.resnet import l2_penalty
from tests.support import files, pictures
from tests.support.numerics import drawn, parameters

KEY = jax.random.key(0)
VEHICLES = np.flatnonzero(np.isin(COARSE_OF_FINE, [18, 19]))


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """800 images: 8 clients of 100, and two test images of each label."""
    folder = tmp_path_factory.mktemp("raw")
    for split, part in pictures.everything((800, 200)).items():
        (folder / f"{split}.bin").write_bytes(pictures.record_bytes(*part))
    return folder


def clients(task):
    return [task.y[a:b] for a, b in zip(task.offsets[:-1], task.offsets[1:])]


def test_the_papers_split_of_images_without_clients(raw):
    task = check(cifar100(str(raw)))
    straggler = task.population.group == 1
    assert task.population.clients == 8 and straggler.sum() == 2
    for slow, labels in zip(straggler, clients(task)):
        assert len(labels) == 100 if slow else not np.isin(labels, VEHICLES).any()
    np.testing.assert_array_equal(task.test_straggler, np.isin(task.test_y, VEHICLES))
    assert sorted(task.straggler_classes) == sorted(VEHICLES)
    assert len(task.test_y) == 200 and task.test_client is None
    # Every image stays with its label, and nobody has one twice.
    images, fine = pictures.everything((800, 200))["train"]
    place = {image.tobytes(): label for image, label in zip(images, fine)}
    seen = {image.tobytes() for image in task.x}
    assert len(seen) == len(task.x)
    assert all(place[image.tobytes()] == label for image, label in zip(task.x, task.y))
    assert "800 + 200 examples (published: 500" in task.population.origin
    assert task.population.origin.endswith("Dirichlet partition (seed 0)")


def test_another_partition_and_other_straggler_classes(raw):
    one, other = cifar100(str(raw)), cifar100(str(raw), partition_seed=1)
    assert not np.array_equal(one.y, other.y)
    fish = cifar100(str(raw), straggler_classes=(1,), stragglers=3)
    assert (fish.population.group == 1).sum() == 3
    for group, labels in zip(fish.population.group, clients(fish)):
        assert group == 1 or 1 not in COARSE_OF_FINE[labels]


def test_clients_of_published_files_are_theirs(tmp_path):
    photos = pictures.photographs([20, 10, 10, 10, 10])
    files.tff_hdf5(tmp_path / "fed_cifar100_train.h5", photos)
    files.tff_hdf5(tmp_path / "fed_cifar100_test.h5", pictures.photographs([4, 4], seed=1))
    task = check(cifar100(str(tmp_path), stragglers=1))
    held = [np.isin(fields["label"], VEHICLES).sum() for fields in photos.values()]
    assert task.population.group.argmax() == np.argmax(held)
    for slow, labels, fields in zip(task.population.group, clients(task), photos.values()):
        kept = fields["label"][~np.isin(fields["label"], VEHICLES) | (slow == 1)]
        np.testing.assert_array_equal(labels, kept)
    assert "partition" not in task.population.origin
    assert task.test_client is None  # its test clients have the numbers of others


def test_refuses_labels_in_unequal_numbers(tmp_path):
    for split, (images, fine) in pictures.everything((201, 100)).items():
        (tmp_path / f"{split}.bin").write_bytes(pictures.record_bytes(images, fine))
    with pytest.raises(BadInput, match=r"train\.bin: 2 images of label 1 and 3 of label 0"):
        cifar100(str(tmp_path))


def where(crop, image):
    """The one place and flip at which a photograph has this crop: (top, left), flip."""
    parts = np.lib.stride_tricks.sliding_window_view(image.astype(np.float32), (24, 24), (0, 1))
    parts = np.moveaxis(parts, 2, -1)  # [9, 9, 24, 24, 3]
    parts = parts - parts.mean((2, 3, 4), keepdims=True)
    parts = parts / parts.std((2, 3, 4), keepdims=True)
    found = [
        ((int(top), int(left)), flip)
        for flip, seen in ((False, crop), (True, crop[:, ::-1]))
        for top, left in np.argwhere(np.abs(parts - seen).max((2, 3, 4)) < 1e-3)
    ]
    assert len(found) == 1
    return found[0]


@pytest.fixture(scope="module")
def photos():
    return np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3)).astype(np.uint8)


def test_undistorted_images_are_trained_on_as_they_are_tested(photos):
    trained, tested = (np.asarray(PREPARE["fedjax"](jnp.asarray(photos), k)) for k in (KEY, None))
    np.testing.assert_array_equal(trained, tested)
    assert {where(one, photo) for one, photo in zip(trained, photos)} == {((4, 4), False)}


def test_each_image_has_its_own_crop_and_flip(photos):
    crops = np.asarray(crop(jnp.asarray(photos), KEY))
    assert crops.shape == (40, 24, 24, 3) and crops.dtype == np.float32
    seen = [where(one, photo) for one, photo in zip(crops, photos)]
    places, flips = zip(*seen)
    assert np.min(places, axis=0).tolist() == [0, 0] and np.max(places, axis=0).tolist() == [8, 8]
    assert 10 < sum(flips) < 30 and len(set(places)) > 25
    other = np.asarray(crop(jnp.asarray(photos), jax.random.key(1)))
    assert np.abs(other - crops).max() > 0.1


def test_under_afo_a_batch_shares_its_place(photos):
    crops = np.asarray(PREPARE["afo"](jnp.asarray(photos), KEY))
    seen = [where(one, photo) for one, photo in zip(crops, photos)]
    places, flips = zip(*seen)
    assert len(set(places)) == 1 and 10 < sum(flips) < 30
    others = np.asarray(PREPARE["afo"](jnp.asarray(photos[:1]), jax.random.key(1)))
    assert where(others[0], photos[0])[0] != places[0]


@pytest.mark.parametrize("profile", ["fedjax", "afo"])
def test_evaluation_sees_the_middle(photos, profile):
    crops = np.asarray(PREPARE[profile](jnp.asarray(photos), None))
    assert {where(one, photo) for one, photo in zip(crops[:5], photos)} == {((4, 4), False)}


def test_standardised_and_one_colour_is_zero(photos):
    crops = np.asarray(crop(jnp.asarray(photos), None), np.float64)
    np.testing.assert_allclose(crops.mean((1, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(crops.std((1, 2, 3)), 1, rtol=1e-5)
    plain = np.full((1, 32, 32, 3), 7, np.uint8)
    assert not np.asarray(crop(jnp.asarray(plain), None)).any()
    plain[0, 16, 16, 0] = 8  # its deviation, 1/41.6, is below the floor of 1/sqrt(1728)
    expected = (1 - 1 / 1728) * 1728**0.5
    assert np.asarray(crop(jnp.asarray(plain), None)).max() == pytest.approx(expected, rel=1e-3)


def test_profiles_differ_by_the_penalty(raw):
    fedjax, afo = cifar100(str(raw)), cifar100(str(raw), profile="afo")
    assert fedjax.penalty is None and fedjax.model is afo.model
    assert parameters(afo.model) == 11_227_812
    params = drawn(afo.model)
    assert afo.penalty is not None
    np.testing.assert_allclose(afo.penalty(params), l2_penalty(params, 1e-4), rtol=1e-6)


def test_real_images_have_the_planned_population(shared_data):
    task = check(cifar100(str(shared_data)))
    planned = paper_populations.cifar100()
    np.testing.assert_array_equal(task.population.examples, planned.examples)
    np.testing.assert_array_equal(task.population.group, planned.group)
    straggler = task.population.group == 1
    assert task.population.clients == 500 and straggler.sum() == 125
    assert (task.population.examples[straggler] == 100).all()
    for slow, labels in zip(straggler, clients(task)):
        assert slow or not np.isin(labels, VEHICLES).any()
    assert "500 clients, 50,000 + 10,000 examples, as published" in task.population.origin
    assert task.test_straggler.sum() == 1_000
    begin = time.perf_counter()
    again = cifar100.__wrapped__(str(shared_data))
    assert time.perf_counter() - begin < 3
    np.testing.assert_array_equal(again.x[:100], task.x[:100])
