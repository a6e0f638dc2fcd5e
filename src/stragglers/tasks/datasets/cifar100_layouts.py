"""Which files hold CIFAR-100: TFF's, with the published clients, or its authors', without.

Images without clients come as one, and are partitioned by the task.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import cifar_files, tff
from stragglers.tasks.datasets.images import Clients, Files, Kind, Layout, field


def _photographs(fields: dict[str, NDArray[Any]], where: str) -> NDArray[Any]:
    """[n, 32, 32, 3] bytes, with labels that belong together."""
    pixels = field(fields, "image", where)
    if pixels.size != len(pixels) * 3072 or pixels.dtype.kind not in "iu":
        raise BadInput(
            f"{where}: image {pixels.dtype} {pixels.shape}, expected 32 by 32 by 3 whole numbers"
        )
    if pixels.size and not 0 <= pixels.min() <= pixels.max() <= 255:
        raise BadInput(f"{where}: pixels from {pixels.min()} to {pixels.max()}, expected 0 to 255")
    if "coarse_label" in fields:
        cifar_files.check_labels(field(fields, "label", where), fields["coarse_label"], where)
    return pixels.astype(np.uint8, copy=False).reshape(-1, 32, 32, 3)


def _hdf5(train: Files, test: Files) -> tuple[Clients, Clients]:
    return tff.clients(train[0]), tff.clients(test[0])


def _sqlite(both: Files, _: Files) -> tuple[Clients, Clients]:
    return tff.clients(both[0], "train"), tff.clients(both[0], "test")


def _raw(train_name: str, test_name: str) -> Callable[[Files, Files], tuple[Clients, Clients]]:
    def one(path: Path, name: str) -> Clients:
        images, fine = cifar_files.read(path, name)
        yield name, {"image": images, "label": fine}

    # An archive holds both.
    return lambda train, test: (one(train[0], train_name), one([*test, *train][0], test_name))


_BINARY, _PICKLES = _raw("train.bin", "test.bin"), _raw("train", "test")

CIFAR100 = Kind(
    "CIFAR-100",
    [
        Layout("TFF's HDF5", "fed_cifar100_train.h5", "fed_cifar100_test.h5", _hdf5),
        Layout("TFF's SQLite", "cifar100.sqlite", None, _sqlite),
        Layout("TFF's SQLite", "cifar100.sqlite.lzma", None, _sqlite),
        *(
            Layout(name, train, test, read, partitioned=False)
            for name, train, test, read in [
                ("binary files", "train.bin", "test.bin", _BINARY),
                (
                    "binary files",
                    "cifar-100-binary/train.bin",
                    "cifar-100-binary/test.bin",
                    _BINARY,
                ),
                ("pickles", "train", "test", _PICKLES),
                ("pickles", "cifar-100-python/train", "cifar-100-python/test", _PICKLES),
                ("the binary archive", "cifar-100-binary.tar.gz", None, _BINARY),
                ("the pickles' archive", "cifar-100-python.tar.gz", None, _PICKLES),
            ]
        ),
    ],
    classes=cifar_files.FINE,
    pixels=_photographs,
    published=(500, 50_000, 10_000),
)
