"""A compressed file, unpacked once into the cache: streaming, and whole or not there."""

import hashlib
import lzma
import shutil
from pathlib import Path

from stragglers._core.errors import BadInput
from stragglers._core.files import alone, replacing
from stragglers._core.jax_env import cache_folder
from stragglers.tasks.datasets.fingerprint import fingerprint

CHUNK = 1 << 22
SPARE = 1 << 30  # bytes that stay free on the disk


def unpacked(path: Path, magic: bytes) -> Path:
    """Where the contents of an .xz or .lzma file lie; they must begin with `magic`."""
    name = hashlib.sha256(repr(fingerprint(path)).encode()).hexdigest()[:16]
    place = cache_folder() / "unpacked" / f"{path.name}-{name}"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with alone(place):
            if not place.exists():
                with replacing(place) as temporary:
                    _unpack(path, temporary, magic)
    except (lzma.LZMAError, EOFError) as error:
        raise BadInput(f"{path}: damaged or cut short ({error}); fetch it again") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be unpacked to {place} ({error.strerror})") from None
    return place


def _unpack(path: Path, target: Path, magic: bytes) -> None:
    with lzma.open(path) as packed, target.open("wb") as file:
        chunk = packed.read(CHUNK)
        if not chunk.startswith(magic):
            raise BadInput(f"{path}: unpacks to something else than expected")
        while chunk:
            if shutil.disk_usage(target.parent).free < SPARE + len(chunk):
                raise BadInput(
                    f"{path}: no room to unpack it in {target.parent}; set STRAGGLERS_CACHE to a "
                    "folder on a larger disk"
                )
            file.write(chunk)
            chunk = packed.read(CHUNK)
