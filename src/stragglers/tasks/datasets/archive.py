"""Members of tar archives, read in place: nothing is ever extracted to disk.

An archive is refused whole, before any of it is used, if a member's path leaves it, if a member
is anything but a file or a folder, if a wanted name comes twice, if it unpacks to more than its
limit, or if the checksum at the end of the compressed stream is not its own.
"""

import bz2
import gzip
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Any

from stragglers._core.errors import BadInput

LIMIT = 1 << 28  # bytes, all members together; CIFAR-100's are 0.19 GB


def members(path: Path, names: Collection[str], limit: int = LIMIT) -> dict[str, bytes]:
    """The contents of the files of these names, in whatever folder of the archive they lie."""
    found: dict[str, bytes] = {}
    try:
        with (bz2.open if path.suffix == ".bz2" else gzip.open)(path) as content:
            stream = _Bounded(path, content, limit)
            with tarfile.open(fileobj=stream, mode="r|") as archive:  # pyright: ignore
                for member in archive:
                    _check(path, member)
                    name = PurePosixPath(member.name).name
                    file = archive.extractfile(member) if name in names else None
                    if file is not None:
                        if name in found:
                            raise BadInput(f"{path}: {name} is in it twice; get the archive again")
                        found[name] = file.read()
            while stream.read(1 << 16):  # to the end, where the checksum is
                pass
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: not a whole archive ({error}); get it again") from None
    if missing := sorted(set(names) - found.keys()):
        raise BadInput(f"{path}: no {missing[0]} in it, expected {', '.join(sorted(names))}")
    return found


class _Bounded:
    """A stream that ends in an error, not in all of the memory."""

    def __init__(self, path: Path, content: Any, limit: int) -> None:
        self.path, self.content, self.limit, self.seen = path, content, limit, 0

    def read(self, size: int) -> bytes:
        block = self.content.read(size)
        self.seen += len(block)
        if self.seen > self.limit:
            raise BadInput(
                f"{self.path}: unpacks to more than {self.limit:,} bytes, so it is not the "
                "published archive"
            )
        return block


def _check(path: Path, member: tarfile.TarInfo) -> None:
    place = PurePosixPath(member.name)
    if place.is_absolute() or ".." in place.parts:
        raise BadInput(f"{path}: member {member.name!r} would leave the archive; it is not safe")
    if not (member.isfile() or member.isdir()):
        raise BadInput(f"{path}: member {member.name!r} is neither file nor folder; it is not safe")
