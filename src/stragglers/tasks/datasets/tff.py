"""TensorFlow Federated's files: HDF5, and SQLite as it is or compressed.

    HDF5     examples/<client>/<field>                            one file for each split
    SQLite   examples(split_name, client_id, serialized_example_proto)
             client_metadata(client_id, split_name, num_examples)           if there is one

Both give the same: clients one after another, each with its fields as [examples] or, where an
example has more than one value, as [examples, values]. Text is bytes. Clients come in the order
of their ids. Only an SQLite file without an index over client_id comes in its own order, and then
the rows of a client have to be side by side. Nothing holds more than one client's rows.
"""

import math
import sqlite3
from collections.abc import Collection, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput, about, did_you_mean
from stragglers.tasks.datasets import sqlite
from stragglers.tasks.datasets.example_proto import Values, parse
from stragglers.tasks.datasets.unpacked import unpacked

Fields = dict[str, NDArray[Any]]
HDF5 = b"\x89HDF\r\n\x1a\n"
XZ, LZMA = b"\xfd7zXZ\0", b"]\0\0"
TABLES = {"examples": {"split_name", "client_id", "serialized_example_proto"}}


def clients(
    path: Path, split: str | None = None, fields: Collection[str] | None = None
) -> Iterator[tuple[str, Fields]]:
    """Each client's id and the given fields (default: all); `split` is for SQLite alone."""
    if starts_with(path, HDF5):
        yield from _from_hdf5(path, fields)
    else:
        yield from _from_sqlite(_plain(path), split, fields)


def client_count(path: Path, split: str | None = None) -> int | None:
    """How many clients there are, where the file says so without being read through."""
    if starts_with(path, HDF5):
        return None
    with sqlite.opened(_plain(path), TABLES) as db:
        listed = _metadata(db, _split(db, path, split))
        return None if listed is None else len(listed)


def starts_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None


def _plain(path: Path) -> Path:
    if path.suffix == ".h5":
        raise BadInput(f"{path}: not an HDF5 file; fetch it again")
    packed = starts_with(path, XZ) or starts_with(path, LZMA)
    return unpacked(path, sqlite.MAGIC) if packed else path


def _from_hdf5(path: Path, fields: Collection[str] | None) -> Iterator[tuple[str, Fields]]:
    try:
        import h5py
    except ImportError:
        raise BadInput(f"{path}: reading HDF5 needs h5py: pip install 'stragglers[data]'") from None
    try:
        with h5py.File(path) as file:
            group = file.get("examples")
            if not isinstance(group, h5py.Group) or len(group) == 0:
                raise BadInput(f"{path}: no group 'examples' with a group for each client in it")
            for client in sorted(group):
                yield client, _hdf5_client(path, client, group[client], fields)
    except BadInput:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:  # as h5py has them
        why = str(error).splitlines()[0]
        raise BadInput(f"{path}: cannot be read as HDF5 ({why}); fetch it again") from None


def _hdf5_client(path: Path, client: str, group: Any, wanted: Collection[str] | None) -> Fields:
    import h5py

    if not isinstance(group, h5py.Group):
        raise BadInput(f"{path}: examples/{client} is no group of fields")
    arrays: Fields = {}
    for name in wanted or list[str](group):
        field = group.get(name)
        if not isinstance(field, h5py.Dataset) or field.ndim == 0:
            raise BadInput(f"{path}: client {client!r} has no field {name!r}")
        arrays[name] = _flat(field[()])
    return _equally_long(path, client, arrays)


def _flat(values: NDArray[Any]) -> NDArray[Any]:
    return values.reshape(len(values), math.prod(values.shape[1:])) if values.ndim > 1 else values


def _equally_long(path: Path, client: str, arrays: Fields) -> Fields:
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise BadInput(f"{path}: client {client!r} has fields of unequal lengths {lengths}")
    return arrays


def _from_sqlite(
    path: Path, split: str | None, fields: Collection[str] | None
) -> Iterator[tuple[str, Fields]]:
    wanted = None if fields is None else {name.encode() for name in fields}
    with sqlite.opened(path, TABLES) as db:
        split = _split(db, path, split)
        expected, seen = _metadata(db, split), set()
        for client, rows in groupby(_rows(db, split), key=lambda row: row[0]):
            with about(f"{path}: client {client!r}"):
                examples = [_example(client, blob, wanted) for _, blob in rows]
            count = len(examples) if expected is None else expected.get(client, 0)
            if client in seen or count != len(examples):
                most = "all" if client in seen else count
                raise BadInput(
                    f"{path}: {len(examples)} examples of client {client!r} side by side, expected "
                    f"{most}; fetch it again, or if the file is whole run "
                    "CREATE INDEX by_client ON examples (split_name, client_id)"
                )
            seen.add(client)
            names = [name.encode() for name in fields] if fields else list(examples[0])
            yield client, {n.decode(): _column(path, client, n, examples) for n in names}
        missing = {name for name, count in (expected or {}).items() if count} - seen
        if missing:
            raise BadInput(f"{path}: client {min(missing)!r} has no examples; fetch it again")


def _split(db: sqlite3.Connection, path: Path, given: str | None) -> str:
    """The given split, or the only one."""
    table = "client_metadata" if _has_metadata(db) else "examples"
    found = [str(name) for (name,) in db.execute(f"SELECT DISTINCT split_name FROM {table}")]
    if given is None and len(found) == 1:
        return found[0]
    if given is None or given not in found:
        raise BadInput(f"{path}: split {given!r}; {did_you_mean(given or '', found)}")
    return given


def _rows(db: sqlite3.Connection, split: str) -> Iterator[tuple[str, bytes]]:
    query = "SELECT client_id, serialized_example_proto FROM examples WHERE split_name = ? ORDER BY"
    by_id = f"{query} client_id, rowid"
    # Sorting 135 million rows would fill the disk; with an index there is nothing to sort.
    plan = [row[-1] for row in db.execute(f"EXPLAIN QUERY PLAN {by_id}", [split])]
    sorts = any("TEMP B-TREE" in step for step in plan)
    return db.execute(f"{query} rowid" if sorts else by_id, [split])


def _example(client: str, blob: Any, wanted: Collection[bytes] | None) -> dict[bytes, Values]:
    if not isinstance(client, str) or not isinstance(blob, bytes):
        raise BadInput("a row that is not (text, blob)")
    return parse(blob, wanted)


def _column(
    path: Path, client: str, name: bytes, examples: list[dict[bytes, Values]]
) -> NDArray[Any]:
    try:
        values = [example[name] for example in examples]
    except KeyError:
        raise BadInput(f"{path}: client {client!r} has no field {name.decode()!r}") from None
    length = len(values[0])
    if any(len(value) != length for value in values):
        raise BadInput(f"{path}: client {client!r}: {name.decode()!r} differs in length")
    if isinstance(values[0], list):
        column = np.empty((len(values), length), object)
        column[:] = values
    else:
        column = np.stack(values)
    return column[:, 0] if length == 1 else column


def _has_metadata(db: sqlite3.Connection) -> bool:
    return sqlite.columns(db, "client_metadata") >= {"client_id", "split_name", "num_examples"}


def _metadata(db: sqlite3.Connection, split: str) -> dict[str, int] | None:
    if not _has_metadata(db):
        return None
    query = "SELECT client_id, num_examples FROM client_metadata WHERE split_name = ?"
    return dict(db.execute(f"{query} ORDER BY client_id", [split]))
