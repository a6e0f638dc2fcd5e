"""Files that settings name: clients, their faults and hours, samples, code of the user's own.

    beside(document, folder)   names are of files in a folder, unless they are absolute
    digested(settings)         names give way to what the files hold: of this a hash is made
    copied(settings)           names of copies, and the copies: they lie with the settings of a run

A copy is named by what it holds. So a file that is named twice is copied once, two files of one
name do not meet, and a copy of a copy is the same. A Python file goes with the local files that it
imports: into a folder, if there are any.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stragglers._core import own_files
from stragglers._core.errors import BadInput

FILES = ("csv", "file")  # keys of settings
DATA = "path"  # that of a folder, which is too large to be copied


def beside(document: Any, folder: Path, keys: Sequence[str] = (*FILES, DATA)) -> Any:
    """Files that a document names lie beside it, unless their path is absolute."""
    return _changed(document, keys, lambda name: str((folder / name).absolute()))


def digested(settings: dict[str, Any]) -> dict[str, Any]:
    """A name that is none of a file stays as it is."""

    def digest(name: str) -> str:
        contents = _contents(name)
        return name if contents is None else own_files.digest(contents)

    return _changed(settings, FILES, digest)


def copied(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The settings with names of copies, and the copies by name; data is named from anywhere."""
    copies: dict[str, bytes] = {}

    def keep(name: str) -> str:
        contents = _contents(name)
        if contents is None:
            return name
        copy = f"copy-{own_files.digest(contents)[:12]}"
        if len(contents) == 1:
            (copies[f"{copy}{Path(name).suffix}"],) = contents.values()
            return f"{copy}{Path(name).suffix}"
        copies.update({f"{copy}/{part}": content for part, content in contents.items()})
        return f"{copy}/{Path(name).name}"

    named = _changed(settings, FILES, keep)
    return _changed(named, (DATA,), lambda name: str(Path(name).absolute())), copies


def _contents(name: str) -> own_files.Sources | None:
    """What a file holds, and what the local files do that it imports if it is a Python file."""
    path = Path(name)
    try:
        if not path.is_file():
            return None
        return own_files.sources(path) if path.suffix == ".py" else {path.name: path.read_bytes()}
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
