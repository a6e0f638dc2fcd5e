"""Files that are whole or not there: written beside their place, on the disk, then renamed."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stragglers.errors import BadInput

FIGURES = (".png", ".pdf", ".svg")
UNFINISHED = ".unfinished-"  # what names begin with until a file is whole


def checked_path(file: str, suffixes: tuple[str, ...] = FIGURES) -> Path:
    """Refuses the path of a figure, or of a page, before any work is done for it."""
    path = Path(file)
    if path.suffix.lower() not in suffixes:
        raise BadInput(f"{file}: expected a name that ends in {' or '.join(suffixes)}")
    if not path.parent.is_dir():
        raise BadInput(f"{file}: no folder {str(path.parent)!r}; create it first")
    return path


def output_folder(name: str) -> Path:
    """Makes the folder for results, or says why it cannot be."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "a file is there" if folder.is_file() else error.strerror
        raise BadInput(f"{name}: no folder for results ({why})") from None
    return folder


def write(path: Path, fill: Callable[[str], object]) -> None:
    """Has a file written beside its place and renames it there."""
    with told(path):
        handle, temporary = tempfile.mkstemp(path.suffix, UNFINISHED, path.parent)
        os.close(handle)
        try:
            fill(temporary)
            os.chmod(temporary, 0o666 & ~_umask())
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
        finally:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """A full disk, or whatever keeps a file from being written, as one line."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise BadInput(f"{path}: cannot be written ({why}); what was there is whole") from None


def _sync(path: str | Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
