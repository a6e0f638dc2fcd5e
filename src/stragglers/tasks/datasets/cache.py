"""Prepared arrays: made once from a source, then mapped into memory.

    <cache>/data/<name>-<hash of settings and paths>/
        <array>.npy, ...
        manifest.json     version, settings, fingerprints of the sources, blocks of each array

A cache is used if its version, settings and sources are the ones asked for and its files are what
they were: of the length they had, with the SHA-256 of every block of 16 MiB. Above 1 GiB only 16
blocks are checked, spread evenly, the first and the last among them; `thorough` checks all.
Anything else is made again, with one line on stderr that says why. A cache appears by renaming a
finished folder, under a lock: a process that is killed leaves nothing that looks finished.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers._core.files import alone, replacing_folder
from stragglers._core.jax_env import cache_folder
from stragglers.tasks.datasets.fingerprint import fingerprint

VERSION = 2
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
    bytes: dict[str, int]  # of each array's file
    blocks: dict[str, list[str]]  # SHA-256


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
    folder = _folder(name, key)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with alone(folder):
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


def digest(name: str, sources: Sequence[Path], settings: Mapping[str, Any]) -> str | None:
    """Names what prepared arrays hold, whatever they were made from; None if none are prepared.

    Costs little: their blocks are known, and were checked when they were last used.
    """
    key = key_of(sources, settings)
    try:
        text = (_folder(name, key) / "manifest.json").read_bytes()
        manifest = msgspec.json.decode(text, type=Manifest)
    except (OSError, msgspec.MsgspecError):
        return None
    if manifest.key != key:
        return None
    return hashlib.sha256(msgspec.json.encode(manifest.blocks, order="sorted")).hexdigest()


def _folder(name: str, key: Key) -> Path:
    identity = msgspec.json.encode([sorted(key.sources), key.settings], order="sorted")
    return cache_folder() / "data" / f"{name}-{hashlib.sha256(identity).hexdigest()[:16]}"


def key_of(sources: Sequence[Path], settings: Mapping[str, Any]) -> Key:
    # Through JSON and back: what was read must equal what was written, tuples or lists.
    plain = msgspec.json.decode(msgspec.json.encode(dict(settings), order="sorted"))
    return Key({str(path.absolute()): fingerprint(path) for path in sources}, plain)


def load(folder: Path, key: Key, *, thorough: bool = False) -> Arrays | None:
    """The arrays of a folder, if it was made for the key and is still whole."""
    if not folder.exists():
        return None
    try:
        manifest = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=Manifest)
        if manifest.key != key:
            raise ValueError("made from other files or by another version")
        for name in manifest.blocks:
            _check(folder / f"{name}.npy", manifest.bytes[name], manifest.blocks[name], thorough)
        return {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in manifest.blocks
        }
    except (OSError, ValueError, KeyError, msgspec.MsgspecError) as error:
        print(f"{folder}: {error}; preparing the data again", file=sys.stderr)
        return None


def _check(path: Path, size: int, blocks: list[str], thorough: bool) -> None:
    if path.stat().st_size != size:
        raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes of {size:,}")
    numbers = np.arange(len(blocks))
    if size > CHECKED and not thorough:
        numbers = np.unique(np.linspace(0, len(blocks) - 1, SAMPLED).astype(int))
    if _hashes(path, numbers.tolist()) != [blocks[number] for number in numbers]:
        raise ValueError(f"{path.name} is not what was written")


def _hashes(path: Path, numbers: Sequence[int]) -> list[str]:
    """SHA-256 of blocks of a file, on all cores."""

    def one(number: int) -> str:
        with path.open("rb") as file:
            file.seek(number * BLOCK)
            return hashlib.sha256(file.read(BLOCK)).hexdigest()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, numbers))


def _save(folder: Path, key: Key, build: Callable[["Writer"], None]) -> None:
    """Builds beside the folder's place, then takes it."""
    with replacing_folder(folder) as temporary:
        writer = Writer(temporary)
        try:
            build(writer)
            files = writer.finish()
        finally:
            writer.close()
        size = {name: path.stat().st_size for name, path in files.items()}
        blocks = {
            name: _hashes(path, range(-(-size[name] // BLOCK))) for name, path in files.items()
        }
        manifest = temporary / "manifest.json"
        manifest.write_bytes(msgspec.json.format(msgspec.json.encode(Manifest(key, size, blocks))))


class Writer:
    """Takes arrays piece by piece; how long they become need not be known."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._rows: dict[str, int] = {}
        self._like: dict[str, NDArray[Any]] = {}  # an empty array of the right kind

    def append(self, name: str, rows: NDArray[Any]) -> None:
        """Adds rows at the end of an array; all have the dtype and shape of the first ones."""
        like = self._like.setdefault(name, rows[:0].copy())
        if (rows.dtype, rows.shape[1:]) != (like.dtype, like.shape[1:]):
            raise ValueError(
                f"{name}: rows of {rows.dtype}{rows.shape[1:]}, "
                f"expected {like.dtype}{like.shape[1:]}"
            )
        if name not in self._files:
            self._files[name] = (self._folder / f"{name}.npy").open("w+b")
            self._header(name)
        self._files[name].write(np.ascontiguousarray(rows).data)
        self._rows[name] = self._rows.get(name, 0) + len(rows)

    def finish(self) -> dict[str, Path]:
        """Completes the headers; where each array lies."""
        for name, file in self._files.items():
            file.seek(0)
            self._header(name)
            file.close()
        return {name: self._folder / f"{name}.npy" for name in self._files}

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _header(self, name: str) -> None:
        """NumPy leaves room in the header for a first axis of any length."""
        like = self._like[name]
        about = {
            "descr": npy.dtype_to_descr(like.dtype),
            "fortran_order": False,
            "shape": (self._rows.get(name, 0), *like.shape[1:]),
        }
        npy.write_array_header_1_0(self._files[name], about)
