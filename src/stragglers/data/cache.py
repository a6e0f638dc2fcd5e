"""Prepared arrays: made once from a source, then mapped into memory.

    <cache>/data/<name>-<hash of settings and paths>/
        <array>.npy, ...
        manifest.json     version, settings, fingerprints of the sources, blocks of each array

A cache is used if its version, settings and sources are the ones asked for and its files are what
they were: of the length they had, with the SHA-256 of every block of 16 MiB. Above 1 GiB only 16
blocks are checked, spread evenly, the first and the last among them; `thorough` checks all.
Anything else is made again, with one line on stderr that says why. A cache appears by renaming a
finished folder, under a lock: whoever is killed leaves nothing that could be taken for one.
"""

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from stragglers.device import cache_folder
from stragglers.errors import BadInput

VERSION = 1
BLOCK = 1 << 24
CHECKED = 1 << 30  # bytes up to which every block is checked
SAMPLED = 16  # blocks beyond that

Arrays = dict[str, NDArray[Any]]


class Key(msgspec.Struct, frozen=True):
    """What a cache was made from."""

    sources: dict[str, list[int | str]]  # path: fingerprint
    settings: dict[str, Any]
    version: int = VERSION


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: Key
    blocks: dict[str, list[str]]  # of each array's file: SHA-256
    bytes: dict[str, int]


def prepared(
    name: str,
    sources: Sequence[Path],
    settings: Mapping[str, Any],
    build: Callable[["Writer"], None],
    *,
    thorough: bool = False,
) -> Arrays:
    """The arrays that `build` makes of the sources, read-only; from the cache if it has them."""
    key = key_of(sources, settings)
    identity = msgspec.json.encode([sorted(key.sources), key.settings], order="sorted")
    folder = cache_folder() / "data" / f"{name}-{hashlib.sha256(identity).hexdigest()[:16]}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(f"{folder.name}.lock")):
            arrays = load(folder, key, thorough=thorough)
            if arrays is None:
                _save(folder, key, build)
                arrays = load(folder, key)
    except OSError as error:
        raise BadInput(
            f"{folder}: cannot be used as a cache ({error.strerror}); set STRAGGLERS_CACHE to a "
            "folder with room"
        ) from None
    if arrays is None:
        raise BadInput(f"{folder}: the disk does not give back what was written to it")
    return arrays


def key_of(sources: Sequence[Path], settings: Mapping[str, Any]) -> Key:
    # Through JSON and back: what was read must equal what was written, tuples or lists.
    plain = msgspec.json.decode(msgspec.json.encode(dict(settings), order="sorted"))
    return Key({str(path.absolute()): fingerprint(path) for path in sources}, plain)


def fingerprint(path: Path) -> list[int | str]:
    """A file's size, time of change, and SHA-256 of its ends and of 64 pieces in between.

    A whole hash of the larger sources would take longer than to use what was made of them.
    """
    try:
        about = path.stat()
        digest = hashlib.sha256()
        with path.open("rb") as file:
            for at in np.linspace(0, max(0, about.st_size - 4096), 66).astype(int).tolist():
                file.seek(at)
                digest.update(file.read(4096))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    return [about.st_size, about.st_mtime_ns, digest.hexdigest()]


def load(folder: Path, key: Key, *, thorough: bool = False) -> Arrays | None:
    """The arrays of a folder, if it was made for the key and is still whole."""
    if not folder.exists():
        return None
    try:
        manifest = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=Manifest)
        if manifest.key != key:
            raise _Stale("made from other files or by another version")
        for name in manifest.blocks:
            _check(folder / f"{name}.npy", manifest.blocks[name], manifest.bytes[name], thorough)
        return {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in manifest.blocks
        }
    except (_Stale, OSError, ValueError, KeyError) as error:
        why = str(error) if isinstance(error, _Stale) else f"damaged: {error}"
        print(f"{folder}: {why}; preparing the data again", file=sys.stderr)
        return None


class _Stale(Exception):
    pass


def _check(path: Path, blocks: list[str], size: int, thorough: bool) -> None:
    if path.stat().st_size != size:
        raise _Stale(f"damaged: {path.name} has {path.stat().st_size:,} bytes of {size:,}")
    numbers = np.arange(len(blocks))
    if size > CHECKED and not thorough:
        numbers = np.unique(np.linspace(0, len(blocks) - 1, SAMPLED).astype(int))
    if _hashes(path, numbers.tolist()) != [blocks[number] for number in numbers]:
        raise _Stale(f"damaged: {path.name} is not what was written")


def _hashes(path: Path, numbers: Sequence[int]) -> list[str]:
    """SHA-256 of blocks of a file, on all cores."""

    def one(number: int) -> str:
        with path.open("rb") as file:
            file.seek(number * BLOCK)
            return hashlib.sha256(file.read(BLOCK)).hexdigest()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, numbers))


class Writer:
    """Takes arrays piece by piece; how long they become need not be known."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._open: dict[str, _Growing] = {}

    def append(self, name: str, rows: NDArray[Any]) -> None:
        """Adds rows at the end of an array; all have the dtype and shape of the first ones."""
        if name not in self._open:
            file = (self._folder / f"{name}.npy").open("w+b")
            self._open[name] = _Growing(file, rows.dtype, rows.shape[1:], [0])
            _write_header(self._open[name])
        growing = self._open[name]
        if (rows.dtype, rows.shape[1:]) != (growing.dtype, growing.shape):
            raise ValueError(f"{name}: rows of {rows.dtype}{rows.shape[1:]}, "
                             f"expected {growing.dtype}{growing.shape}")  # fmt: skip
        growing.file.write(np.ascontiguousarray(rows).data)
        growing.rows[0] += len(rows)

    def finish(self) -> list[str]:
        """Completes the headers and sees everything to the disk."""
        for growing in self._open.values():
            growing.file.seek(0)
            _write_header(growing)
            growing.file.flush()
            os.fsync(growing.file.fileno())
            growing.file.close()
        return list(self._open)

    def close(self) -> None:
        for growing in self._open.values():
            growing.file.close()


class _Growing(NamedTuple):
    file: Any
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of a row
    rows: list[int]  # one number, which grows


def _write_header(growing: _Growing) -> None:
    """NumPy leaves room in the header for a first axis of any length."""
    about = {"descr": npy.dtype_to_descr(growing.dtype), "fortran_order": False,
             "shape": (growing.rows[0], *growing.shape)}  # fmt: skip
    npy.write_array_header_1_0(growing.file, about)


def _save(folder: Path, key: Key, build: Callable[[Writer], None]) -> None:
    """Builds beside the folder's place, then takes it."""
    with replacing(folder) as temporary:
        temporary.mkdir()
        writer = Writer(temporary)
        try:
            build(writer)
            names = writer.finish()
        finally:
            writer.close()
        files = {name: temporary / f"{name}.npy" for name in names}
        size = {name: path.stat().st_size for name, path in files.items()}
        blocks = {
            name: _hashes(path, range(-(-size[name] // BLOCK))) for name, path in files.items()
        }
        with (temporary / "manifest.json").open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(Manifest(key, blocks, size))))
            file.flush()
            os.fsync(file.fileno())
        _sync(temporary)


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """A name beside a place for a file or folder that takes it once it is done.

    Only one at a time may use it for the same place; what a killed one left behind is removed.
    """
    temporary = place.with_name(f".{place.name}.part")
    _remove(temporary)
    try:
        yield temporary
        if place.is_dir():
            _remove(place)
        os.replace(temporary, place)
        _sync(place.parent)
    finally:
        _remove(temporary)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # freed by the system if its holder dies
        yield
