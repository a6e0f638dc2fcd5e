"""A task's public files: fetched, compared with what is known of them, unpacked.

checksums.json   SHA-256 of the files whose publisher gives none, as they were first seen
"""

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from stragglers._core.errors import BadInput
from stragglers._core.files import replacing
from stragglers.tasks.datasets.fetch import CHUNK, digest, fetch
from stragglers.tasks.datasets.sources import Source

CHECKSUMS = "checksums.json"


def download(sources: tuple[Source, ...], folder: Path) -> Iterator[str]:
    """Fetches what is not there yet; a line about each file as it goes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources:
            yield from _download(source, folder)
    except OSError as error:
        raise BadInput(f"{error.filename or folder}: {error.strerror}") from None


def _download(source: Source, folder: Path) -> Iterator[str]:
    there = [folder / name for name in source.files]
    if all(path.exists() for path in there):
        for path in there:
            yield f"{path}: there already, {verify(path, None if source.unpacks else source)}"
        return
    archive = folder / source.name
    if archive.exists():
        yield f"{archive}: there already, {verify(archive, source)}"
    else:
        found = fetch(source.url, archive, source.checksum or _recorded(archive))
        yield f"{archive}: fetched, {_worth(archive, found, source)}"
    if source.unpacks:
        for path in unpack(archive, source.unpacks):
            yield f"{path}: unpacked, {verify(path, None)}"
        archive.unlink()


def verify(path: Path, source: Source | None) -> str:
    """Compares a file with its checksum, or records one; says what that is worth."""
    expected = (source.checksum if source else None) or _recorded(path)
    found = digest(path, expected)
    if expected and found != expected:
        raise BadInput(
            f"{path}: its checksum is {found}, expected {expected}; delete it and fetch it again"
        )
    return _worth(path, found, source)


def _worth(path: Path, found: str, source: Source | None) -> str:
    if source and source.checksum:
        kind = source.checksum.split(":")[0].upper().replace("SHA", "SHA-")
        return f"its {kind} is the one published by {source.published}"
    if _recorded(path):
        return f"its SHA-256 is the one in {CHECKSUMS}"
    records = _records(path.parent) | {path.name: found}
    with replacing(path.with_name(CHECKSUMS)) as part:
        part.write_bytes(msgspec.json.format(msgspec.json.encode(records)) + b"\n")
    return f"its SHA-256 is now in {CHECKSUMS}; none is published"


def _recorded(path: Path) -> str | None:
    return _records(path.parent).get(path.name)


def _records(folder: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode((folder / CHECKSUMS).read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise BadInput(f"{folder / CHECKSUMS}: not readable ({error}); delete it") from None


def unpack(archive: Path, names: tuple[str, ...]) -> list[Path]:
    """Takes files out of an archive by their bare names, so none can land elsewhere."""
    missing = set(names)
    try:
        with tarfile.open(archive, "r|*") as tar:
            for member in tar:
                name = PurePosixPath(member.name).name
                if name in missing and member.isfile():
                    _unpack_one(tar.extractfile(member), archive.with_name(name))
                    missing.remove(name)
    except (tarfile.TarError, EOFError) as error:
        raise BadInput(f"{archive}: not a whole archive ({error}); delete it") from None
    except OSError as error:
        raise BadInput(f"{archive}: cannot be unpacked ({error.strerror or error})") from None
    if missing:
        raise BadInput(f"{archive}: no {', '.join(sorted(missing))} in it; another file?")
    return [archive.with_name(name) for name in names]


def _unpack_one(member: IO[bytes] | None, path: Path) -> None:
    assert member is not None  # a regular file
    with replacing(path) as part, part.open("wb") as file:
        shutil.copyfileobj(member, file, CHUNK)
