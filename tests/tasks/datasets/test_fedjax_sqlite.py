import zlib

import msgspec
import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import fedjax_sqlite, tff
from tests.support import files
from tests.tasks.datasets.test_tff import TRAIN, assert_equal


def test_as_the_other_formats(tmp_path):
    path = files.fedjax_sqlite(tmp_path / "a.sqlite", TRAIN)
    assert_equal(fedjax_sqlite.clients(path), TRAIN, order=list)
    assert fedjax_sqlite.client_count(path) == len(TRAIN)
    one = {client: {"label": fields["label"]} for client, fields in TRAIN.items()}
    assert_equal(fedjax_sqlite.clients(path, ["label"]), one, order=list)


def test_examples_of_any_shape_are_rows(tmp_path):
    images = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)
    path = files.fedjax_sqlite(tmp_path / "a.sqlite", {"a": {"image": images}})
    assert_equal(fedjax_sqlite.clients(path), {"a": {"image": images.reshape(2, 12)}})


def ext(code, content):
    packed = msgspec.msgpack.Ext(code, msgspec.msgpack.encode(content))
    return zlib.compress(msgspec.msgpack.encode({"x": packed}))


@pytest.mark.parametrize(
    "data, message",
    [
        (b"not zlib", "incorrect header"),
        (zlib.compress(b"\xc1"), "malformed"),
        (zlib.compress(msgspec.msgpack.encode({"x": 1})), r"Expected `numpy\.ndarray`"),
        (zlib.compress(msgspec.msgpack.encode([1])), "Expected `object`"),
        (ext(1, ((2,), "object", b"12345678" * 2)), "an array of 'object'"),
        (ext(1, ((2,), "float32", b"1234")), r"shape \[2\] with 1 values"),
        (ext(1, ((2,), "float32", b"12345")), "buffer size must be a multiple"),
        (ext(1, ((2**62, 4), "uint8", b"12")), "with 2 values"),
        (ext(1, ((-1, -2), "uint8", b"12")), "with 2 values"),
        (ext(1, ((), "uint8", b"1")), "with 1 values"),
        (ext(4, ((3,), [b"a", b"b"])), r"shape \[3\] with 2 values"),
        (ext(4, ((2,), [b"a", 7])), "Expected `bytes`"),
        (ext(2, (1.0, 2.0)), "msgpack extension 2"),
        (zlib.compress(b"\0" * 1000)[:-3], "cut short"),
        ("text", "client 'a'"),
        (files.fedjax_blob({"x": np.zeros(2)}), "incorrect header"),
    ],
)
def test_malformed(tmp_path, data, message):
    path = files.fedjax_rows(tmp_path / "a.sqlite", [(b"a", data, 2)])
    with pytest.raises(BadInput, match=message) as caught:
        list(fedjax_sqlite.clients(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_unequal_lengths(tmp_path):
    data = zlib.compress(files.fedjax_blob({"x": np.zeros(2), "y": np.zeros(3)}))
    for count in (2, 3):
        path = files.fedjax_rows(tmp_path / f"{count}.sqlite", [(b"a", data, count)])
        with pytest.raises(BadInput, match=f"expected {count} examples"):
            list(fedjax_sqlite.clients(path))


def test_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(fedjax_sqlite, "MOST_BYTES", 1 << 20)
    data = zlib.compress(files.fedjax_blob({"x": np.zeros(1 << 20, np.uint8)}))
    path = files.fedjax_rows(tmp_path / "a.sqlite", [(b"a", data, 1 << 20)])
    with pytest.raises(BadInput, match="cut short, or more than"):
        list(fedjax_sqlite.clients(path))


def test_the_wrong_kind_of_file(tmp_path):
    other = files.tff_sqlite(tmp_path / "tff.sqlite", {"train": TRAIN})
    with pytest.raises(BadInput, match="no table 'federated_data'"):
        list(fedjax_sqlite.clients(other))
    path = files.fedjax_sqlite(tmp_path / "a.sqlite", TRAIN)
    with pytest.raises(BadInput, match="no table 'examples'"):
        list(tff.clients(path))
    with pytest.raises(BadInput, match="no clients"):
        list(fedjax_sqlite.clients(files.fedjax_rows(tmp_path / "empty.sqlite", [])))
    with pytest.raises(BadInput, match="has no field 'image'"):
        list(fedjax_sqlite.clients(path, ["image"]))
    hdf5 = files.tff_hdf5(tmp_path / "a.h5", TRAIN)
    with pytest.raises(BadInput, match=f"{hdf5}: not an SQLite file"):
        list(fedjax_sqlite.clients(hdf5))
