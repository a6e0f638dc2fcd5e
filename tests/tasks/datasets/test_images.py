"""Both data sets from every layout that may hold them: equal contents, and refusals."""

import lzma
import shutil

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers._core.jax_env import cache_folder
from stragglers.tasks.datasets import images
from stragglers.tasks.datasets.cifar100_layouts import CIFAR100
from stragglers.tasks.datasets.emnist_layouts import EMNIST
from tests.support import files, pictures

TRAIN, TEST = pictures.drawings([9, 4, 0, 6]), pictures.drawings([2, 0, 1, 3], seed=1)
PHOTOS, TEST_PHOTOS = pictures.photographs([6, 3] + [2] * 9), pictures.photographs([2, 2], seed=1)
RAW = pictures.everything((200, 100))


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path_factory.mktemp("cache")))


def cifar_hdf5(folder, train=PHOTOS, test=TEST_PHOTOS):
    files.tff_hdf5(folder / "fed_cifar100_train.h5", train)
    files.tff_hdf5(folder / "fed_cifar100_test.h5", test)


def cifar_sqlite(folder):
    splits = {"train": pictures.flat(PHOTOS), "test": pictures.flat(TEST_PHOTOS)}
    files.tff_sqlite(folder / "cifar100.sqlite", splits)


def cifar_lzma(folder):
    cifar_sqlite(folder)
    plain = folder / "cifar100.sqlite"
    (folder / "cifar100.sqlite.lzma").write_bytes(lzma.compress(plain.read_bytes(), preset=0))
    plain.unlink()


def raw_files(folder, suffix, content):
    folder.mkdir(exist_ok=True)
    for split in ("train", "test"):
        (folder / f"{split}{suffix}").write_bytes(content(*RAW[split]))


def raw_archive(path, suffix, content):
    members = [(f"{path.name}/{s}{suffix}", content(*RAW[s])) for s in ("train", "test")]
    pictures.tar(path, members)


EMNIST_LAYOUTS = {
    "HDF5": pictures.emnist_hdf5,
    "SQLite": pictures.emnist_sqlite,
    "SQLite.lzma": pictures.emnist_lzma,
    "FedJAX": pictures.emnist_fedjax,
    "LEAF": pictures.emnist_leaf,
    "LEAF under data": lambda folder, *parts: pictures.emnist_leaf(folder / "data", *parts),
}
CIFAR_LAYOUTS = {"HDF5": cifar_hdf5, "SQLite": cifar_sqlite, "SQLite.lzma": cifar_lzma}
RAW_LAYOUTS = {
    "binary": lambda f: raw_files(f, ".bin", pictures.record_bytes),
    "binary below": lambda f: raw_files(f / "cifar-100-binary", ".bin", pictures.record_bytes),
    "pickles": lambda f: raw_files(f, "", pictures.pickled),
    "pickles below": lambda f: raw_files(f / "cifar-100-python", "", pictures.pickled),
    "binary.tar.gz": lambda f: raw_archive(
        f / "cifar-100-binary.tar.gz", ".bin", pictures.record_bytes
    ),
    "python.tar.gz": lambda f: raw_archive(f / "cifar-100-python.tar.gz", "", pictures.pickled),
}


def loaded(kind, folder):
    return images.load(kind, images.find(kind, folder))


def without_empty(clients):
    """SQLite has rows of examples, so a client without any is not in it."""
    return {name: fields for name, fields in clients.items() if len(fields["label"])}


def check_emnist(data, train, test):
    labels = np.concatenate([fields["label"] for fields in train.values()])
    np.testing.assert_array_equal(data.y, labels)
    pixels = np.concatenate([fields["pixels"] for fields in train.values()])
    assert data.x.dtype == data.test_x.dtype == np.uint8 and data.x.shape == (len(labels), 28, 28)
    np.testing.assert_allclose(data.x / 255, pixels, atol=1e-6)
    np.testing.assert_array_equal(np.diff(data.offsets), [len(f["label"]) for f in train.values()])
    names = list(train)
    owner = [names.index(name) for name, fields in test.items() for _ in fields["label"]]
    np.testing.assert_array_equal(data.test_client, owner)
    np.testing.assert_array_equal(data.test_y, np.concatenate([f["label"] for f in test.values()]))


@pytest.mark.parametrize("layout", EMNIST_LAYOUTS)
def test_emnist_is_the_same_from_every_layout(tmp_path, layout):
    train = without_empty(TRAIN) if "SQLite" in layout else TRAIN
    test = {name: TEST[name] for name in train}
    EMNIST_LAYOUTS[layout](tmp_path, train, without_empty(test))
    data = loaded(EMNIST, tmp_path)
    check_emnist(data, train, test)
    again = loaded(EMNIST, tmp_path)  # from the cache
    for name, array in data._asdict().items():
        np.testing.assert_array_equal(array, getattr(again, name))


def test_emnist_from_parquet_is_split_here(tmp_path):
    rows = [
        (np.rint(255 * image).astype(np.uint8), name, int(label))
        for name, fields in TRAIN.items()
        for image, label in zip(fields["pixels"], fields["label"])
    ]
    pictures.parquet(tmp_path / "data/train-00000-of-00001.parquet", rows)
    data = loaded(EMNIST, tmp_path)
    assert np.diff(data.offsets).tolist() == [8, 3, 5]  # one of each writer is held out
    assert data.test_client.tolist() == [0, 1, 2]
    found = images.find(EMNIST, tmp_path)
    assert "a tenth of each writer's drawings held out here" in images.origin(
        EMNIST, found, data, 3
    )


@pytest.mark.parametrize("layout", CIFAR_LAYOUTS)
def test_cifar_is_the_same_from_every_layout_with_clients(tmp_path, layout):
    CIFAR_LAYOUTS[layout](tmp_path)
    data = loaded(CIFAR100, tmp_path)
    assert np.diff(data.offsets).tolist() == [6, 3] + [2] * 9  # by number: 10 after 9, not after 1
    np.testing.assert_array_equal(data.x, np.concatenate([f["image"] for f in PHOTOS.values()]))
    np.testing.assert_array_equal(data.y, np.concatenate([f["label"] for f in PHOTOS.values()]))
    np.testing.assert_array_equal(
        data.test_x, np.concatenate([f["image"] for f in TEST_PHOTOS.values()])
    )


@pytest.mark.parametrize("layout", RAW_LAYOUTS)
def test_cifar_is_the_same_from_every_layout_without_clients(tmp_path, layout):
    RAW_LAYOUTS[layout](tmp_path)
    found = images.find(CIFAR100, tmp_path)
    data = images.load(CIFAR100, found)
    assert not found.layout.partitioned and data.offsets.tolist() == [0, 200]
    for split, x, y in (("train", data.x, data.y), ("test", data.test_x, data.test_y)):
        np.testing.assert_array_equal(x, RAW[split][0])
        np.testing.assert_array_equal(y, RAW[split][1])


def test_layouts_of_equal_images_have_one_digest(tmp_path):
    found = []
    for layout in ("binary", "pickles below"):
        (tmp_path / layout).mkdir()
        RAW_LAYOUTS[layout](tmp_path / layout)
        loaded(CIFAR100, tmp_path / layout)
        found.append(images.digest(CIFAR100, images.find(CIFAR100, tmp_path / layout)))
    assert found[0] and found[0] == found[1]


def test_a_file_stands_for_those_that_belong_to_it(tmp_path):
    pictures.emnist_hdf5(tmp_path, TRAIN, TEST)
    pictures.emnist_fedjax(tmp_path, TRAIN, TEST)
    folder = images.find(EMNIST, tmp_path)
    assert folder == images.find(EMNIST, tmp_path / "fed_emnist_test.h5")
    other = images.find(EMNIST, tmp_path / "federated_emnist_train.sqlite")
    assert (folder.layout.name, other.layout.name) == ("TFF's HDF5", "FedJAX's SQLite")


def test_pixels_between_bytes_stay_floats(tmp_path):
    train = {"a": TRAIN["f0000_00"], "b": {**TRAIN["f0001_01"]}}
    train["b"]["pixels"] = train["b"]["pixels"] * np.float32(0.99)
    pictures.emnist_hdf5(tmp_path, train, {"a": TEST["f0000_00"]})
    data = loaded(EMNIST, tmp_path)
    assert data.x.dtype == data.test_x.dtype == np.float32
    pixels = np.concatenate([fields["pixels"] for fields in train.values()])
    np.testing.assert_allclose(data.x, pixels, atol=1e-7)


def test_test_clients_without_training_data_are_nobody(tmp_path):
    pictures.emnist_hdf5(tmp_path, TRAIN, {"f0003_03": TEST["f0003_03"], "x": TEST["f0000_00"]})
    assert loaded(EMNIST, tmp_path).test_client.tolist() == [-1, -1, 3, 3, 3]


@pytest.mark.parametrize(
    ("clients", "said"), [(3_400, "as published"), (3_399, "(published: 3,400")]
)
def test_origin_compares_with_the_published_counts(tmp_path, clients, said):
    pictures.emnist_hdf5(tmp_path, TRAIN, TEST)
    found = images.find(EMNIST, tmp_path)
    data = loaded(EMNIST, tmp_path)._replace(y=np.empty(671_585), test_y=np.empty(77_483))
    text = images.origin(EMNIST, found, data, clients)
    assert text.startswith("EMNIST from TFF's HDF5: ") and said in text


def broken(clients, client="f0001_01", **changes):
    """The clients with fields of one of them changed, or left out if None."""
    fields = {**clients[client], **changes}
    return {**clients, client: {name: v for name, v in fields.items() if v is not None}}


FOUR = TRAIN["f0001_01"]["pixels"]
BAD_EMNIST = {
    "label": (dict(label=np.array([1, 2, 62, 3])), "client 'f0001_01': label 62, expected 0 to 61"),
    "negative": (dict(label=np.array([1, 2, -1, 3])), "label -1, expected 0 to 61"),
    "floats": (dict(label=np.array([1.0, 2, 3, 4])), "labels float64"),
    "no label": (dict(label=None), "no field 'label'"),
    "no pixels": (dict(pixels=None), "no field 'pixels'"),
    "lengths": (dict(label=np.array([1, 2, 3])), "unequal lengths"),
    "size": (dict(pixels=FOUR[:, :27]), r"pixels \(4, 756\), expected 28 by 28"),
    "range": (dict(pixels=255 * FOUR), "pixels beyond 0 to 1"),
    "nan": (dict(pixels=FOUR * np.float32("nan")), "pixels beyond 0 to 1"),
    "inverted": (dict(pixels=1 - FOUR), "are the images inverted"),
}


def refused(kind, folder, message=None, name=""):
    with pytest.raises(BadInput, match=message) as error:
        loaded(kind, folder)
    assert name in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("what", BAD_EMNIST)
def test_refuses_drawings(tmp_path, what):
    changes, message = BAD_EMNIST[what]
    pictures.emnist_hdf5(tmp_path, broken(TRAIN, **changes), TEST)
    refused(EMNIST, tmp_path, message, "fed_emnist_train.h5")
    left = [path.name for path in cache_folder().rglob("*") if path.suffix != ".lock"]
    assert left == ["data"]  # no prepared array, and no part of one


ONE = {name: values[:1] for name, values in PHOTOS["0"].items()}
BAD_CIFAR = {
    "label": (dict(label=np.array([100]), coarse_label=None), "label 100, expected 0 to 99"),
    "coarse": (dict(coarse_label=(ONE["coarse_label"] + 1) % 20), "image 0: fine label"),
    "size": (dict(image=ONE["image"][:, 1:]), "expected 32 by 32 by 3"),
    "floats": (dict(image=ONE["image"] / 255), "expected 32 by 32 by 3 whole numbers"),
    "range": (dict(image=ONE["image"].astype(np.int64) + 1), "expected 0 to 255"),
    "no image": (dict(image=None), "no field 'image'"),
    "no label": (dict(label=None), "no field 'label'"),
}


@pytest.mark.parametrize("what", BAD_CIFAR)
def test_refuses_photographs(tmp_path, what):
    changes, message = BAD_CIFAR[what]
    cifar_hdf5(tmp_path, broken({**PHOTOS, "1": ONE}, "1", **changes))
    refused(CIFAR100, tmp_path, message, "fed_cifar100_train.h5")


def test_refuses_swapped_files(tmp_path):
    pictures.emnist_hdf5(tmp_path, TEST, TRAIN)
    refused(EMNIST, tmp_path, "19 test examples but 6 to train on; were the files swapped")


def test_refuses_the_other_data_set(tmp_path):
    cifar_hdf5(tmp_path)
    for split in ("train", "test"):
        shutil.copy(tmp_path / f"fed_cifar100_{split}.h5", tmp_path / f"fed_emnist_{split}.h5")
    refused(EMNIST, tmp_path, "no field 'pixels'", "fed_emnist_train.h5")


def test_refuses_a_client_that_is_there_twice(tmp_path):
    pictures.leaf_json(tmp_path / "train/a.json", TRAIN)
    pictures.leaf_json(tmp_path / "train/b.json", TRAIN)
    pictures.leaf_json(tmp_path / "test/a.json", TEST)
    refused(EMNIST, tmp_path, "client 'f0000_00' is there twice", "train")


@pytest.mark.parametrize("layout", ["HDF5", "SQLite", "FedJAX", "LEAF", "SQLite.lzma"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.97])
def test_refuses_truncated_files(tmp_path, layout, share):
    EMNIST_LAYOUTS[layout](tmp_path, without_empty(TRAIN), without_empty(TEST))
    path = images.find(EMNIST, tmp_path).train[-1]
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(EMNIST, tmp_path, name=path.name)


@pytest.mark.parametrize(
    "kind, layout",
    [
        (EMNIST, "HDF5"),
        (EMNIST, "SQLite"),
        (EMNIST, "FedJAX"),
        (EMNIST, "LEAF"),
        (CIFAR100, "HDF5"),
        (CIFAR100, "pickles"),
        (CIFAR100, "binary.tar.gz"),
    ],
)
def test_flipped_bits_are_refused_in_one_line_or_harmless(tmp_path, kind, layout):
    """Where a layout has no checksum, a pixel may change; nothing else may happen."""
    if kind is EMNIST:
        EMNIST_LAYOUTS[layout](tmp_path, without_empty(TRAIN), without_empty(TEST))
    else:
        (CIFAR_LAYOUTS | RAW_LAYOUTS)[layout](tmp_path)
    found = images.find(kind, tmp_path)
    path, rng, refusals = found.train[0], np.random.default_rng(0), 0
    whole = path.read_bytes()
    for _ in range(40):
        place = int(rng.integers(min(len(whole), int(rng.choice([200, 4000, len(whole)])))))
        flipped = bytes([whole[place] ^ (1 << int(rng.integers(8)))])
        path.write_bytes(whole[:place] + flipped + whole[place + 1 :])
        try:
            data = images.read(kind, found)
        except BadInput as error:
            refusals += 1
            assert "\n" not in str(error) and str(tmp_path) in str(error)
        else:
            assert data.x.dtype in (np.uint8, np.float32)  # floats: a pixel between two bytes
            assert 0 <= data.y.min() <= data.y.max() < kind.classes
    assert refusals > 3


def test_says_which_half_is_missing(tmp_path):
    pictures.leaf_json(tmp_path / "train/a.json", TRAIN)
    refused(EMNIST, tmp_path, r"a\.json without test/\*\.json; expected both")
    (tmp_path / "fed_emnist_test.h5").write_bytes(b"")
    refused(EMNIST, tmp_path, r"fed_emnist_test\.h5 without fed_emnist_train\.h5; expected both")


@pytest.mark.parametrize("kind", [EMNIST, CIFAR100])
def test_says_what_it_looked_for(tmp_path, kind):
    refused(kind, tmp_path, rf"no files of {kind.name}; expected one of: fed_\w+_train\.h5 and ")
    refused(kind, tmp_path / "gone", "no such folder or file")
    (tmp_path / "notes.txt").write_text("hello")
    refused(kind, tmp_path / "notes.txt", f"no files of {kind.name}")
