"""Files and folders that are whole or not there, one writer at a time."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from stragglers.errors import BadInput
from stragglers.files import sync


def fingerprint(path: Path) -> list[int | str]:
    """A file's size, time of change, and SHA-256 of its ends and of 64 pieces in between.

    A whole hash of the larger sources would take longer than to use what was made of them.
    """
    try:
        about = path.stat()
        digest = hashlib.sha256()
        with path.open("rb") as file:
            for at in np.linspace(0, max(0, about.st_size - 4096), 66).astype(int).tolist():
                file.seek(at)
                digest.update(file.read(4096))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    return [about.st_size, about.st_mtime_ns, digest.hexdigest()]


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Waits until nobody else works on a place; the system frees it if its holder dies."""
    with place.with_name(f"{place.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """A name beside a place for a file or folder that takes it once it is done.

    For whoever holds the lock; what a killed one left behind is removed.
    """
    temporary = place.with_name(f".{place.name}.part")
    _remove(temporary)
    try:
        yield temporary
        if place.is_dir():
            _remove(place)
        os.replace(temporary, place)
        sync(place.parent)
    finally:
        _remove(temporary)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
