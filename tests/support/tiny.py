"""Folders with all files of a task, in TFF's layout, of a few examples a client."""

import numpy as np

from tests.support import files, pictures

WORDS = ["how", "do", "i", "sort", "a", "list", "of", "numbers", "in", "place"]


def emnist(folder):
    pictures.emnist_hdf5(folder, pictures.drawings([4] * 6), pictures.drawings([2] * 6, seed=1))


def cifar100(folder):
    files.tff_hdf5(folder / "fed_cifar100_train.h5", pictures.photographs([4] * 4))
    files.tff_hdf5(folder / "fed_cifar100_test.h5", pictures.photographs([2, 2], seed=1))


def stackoverflow(folder):
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        users = {
            f"user{number}": {
                "tokens": np.array([" ".join(rng.choice(WORDS, 5)) for _ in range(4)], object),
                "tags": np.array(["math|sql" if number < 2 else "sql"] * 4, object),
            }
            for number in range(6)
        }
        files.tff_hdf5(folder / f"stackoverflow_{split}.h5", users)


TASKS = {"emnist": emnist, "cifar100": cifar100, "stackoverflow": stackoverflow}


def folder(root, task):
    """A new folder of a task's files."""
    made = root / task
    made.mkdir()
    TASKS[task](made)
    return made
