"""Writers of the formats that stragglers.data reads; small, and only for tests."""

import sqlite3
import struct
import zlib
from pathlib import Path

import msgspec
import numpy as np


def varint(value):
    value &= 2**64 - 1  # two's complement
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def feature(values, packed=True):
    values = list(np.ravel(np.asarray(values, object)))
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if isinstance(values[0], float | np.floating):
        raw = [struct.pack("<f", value) for value in values]
        return field(2, field(1, b"".join(raw)) if packed else b"".join(b"\x0d" + v for v in raw))
    raw = [varint(int(value)) for value in values]
    return field(3, field(1, b"".join(raw)) if packed else b"".join(b"\x08" + v for v in raw))


def example(features, packed=True):
    entries = [
        field(1, field(1, name.encode()) + field(2, feature(values, packed)))
        for name, values in features.items()
    ]
    return field(1, b"".join(entries))


def tff_hdf5(path, clients):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_group("examples")
        for client, fields in clients.items():
            for name, values in fields.items():
                values = np.asarray(values)
                kind = h5py.string_dtype() if values.dtype.kind in "OS" else values.dtype
                file.create_dataset(f"examples/{client}/{name}", data=values.astype(kind))
    return Path(path)


def tff_sqlite(path, splits, *, index=True, metadata=True, shuffled=False):
    """{split: {client: {field: values}}}; shuffled: rows of the clients alternate."""
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)"
        )
        if index:
            db.execute("CREATE INDEX by_client ON examples (split_name, client_id)")
        rows = [
            (number, split, client, example({name: v[number] for name, v in fields.items()}))
            for split, clients in splits.items()
            for client, fields in clients.items()
            for number in range(len(next(iter(fields.values()))))
        ]
        rows = [row[1:] for row in (sorted(rows, key=lambda r: r[0]) if shuffled else rows)]
        db.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)
        if metadata:
            db.execute(
                "CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INT)"
            )
            db.executemany(
                "INSERT INTO client_metadata VALUES (?, ?, ?)",
                [
                    (client, split, len(next(iter(fields.values()))))
                    for split, clients in splits.items()
                    for client, fields in clients.items()
                ],
            )
    db.close()
    return Path(path)


def fedjax_blob(fields):
    def pack(value):
        array = np.asarray(value)
        if array.dtype.kind in "OS":
            flat = [bytes(item) for item in array.ravel()]
            return msgspec.msgpack.Ext(4, msgspec.msgpack.encode((array.shape, flat)))
        content = (array.shape, array.dtype.name, array.tobytes())
        return msgspec.msgpack.Ext(1, msgspec.msgpack.encode(content))

    return msgspec.msgpack.encode({name: pack(values) for name, values in fields.items()})


def fedjax_sqlite(path, clients):
    rows = [
        (client.encode(), zlib.compress(fedjax_blob(fields)), len(next(iter(fields.values()))))
        for client, fields in clients.items()
    ]
    return fedjax_rows(path, rows)


def fedjax_rows(path, rows):
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE federated_data (client_id BLOB NOT NULL PRIMARY KEY, "
            "data BLOB NOT NULL, num_examples INTEGER NOT NULL)"
        )
        db.executemany("INSERT INTO federated_data VALUES (?, ?, ?)", rows)
    db.close()
    return Path(path)
