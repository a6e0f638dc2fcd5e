"""A compressed file, unpacked once into the cache: streaming, and whole or not there."""

import hashlib
import lzma
import os
import shutil
from pathlib import Path

from stragglers.data.cache import fingerprint, replacing
from stragglers.device import cache_folder
from stragglers.errors import BadInput

CHUNK = 1 << 22
SPARE = 1 << 30  # bytes that stay free on the disk


def unpacked(path: Path, magic: bytes) -> Path:
    """Where the contents of an .xz or .lzma file lie; they must begin with `magic`."""
    name = hashlib.sha256(repr(fingerprint(path)).encode()).hexdigest()[:16]
    folder = cache_folder() / "unpacked"
    there = folder / f"{path.name}-{name}"
    if there.exists():
        return there
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lzma.open(path) as packed, replacing(there) as target, target.open("wb") as file:
            chunk = packed.read(CHUNK)
            if not chunk.startswith(magic):
                raise BadInput(f"{path}: unpacks to something else than expected")
            while chunk:
                if shutil.disk_usage(folder).free < SPARE + len(chunk):
                    raise BadInput(
                        f"{path}: no room to unpack it in {folder}; set STRAGGLERS_CACHE to a "
                        "folder on a larger disk"
                    )
                file.write(chunk)
                chunk = packed.read(CHUNK)
            file.flush()
            os.fsync(file.fileno())
    except (lzma.LZMAError, EOFError) as error:
        raise BadInput(f"{path}: damaged or cut short ({error}); fetch it again") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be unpacked in {folder} ({error.strerror})") from None
    return there
