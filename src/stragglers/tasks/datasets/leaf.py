"""LEAF's federated JSON: a folder for each split, some hundred writers in a file.

    {"users": [u, ...], "num_samples": [n, ...], "user_data": {u: {"x": [[784 numbers], ...],
                                                                   "y": [label, ...]}}}

One file is in memory at a time, and of it one writer as numbers.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from stragglers._core.errors import BadInput

T = TypeVar("T")


class _File(Struct):
    users: list[str]
    num_samples: list[int]
    user_data: dict[str, Raw]


class _User(Struct):
    x: list[list[float]]
    y: list[int]


def clients(paths: Sequence[Path]) -> Iterator[tuple[str, dict[str, NDArray]]]:
    """The writers of a split's files with their `pixels` [n, 28, 28] and `label` [n]."""
    for path in paths:
        try:
            content = _decoded(path, path.read_bytes(), _File, "LEAF's JSON")
        except OSError as error:
            raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
        if len(content.users) != len(content.num_samples):
            raise BadInput(
                f"{path}: {len(content.users)} users and {len(content.num_samples)} num_samples, "
                "expected equal numbers"
            )
        for user, samples in zip(content.users, content.num_samples, strict=True):
            if user not in content.user_data:
                raise BadInput(f"{path}: no user_data of user {user!r}; get the file again")
            yield user, _arrays(f"{path}: user {user!r}", content.user_data[user], samples)


def _arrays(where: str, raw: Raw, samples: int) -> dict[str, NDArray]:
    user = _decoded(where, raw, _User, "x and y")
    if not len(user.x) == len(user.y) == samples:
        raise BadInput(
            f"{where}: {len(user.x)} images, {len(user.y)} labels and num_samples {samples}, "
            "expected equal numbers"
        )
    if lengths := {len(image) for image in user.x} - {784}:
        raise BadInput(f"{where}: an image of {min(lengths)} pixels, expected 784")
    pixels = np.array(user.x, np.float32).reshape(-1, 28, 28)
    return {"pixels": pixels, "label": np.array(user.y, np.int64)}


def _decoded(where: Path | str, content: bytes | Raw, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{where}: not {what} ({error})") from None
