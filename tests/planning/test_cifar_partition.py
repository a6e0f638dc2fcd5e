import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.planning.cifar_partition import FINE_PER_COARSE, deal, dirichlet_partition
from stragglers.tasks.datasets.cifar_files import COARSE_OF_FINE

FINE = np.random.default_rng(3).permutation(np.repeat(np.arange(100), 40)).astype(np.int32)


def test_all_images_are_dealt_once():
    dealt = deal(FINE, COARSE_OF_FINE, seed=0)
    assert dealt.shape == (40, 100)
    np.testing.assert_array_equal(np.sort(dealt, axis=None), np.arange(4000))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_coarse_classes_are_those_of_the_partition_from_labels_alone(seed):
    dealt = deal(FINE, COARSE_OF_FINE, seed)
    planned = dirichlet_partition(seed, clients=40, images_per_label=40)
    np.testing.assert_array_equal(COARSE_OF_FINE[FINE[dealt]], planned // FINE_PER_COARSE)
    fine = [np.unique(FINE[dealt][planned == label]) for label in range(100)]
    assert all(len(real) == 1 for real in fine) and len(np.unique(fine)) == 100


def test_the_seed_shuffles_images_too():
    rows = np.flatnonzero(np.equal(FINE, 5))
    first, again, other = (
        [image for image in deal(FINE, COARSE_OF_FINE, seed).ravel() if image in rows]
        for seed in (0, 0, 1)
    )
    assert first == again and first != other and first != rows.tolist()


def test_refuses_unequal_numbers():
    with pytest.raises(BadInput, match="39 images of label 7 and 40 of label 0"):
        deal(np.delete(FINE, np.flatnonzero(FINE == 7)[0]), COARSE_OF_FINE, 0)
    with pytest.raises(BadInput, match="0 images of label 0"):
        deal(FINE[FINE > 0], COARSE_OF_FINE, 0)
