import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import parquet
from tests.support import pictures

RNG = np.random.default_rng(0)


def rows(writer, count):
    return [
        (RNG.integers(200, 256, (28, 28)).astype(np.uint8), writer, int(label))
        for label in RNG.integers(0, 62, count)
    ]


def test_writers_are_gathered_across_files_in_their_order(tmp_path):
    ours, theirs = rows("f0001_00", 30), rows("f0000_00", 12)
    mixed = [row for pair in zip(ours, theirs) for row in pair] + ours[12:20]
    paths = [
        pictures.parquet(tmp_path / "train-00000-of-00002.parquet", mixed),
        pictures.parquet(tmp_path / "train-00001-of-00002.parquet", ours[20:]),
    ]
    writers = parquet.writers(paths)
    for name, expected in (("f0001_00", ours), ("f0000_00", theirs)):
        pixels, labels = writers[name]
        np.testing.assert_array_equal(pixels, [image for image, _, _ in expected])
        assert labels.tolist() == [label for _, _, label in expected]


def test_a_tenth_of_each_writer_is_held_out_whoever_else_is_there():
    images = RNG.integers(0, 256, (47, 28, 28)).astype(np.uint8)
    everybody = {"a": (images, np.arange(47)), "b": (images[:1], np.arange(1))}
    train, test = (dict(parquet.clients(everybody, split)) for split in ("train", "test"))
    assert len(test["a"]["label"]) == 5 and len(train["a"]["label"]) == 42
    assert sorted([*train["a"]["label"], *test["a"]["label"]]) == list(range(47))
    np.testing.assert_array_equal(test["a"]["pixels"], images[test["a"]["label"]])
    assert len(test["b"]["label"]) == 0 and len(train["b"]["label"]) == 1
    alone = dict(parquet.clients({"a": everybody["a"]}, "test"))
    np.testing.assert_array_equal(alone["a"]["label"], test["a"]["label"])


@pytest.mark.parametrize(("count", "tests"), [(0, 0), (1, 0), (2, 1), (14, 1), (15, 2), (100, 10)])
def test_how_many_are_held_out(count, tests):
    assert parquet.test_rows("f0000_00", count).sum() == tests
    chosen = {tuple(np.flatnonzero(parquet.test_rows(f"w{i}", 100))) for i in range(9)}
    assert len(chosen) == 9  # each writer has a choice of its own


def bad_rows():
    good = rows("w", 1)[0]
    return {
        "no image": [(None, "w", 3)],
        "not a PNG": [(b"GIF89a", "w", 3)],
        "cut PNG": [(pictures.png(good[0])[:60], "w", 3)],
        "size": [(np.zeros((27, 28), np.uint8), "w", 3)],
        "writer": [(good[0], None, 3)],
        "label": [(good[0], "w", None)],
    }


MESSAGES = {
    "no image": "no PNG in `image`",
    "not a PNG": "not a PNG image",
    "cut PNG": "not a PNG image",
    "size": "an image of 28 by 27 pixels, expected 28 by 28",
    "writer": "no writer_id or character",
    "label": "no writer_id or character",
}


@pytest.mark.parametrize("what", MESSAGES)
def test_refuses_rows(tmp_path, what):
    path = pictures.parquet(tmp_path / "a.parquet", rows("w", 2) + bad_rows()[what])
    with pytest.raises(BadInput, match=rf"a\.parquet: row 2: {MESSAGES[what]}"):
        parquet.writers([path])


def test_refuses_other_columns(tmp_path):
    path = pictures.parquet(tmp_path / "a.parquet", rows("w", 2), columns=("image", "character"))
    with pytest.raises(BadInput, match=r"a\.parquet: no column 'writer_id'"):
        parquet.writers([path])


@pytest.mark.parametrize("keep", [0, 50, -3])
def test_refuses_a_truncated_file(tmp_path, keep):
    path = pictures.parquet(tmp_path / "a.parquet", rows("w", 3))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BadInput, match=r"a\.parquet: not a whole Parquet file") as error:
        parquet.writers([path])
    assert "\n" not in str(error.value)
