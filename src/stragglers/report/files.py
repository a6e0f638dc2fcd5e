"""Files that are whole or not there."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from stragglers.errors import BadInput

FIGURES = (".png", ".pdf", ".svg")


def checked_path(file: str) -> Path:
    """Refuses a figure's path before any work is done for it."""
    path = Path(file)
    if path.suffix.lower() not in FIGURES:
        raise BadInput(f"{file}: a figure ends in one of {', '.join(FIGURES)}")
    if not path.parent.is_dir():
        raise BadInput(f"{file}: no folder {str(path.parent)!r}; create it first")
    return path


def output_folder(name: str) -> Path:
    """Makes the folder for results, or says why it cannot be."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{name}: no folder for results ({error.strerror})") from None
    return folder


def write(path: Path, fill: Callable[[str], object]) -> None:
    """Has a file written beside its place and renames it there."""
    try:
        handle, temporary = tempfile.mkstemp(suffix=path.suffix, dir=path.parent)
        os.close(handle)
        try:
            fill(temporary)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror})") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
