"""A JSON document that vouches for the files beside it, and for itself.

    files   SHA-256 of each file, by name
    seal    its last line: SHA-256 of the document's bytes without this line

Both are of bytes, not of values: 1e-3 and 1E-3 are one number, but not one file.
"""

import errno
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from stragglers._core.errors import BadInput

# What a disk says of files that it has lost; other errors may pass, or be somebody's permissions.
ROTTEN = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO)
END = b"\n}\n"


class Damaged(BadInput):
    """A folder is not what was written."""


def sealed(document: Mapping[str, Any]) -> bytes:
    """The document as a file; a seal that it had is replaced."""
    bare = {key: value for key, value in document.items() if key != "seal"}
    return _with_seal(msgspec.json.format(msgspec.json.encode(bare), indent=2) + b"\n")


def is_sealed(content: bytes) -> bool:
    """Whether these are the bytes that were sealed."""
    return content == _with_seal(content[: -len(_with_seal(END))] + END)


def changed(folder: Path, files: Mapping[str, str]) -> str | None:
    """The first of these files that is not what was written, as part of a line."""
    for name, then in files.items():
        if Path(name).is_absolute() or ".." in Path(name).parts:
            return f"{name!r} is no file of this folder"
        try:
            now = digest_of(folder / name)
        except FileNotFoundError:
            return f"{name} is missing"
        except OSError as error:
            if error.errno not in ROTTEN:
                raise BadInput(f"{folder / name}: cannot be read ({error.strerror})") from None
            return f"{name} cannot be read ({error.strerror})"
        if now != then:
            return f"{name} is not what was written"
    return None


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _with_seal(bare: bytes) -> bytes:
    return bare[: -len(END)] + f',\n  "seal": "{digest(bare)}"'.encode() + END
