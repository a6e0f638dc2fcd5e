import lzma
import shutil

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets.stackoverflow import Prepared, encoder, find, prepared, tag_test
from tests.support import files

WORDS = [b"the", b"join", b"to", b"select"]
OOV = 3 + len(WORDS)


def user(*sentences):
    """Sentences as (words, tags)."""
    columns = [np.array([s[i].encode() for s in sentences], object) for i in (0, 1)]
    return {"tokens": columns[0], "tags": columns[1], "score": np.arange(len(sentences))}


TRAIN = {
    "8": user(("the join", "sql|join"), ("select", "c")),
    "31": user(("to the", "c++|c"), ("join", "java")),
    "4": user(("the select the join", "math.js|discrete-math")),
    "77": user(("unknown the", "java|math")),
}
TEST = {
    "31": user(("the", "java"), ("join the unknown", "math")),
    "5": user(("to select", "c++")),
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path / "cache"))


def hdf5(folder):
    files.tff_hdf5(folder / "stackoverflow_train.h5", TRAIN)
    files.tff_hdf5(folder / "stackoverflow_test.h5", TEST)


def sqlite(folder):
    splits = {"train": TRAIN, "heldout": {"1": TEST["5"]}, "test": TEST}
    return files.tff_sqlite(folder / "stackoverflow.sqlite", splits)


def packed(folder):
    plain = sqlite(folder)
    (folder / "stackoverflow.sqlite.lzma").write_bytes(lzma.compress(plain.read_bytes()))
    plain.unlink()


def fedjax(folder):
    by_id = dict(sorted(TRAIN.items())), dict(sorted(TEST.items()))
    files.fedjax_sqlite(folder / "stackoverflow_train.sqlite", by_id[0])
    files.fedjax_sqlite(folder / "stackoverflow_test.sqlite", by_id[1])


@pytest.mark.parametrize("write", [hdf5, sqlite, packed, fedjax])
def test_every_layout(tmp_path, write):
    write(tmp_path)
    (tmp_path / "stackoverflow.word_count").write_bytes(b"the 9\njoin 8\nto 8\nselect 7\nmore 6\n")
    data = prepared(tmp_path, ("math", "c++"), 4)
    #                         31: to the, join      4       77           8: the join, select
    assert data.examples.tolist() == [2, 1, 1, 2]
    assert data.tokens.tolist() == [3 + 2, 5, 3, 3 + 2]
    assert data.straggler.tolist() == [True, False, True, False]
    assert [row[row > 0].tolist() for row in data.sentences] == [
        [1, 5, 3, 2],
        [1, 4, 2],
        [1, 3, 6, 3, 4, 2],
        [1, OOV, 3, 2],
        [1, 3, 4, 2],
        [1, 6, 2],
    ]
    assert [row[row > 0].tolist() for row in data.test_sentences] == [
        [1, 3, 2],
        [1, 4, 3, OOV, 2],
        [1, 5, 6, 2],
    ]
    assert data.test_straggler.tolist() == [False, True, True]  # by the sentence's own tags
    assert data.test_user.tolist() == [0, 0, -1]
    assert bytes(data.text) == b"the\njoin\nto\nselect\n"
    assert data.words == 4


def test_words_counted_in_the_training_data(tmp_path):
    hdf5(tmp_path)
    data = prepared(tmp_path, ("math",), 10)
    assert bytes(data.text) == b"the\njoin\nselect\nto\nunknown\n"
    assert data.straggler.tolist() == [False, False, True, False]


def test_prepared_once_for_equal_settings(tmp_path):
    hdf5(tmp_path)
    first = prepared(tmp_path, ("math", "c++"), 4)
    again = prepared(tmp_path, ("c++", "math"), 4)
    assert first.sentences.filename == again.sentences.filename
    assert prepared(tmp_path, ("c",), 4).sentences.filename != first.sentences.filename
    for name in Prepared._fields:
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))


def by_the_book(text, words):
    """As FedJAX does it: bos, words, eos; all but the last, all but the first; cut and padded."""
    ids = [1, *(3 + words.index(w) if w in words else OOV for w in text.split()), 2]
    fit = lambda row: (row + [0] * 20)[:20]  # noqa: E731
    return fit(ids[:-1]), fit(ids[1:])


@pytest.mark.parametrize("length", [0, 1, 2, 18, 19, 20, 21, 40])
def test_sentences_of_any_length(length):
    rng = np.random.default_rng(length)
    text = b" ".join(rng.choice([*WORDS, b"strange"], length).tolist())
    (row,) = encoder(WORDS)([text])
    x, y = by_the_book(text, WORDS)
    assert row.dtype == np.uint16
    assert row[1:].tolist() == y
    # FedJAX leaves the end of the sentence out of the input; nothing that counts comes after it.
    assert np.where(row[1:], row[:-1], 0).tolist() == x


def test_tags_are_whole():
    tagged = tag_test(("math", "c++"))
    assert [tagged(tags) for tags in (b"math", b"c|c++", b"a|math|b")] == [True] * 3
    assert [tagged(tags) for tags in (b"", b"maths", b"c", b"MATH", b"c+|+")] == [False] * 5


def test_a_file_stands_for_its_folder(tmp_path):
    path = sqlite(tmp_path)
    hdf5(tmp_path)
    assert find(path).train == path
    assert find(tmp_path).train == tmp_path / "stackoverflow_train.h5"
    (tmp_path / "stackoverflow_test.h5").unlink()
    assert find(tmp_path).train == path


def test_nothing_there(tmp_path):
    fedjax(tmp_path)
    (tmp_path / "stackoverflow_test.sqlite").unlink()
    for path in (tmp_path, tmp_path / "none", tmp_path / "stackoverflow_train.sqlite"):
        with pytest.raises(BadInput, match=f"{path}: no StackOverflow data, expected one of: stac"):
            find(path)


def test_wrong_fields(tmp_path):
    hdf5(tmp_path)
    for fields in ({"tokens": [1, 2]}, {"tokens": [b"a"], "tags": [3]}, {"tokens": [b"a"]}):
        files.tff_hdf5(tmp_path / "stackoverflow_train.h5", {"8": fields})
        with pytest.raises(BadInput, match=r"stackoverflow_train\.h5.*'8'"):
            prepared(tmp_path, ("math",), 4)
    files.tff_hdf5(tmp_path / "stackoverflow_train.h5", {"8": user(("", "math"))})
    with pytest.raises(BadInput, match="not a single word"):
        prepared(tmp_path, ("math",), 4)
    assert not [path for path in (tmp_path / "cache" / "data").iterdir() if path.is_dir()]


def test_too_many_words(tmp_path):
    for words in (0, 65_533):
        with pytest.raises(BadInput, match="expected from 1 to 65,532 words"):
            prepared(tmp_path, ("math",), words)


def test_a_damaged_source_does_not_replace_what_was_made(tmp_path):
    hdf5(tmp_path)
    whole = shutil.copy2(tmp_path / "stackoverflow_test.h5", tmp_path / "whole")
    prepared(tmp_path, ("math",), 4)
    (tmp_path / "stackoverflow_test.h5").write_bytes(b"\x89HDF\r\n\x1a\n and no more")
    with pytest.raises(BadInput, match=r"stackoverflow_test\.h5: cannot be read as HDF5"):
        prepared(tmp_path, ("math",), 4)
    shutil.copy2(whole, tmp_path / "stackoverflow_test.h5")
    assert prepared(tmp_path, ("math",), 4).words == 4
