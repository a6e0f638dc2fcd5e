"""FedJAX's SQLite files: one row for each client.

    federated_data(client_id BLOB, data BLOB, num_examples INTEGER)
    data    zlib of a msgpack map from field names to arrays
    array   extension 1: (shape, name of the dtype, bytes)    4: (shape, list of byte strings)

Clients come in the order of the file. Arrays are as datasets/tff.py has them: [examples] or
[examples, values].
"""

import math
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import sqlite

TABLES = {"federated_data": {"client_id", "data", "num_examples"}}
NDARRAY, BYTES_NDARRAY = 1, 4
DTYPES = {
    "uint8",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float32",
    "float64",
    "bool",
}
MOST_BYTES = 1 << 30  # of one client, unpacked


def clients(
    path: Path, fields: Collection[str] | None = None
) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Each client's id and the given fields (default: all)."""
    with sqlite.opened(path, TABLES) as db:
        rows = db.execute("SELECT client_id, data, num_examples FROM federated_data ORDER BY rowid")
        empty = True
        for identity, data, count in rows:
            client = identity.decode(errors="replace") if isinstance(identity, bytes) else identity
            try:
                arrays = _arrays(data)
                arrays = arrays if fields is None else {name: arrays[name] for name in fields}
            except KeyError as error:
                raise BadInput(f"{path}: client {client!r} has no field {error}") from None
            except (ValueError, TypeError, zlib.error) as error:
                raise BadInput(f"{path}: client {client!r}: {error}; fetch it again") from None
            lengths = {name: len(values) for name, values in arrays.items()}
            if set(lengths.values()) != {count}:
                raise BadInput(
                    f"{path}: client {client!r} has fields of lengths {lengths}, "
                    f"expected {count} examples"
                )
            empty = False
            yield client, arrays
        if empty:
            raise BadInput(f"{path}: no clients in it")


def client_count(path: Path) -> int:
    """How many clients there are."""
    with sqlite.opened(path, TABLES) as db:
        return db.execute("SELECT count(*) FROM federated_data").fetchone()[0]


def _arrays(data: bytes) -> dict[str, NDArray[Any]]:
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(data, MOST_BYTES)
    if not unpacker.eof:
        raise ValueError(f"cut short, or more than {MOST_BYTES >> 30} GiB")
    return msgspec.msgpack.decode(content, type=dict[str, np.ndarray], ext_hook=_array)


def _array(code: int, data: memoryview) -> NDArray[Any]:
    if code == NDARRAY:
        shape, name, raw = msgspec.msgpack.decode(data, type=tuple[list[int], str, bytes])
        if name not in DTYPES:
            raise ValueError(f"an array of {name!r}, expected one of {', '.join(sorted(DTYPES))}")
        values = np.frombuffer(raw, name) if raw else np.empty(0, name)
    elif code == BYTES_NDARRAY:
        shape, items = msgspec.msgpack.decode(data, type=tuple[list[int], list[bytes]])
        values = np.empty(len(items), object)
        values[:] = items
    else:
        raise ValueError(f"msgpack extension {code}, expected {NDARRAY} or {BYTES_NDARRAY}")
    if not shape or min(shape) < 0 or math.prod(shape) != len(values):
        raise ValueError(f"shape {shape} with {len(values)} values")
    return values.reshape(shape[0], math.prod(shape[1:])) if len(shape) > 1 else values
