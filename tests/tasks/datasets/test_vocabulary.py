import io
import tarfile

import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import vocabulary

COUNTS = b"the 90\nto 70\na 70\nj\xc3\xbcrgen 3\n"
WORDS = [b"the", b"to", b"a", "jürgen".encode()]


def counts(tmp_path, content=COUNTS):
    path = tmp_path / "stackoverflow.word_count"
    path.write_bytes(content)
    return path


def packed(tmp_path, members):
    path = tmp_path / "stackoverflow.word_count.tar.bz2"
    with tarfile.open(path, "w:bz2") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_the_first_lines(tmp_path):
    path = counts(tmp_path)
    assert vocabulary.from_counts(path, 10) == WORDS
    assert vocabulary.from_counts(path, 2) == WORDS[:2]


def test_only_as_much_as_needed_is_read(tmp_path):
    assert vocabulary.from_counts(counts(tmp_path, COUNTS + b"\xff damaged"), 4) == WORDS


def test_the_archive_that_it_comes_in(tmp_path):
    path = packed(tmp_path, {"README": b"", "some/stackoverflow.word_count": COUNTS})
    assert vocabulary.from_counts(path, 3) == WORDS[:3]


@pytest.mark.parametrize("name", ["../stackoverflow.word_count", "/stackoverflow.word_count"])
def test_archives_that_escape(tmp_path, name):
    before = sorted(tmp_path.parent.rglob("*"))
    with pytest.raises(BadInput, match="would leave the archive"):
        vocabulary.from_counts(packed(tmp_path, {name: COUNTS}), 3)
    added = set(tmp_path.parent.rglob("*")) - set(before)
    assert added == {tmp_path / "stackoverflow.word_count.tar.bz2"}


def test_archives_without_it_or_cut_short(tmp_path):
    with pytest.raises(BadInput, match=r"no stackoverflow\.word_count in it"):
        vocabulary.from_counts(packed(tmp_path, {"other": COUNTS}), 3)
    path = packed(tmp_path, {"stackoverflow.word_count": COUNTS})
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadInput, match="not a whole archive"):
        vocabulary.from_counts(path, 3)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "no words"),
        (b"the\n", "line 1: b'the"),
        (b"the 90\nto of 70\n", "line 2: b'to of"),
        (b"the ninety\n", "line 1"),
        (b"the -3\n", "line 1"),
        (b"the 90\n\n", "line 2"),
        (b"the 90", "line 1"),  # cut short: the count may be 900
        (b"to 70\nthe 90\n", "line 2: b'the' with 90, .*descending"),
        (b"the 90\nthe 90\n", "line 2: .*every word once"),
        (b"the " + b"9" * 5000 + b"\n", "line 1"),
        (b"x" * 10**6, "line 1"),
    ],
)
def test_malformed(tmp_path, content, message):
    path = counts(tmp_path, content)
    with pytest.raises(BadInput, match=message) as caught:
        vocabulary.from_counts(path, 100)
    assert str(path) in str(caught.value) and len(str(caught.value)) < 400


def test_not_there(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        vocabulary.from_counts(tmp_path / "none", 3)


def test_counted_by_users():
    often = [b"zebra zebra zebra zebra", b"zebra zebra"]  # one user's word, however often
    users = [often, [b"to the"], [b"the to", b"b"], [b"a b a", b"a"]]
    assert vocabulary.from_users(users, 10) == [b"b", b"the", b"to", b"a", b"zebra"]
    assert vocabulary.from_users(users, 3) == [b"b", b"the", b"to"]
