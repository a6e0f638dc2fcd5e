import lzma
import sqlite3
import sys
import tracemalloc

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import tff
from tests.support import files

RNG = np.random.default_rng(0)


def made_up(clients, prefix="user"):
    """Clients whose ids are not in order, with 1 to 4 examples each."""
    sizes = {f"{prefix} {(7 * i) % 13:02}": 1 + i % 4 for i in range(clients)}
    return {
        name: {
            "pixels": RNG.random((n, 6)).astype(np.float32),
            "label": RNG.integers(-5, 300, n),
            "tokens": np.array([f"wörter {name} {i}".encode() for i in range(n)], object),
        }
        for name, n in sizes.items()
    }


TRAIN, TEST = made_up(9), made_up(5, "other")


def assert_equal(read, expected, order=sorted):
    read = list(read)
    assert [client for client, _ in read] == order(expected)
    for client, fields in read:
        assert fields.keys() == expected[client].keys()
        for name, values in fields.items():
            assert values.dtype.kind == np.asarray(expected[client][name]).dtype.kind
            np.testing.assert_array_equal(values, expected[client][name])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("STRAGGLERS_CACHE", str(folder))
    return folder


@pytest.fixture
def hdf5(tmp_path):
    return files.tff_hdf5(tmp_path / "train.h5", TRAIN)


@pytest.fixture
def sqlite(tmp_path):
    return files.tff_sqlite(tmp_path / "both.sqlite", {"train": TRAIN, "test": TEST})


def test_both_formats_give_the_same(hdf5, sqlite):
    assert_equal(tff.clients(hdf5), TRAIN)
    assert_equal(tff.clients(sqlite, "train"), TRAIN)
    assert_equal(tff.clients(sqlite, "test"), TEST)


def test_examples_of_any_shape_are_rows(tmp_path):
    images = {"a": {"image": RNG.integers(0, 256, (3, 4, 5, 3))}}
    flat = {"a": {"image": images["a"]["image"].reshape(3, 60)}}
    assert_equal(tff.clients(files.tff_hdf5(tmp_path / "i.h5", images)), flat)
    assert_equal(tff.clients(files.tff_sqlite(tmp_path / "i.sqlite", {"all": images})), flat)


def test_only_the_wanted_fields(hdf5, sqlite):
    expected = {client: {"label": fields["label"]} for client, fields in TRAIN.items()}
    assert_equal(tff.clients(hdf5, fields=["label"]), expected)
    assert_equal(tff.clients(sqlite, "train", ["label"]), expected)
    for path in (hdf5, sqlite):
        with pytest.raises(BadInput, match=f"{path}: client 'user 00' has no field 'image'"):
            list(tff.clients(path, "train", ["image"]))


@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_by_an_index(tmp_path, shuffled):
    path = files.tff_sqlite(tmp_path / "a.sqlite", {"train": TRAIN}, shuffled=shuffled)
    assert_equal(tff.clients(path), TRAIN)


def test_rows_without_an_index(tmp_path):
    path = files.tff_sqlite(tmp_path / "a.sqlite", {"train": TRAIN, "test": TEST}, index=False)
    assert_equal(tff.clients(path, "train"), TRAIN, order=list)
    path = files.tff_sqlite(tmp_path / "b.sqlite", {"train": TRAIN}, index=False, shuffled=True)
    with pytest.raises(BadInput, match="1 examples .* side by side, expected 2; .*CREATE INDEX"):
        list(tff.clients(path))
    change(path, "DROP TABLE client_metadata")
    with pytest.raises(BadInput, match="1 examples .* side by side, expected all; .*CREATE INDEX"):
        list(tff.clients(path))


def test_client_count(hdf5, sqlite, tmp_path):
    assert tff.client_count(sqlite, "train") == len(TRAIN)
    assert tff.client_count(hdf5) is None
    bare = files.tff_sqlite(tmp_path / "bare.sqlite", {"train": TRAIN}, metadata=False)
    assert tff.client_count(bare) is None
    assert_equal(tff.clients(bare), TRAIN)


@pytest.mark.parametrize("format", [lzma.FORMAT_XZ, lzma.FORMAT_ALONE])
def test_compressed(sqlite, cache, format):
    packed = sqlite.with_name("both.sqlite.lzma")
    packed.write_bytes(lzma.compress(sqlite.read_bytes(), format))
    assert_equal(tff.clients(packed, "train"), TRAIN)
    (place,) = [path for path in (cache / "unpacked").iterdir() if path.suffix != ".lock"]
    before = place.stat().st_mtime_ns
    assert_equal(tff.clients(packed, "test"), TEST)
    assert place.stat().st_mtime_ns == before


def test_compressed_and_damaged(sqlite, cache):
    packed = sqlite.with_name("both.sqlite.lzma")
    whole = lzma.compress(sqlite.read_bytes())
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    text = lzma.compress(b"no database at all")
    for content in (whole[:-100], bytes(flipped), text):
        packed.write_bytes(content)
        with pytest.raises(BadInput, match=str(packed)):
            list(tff.clients(packed, "train"))
        assert {path.suffix for path in (cache / "unpacked").iterdir()} == {".lock"}


def test_no_room_to_unpack(sqlite, cache, monkeypatch):
    packed = sqlite.with_name("both.sqlite.lzma")
    packed.write_bytes(lzma.compress(sqlite.read_bytes()))
    monkeypatch.setattr("stragglers.tasks.datasets.unpacked.SPARE", 2**60)
    with pytest.raises(BadInput, match="no room to unpack it .* set STRAGGLERS_CACHE"):
        list(tff.clients(packed, "train"))
    assert {path.suffix for path in (cache / "unpacked").iterdir()} == {".lock"}


def test_unknown_split(sqlite):
    for given, hint in (("trian", "did you mean 'train'"), (None, "expected one of: test, train")):
        with pytest.raises(BadInput, match=hint):
            list(tff.clients(sqlite, given))


@pytest.mark.parametrize("size", [0, 7, 99, 5000])
def test_cut_short(hdf5, sqlite, size):
    for path in (hdf5, sqlite):
        path.write_bytes(path.read_bytes()[:size])
        with pytest.raises(BadInput, match=str(path)):
            list(tff.clients(path, "train"))


def test_not_there(tmp_path):
    for path in (tmp_path / "none.h5", tmp_path):
        with pytest.raises(BadInput, match=f"{path}: cannot be read"):
            list(tff.clients(path))


def test_hdf5_without_the_groups(tmp_path):
    import h5py

    path = tmp_path / "other.h5"
    with h5py.File(path, "w") as file:
        file["images"] = np.zeros(3)
    with pytest.raises(BadInput, match="no group 'examples'"):
        list(tff.clients(path))
    with h5py.File(path, "w") as file:
        file["examples/a"] = np.zeros(3)
    with pytest.raises(BadInput, match="examples/a is no group"):
        list(tff.clients(path))
    with h5py.File(path, "w") as file:
        file["examples/a/label"], file["examples/a/pixels"] = np.zeros(3), np.zeros(2)
    with pytest.raises(BadInput, match="unequal lengths"):
        list(tff.clients(path))


def change(path, *statements):
    with sqlite3.connect(path) as db:
        for statement in statements:
            db.execute(statement)
    db.close()


@pytest.mark.parametrize(
    "statement, message",
    [
        ("DROP TABLE examples", "no table 'examples' with client_id"),
        ("ALTER TABLE examples DROP COLUMN serialized_example_proto", "no table 'examples' with"),
        ("DELETE FROM examples WHERE client_id = 'user 01'", "'user 01' has no examples"),
        ("DELETE FROM examples WHERE rowid = 2", "1 examples .* side by side, expected 2"),
        (
            "UPDATE examples SET serialized_example_proto = x'0a05' WHERE rowid = 1",
            "client 'user 00': not a tf.train.Example",
        ),
        ("UPDATE examples SET serialized_example_proto = 7 WHERE rowid = 1", r"not \(text, blob\)"),
        ("UPDATE examples SET client_id = x'ff' WHERE client_id = 'user 00'", "text, blob"),
    ],
)
def test_not_as_expected(sqlite, statement, message):
    change(sqlite, statement)
    with pytest.raises(BadInput, match=message) as caught:
        list(tff.clients(sqlite, "train"))
    assert str(sqlite) in str(caught.value) and "\n" not in str(caught.value)


def test_fields_of_other_lengths(tmp_path):
    ragged = {"a": {"pixels": [[0.5], [0.5, 1.0]]}}
    path = files.tff_sqlite(tmp_path / "r.sqlite", {"train": ragged})
    with pytest.raises(BadInput, match="'pixels' differs in length"):
        list(tff.clients(path))


def test_without_h5py(hdf5, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(BadInput, match=r"pip install 'stragglers\[data\]'"):
        list(tff.clients(hdf5))


@pytest.mark.slow
def test_memory_is_that_of_one_client(tmp_path):
    many = {f"{i:05}": {"tokens": [b"x" * 500] * 20} for i in range(2000)}  # 20 MB in all
    path = files.tff_sqlite(tmp_path / "many.sqlite", {"train": many})
    del many
    tracemalloc.start()
    count = sum(len(fields["tokens"]) for _, fields in tff.clients(path, "train", ["tokens"]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 40_000
    assert peak < 3e6
