"""Federated images from whichever published files a folder holds.

    find     which files there are, and in which layout; nothing is read yet
    load     their images, prepared once: checked, flat, clients in the order of their names,
             from then on mapped from the cache

    client i holds rows offsets[i] to offsets[i + 1]

emnist.py and cifar100.py say which files these are, and what shape an image has.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import cache

Clients = Iterable[tuple[str, dict[str, NDArray[Any]]]]
Files = Sequence[Path]
VERSION = 1  # of what is in the cache; another one makes it anew


class Layout(NamedTuple):
    """Files under a folder that hold a data set, and how they are read."""

    name: str
    train: str  # a pattern
    test: str | None  # None: the same files hold it
    read: Callable[[Files, Files], tuple[Clients, Clients]]
    note: str = ""  # what is to be said of the data
    partitioned: bool = True  # False: one heap of images that belong to no clients yet


class Kind(NamedTuple):
    """A data set, whatever its layout."""

    name: str
    layouts: Sequence[Layout]  # the first that is found is taken
    classes: int
    pixels: Callable[[dict[str, NDArray[Any]], str], NDArray[Any]]  # fields, where: images
    published: tuple[int, int, int]  # clients, training and test examples


class Found(NamedTuple):
    layout: Layout
    train: Files
    test: Files


class Images(NamedTuple):
    """Everybody's images, before any split into groups."""

    x: NDArray[Any]  # [examples, ...]
    y: NDArray[np.int32]
    offsets: NDArray[np.int64]  # [clients + 1]
    test_x: NDArray[Any]
    test_y: NDArray[np.int32]
    test_client: NDArray[np.int32]  # the training client of the same name, or -1


def find(kind: Kind, path: Path) -> Found:
    """The files in a folder, or those that a file belongs to."""
    if not path.exists():
        raise BadInput(f"{path}: no such folder or file; set --path to the files of {kind.name}")
    folder = path if path.is_dir() else path.parent
    half = None
    for layout in kind.layouts:
        train, test = (
            sorted(file for file in folder.glob(pattern) if file.is_file()) if pattern else []
            for pattern in (layout.train, layout.test)
        )
        if path.is_file() and path not in (*train, *test):
            continue
        if train and (test or layout.test is None):
            return Found(layout, train, test)
        if train or test:
            lacking = layout.test if train else layout.train
            half = half or f"{[*train, *test][0].name} without {lacking}"
    if half:
        raise BadInput(f"{folder}: {half}; expected both")
    raise BadInput(f"{path}: no files of {kind.name}; {_expected(kind)}")


def load(kind: Kind, found: Found) -> Images:
    """The images, read-only; prepared at first use, which takes a while."""

    def build(writer: cache.Writer) -> None:
        for name, array in read(kind, found)._asdict().items():
            writer.append(name, array)

    return Images(**cache.prepared(*_cached(kind, found), build))


def digest(kind: Kind, found: Found) -> str | None:
    """Names the prepared images, from whichever files they are; None if they are not prepared."""
    return cache.digest(*_cached(kind, found))


def _cached(kind: Kind, found: Found) -> tuple[str, Files, dict[str, Any]]:
    settings = {"layout": found.layout.name, "version": VERSION}
    return kind.name.lower(), [*found.train, *found.test], settings


def read(kind: Kind, found: Found) -> Images:
    """The images from their files."""
    sources = found.layout.read(found.train, found.test)
    places = (_place(found.train), _place(found.test or found.train))
    train, test = (
        _gathered(kind, clients, place) for clients, place in zip(sources, places, strict=True)
    )
    if len(test.y) > len(train.y):
        raise BadInput(
            f"{places[1]}: {len(test.y):,} test examples but {len(train.y):,} to train on; were "
            "the files swapped?"
        )
    if test.x.dtype != train.x.dtype:
        train, test = (part._replace(x=as_floats(part.x)) for part in (train, test))
    place = {name: index for index, name in enumerate(train.names)}
    client = np.array([place.get(name, -1) for name in test.names], np.int32)
    test_client = np.repeat(client, np.diff(test.offsets))
    return Images(train.x, train.y, train.offsets, test.x, test.y, test_client)


def origin(kind: Kind, found: Found, images: Images, clients: int) -> str:
    """What the data is, and whether it has the published counts."""
    counts = (clients, len(images.y), len(images.test_y))
    what = f"{kind.name} from {found.layout.name}{found.layout.note}: "
    if counts == kind.published:
        return f"{what}{_counted(counts)}, as published"
    return f"{what}{_counted(counts)} (published: {_counted(kind.published)})"


def _counted(counts: tuple[int, int, int]) -> str:
    return "{:,} clients, {:,} + {:,} examples".format(*counts)


class _Part(NamedTuple):
    names: list[str]  # of the clients
    x: NDArray[Any]
    y: NDArray[np.int32]
    offsets: NDArray[np.int64]


def _gathered(kind: Kind, clients: Clients, place: str) -> _Part:
    """One split, with its clients in the order of their names, numbers as numbers."""
    parts: dict[str, tuple[NDArray[Any], NDArray[np.int32]]] = {}
    for identity, fields in clients:
        name = identity.rsplit(":", 1)[-1]  # FedJAX puts a hash before some writers' names
        where = f"{place}: client {identity!r}"
        if name in parts:
            raise BadInput(f"{where} is there twice; get the files again")
        pixels = kind.pixels(fields, where)
        labels = _labels(field(fields, "label", where), kind.classes, len(pixels), where)
        parts[name] = pixels, labels
    names = sorted(parts, key=lambda name: (len(name), name))
    if not any(len(y) for _, y in parts.values()):
        raise BadInput(f"{place}: no examples in it; get the files again")
    images = [parts[name][0] for name in names]
    if len({x.dtype for x in images}) > 1:
        images = [as_floats(x) for x in images]
    y = [parts[name][1] for name in names]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in y])])
    return _Part(names, np.concatenate(images), np.concatenate(y), offsets)


def _labels(label: NDArray[Any], classes: int, count: int, where: str) -> NDArray[np.int32]:
    if label.shape != (count,) or label.dtype.kind not in "iu":
        raise BadInput(
            f"{where}: labels {label.dtype} {label.shape}, expected a whole number for each of "
            f"{count} images"
        )
    if count and not 0 <= label.min() <= label.max() < classes:
        wrong = label.min() if label.min() < 0 else label.max()
        raise BadInput(f"{where}: label {wrong}, expected 0 to {classes - 1}")
    return label.astype(np.int32)


def as_floats(x: NDArray[Any]) -> NDArray[np.float32]:
    return x.astype(np.float32) / np.float32(255) if x.dtype == np.uint8 else x


def field(fields: dict[str, NDArray[Any]], name: str, where: str) -> NDArray[Any]:
    if name not in fields:
        raise BadInput(f"{where}: no field {name!r}, only {', '.join(fields)}; is it another file?")
    return fields[name]


def _place(files: Files) -> str:
    return str(files[0] if len(files) == 1 else files[0].parent)


def _expected(kind: Kind) -> str:
    names = dict.fromkeys(
        f"{layout.train} and {layout.test}" if layout.test else layout.train
        for layout in kind.layouts
    )
    task = kind.name.replace("-", "").lower()
    return f"expected one of: {'; '.join(names)} (`stragglers data {task}` says where to get them)"
