"""Files that are whole or not there: written beside their place, on the disk, then renamed.

Until then a file is called .unfinished-<name>-<chance>, and its writer holds a lock on it, which
the system takes back when the process ends, however it does: one without a lock is left over, and
the next writer of that name removes it.
"""

import errno
import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
        make_folder(folder)
    except OSError as error:
        why = "a file is there" if folder.is_file() else error.strerror
        raise BadInput(f"{name}: no folder for results ({why})") from None
    return folder


def write(path: Path, fill: Callable[[str], object]) -> None:
    """Has a file written beside its place and renames it there."""
    with told(path):
        begins = f"{UNFINISHED}{path.stem}-"
        for left in path.parent.glob(f"{glob.escape(begins)}*"):
            _remove_unlocked(left)
        handle, temporary = tempfile.mkstemp(path.suffix, begins, path.parent)
        try:
            with suppress(OSError):  # where there are no locks, nothing is tidied up either
                fcntl.flock(handle, fcntl.LOCK_EX)
            fill(temporary)
            os.chmod(temporary, 0o666 & ~_umask())
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
        finally:
            os.close(handle)
            Path(temporary).unlink(missing_ok=True)


def locked(handle: int, place: Path) -> bool:
    """Locks an open file, unless another process has; a lock ends with its process."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise BadInput(f"{place}: cannot be locked ({error.strerror})") from None
        return False
    return True


def write_folder(parent: Path, fill: Callable[[Path], str]) -> None:
    """Has a folder filled beside its place and renames it to what `fill` calls it."""
    with told(parent):
        make_folder(parent)
        temporary = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=parent))
        try:
            name = fill(temporary)
            os.chmod(temporary, 0o777 & ~_umask())
            for file in temporary.iterdir():
                sync(file)
            sync(temporary)
            os.rename(temporary, parent / name)
            sync(parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Makes it, and what is missing above it, and sees their names to the disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync(made.parent)


def remove_folder(path: Path) -> None:
    """Takes its name away first, so that nobody finds half of it."""
    with told(path):
        unnamed = path.with_name(UNFINISHED + path.name)
        shutil.rmtree(unnamed, ignore_errors=True)
        os.rename(path, unnamed)
        _remove(unnamed)


def remove_unfinished(folder: Path) -> None:
    """What processes that were ended have left in a folder, if there is one."""
    with told(folder):
        for left in folder.glob(f"{UNFINISHED}*"):
            _remove(left)


def _remove_unlocked(path: Path) -> None:
    with suppress(OSError):  # its writer is just done, or another user's
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its writer lives
            path.unlink()
        finally:
            os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextmanager
def told(path: Path) -> Iterator[None]:
    """A full disk, or whatever keeps a file from being written, as one line."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise BadInput(f"{path}: cannot be written ({why}); what was there is whole") from None


def sync(path: str | Path) -> None:
    """Sees a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
