"""Which files hold EMNIST, and what they have to hold: drawings of 28 by 28, 1 for paper.

Pixels become bytes where every value is a multiple of 1/255, as in all published files.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import fedjax_sqlite, leaf, parquet, tff
from stragglers.tasks.datasets.images import Clients, Files, Kind, Layout, as_floats, field

FIELDS = ("pixels", "label")


def _drawings(fields: dict[str, NDArray[Any]], where: str) -> NDArray[Any]:
    """[n, 28, 28], as bytes if that loses nothing."""
    pixels = field(fields, "pixels", where)
    if pixels.size != len(pixels) * 784:
        raise BadInput(f"{where}: pixels {pixels.shape}, expected 28 by 28 for each image")
    pixels = pixels.reshape(-1, 28, 28)
    if pixels.dtype != np.uint8:
        if not ((pixels >= 0) & (pixels <= 1)).all():  # neither is a NaN
            raise BadInput(f"{where}: pixels beyond 0 to 1, expected 0 for ink and 1 for paper")
        shade = np.rint(255 * pixels)
        # A float32 below 1 knows its shade to 255 * 2^-24 = 1.5e-5.
        lossless = np.abs(255 * pixels - shade).max(initial=0) < 1e-4
        pixels = shade.astype(np.uint8) if lossless else pixels.astype(np.float32)
    if len(pixels) and as_floats(pixels[:, [0, -1]]).mean() < 0.25:
        raise BadInput(f"{where}: dark margins, expected 1 for paper; are the images inverted?")
    return pixels


def _hdf5(train: Files, test: Files) -> tuple[Clients, Clients]:
    return tff.clients(train[0], fields=FIELDS), tff.clients(test[0], fields=FIELDS)


def _sqlite(both: Files, _: Files) -> tuple[Clients, Clients]:
    return tff.clients(both[0], "all_train", FIELDS), tff.clients(both[0], "all_test", FIELDS)


def _fedjax(train: Files, test: Files) -> tuple[Clients, Clients]:
    return fedjax_sqlite.clients(train[0], FIELDS), fedjax_sqlite.clients(test[0], FIELDS)


def _leaf(train: Files, test: Files) -> tuple[Clients, Clients]:
    return leaf.clients(train), leaf.clients(test)


def _parquet(both: Files, _: Files) -> tuple[Clients, Clients]:
    everybody = parquet.writers(both)
    return parquet.clients(everybody, "train"), parquet.clients(everybody, "test")


_OWN_TEST = ", a tenth of each writer's drawings held out here"

EMNIST = Kind(
    "EMNIST",
    [
        Layout("TFF's HDF5", "fed_emnist_train.h5", "fed_emnist_test.h5", _hdf5),
        Layout("TFF's SQLite", "emnist_all.sqlite", None, _sqlite),
        Layout("TFF's SQLite", "emnist_all.sqlite.lzma", None, _sqlite),
        Layout(
            "FedJAX's SQLite",
            "federated_emnist_train.sqlite",
            "federated_emnist_test.sqlite",
            _fedjax,
        ),
        Layout("LEAF's JSON", "train/*.json", "test/*.json", _leaf),
        Layout("LEAF's JSON", "data/train/*.json", "data/test/*.json", _leaf),
        Layout("Parquet", "*.parquet", None, _parquet, _OWN_TEST),
        Layout("Parquet", "data/*.parquet", None, _parquet, _OWN_TEST),
    ],
    classes=62,
    pixels=_drawings,
    published=(3_400, 671_585, 77_483),
)
