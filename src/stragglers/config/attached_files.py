"""Files that settings name: clients, their faults and hours, samples, algorithms of one's own.

    beside(document, folder)   names are of files in a folder, unless they are absolute
    digested(settings)         names give way to what the files hold: of this a hash is made
    copied(settings)           names of copies, and the copies: they lie with the settings of a run

A copy is named by what it holds. So a file that is named twice is copied once, two files of one
name do not meet, and a copy of a copy is the same.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stragglers._core import seals
from stragglers._core.errors import BadInput

FILES = ("csv", "file")  # keys of settings
DATA = "path"  # that of a folder, which is too large to be copied


def beside(document: Any, folder: Path, keys: Sequence[str] = (*FILES, DATA)) -> Any:
    """Files that a document names lie beside it, unless their path is absolute."""
    return _changed(document, keys, lambda name: str((folder / name).absolute()))


def digested(settings: dict[str, Any]) -> dict[str, Any]:
    """A name that is none of a file stays as it is."""

    def digest(name: str) -> str:
        content = _content(name)
        return name if content is None else seals.digest(content)

    return _changed(settings, FILES, digest)


def copied(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The settings with names of copies, and the copies by name; data is named from anywhere."""
    copies = {}

    def keep(name: str) -> str:
        content = _content(name)
        if content is None:
            return name
        copy = f"copy-{seals.digest(content)[:12]}{Path(name).suffix}"
        copies[copy] = content
        return copy

    named = _changed(settings, FILES, keep)
    return _changed(named, (DATA,), lambda name: str(Path(name).absolute())), copies


def _content(name: str) -> bytes | None:
    path = Path(name)
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise BadInput(f"{name}: cannot be read ({error.strerror})") from None


def _changed(document: Any, keys: Sequence[str], change: Callable[[str], str]) -> Any:
    if not isinstance(document, dict):
        return document
    return {
        key: change(value)
        if key in keys and isinstance(value, str)
        else _changed(value, keys, change)
        for key, value in document.items()
    }
