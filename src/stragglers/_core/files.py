"""Files and folders that are whole or not there: written beside their place, on the disk, renamed.

Until then a file is called .unfinished-<name>-<chance>, and its writer holds a lock on it, which
the system takes back when the process ends, however it does: one without a lock is left over, and
the next writer of that name removes it. Folders have one writer at a time, who removes what
another left.
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

from stragglers._core.errors import BadInput

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
    with told(path), replacing(path) as temporary:
        fill(str(temporary))


def write_folder(parent: Path, fill: Callable[[Path], str]) -> None:
    """Has a folder filled beside its place and renames it to what `fill` calls it."""
    with told(parent):
        make_folder(parent)
        with _unfinished_folder(parent, parent.name) as temporary:
            _take(temporary, parent / fill(temporary))


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """An empty file beside a place, which it takes once the block has filled it."""
    begins = f"{UNFINISHED}{place.stem}-"
    for left in _beginning(begins, place.parent):
        _remove_unlocked(left)
    handle, name = tempfile.mkstemp(place.suffix, begins, place.parent)
    temporary = Path(name)
    try:
        with suppress(OSError):  # where there are no locks, nothing is tidied up either
            locked(handle, wait=True)
        yield temporary
        _take(temporary, place)
    finally:
        os.close(handle)
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(place: Path) -> Iterator[Path]:
    """The same of a folder, for a process that has the place to itself."""
    with _unfinished_folder(place.parent, place.name) as temporary:
        yield temporary
        _take(temporary, place)


@contextmanager
def _unfinished_folder(parent: Path, name: str) -> Iterator[Path]:
    begins = f"{UNFINISHED}{name}-"
    for left in _beginning(begins, parent):
        _remove(left)
    temporary = Path(tempfile.mkdtemp(prefix=begins, dir=parent))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _take(temporary: Path, place: Path) -> None:
    """Gives a file or folder its place: it is on the disk before it has the name, then the name."""
    inside = list(temporary.iterdir()) if temporary.is_dir() else None
    os.chmod(temporary, (0o666 if inside is None else 0o777) & ~_umask())
    for file in inside or ():
        sync(file)
    sync(temporary)
    if inside is not None and place.is_dir():  # which a rename would not replace
        _remove(place)
    os.replace(temporary, place)
    sync(place.parent)


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Waits until no other process works on a place."""
    with place.with_name(f"{place.name}.lock").open("w") as file:
        locked(file.fileno(), wait=True)
        yield


def locked(handle: int, wait: bool = False) -> bool:
    """Locks an open file, unless another process has, or after it; a lock ends with its process."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if wait or error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True


def make_folder(folder: Path) -> None:
    """Makes it, and what is missing above it, and sees their names to the disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync(made.parent)


def remove_folder(path: Path) -> None:
    """Renames it first, so that no process finds half of it."""
    with told(path):
        unnamed = path.with_name(UNFINISHED + path.name)
        shutil.rmtree(unnamed, ignore_errors=True)
        os.rename(path, unnamed)
        _remove(unnamed)


def remove_unfinished(folder: Path) -> None:
    """What processes that were ended have left in a folder, if there is one."""
    with told(folder):
        for left in _beginning(UNFINISHED, folder):
            _remove(left)


def _beginning(begins: str, folder: Path) -> list[Path]:
    return list(folder.glob(f"{glob.escape(begins)}*"))


def _remove_unlocked(path: Path) -> None:
    with suppress(OSError):  # its writer is just done, or another user's
        handle = os.open(path, os.O_RDONLY)
        try:
            if locked(handle):  # left behind: a writer that lives holds its lock
                path.unlink()
        finally:
            os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


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
