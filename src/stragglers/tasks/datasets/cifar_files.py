"""CIFAR-100 as its authors publish it: binary records or pickles, unpacked or in their archive.

    train.bin, test.bin   records of 1 + 1 + 3072 bytes: coarse label, fine label, R, G and B planes
    train, test           pickled dicts: data [n, 3072], fine_labels, coarse_labels

A pickle is a program. The one that reads these admits NumPy's array reconstruction and nothing
else, and not even that may choose a type or a size: it fills an empty array with the bytes given.
"""

import io
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import archive

RECORD = 2 + 3072
FINE, COARSE = 100, 20
# The coarse class of each fine label, as published.
COARSE_OF_FINE = np.array(
    [4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11]
    + [6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5]
    + [5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17]
    + [10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13]
    + [16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13]
)


class Labelled(NamedTuple):
    images: NDArray[np.uint8]  # [n, 32, 32, 3]
    fine: NDArray[np.int32]  # [n]


def read(path: Path, name: str) -> Labelled:
    """`train.bin`, `test.bin`, `train` or `test`: a file, or a member of the archive `path`."""
    if path.name.endswith(".gz"):
        content, where = archive.members(path, [name])[name], f"{path}: {name}"
    else:
        content, where = _content(path), str(path)
    planes, fine, coarse = (records if name.endswith(".bin") else unpickled)(content, where)
    check_labels(fine, coarse, where)
    images = planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return Labelled(np.ascontiguousarray(images), fine.astype(np.int32))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None


def records(content: bytes, where: str) -> tuple[NDArray, NDArray, NDArray]:
    """Planes, fine and coarse labels of a binary file."""
    if not content or len(content) % RECORD:
        raise BadInput(
            f"{where}: {len(content):,} bytes, expected a multiple of {RECORD}; get it again"
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    return rows[:, 2:], rows[:, 1], rows[:, 0]


def unpickled(content: bytes, where: str) -> tuple[NDArray, NDArray, NDArray]:
    """The same of a pickle, which is not trusted."""
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except _Refused as refused:
        raise BadInput(f"{where}: asks for {refused}, which CIFAR-100 does not; not safe") from None
    except Exception as error:  # whatever the bytes of a stranger may cause
        why = next(iter(f"{error}".splitlines()), type(error).__name__)
        raise BadInput(f"{where}: not a whole pickle of CIFAR-100 ({why})") from None
    data, fine, coarse = (_part(batch, name) for name in ("data", "fine_labels", "coarse_labels"))
    if data.dtype != np.uint8 or data.shape != (len(fine), 3072) or len(fine) != len(coarse):
        raise BadInput(
            f"{where}: data {data.dtype} {data.shape}, {fine.size} fine and {coarse.size} coarse "
            "labels, expected uint8 (n, 3072), n and n"
        )
    return data, fine, coarse


def check_labels(fine: NDArray, coarse: NDArray, where: str) -> None:
    """Refuses labels that are out of range, or do not belong together."""
    wrong = (fine < 0) | (fine >= FINE)
    if not wrong.any():
        wrong = COARSE_OF_FINE[fine] != coarse
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise BadInput(
            f"{where}: image {first}: fine label {fine[first]} of coarse class {coarse[first]}, "
            "which CIFAR-100 does not have; the file is damaged, or another"
        )


def _part(batch: Any, name: str) -> NDArray:
    """An array of the batch, empty where it has none."""
    value = batch.get(name.encode(), batch.get(name)) if isinstance(batch, dict) else None
    if isinstance(value, list) and all(type(item) is int for item in value):
        return np.array(value, np.int64)
    return value if isinstance(value, np.ndarray) and value.ndim else np.empty(0)


class _Refused(Exception):
    pass


def _reconstruct(kind: Any, shape: Any, dtype: Any) -> NDArray:
    del kind, shape, dtype  # the state that follows says, and brings the bytes along
    return np.empty(0, np.uint8)


_ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): "the type that _reconstruct is handed",
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise _Refused(f"{module}.{name}")
        return _ADMITTED[module, name]
